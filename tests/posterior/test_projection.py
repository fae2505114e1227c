"""The posterior mean on one small tree: least squares, and the posterior of what it keeps."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, independent_draws

pd = pytest.importorskip("pandas")
NAMES = [name for name in MODELS if name not in ("a row counts twice",)]


def r2_by_hand(values, leaf, weight):
    """Return the variance of a function (m, d) of rows that the means in leaves explain."""
    mean = np.average(values, axis=0, weights=weight)
    total = (weight[:, None] * (values - mean) ** 2).sum()
    left = 0.0
    for node in np.unique(leaf):
        here = leaf == node
        centre = np.average(values[here], axis=0, weights=weight[here])
        left += (weight[here, None] * (values[here] - centre) ** 2).sum()
    return 1.0 if total < 1e-20 else 1.0 - left / total


@pytest.mark.more(everyday=["grid, empty cells"])
@pytest.mark.parametrize("name", NAMES)
def test_r2_and_leaves_by_their_definition(name):
    model = MODELS[name]
    post = independent_draws(exact.solve(model), chains=2, draws=25)
    projection = post.project(3)
    merged_rows = np.arange(model.units.n_units)
    weight = model.units.rows[merged_rows & model.units.rows_all].astype(float)
    X = model.unit_numbers(merged_rows)
    leaf = projection.tree.routes().leaves(X)
    values = post._values_by_draw(X)
    mean = values.mean(axis=(0, 1))
    assert projection.tree.n_leaves <= 3
    assert projection.leaf.tolist() == np.flatnonzero(projection.tree.feature < 0).tolist()
    assert projection.r2 == pytest.approx(r2_by_hand(mean, leaf, weight))
    for c, t in ((0, 0), (1, 24), (0, 13)):
        assert projection.r2_draws[c, t] == pytest.approx(r2_by_hand(values[c, t], leaf, weight), abs=1e-9)
        for j, node in enumerate(projection.leaf.tolist()):
            in_leaf = leaf == node
            expected = np.average(values[c, t][in_leaf], axis=0, weights=weight[in_leaf])
            assert projection.leaf_draws[c, t, j] == pytest.approx(expected)
            assert projection.tree.value[node] == pytest.approx(
                np.average(mean[in_leaf], axis=0, weights=weight[in_leaf])
            )
    assert projection.tree.rows[0] == weight.sum()


def best_stump(model, mean, weight):
    """The least sum of squares of all trees of two leaves of the coding, by trying."""
    best = -1.0
    for c, is_nominal in enumerate(model.columns.is_nominal[model.columns.source]):
        codes = model.units.codes[c].astype(int)
        present = np.unique(codes)
        splits = [codes <= code for code in present[:-1]]
        if is_nominal:
            splits = [(bits >> codes) & 1 == 1 for bits in range(1, 1 << int(present.max()))]
        for left in splits:
            if left.any() and not left.all():
                best = max(best, r2_by_hand(mean, left, weight))
    return best


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", ["local, nominal", "local, missing", "local, regression", "grid, nominal"])
def test_the_first_split_is_the_best_there_is(name):
    model = MODELS[name]
    truth = exact.solve(model)
    merged_rows = np.arange(model.units.n_units)
    weight = model.units.rows[merged_rows & model.units.rows_all].astype(float)
    mean = truth._values(model.unit_numbers(merged_rows))
    assert truth.project(2, draws=50).r2 == pytest.approx(best_stump(model, mean, weight))


def test_more_leaves_keep_more_and_enough_keep_all():
    truth = exact.solve(MODELS["local, regression"])
    r2_by_size = [truth.project(k, draws=20).r2 for k in range(1, 10)]
    assert r2_by_size[0] == pytest.approx(0.0, abs=1e-12) and r2_by_size[-1] == pytest.approx(1.0)
    assert np.all(np.diff(r2_by_size) >= -1e-12)


def test_table():
    projection = independent_draws(exact.solve(MODELS["local, nominal"]), draws=100).project(3)
    table = projection.table(0.8)
    assert list(table.columns) == ["words", "rows", "output", "value", "lower", "upper"]
    assert len(table) == 2 * projection.tree.n_leaves and table["rows"].sum() == 2 * 9
    flat = projection.leaf_draws.reshape(400, -1)
    assert np.allclose(table["lower"], np.quantile(flat, 0.1, axis=0))
    assert np.allclose(table["upper"], np.quantile(flat, 0.9, axis=0))
    with pytest.raises(ValueError, match="coverage"):
        projection.table(1.5)


def test_constants_are_kept_wholly():
    x = np.arange(10.0)
    post = pt.posterior_from_trees(pt.TreeModel(x[:, None], x > 4), [pt.Tree([-1], [0], [0], [0])], [[0] * 9])
    projection = post.project(4)
    assert projection.tree.n_leaves == 1 and projection.r2 == 1.0 and np.all(projection.r2_draws == 1.0)


def test_many_rows_are_thinned():
    x = np.arange(3000.0)
    model = pt.TreeModel(x[:, None], np.where(x < 1500, 0.0, 1.0))
    stump = pt.Tree([0, -1, -1], [1499.5, 0, 0], [1, 0, 0], [2, 0, 0])
    projection = pt.posterior_from_trees(model, [stump]).project(2)
    assert projection.r2 == pytest.approx(1.0) and abs(projection.tree.threshold[0] - 1499.5) < 2


def test_leaves_that_look_at_the_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = pt.TreeModel(X, X[:, 0] + X[:, 1], leaf=pt.NormalLinear([1]), tree_prior=pt.ChipmanPrior(max_depth=2))
    post = pt.posterior_from_trees(model, [pt.simulate(model, seed)[0] for seed in range(6)])
    assert 0.5 < post.project(6).r2 < 1.0


def test_names_of_y_are_in_the_tree_and_in_the_table():
    X = np.arange(20.0)[:, None]
    y = pd.DataFrame({"height": X[:, 0] > 9, "weight": X[:, 0] > 12}, dtype=np.float64)
    several = exact.solve(pt.TreeModel(X, y, leaf=pt.IndependentNormals(2)), progress=False)
    projection = several.project(2)
    assert "height = " in str(projection) and "weight = " in str(projection) and "y0" not in str(projection)
    assert projection.table()["output"].unique().tolist() == ["height", "weight"]
    one = exact.solve(pt.TreeModel(X, y["height"]), progress=False)
    assert one.project(2).table()["output"].unique().tolist() == ["height"]
    assert one.shap(X[:2]).table()["output"].unique().tolist() == ["height"]
