"""The class `Tree`, one decision tree as flat arrays, and its conversion to text, to Graphviz dot and to scikit-learn.

A tree of ``m`` nodes is six parallel arrays. A leaf has ``feature == -1``; its other fields are unused.

1. All arrays have length ``m >= 1``.
2. Preorder: the root is node 0; the left child of an internal node ``i`` is ``i + 1``; its right child is the first
   node behind the left subtree. So children come after their parents and every node but the root has one parent.
3. Ordered split (``categories == -1``): ``x[feature] <= threshold`` goes left, and a missing value (NaN) follows
   ``default_left``. A split of missing from known values has no threshold, NaN: missing values follow ``default_left``,
   all others go to the other side. If the threshold is infinite, everything goes one way.
4. Nominal split (``categories >= 0``): the categories whose bit is set go left, the other known ones right, and a
   category unknown to the training data follows ``default_left``.
5. Unused fields are 0: in a leaf ``threshold = left = right = 0``, ``categories = -1``, ``default_left`` False.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import check_count, check_type, read_array, read_matrix, read_numbers, repr_of, set_field
from ..files.encoding import register_class
from ..table.coding import LARGEST_FLOAT
from ..table.columns import MAX_CATEGORIES, Columns, columns_of_estimator
from ..table.words import (
    NUMBER,
    SHORT_DIGITS,
    categories_text,
    count_text,
    digits_that_separate,
    ordered_words,
    rounded_text,
    value_text,
)
from .arrays import BAD_LEFT, BAD_RIGHT, LEAF, MISSING_CHILD, STRAY, Routes, TreeArrays, find_disorder, routes

NO_CHILD, NO_SPLIT = -1, -2  # values that scikit-learn stores in a leaf: -1 as children, -2 as feature and threshold
MAX_SHOWN_CLASSES = 6  # largest number of classes, the most probable ones, that are listed in a leaf of a picture


def to_text(tree: Tree) -> str:
    """Return the tree as indented text, one line a node, the yes branch first (`Tree.format`)."""
    lines: list[str] = []
    todo: list[tuple[int, str, str]] = [(0, "", "")]
    predictions = leaf_lines(tree)
    while todo:
        node, line_start, indent = todo.pop()
        if tree.feature[node] == LEAF:
            lines.append(f"{line_start}leaf {', '.join(predictions[node])}".rstrip() + _rows_in_parentheses(tree, node))
            continue
        lines.append(line_start + tree.split(node) + _rows_in_parentheses(tree, node))
        todo.append((int(tree.right[node]), indent + "`-- no:  ", indent + "    "))
        todo.append((int(tree.left[node]), indent + "|-- yes: ", indent + "|   "))
    return "\n".join(lines)


def to_dot(tree: Tree, *, name: str = "tree") -> str:
    """Return the tree in Graphviz's dot language as a digraph called ``name``. Leaves show at most six classes."""
    if not isinstance(name, str):
        raise TypeError(f"name is {repr_of(name)}, a {type(name).__name__}; give a string.")
    nodes, edges = [], []
    predictions = leaf_lines(tree, MAX_SHOWN_CLASSES)
    for i in range(tree.n_nodes):
        if tree.feature[i] == LEAF:
            nodes.append(f'  {i} [label="{_dot_label(predictions[i]) or "leaf"}", style="rounded"];')
        else:
            nodes.append(f'  {i} [label="{_dot_label([tree.split(i)])}"];')
            edges += [f'  {i} -> {tree.left[i]} [label="yes"];', f'  {i} -> {tree.right[i]} [label="no"];']
    head = [f'digraph "{_dot_label([name])}" {{', '  graph [ordering="out"];']
    style = ['  node [shape="box", fontname="sans-serif"];', '  edge [fontname="sans-serif"];']
    return "\n".join([*head, *style, *nodes, *edges, "}"])


