"""The tree with the smallest compositional bound on its risk, over all trees and root fragments.

A root fragment of a tree is a subtree with the same root (Mansour and McAllester 2000).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates.bound import Bound, check_delta
from pactree_mcmc.certificates.occam_bounds import fragment_level
from pactree_mcmc.core.checks import MAX_COUNT, check_count, check_number, check_type
from pactree_mcmc.model import ChipmanPrior, DirichletMultinomial, DyadicCuts, FixedTree, GridCuts, TreeModel
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..answers import best_fragments, hull_by_size
from ..graph.build import build_graph
from ..graph.cells import CellGraph
from ..limits import Intractable
from ..recursion.inside_outside import CELL, FEATURE, TREE_NUMBER, by_slot, with_terms
from ..recursion.semirings import IN_FRAGMENT
from ..recursion.trees import as_draws, grow_chosen_trees

LARGEST_STRENGTH = 1e100  # largest ``strength`` that is accepted


class RootFragmentTree(NamedTuple):
    """The tree that minimises risk plus ``strength`` times the penalty of its best root fragment."""

    tree: Tree
    """The tree, with smoothed class probabilities at the leaves."""
    fragment: np.ndarray
    """(k,) int64: nodes of the tree at which the best root fragment ends, in preorder."""
    risk: float
    """Error rate on the training rows."""
    penalty: float
    """``strength`` times the penalty f(T, S, R, delta)."""
    split_bits: float
    """Code length of a split."""
    strength: float
    """Factor of the penalty."""
    delta: float
    """Probability that the bound fails."""
    n_cells: int
    """Number of cells searched."""
    use_of_rows: str | None = None
    """Reason why the bound does not hold: how the splits depend on the rows. None if no dependence is known."""

    @property
    def objective(self) -> float:
        """Risk plus penalty, the smallest over all trees and root fragments."""
        return self.risk + self.penalty

    @property
    def bound(self) -> Bound:
        """Bound on the true risk, with the penalty not multiplied by ``strength``.

        ValueError is raised if the splits depend on the rows.
        """
        if self.use_of_rows is not None:
            raise ValueError(f"the bound is for splits that were fixed before the rows were seen; {self.use_of_rows}.")
        penalty = self.penalty / self.strength if self.strength > 0.0 else math.inf
        terms = {"empirical risk": self.risk, "penalty": penalty, "leaves of the fragment": float(len(self.fragment))}
        return Bound("Mansour-McAllester, root fragment", self.risk + penalty, self.delta, terms)


def minimise_root_fragment(
    X: Any,
    y: Any,
    *,
    split_prior: DyadicCuts | GridCuts | FixedTree,
    split_bits: float | None = None,
    max_depth: int | None = None,
    n_classes: int = 2,
    strength: float = 1.0,
    delta: float = 0.05,
    max_cells: int = 20_000_000,
) -> RootFragmentTree:
    """Return the tree that minimises ``risk + strength * min over R of f(T, S, R, delta)``.

    Parameters
    ----------
    X : table of shape (n, p)
        Rows.
    y : array-like of shape (n,)
        Labels, at most ``n_classes`` of them.
    split_prior : DyadicCuts, GridCuts or FixedTree
        The splits that trees may have: those of dyadic trees, of a grid, or of the prunings of one tree. For the bound
        to hold they must have been fixed before the rows were seen: bounds, cuts or a tree from other rows.
    split_bits : float, optional
        Code length of a split, bits. Default, and the least that a code can have: log2 of the number of splits that
        the root may have, which no other cell exceeds.
    max_depth : int, optional
        Largest depth of a leaf. Default: limited only by the splits.
    n_classes : int, default 2
        Number of possible labels, fixed before the rows were seen.
    strength : float, default 1.0
        Multiplies the penalty, finite and >= 0. The constants of the theory (1) are large; a tenth predicts better.
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1), not below 1.4e-217.
    max_cells : int, default 20,000,000
        Largest number of cells.

    Raises
    ------
    Intractable
        If there are more cells than allowed.

    Notes
    -----
    Below a leaf v of the fragment the bound is ``errors + sqrt(n_v |T_v| ln 2 / 2)``, concave in the number of splits
    of T_v. So the best subtree is a vertex of the hull of (leaves, errors) at v (Scott 2004, Theorem 18). The bounds of
    the leaves of the fragment add. One pass for the hulls and one for the fragment. Mansour and McAllester (2000),
    Theorem 3 and section 5, whose recursion does this for one tree.

    Examples
    --------
    >>> import numpy as np
    >>> from pactree_mcmc import GridCuts
    >>> x = np.arange(4000.0)[:, None]
    >>> best = minimise_root_fragment(x, x[:, 0] > 999, split_prior=GridCuts([np.arange(499.5, 4000, 500)]))
    >>> best.tree.n_leaves, best.risk, round(best.bound.value, 3), best.fragment.tolist()
    (2, 0.0, 0.121, [0])
    """
    check_type("split_prior", split_prior, DyadicCuts | GridCuts | FixedTree, "DyadicCuts, GridCuts or a FixedTree")
    if isinstance(split_prior, FixedTree) and split_prior.joint.any():
        raise ValueError("the tree has joint nodes, which no pruning separates from their parents; give a binary tree.")
    strength = check_number("strength", strength, "a finite number >= 0", 0.0, LARGEST_STRENGTH)
    n_classes, level = check_count("n_classes", n_classes, 2), fragment_level(check_delta(delta))
    # a prior that depends on depth, so that cells at the ends of paths of different lengths have different slots
    prior = ChipmanPrior(0.5, 1.0, max_depth=max_depth)
    model = TreeModel(X, y, tree_prior=prior, split_prior=split_prior, leaf=DirichletMultinomial())
    assert model.classes_ is not None
    if len(model.classes_) > n_classes:
        raise ValueError(
            f"y has {len(model.classes_)} classes and n_classes={n_classes}; give the number of possible labels, known "
            "before the rows were seen."
        )
    try:
        graph = _without_empty(build_graph(model, max_cells))
    except Intractable as refusal:
        advice = "Lower max_depth or the splits of split_prior, or raise max_cells as far as memory allows."
        raise refusal.with_advice(advice) from None
    n_splits = max(1, int(graph.first_edge[1]))
    min_bits = math.log2(n_splits)
    requirement = f"the length of a prefix code for {n_splits:,} splits, >= {min_bits:.6g} bits"
    if split_bits is None:
        split_bits = min_bits
    else:
        split_bits = check_number("split_bits", split_bits, requirement, min_bits - 1e-9, MAX_COUNT)
    code = _Code(1.0 + split_bits + 1.0 + math.log2(n_classes), 1.0 + math.log2(n_classes), split_bits + 2.0, level)
    return _minimise(model, graph, code, split_bits, strength, float(delta))._replace(use_of_rows=_use_of_rows(model))


def _use_of_rows(model: TreeModel) -> str | None:
    """Return how the splits depend on the rows, so that the bound fails, and how to avoid this; None if not."""
    nominal = np.flatnonzero(model.columns.is_nominal)
    if len(nominal) and not isinstance(model.split_prior, FixedTree):
        name = model.columns.names[nominal[0]]
        return f"the splits of the nominal column {name!r} are subsets of the categories there; give it as numbers"
    return model.split_prior.use_of_rows


class _Code(NamedTuple):
    """Code lengths in bits of a tree and of a leaf of the fragment, and the term of the confidence level."""

    split: float  # Code length of a further split and leaf
    leaf: float  # Code length of a tree of one leaf
    step: float  # Code length of a step of a path; the path to the root takes one bit
    level: float  # ln(2 / delta)


def _without_empty(graph: CellGraph) -> CellGraph:
    """Return the graph of the trees without empty nodes, in which every leaf and every split has weight 1."""
    stop = np.where(by_slot(graph, graph.rows) > 0, 0.0, -np.inf)
    has_rows = (graph.rows[graph.left] > 0) & (graph.rows[graph.right] > 0)
    return with_terms(graph, log_stop=stop, log_split=0.0, log_rule=np.where(has_rows, 0.0, -np.inf))


def _minimise(
    model: TreeModel, graph: CellGraph, code: _Code, split_bits: float, strength: float, delta: float
) -> RootFragmentTree:
    """Return the best tree and root fragment, by one pass for the hulls of and one for the fragment."""
    errors = graph.stats.sum(axis=1) - graph.stats.max(axis=1)
    has_rows = graph.rows > 0
    hull = hull_by_size(with_terms(graph, log_stop=by_slot(graph, np.where(has_rows, -errors, -np.inf))))
    rows, depth = by_slot(graph, graph.rows).astype(np.float64), graph.slot_depth().astype(np.float64)

    def penalty(slot: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        """Return `strength` times the penalty, in errors, of a leaf of the fragment with `leaves` leaves below."""
        n, path_bits = rows[slot], 1.0 + depth[slot] * code.step
        path = 2.0 * (np.sqrt(n * path_bits) + path_bits) + 2.0 * (np.sqrt(n * code.level) + code.level)
        bits = code.leaf + (leaves - 1.0) * code.split
        return strength * (np.sqrt(n * bits * math.log(2.0) / 2.0) + path)

    best = best_fragments(graph, hull, penalty)
    trees = grow_chosen_trees(model, graph, best, [IN_FRAGMENT])
    tree, nodes = as_draws(model, graph, trees).distinct_tree(0), trees.nodes
    inner = nodes[:, FEATURE] != LEAF
    in_fragment = nodes[:, TREE_NUMBER] == IN_FRAGMENT
    # the left child of a node comes next: the fragment goes on below a node if it contains that child
    continues = np.zeros(len(nodes), dtype=bool)
    continues[inner] = in_fragment[np.flatnonzero(inner) + 1]
    risk = float(errors[nodes[~inner, CELL]].sum()) / model.n_rows
    cost = max(-float(best.value[0]) / model.n_rows - risk, 0.0)
    fragment = np.flatnonzero(in_fragment & ~continues)
    return RootFragmentTree(tree, fragment, risk, cost, split_bits, strength, delta, graph.n_cells)
