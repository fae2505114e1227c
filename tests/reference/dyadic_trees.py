"""All dyadic trees over a few rows, by their definition (a list of leaf boxes), and what is known of them in floats."""

import math
from functools import cache
from itertools import product

import numpy as np


def rows_in(codes, levels, box):
    """Rows (a list) whose codes lie in the box."""
    inside = []
    for i, row in enumerate(codes):
        if all(code >> (levels - times) == piece for code, (times, piece) in zip(row, box)):
            inside.append(i)
    return inside


def depth_of(box):
    return sum(times for times, _ in box)


def halves(codes, levels, cyclic, box):
    """The pairs of boxes into which a box may be split."""
    p = len(box)
    if not rows_in(codes, levels, box):
        return
    for k in [depth_of(box) % p] if cyclic else range(p):
        times, piece = box[k]
        if times < levels:
            yield [(*box[:k], (times + 1, 2 * piece + side), *box[k + 1 :]) for side in (0, 1)]


def count_trees(codes, levels, cyclic, box=None):
    """Return the number of trees that `dyadic_trees` lists."""
    box = ((0, 0),) * len(codes[0]) if box is None else box
    total = 1
    for pair in halves(codes, levels, cyclic, box):
        total += math.prod(count_trees(codes, levels, cyclic, half) for half in pair)
    return total


def dyadic_trees(codes, levels, cyclic, box=None):
    """Every tree as a tuple of its leaves' boxes; two trees with the same leaves count once for each way to them."""
    box = ((0, 0),) * len(codes[0]) if box is None else box
    out = [(box,)]
    for pair in halves(codes, levels, cyclic, box):
        below = [dyadic_trees(codes, levels, cyclic, half) for half in pair]
        out += [one + other for one, other in product(*below)]
    return out


def counts_of(codes, y, n_classes, levels, box):
    inside = rows_in(codes, levels, box)
    return [sum(y[i] == c for i in inside) for c in range(n_classes)]


def n_errors(codes, y, n_classes, levels, tree):
    total = 0
    for box in tree:
        counts = counts_of(codes, y, n_classes, levels, box)
        total += sum(counts) - max(counts)
    return total


def adaptive_penalty(codes, y, n_classes, levels, tree, delta, cyclic):
    """Scott's equation 2.9, leaf by leaf."""
    n, p, total = len(codes), len(codes[0]), 0.0
    for box in tree:
        bits = 2 * (depth_of(box) + 1) + (0 if cyclic else depth_of(box) * math.log2(p))
        fraction = len(rows_in(codes, levels, box)) / n
        larger = 4 * max(fraction, (bits * math.log(2) + math.log(1 / delta)) / n)
        total += math.sqrt(2 * larger * (bits * math.log(2) + math.log(n_classes / delta)) / n)
    return total


def square_root_penalty(n, p, n_classes, leaves, delta, cyclic):
    """Scott's Proposition 1."""
    bits = 2 * leaves - 1 + leaves * math.log2(n_classes) + (0 if cyclic else (leaves - 1) * math.log2(p))
    return math.sqrt((bits * math.log(2) + math.log(1 / delta)) / (2 * n))


def labelled(codes, y, levels, tree):
    """(false alarms, misses) of each way to label the leaves 0 or 1; the same pair once."""
    pairs = {(0, 0)}
    for box in tree:
        zeros, ones = counts_of(codes, y, 2, levels, box)
        pairs = {(a + zeros, m) for a, m in pairs} | {(a, m + ones) for a, m in pairs}
    return pairs


def catalan(n):
    return math.comb(2 * n, n) // (n + 1)


def srm_tolerance(leaves, p, n, delta, cyclic):
    """Scott's equation 3.8."""
    size = catalan(leaves - 1) * 2**leaves * (1 if cyclic else p ** (leaves - 1))
    return math.sqrt(2 * (math.log(size) + leaves * math.log(2) + math.log(2 / delta)) / n)


def erm_tolerance(max_leaves, p, n, delta, cyclic):
    """Scott's equation 3.3 for all trees of at most ``max_leaves`` leaves."""
    sizes = range(1, max_leaves + 1)
    size = sum(catalan(k - 1) * 2**k * (1 if cyclic else p ** (k - 1)) for k in sizes)
    return math.sqrt(2 * (math.log(size) + math.log(2 / delta)) / n)


def dyadic_answers(codes, y, n_classes, levels, rho, max_depth, cyclic, weights=None, w=None):
    """Evidence, and P(leaf) of every box that holds rows, under a stopped branching process; Dirichlet(1) leaves."""
    p, n = codes.shape
    w = np.ones(n) if w is None else np.asarray(w)
    weights = np.ones(p) if weights is None else np.asarray(weights)

    def members(box):
        return np.all([(codes[k] >> (levels - v)) == a for k, (v, a) in enumerate(box)], axis=0)

    @cache
    def score(box):
        counts = np.bincount(y[members(box)], weights=w[members(box)], minlength=n_classes)
        return math.lgamma(n_classes) - math.lgamma(n_classes + counts.sum()) + sum(math.lgamma(c + 1) for c in counts)

    def splits(box):
        depth = sum(v for v, _ in box)
        if depth >= max_depth:
            return []
        if cyclic:
            k = depth % p
            return [(k, 1.0)] if box[k][0] < levels else []
        fit = [k for k in range(p) if weights[k] > 0 and box[k][0] < levels]
        return [(k, weights[k] / sum(weights[j] for j in fit)) for k in fit]

    def halves(box, k):
        v, a = box[k]
        return [(*box[:k], (v + 1, 2 * a + side), *box[k + 1 :]) for side in (0, 1)]

    @cache
    def inside(box):
        if not members(box).any():
            return 1.0  # a proper prior sums to one below an empty cell
        ways = splits(box)
        if not ways:
            return math.exp(score(box))
        split = sum(r * inside(halves(box, k)[0]) * inside(halves(box, k)[1]) for k, r in ways)
        return (1 - rho) * math.exp(score(box)) + rho * split

    root = tuple((0, 0) for _ in range(p))
    leaf = {}

    def visit(box, mass):
        if not members(box).any():
            return
        ways = splits(box)
        stop = (1 - rho if ways else 1.0) * math.exp(score(box)) / inside(box)
        leaf[box] = leaf.get(box, 0.0) + mass * stop
        for k, r in ways:
            left, right = halves(box, k)
            fraction = mass * rho * r * inside(left) * inside(right) / inside(box)
            visit(left, fraction)
            visit(right, fraction)

    visit(root, 1.0)
    return math.log(inside(root)), leaf
