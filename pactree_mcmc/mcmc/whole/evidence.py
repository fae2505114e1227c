"""The evidence of a run with a density of trees, by bridge sampling, and lower bounds of probabilities of features.

After Meng and Wong, *Simulating ratios of normalizing constants via a simple identity*, Statistica Sinica 6 (1996).
With weights ``w = pi(T) / g(T)`` of n draws of the chains and m of the density, the evidence Z solves

    Z  =  mean_g [w / (s w + r Z)] / mean_pi [1 / (s w + r Z)],      s = n / (n + m),  r = m / (n + m)

with n counted in effective draws. Its relative error is that of the two means (Frühwirth-Schnatter 2004, *Econometrics
Journal* 7); that of the chains from the autocorrelation of their terms. Each team of chains has an estimate of its own,
by its own draws and its own density.

**Lower bounds of the probabilities of features** follow from the graphs of visited cells. The trees whose cells and
splits a graph contains are some of all trees. Their sum of prior times likelihood is exact by the recursion over pieces
(cells at a depth), children first,

    S(u) = log( e^stop(u) + sum over links q of u of e^(fixed_q + S(left_q) + S(right_q)) ).

Unlike the estimate V of `density.graph`, which divides by the density, S needs no draws. So S of the trees with one
feature at the root, or with one feature anywhere, minus the log evidence, is a lower bound of a log probability, to
which the fraction of the draws can be compared.
"""

from __future__ import annotations

import time
from math import exp as scalar_exp
from math import expm1, inf, log
from typing import Any

import numpy as np

from ...core.compile.jit import jit, pack
from ...core.portable import exp
from ...core.special import log_add, log_mean, stdtrit
from ...model import TreeModel
from ...posterior.draws import Course, Draws
from ...posterior.ess import MIN_DRAWS_PER_CHAIN, autocorrelation_times
from ...posterior.evidence import ERROR_COVERAGE, combined_evidence, evidence_constant, prior_mass
from ..chain.chain import Chain
from ..moves.learned import saved_log_weights_into
from ..run.records import DEFAULT_WORK
from ..state.records import N_LINKS, N_PIECES, N_VISITED_ROWS, NONE, Graph
from .density.density import MAX_REDRAWN_VALUES
from .tasks import TREES_PER_CALL, replica_of_team, sample_independent

N_WEIGHTED_DRAWS = 400
"""Number of draws of all chains whose weights are computed. Twice as many trees are drawn from the densities of all
teams."""
MAX_COST_FRACTION = 0.1
"""Largest part of the usual work, and of a time limit that has ended, that drawing these trees may take. The weights of
larger trees would say little about the evidence."""
MAX_LINK_VISITS = 20_000_000
"""Largest number of links, times features, that the sums may visit: half a second. Beyond it features below the root
are not compared."""


def team_evidences(post: Any, limit: float = inf) -> np.ndarray | None:
    """Return the log evidence in nats and its standard error, (teams, 2), by the density and the draws of each team."""
    # an error is NaN if too few draws leave it unknown. None if there is no estimate: the run fitted no density or was
    # tempered, the mass of the prior is not known, the variance of the leaves is drawn, the root is too large a cell or
    # cannot be split, independent trees would visit too many rows or take too much of the time limit ``limit`` of the
    # run (in seconds), or the density of a team contains none of its draws, or draws only trees that are too large
    model, course = post.model, post.course
    if course is None or course.tuned.density is None or not model.lowered.leaf.is_fixed:
        return None
    if (
        prior_mass(model).log_mass is None
        or model.units.n_units * len(model.lowered.split_prior.feature) > MAX_REDRAWN_VALUES
    ):
        return None
    teams, evidences = course.teams, []
    for team in teams:
        rest = course.rests[team[0]]
        chain = replica_of_team(model.lowered, course.tuned, rest.team, rest)
        if not chain.state.node[0].splittable:
            return None
        fraction = MAX_COST_FRACTION / len(teams)
        n_trees = 2 * N_WEIGHTED_DRAWS // len(teams)
        of_trees = log_weights_of_trees(chain, n_trees, fraction * DEFAULT_WORK, fraction * limit)
        if of_trees is None:
            return None
        of_draws = log_weights_of_draws(chain, post.draws, team)
        if not (np.isfinite(of_draws).any() and np.isfinite(of_trees).any()):
            return None
        log_z, se = bridge_evidence(of_draws, of_trees)
        if len(team) > 1 and np.isfinite(se):
            # chains in different modes: the error covers the difference between what each alone would estimate
            by_chain = np.array([bridge_evidence(one[None], of_trees) for one in of_draws if np.isfinite(one).any()])
            between = combined_evidence(by_chain)[1]
            se = np.nan if between is None else max(se, between)
        evidences.append((log_z + evidence_constant(model), se))
    return np.array(evidences)


