"""The exact progressive mixture equals brute force over all trees and stages."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.exact.recursion.test_enumeration import _as_table, _new_rows, _rounded
from tests.problems.drawn import SPLIT_PRIORS, TREE_PRIORS, random_problem
from tests.problems.refusals import refuses
from tests.reference.enumeration import mean_distribution, mean_rows, stages

TIGHT = {"rel": 0, "abs": 1e-12}
BAD_ARGUMENTS = [
    ({"orders": 0}, "orders=0"),
    ({"orders": 1.5}, r"orders=1\.5"),
    ({"max_cells": 0}, "max_cells=0"),
    ({"max_cells": 100}, "copies of cells"),
]


def frozen_model(n=60, depth=3, seed=0, n_classes=3, **parts):
    """Three classes on a cyclic dyadic design, leaves frozen on half of the rows."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = np.where(rng.random(n) < 0.6, (X[:, 0] * n_classes).astype(int), rng.integers(n_classes, size=n))
    y[:n_classes] = np.arange(n_classes)
    parts = {"split_prior": pt.DyadicCuts((depth + 1) // 2, cyclic=True, bounds=[[0, 1]] * 2), **parts}
    return pt.TreeModel(
        X,
        y,
        tree_prior=pt.BranchingProcess(0.4, depth),
        leaf=pt.FrozenLaplace(),
        estimation=np.arange(n) % 2 == 0,
        **parts,
    )


def assert_equal_distributions(result, expected, tolerance):
    result, expected = _rounded(result), _rounded(expected)
    for key in set(result) | set(expected):
        assert result.get(key, 0.0) == pytest.approx(expected.get(key, 0.0), **tolerance), key


def assert_equals_brute_force(problem, model, rng, tolerance):
    by_stage = stages(problem)
    if len(by_stage) == 1:
        refuses("S is empty", lambda: exact.progressive_mixture(model))
        return False
    mixture = exact.progressive_mixture(model)
    assert mixture.stage_log_evidence[0] == pytest.approx(np.array([s.log_evidence for s in by_stage]), **tolerance)
    assert mixture.log_evidence == pytest.approx(by_stage[-1].log_evidence, **tolerance)
    rows = _new_rows(problem, rng)
    table = _as_table(model, rows)
    values = mixture.predict_proba(table) if model.classes_ is not None else mixture.predict(table)[:, None]
    expected = [mean_rows([s.predict(row) for s in by_stage]) for row in rows]
    assert values == pytest.approx(np.array(expected), **tolerance)
    distribution = dict(enumerate(mixture.n_leaves_pmf()))
    assert_equal_distributions(
        {(0, m): q for m, q in distribution.items()},
        keyed(mean_distribution([s.n_leaves() for s in by_stage])),
        tolerance,
    )
    assert mixture._feature_inclusion() == pytest.approx(mean_rows([s.inclusion() for s in by_stage]), **tolerance)
    assert_equal_distributions(mixture._root_split_pmf(), mean_distribution([s.root() for s in by_stage]), tolerance)
    return True


def keyed(distribution):
    return {(0, m): q for m, q in distribution.items()}


@pytest.mark.more(
    everyday=["local-stopped-0", "local-stopped-1", "grid-conditioned-1", "dyadic-chipman-2", "fixed-penalty-0"]
)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tree_prior", TREE_PRIORS)
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
def test_equals_brute_force_over_trees_and_stages(split_prior, tree_prior, seed):
    rng = np.random.default_rng([SPLIT_PRIORS.index(split_prior), TREE_PRIORS.index(tree_prior), seed])
    leaf = ["laplace", "laplace", str(rng.choice(["dirichlet", "nig", "known", "poisson", "loss"]))][seed]
    for _ in range(20):
        problem, model = random_problem(rng, split_prior=split_prior, tree_prior=tree_prior, leaf=leaf, max_trees=300)
        if assert_equals_brute_force(problem, model, rng, {"rel": 1e-9, "abs": 1e-9}):
            return
    raise AssertionError("no problem had two stages")


def test_orders_are_averaged():
    problem_rng = np.random.default_rng(8)
    while True:
        problem, model = random_problem(
            problem_rng, split_prior="dyadic", tree_prior="stopped", leaf="laplace", max_trees=300
        )
        if sum(not e for e in problem.estimation) >= 3 and min(problem.weights) > 0:
            break
    mixture = exact.progressive_mixture(model, orders=3, rng=4)
    distributions = [stages(problem, order.staged.tolist()) for order in mixture._sums.orders]
    assert len({tuple(order.staged) for order in mixture._sums.orders}) > 1
    row = problem.X[0]
    expected = mean_rows([mean_rows([s.predict(row) for s in distribution]) for distribution in distributions])
    assert mixture.predict_proba(_as_table(model, [row]))[0] == pytest.approx(expected, **TIGHT)


def test_draws_follow_the_mean_distribution():
    model = frozen_model()
    mixture = exact.progressive_mixture(model, orders=2, rng=1)
    draws = mixture.sample(4_000, rng=3)
    n = 4_000
    sampled, distribution = draws.n_leaves_pmf(), mixture.n_leaves_pmf()
    assert abs(sampled - distribution[: len(sampled)]).max() < 5 * np.sqrt(0.25 / n)
    X = np.random.default_rng(9).random((20, 2))
    assert abs(draws.predict_proba(X) - mixture.predict_proba(X)).max() < 5 * np.sqrt(0.25 / n)
    for t in range(5):
        assert draws.draws.log_prior_of_tree[t] == pytest.approx(
            model.log_prior(draws.draws.distinct_tree(t)), abs=1e-9
        )
        assert draws.draws.log_score_of_tree[t] == pytest.approx(
            model.log_score(draws.draws.distinct_tree(t)), abs=1e-9
        )
    assert len(mixture.draw_trees(3, rng=1)) == 3
    assert mixture.map_tree().n_leaves == exact.solve(model).map_tree().n_leaves


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments(arguments, message):
    refuses(message, lambda: exact.progressive_mixture(frozen_model(), **arguments))


def ordered_features(rng, n, p):
    X = rng.random((n, p))
    return X, rng.uniform(-0.1, 1.1, (40, p)), {}


def with_ties(rng, n, p):
    return rng.integers(4, size=(n, p)) / 4.0, rng.uniform(-0.1, 1.1, (40, p)), {}


def with_a_nominal_feature(rng, n, p):
    X = np.column_stack([rng.random((n, p - 1)), rng.integers(4, size=n)])
    new = np.column_stack([rng.uniform(-0.1, 1.1, (40, p - 1)), rng.integers(5, size=40)])  # 4 is unknown
    return X, new, {"nominal": [p - 1]}


def with_missing_values(rng, n, p):
    X, new = rng.random((n, p)), rng.uniform(-0.1, 1.1, (40, p))
    X[rng.random(n) < 0.3, 0] = np.nan
    X[0, 0], X[1, 0] = np.nan, 0.5
    new[rng.random(40) < 0.3, 0] = np.nan
    new[rng.random(40) < 0.3, 1] = np.nan  # a column that lacks none in X
    return X, new, {"missing": "branch"}


LOCAL_TABLES = [ordered_features, with_ties, with_a_nominal_feature, with_missing_values]


def staged_model(rng, make_table, n=9, p=2, split_prior=None, leaf=None, max_depth=3):
    """A model, the rows of a table to predict, and what makes the model anew with other weights and rows of E."""
    X, new, more = make_table(rng, n, p)
    y = np.append([0, 1, 2], rng.integers(3, size=n - 3))
    E = None if leaf is not None else np.arange(n) % 3 == 0

    def model(weight=None, estimation=E):
        frozen = {} if estimation is None else {"estimation": estimation}
        return pt.TreeModel(
            X, y, tree_prior=pt.ChipmanPrior(0.8, 0.7, max_depth=max_depth), leaf=leaf or pt.FrozenLaplace(0.3),
            split_prior=split_prior or pt.LocalCuts(), sample_weight=weight, **frozen, **more,
        )  # fmt: skip

    return model, np.concatenate([X, new])


def mean_of_solutions(model, orders, rows):
    """Mean over the stages of all orders of the exact posterior given the examples that have entered."""
    means = []
    for order in orders:
        for n_entered in range(len(order.staged) + 1):
            weight = np.ones(model().n_rows)
            weight[order.staged[n_entered:]] = 1e-300
            means.append(exact.solve(model(weight, order.estimation)).predict_proba(rows))
    return np.mean(means, axis=0)


@pytest.mark.more(everyday=["with_ties-2"])
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("make_table", LOCAL_TABLES, ids=lambda make: make.__name__)
def test_new_rows_under_local_cuts_are_predicted_by_the_mean_of_the_stages(make_table, p):
    """Between the rows a new one lies in a cell by some ways from the root and not by others."""
    model, rows = staged_model(np.random.default_rng([p, LOCAL_TABLES.index(make_table)]), make_table, p=p)
    mixture = exact.progressive_mixture(model())
    expected = mean_of_solutions(model, mixture._sums.orders, rows)
    assert mixture.predict_proba(rows) == pytest.approx(expected, **TIGHT)
    # the averaged splits, asked one after another, are right at the rows of X and wrong between them
    walked = mixture._mean.values(mixture.model.columns.numbers(rows))
    assert abs(walked - expected)[:9].max() < 1e-12 < 1e-5 < abs(walked - expected)[9:].max()


@pytest.mark.more(everyday=["with_a_nominal_feature-options1-orders1"])
@pytest.mark.parametrize(
    ("make_table", "options", "orders"),
    [
        (ordered_features, {}, {"orders": 3, "rng": 1}),
        (with_a_nominal_feature, {}, {"orders": 2, "resplit": True, "rng": 2}),
        (with_ties, {"leaf": pt.DirichletMultinomial(0.5)}, {}),
        (with_a_nominal_feature, {"split_prior": pt.LocalCuts(trivial=True), "n": 8, "max_depth": 2}, {}),
        (ordered_features, {"split_prior": pt.LocalCuts(min_leaf=2), "n": 12}, {}),
        (ordered_features, {"split_prior": pt.LocalCuts(max_cuts=3), "n": 12}, {}),
        (with_a_nominal_feature, {"split_prior": pt.GridCuts([[0.3, 0.6], None])}, {}),
        (with_missing_values, {"split_prior": pt.GridCuts([[0.3, 0.6], [0.5]])}, {"orders": 2, "rng": 3}),
        (with_missing_values, {"split_prior": pt.DyadicCuts(2), "n": 12}, {}),
        (with_missing_values, {"split_prior": pt.DyadicCuts(2, cyclic=True), "n": 12}, {}),
    ],
)
def test_new_rows_are_predicted_by_the_mean_of_the_stages(make_table, options, orders):
    model, rows = staged_model(np.random.default_rng(7), make_table, **options)
    mixture = exact.progressive_mixture(model(), **orders)
    expected = mean_of_solutions(model, mixture._sums.orders, rows)
    assert mixture.predict_proba(rows) == pytest.approx(expected, **TIGHT)
    assert mixture.predict(rows).tolist() == np.argmax(mixture.predict_proba(rows), axis=1).tolist()
