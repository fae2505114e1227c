"""Implementation of `pt.simulate`: draw a tree from the prior, parameters of its leaves, and y."""

from __future__ import annotations

import numpy as np

from ..core.checks import Seed, check_type, read_generator
from ..model import TreeModel
from ..model.leaf.base import Leaf
from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .chain.start import draw_prior_tree


def simulate(model: TreeModel, rng: Seed = None) -> tuple[Tree, np.ndarray]:
    """Draw a tree from the prior of ``model``, then y given the tree at the model's X.

    Parameters
    ----------
    model : TreeModel
        Model with the X, the priors and the leaf. Of its y only the rows of E (`FrozenLaplace`) are used, and kept.
    rng : int, SeedSequence, Generator or None
        Source of randomness.

    Returns
    -------
    tree : Tree
    y : ndarray of shape (n,)
        Labels of ``model.classes_``, or floats.

    Raises
    ------
    ValueError
        If the leaf is a loss (`PacBayesLoss`), or the model has sample weights, which do not define a model of data.

    Notes
    -----
    Branching processes are drawn directly, conditioned ones by rejection. The tree of a `LeafPenalty` is the last one
    of a chain of 20,000 grow and prune proposals without data.

    Examples
    --------
    >>> model = TreeModel([[0.0], [1.0], [2.0]], [0.5, 1.0, 1.5])
    >>> tree, y = simulate(model, rng=1)
    >>> y.shape
    (3,)
    """
    check_type("model", model, TreeModel, "a TreeModel")
    if not model.leaf.has_likelihood:
        raise ValueError(f"{type(model.leaf).__name__} is a loss, not a model of y; there is nothing to simulate.")
    if model.target.weight is not None:
        raise ValueError("sample weights do not define a model of data; build the model without sample_weight.")
    rng = read_generator(rng)
    tree = draw_prior_tree(model, rng)
    return tree, draw_y_given_tree(model, tree, model.leaf.for_one_tree(rng), rng)


def draw_y_given_tree(model: TreeModel, tree: Tree, leaf: Leaf, rng: np.random.Generator) -> np.ndarray:
    """Draw y (n,), labels or floats, given the tree and ``leaf``, which has the parameters that all leaves share."""
    # rows that only estimate the leaves (E) keep the model's y
    target = model.target
    y = target.values.copy()
    for number, cell, _ in model.visit(tree):
        if tree.feature[number] == LEAF:
            rows = cell.index
            if model.unit_of_row is not None:
                rows = np.flatnonzero(np.isin(model.unit_of_row, rows))
            if target.estimation is not None:
                rows = rows[~target.estimation[rows]]
            # the prior of the leaf parameters depends on the rows of E alone
            stats = cell.stats(leaf.n_stats(target)) * leaf.uses_estimation
            y[rows] = leaf.draw_y(rng, stats[None], np.zeros(len(rows), dtype=np.int64), target, rows)
    return y if target.classes is None else target.classes[y]