def to_sklearn(tree: Tree, X: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of scikit-learn's ``tree_`` by name (`Tree.to_sklearn`)."""
    # if a threshold does not separate the values beside it after these are rounded to float32, it is moved to the
    # midpoint of the rounded values
    if np.any(tree.categories >= 0):
        node = int(np.argmax(tree.categories >= 0))
        raise ValueError(
            f"node {node} has a nominal split; scikit-learn's trees know only thresholds: {tree.split(node)}. "
            "Export it as text or dot, or fit on indicator columns in place of the nominal one."
        )
    is_leaf = tree.feature == LEAF
    out = {
        "children_left": np.where(is_leaf, NO_CHILD, tree.left).astype(np.int64),
        "children_right": np.where(is_leaf, NO_CHILD, tree.right).astype(np.int64),
        "feature": np.where(is_leaf, NO_SPLIT, tree.feature).astype(np.int64),
        "threshold": np.where(is_leaf, float(NO_SPLIT), _float32_thresholds(tree, X)),
        "missing_go_to_left": tree.default_left.astype(np.uint8),
    }
    if tree.value is not None:
        out["value"] = tree.value[:, None, :]
    return out


def leaf_lines(tree: Tree, max_classes: int | None = None, min_digits: int = SHORT_DIGITS) -> list[list[str]]:
    """Return the prediction of each of m nodes as a list of lines of text, which is empty if the tree has none."""
    if tree.words is not None:
        return [[text] if text else [] for text in tree.words]
    if tree.value is None:
        return [[] for _ in range(tree.n_nodes)]
    return value_lines(tree.value, tree.classes, max_classes, tree.feature == LEAF, min_digits)


def value_lines(
    value: np.ndarray,
    classes: np.ndarray | None,
    max_classes: int | None = None,
    is_compared: np.ndarray | None = None,
    min_digits: int = SHORT_DIGITS,
) -> list[list[str]]:
    """Return predictions ``value`` (m, d) as lines of text, for each of m nodes: class probabilities, or means."""
    if classes is not None:
        return [_class_lines(row, classes, max_classes) for row in value]
    compared = value if is_compared is None else value[is_compared]
    digits = [digits_that_separate(column.tolist(), min_digits) for column in compared.T]
    texts = [[rounded_text(x, n) for x, n in zip(row, digits, strict=True)] for row in value.tolist()]
    if value.shape[1] == 1:
        return texts
    # a tree of a user without classes
    return [[f"y{j} = {text}" for j, text in enumerate(row)] for row in texts]


def _class_lines(value: np.ndarray, classes: np.ndarray, max_classes: int | None) -> list[str]:
    """Return class probabilities ``value`` (K,) as lines of text: the ``max_classes`` largest, then "...", or all."""
    classes_shown = np.arange(len(value))
    if max_classes is not None and len(value) > max_classes:
        classes_shown = np.argsort(-value, kind="stable")[:max_classes]
    lines = [f"{classes.tolist()[j]}: {value[j]:.3f}" for j in classes_shown]
    return lines if len(lines) == len(value) else [*lines, "..."]


def rows_words(tree: Tree, node: int) -> str:
    return "" if tree.rows is None else count_text(float(tree.rows[node]))


def _rows_in_parentheses(tree: Tree, node: int) -> str:
    """Return the number of training rows of a node in parentheses, to be appended to a line; "" if unknown."""
    return f" ({rows_words(tree, node)})" if tree.rows is not None else ""


def _dot_label(lines: list[str]) -> str:
    """Return lines of text as the content of one quoted string of the dot language, with special signs escaped."""
    return "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)


def _float32_thresholds(tree: Tree, X: np.ndarray | None) -> np.ndarray:
    """Return thresholds (m,) that separate the same training values after these are rounded to float32."""
    # without `between` the thresholds stay as they are; infinite ones separate missing from known values; two values
    # that are equal in float32 raise a ValueError
    between = tree.between if X is None else _values_beside(tree, X)
    out = tree.cuts
    if between is None:
        return out
    with np.errstate(over="ignore"):
        low, high = between.astype(np.float32).astype(np.float64).T
    is_cut = ~np.isnan(between).any(axis=1) & np.isfinite(tree.threshold)
    equal = is_cut & (low == high)
    if equal.any():
        node = int(np.argmax(equal))
        k, (one, other) = int(tree.feature[node]), between[node].tolist()
        kind = NUMBER if tree.columns is None else tree.columns.kind(k)
        name = f"x{k}" if tree.columns is None else tree.columns.names[k]
        raise ValueError(
            f"column {name!r}: scikit-learn compares as float32, in which {value_text(one, kind)} and "
            f"{value_text(other, kind)}, which node {node} separates, are equal. Subtract a constant from the column, "
            "such as its smallest value, before the model is built, or export the tree as text or dot."
        )
    is_changed = is_cut & ~((low <= out) & (out < high))
    out[is_changed] = low[is_changed] / 2.0 + high[is_changed] / 2.0
    return out


def _values_beside(tree: Tree, X: np.ndarray) -> np.ndarray:
    """Return, for each split, the largest value that goes left and the smallest that goes right, (m, 2)."""
    out, cuts = np.full((tree.n_nodes, 2), np.nan), tree.cuts
    rows: list[np.ndarray] = [np.arange(len(X))] + [np.empty(0, dtype=np.int64)] * (tree.n_nodes - 1)
    for i in np.flatnonzero(tree.feature != LEAF).tolist():
        x = X[rows[i], tree.feature[i]]
        goes_left = (x <= cuts[i]) | (np.isnan(x) & tree.default_left[i])
        rows[tree.left[i]], rows[tree.right[i]] = (rows[i][goes_left], rows[i][~goes_left])
        sides = x[goes_left & ~np.isnan(x)], x[~goes_left & ~np.isnan(x)]
        if min(map(len, sides)):
            out[i] = sides[0].max(), sides[1].min()
    return out


def sklearn_fields(fitted: Any) -> dict[str, Any]:
    """Return the fields of a Tree from a fitted scikit-learn tree, its ``tree_``, or a mapping with the same arrays."""
    source = getattr(fitted, "tree_", fitted)
    names = ("children_left", "children_right", "feature", "threshold")
    try:
        left, right, feature, threshold = (_sklearn_array(source, name) for name in names)
    except (AttributeError, KeyError) as err:
        raise ValueError(
            f"{type(fitted).__name__} has no arrays {names}; give a fitted DecisionTreeClassifier or "
            "DecisionTreeRegressor, its tree_, or a dict of those arrays."
        ) from err
    missing_left = _optional_array(source, "missing_go_to_left")
    missing_left = np.zeros(len(left), dtype=np.bool_) if missing_left is None else missing_left
    missing_left = _truth_values(missing_left)
    if len({len(array) for array in (left, right, feature, threshold, missing_left)}) > 1 or len(left) == 0:
        raise ValueError("the arrays of the tree are empty or of different lengths; give one entry a node.")
    order = _sklearn_preorder(left, right)
    new_index = np.zeros(len(left), dtype=np.int64)
    new_index[order] = np.arange(len(order))
    inner = left[order] >= 0
    fields: dict[str, Any] = {
        "feature": np.where(inner, feature[order], LEAF),
        "threshold": np.where(inner, threshold[order], 0.0),
        "left": np.where(inner, new_index[left[order]], 0),
        "right": np.where(inner, new_index[right[order]], 0),
        "default_left": missing_left[order] & inner,
        "classes": getattr(fitted, "classes_", None),
        "columns": columns_of_estimator(fitted),
    }
    value = _optional_array(source, "value")
    value = None if value is None else read_numbers("value", value)
    if value is not None and value.ndim == 3 and value.shape[:2] == (len(order), 1):
        fields["value"] = value[order, 0, :]
    return fields


def _sklearn_preorder(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the indices (m,) of scikit-learn's nodes in preorder, or raise a ValueError if they form no tree."""
    order: dict[int, None] = {}
    todo = [0]
    while todo:
        node = todo.pop()
        if not 0 <= node < len(left) or node in order:
            raise ValueError(f"node {node} is reached twice or does not exist: the arrays do not form a tree.")
        order[node] = None
        if left[node] >= 0:
            todo += [int(right[node]), int(left[node])]
    return np.array(list(order), dtype=np.int64)


def _sklearn_array(source: Any, name: str) -> np.ndarray:
    """Return the array called ``name`` (m,) of ``source``, scikit-learn's ``tree_`` or a dict of its arrays."""
    array = read_array(name, source[name] if isinstance(source, dict) else getattr(source, name))
    if array.ndim != 1 or array.dtype.kind not in ("fiu" if name == "threshold" else "iu"):
        raise ValueError(f"{name} has dtype {array.dtype} and shape {array.shape}; give numbers of shape (n_nodes,).")
    return array


def _optional_array(source: Any, name: str) -> Any:
    """Return the array called ``name`` of scikit-learn's ``tree_`` or of a dict of its arrays, or None."""
    return source.get(name) if isinstance(source, dict) else getattr(source, name, None)


def _truth_values(flags: Any) -> np.ndarray:
    """Return ``flags``, truth values or 0 and 1, as a boolean array (m,)."""
    array = read_array("missing_go_to_left", flags)
    if array.ndim != 1 or array.dtype.kind not in "iub" or not np.isin(array, (0, 1)).all():
        raise ValueError(f"missing_go_to_left is {repr_of(flags)}; give 0 or 1 for each node, (n_nodes,).")
    return array.astype(np.bool_)


@register_class
@dataclass(frozen=True, eq=False)
class Tree:
    """One decision tree as flat arrays (the invariants are in the module's docstring).

    Parameters
    ----------
    feature, threshold, left, right : array-like of shape (m,)
        Nodes in preorder; ``feature`` is -1 in a leaf. A threshold is NaN in a split of missing from known values.
    categories : array-like of int64 of shape (m,), optional
        Bit set of the categories that go left; -1 (the default) marks an ordered split.
    default_left : array-like of bool of shape (m,), optional
        True if missing values (NaN) and unknown categories go left. Default: False.
    value : array of shape (m, d), optional
        Prediction of each node: class probabilities, if there are ``classes``, or a mean in column 0.
    columns : Columns, optional
        Names and categories of the features, for tables with nominal columns and for printing.
    classes : array of shape (K,), optional
        Class labels; makes ``predict`` return labels.
    rows : array of shape (m,), optional
        Number of training rows in each node, each row counted by its weight; trees of a posterior have them.
    between : array of shape (m, 2), optional
        The training values on either side of each threshold, in the cell that it splits; NaN in leaves and nominal
        splits. Trees of a posterior under `LocalCuts` have them. Texts show the shortest number between the two.
        Without them they show the threshold exactly.
    words : sequence of str of shape (m,), optional
        Prediction of each node in words, which texts and pictures show in place of ``value``: for leaves with a
        regression, and for rates and times of events.

    Raises
    ------
    ValueError
        If an invariant is broken; the message names it.

    Examples
    --------
    >>> tree = Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> tree.n_leaves, tree.depth
    (2, 1)
    >>> tree.apply([[1.0], [3.0]]).tolist()
    [1, 2]
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    categories: np.ndarray = None  # type: ignore[assignment]
    default_left: np.ndarray = None  # type: ignore[assignment]
    value: np.ndarray | None = None
    columns: Columns | None = field(default=None, repr=False)
    classes: np.ndarray | None = field(default=None, repr=False)
    rows: np.ndarray | None = field(default=None, repr=False)
    between: np.ndarray | None = field(default=None, repr=False)
    words: Sequence[str] | None = field(default=None, repr=False)

    if TYPE_CHECKING:
        # the arguments may have more types than the fields
        def __init__(
            self,
            feature: Any,
            threshold: Any,
            left: Any,
            right: Any,
            categories: Any = None,
            default_left: Any = None,
            value: Any = None,
            columns: Columns | None = None,
            classes: Any = None,
            rows: Any = None,
            between: Any = None,
            words: Sequence[str] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        m = read_array("feature", self.feature).size
        defaults = {"categories": np.full(m, -1), "default_left": np.zeros(m)}
        dtypes: dict[str, Any] = {"feature": np.int32, "threshold": np.float64, "left": np.int32, "right": np.int32}
        dtypes |= {"categories": np.int64, "default_left": np.bool_}
        for name, dtype in dtypes.items():
            value = getattr(self, name)
            value = defaults.get(name) if value is None else value
            object.__setattr__(self, name, _read_field(name, value, dtype))
        self._drop_useless_thresholds()
        for name in dtypes:
            getattr(self, name).setflags(write=False)
        if self.value is not None:
            set_field(self, "value", read_numbers("value", self.value))
        if self.classes is not None:
            set_field(self, "classes", read_array("classes", self.classes))
        for name, what, shape in (("rows", "a number", (m,)), ("between", "two values", (m, 2))):
            if getattr(self, name) is not None:
                numbers = read_numbers(name, getattr(self, name))
                if numbers.shape != shape:
                    raise ValueError(f"{name} has shape {numbers.shape}; give {what} for each node, {shape}.")
                set_field(self, name, numbers)
        if self.words is not None:
            words = [str(text) for text in self.words]
            if len(words) != m:
                raise ValueError(f"words has {len(words)} texts; give one for each node, {m}.")
            set_field(self, "words", words)
        if self.columns is not None:
            check_type("columns", self.columns, Columns, "those of a model, model.columns")
        check_tree(self)

    def _drop_useless_thresholds(self) -> None:
        """Replace thresholds that only separate missing from known values by NaN."""
        # such thresholds are infinite in trees of scikit-learn
        if self.feature.shape == self.threshold.shape == self.categories.shape == self.default_left.shape:
            is_useless = np.where(self.default_left, self.threshold <= -LARGEST_FLOAT, self.threshold >= LARGEST_FLOAT)
            self.threshold[is_useless & (self.feature != LEAF) & (self.categories < 0)] = np.nan

    @property
    def n_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """Number of leaves; one more than of internal nodes."""
        return int(np.sum(self.feature == LEAF))

    @property
    def node_depth(self) -> np.ndarray:
        """Depth of every node, (m,) int64; the root's is 0."""
        depth = np.zeros(self.n_nodes, dtype=np.int64)
        for i in np.flatnonzero(self.feature != LEAF):
            depth[self.left[i]] = depth[self.right[i]] = depth[i] + 1
        return depth

    @property
    def depth(self) -> int:
        """Depth of the deepest leaf; 0 for a tree of one leaf."""
        return int(self.node_depth.max())

    @property
    def cuts(self) -> np.ndarray:
        """Thresholds (m,) by which known values go left; infinite in splits of missing from known values."""
        return np.where(np.isnan(self.threshold), np.where(self.default_left, -np.inf, np.inf), self.threshold)

    @property
    def arrays(self) -> TreeArrays:
        """The tree in the form that compiled code uses."""
        return TreeArrays(np.array([0, self.n_nodes], dtype=np.int64), *self._key())

    def routes(self, default_left: np.ndarray | None = None) -> Routes:
        """Return the form of the tree that is fastest for many rows, with its own ``default_left`` or another (m,).

        This is the side to which each node sends missing values and unknown categories.
        """
        unknown_left = self.default_left if default_left is None else default_left
        return routes(self.feature, self.cuts, self.right, self.categories, unknown_left)

    def apply(self, X: Any) -> np.ndarray:
        """Return the leaf (node number) that each row of ``X`` reaches.

        Parameters
        ----------
        X : table of shape (n, p)
            Array or frame as the tree's ``columns`` describe; without ``columns``, numbers.

        Returns
        -------
        ndarray of shape (n,), int64
        """
        return self.routes().leaves(self._numbers(X))

    def _numbers(self, X: Any) -> np.ndarray:
        """Return table ``X`` as numbers (n, p): categories by index, NaN if missing (see `Columns.numbers`)."""
        if self.columns is not None:
            table = self.columns.numbers(X)
        else:
            table = np.ascontiguousarray(read_matrix("X", X))
            if table.ndim != 2:
                raise ValueError(f"X has {table.ndim} dimension(s); give a table of shape (n, p).")
        if self.columns is None and np.any(self.categories >= 0):
            # the table (n, p) with -1, an unknown category, for values outside 0 to 62 in columns ``nominal`` (c,)
            nominal = np.unique(self.feature[self.categories >= 0])
            out = table.copy()
            for k in nominal[nominal < table.shape[1]]:
                out[~((table[:, k] >= 0.0) & (table[:, k] < MAX_CATEGORIES)), k] = -1.0
            table = out
        if table.shape[1] <= self.feature.max():
            raise ValueError(f"X has {table.shape[1]} columns; the tree splits on feature {self.feature.max()}.")
        return table

    def predict(self, X: Any) -> np.ndarray:
        """Return the predictions of the tree alone: labels (n,) if it has ``classes``, else means (n,), column 0.

        Raises
        ------
        ValueError
            If the tree carries no values.
        """
        if self.value is None:
            raise ValueError("this tree carries no values; take one from a posterior, or give value=.")
        value = self.value[self.apply(X)]
        return value[:, 0] if self.classes is None else self.classes[np.argmax(value, axis=1)]

    def split(self, node: int) -> str:
        """Return the split of an internal ``node`` in words; rows for which it is true go left.

        A threshold is the shortest number between the values of ``between``, or exact without them. Of a nominal
        feature only the categories that the splits above let into the node are named.
        """
        node = check_count("node", node, 0, self.n_nodes - 1)
        k = int(self.feature[node])
        if k == LEAF:
            raise ValueError(f"node {node} is a leaf; it has no split.")
        name = f"x{k}" if self.columns is None else self.columns.names[k]
        if self.categories[node] < 0:
            threshold = float(self.threshold[node])
            lacks = np.isnan(threshold) or (self.columns is not None and k in self.columns.twins)
            missing_left = bool(self.default_left[node]) if lacks else None
            kind = NUMBER if self.columns is None else self.columns.kind(k)
            low, high = (np.nan, np.nan) if self.between is None else self.between[node].tolist()
            return name + ordered_words(threshold, missing_left, kind, low, high)
        mask = int(self.categories[node]) & self._possible_categories[node]
        labels: Iterable[Any]
        if self.columns is None:
            labels = [str(j) for j in range(mask.bit_length()) if mask >> j & 1]
        else:
            labels = self.columns.label_set(k, mask)
        return name + categories_text(labels)

    @cached_property
    def _possible_categories(self) -> list[int]:
        """Bit sets (m,) of the categories that the splits above a nominal split leave possible; -1 if all are."""
        out = [-1] * self.n_nodes
        possible: list[dict[int, int]] = [{}] * self.n_nodes
        for i in np.flatnonzero(self.feature != LEAF).tolist():
            k, mask, left, right = (int(x[i]) for x in (self.feature, self.categories, self.left, self.right))
            possible[left] = possible[right] = possible[i]
            if mask >= 0:
                out[i] = possible[i].get(k, -1)
                possible[left], possible[right] = possible[i] | {k: out[i] & mask}, possible[i] | {k: out[i] & ~mask}
        return out

    def format(self) -> str:
        """Return the tree as indented text, one line a node, the yes branch first.

        Read as a program, the text sends every training row to the leaf to which the tree sends it. Trees of a
        posterior show the training rows in each node (``rows``; a row of weight 2 is two of them). Truth values are
        written as ``= no``, dates are dates. Categories that could be misread are in quotes.

        Examples
        --------
        >>> print(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]).format())
        x0 <= 2.5
        |-- yes: leaf
        `-- no:  leaf
        """
        return to_text(self)

    def to_dot(self, *, name: str = "tree") -> str:
        """Return the tree in Graphviz's dot language, as the text of a ``digraph`` called ``name``.

        Examples
        --------
        >>> Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]).to_dot().splitlines()[4]
        '  0 [label="x0 <= 2.5"];'
        """
        return to_dot(self, name=name)

    def to_sklearn(self, X: Any = None) -> dict[str, np.ndarray]:
        """Return the arrays of scikit-learn's ``tree_``, which `from_sklearn` takes back.

        These are children_left, children_right, feature, threshold, missing_go_to_left and value. Leaves have -1 as
        children and -2 as feature and threshold. The threshold of a split of missing from known values is infinite.

        scikit-learn rounds X to float32 before it compares. So that every training row goes to the same leaf there,
        thresholds are moved between the rounded training values on either side. Trees of a posterior under `LocalCuts`
        know these values (``between``); for other trees give the rows as ``X``. Without both, thresholds are not moved,
        and only rows that float32 represents exactly are sure to go the same way.

        Parameters
        ----------
        X : table of shape (n, p), optional
            Rows that must go to the same leaves in scikit-learn, in place of the training rows.

        Raises
        ------
        ValueError
            If the tree has a nominal split, which scikit-learn's trees cannot have, or separates two values that are
            equal in float32. The message names the column.
        """
        return to_sklearn(self, None if X is None else self._numbers(X))

    @classmethod
    def from_sklearn(cls, fitted: Any) -> Tree:
        """Return the tree of a fitted scikit-learn tree, of its ``tree_``, or of a mapping with the same arrays.

        scikit-learn compares features as float32. Rows closer to a threshold than that may go to the other side here.
        Missing values go where scikit-learn sends them, which is the larger child if a split had none in fitting. A
        tree that was fitted to a frame has the names of its columns (``feature_names_in_``).

        Raises
        ------
        ValueError
            If the arrays are missing or do not form a tree.

        Notes
        -----
        ``missing_go_to_left`` becomes ``default_left``; in a mapping without it missing values go right. The
        infinite threshold of a split of known from missing values in scikit-learn becomes NaN.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> fitted = DecisionTreeRegressor().fit([[1.0], [2.0], [np.nan]], [0.0, 5.0, 0.0])
        >>> tree = Tree.from_sklearn(fitted)
        >>> tree.default_left[0], tree.predict([[np.nan], [3.0]]).tolist()
        (np.True_, [0.0, 5.0])
        """
        return cls(**sklearn_fields(fitted))

    def _key(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the six arrays of the splits, in the order of `TreeArrays`, by which trees are compared."""
        return (self.feature, self.threshold, self.left, self.right, self.categories, self.default_left)

    def __eq__(self, other: object) -> bool:
        """Return True if both trees have the same splits in the same places, whatever their values."""
        if not isinstance(other, Tree):
            return NotImplemented
        one, two = self.columns, other.columns
        if one is not two and one is not None and two is not None and one.named and two.named:
            split_on = np.unique(self.feature[self.feature != LEAF]).tolist()
            if any(one.names[k : k + 1] != two.names[k : k + 1] for k in split_on):
                return False
        nan = self.threshold.dtype.kind
        pairs = zip(self._key(), other._key(), strict=True)
        return all(np.array_equal(a, b, equal_nan=a.dtype.kind == nan) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(tuple((a + 0).tobytes() for a in self._key()))  # -0.0 + 0 is 0.0

    def __repr__(self) -> str:
        return f"Tree(n_leaves={self.n_leaves}, depth={self.depth})"


def _read_field(name: str, value: Any, dtype: type) -> np.ndarray:
    """Return ``value``, the field of a tree called ``name``, as an array of ``dtype``; raise if values do not fit."""
    array = read_numbers(name, value) if dtype is np.float64 else read_array(name, value)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} is {repr_of(value)}, of dtype {array.dtype}; give numbers.")
    if array.dtype.kind == "f":
        array = read_numbers(name, array)
    if dtype is not np.bool_ and dtype is not np.float64:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not np.all((array >= least) & (array <= most) & (array == np.floor(array))):
            raise ValueError(f"{name} is {repr_of(array)}; give integers {least}..{most}.")
    return np.array(array, dtype=dtype)


def check_tree(tree: Tree, n_features: int | None = None) -> None:
    """Check the invariants of ``tree``, and that it splits on features below ``n_features``, unless that is None.

    Raises
    ------
    ValueError
        Naming the first invariant that is broken, and the node.
    """
    check_type("tree", tree, Tree, "a Tree")
    if n_features is not None:
        check_count("n_features", n_features, 0)
    m = np.size(tree.feature)
    if tree.feature.ndim != 1 or m == 0:
        raise ValueError(f"a tree has at least one node in one dimension; feature has shape {tree.feature.shape}.")
    for name in ("threshold", "left", "right", "categories", "default_left"):
        if getattr(tree, name).shape != (m,):
            raise ValueError(f"{name} has shape {getattr(tree, name).shape}; it must be ({m},), as feature.")
    if tree.value is not None and (tree.value.ndim != 2 or len(tree.value) != m):
        raise ValueError(f"value has shape {tree.value.shape}; it must be ({m}, d): a row for each node.")
    if tree.classes is not None and tree.value is not None and tree.classes.shape != tree.value.shape[1:]:
        shapes = f"classes has shape {tree.classes.shape} and value {tree.value.shape}"
        raise ValueError(f"{shapes}; give a label for each column of value.")
    if np.any(tree.feature < LEAF):
        raise ValueError(f"node {int(np.argmax(tree.feature < LEAF))}: feature is below -1.")
    _check_preorder(tree)
    leaf = tree.feature == LEAF
    has_leaf_values = (
        (tree.threshold != 0.0) | (tree.left != 0) | (tree.right != 0) | tree.default_left | (tree.categories != -1)
    )
    has_no_feature = np.zeros(m, dtype=np.bool_) if n_features is None else tree.feature >= n_features
    nominal_nan = np.isnan(tree.threshold) & (tree.categories >= 0)
    wrong = np.where(leaf, has_leaf_values, (tree.categories < -1) | nominal_nan | has_no_feature)
    if not wrong.any():
        return
    i = int(np.argmax(wrong))
    if leaf[i]:
        raise ValueError(f"node {i}: an unused field of a leaf is not 0 (categories: -1).")
    if tree.categories[i] < -1:
        raise ValueError(f"node {i}: categories is {tree.categories[i]}; a bit mask >= 0, or -1 if ordered.")
    if nominal_nan[i]:
        raise ValueError(f"node {i}: the threshold of a nominal split is NaN; give 0.")
    raise ValueError(f"node {i}: splits on feature {tree.feature[i]}; there are {n_features} features.")


def match_columns(tree: Tree, columns: Columns) -> Tree:
    """Return the ``tree`` with its features as indices of ``columns``, those of a model."""
    check_type("tree", tree, Tree, "a Tree")
    if tree.columns is None or tree.columns is columns:
        return tree
    check_tree(tree, tree.columns.n_features if tree.columns.named and columns.named else None)
    feature, inner = tree.feature.copy(), tree.feature != LEAF
    feature[inner] = tree.columns.features_in(columns, tree.feature[inner])
    return tree if np.array_equal(feature, tree.feature) else replace(tree, feature=feature, columns=columns)


def _check_preorder(tree: Tree) -> None:
    """Raise a ValueError that names the first node that breaks the preorder, if there is one."""
    problem, i = find_disorder(tree.feature, tree.left, tree.right)
    if problem == STRAY:
        raise ValueError(f"node {i}: not in preorder: it is not where its parent's left or right points.")
    if problem == BAD_LEFT:
        raise ValueError(f"node {i}: left is {tree.left[i]}; in preorder the left child is node {i + 1}.")
    if problem == BAD_RIGHT:
        raise ValueError(f"node {i}: right is {tree.right[i]}; it must lie behind the left subtree.")
    if problem == MISSING_CHILD:
        raise ValueError(f"node {i} is pointed to but missing.")


def stack_trees(trees: Sequence[Tree]) -> TreeArrays:
    """Return the nodes of all trees, one tree after another, in the form that compiled code uses."""
    offset = np.concatenate([[0], np.cumsum([t.n_nodes for t in trees])]).astype(np.int64)
    return TreeArrays(offset, *(np.concatenate(c) for c in zip(*(t._key() for t in trees), strict=True)))
