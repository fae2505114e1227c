"""Methods of exact posteriors that predict: a row of numbers flows down the graph, or down a fixed design."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.model.leaf.distributions import Mixture, NegativeBinomial, StudentT
from pactree_mcmc.model.split_prior.geometry import parts_rows, takes_turns, told
from pactree_mcmc.posterior.base import Posterior
from pactree_mcmc.posterior.predictive import BLOCK, refuse_by_row, spread, spread_by_row
from pactree_mcmc.table.coding import DyadicScale, Scale

from .graph.packed import WithPackedGraph
from .recursion.inside_outside import Router, average_rows, share_rows
from .recursion.paths import DyadicPaths, TreePaths, is_fixed_design, sum_paths


class CellProbabilities(NamedTuple):
    """Expected number of times that each cell of the graph occurs in a tree; for a cell with rows, its probability."""

    leaf: np.ndarray
    """(n_cells,): as a leaf."""
    split: np.ndarray
    """(n_cells,): split."""


class Placed(NamedTuple):
    """New rows by coordinate."""

    x: np.ndarray
    """(n, q) float64 numbers."""
    codes: np.ndarray
    """(n, q) int64; zeros where splits are local, whose thresholds depend on the cell, and for nominal features."""


class PredictsFromGraph(WithPackedGraph, Posterior):
    """Base of `ExactPosterior`: its predictions, which need only the sums and probabilities of the cells."""

    log_inside: np.ndarray

    @abstractmethod
    def cell_probabilities(self) -> CellProbabilities:
        """Returns leaf and split probabilities of every cell of ``graph``."""

    @cached_property
    def cell_values(self) -> np.ndarray:
        """The prediction of each cell as a leaf, (n_cells, d)."""
        refuse_by_row(self.model)
        return np.ascontiguousarray(self.model.leaf.value(self.graph.stats, self.model.target))

    @cached_property
    def _router(self) -> Router:
        """The data that determine to which side of a split a row goes."""
        model = self.model
        local = told(parts_rows, model.split_prior)
        lows = [s.low if local and isinstance(s, Scale) else np.empty(0) for s in model.scales]
        highs = [s.high if local and isinstance(s, Scale) else np.empty(0) for s in model.scales]
        offset = np.concatenate([[0], np.cumsum([len(a) for a in lows])[:-1]]).astype(np.int64)
        low, high = np.concatenate([*lows, [0.0]]), np.concatenate([*highs, [0.0]])
        return Router(local, low, high, offset, model.n_codes, model.columns.is_nominal[model.columns.source])

    @cached_property
    def _paths(self) -> DyadicPaths | TreePaths:
        """Prediction on a fixed design."""
        return self._paths_to(self.cell_values)

    def _paths_to(self, by_cell: np.ndarray) -> DyadicPaths | TreePaths:
        kind = DyadicPaths if told(takes_turns, self.model.split_prior) else TreePaths
        leaf, split = self.cell_probabilities()
        return kind(self.model, self.graph, sum_paths(self.graph, leaf, split, by_cell))

    @property
    def _stats_by_place(self) -> np.ndarray:  # type: ignore[override]
        return self.graph.stats

    def _values(self, X: np.ndarray) -> np.ndarray:
        if self.model.leaf.x_columns is not None:
            return self._values_by_row(X)[0]
        return self._paths(X) if is_fixed_design(self.model) else self._averages(X, self.cell_values)

    def _averages(self, X: np.ndarray, by_cell: np.ndarray) -> np.ndarray:
        """Returns the posterior means (n, d) of the values (n_cells, d) of the cells that rows of numbers reach."""
        if is_fixed_design(self.model):
            return self._paths_to(np.ascontiguousarray(by_cell))(X)
        return average_rows(
            self._packed, self.log_inside, self._router, *self._placed(X), np.ascontiguousarray(by_cell)
        )

    def _placed(self, X: np.ndarray) -> Placed:
        """Rows of numbers (n, p) as `average_rows` takes them."""
        X = self.model.columns.in_coordinates(X)
        codes = np.zeros(X.shape, dtype=np.int64)
        if not self._router.local:
            for c, scale in enumerate(self.model.scales):
                if not self._router.nominal[c]:
                    x = X[:, c]
                    codes[:, c] = scale.encode(x) if isinstance(scale, DyadicScale) else np.searchsorted(scale.cuts, x)
        return Placed(X, codes)

    def _leaf_distributions(self) -> StudentT | NegativeBinomial:
        cells = np.arange(self.graph.n_cells)
        return self.model.leaf.predictive(self.graph.stats, cells, self.model.target)

    def _mixtures(self, X: np.ndarray) -> Iterator[tuple[slice, Mixture]]:
        placed, start = self._placed(X), 0
        while start < len(X):
            mix = Mixture(*share_rows(self._packed, self.log_inside, self._router, *placed, start, BLOCK))
            rows = slice(start, start + len(mix.first) - 1)
            yield rows, mix
            start = rows.stop

    def predict_std_over_trees(self, X: Any) -> np.ndarray:
        """Returns the standard deviation, over all trees, of the prediction of a tree: how much the trees disagree.

        It includes neither the noise nor the uncertainty of the mean of a leaf; for the standard deviation of a new y
        see `predict_std_new_y`.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.

        Returns
        -------
        ndarray of shape (n,), or (n, K) for class probabilities
            Standard deviation of the predictive mean of the leaf, or of its class probabilities.

        Raises
        ------
        ValueError
            If X does not fit the model's columns.

        Notes
        -----
        A row is in exactly one leaf, so the square of its value is again a sum over leaves: one downward pass, as for
        `predict`. Values are taken relative to that of the root; accurate to about 1e-8 of their range.
        """
        return self._std_over_trees(self.model.columns.numbers(X))

    def _std_over_trees(self, X: np.ndarray) -> np.ndarray:
        """Return the standard deviation over all trees of the predictions at rows of numbers."""
        if self.model.leaf.x_columns is not None:
            return spread_by_row(*self._values_by_row(X))
        return spread(self.model, partial(self._averages, X), self.cell_values)
