"""Credible intervals, bands and sets cover what they name; distances between trees."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.base import Leaf
from pactree_mcmc.posterior.rows import predictions as predictive
from tests.problems.refusals import refuses

from .spaces import MODELS, all_trees, cells_and_splits, independent_draws, table

N = 60
RNG = np.random.default_rng(3)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
LEAVES = {
    "normal": (pt.NormalInverseGamma(m0=0.0, k0=0.5, a0=3.0, b0=2.0), RNG.normal(size=N)),
    "known variance": (pt.NormalKnownVariance(1.0, m0=0.0, k0=0.3), RNG.normal(size=N)),
    "classes": (pt.DirichletMultinomial(1.0), RNG.integers(0, 3, N)),
    "counts": (pt.PoissonGamma(2.0, 0.5), RNG.poisson(3.0, N)),
    "times": (pt.ExponentialGamma(3.0, 2.0), np.column_stack([RNG.exponential(size=N), np.ones(N)])),
    "Weibull times": (
        pt.WeibullGamma(2.0, shape=3.0, rate=2.0),
        np.column_stack([RNG.exponential(size=N), np.ones(N)]),
    ),
    "times with exposures": (
        pt.ExponentialGamma(3.0, 2.0, exposure=RNG.uniform(0.3, 3.0, N)),
        np.column_stack([RNG.exponential(size=N), np.ones(N)]),
    ),
    "regression": (pt.NormalLinear([0], k0=0.5, k1=1.0, m0=0.0, a0=3.0, b0=2.0), RNG.normal(size=N)),
}
N_BANDS = len(X)
NAMES = ("local, nominal", "local, missing", "grid, empty cells", "local, trivial", "dyadic", "fixed")
KINDS = ("cells", "partitions", "predictions")


def simulate(model, rng):
    """Return y from the model, and E(y | x), (n, d), given the tree and parameters that were drawn for it."""
    tree, target, leaf = pt.simulate(model, rng=rng)[0], model.target, model.leaf
    number = tree.apply(X)
    y, truth = np.array(target.values), None
    for node in np.unique(number):
        rows = np.flatnonzero(number == node)
        parameters = leaf.draw_parameters(rng, np.zeros((1, leaf.n_stats(target))), target)
        parameters = [np.repeat(part, len(rows), axis=0) for part in parameters]
        row_regressors = () if target.regressors is None else (target.regressors[rows],)
        expected = leaf.expectation_given(parameters, *row_regressors)
        truth = np.empty((N, expected.shape[1])) if truth is None else truth
        truth[rows] = expected
        values = leaf.draw_given(rng, parameters, target, rows, *row_regressors)
        if y.ndim == 2 and values.ndim == 1:
            y[rows, 0] = values
        else:
            y[rows] = values
    return y, truth


def coverage_of(name, tables, seed):
    """Return the fraction of expectations inside 90 % intervals, over tables simulated from the model."""
    leaf, y = LEAVES[name]
    model, rng, is_covered = pt.TreeModel(X, y, leaf=leaf, **PRIOR), np.random.default_rng(seed), []
    while len(is_covered) < tables:
        y, truth = simulate(model, rng)
        if model.classes_ is not None and len(np.unique(y)) < 3:
            continue
        ends = exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)).credible_interval(X)
        ends = ends if ends.ndim == 3 else ends[:, None]
        is_covered.append(np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1])))
    return np.mean(is_covered), np.std(is_covered) / np.sqrt(tables)


@pytest.mark.more(everyday=["normal"])
@pytest.mark.parametrize("name", LEAVES)
def test_coverage(name):
    fraction, error = coverage_of(name, 40, 1)
    assert abs(fraction - 0.9) < 0.02 + 3.0 * error, (fraction, error)


@pytest.mark.more(everyday=["normal", "Weibull times"])
@pytest.mark.parametrize("name", LEAVES)
def test_draws_have_the_same_distribution(name):
    leaf, y = LEAVES[name]
    truth = exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR))
    draws = truth.draw_expectations(X[:4], 4000, rng=2)
    ends = truth.credible_interval(X[:4], 0.8)
    fraction_below = (draws[..., None] >= ends[None]).mean(axis=0)
    assert np.allclose(fraction_below[..., 0], 0.9, atol=0.03) and np.allclose(fraction_below[..., 1], 0.1, atol=0.03)


def test_exact_and_sampled_intervals_agree():
    leaf, y = LEAVES["classes"]
    model = pt.TreeModel(X, y, leaf=leaf, **PRIOR)
    sampled = pt.sample(model, 2000, tune=200, chains=2, rng=1, kernel="local", progress=False)
    assert np.abs(exact.solve(model).credible_interval(X) - sampled.credible_interval(X)).max() < 0.02


def custom_leaf(**functions):
    return pt.CustomLeaf(
        lambda s, n: -0.5 * s[1],
        stats=lambda y: np.column_stack([np.ones_like(y), y * y]),
        predict=lambda stats: np.zeros(len(stats)),
        **functions,
    )


def test_a_leaf_of_the_callers_own():
    leaf = custom_leaf(expectation=lambda rng, stats, leaf: rng.normal(size=len(stats))[leaf])
    truth = exact.solve(pt.TreeModel(X, RNG.normal(size=N), leaf=leaf, **PRIOR))
    assert np.allclose(truth.credible_interval(X[:2], 0.9), [-1.645, 1.645], atol=0.2)


def test_refused():
    truth = exact.solve(pt.TreeModel(X, RNG.normal(size=N), leaf=custom_leaf(), **PRIOR))
    refuses("has no expectation", lambda: truth.credible_interval(X))
    loss = exact.solve(pt.TreeModel(X, LEAVES["classes"][1], leaf=pt.PacBayesLoss(1.0), **PRIOR))
    refuses("is a loss", lambda: loss.credible_interval(X))
    post = exact.solve(pt.TreeModel(X, LEAVES["counts"][1], leaf=pt.PoissonGamma(), **PRIOR))
    refuses("coverage", lambda: post.credible_interval(X, 1.5))
    refuses("draws", lambda: post.draw_expectations(X, 0))


def test_every_leaf_has_an_expectation():
    """A new leaf model must declare the posterior of its expectation, or say that it has none."""
    from pactree_mcmc.model.model import COMPILED_LEAVES as known

    without = {leaf.__name__ for leaf in known if leaf.expectation is Leaf.expectation}
    assert without == {"PacBayesLoss", "CustomLeaf", "PiecewiseExponential"}


def truth_of(model, rng):
    """Draw a tree, leaf parameters and y; return y, the tree as a posterior, and E(y) in each of its nodes (m, d)."""
    leaf, target = model.leaf, model.target
    post = pt.posterior_from_trees(model, [pt.simulate(model, rng=rng)[0]])
    number = post.draws.distinct_tree(0).apply(X)
    parameters = leaf.draw_parameters(rng, np.zeros((len(post.draws.place_stats), leaf.n_stats(target))), target)
    y = leaf.draw_given(rng, [part[number] for part in parameters], target, np.arange(N_BANDS))
    return y, post, leaf.expectation_given(parameters)


def tables(name, n, seed):
    leaf, y = LEAVES[name]
    model, rng = pt.TreeModel(X, y, leaf=leaf, **PRIOR), np.random.default_rng(seed)
    while n:
        y, post, value = truth_of(model, rng)
        if model.classes_ is None or len(np.unique(y)) == 3:
            n -= 1
            yield exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)), post, value


def coverage_of_partial_dependence(truth, post, value):
    """Fraction of the values of a partial dependence curve inside the band of its plot."""
    band = pt.plots.plot_partial_dependence(truth, 0, X=X, n_trees=400).patches[0].get_data()
    plt.close("all")
    actual = []
    for x in (band.edges[1:] + band.edges[:-1]) / 2.0:
        rows = X.copy()
        rows[:, 0] = x
        actual.append(value[post.draws.distinct_tree(0).apply(rows), -1].mean())
    return np.mean((band.baseline <= actual) & (actual <= band.values))


@pytest.mark.more(everyday=["normal"])
@pytest.mark.parametrize("name", ["normal", "classes"])
def test_the_band_of_partial_dependence_covers(name):
    is_covered = [coverage_of_partial_dependence(*table) for table in tables(name, 25, 1)]
    assert abs(np.mean(is_covered) - 0.9) < 0.02 + 3.0 * np.std(is_covered) / np.sqrt(25), np.mean(is_covered)


@pytest.mark.more(everyday=["normal"])
@pytest.mark.parametrize("name", ["normal", "classes", "regression", "times"])
def test_the_same_draws_by_node_and_by_row(name):
    """Draws of the values of nodes, looked up at rows, have the quantiles of the closed forms."""
    leaf, y = LEAVES[name]
    post = exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)).sample(300, rng=1)
    numbers = predictive.trees_of_spaced_draws(post.draws, 3000)
    by_node = predictive.draw_predictions(post.draws, numbers, X[:3], np.random.default_rng(1))
    ends = post.credible_interval(X[:3], 0.8).reshape(3, -1, 2)
    assert np.allclose((by_node[..., None] > ends).mean(axis=0), [0.9, 0.1], atol=0.03)


def expected_level(log_joint, probability, value):
    return probability[log_joint > value + 1e-7].sum()


@pytest.mark.more(everyday=["0.3-local, nominal"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mass", [0.3, 0.9])
def test_exact_set_is_that_of_all_trees_listed(name, mass):
    truth, trees, probability = all_trees(MODELS[name])
    log_joint = truth.best_trees(len(trees)).log_joint
    credible = truth.credible_set(mass, draws=len(trees))
    is_member = [expected_level(log_joint, probability, value) < mass for value in log_joint]
    assert credible.exact and len(credible) == sum(is_member)
    assert credible.weight.sum() >= mass and credible.log_posterior == pytest.approx(log_joint[: len(credible)])
    # without those that tie with the last, it would hold less
    assert credible.weight[credible.log_posterior > credible.log_posterior[-1] + 1e-7].sum() < mass
    for i in range(0, len(trees), max(len(trees) // 25, 1)):
        assert (trees[i] in credible) == is_member[i]
        expected = expected_level(log_joint, probability, log_joint[i])
        assert credible.level(trees[i]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", NAMES)
def test_set_of_draws_comes_near_it(name):
    truth, trees, probability = all_trees(MODELS[name])
    credible = independent_draws(truth).credible_set(0.8)
    assert not credible.exact
    log_joint = truth.best_trees(len(trees)).log_joint
    for i in range(0, len(trees), max(len(trees) // 12, 1)):
        assert credible.level(trees[i]) == pytest.approx(expected_level(log_joint, probability, log_joint[i]), abs=0.04)
    assert credible.log_odds == pytest.approx(credible.log_posterior - credible.log_posterior[0])
    assert np.all(np.diff(credible.log_posterior) <= 0.0) and credible.weight.sum() >= 0.8
    assert credible.tree(0) == next(iter(credible)) and "trees drawn" in repr(credible)


def test_trees_that_were_never_drawn_have_a_level():
    X, y = table(40)
    post = pt.sample(pt.TreeModel(X, y), 200, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    credible = post.credible_set(0.95)
    stump = pt.Tree([0, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    level = (post.log_prior + post.log_score > post.model.log_posterior(stump) + 1e-7).mean()
    assert credible.level(stump) == pytest.approx(level) and (stump in credible) == (level < 0.95)


def test_trees_that_the_model_cannot_have():
    X, y = table(30)
    stump = pt.Tree([0, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    for model in (
        pt.TreeModel(X, y, split_prior=pt.GridCuts([[0.5], [0.5], [0.5]]), tree_prior=pt.ChipmanPrior(max_depth=2)),
        pt.TreeModel(X, y, split_prior=pt.LocalCuts(min_leaf=14), tree_prior=pt.ChipmanPrior(max_depth=2)),
        pt.TreeModel(X, y, nominal=[0], tree_prior=pt.ChipmanPrior(max_depth=2)),
    ):
        assert exact.solve(model).credible_set(0.99).level(stump) == 1.0


def test_what_cannot_be_asked():
    truth = exact.solve(MODELS["dyadic"])
    for wrong in (0.0, 1.0, -1, "most", np.nan):
        with pytest.raises(ValueError, match="mass"):
            truth.credible_set(wrong)
    credible = truth.credible_set(0.5)
    refuses("lists", lambda: credible.tree(len(credible)))
    refuses("fitted", lambda: credible.level("a tree"))
    wide = pt.Tree([7, -1, -1], [1.7, 0, 0], [1, 0, 0], [2, 0, 0])
    refuses("feature 7", lambda: credible.level(wide))
    post = truth.sample(20, rng=1)
    post.draws.sees_all_rows = False
    refuses("stages", lambda: post.credible_set())


@pytest.fixture(scope="module", params=["local, nominal", "local, missing", "grid, empty cells", "local, regression"])
def post(request):
    return independent_draws(exact.solve(MODELS[request.param]), chains=2, draws=15)


def cells_of_one_only(model, first, second):
    return len(cells_and_splits(model, first)[0] ^ cells_and_splits(model, second)[0])


def entropy(labels, weight):
    fraction = np.bincount(np.unique(labels, return_inverse=True)[1].ravel(), weights=weight) / weight.sum()
    return -np.sum(fraction * np.log(fraction))


def leaf_of_units(model, tree):
    out = np.empty(model.units.n_units, dtype=int)
    for visit in model.visit(tree):
        out[visit.cell.index] = visit.number
    return out


@pytest.mark.more(everyday=["local, nominal"])
def test_each_by_its_definition(post):
    model, trees = post.model, [post.draws.distinct_tree(t) for t in post.draws.tree_of_draw.ravel().tolist()]
    distances = {kind: post.tree_distances(kind=kind) for kind in KINDS}
    merged = model.units
    weight = merged.rows[np.arange(merged.n_units) & merged.rows_all].astype(float)
    leaves = [leaf_of_units(model, tree) for tree in trees]
    value = [tree.value[leaf] for tree, leaf in zip(trees, leaves, strict=True)]
    for i in range(30):
        for j in range(30):
            assert distances["cells"].matrix[i, j] == cells_of_one_only(model, trees[i], trees[j])
            both = entropy(leaves[i] * 100 + leaves[j], weight)
            information = 2 * both - entropy(leaves[i], weight) - entropy(leaves[j], weight)
            assert distances["partitions"].matrix[i, j] == pytest.approx(information, abs=1e-12)
            square = ((value[i] - value[j]) ** 2).sum(axis=1) @ weight / weight.sum()
            assert distances["predictions"].matrix[i, j] == pytest.approx(np.sqrt(square), abs=1e-7)
