"""Conversion of a tree to text, to Graphviz dot, and to and from the arrays of scikit-learn's ``tree_``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import read_array, read_numbers, repr_of
from ..table.columns import columns_of_estimator
from ..table.words import NUMBER, SHORT_DIGITS, count_text, digits_that_separate, rounded_text, value_text
from .arrays import LEAF

if TYPE_CHECKING:
    from .tree import Tree

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
            text = _dot_label(predictions[i]) or "leaf"
            nodes.append(f'  {i} [label="{text}", style="rounded"];')
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
    """Return the number of training rows of a node as text; "" if the tree does not store it."""
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
    missing_left = _truth_values("missing_go_to_left", missing_left)
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


def _truth_values(name: str, flags: Any) -> np.ndarray:
    """Return ``flags``, truth values or 0 and 1, as a boolean array (m,). ``name`` is for the error about others."""
    array = read_array(name, flags)
    if array.ndim != 1 or array.dtype.kind not in "iub" or not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} is {repr_of(flags)}; give 0 or 1 for each node, (n_nodes,).")
    return array.astype(np.bool_)
