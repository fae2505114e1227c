"""Single chains and weighted populations of trees while examples enter: the engines of the progressive mixture.

An example is a row of S. All examples have weight zero at first. An example that enters adds its weight to its merged
row (unit), and to the statistics and scores of the nodes on its path in each tree. The splits of a cell depend on the
rows but not on their weights, and do not change.
"""

from __future__ import annotations

import copy
import math
from math import exp
from threading import Event
from typing import Any, NamedTuple

import numpy as np
from numba.typed import List

from ..core.bits import goes_left
from ..core.compile.jit import jit
from ..core.compile.pack import pack
from ..core.portable import exp as exp_of
from ..mcmc.chain.chain import Chain
from ..mcmc.chain.draw_store import log_prior_of, trim_draws
from ..mcmc.chain.start import PRIOR_BLOCKS, draw_prior_tree, load_tree
from ..mcmc.chain.stopped import name_cell_in_errors
from ..mcmc.edits.grow import accept_growth, attach_children
from ..mcmc.kernel import Kernel
from ..mcmc.run.task import first_draws
from ..mcmc.state.lists import is_leaf
from ..mcmc.state.noise import log_score_given_noise
from ..mcmc.state.random import flip
from ..mcmc.state.records import N_FREE, N_NODES, NONE, STORED_VERSION
from ..mcmc.state.splits import draw_split
from ..mcmc.state.terms import next_node, prior_index, score_node
from ..model import BranchingProcess, Lowered, TreeModel
from ..model.units import UnitStats, add_unit
from ..tree.drawn import Saved

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
        return self._replace(
            saved=first_draws(self.saved, n_draws), stage=self.stage[:n_draws], best=None, log_evidence=np.empty(0)
        )


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
        """Update ``compiled_chains``, the typed list of all chains for compiled code."""
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
        indices = systematic_indices(self.rng, self.weight, len(self.chains))
        copies = np.bincount(indices, minlength=len(self.chains))
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
