"""Equation 9: the global prior over stages against enumeration, the new row among the points, populations, counts."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact.systems.progressive import global_splitting
from exact.systems.progressive.global_splitting import SplittingCounts
from pactree_mcmc.faces import data_dependent
from tests.exact.systems.test_global_splitting import brute_force, chain
from tests.reference.derivations import log_sum
from tests.reference.enumeration import Problem, leaf_of, predictive

PRIOR = pt.BranchingProcess(0.45, max_depth=2)


def table(seed, n, p=2, most=4):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, most, (n, p)).astype(float)
    y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    return X, y


def model_of(X, y, estimation, weight=None):
    return pt.TreeModel(
        X, y, tree_prior=PRIOR, split_prior=pt.LocalCuts(trivial=True), leaf=pt.FrozenLaplace(),
        estimation=estimation, sample_weight=weight,
    )  # fmt: skip


def by_definition(X, y, estimation, new):
    """The mean over M of the posterior predictive at ``new``, all trees written out, the new row a point."""
    staged = np.flatnonzero(~estimation)
    out = []
    for entered in range(len(staged) + 1):
        weights = np.append(np.where(estimation, 1.0, 0.0), 0.0)
        weights[staged[:entered]] = 1.0
        problem = Problem(
            X=[tuple(x) for x in np.vstack([X, new])],
            y=[*y.tolist(), int(y[0])],
            weights=weights.tolist(),
            estimation=[*estimation.tolist(), False],
            tree_prior={"kind": "stopped", "rho": 0.45, "max_depth": 2},
            split_prior={"kind": "local", "trivial": True},
            leaf={"kind": "laplace", "pseudocount": 1.0},
        )
        trees = brute_force(problem)
        log_joint = np.array([value for _, value in trees])
        fraction = np.exp(log_joint - log_sum(log_joint))
        out.append(fraction @ np.array([predictive(problem, leaf_of(problem, tree, tuple(new))) for tree, _ in trees]))
    return np.mean(out, axis=0)


@pytest.mark.parametrize("seed", range(2))
def test_the_stages_are_posteriors_under_the_global_prior(seed):
    X, y = table(seed, 7)
    estimation = np.arange(7) % 2 == 0
    mixture = exact.progressive_mixture(model_of(X, y, estimation), global_splitting=True)
    staged = np.flatnonzero(~estimation)
    proba, evidence = [], []
    for entered in range(len(staged) + 1):
        weight = np.ones(7)
        weight[staged[entered:]] = 0.0
        stage = exact.solve_global_splitting(model_of(X, y, estimation, weight))
        proba.append(stage.predict_proba(X))
        evidence.append(stage.log_evidence)
    assert mixture.predict_proba(X) == pytest.approx(np.mean(proba, axis=0), abs=1e-10)
    assert mixture.stage_log_evidence[0] == pytest.approx(evidence, abs=1e-10)
    local = exact.progressive_mixture(model_of(X, y, estimation)).predict_proba(X)
    assert np.abs(local - mixture.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize("p", [1, 2])
def test_equation_nine_by_definition(p):
    X, y = table(3, 4, p, 3)
    new, estimation = np.full(p, 0.5), np.array([True, False, True, False])
    mixture = exact.data_dependent_mixture(X, y, new[None], estimation=estimation, tree_prior=PRIOR)
    assert mixture.probability[0] == pytest.approx(by_definition(X, y, estimation, new), abs=1e-10)
    assert mixture.classes.tolist() == [0, 1]
    assert np.all(mixture.standard_error == 0.0)


@pytest.mark.planted
def test_a_new_row_that_is_no_point_is_noticed(monkeypatch):
    X, y = table(3, 4, 1, 3)
    new, estimation = np.array([0.5]), np.array([True, False, True, False])
    right = data_dependent._model_with_points
    monkeypatch.setattr(
        data_dependent, "_model_with_points", lambda sample, new, *priors: right(sample, sample.rows[:1], *priors)
    )
    mixture = exact.data_dependent_mixture(X, y, new[None], estimation=estimation, tree_prior=PRIOR)
    assert np.abs(mixture.probability[0] - by_definition(X, y, estimation, new)).max() > 1e-3


def test_new_rows_together_or_one_by_one():
    X, y = table(5, 6)
    how = {"estimation": 0.5, "tree_prior": PRIOR}
    one = exact.data_dependent_mixture(X, y, X[:1], **how)
    repeated = exact.data_dependent_mixture(X, y, X[[0, 0]], together=True, **how)
    assert repeated.probability == pytest.approx(one.probability[[0, 0]], abs=1e-12)
    local = exact.data_dependent_mixture(X, y, X[:1], splitting="local", **how)
    plain = exact.progressive_mixture(model_of(X, y, 0.5)).predict_proba(X[:1])
    assert local.probability == pytest.approx(plain, abs=1e-12)


ONE = pt.BranchingProcess(0.4, max_depth=1)
"""Trees of one split at most, with probability .4."""


SMALL = {
    # L = 1: the mean over the prior. The new row is with the other one, 2 / 3, or alone, 1 / 2
    "one row, in E": ([0.3], "a", [True], (0.6 + 0.4 * 2 / 3) * 2 / 3 + 0.4 / 3 / 2),
    # without E each leaf gives each class the same probability, so that S weighs all trees alike
    "one row, in S": ([0.3], "a", [False], 0.5),
    "no E": ([0.3, 0.6, 0.9], "aba", [False] * 3, 0.5),
    # four points have five divisions. The leaf of the new row has all rows; .6 and .9; .3; .3 and .6; all rows
    "no S": ([0.3, 0.6, 0.9], "aba", [True] * 3, 0.6 * 3 / 5 + 0.4 * np.mean([3 / 5, 2 / 4, 2 / 3, 2 / 4, 3 / 5])),
    "no row but the new one": ([], "", [], 1 / 3),
}
"""Rows on a line, their labels, the rows of E, and the probability of the first class at .5 by hand. Of two points on a
line a split makes one of I + 1 = 3 divisions."""


@pytest.mark.parametrize("splitting", ["global", "local"])
@pytest.mark.parametrize("engine", ["exact", "smc"])
@pytest.mark.parametrize("name", SMALL)
def test_small_samples_by_hand(name, engine, splitting):
    rows, labels, estimation, expected = SMALL[name]
    classes = ["a", "b"] if rows else ["c", "a", "b"]
    how = {"engine": engine, "splitting": splitting, "classes": classes, "tree_prior": ONE, "rng": 1}
    if engine == "smc":
        how |= {"chains": 2, "draws": 200, "particles": 20}
    X = np.array(rows, dtype=float).reshape(-1, 1)
    mixture = exact.data_dependent_mixture(X, list(labels), [[0.5]], estimation=estimation, **how)
    assert mixture.probability.sum(axis=1) == pytest.approx(1.0)
    assert mixture.classes.tolist() == sorted(classes)
    assert mixture.probability[0, 0] == pytest.approx(expected)


def test_one_row_and_a_class_that_is_not_named():
    how = {"estimation": [True], "tree_prior": ONE}
    assert exact.data_dependent_mixture([[0.3]], ["a"], [[0.5]], **how).probability.tolist() == [[1.0]]
    with pytest.raises(ValueError, match="holds 'a', which is not among"):
        exact.data_dependent_mixture([[0.3]], ["a"], [[0.5]], classes=["b", "c"], **how)
    with pytest.raises(ValueError, match="give classes="):
        exact.data_dependent_mixture(np.empty((0, 1)), [], [[0.5]], **how)


def test_a_class_that_does_not_occur_has_its_part():
    """Adding a class changes the leaves from K = 2 to 3, and no division of the rows."""
    X, y = table(5, 6)
    how = {"estimation": [True] * 6, "tree_prior": pt.BranchingProcess(0.0, max_depth=1)}
    counts = np.bincount(y, minlength=3)
    mixture = exact.data_dependent_mixture(X, y, X[:1], classes=[0, 1, 2], **how)
    assert mixture.probability[0] == pytest.approx((counts + 1.0) / 9.0)


def populations(X, y, new, estimation):
    return exact.data_dependent_mixture(
        X, y, new, estimation=estimation, tree_prior=PRIOR, engine="smc", together=True, chains=4, draws=1000,
        particles=200, rng=3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(8)
    X = rng.permutation(12)[:, None] + 0.0
    y = (X[:, 0] > 3).astype(int)
    return X, y, np.array([[0.5], [3.4], [9.5]]), np.arange(12) % 2 == 0


@pytest.mark.more
def test_populations_with_weights_agree_with_the_sum(case):
    truth = exact.data_dependent_mixture(
        *case[:3], estimation=case[3], tree_prior=PRIOR, together=True
    )  # fmt: skip
    estimates = populations(*case)
    assert np.abs(estimates.probability - truth.probability).max() < 4 * estimates.standard_error.max() + 1e-3
    assert estimates.standard_error.max() < 0.01
    assert 0.3 < estimates.ess < 1.0


@pytest.mark.more
@pytest.mark.planted
def test_populations_without_weights_do_not(case, monkeypatch):
    truth = exact.data_dependent_mixture(*case[:3], estimation=case[3], tree_prior=PRIOR, together=True)
    monkeypatch.setattr(SplittingCounts, "log_count", lambda *_: 0.0)
    estimates = populations(*case)
    assert np.abs(estimates.probability - truth.probability).max() > 4 * estimates.standard_error.max() + 1e-3


def test_weights_are_normalised_over_many_draws():
    stage = np.repeat(np.arange(200), [1, 0] * 80 + [30] * 40)
    blocks = data_dependent.blocks_of_stages(stage)
    assert np.concatenate(blocks).tolist() == list(range(len(stage)))
    assert min(len(block) for block in blocks) >= data_dependent.MIN_BLOCK_DRAWS
    assert max(len(block) for block in blocks) < 2 * data_dependent.MIN_BLOCK_DRAWS
    assert all(stage[one[-1]] < stage[two[0]] for one, two in zip(blocks, blocks[1:], strict=False))
    assert len(data_dependent.blocks_of_stages(np.arange(20))) == 1


STRUCTURES = [
    chain([0], [True]),
    chain([0, 1], [True, False]),
    chain([1, 0, 1], [False, True, True]),
    pt.Tree([0, 1, -1, -1, 0, -1, -1], [0.0] * 7, [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 0, 6, 0, 0]),
]


@pytest.mark.more(everyday=["2 leaves"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda tree: f"{tree.n_leaves} leaves")
def test_counts_of_splittings(structure):
    X, _ = table(9, 9, 2, 6)
    count = exact.count_global_splittings(X, structure)
    assert np.exp(SplittingCounts(X).log_count(structure)) == pytest.approx(count)


def test_counts_of_some_cuts_are_unbiased(monkeypatch):
    monkeypatch.setattr(global_splitting, "MAX_FOLLOWED_CUTS", 4)
    X, _ = table(9, 30, 2, 20)
    count = exact.count_global_splittings(X, STRUCTURES[2])
    counts = [np.exp(SplittingCounts(X, seed).log_count(STRUCTURES[2])) for seed in range(300)]
    error = np.std(counts) / np.sqrt(len(counts))
    assert error < 0.05 * count
    assert np.mean(counts) == pytest.approx(count, abs=4 * error)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"splitting": "both"}, "splitting='both' is unknown"),
        ({"engine": "mcmc"}, "engine='mcmc' is unknown"),
        ({"X_new": [[1.0]]}, "X has 1 columns"),
        ({"X_new": [[1.0, np.nan]]}, "contains NaN"),
        ({"X_new": np.empty((0, 2))}, "at least one"),
        ({"X": [[1.0, np.nan]] * 4}, "missing or infinite"),
        ({"y": [0, 1]}, "give one label a row"),
    ],
)
def test_bad_input(change, message):
    X, y = table(0, 4)
    arguments = {"X": X, "y": y, "X_new": X, "estimation": 0.5, "tree_prior": PRIOR, **change}
    with pytest.raises(ValueError, match=message):
        exact.data_dependent_mixture(**arguments)


def test_columns_of_new_rows_are_found_by_name():
    X, y = table(0, 6)
    named = pd.DataFrame(X, columns=["a", "b"])
    new = pd.DataFrame([[0.5, 3.0]], columns=["a", "b"])
    how = {"estimation": 0.5, "tree_prior": PRIOR}
    one = exact.data_dependent_mixture(named, y, new, **how)
    two = exact.data_dependent_mixture(named, y, new[["b", "a"]], **how)
    assert two.probability.tolist() == one.probability.tolist()
    assert exact.data_dependent_mixture(X, y, new, **how).probability.tolist() == one.probability.tolist()
    with pytest.raises(ValueError, match="X lacks column 'b'"):
        exact.data_dependent_mixture(named, y, new.rename(columns={"b": "c"}), **how)


def test_the_global_prior_needs_trivial_splits():
    X, y = table(0, 4)
    with pytest.raises(ValueError, match="trivial"):
        exact.progressive_mixture(pt.TreeModel(X, y), global_splitting=True)
