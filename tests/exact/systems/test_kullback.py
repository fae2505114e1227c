"""The Kullback-Leibler bounds: terms by hand, simulated risks, and the infimum over all trees one by one."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

STUMP = pt.Tree([-1], [0], [0], [0])
TRUTH = pt.Tree([0, -1, 1, -1, -1], [0.5, 0, 0.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])
THETA = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])


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
    assert bound.prior == pytest.approx(-math.log(pi) / 61)
    assert bound.leaves == pytest.approx(3 / 41)
    assert bound.splits == 0.0
    assert bound.total == pytest.approx(bound.prior + bound.leaves)
    assert bound.classification == pytest.approx(math.sqrt(2 * bound.total))


def test_terms_of_corollary_two():
    model = dyadic_model(np.random.default_rng(0), n=100, estimation=0.4, split_prior=pt.LocalCuts(trivial=True))
    bound = exact.kl_bound(model, TRUTH)
    pi = 0.4**2 * 0.6**3 * 0.5**2  # shape and features; 101 ways of the root, fewer below
    assert bound.prior == pytest.approx(-math.log(pi) / 61)
    assert bound.splits == pytest.approx(3 * math.log(102) / 61)
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


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"leaf": pt.FrozenLaplace(0.5)}, "FrozenLaplace"),
        ({"leaf": pt.PacBayesLoss(1.0)}, "FrozenLaplace"),
        ({"sample_weight": np.full(200, 2.0)}, "sample weights"),
    ],
)
def test_models_outside_the_theorem_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        exact.kl_bound(dyadic_model(np.random.default_rng(0), **parts), STUMP)


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


def divisions(points, splits):
    """Number of distinct divisions of points by functions."""
    return len({tuple(bool(split(x)) for x in points) for split in splits})


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
    assert bound.value == pytest.approx(values[bound.n_intervals])
    assert bound.value >= max(values.values()) - 1e-15
    # the rate: log(N)/N times a constant, from below, and below every upper bound
    rates = [exact.minimax_lower_bound(n).value * n / math.log(n) for n in (10**4, 10**6, 10**8)]
    assert 1e-3 < rates[0] < rates[1] < rates[2]
    assert exact.minimax_lower_bound(5).value < exact.vc_kl_bound(3, n_rows=5, n_frozen=2).total
    with pytest.raises(ValueError, match="only one"):
        exact.minimax_lower_bound(10, alpha=0.5)
    with pytest.raises(ValueError, match="different"):
        exact.minimax_lower_bound(10, alpha=0.5, beta=0.5)


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


def problem(name):
    rng, n = np.random.default_rng(2), 6 if name in ("trivial", "global") else 8
    X, p = rng.random((n, 2)), rng.random(n)
    splits, prior, kind = SPACES[name]
    model = pt.TreeModel(
        X, np.arange(n) % 2, split_prior=splits, tree_prior=prior, leaf=pt.FrozenLaplace(), estimation=0.5
    )
    return model, X, np.column_stack([p, 1.0 - p]), kind


def divergence(tree, X, truth):
    """Mean divergence of the truth from its mean in each leaf."""
    leaf = tree.apply(X)
    total = 0.0
    for number in np.unique(leaf):
        p = truth[leaf == number]
        total += (p * np.log(p / p.mean(axis=0))).sum()
    return total / len(X)


def smallest(name):
    """Over all trees, listed by the exact posterior."""
    model, X, truth, kind = problem(name)
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
    model, X, truth, kind = problem(name)
    infimum = exact.kl_infimum(model, truth, splits=kind)
    assert infimum.divergence == pytest.approx(divergence(infimum.tree, X, truth), abs=1e-12)
    assert infimum.total == pytest.approx(smallest(name), abs=1e-12)
