"""The global splitting prior, which is uniform over the distinct partitions of the rows by a tree without cuts.

A *structure* is a tree with a feature at each split but without cuts. A *splitting* is a partition of the rows of X
among the leaves of a structure. It is a choice, at each node, of one division of the node's rows by the feature of the
node, including the two trivial ones (one division if there are no rows). So splittings are the trees of a graph whose
cells are pairs of a structure and a set of rows, to which every recursion applies (Blanchard 1999, section 5,
equation 8).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_type, read_generator
from pactree_mcmc.core.special import gammaln
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.base import call_uncompiled, has_empty_sides
from pactree_mcmc.model.split_prior.cuts import LocalCuts
from pactree_mcmc.model.tree_prior import BranchingProcess
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree, match_columns

from ...graph.build import build_graph, refuse_shared_leaves
from ...graph.cells import CELL_COLUMNS, CellGraph
from ...limits import Intractable, check_cells
from ...posterior import ExactPosterior
from ...recursion.inside_outside import with_unit_weights
from ...sums import count_trees, log_sums

SPLITS_PER_CELL = 32  # splits of the root allowed for each pair (of a structure and a set of rows) allowed
# cuts of a node followed at the first level above the two lowest ones; a quarter of them one level down
MAX_FOLLOWED_CUTS = 32


class _Structures(NamedTuple):
    """Numbered structures (trees with features and without cuts). Subtrees are structures too. Number 0 is a leaf."""

    feature: np.ndarray  # (n,) int64: feature at the root, -1 for a leaf
    left: np.ndarray  # (n,) int64: number of the left subtree
    right: np.ndarray  # (n,) int64: number of the right subtree
    depth: np.ndarray  # (n,) int64: depth of the deepest leaf


def count_global_splittings(X: Any, structure: Tree, *, max_cells: int = 1_000_000) -> int:
    """Return the number of distinct partitions of the rows of ``X`` among the leaves of a tree with given features.

    Parameters
    ----------
    X : table of shape (n, p)
        All rows. Equal rows count once.
    structure : Tree
        Tree whose shape and features are used. Its thresholds are not used.
    max_cells : int, default 1,000,000
        Largest number of pairs of a node and a set of rows.

    Returns
    -------
    int
        Exact; ``C(I + m, m)`` with one feature of I distinct values and m splits, whatever the shape.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> chain = Tree([0, 0, -1, -1, -1], [0.0] * 5, [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])
    >>> count_global_splittings([[1.0], [2.0], [5.0]], chain)
    10
    """
    check_type("structure", structure, Tree, "a Tree")
    check_cells(max_cells)
    split_prior, prior = LocalCuts(trivial=True), BranchingProcess(0.5, 1)
    model = TreeModel(X, np.zeros(Table(X).n_rows, dtype=int), tree_prior=prior, split_prior=split_prior)
    structure = match_columns(structure, model.columns)
    if structure.feature.max() >= model.n_features:
        raise ValueError(f"the structure splits on feature {structure.feature.max()}; X has {model.n_features} columns")
    return count_splittings(model, structure, max_cells)


def count_splittings(model: TreeModel, structure: Tree, max_cells: int) -> int:
    """Return the number of partitions of the rows of a model by the structure (features and shape) of a tree."""
    # cells with the same rows are one cell
    prior = BranchingProcess(0.5, max(structure.depth, 1))
    base = build_graph(TreeModel.from_parts(model.parts._replace(tree_prior=prior)), max_cells)
    structures, root = _structures_of(structure)
    return count_trees(_pair_graph(base, structures, np.array([root]), np.zeros(1, dtype=np.int64), max_cells)[0])


def solve_global_splitting(model: TreeModel, *, max_cells: int = 1_000_000) -> ExactPosterior:
    """Return the posterior under the global splitting prior.

    A structure tau is a tree with features and without cuts. A tree with this structure has the tree prior's
    probability of the shape, times the weights of the features, divided by the number of partitions of the rows by tau.
    This prior does not factorise, so the sum runs over all structures.

    Parameters
    ----------
    model : TreeModel
        With ``LocalCuts(trivial=True)``, whose product of local choices is replaced by the global one.
    max_cells : int, default 1,000,000
        Largest number of pairs of a structure and a set of rows; up to 32 times as many splits of the root are allowed.

    Returns
    -------
    ExactPosterior
        ``model.log_prior`` is that of the local prior; ``log_prior`` of draws is that of the global one. Credible sets,
        which place any tree by ``model.log_prior``, are refused.

    Raises
    ------
    Intractable
        If there are too many pairs; with p features there are 2, p + 1, p (p + 1)^2 + 1, ... structures of depth at
        most 0, 1, 2, ...

    Examples
    --------
    >>> from pactree_mcmc import BranchingProcess, LocalCuts, TreeModel
    >>> prior, splits = BranchingProcess(0.5, max_depth=2), LocalCuts(trivial=True)
    >>> truth = solve_global_splitting(TreeModel([[1.0], [2.0]], [0, 1], tree_prior=prior, split_prior=splits))
    >>> truth.n_leaves_pmf().round(3).tolist()
    [0.0, 0.446, 0.13, 0.279, 0.145]
    """
    check_global(model)
    check_cells(max_cells)
    refuse_shared_leaves(model)
    truth = ExactPosterior(model, splitting_graph(model, max_cells))
    truth._odds_by_model = False
    return truth


def check_global(model: Any) -> None:
    """Raise ValueError if a model has not the splits of the global splitting prior, ``LocalCuts(trivial=True)``."""
    if not isinstance(model, TreeModel) or not call_uncompiled(has_empty_sides, model.split_prior):
        raise ValueError("give a model with split_prior=LocalCuts(trivial=True): its splits are those of this prior.")


def splitting_graph(model: TreeModel, max_cells: int) -> CellGraph:
    """Build the graph in which trees have the weights of the global splitting prior (`solve_global_splitting`)."""
    # its cells are pairs of a structure, the shape of a tree with its features, and a set of rows, below one root
    limit, p = int(model.prior_tables.depth_limit), model.n_features
    n_structures = 1
    for _ in range(limit - 1):
        n_structures = 1 + p * n_structures**2
        if n_structures > max_cells:
            raise Intractable(n_structures, max_cells, "structures below the root")
    base = build_graph(model, max_cells)
    most = SPLITS_PER_CELL * max_cells
    root = slice(int(base.first_edge[0]), int(base.first_edge[1]))
    if (root.stop - root.start) * n_structures**2 > most:
        raise Intractable((root.stop - root.start) * n_structures**2, most, "splits of the root")
    if limit == 0:
        return base
    structures = _all_structures(p, limit - 1)
    first = np.unique(np.concatenate([base.left[root], base.right[root]])).astype(np.int64)
    sigma, cell = (a.ravel() for a in np.meshgrid(np.arange(n_structures), first, indexing="ij"))
    pairs, place = _pair_graph(base, structures, sigma, cell, max_cells)
    return _add_root(model, base, structures, pairs, place)


def _structures_of(tree: Tree) -> tuple[_Structures, int]:
    """Return the distinct structures of the subtrees of a tree, and the number of that of the whole tree."""
    numbers: dict[tuple[int, int, int], int] = {}
    rows = [(LEAF, 0, 0, 0)]
    number = np.zeros(tree.n_nodes, dtype=np.int64)
    for node in range(tree.n_nodes - 1, -1, -1):
        if tree.feature[node] != LEAF:
            left, right = int(number[tree.left[node]]), int(number[tree.right[node]])
            key = (int(tree.feature[node]), left, right)
            if key not in numbers:
                numbers[key] = len(rows)
                rows.append((*key, 1 + max(rows[left][3], rows[right][3])))
            number[node] = numbers[key]
    return _Structures(*np.array(rows, dtype=np.int64).T), int(number[0])


def _all_structures(p: int, depth: int) -> _Structures:
    """Return every structure (shape and features of a tree) over ``p`` features of depth at most ``depth``."""
    out = _Structures(np.array([LEAF]), *np.zeros((3, 1), dtype=np.int64))
    for level in range(1, depth + 1):
        grid = np.meshgrid(np.arange(p), np.arange(len(out.feature)), np.arange(len(out.feature)), indexing="ij")
        feature, left, right = (a.ravel() for a in grid)
        new = np.maximum(out.depth[left], out.depth[right]) == level - 1
        added = _Structures(feature[new], left[new], right[new], np.full(new.sum(), level))
        out = _Structures(*(np.concatenate(pair) for pair in zip(out, added, strict=True)))
    return out


class _PairSplits(NamedTuple):
    """The m splits of some pairs of a structure and a cell of the base graph."""

    pair: np.ndarray  # (m,) int64: number of the pair
    edge: np.ndarray  # (m,) int64: the split of the base graph
    left: np.ndarray  # (m,) int64: key of the left child, ``structure * n_cells + cell``
    right: np.ndarray  # (m,) int64: key of the right child


def _splits_of(base: CellGraph, structures: _Structures, key: np.ndarray) -> _PairSplits:
    """Return the splits of pairs, each those of its cell in `base` on the feature at the root of its structure."""
    sigma, cell = np.divmod(key, base.n_cells)
    n_edges = np.where(sigma > 0, np.diff(base.first_edge)[cell], 0)
    pair = np.repeat(np.arange(len(key)), n_edges)
    edge = np.arange(len(pair)) - np.repeat(np.cumsum(n_edges) - n_edges - base.first_edge[cell], n_edges)
    fits = base.feature[edge] == structures.feature[sigma[pair]]
    pair, edge = pair[fits], edge[fits]
    left = structures.left[sigma[pair]] * base.n_cells + base.left[edge]
    right = structures.right[sigma[pair]] * base.n_cells + base.right[edge]
    return _PairSplits(pair, edge, left, right)


def _pair_graph(
    base: CellGraph, structures: _Structures, sigma: np.ndarray, cell: np.ndarray, max_cells: int
) -> tuple[CellGraph, np.ndarray]:
    """Return the graph of the pairs of `sigma` (structures) and `cell`, and of all pairs below, and its keys."""
    # splits and leaves have no prior factors; the key of a pair is structure * n_cells + cell
    keys = new = np.unique(sigma * base.n_cells + cell)
    while len(new):
        splits = _splits_of(base, structures, new)
        new = np.setdiff1d(np.concatenate([splits.left, splits.right]), keys)
        keys = np.union1d(keys, new)
        if len(keys) > max_cells:
            raise Intractable(len(keys), max_cells, "pairs of a structure and a set of rows")
    # the deepest structures first, so that parents come before children
    keys = keys[np.argsort(-structures.depth[keys // base.n_cells], kind="stable")]
    splits = _splits_of(base, structures, keys)
    sigma, cell = np.divmod(keys, base.n_cells)
    by_cell = [getattr(base, name)[cell] for name in CELL_COLUMNS]
    children = _indices_in(keys, splits.left), _indices_in(keys, splits.right)
    by_edge = *children, base.feature[splits.edge], base.split[splits.edge], np.zeros(len(splits.edge))
    first_edge = np.concatenate([[0], np.cumsum(np.bincount(splits.pair, minlength=len(keys)))])
    log_stop, log_split = np.where(sigma == 0, base.score[cell], -np.inf), np.where(sigma == 0, -np.inf, 0.0)
    columns: Any = first_edge, *by_edge, *by_cell, np.arange(len(keys) + 1), log_stop, log_split, False
    return CellGraph(*columns), keys


def _indices_in(keys: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Return the index in ``keys`` of each entry of ``entries``, int32. All entries must be in ``keys``."""
    order = np.argsort(keys)
    return order[np.searchsorted(keys, entries, sorter=order)].astype(np.int32)


