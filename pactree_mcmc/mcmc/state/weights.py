"""Unknown feature weights: draws given the tree, and their effect on the prior of a tree.

After Linero, *Bayesian regression trees for high-dimensional prediction and variable selection*, JASA 113 (2018). The
prior of the weights s is Dirichlet(a/p, ..., a/p), and node v splits on feature k with probability

    s_k / s(A_v),      s(A_v) = sum_k h_vk s_k,      h_vk the fraction of k's weight that the cell admits: 0, 1/2 or 1

so Dirichlet(a/p + counts) is the distribution of s given the tree only if all cells admit all features. In general,
with independent ``g_k ~ Gamma(a/p)``, s = g / sum(g), and with ``u_v ~ Exponential(g(A_v))`` for each node,

    p(tree | g) p(u | g) = prod_v g_{k_v} exp(-u_v g(A_v)),    so   g_k | u ~ Gamma(a/p + n_k, 1 + sum_v u_v h_vk)

are again independent, where ``n_k`` is the number of nodes that split on k; u accounts for the inadmissible features
that would have been drawn first. An unknown concentration is drawn given u alone, with g integrated out. A second step
makes large moves of s if many features have far smaller weights than the others: a Dirichlet draw, as if some of the
nodes admitted all features, is accepted or rejected by the features that they do admit (Metropolis).

Weights are stored as logs: with a/p = 1/100 one in ten is below 1e-100.

The moves do not use the weights. They propose, and compute their ratios, as if the weights were equal; the effect of
the weights on the prior, the *tilt* of a node, enters where proposals are accepted or rejected (`moves.base`). So
everything cached for cells remains valid when the weights change.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...core.logsum import exp_into, log_add, log_sum_exp
from ...model import Lowered
from ...model.split_prior.base import N_CONCENTRATIONS
from .lists import is_leaf
from .random import flip, flip_log, pick_weighted
from .records import N_INTERNAL, NONE
from .splits import fill_feature_weights
from .terms import next_node
from .tree import ChainState

CONCENTRATION, RHO = range(2)
"""Indices of the entries of `SplitRule.dirichlet`. A concentration of 0 means that it is drawn."""
MIN_EXPONENTIAL = 1e-300
"""Smallest exponential variable, so that its log is finite."""


@jit
def has_drawn_weights(state: ChainState) -> bool:
    """Return True if the feature weights are drawn, and not fixed."""
    return len(state.weights) > 0


@jit
def split_tilt(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Return the tilt of a node's split on coordinate ``k``: its log split prior by the drawn feature weights, minus
    that by equal weights. It does not depend on the cut.
    """
    # with s the drawn weights and h the admitted ones, R = h_k s_k / sum_c h_c s_c, against h_k / sum_c h_c
    feature, total_equal, largest = model.split_prior.feature, fill_feature_weights(model, state, node), -inf
    for c in range(len(feature)):
        if state.scratch.feature_weight[c] > 0.0:
            largest = max(largest, state.weights[feature[c].turn])
    total = 0.0
    for c in range(len(feature)):
        if state.scratch.feature_weight[c] > 0.0:
            total += state.scratch.feature_weight[c] * exp(state.weights[feature[c].turn] - largest)
    return state.weights[feature[k].turn] - largest - log(total) + log(total_equal)


@jit
def update_tilts(model: Lowered, state: ChainState, top: int) -> float:
    """Compute and store the tilts (`split_tilt`) of the internal nodes of the subtree at ``top``. Return their sum."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if not is_leaf(state, node):
            state.tilt[node] = split_tilt(model, state, node, state.node[node].feature)
            total += state.tilt[node]
        node = next_node(state, node, top)
    return total


@jit
def stored_tilt(state: ChainState, top: int) -> float:
    """Return the sum of the stored tilts (`split_tilt`) of the internal nodes of the subtree at ``top``."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if not is_leaf(state, node):
            total += state.tilt[node]
        node = next_node(state, node, top)
    return total


@jit
def redraw_weights(chain: Any) -> None:
    """Draw the feature weights, and their concentration, given the tree, and compute all tilts (`split_tilt`).

    ``chain`` has the random generator, model and state of one chain.
    """
    model, state = chain.model, chain.state
    rule, n = model.split_prior, state.count[N_INTERNAL]
    split_on, admitted = np.zeros(n, dtype=np.int64), np.zeros((n, rule.n_turns))
    for i in range(n):
        node = state.node[i].internal
        fill_feature_weights(model, state, node)
        split_on[i] = rule.feature[state.node[node].feature].turn
        for c in range(len(rule.feature)):
            admitted[i, rule.feature[c].turn] += state.scratch.feature_weight[c]
    draw_weights(chain.rng, state.weights, rule.dirichlet, split_on, admitted)
    metropolis_step(chain.rng, state.weights, split_on, admitted)
    update_tilts(model, state, np.int64(0))


@jit
def draw_weights(
    rng: np.random.Generator, weights: np.ndarray, dirichlet: np.ndarray, split_on: np.ndarray, admitted: np.ndarray
) -> None:
    """Draw log weights and concentration into ``weights`` (p + 1,), as in `ChainState`, given the splits of n nodes.

    Node i splits on feature ``split_on[i]``. Its cell admits the fraction ``admitted[i, k]`` of feature k's weight.
    ``dirichlet`` has the concentration, 0 if it is drawn, and the scale rho of its prior.
    """
    p = len(weights) - 1
    counts, log_rate = np.zeros(p), np.zeros(p)
    log_total = log_gamma_draw(rng, weights[p])
    for i in range(len(split_on)):
        if not admits_several(admitted, i):
            continue
        counts[split_on[i]] += 1.0
        # u ~ Exponential(g(A_i)) with g = total * s, and below g_k ~ Gamma(a/p + n_k, 1 + sum_i u_i h_ik)
        log_u = (
            log(max(rng.standard_exponential(), MIN_EXPONENTIAL))
            - log_total
            - log_admitted_weight(weights, admitted, i)
        )
        for k in range(p):
            if admitted[i, k] > 0.0:
                log_rate[k] = log_add(log_rate[k], log_u + log(admitted[i, k]))
    if dirichlet[CONCENTRATION] == 0.0:
        weights[p] = draw_concentration(rng, dirichlet[RHO], counts, log_rate)
    for k in range(p):
        weights[k] = log_gamma_draw(rng, weights[p] / p + counts[k]) - log_rate[k]
    normalise_log_weights(weights)


