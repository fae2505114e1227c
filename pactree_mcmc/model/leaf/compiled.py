"""Scores of cells for compiled code: the code of a leaf model selects the function."""

from math import nan

import numpy as np

from ...core.compile.jit import jit
from .base import (
    BY_ADDRESS,
    DIRICHLET,
    KNOWN_NORMAL,
    LAPLACE,
    LOSS,
    NORMAL,
    POISSON,
    SHARED_NORMAL,
    LeafRule,
    add_addressed_scores_into,
    addressed_score,
)
from .classes import add_counts_scores_into, counts_score, dirichlet_score, laplace_score, loss_score
from .counts import poisson_score
from .normal import known_normal_score, normal_score


@jit
def leaf_score(rule: LeafRule, stats: np.ndarray, row: int) -> float:
    """Return the score in nats, log marginal likelihood or minus a loss, of the cell with statistics ``stats[row]``."""
    return _score_by_kind(rule.kind, rule.params, rule.lookup, stats, row)


@jit
def add_scores_into(out: np.ndarray, rule: LeafRule, stats: np.ndarray, n: int) -> None:
    """Add to ``out[i]``, i < ``n``, the score in nats of the cell with statistics ``stats[i]`` by the leaf ``rule``."""
    kind, params, lookup = rule.kind, rule.params, rule.lookup
    # loops of their own for the commonest scores: choosing the kind cell by cell costs ten times as much
    if kind == DIRICHLET and lookup.shape[1] > 1:
        add_counts_scores_into(out, lookup, stats, n)
    elif kind == NORMAL:
        for row in range(n):
            out[row] += normal_score(params, lookup, stats, row)
    elif kind == KNOWN_NORMAL or kind == SHARED_NORMAL:
        for row in range(n):
            out[row] += known_normal_score(params, lookup, stats, row)
    elif kind == POISSON:
        for row in range(n):
            out[row] += poisson_score(params, stats, row)
    elif kind == LOSS:
        for row in range(n):
            out[row] += loss_score(params, stats, row)
    elif kind == BY_ADDRESS:
        add_addressed_scores_into(out, params, stats, n)
    else:
        for row in range(n):
            out[row] += _score_by_kind(kind, params, lookup, stats, row)


@jit
def _score_by_kind(kind: int, params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return `leaf_score` of the cell ``stats[row]``, given fields of a `LeafRule`; NaN for an unknown ``kind``."""
    if kind == DIRICHLET:
        if lookup.shape[1] > 1:
            score = counts_score(lookup, stats, row)
        else:
            score = dirichlet_score(params, stats, row)
    elif kind == LAPLACE:
        score = laplace_score(params, stats, row)
    elif kind == NORMAL:
        score = normal_score(params, lookup, stats, row)
    elif kind == KNOWN_NORMAL or kind == SHARED_NORMAL:
        score = known_normal_score(params, lookup, stats, row)
    elif kind == POISSON:
        score = poisson_score(params, stats, row)
    elif kind == LOSS:
        score = loss_score(params, stats, row)
    elif kind == BY_ADDRESS:
        score = addressed_score(params, stats, row)
    else:
        # not the code of a score: the caller refuses scores that are not finite
        score = nan
    return score