def with_evidences(post: Any, evidences: np.ndarray | None) -> Course:
    """Return the course of a run with its evidences, and what follows from them for the features that it visited."""
    course = post.course
    numbers = sorted({rest.team for rest in course.rests}) if course.tuned.graphs else []
    graphs = [course.tuned.graphs[number] for number in numbers]
    return course._replace(evidences=evidences, visited=visited_probabilities(post.model, graphs, evidences))


def log_weights_of_trees(chain: Chain, n_trees: int, rows: float, seconds: float) -> np.ndarray | None:
    """Return log pi(T) - log g(T) (n_trees,) of independent trees T from the density g of a chain."""
    # None if, by the cost of the first few, all would visit more than ``rows`` rows or take more than ``seconds``
    before, start_time = int(chain.state.count[N_VISITED_ROWS]), time.perf_counter()
    first = sample_independent(chain, TREES_PER_CALL)
    cost = np.array([int(chain.state.count[N_VISITED_ROWS]) - before, time.perf_counter() - start_time])
    cost = cost * n_trees / len(first)
    if cost[0] > rows or cost[1] > seconds:
        return None
    return np.concatenate([first, sample_independent(chain, n_trees - len(first))])


def log_weights_of_draws(chain: Chain, draws: Draws, team: list[int]) -> np.ndarray:
    """Return log pi(T) - log g(T) (chains, k) of k evenly spaced draws of each chain, inf if g cannot draw T."""
    n = min(max(N_WEIGHTED_DRAWS // draws.n_chains, 1), draws.n_draws)
    indices = np.unique(np.linspace(0, draws.n_draws - 1, n).astype(np.int64))
    numbers = draws.tree_of_draw[np.ix_(team, indices)]
    trees, draw_index = np.unique(numbers, return_inverse=True)
    coded, weights, n_done = draws.coded_trees.take(trees), np.empty(len(trees)), 0
    nodes, offset = coded.records().view(np.recarray), coded.offset.astype(np.int64)
    while (
        n_done := int(saved_log_weights_into(chain.packed_chain, nodes, offset[:-1], offset[1:], weights, n_done))
    ) < len(trees):
        chain.enlarge()
    return weights[draw_index.reshape(numbers.shape)]


def bridge_evidence(of_draws: np.ndarray, of_trees: np.ndarray) -> tuple[float, float]:
    """Return the bridge estimate of the log evidence and its standard error, NaN if unknown."""
    # ``of_draws`` (chains, k) and ``of_trees`` (m,) are log weights ``log pi(T) - log g(T)`` of draws of the chains and
    # of the density g, some of each finite
    from scipy.optimize import brentq

    effective = of_draws.size
    if of_draws.shape[1] >= MIN_DRAWS_PER_CHAIN and np.isfinite(of_draws).all():
        effective = of_draws.size / float(autocorrelation_times(of_draws[None])[0])
    log_s, log_r = (np.log(n / (effective + len(of_trees))) for n in (effective, len(of_trees)))

    def terms(log_z: float) -> tuple[np.ndarray, np.ndarray]:
        """Return log w / (s w + r Z) of the trees, and log 1 / (s w + r Z) of the draws."""
        log_r_z = log_r + log_z
        return of_trees - np.logaddexp(log_s + of_trees, log_r_z), -np.logaddexp(log_s + of_draws, log_r_z)

    def excess(log_z: float) -> float:
        """Return the log of Z over the right side of its equation, which increases with Z."""
        numerator, denominator = terms(log_z)
        return float(log_z + log_mean(denominator) - log_mean(numerator))

    finite = np.concatenate([weights[np.isfinite(weights)] for weights in (of_draws, of_trees)])
    # the range of the weights contains Z if all are finite; 50 nats more cover samples of all but one infinite weight
    log_z = float(brentq(excess, finite.min() - 50.0, finite.max() + 50.0))
    numerator, denominator = terms(log_z)
    numerator, denominator = np.exp(numerator - numerator.max()), np.exp(denominator - denominator.max())
    if denominator.shape[1] < MIN_DRAWS_PER_CHAIN:
        return log_z, np.nan
    # relative variance of Z: that of the mean over trees plus that of the mean over draws, which are correlated
    variance = numerator.var(ddof=1) / (len(numerator) * numerator.mean() ** 2)
    correlation = float(autocorrelation_times(denominator[None])[0])
    # the variance of the draws is estimated from few effective ones, so its error covers a t distribution
    inflation = float(stdtrit(max(denominator.size / correlation, 1.0), 0.5 + ERROR_COVERAGE / 2.0)) / 2.0
    variance += correlation * denominator.var() / (denominator.size * denominator.mean() ** 2) * inflation**2
    # trees of another weight may have a probability of about 1 / n even if none of n trees has this weight
    return log_z, max(float(np.sqrt(variance)), 1.0 / len(of_trees))


def visited_probabilities(model: TreeModel, graphs: list[Graph], evidences: np.ndarray | None) -> np.ndarray | None:
    """Return lower bounds of the probability that a tree has each feature at its root, and anywhere, (2, p)."""
    # None without graph or without ``evidences`` (teams, 2), those of `Course`
    graphs = [graph for graph in graphs if graph.used[N_PIECES] > 0]
    if evidences is None or not graphs:
        return None
    source, p = model.columns.source, model.n_features
    log_sums = np.full((2, p), -inf)
    log_total = combined_evidence(evidences)[0] - evidence_constant(model)
    for graph in graphs:
        depth = graph.piece.depth[: graph.used[N_PIECES]]
        order, root = np.argsort(-depth, kind="stable"), int(np.argmin(depth))
        packed, sums, of_root = pack(graph), np.empty(len(depth)), np.full(p, -inf)
        sum_pieces(packed, order, np.zeros(len(source), dtype=np.bool_), sums)
        total = float(sums[root])
        # an evidence below the sum over visited trees is wrong, and would make the bounds too high
        log_total = max(log_total, total)
        at = int(graph.piece.first[root])
        while at != NONE:
            k = int(source[graph.link.feature[at]])
            of_root[k] = log_add(of_root[k], link_sum(packed, at, sums))
            at = int(graph.link.next[at])
        log_sums[0] = np.maximum(log_sums[0], of_root)
        if p * int(graph.used[N_LINKS]) <= MAX_LINK_VISITS:
            for k in np.unique(source[graph.link.feature[: graph.used[N_LINKS]]]).tolist():
                sum_pieces(packed, order, source == k, sums)
                # the trees with the feature are all but those without it: e^total - e^without
                without = float(sums[root]) - total
                if without < 0.0:
                    log_sums[1, k] = max(log_sums[1, k], total + log(-expm1(without)))
    return exp(np.minimum(log_sums - log_total, 0.0))


@jit
def sum_pieces(graph: Any, order: np.ndarray, is_banned: np.ndarray, sums: np.ndarray) -> None:
    """Write S of each piece, over the stored subtrees without splits on banned features, into ``sums``."""
    # ``order`` has the indices of the pieces, children first
    for at in order:
        largest, e = graph.piece[at].stop, np.int64(graph.piece[at].first)
        while e >= 0:
            if not is_banned[graph.link[e].feature]:
                largest = max(largest, link_sum(graph, e, sums))
            e = np.int64(graph.link[e].next)
        total, e = (
            scalar_exp(graph.piece[at].stop - largest) if largest > -inf else 0.0,
            np.int64(graph.piece[at].first),
        )
        while e >= 0:
            if not is_banned[graph.link[e].feature] and largest > -inf:
                total += scalar_exp(link_sum(graph, e, sums) - largest)
            e = np.int64(graph.link[e].next)
        sums[at] = largest + log(total) if total > 0.0 else -inf


@jit
def link_sum(graph: Any, e: int, sums: np.ndarray) -> float:
    """Return the log sum over the stored subtrees that begin with link ``e``, given S of both children."""
    link = graph.link[e]
    total = link.fixed
    if link.left >= 0:
        total += sums[link.left]
    if link.right >= 0:
        total += sums[link.right]
    return total
