"""Lower bounds of the probabilities of features, from the graphs of visited cells.

The trees whose cells and splits a graph contains are some of all trees. Their sum of prior times likelihood is exact by
the recursion over pieces (cells at a depth), children first,

    S(u) = log( e^stop(u) + sum over links q of u of e^(fixed_q + S(left_q) + S(right_q)) ).

Unlike the estimate V of `density.graph`, which divides by the density, S needs no draws. So S of the trees with one
feature at the root, or with one feature anywhere, minus the log evidence, is a lower bound of a log probability, to
which the fraction of the draws can be compared.
"""

from math import exp as scalar_exp
from math import expm1, inf, log
from typing import Any

import numpy as np

from ...core.compile.jit import jit, pack
from ...core.portable import exp
from ...core.special import log_add
from ...model import TreeModel
from ...posterior.evidence import combined_evidence, evidence_constant
from ..state.records import N_LINKS, N_PIECES, NONE, Graph

MAX_LINK_VISITS = 20_000_000
"""Largest number of links, times features, that the sums may visit: half a second. Beyond it features below the root
are not compared."""


def visited_probabilities(model: TreeModel, graphs: list[Graph], evidences: np.ndarray | None) -> np.ndarray | None:
    """Return lower bounds of the probability that a tree has each feature at its root, and anywhere, (2, p).

    Return None without graph or without ``evidences`` (teams, 2), those of `Course`. 0 if a feature was never visited.
    """
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
    """Write S of each piece, over the stored subtrees without splits on banned features, into ``sums``. ``order`` has
    the indices of the pieces, children first.
    """
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
