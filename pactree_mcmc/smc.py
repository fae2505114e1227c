"""The progressive mixture by Monte Carlo: populations of trees in which examples enter one by one."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, Executor, ThreadPoolExecutor, wait
from math import exp
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numba.typed import List

from .core.bits import goes_left
from .core.checks import Seed, check_choice, check_count, check_flag, check_number
from .core.compile.jit import jit, pack
from .core.portable import exp as exp_of
from .core.special import log_mean
from .core.texts import warn
from .mcmc.chain.chain import Chain
from .mcmc.chain.draw_store import first_draws, log_prior_of, trim_draws
from .mcmc.chain.start import PRIOR_BLOCKS, draw_prior_tree, load_tree
from .mcmc.edits.grow import accept_growth, attach_children
from .mcmc.kernel import Kernel, check_even_splits, read_kernel
from .mcmc.run.loop import n_cores, name_cell_in_errors, with_model_sent_once
from .mcmc.sampling import chain_seeds, check_executor, check_reachable
from .mcmc.state.lists import is_leaf
from .mcmc.state.random import flip
from .mcmc.state.records import N_FREE, N_NODES, NONE, STORED_VERSION
from .mcmc.state.splits import draw_split
from .mcmc.state.terms import log_score_given_noise, next_node, prior_index, score_node
from .model import BranchingProcess, Lowered, TreeModel
from .model.rows import UnitStats, add_unit
from .posterior.distribution import MostProbable
from .posterior.draws import Draws
from .posterior.evidence import pooled_error, prior_mass
from .posterior.inference_data import refuse_to_save
from .posterior.sampled import SampledPosterior, values_se
from .tree.coded import Saved

# arrays of a chain's state of which each tree of a population has a copy; all others are scratch, or depend on cells
# and examples alone
PARTICLE_ARRAYS = ("order", "node", "stats", "box", "count", "beta", "moves")
# factor by which the number of examples grows between two moves of a population that is not resampled
MOVE_GROWTH = 1.5
PRIOR_GAP_BLOCKS = 10  # number of blocks of proposals between two draws from a prior that only a chain can sample


class EnteringRows(NamedTuple):
    """The rows of S, those that enter one by one, in the order in which they enter."""

    unit: np.ndarray  # (T,) int64: index of the merged row (unit) that contains each row
    row_stats: UnitStats  # contribution of each row to the statistics of its cell, with rows in place of units


@jit
def add_to_merged_rows(model: Any, rows: Any, start: int, stop: int) -> None:
    """Add ``rows[start:stop]`` to the weights and moments of their merged rows in ``model``, which all trees share."""
    merged, row_stats = model.units, rows.row_stats
    for i in range(start, stop):
        merged_row = rows.unit[i]
        merged.weight[merged_row] += row_stats.weight[i]
        if not row_stats.counts:
            for j in range(row_stats.moments.shape[0]):
                merged.moments[j, merged_row] += row_stats.moments[j, i]


@jit
def add_to_tree(model: Any, state: Any, rows: Any, start: int, stop: int) -> float:
    """Add ``rows[start:stop]`` to the nodes of the tree of one chain with `state`. Return the gain of its log score."""
    merged, row_stats, gain = model.units, rows.row_stats, 0.0
    for i in range(start, stop):
        merged_row, node = rows.unit[i], np.int64(0)
        while True:
            add_unit(state.stats, node, row_stats, np.int64(i))
            record = state.node[node]
            old_score = record.score
            score_node(model, state, node)
            if is_leaf(state, node):
                gain += record.score - old_score
                break
            code = np.int64(merged.codes[record.feature, merged_row])
            node = record.left if goes_left(code, record.cut, record.categories) else record.right
    return gain


@jit
def add_to_all_trees(chains: Any, rows: Any, start: int, stop: int, stage: int, gain: np.ndarray) -> None:
    """Add ``rows[start:stop]`` to the merged rows and to the trees of all chains."""
    # write the gain of each log score, in nats, to ``gain``
    # `stage` marks stored values of cells, so that those of earlier stages are no longer used
    add_to_merged_rows(chains[0].model, rows, start, stop)
    for i in range(len(chains)):
        chain = chains[i]
        gain[i] = add_to_tree(chain.model, chain.state, rows, start, stop)
        chain.state.count[STORED_VERSION] = stage


@jit
def compiled_list(chain: Any) -> Any:
    """Return a typed list with one compiled chain: its model, state and random numbers."""
    chains = List()
    chains.append(chain)
    return chains


@jit
def put_into_list(chains: Any, i: int, chain: Any) -> None:
    """Replace compiled chain ``i`` of a typed list, or append the chain if ``i`` is the length of the list."""
    if i == len(chains):
        chains.append(chain)
    else:
        chains[i] = chain


@jit
def grow_prior(chain: Any, node: int) -> int:
    """Draw the rest of a compiled chain's tree from a branching process, in preorder, from ``node`` on."""
    # the node at which the chain had no free nodes left is returned: the caller then adds some and calls again
    model, state, root = chain.model, chain.state, np.int64(0)
    while node != NONE:
        if is_leaf(state, node) and state.node[node].splittable:
            if state.count[N_FREE] < 2:
                return node
            index = prior_index(model, state.node[node].depth, state.node[node].design)
            if flip(chain.rng, exp(model.prior.table[index].log_split)):
                attach_children(model, state, node, draw_split(chain.rng, model, state, node))
                accept_growth(model, state, node)
        node = next_node(state, node, root)
    return NONE


