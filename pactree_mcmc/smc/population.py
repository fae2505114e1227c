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
from ..model.data import UnitStats, add_unit
from ..tree.drawn import Saved

OWN = ("order", "node", "stats", "box", "count", "beta", "moves")
"""Arrays of a state of which each particle has its own. All others are scratch, or depend on cells and examples alone.
"""
BETWEEN_MOVES = 1.5
"""Factor by which the number of examples grows between two moves of a population that is not resampled."""
GAP_BLOCKS = 10
"""Number of blocks of proposals between two draws from a prior that only a chain can sample."""


class Incoming(NamedTuple):
    """Rows of S in the order in which they enter."""

    unit: np.ndarray
    """(T,) int64: index of the merged row (unit) that contains each row."""
    own: UnitStats
    """Contribution of each row to the statistics of its cell, with rows in place of units."""


@jit
def weigh_rows(model: Any, rows: Any, first: int, last: int) -> None:
    """Add the rows ``first`` to ``last - 1`` to the weights and moments of their merged rows, which all trees share."""
    units, own = model.units, rows.own
    for i in range(first, last):
        u = rows.unit[i]
        units.weight[u] += own.weight[i]
        if not own.counts:
            for j in range(own.moments.shape[0]):
                units.moments[j, u] += own.moments[j, i]


@jit
def enter_rows(model: Any, state: Any, rows: Any, first: int, last: int) -> float:
    """Add the rows ``first`` to ``last - 1`` to the nodes of one tree. Return the increase of its log score."""
    units, own, gain = model.units, rows.own, 0.0
    for i in range(first, last):
        u, node = rows.unit[i], np.int64(0)
        while True:
            add_unit(state.stats, node, own, np.int64(i))
            here = state.node[node]
            before = here.score
            score_node(model, state, node)
            if is_leaf(state, node):
                gain += here.score - before
                break
            code = np.int64(units.codes[here.feature, u])
            node = here.left if goes_left(code, here.cut, here.categories) else here.right
    return gain


@jit
def enter_all(walks: Any, rows: Any, first: int, last: int, stage: int, gain: np.ndarray) -> None:
    """Add the rows ``first`` to ``last - 1`` to all trees, and write the increase of each log score to ``gain``.

    ``stage`` marks stored values of cells, so that those of earlier stages are no longer used.
    """
    weigh_rows(walks[0].model, rows, first, last)
    for i in range(len(walks)):
        walk = walks[i]
        gain[i] = enter_rows(walk.model, walk.state, rows, first, last)
        walk.state.count[STORED_VERSION] = stage


@jit
def list_of(walk: Any) -> Any:
    """Return a typed list with one walk, the compiled form of a chain (model, state and random numbers)."""
    out = List()
    out.append(walk)
    return out


@jit
def put_walk(walks: Any, i: int, walk: Any) -> None:
    """Replace walk ``i`` of a list, or append the walk if ``i`` is the length of the list."""
    if i == len(walks):
        walks.append(walk)
    else:
        walks[i] = walk


@jit
def grow_prior(walk: Any, node: int) -> int:
    """Grow a tree of a branching process in preorder, from ``node`` on.

    Return NONE if the tree is complete, or the node at which no free nodes were left.
    """
    model, state, root = walk.model, walk.state, np.int64(0)
    while node != NONE:
        if is_leaf(state, node) and state.node[node].splittable:
            if state.count[N_FREE] < 2:
                return node
            index = prior_index(model, state.node[node].depth, state.node[node].design)
            if flip(walk.rng, exp(model.prior.table[index].log_split)):
                attach_children(model, state, node, draw_split(walk.rng, model, state, node))
                accept_growth(model, state, node)
        node = next_node(state, node, root)
    return NONE


class StagePlan(NamedTuple):
    """Arguments of one repetition: a single chain, or a population of trees."""

    model: TreeModel
    kernel: Kernel
    seed: Any
    entering: np.ndarray
    """Indices (T,) of the rows of S in the order in which they enter, unless ``shuffle`` is True."""
    shuffle: bool
    bounds: np.ndarray
    """(stages,) number of examples that have entered at each stage, from 0 to all."""
    draws: int
    """Number of trees to save."""
    steps: int
    """Number of proposals for each example that enters a single chain, or in each tree when a population moves."""
    particles: int
    """Number of trees of a population, or 0 for a single chain, which moves at each stage."""
    threshold: float
    """Effective sample size, as a fraction of ``particles``, below which the population is resampled."""


class StageResult(NamedTuple):
    """Result of one repetition."""

    saved: Saved
    """Draws, evenly distributed over the stages."""
    stage: np.ndarray
    """(draws,) number of examples that had entered at each draw."""
    best: Saved | None
    """Most probable tree of the last stage, or None if that stage was not reached."""
    log_evidence: np.ndarray
    """(stages,) log evidence of the examples that had entered, for a population. Empty for a chain."""
    stump_fraction: float
    """Fraction of stumps in the population at the first stage."""
    n_resampled: int

    def first_draws(self, n_draws: int) -> StageResult:
        """Return the result of an interrupted repetition with its first ``n_draws`` draws only."""
        return self._replace(
            saved=first_draws(self.saved, n_draws), stage=self.stage[:n_draws], best=None, log_evidence=np.empty(0)
        )


