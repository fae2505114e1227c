"""Values that an engine hands out: the places where rows end, and the cells that trees have.

`Draws` is a `RowLaw` by counting; the exact engine has a `RowLaw` and a `CellLaw` that sum over its graph.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..model import TreeModel
from ..model.leaf.distributions import Mixture

MAX_PLACES_PER_BLOCK = 1 << 19
"""Largest number of places, one for each row and tree or cell, that are listed at a time."""
MAX_ROUNDING_PROBABILITY = 1e-11
"""Largest probability that counts as rounding error of a sum over thousands of cells."""


def has_values_by_leaf(model: TreeModel) -> bool:
    """Return True if each leaf has one prediction, the same for all rows in it."""
    return model.leaf.predicts and model.leaf.x_columns is None


class RowLaw(metaclass=ABCMeta):
    """The places in which rows end. X (n, p) are rows of numbers, as ``model.columns.numbers`` returns them."""

    model: TreeModel
    place_stats: np.ndarray
    """(m, s): statistics of the training rows at each place."""

    @property
    @abstractmethod
    def place_tree(self) -> np.ndarray:
        """Tree (m,) of which each place is a leaf, -1 for an inner node; a cell is a tree by itself."""

    @abstractmethod
    def reach(self, X: np.ndarray) -> Iterator[tuple[slice | np.ndarray, Mixture]]:
        """Yield blocks of rows: their numbers, and the places that they reach with weights that sum to 1."""
        # each row is in one block, and a block has about `MAX_PLACES_PER_BLOCK` places

    @abstractmethod
    def average(self, X: np.ndarray, by_place: np.ndarray) -> np.ndarray:
        """Return the mean (n, d) of ``by_place`` (m, d) at the places that rows reach."""

    @cached_property
    def place_values(self) -> np.ndarray:
        """Prediction of a leaf at each place, (m, d): class probabilities or means."""
        if self.model.leaf.x_columns is not None:
            raise ValueError(f"{self.model.leaf!r} looks at columns of X, so a leaf has no one value; use predict.")
        return np.ascontiguousarray(self.model.leaf.value(self.place_stats, self.model.target))

    def values(self, X: np.ndarray) -> np.ndarray:
        """Return the posterior mean (n, d) of the predictions at rows, class probabilities or means."""
        return self.means_by_row(X)[0] if self.model.leaf.x_columns is not None else self.average(X, self.place_values)

    def means_by_row(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means over trees of predictions and of their squares, (n, d) each, if leaves use columns of X."""
        leaf, target, regressors = self.model.leaf, self.model.target, self.model.regressors(X)
        assert regressors is not None
        numbers, means, squares = [np.empty(0, dtype=np.int64)], [], []
        for rows, mix in self.reach(X):
            numbers.append(np.arange(len(X))[rows])
            row = np.repeat(numbers[-1], np.diff(mix.first))
            value = leaf.value(self.place_stats[mix.place], target, regressors[row])
            means.append(np.column_stack([mix.mean(column) for column in value.T]))
            with np.errstate(over="ignore"):
                squares.append(np.column_stack([mix.mean(column) for column in value.T**2]))
        order = np.argsort(np.concatenate(numbers))
        return np.concatenate(means)[order], np.concatenate(squares)[order]

    def __getstate__(self) -> dict[str, Any]:
        return without_cached(self)


class CellErrors(NamedTuple):
    """Monte-Carlo errors of the probabilities of m cells and splits; without chains and trees if they are exact."""

    by_chain: np.ndarray
    """(m, chains): the probability estimated from each chain."""
    rhat: np.ndarray
    """(m,): R-hat of the indicator."""
    ess: np.ndarray
    """(m,): bulk effective sample size of the indicator."""
    mcse: np.ndarray
    """(m,): standard error of the probability."""
    by_tree: np.ndarray
    """(m, n_distinct_trees) bool: True if the tree has the cell or split."""


class CellLaw(metaclass=ABCMeta):
    """Which cells, sets of training rows of a node, and which splits trees have."""

    key: np.ndarray
    """(c, 2) uint64: hash of the rows of each cell, the same in both engines; cell 0 is that of all rows."""
    sides: np.ndarray
    """(s, 2) int64: the two cells into which each split divides its cell."""
    n_rows: int
    """Number of distinct training rows that decide if two cells are equal."""
    n_rows_of_model: int
    """Number of distinct training rows of the model."""

    @property
    @abstractmethod
    def probability(self) -> np.ndarray:
        """(c,): probability that a tree has each cell."""

    @property
    @abstractmethod
    def split_probability(self) -> np.ndarray:
        """(s,): probability that a tree has each split."""

    @abstractmethod
    def cell_words(self, cell: int) -> str:
        """Return the conditions on a path to a cell."""

    @abstractmethod
    def split_words(self, split: int) -> tuple[str, str]:
        """Return the conditions on a path to the cell of a split, and the condition of its left side."""

    @abstractmethod
    def rows(self, cells: np.ndarray, splits: np.ndarray) -> np.ndarray:
        """Return the weight of the training rows in each of ``cells``, then in the cell of each of ``splits``."""

    @abstractmethod
    def errors(self, cells: np.ndarray, splits: np.ndarray) -> CellErrors:
        """Return the Monte-Carlo errors of the probabilities of ``cells``, then of ``splits``."""

    @cached_property
    def _number_of_key(self) -> dict[tuple[int, ...], int]:
        return {tuple(key): i for i, key in enumerate(self.key.tolist())}

    def numbers_of(self, key: np.ndarray) -> np.ndarray:
        """Return the numbers (m,) of the cells with these keys (m, 2), -1 for cells that no tree has."""
        return np.array([self._number_of_key.get(tuple(one), -1) for one in key.tolist()], dtype=np.int64)

    def probability_of(self, key: np.ndarray) -> np.ndarray:
        """Return the probabilities (m,) of the cells with these keys (m, 2), 0 for cells that no tree has."""
        number = self.numbers_of(key)
        return np.where(number >= 0, self.probability[number], 0.0)

    def path_probability(self, parent: np.ndarray, key: np.ndarray) -> np.ndarray | None:
        """Return the probabilities (m,) of paths, sequences of cells from the root on; None if they are not known."""
        # ``parent`` (m,) is the number of the path without its last cell, smaller than that of the path; -1 for path 0,
        # the root alone. ``key`` (m, 2) is that of the last cell
        return None

    def __getstate__(self) -> dict[str, Any]:
        return without_cached(self)


def without_cached(value: Any) -> dict[str, Any]:
    """Return the attributes of an object without those computed on first use, so that pickles do not grow with use."""
    cached = {name for kind in type(value).__mro__ for name, x in vars(kind).items() if isinstance(x, cached_property)}
    return {name: x for name, x in vars(value).items() if name not in cached}
