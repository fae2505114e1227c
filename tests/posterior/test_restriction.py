"""Posteriors given constraints: monotone trees by their predictions on grids, paths by their features."""

import itertools

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior import reweighting as restriction

from .spaces import MODELS, all_trees

NAMES = ["local, nominal", "local, missing", "local, regression", "grid, empty cells", "grid, missing", "dyadic"]


def rows_about(model, tree):
    """Return all combinations of values between the thresholds of a tree, of missing values and of categories."""
    axes = []
    for k in range(model.n_features):
        labels = model.columns.categories[k]
        cuts = np.unique(tree.threshold[(tree.feature == k) & ~np.isnan(tree.threshold)])
        numbers = np.concatenate([cuts - 1e-9, [1e3]]) if labels is None else np.arange(len(labels), dtype=float)
        axes.append([*numbers, np.nan] if labels is None and k in model.columns.twins else [*numbers])
    return np.array(list(itertools.product(*axes))), [len(axis) for axis in axes]


def increases(model, post, tree, t, k):
    """Return True if predictions on a grid increase in feature ``k``."""
    X, sizes = rows_about(model, tree)
    value = post._values_by_draw(X)[0, t, :, -1].reshape(sizes)
    known = ~np.isnan(X[:, k].reshape(sizes))
    value = np.moveaxis(np.where(known, value, np.nan), k, 0)
    value = value[~np.isnan(value).reshape(len(value), -1).any(axis=1)]
    return bool((np.diff(value, axis=0) >= -1e-12).all())


def compare_with_grids(name):
    """Return the numbers of trees that are monotone and not, and of those for which the two differ."""
    model = MODELS[name]
    trees = all_trees(model)[1][:120]
    post = pt.posterior_from_trees(model, trees)
    found = []
    for t, k in itertools.product(range(len(trees)), range(model.n_features)):
        if model.columns.categories[k] is None:
            number = int(post.tree_of_draw[0, t])
            found.append((restriction.is_monotone(post, number, {k: 1}), increases(model, post, trees[t], t, k)))
    ours, theirs = np.array(found).T
    return ours.sum(), (~ours).sum(), (ours != theirs).sum()


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", NAMES)
def test_monotone_trees_are_those_whose_predictions_are(name):
    n_monotone, n_others, n_different = compare_with_grids(name)
    assert n_different == 0 and n_monotone > 0 and n_others > 0


def test_leaves_that_do_not_meet_are_not_compared(monkeypatch):
    """planted: leaves are compared whatever their other features."""
    monkeypatch.setattr(restriction, "_meets", lambda regions, j: np.ones((len(regions.leaf),) * 2, dtype=bool))
    assert compare_with_grids("local, regression")[2] > 0


def test_the_probability_and_predictions_are_those_of_all_trees():
    model = MODELS["local, nominal"]
    truth, trees, probability = all_trees(model)
    post = pt.posterior_from_trees(model, trees)
    chosen = np.array([restriction.is_monotone(post, int(t), {1: 1}) for t in post.tree_of_draw[0]])
    found = truth.restrict(monotone={"x1": 1}, rng=2)
    assert found.probability == pytest.approx(probability[chosen].sum(), abs=4 * found.standard_error)
    assert found.ess == found.posterior.n_draws == round(found.probability * 4000)
    weight = probability * chosen / probability[chosen].sum()
    rows = np.unique(model.unit_numbers(np.arange(model.units.n_units)), axis=0)
    expected = weight @ post._values_by_draw(rows)[0, :, :, -1]
    spread = np.sqrt(weight @ (post._values_by_draw(rows)[0, :, :, -1] - expected) ** 2)
    assert (np.abs(found.posterior._values(rows)[:, -1] - expected) < 5 * spread / np.sqrt(found.ess) + 1e-9).all()
    draws = found.posterior
    assert np.allclose(
        draws.log_prior_of_tree, [model.log_prior(draws.distinct_tree(t)) for t in range(draws.n_distinct_trees)]
    )


