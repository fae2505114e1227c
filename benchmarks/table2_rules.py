"""Pruning, SN pruning and HS vote: the rules compared with the PAC-Bayes tree in Table 2 of Nguyen and Kpotufe (2018).

Each is a `VotingTree` with another weight of a subtree, and the HS vote has another vote of a node.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from exact.answers import best_sums, occurrences
from exact.estimators.base import SortedRows
from exact.estimators.voting import VotingTree, check_optional_factor, check_penalty
from exact.graph.cells import CellGraph
from exact.recursion.terms import with_terms
from exact.systems.pac_bayes import BaseTree, NodeVotes, Weights, node_weights, spatial_penalty


def size_terms(base: BaseTree, alpha: float) -> np.ndarray:
    """Return by node minus n times its part of ``R^ + lambda * leaves with data / n``, the cost of plain pruning."""
    return -base.errors - alpha * (base.graph.rows > 0)


def spatial_terms(base: BaseTree, alpha: float) -> np.ndarray:
    """Return by node minus n times its part of ``R^ + lambda * sum sqrt(max(p^(A), j / n) j / n)``: SN pruning.

    A is the cell of a leaf, j its depth, and p^(A) the fraction of the rows in it.
    """
    return -base.errors - alpha * spatial_penalty(base)


def absolute_terms(base: BaseTree, eta: float) -> np.ndarray:
    """Return by node ``-eta`` times the absolute loss of its mean label in [0, 1]: the HS vote without its prior."""
    counts = base.graph.stats
    return -eta * 2.0 * counts[:, 0] * counts[:, -1] * (counts.shape[1] > 1) / np.maximum(base.graph.rows, 1)


def choose_best(graph: CellGraph, log_stop: np.ndarray) -> Weights:
    """Return weights of 0 or 1 that select the subtree of largest sum of ``log_stop``; of equal ones, the smallest."""
    penalised = with_terms(graph, log_stop=log_stop)
    best = best_sums(penalised)
    stops = best <= log_stop
    there = occurrences(with_terms(penalised, log_split=np.where(stops, -np.inf, 0.0)), best).slot > 0.5
    return Weights(np.where(stops & there, 0.0, -np.inf), (there & ~stops).astype(np.float64), float(best[0]))


class PrunedTreeClassifier(VotingTree):
    """Subtree of a dyadic or KD tree with the least penalised error; arguments are as for `PACBayesTreeClassifier`.

    ``penalty`` is added to the training error: "size", ``alpha * leaves with data / n``; "spatial", ``alpha * sum over
    leaves with data sqrt(max(n_A / n, j / n) * j / n)`` with j the leaf's depth (SN pruning, after Scott and Nowak).
    ``alpha`` is None for 2-fold cross-validation. Of equally good subtrees a smaller one is chosen.
    """

    alpha_: float
    _cross_validated = ("alpha",)

    def __init__(
        self,
        base: str = "dyadic",
        *,
        penalty: str = "size",
        alpha: float | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.penalty = penalty
        self.alpha = alpha
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def _check(self) -> None:
        check_penalty(self.penalty)
        check_optional_factor("alpha", self.alpha)

    def _weights(self, base: BaseTree, parameters: dict[str, float]) -> Weights:
        terms = size_terms if self.penalty == "size" else spatial_terms
        return choose_best(base.graph, terms(base, **parameters))


class HSVoteClassifier(VotingTree):
    """Weighted vote of all subtrees by absolute loss, for two classes (Helmbold and Schapire 1997).

    Each node predicts the fraction of the second class among its rows. A subtree has as weight its prior times
    ``exp(-eta * sum of absolute errors)``, and the prior halves at every node at which T0 could go on. The second class
    is predicted if the weighted mean of the fractions exceeds one half. ``eta`` is None for 2-fold cross-validation.
    """

    eta_: float
    _cross_validated = ("eta",)

    def __init__(
        self,
        base: str = "dyadic",
        *,
        eta: float | None = None,
        max_depth: int | None = None,
        bounds: Any = None,
        coordinate: str = "cycling",
        random_state: Any = None,
    ) -> None:
        self.base = base
        self.eta = eta
        self.max_depth = max_depth
        self.bounds = bounds
        self.coordinate = coordinate
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check(self) -> None:
        check_optional_factor("eta", self.eta)

    def _fit_rows(self, rows: SortedRows, bounds: np.ndarray) -> None:
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: y has "
                f"{len(self.classes_)} classes; give two, or take PACBayesTreeClassifier."
            )
        super()._fit_rows(rows, bounds)

    def _node_votes(self, base: BaseTree) -> NodeVotes:
        """Return the fractions of the two classes among a node's rows, or its parent's if it has none."""
        counts, tree = base.graph.stats, base.tree
        fraction = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        inner = np.flatnonzero(tree.feature >= 0)
        for child in (tree.left[inner], tree.right[inner]):
            bare = base.dummy[child]
            fraction[child[bare]] = fraction[inner[bare]]
        return NodeVotes(fraction, np.arange(tree.n_nodes))

    def _weights(self, base: BaseTree, parameters: dict[str, float]) -> Weights:
        inner = base.tree.feature >= 0
        half = np.where(inner, -math.log(2.0), 0.0)
        return node_weights(base.graph, absolute_terms(base, **parameters) + half, -math.log(2.0))
