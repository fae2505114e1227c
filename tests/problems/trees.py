"""Trees as the naive enumerator has them, nested tuples, and as the library has them."""

import math
from functools import partial

from tests.reference.enumeration import LEAF, child_cells, missing_last, root_cell


def library_tree(package, problem, tree, columns=None):
    """A nested tuple as a Tree; the categories by the model's ``columns``, by default as sorted."""
    bits_of = partial(_bits, problem) if columns is None else partial(mask_of, columns)
    nodes = []

    def add(subtree):
        here = len(nodes)
        nodes.append([-1, 0.0, 0, 0, -1, False])
        if subtree == LEAF:
            return
        _, k, rule, left, right = subtree
        add(left)
        threshold, bits, missing_left = rule, -1, False
        if isinstance(rule, frozenset):
            threshold, bits = 0.0, bits_of(k, rule)
        elif isinstance(rule, tuple):
            threshold, missing_left = rule[0] if math.isfinite(rule[0]) else math.nan, rule[1] == "left"
        nodes[here] = [k, threshold, here + 1, len(nodes), bits, missing_left]
        add(right)

    add(tree)
    return package.Tree(*zip(*nodes, strict=True))


def mask_of(columns, feature, labels):
    known = columns.categories[feature].tolist()
    return sum(1 << known.index(label) for label in labels)


def _bits(problem, k, labels):
    return sum(1 << j for j, label in enumerate(sorted(problem.categories[k], key=missing_last)) if label in labels)


def nested_tree(problem, tree):
    """A drawn Tree as the nested tuple the enumerator makes of it."""

    def walk(node, cell):
        k = int(tree.feature[node])
        if k == -1:
            return LEAF
        rule = float(tree.threshold[node])
        if k in problem.gaps:
            cut = rule if math.isfinite(rule) else -math.inf if tree.default_left[node] else math.inf
            rule = (cut, "left" if tree.default_left[node] else "right")
        elif k in problem.nominal:
            going_left = {c for c in problem.categories[k] if _bits(problem, k, {c}) & int(tree.categories[node])}
            rule = _part(problem, cell, k, going_left)
        left, right = child_cells(problem, cell, k, rule)
        return ("split", k, rule, walk(int(tree.left[node]), left), walk(int(tree.right[node]), right))

    return walk(0, root_cell(problem))


def _part(problem, cell, k, going_left):
    """The categories going left that matter in the cell; a trivial part in the enumerator's words."""
    inside = cell.box[k] if problem.split_prior["kind"] in ("grid", "fixed") else {problem.X[i][k] for i in cell.rows}
    if problem.split_prior.get("trivial") and inside <= going_left:
        return problem.categories[k]
    return frozenset(inside & going_left)