class StagePlan(NamedTuple):
    """Arguments of one repetition of `progressive_mixture`: a single chain, or a population of trees."""

    model: TreeModel
    kernel: Kernel
    seed: Any
    entering: np.ndarray  # indices (T,) of the rows of S in the order in which they enter, unless ``shuffle`` is True
    shuffle: bool
    bounds: np.ndarray  # (stages,) number of examples that have entered at each stage, from 0 to all
    draws: int  # number of trees to save
    # number of proposals for each example that enters a single chain, or in each tree when a population moves
    steps: int
    particles: int  # number of trees of a population, or 0 for a single chain, which moves at each stage
    threshold: float  # effective sample size, as a fraction of ``particles``, below which the population is resampled


class StageResult(NamedTuple):
    """Result of one repetition of `progressive_mixture`."""

    saved: Saved  # draws, evenly distributed over the stages
    stage: np.ndarray  # (draws,) number of examples that had entered at each draw
    best: Saved | None  # most probable tree of the last stage, or None if that stage was not reached
    # (stages,) log evidence of the examples that had entered, for a population. Empty for a chain.
    log_evidence: np.ndarray
    stump_fraction: float  # fraction of stumps in the population at the first stage
    n_resampled: int

    def first_draws(self, n_draws: int) -> StageResult:
        """Return the result of an interrupted repetition: its first ``n_draws`` draws, no ``best``, no log evidence."""
        saved, stage = first_draws(self.saved, n_draws), self.stage[:n_draws]
        return self._replace(saved=saved, stage=stage, best=None, log_evidence=np.empty(0))


