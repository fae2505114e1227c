"""Base trees, their subtrees and the rules of Nguyen and Kpotufe (2018), one subtree and one row at a time."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Node:
    """A cell of the base tree: training rows in it, its split and its two children."""

    rows: list
    depth: int
    number: int = 0
    parent: object = None
    feature: int = -1
    cut: float = 0.0
    children: tuple = ()

    def walk(self):
        """The nodes in preorder."""
        yield self
        for child in self.children:
            yield from child.walk()

    def path(self, x):
        """The nodes a row passes, the root first."""
        out = [self]
        while out[-1].children:
            here = out[-1]
            out.append(here.children[0 if x[here.feature] <= here.cut else 1])
        return out


def grow(X, y, max_depth, split):
    """The base tree: ``split(rows, box, depth)`` gives a feature and a cut, or None where there is none."""

    def below(rows, box, depth, parent):
        node = Node(rows, depth, parent=parent)
        if depth == max_depth or len({y[i] for i in rows}) < 2:
            return node
        asked = split(rows, box, depth)
        if asked is not None:
            k, cut = node.feature, node.cut = asked
            sides = [i for i in rows if X[i][k] <= cut], [i for i in rows if X[i][k] > cut]
            low, high = box[k]
            boxes = {**box, k: (low, cut)}, {**box, k: (cut, high)}
            node.children = tuple(below(r, b, depth + 1, node) for r, b in zip(sides, boxes))
        return node

    bounds = {k: (min(x[k] for x in X), max(x[k] for x in X)) for k in range(len(X[0]))}
    root = below(list(range(len(X))), bounds, 0, None)
    for number, node in enumerate(root.walk()):
        node.number = number
    return root


def dyadic(X, y, max_depth):
    """Coordinates in turn, each cell halved."""
    p = len(X[0])
    return grow(X, y, max_depth, lambda rows, box, depth: (depth % p, sum(box[depth % p]) / 2))


def kd(X, y, max_depth):
    """Coordinates in turn, or the next in which the rows differ; the cut nearest the middle row."""
    p = len(X[0])

    def median(rows, box, depth):
        for k in ((depth + j) % p for j in range(p)):
            values = sorted(X[i][k] for i in rows)
            cuts = [j for j in range(1, len(values)) if values[j - 1] < values[j]]
            if cuts:
                j = min(cuts, key=lambda j: (abs(2 * j - len(rows)), j))
                return k, (values[j - 1] + values[j]) / 2
        return None

    return grow(X, y, max_depth, median)


def subtrees(node):
    """Every subtree, as the list of its leaves."""
    out = [[node]]
    if node.children:
        left, right = node.children
        out += [a + b for a in subtrees(left) for b in subtrees(right)]
    return out


def majority(node, y, n_classes):
    """The commonest class, the smallest of several; of a cell without rows, that of its parent."""
    if not node.rows:
        return majority(node.parent, y, n_classes)
    return max(range(n_classes), key=lambda c: (sum(y[i] == c for i in node.rows), -c))


class Rule:
    """A rule's subtrees with their fractions, and what follows from them."""

    def __init__(self, root, log_weight, log_prior=None):
        self.root, self.trees = root, subtrees(root)
        self.log_weights = np.array([log_weight(tree) for tree in self.trees])
        self.fraction = np.exp(self.log_weights - np.logaddexp.reduce(self.log_weights))
        if log_prior is not None:
            prior = np.array([log_prior(tree) for tree in self.trees])
            prior -= np.logaddexp.reduce(prior)
            self.kl = float(self.fraction @ (np.log(np.maximum(self.fraction, 1e-300)) - prior))

    def weights(self):
        """w(A) of every node."""
        out = np.zeros(len(list(self.root.walk())))
        for tree, fraction in zip(self.trees, self.fraction):
            for leaf in tree:
                out[leaf.number] += fraction
        return out

    def mean(self, of_tree):
        """Mean over subtrees."""
        return float(sum(fraction * of_tree(tree) for tree, fraction in zip(self.trees, self.fraction)))

    def votes(self, x, value, abstains):
        """Mean of what the leaf of x says, over the subtrees whose leaf does not abstain; its parent if none is."""
        path, total = self.root.path(x), 0.0
        for tree, fraction in zip(self.trees, self.fraction):
            leaf = next(node for node in path if any(node is other for other in tree))
            if not abstains(leaf):
                total = total + fraction * value(leaf)
        return value(path[-1]) if np.sum(total) == 0.0 else total / np.sum(total)
