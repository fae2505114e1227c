"""Trees that minimise a bound on their risk: greedily, or over all trees and root fragments.

`forward_tree` grows one split at a time, as long as a bound on the risk decreases (Shah 2007). `minimise_root_fragment`
returns the tree with the smallest compositional bound. A root fragment of a tree is a subtree with the same root
(Mansour and McAllester 2000).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates.bound import Bound, check_delta
from pactree_mcmc.certificates.compression_bounds import (
    MAX_HALVINGS,
    PARENTS,
    STRING,
    TreeBound,
    compression_nats,
    compression_tree_bound,
    dyadic_code,
    halved_ranges,
    halvings_of_rows,
    message_nats,
    occam_tree_bound,
    read_lists,
    read_ranges,
    tail_bound,
    zeta_nats,
)
from pactree_mcmc.certificates.occam_bounds import fragment_level
from pactree_mcmc.core.checks import (
    MAX_COUNT,
    check_choice,
    check_count,
    check_number,
    check_type,
    read_labels,
    read_matrix,
)
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.texts import with_short_repr
from pactree_mcmc.model import ChipmanPrior, DirichletMultinomial, DyadicCuts, FixedTree, GridCuts, TreeModel
from pactree_mcmc.table.columns import category_codes, describe_columns, refuse_missing, sorted_unique
from pactree_mcmc.table.reader import Table, is_frame
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..graph.build import build_graph
from ..graph.cells import CellGraph
from ..limits import Intractable
from ..recursion.inside_outside import CELL, FEATURE, TREE_NUMBER
from ..recursion.semirings import IN_FRAGMENT
from ..recursion.trees import as_draws, grow_chosen_trees
from ..sums import best_fragments, hull_by_size

ENTROPY, BOUND = SPLIT_CRITERIA = ("entropy", "bound")  # values of ``criterion``
ROWS = "rows"  # value of ``thresholds`` for thresholds that are values of rows


@with_short_repr
class ForwardTree(NamedTuple):
    """The tree with the smallest bound on its risk among those grown by `forward_tree`."""

    tree: Tree
    """The tree whose risk is bounded."""
    bound: TreeBound
    """Bound on the risk of the tree."""
    path: np.ndarray
    """(s,) float64: bounds of the trees of 1, ..., s leaves, if each threshold needs a row of its own."""
    rounds: int
    """Number of further halvings of the ranges with which the tree was grown; 0 without ranges."""


class _Codes(NamedTuple):
    """Codes of the thresholds of each feature, as arrays for compiled code: lists, or dyadic numbers in an interval."""

    # a code length is minus a log prior probability
    # (p + 1,) int64: the list of feature k is ``listed[offset[k]:offset[k + 1]]``; all 0 without lists
    offset: np.ndarray
    listed: np.ndarray  # float64: thresholds in the lists, feature after feature
    # (p,) float64: ends of the intervals of dyadic codes, -inf without such codes
    lower: np.ndarray
    upper: np.ndarray
    nats: np.ndarray  # (p,) float64: code length of a threshold, nats, without the bits of its dyadic code


class _LeafSplit(NamedTuple):
    """A possible split of a leaf."""

    feature: int  # Feature of the split
    low: float  # Largest value that goes left
    errors: int  # Number of misclassified rows in both children
    nats: float  # Code length of the threshold
    gain: float  # Information gain times rows, nats


class _Leaf(NamedTuple):
    """A leaf of the tree that is being grown."""

    node: int  # Number of the node
    rows: np.ndarray  # Indices of its rows
    errors: int  # Number of its rows that its majority class misclassifies
    splits: list[_LeafSplit]  # Splits to choose from: none has both more errors and a longer code than another


def forward_tree(
    X: Any,
    y: Any,
    *,
    thresholds: Any = ROWS,
    ranges: Any = None,
    criterion: str = ENTROPY,
    patience: int = 0,
    max_rounds: int = 8,
    min_rows: int = 1,
    parents: str = STRING,
    n_classes: int = 2,
    delta: float = 0.05,
) -> ForwardTree:
    """Grow a tree one split at a time while the bound on its risk falls.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns without missing values.
    y : array-like of shape (n,)
        Labels.
    thresholds : "rows" or list of p arrays, default "rows"
        "rows": thresholds are values of rows (`certificates.compression_tree_bound`). Otherwise a list of possible
        thresholds for each feature, fixed in advance (`certificates.occam_tree_bound`).
    ranges : array of shape (p, 2), optional
        Ends of the range of each feature, known in advance. Thresholds are then dyadic numbers
        (`certificates.occam_tree_bound`). The ranges are halved as often as they still contain the rows, and a tree is
        grown. This is repeated with all ranges halved once more, until the bound reaches 1 or ``max_rounds`` halvings
        were added. The tree with the smallest bound is returned.
    criterion : {"entropy", "bound"}, default "entropy"
        Criterion for the next split: the largest information gain over all rows, or the smallest bound.
    patience : int, default 0
        Number of further splits after one that raises the bound; the best tree of all steps is returned.
    max_rounds : int, default 8
        Largest number of further halvings, 0 to 24.
    min_rows : int, default 1
        Fewest rows of a leaf.
    parents : {"string", "number"}, default "string"
        Code of a node's parent, as for `certificates.compression_tree_bound`.
    n_classes : int, default 2
        Number of possible labels, fixed before the rows were seen.
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1).

    Notes
    -----
    The bound holds for all trees simultaneously, so that the search costs nothing. The splits of a leaf are compared
    once: O(p n log n) for a level of the tree. Shah (2007), sections 4.2 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(200.0)[:, None]
    >>> grown = forward_tree(x, (x[:, 0] > 49) & (x[:, 0] < 120))
    >>> grown.tree.n_leaves, round(grown.bound.value, 3), np.round(grown.path, 2).tolist()
    (3, 0.149, [0.45, 0.45, 0.15])
    """
    rows, label, classes = _read_training_rows(X, y)
    columns = describe_columns(Table(X), []) if is_frame(X) else None
    if columns is not None and columns.is_nominal.any():
        raise ValueError("X has nominal columns, which these codes lack; give columns of numbers.")
    check_choice("criterion", criterion, SPLIT_CRITERIA)
    check_choice("parents", parents, PARENTS)
    delta, n_classes, p = check_delta(delta), check_count("n_classes", n_classes, 2), rows.shape[1]
    patience, min_rows = check_count("patience", patience, 0), check_count("min_rows", min_rows)
    max_rounds = check_count("max_rounds", max_rounds, 0, MAX_HALVINGS)
    compressed = ranges is None and isinstance(thresholds, str)
    if compressed:
        check_choice("thresholds", thresholds, (ROWS,))
    elif ranges is not None and not isinstance(thresholds, str):
        raise ValueError("give either thresholds, a list for each feature, or ranges, two numbers for each feature.")
    grower = _Grower(rows, label, len(classes), max(p, n_classes), criterion, patience, min_rows, parents, delta)
    options: dict[str, Any] = {"parents": parents, "n_classes": n_classes, "delta": delta}
    names: dict[str, Any] = {"classes": classes, "columns": columns}
    if compressed:
        tree, path = grower.grow(_free_codes(p), compressed=True)
        bound = compression_tree_bound(replace(tree, **names), rows, y, **options)
        return ForwardTree(bound.tree, bound, path, 0)
    if ranges is None:
        lists = read_lists(thresholds, p)
        tree, path = grower.grow(_codes_of_lists(lists), compressed=False)
        bound = occam_tree_bound(replace(tree, **names), rows, y, thresholds=lists, **options)
        return ForwardTree(bound.tree, bound, path, 0)
    ends, trees = read_ranges(ranges, p), []
    halvings = halvings_of_rows(rows, ends)
    for extra in range(max_rounds + 1):
        tree, path = grower.grow(_codes_of_ranges(ends, halvings + extra), compressed=False)
        bound = occam_tree_bound(replace(tree, **names), rows, y, ranges=ends, halvings="cheapest", **options)
        trees.append(ForwardTree(bound.tree, bound, path, extra))
        if path.min() >= 1.0 or len(path) == 1:
            break
    return min(trees, key=lambda one: one.bound.raw)


def _read_training_rows(X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check the data, and return the rows (n, p), the class numbers (n,) and the sorted classes."""
    rows, labels = read_matrix("X", X), read_labels(y, X)
    if rows.ndim != 2 or labels.shape != (len(rows),) or len(rows) < 2:
        raise ValueError(f"X has shape {rows.shape} and y {labels.shape}; give a table (n, p) and n labels, n >= 2.")
    if not np.isfinite(rows).all():
        raise ValueError("X holds missing or infinite values, which these codes lack; fill them in.")
    refuse_missing(y)
    classes = sorted_unique(labels)
    return np.ascontiguousarray(rows), category_codes(labels, classes), classes


