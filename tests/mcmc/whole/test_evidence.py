"""The evidence by bridge sampling between draws of the chains and of the density they learned."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.run import bridge as _bridge
from pactree_mcmc.posterior.evidence import prior_mass
from tests.problems.everyday import everyday
from tests.problems.runs import MODELS

ERRORS = 4.5
SEEDS = (1, 2, 3, 4)


def rows(seed=2, n=60):
    """Three features of few values; y that hangs on the first and the last."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)
    return X, X[:, 0] / 2.0 + (X[:, 2] == 1.0) + 0.5 * rng.standard_normal(n)


X, Y = rows()
SOLVED = {
    "classes": lambda: pt.TreeModel(X, Y > 1.5, tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)),
    "numbers": lambda: pt.TreeModel(
        X, Y, leaf=pt.NormalInverseGamma(0.5, 0.5, 2.0, 0.5), tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)
    ),
    "known variance": lambda: pt.TreeModel(
        X,
        Y,
        nominal=[2],
        leaf=pt.NormalKnownVariance(0.4, 0.5, 0.5),
        tree_prior=pt.BranchingProcess(0.45, max_depth=3),
    ),
}


def run(model, rng=1, draws=250, **rest):
    return pt.sample(model, draws, rng=rng, progress=False, **rest)


@pytest.fixture(scope="module")
def solved():
    """By name: the exact log evidence, and a run of each seed."""
    made = {}

    def of(name):
        if name not in made:
            model = SOLVED[name]()
            made[name] = exact.solve(model).log_evidence, [run(model, seed) for seed in SEEDS]
        return made[name]

    return of


def assert_right(truth, posts):
    """Each within its errors of the truth, and so their mean."""
    off = np.array([post.log_evidence - truth for post in posts])
    se = np.array([post.log_evidence_se for post in posts])
    assert (se > 1e-4).all() and (se < 0.2).all()
    assert (abs(off) < ERRORS * se).all(), (off, se)
    assert abs(off.mean()) < ERRORS * np.sqrt((se**2).sum()) / len(se), (off, se)


@pytest.mark.parametrize("name", everyday(SOLVED, ["classes", "known variance"]))
def test_the_evidence_is_the_exact_one(name, solved):
    assert_right(*solved(name))


@pytest.mark.planted
@pytest.mark.parametrize("side", ["drawn_freely", "_chained"])
def test_a_density_off_by_a_factor_is_noticed(side, solved, monkeypatch):
    """As one whose probability of splitting at the root is forgotten on one side."""
    truth, posts = solved("classes")
    real = getattr(_bridge, side)
    monkeypatch.setattr(_bridge, side, lambda *given: real(*given) + np.log(1.5))

    class Again:
        def __init__(self, post):
            self.log_evidence, self.log_evidence_se = _bridge.bridge(post)[:2]

    with pytest.raises(AssertionError):
        assert_right(truth, [Again(post) for post in posts])


def test_files_and_further_draws_keep_it(solved, tmp_path):
    truth, posts = solved("classes")
    posts[0].save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert again.log_evidence == posts[0].log_evidence
    assert again.log_evidence_se == posts[0].log_evidence_se
    assert_right(truth, [pt.resume(again, 50, progress=False)])


def test_runs_of_given_length_that_learn_have_one(solved):
    truth, posts = solved("classes")
    assert_right(truth, [run(posts[0].model, kernel="whole", tune=300)])


def test_the_draws_stay_as_they_are(solved):
    """Bridging takes its randomness from where the first chain stopped, and leaves that alone."""
    _, posts = solved("numbers")
    other = run(posts[0].model)
    assert _bridge.bridge(other) == _bridge.bridge(other)
    more = [pt.resume(post, 20, progress=False) for post in (posts[0], run(posts[0].model))]
    assert np.array_equal(more[0].log_score, more[1].log_score)


@pytest.mark.parametrize("missing", [0.3, 0.7])
def test_trees_that_the_density_cannot_have_leave_an_evidence(missing):
    """Trees of the chains of infinite weight, as of more than 128 splits: only what both have in common counts."""
    rng = np.random.default_rng(4)
    # a density that is the posterior of evidence e^3 on half of its mass, and cannot have the other half
    chained = np.where(rng.random((4, 500)) < missing, np.inf, 3.0 + np.log(1.0 - missing))
    drawn = np.full(1000, 3.0 + np.log(1.0 - missing))
    found = _bridge._bridged(chained, drawn)
    assert found.log_evidence == pytest.approx(3.0, abs=0.2) and 0.0 < found.se < 0.3


def test_a_density_without_any_tree_of_the_chains_has_none(solved, monkeypatch):
    _, posts = solved("classes")
    monkeypatch.setattr(_bridge, "_chained", lambda chain, post: np.full((2, 20), np.inf))
    assert _bridge.bridge(posts[0]) is None


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("classes", {"kernel": "local"}),
        ("numbers", {"kernel": "cgm", "tune": 10}),
        ("shared variance", {}),
        ("unknown weights", {}),
    ],
)
def test_others_have_none(name, rest):
    """Kernels that learn nothing, leaves whose variance moves, and feature weights that do."""
    post = run(MODELS[name], draws=20, chains=2, **rest)
    assert post.log_evidence is None and post.log_evidence_se is None


def test_a_prior_of_unknown_mass_has_none():
    prior = pt.BranchingProcess(0.45, max_depth=3, conditioned=True)
    post = run(pt.TreeModel(X, Y, tree_prior=prior), draws=20, chains=2)
    assert prior_mass(post.model).log_mass is None
    assert post.log_evidence is None and post.log_evidence_se is None


@pytest.mark.parametrize("kernel", ["default", "whole"])
def test_a_ladder_has_its_own(kernel):
    post = run(MODELS["classes"], draws=20, chains=2, betas=3, kernel=kernel)
    assert _bridge.bridge(post) is None
    assert post.log_evidence == post.tempering.log_evidence
    assert post.log_evidence_se == post.tempering.log_evidence_se


def test_too_few_draws_have_no_error():
    post = run(MODELS["classes"], draws=3, chains=2)
    assert np.isfinite(post.log_evidence) and post.log_evidence_se is None
