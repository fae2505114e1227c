"""The progressive mixture by Monte Carlo against the exact one, and how examples enter a tree."""

import os
import signal
import threading

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import smc as _stages
from pactree_mcmc.mcmc.state.terms import next_node
from tests.problems.refusals import refuses

FAST = {"kernel": "grow-prune", "chains": 12, "particles": 60, "draws": 200}
BAD_ARGUMENTS = [
    ({"engine": "gibbs"}, "engine='gibbs' is unknown"),
    ({"particles": 1}, "particles=1"),
    ({"steps": 0}, "steps=0"),
    ({"block": 0}, "block=0"),
    ({"chains": 1}, "chains=1"),
    ({"draws": 0}, "draws=0"),
    ({"threshold": 0.0}, r"threshold=0\.0"),
    ({"kernel": "no"}, "kernel='no'"),
]


def table(n, seed=0):
    """Two numbers, the first one coarse, and three classes that follow them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(6, size=n) / 6, rng.random(n)])
    y = np.where(rng.random(n) < 0.7, (X[:, 0] * 3).astype(int), rng.integers(3, size=n))
    y[:3] = [0, 1, 2]
    return X, y


def frozen_model(n=60, **parts):
    X, y = table(n)
    options = {"tree_prior": pt.BranchingProcess(0.4, 3), "split_prior": pt.DyadicCuts(2, bounds=[[0, 1]] * 2), **parts}
    return pt.TreeModel(X, y, leaf=pt.FrozenLaplace(), estimation=0.5, **options)


def dyadic_model():
    return frozen_model()


def local_with_ties():
    return frozen_model(24, tree_prior=pt.ChipmanPrior(0.7, 1.0), split_prior=pt.LocalCuts())


def penalised_grid():
    return frozen_model(40, tree_prior=pt.LeafPenalty(1.0, max_depth=3), split_prior=pt.GridCuts(3))


def conditioned_with_weights():
    X, y = table(30)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], 30)
    prior = pt.BranchingProcess(0.4, 2, conditioned=True)
    return pt.TreeModel(
        X, y, tree_prior=prior, split_prior=pt.GridCuts(2), leaf=pt.DirichletMultinomial(), sample_weight=weight
    )


def regression_with_categories():
    rng = np.random.default_rng(3)
    X = np.array([["a", "b", "c"][i] for i in rng.integers(3, size=25)], dtype=object)[:, None]
    X = np.column_stack([X, rng.integers(4, size=25).astype(object)])
    y = np.where(X[:, 0] == "b", 1.5, 0.0) + rng.normal(size=25)
    leaf = pt.NormalInverseGamma(0.0, 0.5, 2.0, 2.0)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.8, 1.0), leaf=leaf, nominal=[0])


PROBLEMS = [dyadic_model, local_with_ties, penalised_grid, conditioned_with_weights, regression_with_categories]


def points(model):
    if model.columns.is_nominal.any():
        return np.array([["a", 0.0], ["b", 3.0], ["c", 1.5]], dtype=object)
    return np.array([[0.1, 0.2], [0.5, 0.9], [0.9, 0.4]])


def values_of(mixture, X):
    """Predictions (n, d), and their standard errors if there are any."""
    if mixture.model.classes_ is None:
        errors = mixture.predict_se(X)[:, None] if hasattr(mixture, "predict_se") else None
        return mixture.predict(X)[:, None], errors
    return mixture.predict_proba(X), mixture.predict_proba_se(X) if hasattr(mixture, "predict_proba_se") else None


@pytest.mark.more(everyday=["dyadic_model"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.__name__)
def test_smc_agrees_with_exact_within_its_error(problem):
    model = problem()
    truth, sampled = exact.progressive_mixture(model), pt.progressive_mixture(model, **FAST, rng=2)
    expected, _ = values_of(truth, points(model))
    values, error = values_of(sampled, points(model))
    assert np.all(abs(values - expected) < 5 * error + 1e-12) and error.max() < 0.1 * max(1.0, abs(expected).max())
    assert abs(sampled.log_evidence - truth.log_evidence) < 5 * sampled.log_evidence_se
    assert sampled.log_evidence_se < 0.5
    distribution, of_draws = truth.n_leaves_pmf(), sampled.n_leaves_pmf()
    size = max(len(distribution), len(of_draws))
    assert (
        abs(np.pad(distribution, (0, size - len(distribution))) - np.pad(of_draws, (0, size - len(of_draws)))).max()
        < 0.06
    )
    assert model.log_posterior(sampled.map_tree()) <= model.log_posterior(truth.map_tree()) + 1e-9


def test_populations_move_at_powers_of_three_halves():
    stages = [n for n in range(1, 100) if _stages.is_move_due(n - 1, n)]
    assert stages == [1, 2, 3, 4, 6, 8, 12, 18, 26, 39, 58, 87] and _stages.is_move_due(4, 7)
    assert not _stages.is_move_due(8, 11)


@pytest.mark.more
def test_mcmc_is_biased_and_less_so_with_more_steps():
    model = frozen_model(80)
    X = np.random.default_rng(5).random((50, 2))
    expected = exact.progressive_mixture(model).predict_proba(X)
    errors = []
    for steps in (1, 100):
        sampled = pt.progressive_mixture(model, engine="mcmc", kernel="grow-prune", steps=steps, chains=8, rng=4)
        difference, error = sampled.predict_proba(X) - expected, sampled.predict_proba_se(X)
        errors.append(abs(difference).mean())
        assert sampled.log_evidence is None
    assert errors[0] > 2 * errors[1] and np.all(abs(difference) < 5 * error)


def test_statistics_of_draws_are_those_of_their_stage():
    model = frozen_model()
    sampled = pt.progressive_mixture(model, engine="mcmc", kernel="grow-prune", steps=3, chains=2, draws=31, rng=0)
    assert sampled.stage.min() == 0 and sampled.stage.max() == 30
    staged = np.flatnonzero(~model.target.estimation)
    X, y = table(60)
    for draw in range(0, 31, 5):
        t, n_entered = int(sampled.draws.tree_of_draw[0, draw]), int(sampled.stage[0, draw])
        weight = np.ones(60)
        weight[staged[n_entered:]] = 0.0
        at_stage = pt.TreeModel(
            X,
            y,
            tree_prior=model.tree_prior,
            split_prior=model.split_prior,
            leaf=pt.FrozenLaplace(),
            estimation=0.5,
            sample_weight=weight,
        )
        tree = sampled.draws.distinct_tree(t)
        assert sampled.draws.log_score_of_tree[t] == pytest.approx(at_stage.log_score(tree), abs=1e-9)
        assert sampled.draws.log_prior_of_tree[t] == pytest.approx(at_stage.log_prior(tree), abs=1e-9)


def test_both_scores_of_a_node_follow_its_rows(monkeypatch):
    """Moves that keep tables propose by ``guided_score``, which is the score itself where no variance is shared."""
    enter, scores = _stages.Repetition.enter, []

    def enter_and_look(self, start, stop, stage):
        enter(self, start, stop, stage)
        for chain in self.chains:
            node = np.int64(0)
            while node >= 0:
                record = chain.state.node[node]
                scores.append((float(record.guess), float(record.score)))
                node = np.int64(next_node(chain.packed_state, node, np.int64(0)))

    monkeypatch.setattr(_stages.Repetition, "enter", enter_and_look)
    pt.progressive_mixture(frozen_model(), kernel="grow-prune", chains=2, particles=5, draws=10, rng=0)
    guided_score, score = np.array(scores).T
    assert np.ptp(score) > 1.0 and np.array_equal(guided_score, score)


@pytest.mark.more
def test_blocks_of_examples_and_shuffled_orders():
    model = frozen_model()
    coarse = pt.progressive_mixture(model, **FAST, block=7, rng=1)
    assert np.unique(coarse.stage).tolist() == [0, 7, 14, 21, 28, 30]
    assert np.bincount(coarse.stage[0])[0] == pytest.approx(200 * 7 / 31, abs=1)
    truth = exact.progressive_mixture(model)
    assert abs(coarse.log_evidence - truth.log_evidence) < 5 * coarse.log_evidence_se
    shuffled = pt.progressive_mixture(model, **FAST, shuffle=True, rng=1)
    symmetric = exact.progressive_mixture(model, orders=200, rng=1)
    X = points(model)
    difference = abs(shuffled.predict_proba(X) - symmetric.predict_proba(X))
    assert np.all(difference < 5 * shuffled.predict_proba_se(X))


def test_same_seed_same_draws_whatever_the_workers(monkeypatch):
    model = frozen_model()
    arguments = {"kernel": "grow-prune", "chains": 3, "particles": 10, "draws": 20, "rng": 7}
    many = pt.progressive_mixture(model, **arguments)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    one = pt.progressive_mixture(model, **arguments)
    assert np.array_equal(many.draws.tree_of_draw, one.draws.tree_of_draw)
    assert np.array_equal(many.stage_log_evidence, one.stage_log_evidence)


def test_interrupted_runs_keep_the_stages_done(monkeypatch):
    enter, run, barrier = _stages.Repetition.enter, _stages.Repetition.run, threading.Barrier(2)

    def run_noting_stop(self, stop=None):
        self.noted = stop
        return run(self, stop)

    def enter_and_interrupt(self, start, end, stage):
        enter(self, start, end, stage)
        if stage == 20:
            if barrier.wait(60) == 0:
                os.kill(os.getpid(), signal.SIGINT)
            self.noted.wait(60)

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(_stages.Repetition, "run", run_noting_stop)
    monkeypatch.setattr(_stages.Repetition, "enter", enter_and_interrupt)
    # a shell that runs the tests in the background lets them ignore the signal
    old_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(UserWarning, match="interrupted: the mean is over the stages with at most 20"):
            post = pt.progressive_mixture(
                frozen_model(), kernel="grow-prune", engine="mcmc", chains=2, draws=310, rng=0
            )
    finally:
        signal.signal(signal.SIGINT, old_handler)
    assert 190 < post.n_draws < 220 and post.stage.max() == 20
    assert post.predict_proba([[0.5, 0.5]]).sum() == pytest.approx(1.0)
    refuses("last stage was not reached", lambda: post.map_tree())


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments(arguments, message):
    refuses(message, lambda: pt.progressive_mixture(frozen_model(), **arguments))