def _free_codes(p: int) -> _Codes:
    """Return codes in which every threshold has length 0, for thresholds that are values of rows."""
    infinite = np.full(p, -np.inf)
    return _Codes(np.zeros(p + 1, dtype=np.int64), np.empty(0), infinite, infinite, np.zeros(p))


def _codes_of_lists(lists: list[np.ndarray]) -> _Codes:
    """Return codes of thresholds from lists, one for each feature. Code length: the log of the size of the list."""
    size = np.array([len(part) for part in lists])
    offset = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return _free_codes(len(lists))._replace(offset=offset, listed=np.concatenate(lists), nats=np.log(size))


def _codes_of_ranges(ranges: np.ndarray, kappa: np.ndarray) -> _Codes:
    """Return codes of dyadic thresholds in ranges (p, 2) after `kappa` (2, p) halvings of their two ends."""
    # the numbers of halvings have code lengths too, in `nats`
    lower, upper = halved_ranges(ranges, np.minimum(kappa, MAX_HALVINGS))
    return _free_codes(len(ranges))._replace(lower=lower, upper=upper, nats=zeta_nats(kappa).sum(axis=0))


@dataclass
class _Grower:
    """The rows and settings with which trees are grown, under different codes of thresholds."""

    X: np.ndarray  # (n, p) float64: rows
    label: np.ndarray  # (n,): number of the class of each row
    n_labels: int  # Number of classes of the rows
    alphabet: int  # Larger of the number of features and the number of classes
    criterion: str
    patience: int
    min_rows: int
    parents: str
    delta: float

    def grow(self, codes: _Codes, *, compressed: bool) -> tuple[Tree, np.ndarray]:
        """Return the tree with the smallest bound among those of all steps, and the bounds (s,) of these trees."""
        # until more than `patience` splits in turn have not improved the bound
        leaves = [self._leaf(0, np.arange(len(self.X)), codes)]
        splits: list[tuple[int, _LeafSplit, int]] = []  # node, its split, and the number of its left child
        nats, path = 0.0, [self._bound(0, leaves[0].errors, 0.0, compressed)]
        while len(path) - 1 - int(np.argmin(path)) <= self.patience:
            errors = sum(leaf.errors for leaf in leaves)
            candidate = self._next_split(leaves, len(splits), errors, nats, compressed)
            if candidate is None:
                break
            index, split = candidate
            leaf = leaves.pop(index)
            goes_left = self.X[leaf.rows, split.feature] <= split.low
            first = 2 * len(splits) + 1
            leaves.append(self._leaf(first, leaf.rows[goes_left], codes))
            leaves.append(self._leaf(first + 1, leaf.rows[~goes_left], codes))
            splits.append((leaf.node, split, first))
            nats += split.nats
            path.append(self._bound(len(splits), errors - leaf.errors + split.errors, nats, compressed))
        best = splits[: int(np.argmin(path))]
        return self._tree({node: (split, first) for node, split, first in best}), np.array(path)

    def _leaf(self, node: int, rows: np.ndarray, codes: _Codes) -> _Leaf:
        """Return leaf `node` with these `rows` and the splits that may be chosen for it, none without errors."""
        # under ENTROPY the split with the largest gain alone, else those that no split beats in both errors and code
        # length
        errors = int(len(rows) - np.bincount(self.label[rows], minlength=self.n_labels).max())
        if errors == 0:
            return _Leaf(node, rows, 0, [])
        by_gain = self.criterion == ENTROPY
        columns = _splits_by_errors(self.X, self.label, rows, self.n_labels, self.min_rows, by_gain, *codes)
        rows_of_splits = enumerate(zip(*columns, strict=True))
        splits = [_LeafSplit(int(f), float(v), e, float(c), float(g)) for e, (f, v, c, g) in rows_of_splits if f >= 0]
        if splits and by_gain:
            splits = [max(splits, key=lambda split: split.gain)]
        elif splits:
            # in order of errors: the splits with a shorter code than all splits with fewer errors
            cheapest = np.minimum.accumulate([math.inf, *(split.nats for split in splits[:-1])])
            splits = [split for split, least in zip(splits, cheapest, strict=True) if split.nats < least]
        return _Leaf(node, rows, errors, splits)

    def _next_split(
        self, leaves: list[_Leaf], n_splits: int, errors: int, nats: float, compressed: bool
    ) -> tuple[int, _LeafSplit] | None:
        """Return the index of the next leaf to split, by largest gain or smallest bound, and its split, or None."""
        open_splits = [(i, split) for i, leaf in enumerate(leaves) for split in leaf.splits]
        if not open_splits:
            return None
        if self.criterion == ENTROPY:
            return max(open_splits, key=lambda candidate: candidate[1].gain)

        def bound_and_gain(candidate: tuple[int, _LeafSplit]) -> tuple[float, float]:
            """Return the bound after a split, and minus its gain, which breaks ties."""
            i, split = candidate
            n_wrong = errors - leaves[i].errors + split.errors
            return self._bound(n_splits + 1, n_wrong, nats + split.nats, compressed), -split.gain

        return min(open_splits, key=bound_and_gain)

    def _bound(self, n_inner: int, errors: int, nats: float, compressed: bool) -> float:
        """Return the risk bound, maybe above 1, of a tree of `n_inner` splits and thresholds of `nats`."""
        # `compressed`: thresholds are values of rows, which are then not counted
        n = len(self.X)
        code = message_nats(2 * n_inner + 1, self.alphabet, self.parents) | {"thresholds": nats}
        if compressed:
            if n_inner >= n:
                return math.inf
            code |= compression_nats(n_inner, n_inner, n)
            n -= n_inner
        return tail_bound("", code, n, min(errors, n), self.delta).raw

    def _tree(self, splits: dict[int, tuple[_LeafSplit, int]]) -> Tree:
        """Build the tree from the split and the left child of each inner node; a right child follows the left one."""
        nodes: list[list[float]] = []
        value: list[np.ndarray] = []
        # a node in `splits`, its rows, the parent, and the column of the parent that has this child
        stack: list[tuple[int, np.ndarray, int, int]] = [(0, np.arange(len(self.X)), -1, 0)]
        while stack:
            node, rows, parent, side = stack.pop()
            number = len(nodes)
            if parent >= 0:
                nodes[parent][side] = number
            value.append(np.bincount(self.label[rows], minlength=self.n_labels) / len(rows))
            nodes.append([LEAF, 0.0, 0, 0])
            if node in splits:
                split, first = splits[node]
                goes_left = self.X[rows, split.feature] <= split.low
                nodes[number][:2] = [split.feature, split.low]
                stack += [(first + 1, rows[~goes_left], number, 3), (first, rows[goes_left], number, 2)]
        feature, threshold, left, right = np.array(nodes).T
        return Tree(feature, threshold, left, right, value=np.array(value))


