"""Root fragments and Kullback-Leibler bounds against all trees and fragments, listed."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact.systems import bound_minimisers as root_fragments
from pactree_mcmc import certificates as pc
from tests.problems.refusals import refuses

CUTS = [np.array([0.5, 1.5, 2.5]), np.array([0.5])]
GRID = pt.GridCuts(CUTS)
STUMP = pt.Tree([-1], [0], [0], [0])
TRUTH = pt.Tree([0, -1, 1, -1, -1], [0.5, 0, 0.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])
THETA = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
SPACES = {
    "dyadic": (pt.DyadicCuts(2, bounds=[[0, 1]] * 2), pt.BranchingProcess(0.4, 2), "corollary"),
    "grid": (pt.GridCuts([[0.3, 0.6], [0.5]]), pt.ChipmanPrior(0.9, 1.0), "corollary"),
    "conditioned": (pt.DyadicCuts(2, cyclic=True, bounds=[[0, 1]] * 2), pt.BranchingProcess(0.4, 3, conditioned=True),
                    "corollary"),
    "local": (pt.LocalCuts(), pt.BranchingProcess(0.4, 2), "corollary"),
    "local, counted": (pt.LocalCuts(), pt.BranchingProcess(0.4, 2), "counted"),
    "trivial": (pt.LocalCuts(trivial=True), pt.BranchingProcess(0.4, 2), "corollary"),
    "global": (pt.LocalCuts(trivial=True), pt.BranchingProcess(0.4, 2), "global"),
    "own": (pt.CustomSplits(lambda cut: 1.0 + cut.left), pt.BranchingProcess(0.4, 2), "counted"),
}  # fmt: skip
SPLIT_PRIORS_WITH_BOUNDS = [
    pt.GridCuts(CUTS),
    pt.DyadicCuts(2, bounds=[[-0.5, 3.5]] * 2),
    pt.DyadicCuts(2, cyclic=True, bounds=[[-0.5, 3.5]] * 2),
]
REFUSED = [
    (lambda: exact.minimise_root_fragment(X, Y, split_prior=pt.LocalCuts()), "give DyadicCuts"),
    (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, delta=1e-250), "is too small"),
    (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, strength=-1.0), "strength=-1.0 is out of range"),
    (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, split_bits=-1.0), "split_bits=-1.0"),
    (lambda: exact.minimise_root_fragment(X, Y, split_prior=GRID, split_bits=1.9), "a prefix code for 4 splits, >= 2"),
    (lambda: exact.minimise_root_fragment(X, np.arange(50), split_prior=GRID), "classes and n_classes=2"),
    (lambda: exact.minimise_root_fragment(X, Y / 3.0, split_prior=GRID), "class"),
]
MODELS_OUTSIDE_THE_THEOREM = [
    ({"leaf": pt.FrozenLaplace(0.5)}, "FrozenLaplace"),
    ({"leaf": pt.PacBayesLoss(1.0)}, "FrozenLaplace"),
    ({"sample_weight": np.full(200, 2.0)}, "sample weights"),
]


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


@pytest.mark.parametrize("split_prior", SPLIT_PRIORS_WITH_BOUNDS, ids=["grid", "dyadic", "cyclic"])
def test_the_bound_is_that_of_the_certificate(split_prior):
    X, y = problem(4, 3000)
    best = exact.minimise_root_fragment(X, y, split_prior=split_prior, delta=0.1)
    bound = pc.root_fragment(best.tree, X, y, split_bits=best.split_bits, delta=0.1)
    assert best.bound.raw == pytest.approx(bound.raw) == best.objective
    assert best.split_bits == {"GridCuts": 2.0}.get(
        type(split_prior).__name__, float(not getattr(split_prior, "cyclic", 0))
    )
    weaker = exact.minimise_root_fragment(X, y, split_prior=split_prior, delta=0.1, strength=0.01)
    assert weaker.tree.n_leaves >= best.tree.n_leaves and weaker.bound.raw >= best.bound.raw - 1e-12
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


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call, message):
    refuses(message, call, (TypeError, ValueError))


def dyadic_model(rng, n=200, estimation=0.5, **parts):
    """Data from the tree TRUTH with the leaf probabilities THETA."""
    X = rng.random((n, 2))
    y = (rng.random(n) < truth_at(X)[:, 1]).astype(int)
    y[:2] = [0, 1]
    parts = {"split_prior": pt.DyadicCuts(2, bounds=[[0, 1]] * 2), "leaf": pt.FrozenLaplace(), **parts}
    return pt.TreeModel(X, y, tree_prior=pt.BranchingProcess(0.4, 4), estimation=estimation, **parts)


def truth_at(X):
    return THETA[np.where(X[:, 0] <= 0.5, 0, np.where(X[:, 1] <= 0.5, 1, 2))]


def test_terms_of_corollary_one():
    model = dyadic_model(np.random.default_rng(0), n=100, estimation=0.4)
    bound = exact.kl_bound(model, TRUTH)
    pi = 0.4**2 * 0.6**3 * 0.5**2
    assert bound.prior == pytest.approx(-math.log(pi) / 61) and bound.leaves == pytest.approx(3 / 41)
    assert bound.splits == 0.0 and bound.total == pytest.approx(bound.prior + bound.leaves)
    assert bound.classification == pytest.approx(math.sqrt(2 * bound.total))


def test_terms_of_corollary_two():
    model = dyadic_model(np.random.default_rng(0), n=100, estimation=0.4, split_prior=pt.LocalCuts(trivial=True))
    bound = exact.kl_bound(model, TRUTH)
    pi = 0.4**2 * 0.6**3 * 0.5**2  # shape and features; 101 ways of the root, fewer below
    assert bound.prior == pytest.approx(-math.log(pi) / 61) and bound.splits == pytest.approx(3 * math.log(102) / 61)
    assert -model.log_prior(TRUTH) / 61 < bound.prior + bound.splits


def nominal_model(columns, n=60, **split_prior):
    """Splits about a number of 60 values, and 20 and 4 categories."""
    i = np.arange(n)
    X = np.column_stack([i / n, i % 20, i % 4])[:, columns]
    return pt.TreeModel(
        X, i % 2, nominal=[j for j, c in enumerate(columns) if c > 0], split_prior=pt.LocalCuts(**split_prior),
        tree_prior=pt.BranchingProcess(0.5, 5), leaf=pt.FrozenLaplace(), estimation=0.5,
    )  # fmt: skip


def test_the_ways_of_a_nominal_split_are_those_of_its_cell():
    """Four categories at the root, two of them and five of the numbers below: ways 7, 1 and 29."""
    tree = pt.Tree(
        [1, 1, -1, -1, 0, -1, -1], [0, 0, 0, 0, 0.5, 0, 0], [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 0, 6, 0, 0],
        [0b0011, 0b0001, -1, -1, -1, -1, -1],
    )  # fmt: skip
    model = nominal_model([0, 2])
    bound = exact.kl_bound(model, tree)
    assert bound.splits == pytest.approx((math.log(7) + math.log(1) + math.log(29)) / 31)
    assert bound.prior == pytest.approx(-math.log(0.5**7 * 0.5**3) / 31)
    ordered = pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
    assert exact.kl_bound(model, ordered).splits == pytest.approx(2 * math.log(62) / 31)


@pytest.mark.parametrize(("parts", "message"), MODELS_OUTSIDE_THE_THEOREM)
def test_models_outside_the_theorem_are_refused(parts, message):
    refuses(message, lambda: exact.kl_bound(dyadic_model(np.random.default_rng(0), **parts), STUMP))


def local_model(splits, n=12, depth=3):
    rng = np.random.default_rng(6)
    X = rng.random((n, 2))
    return pt.TreeModel(
        X, np.arange(n) % 2, tree_prior=pt.BranchingProcess(0.4, depth), split_prior=splits, leaf=pt.FrozenLaplace(),
        estimation=0.5,
    )  # fmt: skip


def test_theorem_three_with_the_number_of_splittings():
    model = local_model(pt.LocalCuts(trivial=True))
    bound = exact.kl_bound(model, TRUTH, splits="global")
    X = model.unit_numbers(np.arange(12))
    assert bound.splits == pytest.approx(math.log(exact.count_global_splittings(X, TRUTH)) / 7)
    corollary = exact.kl_bound(model, TRUTH)
    assert (bound.prior, bound.leaves) == (corollary.prior, corollary.leaves)
    counted = exact.kl_bound(model, TRUTH, splits="counted")
    assert max(bound.splits, counted.splits) < corollary.splits == pytest.approx(3 * math.log(14) / 7)
    assert counted.prior + counted.splits == pytest.approx(-model.log_prior(TRUTH) / 7)


def test_the_lower_bound_of_theorem_four():
    bound = exact.minimax_lower_bound(10_000, alpha=0.3, beta=0.7)
    divergence = 0.8 * math.log(0.7 / 0.3)
    hellinger = 2 * (math.sqrt(0.7) - math.sqrt(0.3)) ** 2
    assert bound.constant == pytest.approx(hellinger / (16 * divergence))
    gamma = {
        j: 1 - (10_000 / j * divergence + math.log(2)) / math.log(j - 1)
        for j in (bound.n_intervals, bound.n_intervals - 200, bound.n_intervals + 200)
    }
    values = {j: g * hellinger / (2 * j) for j, g in gamma.items()}
    assert bound.value == pytest.approx(values[bound.n_intervals]) and bound.value >= max(values.values()) - 1e-15
    # the rate: log(N)/N times a constant, from below, and below every upper bound
    rates = [exact.minimax_lower_bound(n).value * n / math.log(n) for n in (10**4, 10**6, 10**8)]
    assert 1e-3 < rates[0] < rates[1] < rates[2]
    assert exact.minimax_lower_bound(5).value < exact.vc_kl_bound(3, n_rows=5, n_frozen=2).total
    refuses("only one", lambda: exact.minimax_lower_bound(10, alpha=0.5))
    refuses("different", lambda: exact.minimax_lower_bound(10, alpha=0.5, beta=0.5))


def known_truth(name):
    rng, n = np.random.default_rng(2), 6 if name in ("trivial", "global") else 8
    X, p = rng.random((n, 2)), rng.random(n)
    splits, prior, kind = SPACES[name]
    model = pt.TreeModel(
        X, np.arange(n) % 2, split_prior=splits, tree_prior=prior, leaf=pt.FrozenLaplace(), estimation=0.5
    )
    return model, X, np.column_stack([p, 1.0 - p]), kind


def divergence(tree, X, truth):
    leaf = tree.apply(X)
    total = 0.0
    for number in np.unique(leaf):
        p = truth[leaf == number]
        total += (p * np.log(p / p.mean(axis=0))).sum()
    return total / len(X)


def smallest(name):
    """Over all trees, listed by the exact posterior."""
    model, X, truth, kind = known_truth(name)
    posterior = exact.solve_global_splitting(model) if kind == "global" else exact.solve(model)
    trees = posterior.best_trees(posterior.n_trees).trees
    assert len(trees) == posterior.n_trees
    bounds = {}

    def bound(tree):
        key = tuple(tree.feature) if kind == "global" else tree
        if key not in bounds:
            bounds[key] = exact.kl_bound(model, tree, splits=kind).total
        return bounds[key]

    return min(divergence(tree, X, truth) + bound(tree) for tree in trees)


@pytest.mark.more(everyday=["dyadic"])
@pytest.mark.parametrize("name", SPACES)
def test_no_tree_has_a_smaller_one(name):
    model, X, truth, kind = known_truth(name)
    infimum = exact.kl_infimum(model, truth, splits=kind)
    assert infimum.divergence == pytest.approx(divergence(infimum.tree, X, truth), abs=1e-12)
    assert infimum.total == pytest.approx(smallest(name), abs=1e-12)
