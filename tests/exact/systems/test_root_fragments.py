"""No tree and no root fragment has a smaller compositional bound than the one found; all are listed."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact.systems import bound_minimisers as root_fragments
from pactree_mcmc import certificates as pc

CUTS = [np.array([0.5, 1.5, 2.5]), np.array([0.5])]


def problem(seed, n):
    """Rows on a small grid, of very different numbers a cell: a deep subtree where there are few pays a fragment."""
    rng = np.random.default_rng(seed)
    weight = np.exp(2.5 * rng.normal(size=8))
    at = rng.choice(8, size=n, p=weight / weight.sum())
    X = np.column_stack([at % 4, at // 4]).astype(float)
    p_one = rng.choice([0.05, 0.3, 0.7, 0.95], size=8)
    return X, (rng.random(n) < p_one[at]).astype(int)


def trees(X, y, rows, depth):
    """Every tree below some rows without an empty node, as nested pairs; a leaf is (rows, errors)."""
    errors = int(len(rows) - np.bincount(y[rows], minlength=2).max())
    yield (len(rows), errors)
    if depth == 0:
        return
    for k, cuts in enumerate(CUTS):
        for cut in cuts:
            goes = X[rows, k] <= cut
            if goes.any() and not goes.all():
                left = list(trees(X, y, rows[goes], depth - 1))
                right = list(trees(X, y, rows[~goes], depth - 1))
                yield from (("split", one, other) for one, other in itertools.product(left, right))


def facts(tree):
    """Rows, errors and splits of a tree."""
    if tree[0] != "split":
        return tree[0], tree[1], 0
    a, b = facts(tree[1]), facts(tree[2])
    return a[0] + b[0], a[1] + b[1], a[2] + b[2] + 1


def least(tree, code, depth=0):
    """Errors plus the penalty of the best root fragment of a tree, by listing them; and leaves of the fragment."""
    n, errors, m = facts(tree)
    bits, path_bits = code.leaf + m * code.split, 1.0 + depth * code.step
    here = errors + math.sqrt(n * bits * math.log(2) / 2) + 2 * (math.sqrt(n * path_bits) + path_bits)
    here += 2 * (math.sqrt(n * code.level) + code.level)
    if tree[0] != "split":
        return here, 1
    below = [least(part, code, depth + 1) for part in tree[1:]]
    return min((here, 1), (sum(b[0] for b in below), sum(b[1] for b in below)))


def result_and_least(seed, code, n, depth):
    X, y = problem(seed, n)
    model = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.5, 1.0, depth), split_prior=pt.GridCuts(CUTS))
    graph = root_fragments._without_empty(exact.build_graph(model))
    result = root_fragments._minimise(model, graph, code, 0.0, 1.0, 0.05)
    return result, min(least(tree, code) for tree in trees(X, y, np.arange(n), depth))


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("seed", range(12))
def test_no_tree_and_fragment_is_better(seed):
    rng = np.random.default_rng(100 + seed)
    n = int(10 ** rng.uniform(1.5, 4.5))
    code = root_fragments._Code(float(10 ** rng.uniform(0, 3)), 2.0, float(rng.choice([0.01, 1.0])), 0.2)
    result, (objective, _) = result_and_least(seed, code, n, depth=3)
    assert result.objective * n == pytest.approx(objective)


@pytest.mark.parametrize(
    "split_prior",
    [
        pt.GridCuts(CUTS),
        pt.DyadicCuts(2, bounds=[[-0.5, 3.5]] * 2),
        pt.DyadicCuts(2, cyclic=True, bounds=[[-0.5, 3.5]] * 2),
    ],
    ids=["grid", "dyadic", "cyclic"],
)
def test_the_bound_is_that_of_the_certificate(split_prior):
    X, y = problem(4, 3000)
    best = exact.minimise_root_fragment(X, y, split_prior=split_prior, delta=0.1)
    bound = pc.root_fragment(best.tree, X, y, split_bits=best.split_bits, delta=0.1)
    assert best.bound.raw == pytest.approx(bound.raw) == best.objective
    assert best.split_bits == {"GridCuts": 2.0}.get(
        type(split_prior).__name__, float(not getattr(split_prior, "cyclic", 0))
    )
    weaker = exact.minimise_root_fragment(X, y, split_prior=split_prior, delta=0.1, strength=0.01)
    assert weaker.tree.n_leaves >= best.tree.n_leaves
    assert weaker.bound.raw >= best.bound.raw - 1e-12
    bound_of_weaker = pc.root_fragment(weaker.tree, X, y, split_bits=best.split_bits, delta=0.1)
    assert weaker.bound.raw == pytest.approx(bound_of_weaker.raw)


@pytest.mark.parametrize(
    ("split_prior", "why"),
    [(pt.GridCuts(3), "quantiles of all rows"), (pt.DyadicCuts(2), "range of all rows"), (pt.GridCuts(2), "nominal")],
)
def test_no_bound_for_splits_from_the_counted_rows(split_prior, why):
    X, y = problem(2, 200)
    table = {"a": X[:, 0], "b": np.where(X[:, 1] > 1.5, "high", "low") if why == "nominal" else X[:, 1]}
    best = exact.minimise_root_fragment(pd.DataFrame(table), y, split_prior=split_prior, strength=0.1)
    assert best.objective > best.risk
    with pytest.raises(ValueError, match=f"fixed before the rows were seen; .*{why}"):
        best.bound  # noqa: B018


X, Y = problem(0, 50)
GRID = pt.GridCuts(CUTS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact.minimise_root_fragment(X, Y, split_prior=pt.LocalCuts()), "give DyadicCuts"),
        (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, delta=1e-250), "is too small"),
        (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, strength=-1.0), "strength=-1.0 is out of range"),
        (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, split_bits=-1.0), "split_bits=-1.0"),
        (
            lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, split_bits=1.9),
            "a prefix code for 4 splits, >= 2",
        ),
        (lambda: exact.minimise_root_fragment(X, np.arange(50), split_prior=GRID), "classes and n_classes=2"),
        (lambda: exact.minimise_root_fragment(X, Y / 3.0, split_prior=GRID), "class"),
    ],
)
def test_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