@jit
def log_gamma_draw(rng: np.random.Generator, shape: float) -> float:
    """Return the log of a draw from Gamma(shape). The draw itself may underflow."""
    # Gamma(a) = Gamma(a + 1) U^(1 / a), and -log U is exponential
    return log(rng.gamma(shape + 1.0)) - rng.standard_exponential() / shape


@jit
def normalise_log_weights(weights: np.ndarray) -> None:
    """Shift the log weights so that the weights add up to one. The last entry, the concentration, stays."""
    p = len(weights) - 1
    log_total = log_sum_exp(weights, p)
    for k in range(p):
        weights[k] -= log_total


@jit
def admits_several(admitted: np.ndarray, i: int) -> bool:
    """Return True if row ``i`` of ``admitted`` (see `draw_weights`) admits two or more features, so that the node's
    split depends on the weights.
    """
    n = 0
    for k in range(admitted.shape[1]):
        n += admitted[i, k] > 0.0
    return n > 1


@jit
def admits_all(admitted: np.ndarray, i: int) -> bool:
    """Return True if row ``i`` of ``admitted`` (see `draw_weights`) admits all features with all their splits."""
    for k in range(admitted.shape[1]):
        if admitted[i, k] != 1.0:
            return False
    return True


@jit
def log_admitted_weight(weights: np.ndarray, admitted: np.ndarray, i: int) -> float:
    """Return log s(A_i), the log of the total feature weight that the cell of node ``i`` admits.

    The total is the sum over features k of the fraction ``admitted[i, k]``, from 0 to 1, times the weight of feature k.
    ``weights`` are log weights.
    """
    largest, total = -inf, 0.0
    for k in range(admitted.shape[1]):
        if admitted[i, k] > 0.0:
            largest = max(largest, weights[k])
    for k in range(admitted.shape[1]):
        if admitted[i, k] > 0.0:
            total += admitted[i, k] * exp(weights[k] - largest)
    return largest + log(total)


@jit
def draw_concentration(rng: np.random.Generator, rho: float, counts: np.ndarray, log_rate: np.ndarray) -> float:
    """Draw the concentration a from a grid of values, given auxiliary exponential variables, with weights integrated
    out.

    Its density is the product of ``Gamma(a/p + n_k) / Gamma(a/p)`` and ``(1 + U_k)^-(a/p)`` over the features, with n_k
    = ``counts[k]`` splits and log(1 + U_k) = ``log_rate[k]``, U_k the sum of the variables of nodes that admit k. All
    values of the grid, of scale ``rho``, have the same prior.
    """
    p, slope, n_positive = len(counts), 0.0, 0
    positive = np.empty(p)
    for k in range(p):
        slope += log_rate[k]
        if counts[k] > 0.0:
            positive[n_positive] = counts[k]
            n_positive += 1
    value, weight = np.empty(N_CONCENTRATIONS), np.empty(N_CONCENTRATIONS)
    for j in range(N_CONCENTRATIONS):
        # a / (a + rho) = x^2 with x uniform on a grid, so that small a are well covered
        root = (j + 0.5) / N_CONCENTRATIONS
        value[j] = rho * root * root / (1.0 - root * root)
        weight[j] = -value[j] / p * slope
        for k in range(n_positive):
            for i in range(int(positive[k])):
                weight[j] += log(value[j] / p + i)
    return value[pick_weighted(rng, weight, exp_into(weight, weight, N_CONCENTRATIONS))]


@jit
def metropolis_step(rng: np.random.Generator, weights: np.ndarray, split_on: np.ndarray, admitted: np.ndarray) -> None:
    """Make a Metropolis step of the log weights, with the arguments of `draw_weights`. Change ``weights`` in place.

    The proposal is a Dirichlet draw, as if some nodes admitted all features and the others did not exist. Do nothing if
    all nodes with a choice admit all features, since `draw_weights` then drew the weights independently.
    """
    p = len(weights) - 1
    counts, is_counted, is_exact = np.zeros(p), np.zeros(len(split_on), dtype=np.bool_), True
    for i in range(len(split_on)):
        if admits_several(admitted, i):
            admits_some = not admits_all(admitted, i)
            is_exact = is_exact and not admits_some
            is_counted[i] = not admits_some or flip(rng, 0.5)
            counts[split_on[i]] += is_counted[i]
    if is_exact:
        return
    proposed = weights.copy()
    for k in range(p):
        proposed[k] = log_gamma_draw(rng, weights[p] / p + counts[k])
    normalise_log_weights(proposed)
    # the posterior has a factor s_k / s(A_i) for each node, the proposal s_k for each counted node
    log_ratio = 0.0
    for i in range(len(split_on)):
        if admits_several(admitted, i):
            log_ratio += log_admitted_weight(weights, admitted, i) - log_admitted_weight(proposed, admitted, i)
            if not is_counted[i]:
                log_ratio += proposed[split_on[i]] - weights[split_on[i]]
    if flip_log(rng, log_ratio):
        for k in range(p):
            weights[k] = proposed[k]
