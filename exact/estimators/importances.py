"""How much a classifier of one tree, or of its subtrees, splits on each feature."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.posterior.sampled import fractions
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree


class AsksFeatures:
    """Adds ``split_counts_`` and ``feature_importances_`` to a classifier."""

    tree_: Tree
    n_features_in_: int

    def _goes_on(self) -> np.ndarray:
        """Returns the fraction (n_nodes,) of the subtrees in which each node is split: 1 or 0 for a single tree."""
        return (self.tree_.feature != LEAF).astype(np.float64)

    @property
    def split_counts_(self) -> np.ndarray:
        """Number of splits (p,) on each feature, the mean over subtrees where several vote."""
        check_is_fitted(self)
        inner = self.tree_.feature != LEAF
        return np.bincount(self.tree_.feature[inner], weights=self._goes_on()[inner], minlength=self.n_features_in_)

    @property
    def feature_importances_(self) -> np.ndarray:
        """``split_counts_`` divided by its sum, (p,)."""
        return fractions(self.split_counts_)
