"""Implementation of `pt.sample`: check the arguments, and run the chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import MAX_COUNT, Seed, as_number, check_count, check_number, is_integer, repr_of
from ..files.calls import call_record, seed_of
from ..files.store import AnyPath, check_output_path
from ..model import TreeModel
from ..posterior.convergence import MIN_JUDGED_DRAWS
from ..posterior.sampled import SampledPosterior
from ..tree.tree import Tree
from .chain.start import Dispersed
from .chain.tempering import read_ladder
from .course import new_run, run_to_end, save_if_due
from .kernel import PROPOSALS_PER_DRAW, check_even_splits, read_kernel
from .run.records import DEFAULT_WORK, MAX_RELATIVE_LENGTH, Request
from .whole.rounds import has_work_to_tune, work_by_default

DEFAULT_TUNE = 1000
"""Default number of tuning steps."""
WHOLE_PROPOSALS_PER_DRAW = 30
"""Default number of proposals between two draws in kernel "whole" and in mixtures with it."""


def sample(
    model: TreeModel,
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int = 4,
    rng: Seed | Sequence[Seed] = None,
    kernel: str | Mapping[Any, float] = "default",
    thin: int | None = None,
    proposals: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    work: float | None = None,
    start: str | Tree | list[Tree] | tuple[Tree, ...] = "dispersed",
    betas: int | Sequence[float] | np.ndarray | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: AnyPath | None = None,
    every: float = 60.0,
) -> SampledPosterior:
    """Draw trees from the posterior by Metropolis sampling.

    Parameters
    ----------
    model : TreeModel
        Model to sample from.
    draws : int, default 1000
        Number of draws kept per chain, >= 1.
    tune : int, optional
        Number of tuning steps, which are dropped, >= 0. Any of ``tune``, ``thin`` and ``proposals`` makes a run of
        fixed length, with 1000 tuning steps by default. Without them the run is adaptive (Notes).
    chains : int, default 4
        Number of chains, >= 1, each with a generator of its own.
    rng : int, SeedSequence, BitGenerator, Generator, sequence of these, or None
        Source of randomness. Chain c gets its c-th spawned child, so that draws do not depend on the number of workers.
        A sequence has the source of each chain, which is used as it is.
    kernel : {"default", "whole", "local", "cgm", "grow-prune", "blanchard"} or {move or kernel: weight}
        "default": "whole" in an adaptive run, unless it has a ladder, CustomSplits, or a table on which fitting a
        density does not pay or does not fit into ``work`` (docs/default.md); otherwise "local". "whole": whole trees
        and subtrees from a density that the chains fit in tuning, and a few local moves. "local": many local moves.
        "cgm": grow, prune, change, swap (Chipman et al. 1998). "grow-prune": uniform choice of leaf or prunable node.
        "blanchard": the walk from the root of Blanchard (1999), section 6. Moves by name (docs/moves.md), and `Move`
        objects of your own, as in ``{"default": 0.9, my_move: 0.1}``. Weights, >= 0 and not all 0, are fractions of
        the proposals.
    thin : int, optional
        Number of steps between two draws, >= 1. Default 1 in a run of fixed length.
    proposals : int, optional
        Number of proposals in a step, >= 1. Default 100 in a run of fixed length, 30 with "whole".
    steps : int, optional
        Largest number of steps of a chain after tuning in an adaptive run, >= ``draws``. The number of an earlier run,
        ``post.course.steps``, repeats that run.
    seconds : float, optional
        Wall time after which an adaptive run ends, > 0. Less than 1 counts as 1. It includes tuning, which gets at most
        half of it, but neither compilation nor the last check of the draws. If there is no time for more, a chain has
        fewer than ``draws`` draws, at least one. A warning lists what was left out. On an executor the clock starts
        with the first task. A resumed checkpoint has all the time again.
    work : float, optional
        Number of rows that an adaptive run visits at most, about, in all chains, tuning included, >= 1. Default 4e10,
        up to ten minutes of processor time, or 1e10 if chains fit no density (docs/default.md).
        With less work tuning is shorter and, with many rows, steps have fewer proposals.
    start : {"dispersed", "grown", "prior", "stump"}, Tree, or sequence of Trees, one a chain; default "dispersed"
        Start of the chains. "grown": trees drawn from the root down by the lookahead sum of each cell. "dispersed": the
        same, but the first four chains have different features at the root if there are as many, and below it the
        likelihood to the power 1, 1/2 or 1/4 in turn. So chains start further apart than the posterior is wide.
    betas : int >= 2, or decreasing sequence of powers from 1, optional
        Temper the score: run a replica of each chain at every power, and exchange neighbours after each draw. A number
        means a ladder from 1 to 0, adapted in tuning to equal swap rates. A sequence is used as it is. With a ladder
        down to 0 the result has a ``log_evidence``. ``draws.tempering`` has the swap rates and round trips.
    executor : concurrent.futures.Executor, optional
        Runs the chains, each as two tasks or more: processes, Dask, MPI, Ray (docs/clusters.md). The model is sent with
        each task, on a Dask cluster once. A warning names chains whose worker died, which are left out. Default:
        threads, one per core.
    progress : bool, default True
        Show a bar on the standard error if it is a terminal, else a line every 30 seconds. Code that must be compiled
        first is announced.
    checkpoint : path-like, optional
        New netCDF file (.nc) to which the run is written at the start and ``every`` so many seconds, each time whole or
        not at all. After a crash ``resume(checkpoint)`` finishes the run, with the draws of an uninterrupted one. At
        the end it is the file that ``save`` writes.
    every : float, default 60.0
        Seconds between two checkpoints, > 0. Writing takes longer the more draws there are.

    Returns
    -------
    SampledPosterior

    Raises
    ------
    ValueError
        If an argument is out of range, the kernel or a move is unknown, weights are negative or all zero, the ladder
        does not decrease from 1, a start tree cannot occur under the model, its fixed tree has joint nodes, the
        checkpoint exists, or the score of a cell is not finite: the message names the cell.
    TypeError
        If the model is not a TreeModel.
    KeyboardInterrupt
        If interrupted before every chain has a draw. Later the draws so far are returned with a warning. From an
        executor these are the draws of finished tasks.

    Notes
    -----
    An adaptive run makes ``draws`` steps. As long as a criterion of convergence fails it continues, until its steps
    visit ``work`` rows or ``seconds`` are over. In kernel "whole" the chains tune in two teams that exchange nothing.
    Each time the run continues both teams get the draws of all chains, and these are dropped. With other kernels the
    number of draws doubles and every second one is kept. The end is counted in steps, so that the same seed gives the
    same draws on any machine. With fewer than 1000 draws in all the run does not wait for the criterion: it makes
    ``draws`` steps, or as many as ``steps`` or ``seconds`` allow. In kernel "whole" tuning also sets the weights of the
    moves, and the number of proposals in a step, by their cost.

    A proposal costs O(rows of the leaf concerned). Memory beside the model: 8 bytes a row and chain, the draws, each
    distinct successive tree once, and stored values of cells: up to 16 MB a chain, in kernel "whole" 35 to 45 MB, and
    once for all chains the graph of visited cells, up to 40 MB, which files contain too.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> bool(post.predict_proba([[0.0]])[0, 0] > 0.9)
    True
    """
    arguments = dict(locals())
    check_reachable(model)
    check_executor(executor)
    for name, value in {"draws": draws, "chains": chains}.items():
        check_count(name, value)
    draws, chains = int(draws), int(chains)
    is_adaptive = _check_length(draws, tune, thin, proposals, steps, seconds, work)
    entries = kernel.items() if isinstance(kernel, Mapping) else [(kernel, 1.0)]
    names = [name for name, weight in entries if isinstance(name, str) and as_number(weight) != 0.0]
    default_kernel = "local"
    may_fit = betas is None and model.split_prior.has_equal_weights
    if is_adaptive and "default" in names and may_fit:
        max_work = work_by_default(model) if work is None else float(work)
        default_kernel = "whole" if has_work_to_tune(max_work, model, chains) else "local"
    is_guided = "whole" in names or (default_kernel == "whole" and "default" in names)
    if proposals is None:
        proposals = WHOLE_PROPOSALS_PER_DRAW if is_guided else PROPOSALS_PER_DRAW
    mixture = read_kernel(kernel, int(proposals), adapts=is_adaptive and is_guided, default=default_kernel)
    check_even_splits(mixture, model.split_prior)
    if betas is not None:
        read_ladder(betas)
        betas = int(betas) if isinstance(betas, int | np.integer) else tuple(np.asarray(betas, np.float64).tolist())
    # 0 means that the number of steps follows from the work
    max_steps = int(steps) if steps is not None else MAX_COUNT if seconds is not None and work is None else 0
    if is_adaptive and betas is not None and max_steps == 0:
        max_steps = MAX_RELATIVE_LENGTH * draws
    if is_adaptive and steps is None and seconds is None and draws * chains < MIN_JUDGED_DRAWS:
        max_steps = draws
    if work is None:
        work = work_by_default(model) if is_adaptive and is_guided else DEFAULT_WORK
    sources, starts = chain_seeds(rng, chains), _read_starts(model, start, chains)
    request = Request(
        model,
        draws,
        DEFAULT_TUNE if tune is None else int(tune),
        1 if thin is None else int(thin),
        mixture,
        tuple(starts),
        betas,
        is_adaptive,
        max_steps,
        None if seconds is None else float(seconds),
        float(work),
        (call_record(sample, arguments | {"rng": seed_of(rng, sources)}),),
    )
    path, every = None, read_interval(every)
    if checkpoint is not None:
        path = read_checkpoint_path(checkpoint)
    run = new_run(request, sources, executor, progress, path=path, every=every)
    save_if_due(run, now=True)
    return run_to_end(run)


def _check_length(draws: int, tune: Any, thin: Any, proposals: Any, steps: Any, seconds: Any, work: Any) -> bool:
    """Check the arguments that determine the length. Return True if they ask for an adaptive run."""
    arguments = {"tune": tune, "thin": thin, "proposals": proposals, "steps": steps, "seconds": seconds, "work": work}
    fixed = [name for name in ("tune", "thin", "proposals") if arguments[name] is not None]
    adaptive = [name for name in ("steps", "seconds", "work") if arguments[name] is not None]
    for name in fixed:
        check_count(name, arguments[name], 0 if name == "tune" else 1)
    if fixed and adaptive:
        raise ValueError(f"{', '.join(adaptive)} is for an adaptive run; leave out {', '.join(fixed)}, which fix it.")
    if steps is not None:
        check_count("steps", steps)
        if steps < draws:
            raise ValueError(f"steps={steps} is less than draws={draws}; give as many or more.")
    if seconds is not None:
        check_number("seconds", seconds, "seconds, > 0", 5e-324)
    if work is not None:
        check_number("work", work, "rows, >= 1", 1.0)
    return not fixed


def read_interval(every: Any) -> float:
    """Return the argument ``every`` of `sample`, the seconds between two checkpoints, after checking it."""
    return check_number("every", every, "seconds between checkpoints, > 0", 5e-324)


def read_checkpoint_path(path: Any) -> Path:
    """Return the path of a new checkpoint. Raise ValueError if the file exists."""
    path = check_output_path(path)
    if path.exists():
        raise ValueError(f"checkpoint={str(path)!r} exists already; pt.resume({str(path)!r}) goes on, or remove it.")
    return path


def check_reachable(model: TreeModel) -> None:
    """Raise TypeError if ``model`` is not a TreeModel, and ValueError if its fixed tree has joint nodes."""
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    if model.shape is not None and model.shape.is_joint.any():
        raise ValueError(
            "the fixed tree has joint nodes, which chains cannot reach: they grow one node at a time. "
            "Use exact.solve(model), whose .sample(draws) are independent, or exact.progressive_mixture(model)."
        )


def check_executor(executor: Any) -> None:
    """Raise TypeError if ``executor`` cannot run tasks. None, which stands for threads, is allowed."""
    if executor is not None and not callable(getattr(type(executor), "submit", None)):
        raise TypeError(f"executor is {repr_of(executor)}; give a concurrent.futures.Executor, or None for threads.")


def chain_seeds(rng: Any, chains: int) -> list[Any]:
    """Return a source of randomness for each chain: the entries of a sequence ``rng``, else children spawned by it."""
    if isinstance(rng, list | tuple):
        if len(rng) != chains:
            raise ValueError(f"rng has {len(rng)} entries for {chains} chains; give one each.")
        for source in rng:
            _check_source(source)
        return [np.random.SeedSequence() if source is None else source for source in rng]
    if isinstance(rng, np.random.BitGenerator):
        rng = np.random.Generator(rng)
    if isinstance(rng, np.random.Generator):
        return list(rng.spawn(chains))
    if isinstance(rng, np.random.SeedSequence):
        return list(np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size).spawn(chains))
    _check_source(rng)
    return list(np.random.SeedSequence(None if rng is None else int(rng)).spawn(chains))


def _check_source(rng: Any) -> None:
    """Raise ValueError if ``rng`` is not a valid seed or generator."""
    is_source = rng is None or isinstance(rng, np.random.SeedSequence | np.random.Generator | np.random.BitGenerator)
    if not is_source and not (is_integer(rng) and int(rng) >= 0):
        raise ValueError(
            f"rng={repr_of(rng)}; give None, an integer >= 0, a SeedSequence, a BitGenerator, a Generator, "
            "or one of these a chain."
        )


class CheckedStarts(tuple[Tree, ...]):
    """Start trees that chains of the same table and split prior drew, so that they are possible and need no check."""


def _read_starts(model: TreeModel, start: Any, chains: int) -> list[Any]:
    """Check the argument ``start`` of `sample`, and return the start of each chain: a tree, a name, or `Dispersed`."""
    if isinstance(start, CheckedStarts):
        return list(start)
    if isinstance(start, str):
        if start not in ("dispersed", "grown", "prior", "stump"):
            alternatives = "'dispersed', 'grown', 'prior', 'stump', a Tree, or one a chain"
            raise ValueError(f"start={repr_of(start)} is unknown; give {alternatives}.")
        return [Dispersed(c) if start == "dispersed" else start for c in range(chains)]
    if not isinstance(start, Tree | list | tuple):
        alternatives = "'dispersed', 'grown', 'prior', 'stump', a Tree, or one Tree a chain"
        raise TypeError(f"start is {repr_of(start)}; give {alternatives}.")
    trees = [start] * chains if isinstance(start, Tree) else list(start)
    if len(trees) != chains or not all(isinstance(t, Tree) for t in trees):
        raise ValueError(f"start gives {len(trees)} entries for {chains} chains; give one Tree, or one Tree each.")
    for c, tree in enumerate(trees):
        if model.log_prior(tree) == -np.inf:
            raise ValueError(f"the start tree of chain {c} cannot occur under the model: its prior is 0.")
    return trees