class Repetition:
    """State of one repetition, a chain or a population of trees (one chain each), while examples enter."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan, self.rng = plan, np.random.default_rng(plan.seed)
        order = self.rng.permutation(plan.entering) if plan.shuffle else plan.entering
        lowered, rows = model_before_examples(plan.model, order)
        self.rows = pack(rows)
        first_chain = Chain(lowered, plan.kernel, self.rng)
        first_chain.reserve(plan.draws)
        self.chains = [first_chain] + [shared_copy(first_chain) for _ in range(plan.particles - 1)]
        self.compiled_chains = compiled_list(first_chain.packed_chain)
        self._draw_first_trees()
        self.model, self.saved, self.packed_saved = first_chain.model, first_chain.saved, first_chain.packed_saved
        self.weight = np.full(len(self.chains), 1.0 / len(self.chains))
        self.n_proposed, self.n_resampled, self.evidence = 0, 0, [0.0]
        self.stage: list[int] = []
        self.stump_fraction = float(np.mean([chain.state.count[N_NODES] == 1 for chain in self.chains]))

    def _draw_first_trees(self) -> None:
        """Draw the trees of the first stage, without examples, from the prior."""
        # trees of a branching process are independent draws; other priors are sampled by a chain, from tree to tree
        model, previous = self.plan.model, None
        for chain in self.chains:
            if not model.tree_prior.is_process:
                if previous is not None:
                    copy_state(chain, previous)
                chain.run_blocks(PRIOR_BLOCKS if previous is None else PRIOR_GAP_BLOCKS)
                previous = chain
            elif isinstance(model.tree_prior, BranchingProcess) and model.tree_prior.conditioned:
                load_tree(model, chain, draw_prior_tree(model, self.rng))
            else:
                node = grow_prior(chain.packed_chain, np.int64(0))
                while node != NONE:
                    chain.enlarge()
                    node = grow_prior(chain.packed_chain, np.int64(node))
        self._update_list()

    def _update_list(self) -> None:
        for i, chain in enumerate(self.chains):
            put_into_list(self.compiled_chains, i, chain.packed_chain)

    def run(self, stop: Event | None = None) -> StageResult:
        """Run all stages, or those until ``stop`` is set, and return the result."""
        plan, bounds = self.plan, self.plan.bounds
        widths = np.append(np.diff(bounds), 1)
        # stratified draws: the stages 0, ..., T are divided into equal parts, with one draw at a uniform time in each
        times = (np.arange(plan.draws) + self.rng.random(plan.draws)) * ((bounds[-1] + 1) / plan.draws)
        first_time = np.searchsorted(times, np.append(bounds, bounds[-1] + 1))
        is_finished = True
        for j, width in enumerate(widths.tolist()):
            if j > 0:
                self.enter(int(bounds[j - 1]), int(bounds[j]), j)
            fractions = (times[first_time[j] : first_time[j + 1]] - bounds[j]) / width
            if plan.particles == 0:
                self._save_while_moving(fractions, plan.steps * width)
            else:
                self._save_some(len(fractions))
            self.stage += [int(bounds[j])] * len(fractions)
            is_finished = stop is None or not stop.is_set() or j + 1 == len(widths)
            if not is_finished:
                break
        return StageResult(
            trim_draws(self.saved),
            np.array(self.stage, dtype=np.int64),
            self._best() if is_finished else None,
            np.array(self.evidence if plan.particles > 0 else []),
            self.stump_fraction,
            self.n_resampled,
        )

    def enter(self, start: int, stop: int, stage: int) -> None:
        """Add the examples `start` to `stop - 1`, in the order of entering, to all trees, at stage `stage`, from 1."""
        # Each tree of a population is reweighted by exp(gain of its log score). The population is resampled if its
        # weights are too unequal, and moved if it was resampled or `is_move_due` is True
        gain = np.empty(len(self.chains))
        add_to_all_trees(self.compiled_chains, self.rows, start, stop, stage, gain)
        if self.plan.particles == 0:
            return
        # the weights w_i of the trees T_i sum to 1, so p(new rows | rows before) is about
        # sum_i w_i p(new rows | rows before, T_i), where the log of the last factor is the gain of the score of T_i
        max_gain = gain.max()
        weights = self.weight * exp_of(gain - max_gain)
        total = weights.sum()
        self.evidence.append(self.evidence[-1] + max_gain + math.log(total))
        self.weight = weights / total
        # effective sample size of the weights, (sum w)^2 / sum w^2 with sum w = 1
        is_uneven = 1.0 / float((self.weight**2).sum()) < self.plan.threshold * len(self.chains)
        if is_uneven:
            self._resample()
        if is_uneven or is_move_due(start, stop):
            self._propose(self.plan.steps)
            self._update_list()

    def _propose(self, n: int) -> None:
        """Make ``n`` proposals in each tree. Each move of the kernel makes its fraction of them, up to rounding."""
        n_by_step = self.plan.kernel.next_proposals(self.n_proposed, n)
        for chain in self.chains:
            for step, n_proposals in enumerate(n_by_step):
                chain.propose(step, n_proposals)
        self.n_proposed += n

    def _resample(self) -> None:
        """Resample the population by systematic sampling. Copies of trees replace only trees that are dropped."""
        copies = np.bincount(systematic_indices(self.rng, self.weight, len(self.chains)), minlength=len(self.chains))
        dropped = iter(np.flatnonzero(copies == 0).tolist())
        for i in np.flatnonzero(copies > 1).tolist():
            for _ in range(int(copies[i]) - 1):
                copy_state(self.chains[next(dropped)], self.chains[i])
        self.weight[:] = 1.0 / len(self.chains)
        self.n_resampled += 1

    def _save_while_moving(self, times: np.ndarray, n: int) -> None:
        """Make the `n` proposals of a stage in the single chain, and save its tree at `times`, fractions of them."""
        n_made = 0
        for next_save in (times * n).astype(int).tolist():
            self._propose(next_save - n_made)
            self._save(self.chains[0])
            n_made = next_save
        self._propose(n - n_made)
        put_into_list(self.compiled_chains, 0, self.chains[0].packed_chain)

    def _save_some(self, n: int) -> None:
        """Save ``n`` trees of the population, drawn by systematic sampling in proportion to their weights."""
        if n > 0:
            for i in systematic_indices(self.rng, self.weight, n).tolist():
                self._save(self.chains[i])

    def _save(self, chain: Chain) -> None:
        """Append the current tree of a chain to the draws of the repetition."""
        chain.saved, chain.packed_saved = self.saved, self.packed_saved
        chain.save(as_new=True)
        self.saved, self.packed_saved = chain.saved, chain.packed_saved

    def _best(self) -> Saved:
        """Return the current tree with the largest log prior plus log score as a single draw."""
        packed = [chain.packed_state for chain in self.chains]
        chain = self.chains[int(np.argmax([log_prior_of(self.model, p) + log_score_given_noise(p) for p in packed]))]
        chain.reserve(1)
        chain.save(as_new=True)
        return trim_draws(chain.saved)


def is_move_due(n_before: int, n_after: int) -> bool:
    """Return True if the number of examples passes a power of `MOVE_GROWTH` from `n_before` to `n_after`."""
    # if moves only followed resampling, a population with even weights would never move and stay too close to the
    # prior, with a bias of the order of one over the number of particles
    powers = [-1.0 if n == 0 else math.floor(math.log(n) / math.log(MOVE_GROWTH)) for n in (n_before, n_after)]
    return powers[1] > powers[0]


def run_stages(plan: StagePlan, stop: Event | None = None) -> StageResult:
    """Run one repetition, to its end or to the stage in which ``stop`` is set, and return its result."""
    # a module-level function of plain data, which any executor can send
    repetition = Repetition(plan)
    with name_cell_in_errors(plan.model, repetition.chains):
        return repetition.run(stop)


def model_before_examples(model: TreeModel, order: np.ndarray) -> tuple[Lowered, EnteringRows]:
    """Return the compiled form of the model before any example has entered, and the examples."""
    # until they enter, the weight of the examples is zero; weights and moments of the merged rows are copies
    target, merged = model.target, model.units
    weight, moments, label = target.weights, np.zeros((2, 1)), np.zeros(1, dtype=np.uint16)
    if merged.counts:
        label = model.leaf.labels(target)[order].astype(np.uint16)
    else:
        row_weight, moments = model.leaf.moments(target)
        weight, moments = np.ones(model.n_rows) if row_weight is None else row_weight, moments[:, order]
        moments = np.ascontiguousarray(moments)
    merged_row = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    row_stats = UnitStats(merged.counts, label, np.array(weight[order], dtype=np.float64), -1, moments)
    weight_before = np.array(weight, dtype=np.float64)
    weight_before[order] = 0.0
    empty = merged._replace(
        weight=np.bincount(merged_row, weights=weight_before, minlength=merged.n_units),
        weight_all=-1,
        moments=np.zeros_like(merged.moments),
    )
    return model.lowered._replace(units=empty), EnteringRows(merged_row[order].astype(np.int64), row_stats)


def shared_copy(chain: Chain) -> Chain:
    """Return a chain for another tree of a population, in the same state as ``chain``."""
    # the tree, the inverse temperature and the counts of moves are copies; all else is shared, so the two must not run
    # at once
    other = copy.copy(chain)
    other.state = chain.state._replace(**{name: getattr(chain.state, name).copy() for name in PARTICLE_ARRAYS})
    other._pack()
    return other


def copy_state(chain: Chain, source: Chain) -> None:
    """Replace the state of ``chain`` by a copy of that of ``source``, a chain of the same population."""
    if len(chain.state.node) == len(source.state.node):
        for name in PARTICLE_ARRAYS:
            np.copyto(getattr(chain.state, name), getattr(source.state, name))
        return
    arrays = {name: getattr(source.state, name).copy() for name in PARTICLE_ARRAYS}
    chain.state = chain.state._replace(**arrays, plan=source.state.plan, scratch=source.state.scratch)
    chain._pack()


def systematic_indices(rng: np.random.Generator, probability: np.ndarray, n: int) -> np.ndarray:
    """Return ``n`` indices by systematic sampling, ascending: index i is expected ``n * probability[i]`` times."""
    # probabilities are divided by their sum
    ends = np.cumsum(probability)
    places = (np.arange(n) + rng.random()) / n * ends[-1]
    return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)


ENGINES = ("smc", "mcmc")
MAX_STAGES = 2000  # largest number of stages unless ``block`` is given


def progressive_mixture(
    model: TreeModel,
    *,
    engine: str = "smc",
    chains: int = 8,
    draws: int = 1000,
    steps: int | None = None,
    particles: int = 200,
    threshold: float = 0.5,
    block: int | None = None,
    shuffle: bool = False,
    kernel: str | Mapping[Any, float] = "default",
    rng: Seed = None,
    executor: Executor | None = None,
) -> ProgressiveSample:
    """Estimate the mean of the posteriors after 0, 1, ..., all test examples (Blanchard 1999, section 6).

    With a frozen leaf model the rows of E (``estimation=`` of the model) determine the leaves, and those of S enter one
    by one. Other leaf models have no E: all rows enter in turn, and a stage predicts with leaves estimated from the
    examples so far. `exact.progressive_mixture` does the same without Monte-Carlo error, if it is tractable.

    Parameters
    ----------
    model : TreeModel
        Model with any split prior and tree prior, and a leaf model whose tree score is a sum over leaves.
    engine : {"smc", "mcmc"}, default "smc"
        "smc": a population of trees, weighted by how well each predicts the example that enters, and resampled and
        moved if the weights are too unequal (Chopin 2002). "mcmc": the method of the paper, a single tree that is moved
        a fixed number of times after each example. It is biased, as it never quite reaches equilibrium
        (docs/progressive.md).
    chains : int, default 8
        Number of independent repetitions, >= 2, whose spread is the Monte-Carlo error.
    draws : int, default 1000
        Number of trees saved per repetition, >= 1, spread evenly over the stages.
    steps : int, optional
        Number of proposals, >= 1: for "mcmc" after each example, default 20; for "smc" in each tree each time,
        default 100.
    particles : int, default 200
        Number of trees in a population, >= 2; "smc" only.
    threshold : float, default 0.5
        Resample when the effective sample size is below this fraction of the particles, in (0, 1]; "smc" only.
    block : int, optional
        Number of examples that enter at a time, >= 1, with an error of the order of ``block`` over the number of
        examples. Default: 1 up to 2,000 examples, above that such that there are 2,000 stages.
    shuffle : bool, default False
        True if the examples enter in a random order in each repetition (the symmetric version), False if they enter in
        the order of the data.
    kernel : str or {move: weight}, default "default"
        The moves, as for `sample`; "default" is "local".
    rng : int, SeedSequence, Generator, sequence of these, or None
        Source of randomness, as for `sample`.
    executor : concurrent.futures.Executor, optional
        Executor of the repetitions, each of which is one task. Default: threads, one per core.

    Returns
    -------
    ProgressiveSample

    Raises
    ------
    ValueError
        If an argument is out of range, the engine or kernel is unknown, the tree score is not a sum over leaves, no row
        is left in S, or the model's fixed tree has joint nodes.
    TypeError
        If the model is not a TreeModel.
    KeyboardInterrupt
        If interrupted before every repetition has a draw; later, the stages done so far are returned with a warning.

    Notes
    -----
    "smc" has a bias of the order of one over ``particles``, which the spread of the repetitions does not show; see
    docs/progressive.md. An example that enters costs O(depth) per tree. Memory per particle: 4 bytes a row, 250 bytes a
    node.

    References
    ----------
    .. [1] Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).
    .. [2] Chopin (2002), A sequential particle filter method for static models, Biometrika 89(3).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)[:, None]
    >>> model = pt.TreeModel(x, x[:, 0] > 19, estimation=np.arange(40) % 2 == 0, leaf=pt.FrozenLaplace())
    >>> mixture = pt.progressive_mixture(model, particles=50, draws=100, kernel="grow-prune", rng=1)
    >>> bool(mixture.predict_proba([[0.0]])[0, 0] > 0.8)
    True
    """
    check_reachable(model)
    check_executor(executor)
    check_choice("engine", engine, ENGINES)
    check_flag("shuffle", shuffle)
    minima = {"chains": 2, "draws": 1, "steps": 1, "particles": 2, "block": 1}
    values = {"chains": chains, "draws": draws, "steps": steps, "particles": particles, "block": block}
    for name, value in values.items():
        if value is not None or name not in ("steps", "block"):
            check_count(name, value, minima[name])
    check_number("threshold", threshold, "0 < threshold <= 1", 5e-324, 1.0)
    if not model.leaf.has_additive_score:
        raise ValueError(f"the score of {type(model.leaf).__name__} is not a sum over leaves; give what leaves share.")
    mixture, sources = read_kernel(kernel), chain_seeds(rng, int(chains))
    check_even_splits(mixture, model.split_prior)
    entering = entering_rows(model)
    width = max(1, math.ceil(len(entering) / MAX_STAGES)) if block is None else int(block)
    is_smc = engine == "smc"
    plans = [
        StagePlan(
            model,
            mixture,
            source,
            entering,
            bool(shuffle),
            np.append(np.arange(0, len(entering), width), len(entering)),
            int(draws),
            (100 if is_smc else 20) if steps is None else int(steps),
            int(particles) if is_smc else 0,
            float(threshold),
        )
        for source in sources
    ]
    start_time = time.perf_counter()
    pool = with_model_sent_once(executor, model)
    results = _run_on_threads(plans) if pool is None else list(pool.map(run_stages, plans))
    return ProgressiveSample.from_results(model, results, mixture.count_names, time.perf_counter() - start_time)


def entering_rows(model: TreeModel) -> np.ndarray:
    """Return the indices of the rows that enter one by one, S, in the order of the data; ValueError if none do."""
    if len(model.counted_rows) == 0:
        raise ValueError("S is empty: every row is in E or of weight zero; leave some rows to weigh the trees.")
    return model.counted_rows


def _run_on_threads(plans: list[StagePlan]) -> list[StageResult]:
    """Run the repetitions on threads, and return their results in the order of ``plans``."""
    # if interrupted, as many draws of each as every repetition has, with a warning
    stop = Event()
    with ThreadPoolExecutor(min(len(plans), n_cores())) as pool:
        futures = pending = [pool.submit(run_stages, plan, stop) for plan in plans]
        try:
            while pending:
                # a wait without a timeout may not react to Ctrl-C
                pending = list(wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION).not_done)
                if any(future.done() and future.exception() for future in futures):
                    stop.set()
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            stop.set()
            results = [future.result() for future in futures]
    n_common = min(len(result.stage) for result in results)
    if n_common == 0:
        raise KeyboardInterrupt("interrupted before every repetition had a draw; nothing to return")
    n_examples = min(int(result.stage[n_common - 1]) for result in results)
    warn(f"interrupted: the mean is over the stages with at most {n_examples} examples only.")
    return [result.first_draws(n_common) for result in results]


class ProgressiveSample(SampledPosterior):
    """Trees from all stages of the progressive mixture, returned by `progressive_mixture`.

    All results of a SampledPosterior are means over the stages; Monte-Carlo errors come from the variance between
    repetitions. Leaf values, statistics and ``log_score`` of a draw are those of its stage (equal trees of
    two stages count as two distinct trees); `map_tree` is the most probable of the trees found at the last stage.

    Attributes
    ----------
    stage : ndarray of shape (chains, draws), int64
        Number of examples that had entered at each draw.
    stage_log_evidence : ndarray of shape (chains, stages), float64
        Log evidence of the examples that had entered at each stage; at the first stage the log mass of the prior (0
        except for a conditioned process and LeafPenalty). NaN where that is unknown; no stages with engine "mcmc".
    n_resampled : ndarray of shape (chains,), int64
        Number of times that each population was resampled.
    """

    stage: np.ndarray
    stage_log_evidence: np.ndarray
    n_resampled: np.ndarray
    _log_evidence: float | None
    _log_evidence_se: float | None
    _best_at_end: SampledPosterior | None

    @classmethod
    def from_results(
        cls, model: TreeModel, results: list[StageResult], moves: tuple[str, ...], seconds: float
    ) -> ProgressiveSample:
        """Return the sample that joins the results of all repetitions, each as one chain."""
        facts: dict[str, Any] = {"by_stats": True, "moves": moves, "sees_all_rows": False}
        post = cls(Draws.join(model, [result.saved for result in results], seconds=seconds, **facts))
        post.stage = np.array([result.stage for result in results])
        post.n_resampled = np.array([result.n_resampled for result in results])
        best = [result.best for result in results if result.best is not None]
        post._best_at_end = SampledPosterior(Draws.join(model, best, by_stats=True)) if best else None
        by_stage = np.array([result.log_evidence for result in results])
        fractions = np.array([result.stump_fraction for result in results])
        post._log_evidence, post._log_evidence_se = _mean_evidence(model, by_stage, fractions)
        log_mass = prior_mass(model).log_mass_from(float(fractions.mean()))
        post.stage_log_evidence = by_stage + (np.nan if log_mass is None else log_mass)
        return post

    @property
    def log_evidence(self) -> float | None:
        """Log evidence of S, nats; None with engine "mcmc", or if interrupted."""
        return self._log_evidence

    @property
    def log_evidence_se(self) -> float | None:
        """Standard error of the log evidence, from the variance between repetitions; None if it was not estimated.

        It is multiplied by half the quantile of Student's t, so that plus or minus two of it cover 95 %; the factor is
        large for few repetitions (``chains``), 6.4 for two of them, 1.2 for eight.
        """
        return self._log_evidence_se

    def _best(self, k: int) -> MostProbable:
        if self._best_at_end is None:
            raise ValueError("the last stage was not reached; run again without interruption.")
        return self._best_at_end._best(k)

    def save(self, path: Any, *, log_likelihood: bool = False) -> None:
        refuse_to_save(self)

    def predict_proba_se(self, X: Any) -> np.ndarray:
        """Return the Monte-Carlo standard error (n, K) of `predict_proba`, from the variance between repetitions.

        Raises
        ------
        ValueError
            If the model is a regression, or X does not fit the model's columns.
        """
        if self.model.classes_ is None:
            raise ValueError(f"{type(self.model.leaf).__name__} is a regression; use predict_se.")
        return values_se(self.draws, self.model.columns.numbers(X))

    def predict_se(self, X: Any) -> np.ndarray:
        """Return the Monte-Carlo standard error (n,) of the predictive means of a regression.

        Raises
        ------
        ValueError
            If the model is a classification, or X does not fit the model's columns.
        """
        if self.model.classes_ is not None:
            raise ValueError(f"{type(self.model.leaf).__name__} is a classification; use predict_proba_se.")
        return values_se(self.draws, self.model.columns.numbers(X))[:, 0]

    def __repr__(self) -> str:
        return (
            f"ProgressiveSample({self.n_chains} repetitions x {self.n_draws} draws over the stages with 0 to "
            f"{self.stage.max()} examples, {self.n_leaves.mean():.1f} leaves)"
        )


def _mean_evidence(
    model: TreeModel, by_stage: np.ndarray, stump_fraction: np.ndarray
) -> tuple[float | None, float | None]:
    """Return the log of the mean evidence of the repetitions, nats, and its standard error, or None twice."""
    # `by_stage` (chains, stages) are log evidences under the prior divided by its mass, `stump_fraction` the fractions
    # of trees of one leaf at the first stage, which estimate an unknown mass
    if by_stage.shape[1] == 0:
        return None, None
    mass, fraction = prior_mass(model), float(stump_fraction.mean())
    log_mass = mass.log_mass_from(fraction)
    if log_mass is None:
        return None, None
    log_evidences = by_stage[:, -1]
    mean = float(log_mean(log_evidences))
    if mass.log_mass is None:
        log_evidences = log_evidences - stump_fraction / fraction
    return mean + log_mass, pooled_error(log_evidences, 0.0, 1)