def _add_root(
    model: TreeModel, base: CellGraph, structures: _Structures, pairs: CellGraph, keys: np.ndarray
) -> CellGraph:
    """Return the graph `pairs`, with `keys`, below a root, which is cell 0."""
    # Each split of the root is repeated for every pair of structures on its two sides. Its log_rule is the log of the
    # prior of the structure of the whole tree divided by the number of splittings of this structure
    log_splittings = log_sums(with_unit_weights(pairs))
    table, n = model.prior_tables.table, len(structures.feature)
    weight = model.split_prior.weights(model.n_features)
    with np.errstate(divide="ignore"):
        log_label = np.log(weight / weight.sum())
    log_structure_prior = _log_structure_prior(model, structures, log_label)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in ("left", "right", "edge", "log_rule")}
    for k in np.flatnonzero(weight):
        edges = np.flatnonzero(base.feature[: base.first_edge[1]] == k)
        shape = (len(edges), n, n)
        sigma = np.arange(n) * base.n_cells
        left = np.broadcast_to(_indices_in(keys, sigma + base.left[edges, None])[:, :, None], shape)
        right = np.broadcast_to(_indices_in(keys, sigma + base.right[edges, None])[:, None, :], shape)
        log_n_splits = np.logaddexp.reduce(log_splittings[left] + log_splittings[right], axis=0)
        # structures that split on a feature of weight 0 have neither splittings nor a prior
        log_n_splits[log_n_splits == -np.inf] = np.inf
        log_prior = table.log_split[0] + log_label[k] + log_structure_prior[:, None] + log_structure_prior[None, :]
        log_prior -= log_n_splits
        columns["left"].append(left.ravel())
        columns["right"].append(right.ravel())
        columns["edge"].append(np.repeat(edges, n * n))
        columns["log_rule"].append(np.broadcast_to(log_prior, shape).ravel())
    left, right, edge, log_rule = (np.concatenate(column) for column in columns.values())
    bonus = np.where(pairs.rows == 0, model.prior_tables.empty_bonus, 0.0)
    by_cell = {name: np.concatenate([getattr(base, name)[:1], getattr(pairs, name)]) for name in CELL_COLUMNS}
    return CellGraph(
        first_edge=np.concatenate([[0], pairs.first_edge + len(edge)]),
        left=np.concatenate([left, pairs.left]).astype(np.int32) + np.int32(1),
        right=np.concatenate([right, pairs.right]).astype(np.int32) + np.int32(1),
        feature=np.concatenate([base.feature[edge], pairs.feature]),
        split=np.concatenate([base.split[edge], pairs.split]),
        log_rule=np.concatenate([log_rule, pairs.log_rule]),
        first_slot=np.arange(pairs.n_cells + 2),
        log_stop=np.concatenate([base.log_stop[:1], pairs.log_stop + bonus]),
        log_split=np.concatenate([[0.0], pairs.log_split]),
        layered=False,
        **by_cell,
    )


