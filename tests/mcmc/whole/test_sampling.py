"""Independent trees weigh what they should; the evidence by bridge sampling between draws and density."""

import copy

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain, set_density
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import IS_GROWING, NONE, initial_density, new_graph
from pactree_mcmc.mcmc.whole import evidence as _evidence
from pactree_mcmc.mcmc.whole.density.graph import merge_graphs
from pactree_mcmc.mcmc.whole.evidence import team_evidences
from pactree_mcmc.mcmc.whole.tasks import sample_independent, set_growing
from pactree_mcmc.posterior.convergence import check_convergence
from pactree_mcmc.posterior.evidence import combined_evidence, prior_mass
from tests.problems.runs import MODELS as SAMPLED

ERRORS = 4.5
SEEDS = (1, 2, 3, 4)
SOLVED = {
    "classes": lambda: pt.TreeModel(X, Y > 1.5, tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)),
    "numbers": lambda: pt.TreeModel(
        X, Y, leaf=pt.NormalInverseGamma(0.5, 0.5, 2.0, 0.5), tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)
    ),
    "known variance": lambda: pt.TreeModel(
        X, Y, nominal=[2], leaf=pt.NormalKnownVariance(0.4, 0.5, 0.5), tree_prior=pt.BranchingProcess(0.45, max_depth=3)
    ),
}
N = 3000
"""Number of trees drawn, and the standard errors by which a mean may be off."""
STUMP = pt.Tree([-1], [0], [0], [0])
MODELS = {
    "classes": lambda: pt.TreeModel(
        X_OF_INDEPENDENT, Y_OF_INDEPENDENT > 1.0, nominal=[2], tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)
    ),
    "grid": lambda: pt.TreeModel(
        X_OF_INDEPENDENT,
        Y_OF_INDEPENDENT,
        nominal=[2],
        sample_weight=WEIGHT,
        leaf=pt.NormalInverseGamma(0.5, 0.5, 2.0, 0.5),
        split_prior=pt.GridCuts([[0.5, 1.5, 3.5], [1.5, 2.5], None]),
        tree_prior=pt.LeafPenalty(0.7, max_depth=3),
    ),
    "two rows": lambda: pt.TreeModel(
        X_OF_INDEPENDENT,
        Y_OF_INDEPENDENT,
        leaf=pt.NormalKnownVariance(0.4, 0.5, 0.5),
        split_prior=pt.LocalCuts(min_leaf=2, feature_weights=[1.0, 3.0, 2.0]),
        tree_prior=pt.BranchingProcess(0.45, max_depth=3, conditioned=True),
    ),
}
SENSELESS_EVIDENCES = [
    (lambda found: found[:1], "the evidences"),
    (lambda found: found[:, :1], "the evidences"),
    (lambda found: found.astype(np.int64), "the evidences"),
    (lambda found: np.where(found < -1.0, np.inf, found), "an evidence is not finite"),
    (lambda found: found * [1.0, -1.0], "the error of an evidence is negative"),
]


