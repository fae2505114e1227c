"""Equation 9: the global prior over stages against enumeration, the new row among the points, populations, counts."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.systems.progressive.global_splitting import SplittingCounts
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