def test_paths_have_a_group_in_common():
    model = MODELS["local, regression"]
    truth, trees, probability = all_trees(model)

    def paths(tree, node=0, above=frozenset()):
        if tree.feature[node] < 0:
            return [above]
        above = above | {int(tree.feature[node])}
        return paths(tree, tree.left[node], above) + paths(tree, tree.right[node], above)

    for groups, listed in (
        ([["x0", "x1"], ["x2"]], [{0, 1}, {2}]),
        ([[0, 1]], [{0, 1}, {2}]),
        ([[1], [1, 2]], [{1, 2}, {0}]),
    ):
        allowed = np.array([all(any(path <= group for group in listed) for path in paths(tree)) for tree in trees])
        found = truth.restrict(interactions=groups, rng=1)
        assert found.probability == pytest.approx(probability[allowed].sum(), abs=4 * found.standard_error + 1e-9)
        drawn = [found.posterior.distinct_tree(t) for t in range(found.posterior.n_distinct_trees)]
        assert all(any(path <= group for group in listed) for tree in drawn for path in paths(tree))


def test_draws_of_chains():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0, "yes", "no")
    model = pt.TreeModel(X, y, split_prior=pt.GridCuts(6), tree_prior=pt.ChipmanPrior(0.9, 1.0, 3))
    free = exact.solve(model).restrict(monotone={"x0": 1}, rng=1)
    # each draw five times, as a chain that stays where it is
    draws = exact.solve(model).sample(600, rng=2)
    trees = [draws.distinct_tree(t) for t in range(draws.n_distinct_trees)]
    post = pt.posterior_from_trees(model, trees, np.repeat(draws.tree_of_draw.reshape(2, 300), 5, axis=1))
    found = post.restrict(monotone={"x0": 1})
    assert found.probability == pytest.approx(free.probability, abs=4 * (found.standard_error + free.standard_error))
    assert found.probability == pytest.approx(found.by_chain.mean())
    assert 0.7 < found.ess / (600 * found.probability) < 1.1
    assert found.standard_error > 0.0 and "probability" in str(found) and found.posterior.summary() is not None
    grid = np.column_stack([np.linspace(-2, 2, 50), np.zeros(50)])
    assert (np.diff(found.posterior.predict_proba(grid)[:, 1]) >= -1e-12).all()
    with pytest.raises(ValueError, match=r"0 of 3,000 draws .* draw many more"):
        post.restrict(monotone={"x0": -1}, interactions=[["x0"], ["x1"]], min_ess=1)


def test_too_few_draws_are_refused_with_numbers():
    truth = exact.solve(pt.TreeModel(np.arange(30.0)[:, None], np.arange(30) > 14))
    with pytest.raises(ValueError, match=r"of 300 draws satisfy the constraint \(probability .*100 are needed; draw"):
        truth.restrict(monotone={"x0": -1}, draws=300)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no constraint"),
        ({"monotone": {"x9": 1}}, "not a column"),
        ({"monotone": {"x2": 1}}, "nominal"),
        ({"monotone": {"x0": 2}}, "increasing"),
        ({"monotone": ["x0"]}, "increasing"),
        ({"interactions": "x0"}, "list of groups"),
        ({"interactions": [["x0", "y"]]}, "not a column"),
        ({"interactions": [["x0"]], "min_ess": 0.0}, "min_ess"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact.solve(MODELS["local, nominal"]).restrict(**arguments)


def test_many_classes_and_mixtures_are_refused():
    x = np.arange(12.0)[:, None]
    three = exact.solve(pt.TreeModel(x, np.arange(12) // 4))
    with pytest.raises(ValueError, match="two classes"):
        three.restrict(monotone={"x0": 1})
    with pytest.raises(ValueError, match="stages"):
        exact.progressive_mixture(three.model).restrict(monotone={"x0": 1})


def test_a_constant_column_constrains_nothing():
    model = pt.TreeModel([[1.0], [1.0]], ["a", "b"])
    assert exact.solve(model).restrict(monotone={"x0": 1}, interactions=[["x0"]]).probability == 1.0
