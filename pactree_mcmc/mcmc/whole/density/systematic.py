"""Systematic samples of the splits of a cell, by the learned density (formula sheet, section 12.1)."""

from math import log

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.split_prior.geometry import follows_design
from ...state.records import N_WAY_TERMS, NONE
from ...state.splits import Split, fixed_split, n_splits_of
from ...state.tree import ChainState
from ...sums.split_sums import fill_bins, note_way
from ...sums.ways import way_of
from .density import asked, mixture
from .terms import LEARNED, weigh_ways


@jit
def sample_ways(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, expected: float, retained: int, base: int
) -> int:
    """Write a systematic sample of the splits of a node into ``density.branch[base:]`` and return its size.

    Split q is in it with probability ``p_q = min(1, expected * g(q))``. If a node of the same cell is ``retained``, and
    not NONE, the sample is drawn given that the split of that node is in it. Without room for all splits set
    ``density.is_exhausted``.
    """
    place, rule, work = asked(model, state, node), model.split_prior, state.scratch.density
    if follows_design(rule):
        _note_branch(state, base, fixed_split(model, state, node), 0.0, retained != NONE)
        return 1
    point = _first_point(rng, model, state, node, expected, retained, place)
    kept_feature, kept_way, kept_at = NONE, np.int64(-3), np.int64(0)
    if retained != NONE:
        kept_feature = state.node[retained].feature
    below, m = 0.0, np.int64(0)
    for k in range(len(rule.feature)):
        fraction = expected * state.stored.fraction[place, k]
        if fraction <= 0.0 or not (point < below + fraction or k == kept_feature):
            below += fraction
            continue
        n = fill_bins(model, state, node, k)
        rule_of = rule.feature[k].weight / n_splits_of(model, state, node, k, n)
        n_splits, inside = weigh_ways(model, state, node, k, n), below
        if k == kept_feature:
            kept_way, kept_at = way_of(model, state, node, retained, k, n)
        for way in range(-2, n_splits):
            if work.n_alike[way + 2] == 0:
                continue
            learned = work.exponent[LEARNED, way + 2]
            length = expected * mixture(model, state, node, place, np.int64(k), rule_of, learned)
            for i in range(work.n_alike[way + 2]):
                inside += length
                kept = k == kept_feature and way == kept_way and i == kept_at
                taken = kept
                while point < inside:
                    taken = True
                    point += 1.0
                if taken and base + m == len(work.branch):
                    work.is_exhausted[0] = 1
                elif taken:
                    note_way(model, state, node, k, n, way)
                    chosen = state.scratch.scan.chosen[0]
                    cut = chosen.cut + i
                    upper = cut + 1 if chosen.n_alike > 1 else chosen.upper
                    log_r = log(rule_of / state.stored.guide[place].weight)
                    split = Split(np.int64(k), cut, upper, chosen.categories, log_r)
                    _note_branch(state, base + m, split, min(log(length), 0.0), kept)
                    for j in range(N_WAY_TERMS):
                        work.branch_terms[base + m, j] = work.way_terms[j, way + 2]
                    m += 1
        below += fraction
    return m


@jit
def _first_point(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, expected: float, retained: int, place: int
) -> float:
    """Draw the first point, in [0, 1), of the lattice that chooses a systematic sample."""
    if retained == NONE:
        return rng.random()
    rule, kept, before, work = model.split_prior, state.node[retained].feature, 0.0, state.scratch.density
    for k in range(kept):
        before += expected * state.stored.fraction[place, k]
    n = fill_bins(model, state, node, kept)
    rule_of = rule.feature[kept].weight / n_splits_of(model, state, node, kept, n)
    n_splits, length = weigh_ways(model, state, node, kept, n), 0.0
    kept_way, kept_at = way_of(model, state, node, retained, kept, n)
    for way in range(-2, n_splits):
        if work.n_alike[way + 2] > 0:
            learned = work.exponent[LEARNED, way + 2]
            length = expected * mixture(model, state, node, place, kept, rule_of, learned)
            if way == kept_way:
                before += kept_at * length
                break
            before += work.n_alike[way + 2] * length
    point = rng.random()
    if length >= 1.0:
        return point
    whole = np.floor(before)
    point = point * length - (whole - before)
    return point if point < 1.0 else point - 1.0


@jit
def _note_branch(state: ChainState, at: int, split: Split, log_p: float, kept: bool) -> None:
    """Write a sampled split into branch ``at``."""
    branch = state.scratch.density.branch[at]
    branch.feature, branch.cut, branch.upper = split.feature, split.cut, split.upper
    branch.categories, branch.log_rule, branch.log_p, branch.kept = split.categories, split.log_rule, log_p, kept