def rows(seed=2, n=60):
    """Three features of few values; y that hangs on the first and the last."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)
    return X, X[:, 0] / 2.0 + (X[:, 2] == 1.0) + 0.5 * rng.standard_normal(n)


X, Y = rows()


def run(model, rng=1, draws=250, **rest):
    return pt.sample(model, draws, rng=rng, progress=False, **rest)


@pytest.fixture(scope="module")
def solved():
    made = {}

    def of(name):
        if name not in made:
            model = SOLVED[name]()
            made[name] = exact.solve(model).log_evidence, [run(model, seed) for seed in SEEDS]
        return made[name]

    return of


def assert_right(truth, evidences):
    """The evidences (runs, 2) are within their errors of the truth, and so is their mean."""
    values, se = np.transpose(evidences)
    off = values - truth
    assert (se > 1e-3).all() and (se < 0.2).all(), se
    assert (abs(off) < ERRORS * se).all(), (off, se)
    assert abs(off.mean()) < ERRORS * np.sqrt((se**2).sum()) / len(se), (off, se)


def by_team(posts):
    return np.concatenate([post.course.evidences for post in posts])


def combined(posts):
    return [(post.log_evidence, post.log_evidence_se) for post in posts]


@pytest.mark.parametrize(
    "name", [name if name == "classes" else pytest.param(name, marks=pytest.mark.more) for name in SOLVED]
)
def test_the_evidence_of_each_team_is_the_exact_one(name, solved):
    truth, posts = solved(name)
    assert len(by_team(posts)) == 2 * len(posts)
    assert_right(truth, by_team(posts))
    assert_right(truth, combined(posts))
    for post in posts:
        assert (post.log_evidence, post.log_evidence_se) == combined_evidence(post.course.evidences)
        assert not any("log evidence" in line for line in check_convergence(post))


@pytest.mark.more(everyday=["log_weights_of_draws"])
@pytest.mark.planted
@pytest.mark.parametrize("side", ["sample_independent", "log_weights_of_draws"])
def test_a_density_off_by_a_factor_is_noticed(side, solved, monkeypatch):
    """As one whose probability of splitting at the root is forgotten on one side."""
    truth, posts = solved("classes")
    real = getattr(_evidence, side)
    monkeypatch.setattr(_evidence, side, lambda *given: real(*given) + np.log(1.5))
    with pytest.raises(AssertionError):
        assert_right(truth, np.concatenate([team_evidences(post) for post in posts]))


@pytest.mark.planted
def test_the_error_covers_a_difference_between_chains_of_a_team(solved, monkeypatch):
    """As if one chain of each team lay in a mode that the density makes ten times too likely."""
    _, posts = solved("classes")
    honest, real = team_evidences(posts[0]), _evidence.log_weights_of_draws
    monkeypatch.setattr(_evidence, "log_weights_of_draws", lambda *given: real(*given) + np.array([[0.0], [3.0]]))
    apart = team_evidences(posts[0])
    assert (honest[:, 1] < 0.2).all() and (apart[:, 1] > 0.3).all(), (honest, apart)


@pytest.mark.more
def test_files_and_further_draws_keep_it(solved, tmp_path):
    truth, posts = solved("classes")
    posts[0].save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert np.array_equal(again.course.evidences, posts[0].course.evidences)
    assert combined([again]) == combined(posts[:1])
    assert [rest.team for rest in again.course.rests] == [rest.team for rest in posts[0].course.rests] == [0, 1, 0, 1]
    more = pt.resume(again, 50, progress=False)
    assert more.course.teams == again.course.teams
    assert_right(truth, by_team([more]))


@pytest.mark.parametrize("chains", [1, 3])
def test_runs_of_given_length_have_one(solved, chains):
    truth, posts = solved("classes")
    post = run(posts[0].model, kernel="whole", tune=300, chains=chains)
    assert len(post.course.evidences) == min(chains, 2)
    assert_right(truth, by_team([post]))


@pytest.mark.more
def test_the_draws_stay_as_they_are(solved):
    """Evidences take their random numbers from a copy of a chain's generator."""
    _, posts = solved("numbers")
    other = run(posts[0].model)
    for _ in range(2):
        assert np.array_equal(team_evidences(other), other.course.evidences)
    more = [pt.resume(post, 20, progress=False) for post in (posts[0], run(posts[0].model))]
    assert np.array_equal(more[0].log_score, more[1].log_score)


@pytest.mark.parametrize(("spoil", "said"), SENSELESS_EVIDENCES)
def test_evidences_that_make_no_sense_are_refused(spoil, said, solved, tmp_path):
    post = copy.copy(solved("classes")[1][0])
    post.course = post.course._replace(evidences=spoil(post.course.evidences))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_an_error_that_is_not_known_is_kept(solved, tmp_path):
    post = copy.copy(solved("classes")[1][0])
    post.course = post.course._replace(evidences=post.course.evidences * [1.0, np.nan])
    post.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert np.isfinite(again.log_evidence) and again.log_evidence_se is None


@pytest.mark.parametrize("missing", [0.3, 0.7])
def test_trees_that_the_density_cannot_have_leave_an_evidence(missing):
    """Trees of the chains of infinite weight, as of more than 128 splits: only what both have in common counts."""
    rng = np.random.default_rng(4)
    # a density that is the posterior of evidence e^3 on half of its mass, and cannot have the other half
    chained = np.where(rng.random((4, 500)) < missing, np.inf, 3.0 + np.log(1.0 - missing))
    drawn = np.full(1000, 3.0 + np.log(1.0 - missing))
    log_evidence, se = _evidence.bridge_evidence(chained, drawn)
    assert log_evidence == pytest.approx(3.0, abs=0.2) and 0.0 < se < 0.3


def test_equal_weights_leave_an_error():
    """Trees of another weight may have been missed by all draws."""
    log_evidence, se = _evidence.bridge_evidence(np.full((2, 100), -3.0), np.full(400, -3.0))
    assert log_evidence == pytest.approx(-3.0, abs=1e-9) and se == 1.0 / 400


def test_a_density_without_any_tree_of_the_chains_has_none(solved, monkeypatch):
    _, posts = solved("classes")
    monkeypatch.setattr(_evidence, "log_weights_of_draws", lambda chain, post, team: np.full((2, 20), np.inf))
    assert team_evidences(posts[0]) is None


