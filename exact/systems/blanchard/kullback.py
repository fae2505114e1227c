"""Kullback-Leibler bounds of the progressive mixture for a given tree (Blanchard 1999, corollaries 1 and 2)."""

from __future__ import annotations

import math
from typing import NamedTuple

from pactree_mcmc.model import FrozenLaplace, LeafPenalty, TreeModel
from pactree_mcmc.model.split_prior.geometry import parts_rows, told
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree


class KLBound(NamedTuple):
    """Bound on the excess Kullback-Leibler risk over the best leaf probabilities of one tree, in nats, by term."""

    prior: float
    """``log(1 / pi(tree)) / L``; under local cuts pi of the shape and the features alone."""
    leaves: float
    """``(K - 1) n_leaves / (N - L + 1)``: the cost of estimating the leaves."""
    splits: float
    """Under local cuts ``n_leaves log(N + 1) / L`` (corollary 2), or for a tree with a nominal split the sum
    over splits of ``log(n) / L``, with n the number of splits of the cell on the feature; else 0 (corollary 1)."""

    @property
    def total(self) -> float:
        """The sum of the terms."""
        return self.prior + self.leaves + self.splits

    @property
    def classification(self) -> float:
        """Bound ``sqrt(2 total)`` on the excess error rate where the tree's best leaf probabilities are the truth."""
        return math.sqrt(2.0 * self.total)


def kl_bound(model: TreeModel, tree: Tree) -> KLBound:
    """Returns a bound on how much worse the progressive mixture is, on average, than a tree with its best leaf
    probabilities.

    For exchangeable data, in expectation over the sample and a new row: the Kullback-Leibler divergence of the mixture
    from the true distribution is at most that of ``tree`` with any fixed leaf probabilities plus ``total``; so it is at
    most the smallest such sum over all trees. Here ``L - 1`` rows are in S and ``N - L`` in E.

    Parameters
    ----------
    model : TreeModel
        With ``FrozenLaplace(1)`` leaves, no sample weights, and a tree prior that is normalised.
    tree : Tree
        A tree of positive prior.

    Returns
    -------
    KLBound

    Raises
    ------
    ValueError
        If the model's leaf, weights or prior are not those of the theorem, or the tree cannot occur.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    Grids, dyadic and fixed designs must not depend on the rows of S. Local cuts depend on all of X: the corollary holds
    for splits that count the new row among the points, which differs from the model by one point. It is stated for
    ordered features, which have at most N + 1 splits in a cell; with nominal ones the numbers of splits themselves are
    in the ``-log omega = sum over splits of log(number of splits)`` of the proof. Time O(n p) per level of the tree.

    References
    ----------
    .. [1] Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(8.0)[:, None]
    >>> model = pt.TreeModel(x, [0, 0, 0, 0, 1, 1, 1, 1], estimation=0.5, leaf=pt.FrozenLaplace(),
    ...                      tree_prior=pt.BranchingProcess(0.5, 2), split_prior=pt.DyadicCuts(2))
    >>> bound = kl_bound(model, pt.Tree([-1], [0], [0], [0]))
    >>> round(bound.prior, 4), round(bound.leaves, 4), round(bound.total, 4)
    (0.1386, 0.2, 0.3386)
    """
    for name, value, kind in (("model", model, TreeModel), ("tree", tree, Tree)):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is a {type(value).__name__}; give a {kind.__name__}.")
    if not isinstance(model.leaf, FrozenLaplace) or model.leaf.pseudocount != 1.0:
        raise ValueError(f"leaf is {model.leaf!r}; the bound is that of FrozenLaplace(1.0).")
    if model.target.weight is not None and any(model.target.weight != 1.0):
        raise ValueError("the model has sample weights; the bound counts rows: leave sample_weight out.")
    if not model.split_prior.is_even:
        raise ValueError(f"{model.split_prior!r} weighs splits; the bound counts splits that are equally likely.")
    if isinstance(model.tree_prior, LeafPenalty):
        raise ValueError("LeafPenalty is not normalised; give BranchingProcess or ChipmanPrior.")
    log_prior = model.log_prior(tree)
    if log_prior == -math.inf:
        raise ValueError("the tree cannot occur under the model: its prior is 0.")
    assert model.target.estimation is not None  # FrozenLaplace has an E
    n_frozen = int(model.target.estimation.sum())
    n_stages = model.n_rows - n_frozen + 1
    n_leaves = int((tree.feature == LEAF).sum())
    splits = 0.0
    if told(parts_rows, model.split_prior):
        log_n_splits = _log_n_splits(model, tree)
        log_prior += log_n_splits
        # log(N + 1) bounds the splits of an ordered feature only: m categories have 2^(m - 1) - 1
        asks_nominal = any(tree.categories[tree.feature != LEAF] >= 0)
        splits = (log_n_splits if asks_nominal else n_leaves * math.log(model.n_rows + 2)) / n_stages
    leaves = (model.target.n_classes - 1) * n_leaves / (n_frozen + 1)
    return KLBound(-log_prior / n_stages, leaves, splits)


def _log_n_splits(model: TreeModel, tree: Tree) -> float:
    """Returns the sum over the splits of a tree of the log number of splits of the cell on the same feature."""
    asked = [(cell, split.feature) for _, cell, split in model.visit(tree) if split is not None]
    return sum(math.log(model.count_splits(cell, feature)) for cell, feature in asked)
