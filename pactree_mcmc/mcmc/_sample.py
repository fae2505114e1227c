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

from ..model import TreeModel
from ..posterior import SampledPosterior
from ..trees import Tree
from ._kernels import read_kernel
from ._run import Plan, Result, Run, run_chain


def sample(
    model: TreeModel,
    draws: int = 1000,
    *,
    tune: int = 1000,
    chains: int = 4,
    rng: Any = None,
    kernel: str = "default",
    thin: int = 1,
    start: Any = "stump",
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
    kernel : {"default", "grow-prune", "blanchard"}
        "grow-prune": uniform choice of leaf or prunable node (Chipman et al. 1998); "blanchard": the walk from the
        root of Blanchard (1999), section 6; "default" is "grow-prune".
    thin : int, default 1
        Keep every thin-th draw. Between two draws before thinning a chain makes 100 proposals.
    start : {"stump", "prior"}, Tree, or sequence of Trees, one a chain
        Where chains start.
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
        If an argument is out of range, the kernel is unknown, or a start tree cannot occur under the model.
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
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    for name, value, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1), ("thin", thin, 1)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}={value!r} is out of range; give an integer >= {least}.")
    mixture = read_kernel(kernel)
    sources = chain_seeds(rng, int(chains))
    starts = _read_starts(model, start, int(chains))
    plans = [
        Plan(model, int(draws), int(tune), int(thin), mixture, source, first)
        for source, first in zip(sources, starts, strict=True)
    ]
    began = time.perf_counter()
    runs = _on_executor(plans, executor) if executor is not None else _in_threads(plans, progress)
    seconds = time.perf_counter() - began
    return SampledPosterior.from_chains(model, [run.saved for run in runs], mixture.moves, seconds)


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


def _in_threads(plans: list[Plan], progress: bool) -> list[Result]:
    runs = [Run(plan) for plan in plans]
    workers = min(len(runs), os.cpu_count() or 1)
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
        short = {name: getattr(result.saved, name)[:least] for name in ("tree_of_draw", "moves")}
        out.append(result._replace(saved=result.saved._replace(**short)))
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
    if isinstance(start, str):
        if start not in ("stump", "prior"):
            raise ValueError(f"start={start!r} is unknown; give 'stump', 'prior', a Tree, or one Tree a chain.")
        return [start] * chains
    if not isinstance(start, Tree | Sequence):
        raise TypeError(f"start is {start!r}; give 'stump', 'prior', a Tree, or one Tree a chain.")
    trees = [start] * chains if isinstance(start, Tree) else list(start)
    if len(trees) != chains or not all(isinstance(t, Tree) for t in trees):
        raise ValueError(f"start gives {len(trees)} entries for {chains} chains; give one Tree, or one Tree each.")
    for c, tree in enumerate(trees):
        if model.log_prior(tree) == -np.inf:
            raise ValueError(f"the start tree of chain {c} cannot occur under the model: its prior is 0.")
    return trees