@pytest.mark.more(everyday=["classes-rest0"])
@pytest.mark.parametrize(
    ("name", "rest"),
    [("classes", {"kernel": "local"}), ("numbers", {"kernel": "cgm", "tune": 10}), ("shared variance", {})],
)
def test_others_have_none(name, rest):
    """Kernels that learn nothing, and leaves whose variance moves."""
    post = run(SAMPLED[name], draws=20, chains=2, **rest)
    assert post.log_evidence is None and post.log_evidence_se is None


@pytest.mark.more
def test_a_prior_of_unknown_mass_has_none():
    prior = pt.BranchingProcess(0.45, max_depth=3, conditioned=True)
    post = run(pt.TreeModel(X, Y, tree_prior=prior), draws=20, chains=2)
    assert prior_mass(post.model).log_mass is None and post.log_evidence is None and post.log_evidence_se is None


@pytest.mark.more
@pytest.mark.parametrize("kernel", ["default", "whole"])
def test_a_ladder_has_its_own(kernel):
    post = run(SAMPLED["classes"], draws=20, chains=2, betas=3, kernel=kernel)
    assert team_evidences(post) is None and post.course.evidences is None
    assert post.log_evidence == post.draws.tempering.log_evidence
    assert post.log_evidence_se == post.draws.tempering.log_evidence_se


@pytest.mark.more
def test_too_few_draws_have_no_error():
    post = run(SAMPLED["classes"], draws=3, chains=2)
    assert np.isnan(post.course.evidences[:, 1]).all()
    assert np.isfinite(post.log_evidence) and post.log_evidence_se is None


def rows_of_independent(seed=2, n=16):
    """Two ordered features with ties and a nominal one; y that hangs on the first and the last."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)
    return X, X[:, 0] / 2.0 + (X[:, 2] == 1.0) + 0.3 * rng.standard_normal(n), rng.random(n) + 0.5


X_OF_INDEPENDENT, Y_OF_INDEPENDENT, WEIGHT = rows_of_independent()


def any_density():
    """Parameters that were not fitted."""
    out = initial_density()
    out[:-1] += np.random.default_rng(7).normal(0.0, 0.1, out[:-1].shape)
    return out


def chain_of(model):
    chain = Chain(model.lowered, read_kernel({"learned": 1.0}), np.random.default_rng(11))
    set_density(chain, any_density(), 1.0)
    return chain


def growing_chain(model):
    chain = chain_of(model)
    set_growing(chain, new_graph(), 50_000)
    return chain


def assert_mean_weight(model, log_weights):
    """The mean of the weights is the exact evidence within its errors."""
    relative = np.exp(log_weights + model.prior_tables.log_constant - exact.solve(model).log_evidence)
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    assert 1e-4 < error < 0.3
    assert abs(relative.mean() - 1.0) < ERRORS * error, (relative.mean(), error)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_mean_weight_is_the_evidence(name):
    """Of trees by the density alone, and by a graph that contains some trees."""
    model = MODELS[name]()
    assert_mean_weight(model, sample_independent(chain_of(model), N))
    chain = growing_chain(model)
    sample_independent(chain, 20)
    chain.state.graph.used[IS_GROWING] = 0
    chain.use_graph(merge_graphs([chain.state.graph]))
    assert_mean_weight(model, sample_independent(chain, N))


@pytest.mark.planted
@pytest.mark.parametrize("error", [0.5, 2.0])
def test_weights_off_by_a_factor_are_noticed(error):
    """As those of a probability of the root's feature that is forgotten."""
    model = MODELS["classes"]()
    weights = sample_independent(chain_of(model), N)
    with pytest.raises(AssertionError):
        assert_mean_weight(model, weights + np.log(error))


def test_drawing_leaves_the_chain_where_it_was():
    """Its tree, its rows and its counts; and there is room again."""
    chain = chain_of(MODELS["grid"]())
    chain.run_blocks(3)
    chain.reserve(2)
    chain.save()
    before = {name: getattr(chain.state, name).copy() for name in ("order", "moves", "beta", "density")}
    free, tree = int(chain.state.count[3]), chain.saved.node.copy()
    sample_independent(chain, 50)
    chain.save(as_new=True)
    for name, array in before.items():
        assert np.array_equal(getattr(chain.state, name), array), name
    assert chain.state.count[3] >= free
    first, last = (int(start) for start in chain.saved.tree["start"][:2])
    assert np.array_equal(chain.saved.node[last : 2 * last - first], tree[first:last])


def test_no_decision_has_probability_0():
    """Though the log odds of splitting exceed 1,400 nats: a chain could not leave a stump otherwise."""
    X = np.random.default_rng(0).integers(0, 4, size=(6000, 2))
    chain = chain_of(pt.TreeModel(X, X[:, 0] > 1))
    sample_independent(chain, 1)
    guide = chain.state.stored.guide
    used = guide.hash != NONE
    assert guide.odds[used].max() > 1400.0
    assert np.isfinite(guide.log_stop[used]).all() and np.isfinite(guide.log_split[used]).all()
