"""The number of splittings of a structure without the graph of all cells: exact for few levels, else estimated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import read_generator
from pactree_mcmc.core.special import gammaln
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

MOST_CUTS = 32
"""Cuts of a node that are followed, at the first level above the two lowest ones; a quarter of them one level further
down."""


class SplittingCounts:
    """Log numbers of splittings of the rows of a table by structures; ordered columns, equal rows once.

    A node whose children are leaves has ``I + 1`` divisions, one above such nodes the sum over its cuts of the products
    of theirs. Above these two levels a systematic sample of the cuts is followed where there are more than `MOST_CUTS`,
    so that the count is unbiased; a structure on one feature has ``C(I + m, m)`` splittings.
    """

    def __init__(self, X: np.ndarray, rng: Any = None) -> None:
        self.codes = np.column_stack([np.unique(X[:, k], return_inverse=True)[1] for k in range(X.shape[1])])
        self.rng = read_generator(rng)
        self.known: dict[Any, float] = {}

    def log_count(self, structure: Tree) -> float:
        """Log of the number of splittings, nats."""
        inner = structure.feature[structure.feature != LEAF]
        if len(np.unique(inner)) <= 1:
            m, n = len(inner), int(self.codes[:, inner[:1]].max(initial=0)) + 1
            return float(gammaln(n + m + 1.0) - gammaln(n + 1.0) - gammaln(m + 1.0))
        shape = _nested(structure, 0)
        if shape not in self.known:
            self.known[shape] = math.log(self._count(shape, np.arange(len(self.codes)), MOST_CUTS))
        return self.known[shape]

    def _count(self, shape: Any, rows: np.ndarray, most: int) -> float:
        if shape is None:
            return 1.0
        feature, left, right = shape
        if len(rows) == 0:
            return 1.0
        rows = rows[np.argsort(self.codes[rows, feature], kind="stable")]
        codes = self.codes[rows, feature]
        ends = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(rows)]])
        if _levels(left) <= 1 and _levels(right) <= 1:
            to_left = self._divisions(left, rows)[ends]
            to_right = self._divisions(right, rows[::-1])[len(rows) - ends]
            return float(to_left @ to_right)
        followed, weight = ends, 1.0
        if len(ends) > most:
            weight = len(ends) / most
            places = ((np.arange(most) + self.rng.random()) * weight).astype(np.int64)
            followed = ends[np.minimum(places, len(ends) - 1)]
        below = max(most // 4, 4)
        total = sum(self._count(left, rows[:end], below) * self._count(right, rows[end:], below) for end in followed)
        return weight * total

    def _divisions(self, shape: Any, rows: np.ndarray) -> np.ndarray:
        """Of a leaf or a node above two leaves, for the first 0, 1, ..., n rows: (n + 1,)."""
        out = np.ones(len(rows) + 1)
        if shape is not None:
            codes = self.codes[rows, shape[0]]
            first = np.zeros(len(rows))
            first[np.unique(codes, return_index=True)[1]] = 1.0
            out[1:] += np.cumsum(first)
        return out


def _nested(tree: Tree, node: int) -> Any:
    """The structure below a node as nested tuples (feature, left, right); None: a leaf."""
    k = int(tree.feature[node])
    return None if k == LEAF else (k, _nested(tree, int(tree.left[node])), _nested(tree, int(tree.right[node])))


def _levels(shape: Any) -> int:
    return 0 if shape is None else 1 + max(_levels(shape[1]), _levels(shape[2]))
