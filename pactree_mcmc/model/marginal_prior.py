"""The prior of a tree where the feature weights are unknown: their mean, where it has a closed form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..core.special import gammaln
from ..tree.arrays import LEAF

if TYPE_CHECKING:
    from ..tree.tree import Tree
    from .model import TreeModel
    from .split_prior.dirichlet_weights import DirichletWeights


def log_marginal_prior(model: TreeModel, tree: Tree) -> float:
    """Returns the log prior of ``tree``, nats, with feature weights that are unknown integrated out.

    Where every cell that is split admits every feature with all of its weight, the features split on are a
    Dirichlet-multinomial draw: the weights give ``Gamma(a) / Gamma(a + n)`` times the product over features of
    ``Gamma(a/p + n_k) / Gamma(a/p)``, averaged over an unknown ``a`` (Linero 2018). A cell that admits one feature
    alone has no choice, and does not count. NaN where a cell admits some features and not others: then there is no such
    form. Where the weights are known, as `TreeModel.log_prior`.
    """
    drawn = model.split_prior.drawn_weights
    if drawn is None:
        return model.log_prior(tree)
    equal = model.log_prior(tree, feature_weights=np.ones(model.n_features))
    if equal == -math.inf:
        return equal
    counts, n_chosen = np.zeros(model.n_features), 0
    for number, cell, split in model.visit(tree):
        if tree.feature[number] == LEAF or split is None:
            continue
        source = model.columns.source
        admitted = np.bincount(source, weights=model.split_prior.admissible(cell), minlength=model.n_features)
        if np.count_nonzero(admitted) == 1:
            continue
        if np.any(admitted < 1.0):
            return math.nan
        counts[source[split.feature]] += 1.0
        n_chosen += 1
    return equal + n_chosen * math.log(model.n_features) + log_dirichlet_multinomial(drawn, counts)


def log_dirichlet_multinomial(drawn: DirichletWeights, counts: np.ndarray) -> float:
    """Log probability of a sequence of features with these ``counts`` (p,), with all that is unknown integrated out."""
    p, n = len(counts), counts.sum()
    a = drawn.concentrations(p)[:, None]
    each = (gammaln(a / p + counts) - gammaln(a / p)).sum(axis=1)
    log_terms = each + gammaln(a[:, 0]) - gammaln(a[:, 0] + n)
    return float(np.logaddexp.reduce(log_terms) - math.log(len(a)))