@jit
def _splits_by_errors(
    X: np.ndarray,
    label: np.ndarray,
    rows: np.ndarray,
    n_labels: int,
    min_rows: int,
    by_gain: bool,
    offset: np.ndarray,
    listed: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    base: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the best split of a leaf for each number of errors of the two children, in four arrays."""
    # Entry e: feature (-1: no split), largest value that goes left, code length of the threshold (nats), information
    # gain times rows. The best split has the largest gain if `by_gain`, else the shortest code; the other criterion
    # breaks ties
    n = len(rows)
    counts = np.zeros(n_labels, dtype=np.int64)
    for i in rows:
        counts[label[i]] += 1
    n_numbers = n - counts.max() + 1
    feature, low = np.full(n_numbers, -1), np.empty(n_numbers)
    cost, gain = np.full(n_numbers, np.inf), np.full(n_numbers, -np.inf)
    entropy = _entropy(counts)
    for k in range(X.shape[1]):
        x = X[rows, k]
        order = np.argsort(x, kind="mergesort")
        left, right = np.zeros(n_labels, dtype=np.int64), counts.copy()
        for i in range(n - 1):
            class_number = label[rows[order[i]]]
            left[class_number] += 1
            right[class_number] -= 1
            a, b = x[order[i]], x[order[i + 1]]
            if a == b or i + 1 < min_rows or n - i - 1 < min_rows:
                continue
            errors = n - left.max() - right.max()
            nats = base[k] + _threshold_nats(a, b, listed[offset[k] : offset[k + 1]], lower[k], upper[k])
            if nats == np.inf:
                continue
            split_gain = entropy - _entropy(left) - _entropy(right)
            has_larger_gain, has_shorter_code = split_gain > gain[errors], nats < cost[errors]
            if (
                (has_larger_gain or (split_gain == gain[errors] and has_shorter_code))
                if by_gain
                else (has_shorter_code or (nats == cost[errors] and has_larger_gain))
            ):
                feature[errors], low[errors], cost[errors], gain[errors] = k, a, nats, split_gain
    return feature, low, cost, gain


@jit
def _threshold_nats(low: float, high: float, listed: np.ndarray, lower: float, upper: float) -> float:
    """Return the code length of the cheapest threshold in [low, high), less that common to the feature; or inf."""
    # `listed` are the ascending thresholds that have codes, empty if they are dyadic numbers in [lower, upper] or free
    if len(listed) > 0:
        place = np.searchsorted(listed, low)
        return 0.0 if place < len(listed) and listed[place] < high else np.inf
    if upper == -np.inf:
        return 0.0
    bits, _ = dyadic_code(low, np.nextafter(high, -np.inf), lower, upper)
    return np.inf if bits < 0 else math.log(math.pi**2 / 6.0) + 2.0 * math.log(bits + 1.0) + bits * math.log(2.0)


@jit
def _entropy(counts: np.ndarray) -> float:
    """Return the number of rows times the entropy of their labels, nats, from the counts (K,) of the labels."""
    total, out = counts.sum(), 0.0
    for c in counts:
        if c > 0:
            out -= c * math.log(c / total)
    return out


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
    stop = np.where(graph.by_slot(graph.rows) > 0, 0.0, -np.inf)
    has_rows = (graph.rows[graph.left] > 0) & (graph.rows[graph.right] > 0)
    return graph.with_terms(log_stop=stop, log_split=0.0, log_rule=np.where(has_rows, 0.0, -np.inf))


def _minimise(
    model: TreeModel, graph: CellGraph, code: _Code, split_bits: float, strength: float, delta: float
) -> RootFragmentTree:
    """Return the best tree and root fragment, by one pass for the hulls of and one for the fragment."""
    errors = graph.stats.sum(axis=1) - graph.stats.max(axis=1)
    hull = hull_by_size(graph.with_terms(log_stop=graph.by_slot(np.where(graph.rows > 0, -errors, -np.inf))))
    rows, depth = graph.by_slot(graph.rows).astype(np.float64), graph.slot_depth().astype(np.float64)

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