class Stages:
    """State of one repetition, a chain or a population, while it goes through the stages."""

    def __init__(self, plan: StagePlan) -> None:
        self.plan, self.rng = plan, np.random.default_rng(plan.seed)
        order = self.rng.permutation(plan.entering) if plan.shuffle else plan.entering
        lowered, rows = model_before_examples(plan.model, order)
        self.rows = pack(rows)
        first = Chain(lowered, plan.kernel, self.rng)
        first.reserve(plan.draws)
        self.chains = [first] + [shared_copy(first) for _ in range(plan.particles - 1)]
        self._draw_first_trees()
        self.model, self.saved, self.packed_saved = first.model, first.saved, first.packed_saved
        self.weight = np.full(len(self.chains), 1.0 / len(self.chains))
        self.n_proposed, self.n_resampled, self.evidence = 0, 0, [0.0]
        self.stage: list[int] = []
        self.stump_fraction = float(np.mean([chain.state.count[N_NODES] == 1 for chain in self.chains]))

    def _draw_first_trees(self) -> None:
        """Draw the trees of the first stage, without examples, from the prior.

        Trees of a branching process are independent draws. Other priors are sampled by a chain, from tree to tree.
        """
        model, before = self.plan.model, None
        for chain in self.chains:
            if not model.tree_prior.is_process:
                if before is not None:
                    copy_state(chain, before)
                chain.proceed(PRIOR_BLOCKS if before is None else GAP_BLOCKS)
                before = chain
            elif isinstance(model.tree_prior, BranchingProcess) and model.tree_prior.conditioned:
                load_tree(model, chain, draw_prior_tree(model, self.rng))
            else:
                node = grow_prior(chain.packed_chain, np.int64(0))
                while node != NONE:
                    chain.enlarge()
                    node = grow_prior(chain.packed_chain, np.int64(node))
        self._list_walks()

    def _list_walks(self) -> None:
        """Update the typed list of all chains for compiled code."""
        if not hasattr(self, "walks"):
            self.walks = list_of(self.chains[0].packed_chain)
        for i, chain in enumerate(self.chains):
            put_walk(self.walks, i, chain.packed_chain)

    def run(self, stop: Event | None = None) -> StageResult:
        """Run all stages, or those until ``stop`` is set, and return the result."""
        plan, bounds = self.plan, self.plan.bounds
        widths = np.append(np.diff(bounds), 1)
        # stratified draws: the stages 0, ..., T are divided into equal parts, with one draw at a uniform time in each
        times = (np.arange(plan.draws) + self.rng.random(plan.draws)) * ((bounds[-1] + 1) / plan.draws)
        due = np.searchsorted(times, np.append(bounds, bounds[-1] + 1))
        finished = True
        for j, width in enumerate(widths.tolist()):
            if j > 0:
                self.enter(int(bounds[j - 1]), int(bounds[j]), j)
            here = (times[due[j] : due[j + 1]] - bounds[j]) / width
            self._save_while_moving(here, plan.steps * width) if plan.particles == 0 else self._save_some(len(here))
            self.stage += [int(bounds[j])] * len(here)
            finished = stop is None or not stop.is_set() or j + 1 == len(widths)
            if not finished:
                break
        return StageResult(
            trim_draws(self.saved),
            np.array(self.stage, dtype=np.int64),
            self._best() if finished else None,
            np.array(self.evidence if plan.particles > 0 else []),
            self.stump_fraction,
            self.n_resampled,
        )

    def enter(self, first: int, last: int, stage: int) -> None:
        """Add the examples ``first`` to ``last - 1`` to all trees.

        A population is then reweighted. It is resampled if its weights are too unequal, and moved if it was resampled
        or `moves_between` is True.
        """
        gain = np.empty(len(self.chains))
        enter_all(self.walks, self.rows, first, last, stage, gain)
        if self.plan.particles == 0:
            return
        # the weights w_i of the trees T_i sum to 1, so p(new rows | rows before) is about
        # sum_i w_i p(new rows | rows before, T_i), where the log of the last factor is the gain of the score of T_i
        largest = gain.max()
        weight = self.weight * np.exp(gain - largest)
        total = weight.sum()
        self.evidence.append(self.evidence[-1] + largest + math.log(total))
        self.weight = weight / total
        # effective sample size of the weights, (sum w)^2 / sum w^2 with sum w = 1
        uneven = 1.0 / (self.weight @ self.weight) < self.plan.threshold * len(self.chains)
        if uneven:
            self._resample()
        if uneven or moves_between(first, last):
            self._propose(self.plan.steps)
            self._list_walks()

    def _propose(self, n: int) -> None:
        """Make ``n`` proposals in each tree, of which each move has its fraction in the long run."""
        n_each = self.plan.kernel.next_proposals(self.n_proposed, n)
        for chain in self.chains:
            for step, n_now in enumerate(n_each):
                chain.propose(step, n_now)
        self.n_proposed += n

    def _resample(self) -> None:
        """Resample the population systematically. Copies of trees replace only trees that are dropped."""
        chosen = systematic_indices(self.rng, self.weight, len(self.chains))
        copies = np.bincount(chosen, minlength=len(self.chains))
        dropped = iter(np.flatnonzero(copies == 0).tolist())
        for i in np.flatnonzero(copies > 1).tolist():
            for _ in range(int(copies[i]) - 1):
                copy_state(self.chains[next(dropped)], self.chains[i])
        self.weight[:] = 1.0 / len(self.chains)
        self.n_resampled += 1

    def _save_while_moving(self, times: np.ndarray, n: int) -> None:
        """Make ``n`` proposals in the chain, and save its tree after the fractions ``times`` of them."""
        done = 0
        for at in (times * n).astype(int).tolist():
            self._propose(at - done)
            self._save(self.chains[0])
            done = at
        self._propose(n - done)
        put_walk(self.walks, 0, self.chains[0].packed_chain)

    def _save_some(self, n: int) -> None:
        """Save ``n`` trees of the population, drawn systematically by their weights."""
        if n > 0:
            for i in systematic_indices(self.rng, self.weight, n).tolist():
                self._save(self.chains[i])

    def _save(self, chain: Chain) -> None:
        """Append the current tree of a chain to the draws of the repetition."""
        chain.saved, chain.packed_saved = self.saved, self.packed_saved
        chain.save(as_new=True)
        self.saved, self.packed_saved = chain.saved, chain.packed_saved

    def _best(self) -> Saved:
        """Return the most probable of the current trees."""
        values = [
            log_prior_of(self.model, chain.packed_state) + log_score_given_noise(chain.packed_state)
            for chain in self.chains
        ]
        chain = self.chains[int(np.argmax(values))]
        chain.reserve(1)
        chain.save(as_new=True)
        return trim_draws(chain.saved)


