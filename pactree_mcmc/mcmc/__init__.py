"""The sampler. From `pt.sample` to a draw: `sampling.sample` checks the arguments and makes a `run.run.Run`;
`course.run_to_end` tunes the chains and makes stretches of draws; `run.loop.advance` lets each chain do a work, such as
`run.run_chain.draw`; `chain.chain.Chain.run_blocks` makes the proposals of each move in `moves.base.make_steps`, which
accepts or rejects them; `chain.draw_store` saves the tree.
"""
