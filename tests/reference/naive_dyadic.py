"""Dyadic and fixed designs by recursion over boxes and rows, each rule as its definition says; readable and slow."""

import math
from functools import cache

import numpy as np


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
