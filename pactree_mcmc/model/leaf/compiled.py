"""The leaf scores as compiled code takes them: an integer code, parameters, additive statistics."""

from math import nan

import numpy as np

from ...core.compile.address import call_at, call_at_with
from ...core.compile.jit import jit
from .codes import BY_ADDRESS, DIRICHLET, KNOWN_NORMAL, LAPLACE, LOSS, NORMAL, POISSON, SHARED_NORMAL, LeafRule
from .dirichlet import add_counts_scores_into, counts_score, dirichlet_score
from .frozen_laplace import laplace_score
from .known_variance import known_normal_score
from .normal import normal_score
from .pac_bayes_loss import loss_score
from .poisson import poisson_score


@jit
def leaf_score(rule: LeafRule, stats: np.ndarray, row: int) -> float:
    """Log score in nats of the cell with statistics ``stats[row]``, of ``stats`` (m, n_stats)."""
    return _score(rule.kind, rule.params, rule.lookup, stats, row)


@jit
def add_scores_into(out: np.ndarray, rule: LeafRule, stats: np.ndarray, n: int) -> None:
    """Add to ``out`` the log scores of the cells with the first ``n`` rows of statistics."""
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
        for row in range(n):
            out[row] += addressed_score(params, stats, row)
    else:
        for row in range(n):
            out[row] += _score(kind, params, lookup, stats, row)


@jit
def _score(kind: int, params: np.ndarray, lookup: np.ndarray, stats: np.ndarray, row: int) -> float:
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
        # no code of a score: what is not finite is refused where it is met
        score = nan
    return score


@jit
def addressed_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Score by a function that is called by its address; 0 of a cell without weight, for which it is not asked.

    ``params``: the address, the first statistic that the function sees, whether it has parameters, these. A statistic
    that it does not see is the weight; where it sees all they are weights.
    """
    first, weight = np.int64(params[1]), stats[row, 0]
    if first == 0:
        for j in range(1, stats.shape[1]):
            weight += stats[row, j]
    if weight <= 0.0:
        return 0.0
    address, n = np.int64(params[0]), stats.shape[1] - first
    if params[2] > 0.0:
        return call_at_with(address, stats, row, first, n, params, np.int64(3))
    return call_at(address, stats, row, first, n)
