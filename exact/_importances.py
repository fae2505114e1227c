"""How much a classifier of one tree, or of its subtrees, asks about each feature."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pactree_mcmc.posterior import shares
from pactree_mcmc.trees import LEAF, Tree


class AsksFeatures:
    """Adds ``split_counts_`` and ``feature_importances_`` to a classifier."""

    tree_: Tree
    n_features_in_: int

    def _stops(self) -> np.ndarray:
        """Probability (n_nodes,) that a subtree has each node of ``tree_`` as a leaf."""
        return (self.tree_.feature == LEAF).astype(np.float64)

    @property
    def split_counts_(self) -> np.ndarray:
        """Questions (p,) about each feature, the mean over subtrees where several vote."""
        check_is_fitted(self)
        tree, goes_on = self.tree_, 1.0 - self._stops()
        inner = np.flatnonzero(tree.feature != LEAF)
        for node in inner:
            for child in (tree.left[node], tree.right[node]):
                goes_on[child] += goes_on[node] - 1.0
        weight = goes_on[inner].clip(0.0, 1.0)
        return np.bincount(tree.feature[inner], weights=weight, minlength=self.n_features_in_)

    @property
    def feature_importances_(self) -> np.ndarray:
        """``split_counts_`` divided by its sum, (p,)."""
        return shares(self.split_counts_)