def moves_between(first: int, last: int) -> bool:
    """Return True if the number of examples added passes a power of `BETWEEN_MOVES` from ``first`` to ``last``.

    If moves only followed resampling, a population with even weights would never move and stay too close to the prior,
    with a bias of the order of one over the number of particles.
    """
    powers = [-1.0 if n == 0 else math.floor(math.log(n) / math.log(BETWEEN_MOVES)) for n in (first, last)]
    return powers[1] > powers[0]


def run_stages(plan: StagePlan, stop: Event | None = None) -> StageResult:
    """Run one repetition. This is a module-level function of plain data, which any executor can send."""
    stages = Stages(plan)
    with name_cell_in_errors(plan.model, stages.chains):
        return stages.run(stop)


def model_before_examples(model: TreeModel, order: np.ndarray) -> tuple[Lowered, Incoming]:
    """Return the compiled form of the model before any example has entered, and the examples in ``order`` (T,).

    Weights and moments of the merged rows are copies, which the examples change.
    """
    target, units = model.target, model.units
    weight, moments, label = target.weights, np.zeros((2, 1)), np.zeros(1, dtype=np.uint16)
    if units.counts:
        label = model.leaf.labels(target)[order].astype(np.uint16)
    else:
        row_weight, moments = model.leaf.moments(target)
        weight, moments = np.ones(model.n_rows) if row_weight is None else row_weight, moments[:, order]
        moments = np.ascontiguousarray(moments)
    unit = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    own = UnitStats(units.counts, label, np.array(weight[order], dtype=np.float64), -1, moments)
    before = np.array(weight, dtype=np.float64)
    before[order] = 0.0
    empty = units._replace(
        weight=np.bincount(unit, weights=before, minlength=units.n_units),
        weight_all=-1,
        moments=np.zeros_like(units.moments),
    )
    return model.lowered._replace(units=empty), Incoming(unit[order].astype(np.int64), own)


def shared_copy(chain: Chain) -> Chain:
    """Return a chain in the same state that shares the model, the stored values of cells and the scratch arrays."""
    other = copy.copy(chain)
    other.state = chain.state._replace(**{name: getattr(chain.state, name).copy() for name in OWN})
    other._pack()
    return other


def copy_state(chain: Chain, source: Chain) -> None:
    """Copy the state of ``source`` to another chain of the same population."""
    if len(chain.state.node) == len(source.state.node):
        for name in OWN:
            np.copyto(getattr(chain.state, name), getattr(source.state, name))
        return
    own = {name: getattr(source.state, name).copy() for name in OWN}
    chain.state = chain.state._replace(**own, plan=source.state.plan, scratch=source.state.scratch)
    chain._pack()


def systematic_indices(rng: np.random.Generator, probability: np.ndarray, n: int) -> np.ndarray:
    """Return ``n`` indices by systematic sampling: index i is expected ``n * probability[i]`` times."""
    ends = np.cumsum(probability)
    places = (np.arange(n) + rng.random()) / n * ends[-1]
    return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)
