"""Trees near the best one by bounds and depth-first search, against all trees of small tables."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact.near_optimal import search, trees
from exact.near_optimal.trees import has_bounds, new_problem
from tests.problems.lazy import MadeWhenUsed

RNG = np.random.default_rng(3)
X = RNG.integers(0, 3, (16, 3)).astype(float)
Y = RNG.integers(0, 2, 16)
BITS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 4)
MIXED = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical.from_codes(X[:, 1].astype(int), list("pqr")), "c": X[:, 2]})
GAPS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
SHALLOW = pt.ChipmanPrior(0.9, 1.0, max_depth=3)


def table(X, y, **options):
    return X, np.asarray(y), options


TABLES = {
    "two classes": table(X, Y, tree_prior=SHALLOW),
    "three classes": table(X, RNG.integers(0, 3, 16), tree_prior=SHALLOW),
    "no depth limit": table(X[:8, :2], Y[:8]),
    "both columns together": table(BITS, BITS[:, 0] != BITS[:, 1], tree_prior=pt.ChipmanPrior(0.5, 1.0, max_depth=3)),
    "depth 1": table(X, Y, tree_prior=pt.ChipmanPrior(max_depth=1)),
    "depth 0": table(X, Y, tree_prior=pt.ChipmanPrior(max_depth=0)),
    "leaf penalty": table(X, Y, tree_prior=pt.LeafPenalty(1.5, max_depth=3)),
    "loss": table(X, Y, leaf=pt.PacBayesLoss(1.0, 0.3), tree_prior=SHALLOW),
    "estimation": table(X, Y, leaf=pt.PacBayesLoss(1.0), estimation=np.arange(16) % 3 > 0, tree_prior=SHALLOW),
    "ties": table(np.column_stack([X[:, 0], X[:, 0]]), Y, tree_prior=SHALLOW),
    "duplicates": table(np.repeat(X[:5], 4, axis=0), RNG.integers(0, 2, 20), tree_prior=SHALLOW),
    "weights": table(X, Y, sample_weight=RNG.integers(0, 4, 16), tree_prior=SHALLOW),
    "missing": table(GAPS, Y, missing="branch", tree_prior=pt.ChipmanPrior(max_depth=2)),
    "nominal": table(MIXED, Y, tree_prior=SHALLOW),
    "smallest leaf": table(X, Y, split_prior=pt.LocalCuts(min_leaf=3), tree_prior=SHALLOW),
    "feature weights": table(X, Y, split_prior=pt.LocalCuts(feature_weights=[1, 0, 3]), tree_prior=SHALLOW),
    "quantile cuts": table(RNG.normal(size=(16, 2)), Y, split_prior=pt.LocalCuts(max_cuts=3), tree_prior=SHALLOW),
    "no split": table(np.ones((4, 2)), [0, 1, 1, 1]),
    "two rows": table([[0.0], [1.0]], [0, 1]),
    "more than 64 points": table(RNG.normal(size=(70, 1)).round(2), RNG.integers(0, 2, 70), tree_prior=SHALLOW),
}
FRACTIONS = RNG.random(16)
MODELS = MadeWhenUsed({name: partial(pt.TreeModel, X, y, **options) for name, (X, y, options) in TABLES.items()})
BY_SUM = MadeWhenUsed(
    {
        "normal": lambda: pt.TreeModel(X, X[:, 0] + X[:, 1], tree_prior=SHALLOW),
        "grid": lambda: pt.TreeModel(X, Y, split_prior=pt.GridCuts(2), tree_prior=SHALLOW),
        "fractional weights": lambda: pt.TreeModel(X, Y, sample_weight=FRACTIONS, tree_prior=SHALLOW),
        "split weights": lambda: pt.TreeModel(
            X[:, :2], Y, split_prior=pt.CustomSplits(lambda cut: cut.left + 1.0, of=pt.LocalCuts()), tree_prior=SHALLOW
        ),
    }
)


def words(result):
    return {tree.format() for tree in result.trees}


def objective(model, tree, X, y, penalty):
    """Errors of the majority in each leaf, and penalties, row by row."""
    leaf = tree.apply(X)
    errors = sum(weight_of_minority(model, y, leaf == node) for node in np.unique(leaf))
    return errors + penalty * tree.n_leaves


def weight_of_minority(model, y, here):
    counts = np.array([model.target.weights[here & (y == label)].sum() for label in model.classes_])
    return counts.sum() - counts.max()


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", [*MODELS, *BY_SUM])
def test_trees_near_the_best_are_those_of_the_whole_sum(name):
    model = (MODELS if name in MODELS else BY_SUM)[name]
    truth = exact.solve(model)
    for epsilon in (0.0, 1.0, 3.0, 1e6):
        expected, result = truth.trees_within(epsilon, most=500), exact.trees_within(model, epsilon, most=500)
        assert result.log_joint == pytest.approx(expected.log_joint, abs=1e-9)
        assert result.complete == expected.complete
        if result.complete:
            assert words(result) == words(expected)
    assert exact.best_trees(model, 100).log_joint == pytest.approx(truth.best_trees(100).log_joint, abs=1e-9)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("more than 64 points", "estimation")])
@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_errors_and_leaves_against_all_trees(name, penalty):
    model = MODELS[name]
    truth = exact.solve(model)
    if truth.n_trees > 5_000:
        pytest.skip("too many trees")
    every = truth.best_trees(truth.n_trees).trees
    X, y, _ = TABLES[name]
    values = np.array([objective(model, tree, X, y, penalty) for tree in every])
    for epsilon in (0.0, 0.7, 2.0):
        result = exact.trees_within(model, epsilon, penalty=penalty, most=30_000)
        expected = values <= values.min() + epsilon + 1e-9
        assert result.complete and len(result.trees) == expected.sum()
        assert words(result) == {tree.format() for tree, is_near in zip(every, expected, strict=True) if is_near}
        assert -result.log_joint == pytest.approx(np.sort(values[expected]))
    assert -exact.best_trees(model, 7, penalty=penalty).log_joint == pytest.approx(np.sort(values)[:7])


def check(name="two classes", epsilon=2.0):
    result, expected = exact.trees_within(MODELS[name], epsilon), exact.solve(MODELS[name]).trees_within(epsilon)
    assert words(result) == words(expected)
    assert result.complete


def test_a_full_table_and_many_interruptions_change_nothing(monkeypatch):
    monkeypatch.setattr(trees, "MAX_MEMO_CELLS", 4)
    check()
    monkeypatch.setattr(trees, "FIRST_STEP", 3)
    check("nominal")


@pytest.mark.planted
def test_a_bound_that_is_too_small_is_seen(monkeypatch):
    """Two splits, one below the other, improve the tree, but not the first alone."""

    def low(model, penalty):
        problem, root = new_problem(model, penalty)
        return problem._replace(pure_scores=problem.pure_scores - 30.0), root

    monkeypatch.setattr(trees, "new_problem", low)
    with pytest.raises(AssertionError):
        check("both columns together", 0.5)


@pytest.mark.planted
def test_a_need_that_is_too_large_is_seen(monkeypatch):
    right = trees.Search.graph_near_best
    monkeypatch.setattr(trees.Search, "graph_near_best", lambda self, epsilon: right(self, 0.6 * epsilon))
    with pytest.raises(AssertionError):
        check()


def test_within_a_budget_the_trees_of_a_smaller_depth_are_found():
    model = MODELS["two classes"]
    best = exact.solve(model).map_log_joint
    n_before = 0
    for max_cells in (1, 3, 10, 100_000):
        result = exact.trees_within(model, 2.0, max_cells=max_cells)
        assert len(result.trees) >= 1
        assert result.log_joint == pytest.approx([model.log_posterior(tree) for tree in result.trees])
        assert result.log_joint[0] <= best + 1e-9 and np.all(np.diff(result.log_joint) <= 1e-12)
        assert result.complete == (max_cells == 100_000)
        n_before = max(n_before, len(result.trees))
    assert result.log_joint[0] == pytest.approx(best)


def test_depths_that_the_sum_does_not_reach():
    """Columns of zeros and ones, the sum over whose trees of depth 5 needs far more cells."""
    bits = np.random.default_rng(1).integers(0, 2, (200, 12)).astype(float)
    y = (bits[:, 0] + bits[:, 1] * bits[:, 2] > 1).astype(int)
    model = pt.TreeModel(bits, y, tree_prior=pt.LeafPenalty(1.0, max_depth=5))
    with pytest.raises(exact.Intractable):
        exact.solve(model, max_cells=10_000)
    result = exact.trees_within(model, 1.0, penalty=2.0, max_cells=10_000)
    assert result.complete
    assert -result.log_joint[0] == pytest.approx(2.0 * result.trees[0].n_leaves)


def test_which_models_have_bounds():
    assert all(has_bounds(model) for model in MODELS.values())
    assert [name for name, model in BY_SUM.items() if new_problem(model, None) is not None] == []
    nominal = pt.TreeModel(np.arange(14.0)[:, None], np.arange(14) % 2, nominal=[0], tree_prior=SHALLOW)
    assert not has_bounds(nominal)


def test_ambiguity_and_importance_against_predictions():
    X, y, _ = TABLES["nominal"]
    result = exact.trees_within(MODELS["nominal"], 3.0)
    labels = np.array([tree.predict(X) for tree in result.trees])
    assert result.ambiguity(X) == pytest.approx((labels != labels[0]).any(axis=0).mean())
    permuted, generator = X.copy(), np.random.default_rng(5)
    for column in X:
        permuted[column] = generator.permutation(X[column])
    importance = result.importance(X, y, rng=5)
    assert importance.shape == (3, 2)
    for k, column in enumerate(X):
        changed = X.assign(**{column: pd.Series(permuted[column], dtype=X[column].dtype)})
        increase = [np.mean(tree.predict(changed) != y) - np.mean(tree.predict(X) != y) for tree in result.trees]
        assert importance[k] == pytest.approx([min(increase), max(increase)])
    with pytest.raises(ValueError, match="do not predict classes"):
        exact.trees_within(BY_SUM["normal"], 0.0).ambiguity(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"y has shape \(2,\)"):
        result.importance(X, [0, 1])


def test_bits_are_counted():
    for word in (0, 1, 0xFF00FF00, 2**64 - 1, 1 << 63):
        assert search.count_bits(np.uint64(word)) == word.bit_count()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0 is out of range"),
        ({"epsilon": 1.0, "most": 0}, "most=0"),
        ({"epsilon": 1.0, "penalty": -1.0}, "penalty=-1.0"),
        ({"epsilon": 1.0, "max_cells": 0}, "max_cells=0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact.trees_within(MODELS["two rows"], **arguments)


def test_wrong_models():
    with pytest.raises(TypeError, match="model"):
        exact.best_trees(None, 1)
    with pytest.raises(ValueError, match="y has no classes"):
        exact.best_trees(BY_SUM["normal"], 1, penalty=1.0)
    with pytest.raises(ValueError, match="k=0"):
        exact.best_trees(MODELS["two rows"], 0)
    shared = pt.TreeModel(X, X[:, 0], leaf=pt.NormalSharedVariance())
    with pytest.raises(ValueError, match="not a sum over leaves"):
        exact.best_trees(shared, 1)