def _log_structure_prior(model: TreeModel, structures: _Structures, log_label: np.ndarray) -> np.ndarray:
    """Return the log prior of each structure below a child of the root, nats; -inf if it is too deep."""
    # the sum of the log prior factors of its shape and of its features
    prior = model.prior_tables
    limit = prior.depth_limit
    log_prior = np.where(structures.depth == 0, prior.table.log_forced[limit], -np.inf)
    for depth in range(limit - 1, 0, -1):
        split = prior.table.log_split[depth] + log_label[structures.feature]
        log_subtrees = log_prior[structures.left] + log_prior[structures.right]
        log_split = np.where(structures.depth <= limit - depth, split + log_subtrees, -np.inf)
        log_prior = np.where(structures.depth == 0, prior.table.log_stop[depth], log_split)
    return log_prior


class SplittingCounts:
    """Estimates of the number of splittings (partitions of rows by a structure) without a graph."""

    # Equal rows count once. A node whose children are leaves has I + 1 divisions for I distinct values. A node above
    # such nodes has the sum, over its cuts, of the products of their numbers. Above these two levels a systematic
    # sample of the cuts is followed if there are more than `MAX_FOLLOWED_CUTS`: the count is exact for few levels and
    # otherwise unbiased. A structure of m splits on one feature has C(I + m, m) splittings
    def __init__(self, X: np.ndarray, rng: Any = None) -> None:
        self.codes = np.column_stack([np.unique(X[:, k], return_inverse=True)[1] for k in range(X.shape[1])])
        self.rng = read_generator(rng)
        self._log_counts: dict[Any, float] = {}

    def log_count(self, structure: Tree) -> float:
        """Return the log number of partitions of the rows by the shape and features of a tree; estimates are kept."""
        inner = structure.feature[structure.feature != LEAF]
        if len(np.unique(inner)) <= 1:
            m, n = len(inner), int(self.codes[:, inner[:1]].max(initial=0)) + 1
            return float(gammaln(n + m + 1.0) - gammaln(n + 1.0) - gammaln(m + 1.0))
        shape = _as_nested(structure, 0)
        if shape not in self._log_counts:
            self._log_counts[shape] = math.log(self._count(shape, np.arange(len(self.codes)), MAX_FOLLOWED_CUTS))
        return self._log_counts[shape]

    def _count(self, shape: Any, rows: np.ndarray, max_cuts: int) -> float:
        """Return the estimated number of splittings of `rows` by a structure, following `max_cuts` cuts of its root."""
        # `shape` is nested tuples (feature, left, right), None for a leaf; one level below a quarter of the cuts is
        # followed
        if shape is None or len(rows) == 0:
            return 1.0
        feature, left, right = shape
        rows = rows[np.argsort(self.codes[rows, feature], kind="stable")]
        ends = np.concatenate([[0], np.flatnonzero(np.diff(self.codes[rows, feature])) + 1, [len(rows)]])
        if _n_levels(left) <= 1 and _n_levels(right) <= 1:
            to_left = self._divisions(left, rows)[ends]
            return float(to_left @ self._divisions(right, rows[::-1])[len(rows) - ends])
        followed, weight = ends, 1.0
        if len(ends) > max_cuts:
            weight = len(ends) / max_cuts
            places = ((np.arange(max_cuts) + self.rng.random()) * weight).astype(np.int64)
            followed = ends[np.minimum(places, len(ends) - 1)]
        n_cuts_below = max(max_cuts // 4, 4)
        total = 0.0
        for end in followed:
            total += self._count(left, rows[:end], n_cuts_below) * self._count(right, rows[end:], n_cuts_below)
        return weight * total

    def _divisions(self, shape: Any, rows: np.ndarray) -> np.ndarray:
        """Return the number of divisions (1 + its distinct values) of the first m of `rows`, for m = 0, ..., n."""
        out = np.ones(len(rows) + 1)
        if shape is not None:
            codes = self.codes[rows, shape[0]]
            first = np.zeros(len(rows))
            first[np.unique(codes, return_index=True)[1]] = 1.0
            out[1:] += np.cumsum(first)
        return out


def _as_nested(tree: Tree, node: int) -> Any:
    k = int(tree.feature[node])
    return None if k == LEAF else (k, _as_nested(tree, int(tree.left[node])), _as_nested(tree, int(tree.right[node])))


def _n_levels(shape: Any) -> int:
    return 0 if shape is None else 1 + max(_n_levels(shape[1]), _n_levels(shape[2]))
