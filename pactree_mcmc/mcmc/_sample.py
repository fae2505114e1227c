"""pt.sample: chains in threads or on an executor, progress, interruption."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ..convergence import warn_if_unconverged
from ..evidence import gather
from ..model import LeafPenalty, TreeModel
from ..posterior import SampledPosterior
from ..trees import LEAF, Tree
from ._kernels import PROPOSALS_PER_DRAW, read_kernel
from ._run import Plan, Result, Run, run_chain
from ._tempering import read_ladder

MANY_ROWS = 2000


def sample(
    model: TreeModel,
    draws: int = 1000,
    *,
    tune: int = 1000,
    chains: int = 4,
    rng: Any = None,
    kernel: Any = "default",
    thin: int = 1,
    proposals: int = PROPOSALS_PER_DRAW,
    start: Any = None,
    temperatures: Any = None,
    executor: Executor | None = None,
    progress: bool = True,
) -> SampledPosterior:
    """Draw trees from the posterior by Metropolis sampling.

    Parameters
    ----------
    model : TreeModel
        What is believed.
    draws : int, default 1000
        Draws kept per chain, >= 1.
    tune : int, default 1000
        Draws dropped first, >= 0.
    chains : int, default 4
        Independent chains, >= 1, each with a generator of its own.
    rng : int, SeedSequence, Generator, sequence of these, or None
        Source of randomness; chain c takes its c-th spawned child, so draws do not depend on how many chains or
        workers run. A sequence gives each chain its own source, taken as it is.
    kernel : {"default", "cgm", "grow-prune", "blanchard"} or {move: weight}
        "default": the mixture that mixes fastest; "cgm": grow, prune, change, swap (Chipman et al. 1998);
        "grow-prune": uniform choice of leaf or prunable node; "blanchard": the walk from the root of Blanchard (1999),
        section 6. Moves: grow-prune, blanchard, collapsed, redraw, change, shift, swap, rotate, regrow-1, regrow-2
        (by lookahead), restructure, reshape; weights >= 0, not all 0, are shares of the proposals. See docs/kernels.md.
    thin : int, default 1
        Keep every thin-th draw.
    proposals : int, default 100
        Proposals between two draws before thinning, >= 1. Fewer give more draws a second, less apart: for small
        problems, where a hundred proposals move further than to the next draw worth keeping.
    start : {"grown", "prior", "stump"}, Tree, or sequence of Trees, one a chain; optional
        Where chains start. "grown": from the root down, each cell is split or not, and by which question, as its
        lookahead sum says; chains differ by chance. Default: "grown" from 2,000 rows on, else "prior".
    temperatures : int >= 2, or decreasing sequence of powers from 1, optional
        Temper the score: run a replica of each chain at every power, neighbours exchanging places after each draw. A
        number stands for a ladder from 1 to 0, adapted in tuning to equal swap rates; a given ladder is kept. With
        a ladder down to 0 the result has a ``log_evidence``; ``tempering`` has the swap rates and round trips.
    executor : concurrent.futures.Executor, optional
        Runs the chains, each as one task. Default: threads, as many as there are cores.
    progress : bool, default True
        Show a bar on a terminal: draws per second, acceptance, leaves.

    Returns
    -------
    SampledPosterior

    Raises
    ------
    ValueError
        If an argument is out of range, the kernel or a move is unknown, weights are negative or all zero, the ladder
        does not decrease from 1, a start tree cannot occur under the model, or its fixed tree has joint nodes.
    TypeError
        If the model is not a TreeModel.
    KeyboardInterrupt
        If interrupted before every chain has a draw; later, the draws so far are returned with a warning.

    Notes
    -----
    A proposal costs O(rows of the leaf concerned). Memory beside the model: 8 bytes a row and chain, and the draws,
    each distinct successive tree once.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> bool(post.predict_proba([[0.0]])[0, 0] > 0.9)
    True
    """
    check_reachable(model)
    least = {"draws": (draws, 1), "tune": (tune, 0), "chains": (chains, 1), "thin": (thin, 1)}
    for name, (value, lowest) in (least | {"proposals": (proposals, 1)}).items():
        _check_count(name, value, lowest)
    mixture = read_kernel(kernel, int(proposals))
    if temperatures is not None:
        read_ladder(temperatures)
    sources = chain_seeds(rng, int(chains))
    starts = _read_starts(model, start, int(chains))
    plans = [
        Plan(model, int(draws), int(tune), int(thin), mixture, source, first, temperatures)
        for source, first in zip(sources, starts, strict=True)
    ]
    began = time.perf_counter()
    runs = _on_executor(plans, executor) if executor is not None else _in_threads(plans, progress)
    seconds = time.perf_counter() - began
    tempering = None if temperatures is None else gather([run.ladder for run in runs], _log_prior_of_stump(model))
    post = SampledPosterior.from_chains(model, [run.saved for run in runs], mixture.moves, seconds, tempering)
    warn_if_unconverged(post, 2, temperatures=1 if tempering is None else tempering.temperatures.shape[1])
    return post


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is out of range; give an integer >= {least}.")


def check_reachable(model: TreeModel) -> None:
    """Refuse what is no model, or one whose trees chains cannot reach."""
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    if model.shape is not None and model.shape.joint.any():
        raise ValueError(
            "the fixed tree has joint nodes, which chains cannot reach: they grow one node at a time. "
            "Use exact.solve(model), whose .sample(draws) are independent, or exact.progressive_mixture(model)."
        )


def _log_prior_of_stump(model: TreeModel) -> float | None:
    """Log prior of the tree of one leaf under a prior that is not normalised; None under others."""
    if not isinstance(model.tree_prior, LeafPenalty):
        return None
    return model.log_prior(Tree([LEAF], [0.0], [0], [0]))


def _on_executor(plans: list[Plan], executor: Executor) -> list[Result]:
    futures = [executor.submit(run_chain, plan) for plan in plans]
    try:
        return [future.result() for future in futures]
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()
        done = [f.result() for f in futures if f.done() and not f.cancelled() and f.exception() is None]
        if not done:
            raise
        warnings.warn(f"interrupted: {len(done)} of {len(plans)} chains had finished and are returned.", stacklevel=3)
        return done


def _n_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_threads(plans: list[Plan], progress: bool) -> list[Result]:
    runs = [Run(plan) for plan in plans]
    workers = min(len(runs), _n_cores())
    bar = _Bar(plans, runs, shown=progress and sys.stderr.isatty())
    pool = ThreadPoolExecutor(workers)
    pending: set[Future] = set()
    try:
        pending = {pool.submit(run.advance) for run in runs}
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for run in [future.result() for future in done]:
                if not run.finished:
                    pending.add(pool.submit(run.advance))
            bar.update()
    except KeyboardInterrupt:
        for future in pending:
            future.cancel()
        wait(pending)
        return _interrupted(runs, plans[0].draws)
    finally:
        pool.shutdown(cancel_futures=True)
        bar.close()
    return [run.result for run in runs]


def _interrupted(runs: list[Run], draws: int) -> list[Result]:
    """As many draws as every chain has; chains advance side by side, so little is lost."""
    least = min(run.n_saved for run in runs)
    if least == 0:
        raise KeyboardInterrupt("interrupted before every chain had a draw; nothing to return")
    warnings.warn(f"interrupted: {least} of {draws} draws a chain are returned.", stacklevel=4)
    out = []
    for run in runs:
        result = run.result
        short = {name: getattr(result.saved, name)[:least] for name in ("tree_of_draw", "noise", "moves")}
        ladder = result.ladder
        if ladder is not None:
            ladder = ladder._replace(scores=ladder.scores[:least], is_stump=ladder.is_stump[:least])
        out.append(Result(result.saved._replace(**short), ladder))
    return out


class _Bar:
    """The progress bar over all chains."""

    def __init__(self, plans: list[Plan], runs: list[Run], shown: bool) -> None:
        self.runs = runs
        total = sum(plan.draws + plan.tune for plan in plans)
        self.bar = tqdm(total=total, unit="draws", disable=not shown, dynamic_ncols=True, mininterval=0.2)

    def update(self) -> None:
        """Show how far the chains are."""
        if self.bar.disable:
            return
        self.bar.n = sum(run.n_done for run in self.runs)
        kept, made = np.sum([run.acceptance for run in self.runs], axis=0)
        leaves = np.mean([run.n_leaves for run in self.runs])
        self.bar.set_postfix_str(f"acceptance {kept / max(made, 1):.3f}, leaves {leaves:.1f}", refresh=True)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self.update()
        self.bar.close()


def chain_seeds(rng: Any, chains: int) -> list[Any]:
    """One source of randomness for each chain."""
    if isinstance(rng, Sequence) and not isinstance(rng, str | bytes):
        if len(rng) != chains:
            raise ValueError(f"rng has {len(rng)} entries for {chains} chains; give one each.")
        return list(rng)
    if isinstance(rng, np.random.Generator):
        return list(rng.spawn(chains))
    if isinstance(rng, np.random.SeedSequence):
        return list(np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size).spawn(chains))
    if rng is not None and (not isinstance(rng, int | np.integer) or isinstance(rng, bool) or rng < 0):
        raise ValueError(
            f"rng={rng!r}; give None, an integer >= 0, a SeedSequence, a Generator, or one of these a chain."
        )
    return list(np.random.SeedSequence(None if rng is None else int(rng)).spawn(chains))


def _read_starts(model: TreeModel, start: Any, chains: int) -> list[Any]:
    if start is None:
        return ["grown" if model.n_rows >= MANY_ROWS else "prior"] * chains
    if isinstance(start, str):
        if start not in ("grown", "prior", "stump"):
            raise ValueError(f"start={start!r} is unknown; give 'grown', 'prior', 'stump', a Tree, or one a chain.")
        return [start] * chains
    if not isinstance(start, Tree | Sequence):
        raise TypeError(f"start is {start!r}; give 'grown', 'prior', 'stump', a Tree, or one Tree a chain.")
    trees = [start] * chains if isinstance(start, Tree) else list(start)
    if len(trees) != chains or not all(isinstance(t, Tree) for t in trees):
        raise ValueError(f"start gives {len(trees)} entries for {chains} chains; give one Tree, or one Tree each.")
    for c, tree in enumerate(trees):
        if model.log_prior(tree) == -np.inf:
            raise ValueError(f"the start tree of chain {c} cannot occur under the model: its prior is 0.")
    return trees
