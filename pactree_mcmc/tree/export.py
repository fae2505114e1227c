"""One tree for other programs: text, Graphviz dot, the arrays of scikit-learn's ``tree_``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.checks import in_words
from .arrays import LEAF

if TYPE_CHECKING:
    from .tree import Tree

NO_CHILD, NO_SPLIT = -1, -2
"""What scikit-learn writes into a leaf: as children, and as feature and threshold."""
MOST_CLASSES = 6
"""Classes listed in a leaf of a dot file, the most probable ones."""


def to_text(tree: Tree) -> str:
    """The tree as indented text, one line a node, the yes branch first.

    Parameters
    ----------
    tree : Tree
        Of any size.

    Returns
    -------
    str
        Leaves show their class probabilities or their mean, and nodes their rows, if the tree carries them.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> print(to_text(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])))
    x0 <= 2.5
    |-- yes: leaf
    `-- no:  leaf
    """
    lines: list[str] = []
    todo: list[tuple[int, str, str]] = [(0, "", "")]
    while todo:
        node, here, below = todo.pop()
        if tree.feature[node] == LEAF:
            lines.append(f"{here}leaf {', '.join(_leaf_lines(tree, node))}".rstrip() + _rows_behind(tree, node))
            continue
        lines.append(here + tree.split(node) + _rows_behind(tree, node))
        todo.append((int(tree.right[node]), below + "`-- no:  ", below + "    "))
        todo.append((int(tree.left[node]), below + "|-- yes: ", below + "|   "))
    return "\n".join(lines)


def to_dot(tree: Tree, *, name: str = "tree") -> str:
    """The tree in Graphviz's dot language.

    Parameters
    ----------
    tree : Tree
        Of any size.
    name : str, default "tree"
        Of the graph.

    Returns
    -------
    str
        A ``digraph`` whose nodes are numbered as the tree's: boxes for splits, rounded boxes for leaves, edges
        labelled yes (left) and no. Leaves list their six most probable classes, or their mean.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> print(to_dot(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])))
    digraph "tree" {
      graph [ordering="out"];
      node [shape="box", fontname="sans-serif"];
      edge [fontname="sans-serif"];
      0 [label="x0 <= 2.5"];
      1 [label="leaf", style="rounded"];
      2 [label="leaf", style="rounded"];
      0 -> 1 [label="yes"];
      0 -> 2 [label="no"];
    }
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {in_words(name)}, a {type(name).__name__}; give a string.")
    nodes, edges = [], []
    for i in range(tree.n_nodes):
        if tree.feature[i] == LEAF:
            text = _joined(_leaf_lines(tree, i, MOST_CLASSES)) or "leaf"
            nodes.append(f'  {i} [label="{text}", style="rounded"];')
        else:
            nodes.append(f'  {i} [label="{_joined([tree.split(i)])}"];')
            edges += [f'  {i} -> {tree.left[i]} [label="yes"];', f'  {i} -> {tree.right[i]} [label="no"];']
    head = [f'digraph "{_joined([name])}" {{', '  graph [ordering="out"];']
    style = ['  node [shape="box", fontname="sans-serif"];', '  edge [fontname="sans-serif"];']
    return "\n".join([*head, *style, *nodes, *edges, "}"])


def to_sklearn(tree: Tree) -> dict[str, np.ndarray]:
    """The arrays of scikit-learn's ``tree_``.

    Parameters
    ----------
    tree : Tree
        Without nominal splits.

    Returns
    -------
    dict
        ``children_left``, ``children_right``, ``feature`` (int64), ``threshold`` (float64) and ``missing_go_to_left``
        (uint8), each (m,), nodes in the tree's own order; ``value`` (m, 1, d), class probabilities or means, if the
        tree carries values. Leaves carry -1 as children, -2 as feature and threshold. ``Tree.from_sklearn`` takes them
        back.

    Raises
    ------
    ValueError
        If the tree has a nominal split, which scikit-learn's trees cannot have.

    Notes
    -----
    scikit-learn compares features as float32: rows closer to a threshold than float32 resolves may part ways.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> arrays = to_sklearn(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    >>> arrays["children_left"].tolist(), arrays["threshold"].tolist()
    ([1, -1, -1], [2.5, -2.0, -2.0])
    """
    if np.any(tree.categories >= 0):
        node = int(np.argmax(tree.categories >= 0))
        raise ValueError(
            f"node {node} has a nominal split; scikit-learn's trees know only thresholds: {tree.split(node)}. "
            "Export it as text or dot, or fit on indicator columns in place of the nominal one."
        )
    leaf = tree.feature == LEAF
    out = {
        "children_left": np.where(leaf, NO_CHILD, tree.left).astype(np.int64),
        "children_right": np.where(leaf, NO_CHILD, tree.right).astype(np.int64),
        "feature": np.where(leaf, NO_SPLIT, tree.feature).astype(np.int64),
        "threshold": np.where(leaf, float(NO_SPLIT), tree.threshold),
        "missing_go_to_left": tree.default_left.astype(np.uint8),
    }
    if tree.value is not None:
        out["value"] = tree.value[:, None, :]
    return out


def _leaf_lines(tree: Tree, node: int, most: int | None = None) -> list[str]:
    """What a leaf predicts: its mean, or its class probabilities, beyond ``most`` of them the largest; or nothing."""
    if tree.value is None:
        return []
    return value_words(tree.value[node], tree.classes, most)


def value_words(value: np.ndarray, classes: np.ndarray | None, most: int | None = None) -> list[str]:
    """A mean, or class probabilities, beyond ``most`` of them the largest, in words."""
    if classes is None:
        return [f"{value[0]:.6g}"]
    shown = np.arange(len(value))
    if most is not None and len(value) > most:
        shown = np.argsort(-value, kind="stable")[:most]
    lines = [f"{classes.tolist()[j]}: {value[j]:.3f}" for j in shown]
    return lines if len(lines) == len(value) else [*lines, "..."]


def rows_words(tree: Tree, node: int) -> str:
    """How many training rows a node holds; empty where that is not known."""
    return "" if tree.rows is None else count_words(float(tree.rows[node]))


def count_words(n: float) -> str:
    """So many rows, in words."""
    return f"{n:.0f} row{'s' * (n != 1.0)}" if n == round(n) else f"{n:.6g} rows"


def _rows_behind(tree: Tree, node: int) -> str:
    return f" ({rows_words(tree, node)})" if tree.rows is not None else ""


def _joined(lines: list[str]) -> str:
    """Lines as one quoted string of the dot language."""
    return "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
