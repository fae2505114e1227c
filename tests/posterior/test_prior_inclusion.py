"""Probabilities of features and of pairs of features; trees whose odds are not those of the model."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact.systems.progressive.global_splitting import solve_global_splitting
from pactree_mcmc.model import model as model_file
from tests.problems.refusals import refuses

from .spaces import MODELS, all_trees

N = 30
RNG = np.random.default_rng(4)
TABLE = pd.DataFrame(
    {"flat": 1.0, "size": RNG.integers(0, 4, N), "colour": RNG.choice(["red", "green"], N), "x": RNG.integers(0, 2, N)}
)
LABELS = np.where(TABLE["size"] > 1, "yes", "no")
X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
Y = np.array([0, 0, 1, 0, 1, 1])
# few cells can be split again, so the conditioned process ends where it would go on
PRIORS = {
    "conditioned": pt.BranchingProcess(0.5, 3, conditioned=True),
    "conditioned, by depth": pt.BranchingProcess([0.9, 0.3, 0.6], 2, conditioned=True),
    "penalty": pt.LeafPenalty(0.7, max_depth=3),
    "not conditioned": pt.BranchingProcess(0.5, 3),
}
FEW_CUTS = {
    "grid": pt.GridCuts([[0.5, 1.5], [0.5]]),
    "local": pt.LocalCuts(),
    "local, at least 2": pt.LocalCuts(min_leaf=2),
}


def model_of(prior=None, table=TABLE, **parts):
    prior = pt.ChipmanPrior(0.8, 1.0, max_depth=2) if prior is None else prior
    return pt.TreeModel(table, LABELS, tree_prior=prior, **parts)


def inclusion_by_enumeration(model):
    """Return the prior probability of each feature as a sum over all trees."""
    trees = exact.solve(model).best_trees(100_000).trees
    prior = np.exp([model.log_prior(tree) for tree in trees])
    uses = [[np.any(tree.feature == k) for k in range(model.n_features)] for tree in trees]
    return prior @ np.array(uses) / prior.sum()


@pytest.mark.parametrize("prior", [None, pt.LeafPenalty(0.7, max_depth=2), pt.BranchingProcess(0.4, 2)])
def test_the_exact_prior_is_the_sum_over_all_trees(prior):
    model = model_of(prior)
    inclusion = exact.solve(model).prior_inclusion()
    assert inclusion.to_dict() == pytest.approx(dict(zip(TABLE.columns, inclusion_by_enumeration(model))), abs=1e-9)
    assert inclusion["flat"] == pytest.approx(0.0, abs=1e-12) and inclusion.name == "probability"


def test_the_simulated_prior_agrees_and_is_drawn_once(monkeypatch):
    model = model_of()
    sampled = exact.solve(model).sample(50, rng=1)
    simulated = sampled.prior_inclusion(draws=400)
    truth = exact.solve(model).prior_inclusion()
    assert (simulated - truth).abs().max() < 4.0 * 0.5 / np.sqrt(400)
    monkeypatch.setattr(model_file, "draw_prior", None)
    assert sampled.prior_inclusion(draws=400).equals(simulated)
    visited = exact.visited(exact.solve(model_of()).sample(50, rng=1))
    monkeypatch.undo()
    assert (visited.prior_inclusion(draws=200) - truth).abs().max() < 0.15


@pytest.mark.parametrize(("alpha", "beta", "least", "most"), [(0.95, 2.0, 1000, 1000), (0.99, 0.2, 100, 400)])
def test_fewer_trees_are_drawn_by_default_if_they_are_large(alpha, beta, least, most, monkeypatch):
    X = np.random.default_rng(0).normal(size=(600, 2))
    model, n = pt.TreeModel(X, X[:, 0] > 0, tree_prior=pt.ChipmanPrior(alpha, beta)), []
    rng = np.random.default_rng(1)
    drawn = itertools.cycle([model_file.draw_prior(model, rng) for _ in range(20)])
    monkeypatch.setattr(model_file, "draw_prior", lambda *args: n.append(0) or next(drawn))
    pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])]).prior_inclusion()
    assert least <= len(n) <= most


def test_bad_input_is_refused():
    post = exact.solve(model_of()).sample(20, rng=1)
    refuses("draws=0 is out of range", lambda: post.prior_inclusion(draws=0))
    sampled = exact.solve(model_of(pt.LeafPenalty(0.7, max_depth=2))).sample(20, rng=1)
    match = r"cannot draw trees of LeafPenalty\(.*split by split\. Give exact\.solve.*pt\.simulate"
    refuses(match, lambda: sampled.prior_inclusion())
    # both ways that the message names
    assert exact.solve(sampled.model).prior_inclusion().max() > 0.0 and pt.simulate(sampled.model, 1)[0].n_leaves >= 1


def pairs_below(tree, node=0, ancestors=()):
    """The pairs of features of which one is split on below the other."""
    k = int(tree.feature[node])
    if k < 0:
        return set()
    here = {frozenset((j, k)) for j in ancestors if j != k}
    left, right = int(tree.left[node]), int(tree.right[node])
    return here | pairs_below(tree, left, (*ancestors, k)) | pairs_below(tree, right, (*ancestors, k))


@pytest.mark.parametrize("name", ["local, regression", "dyadic"])
def test_probabilities_are_those_of_all_trees_listed(name):
    model = MODELS[name]
    _, trees, probability = all_trees(model)
    expected, names = {}, model.columns.names
    for tree, p in zip(trees, probability, strict=True):
        for j, k in map(sorted, pairs_below(tree)):
            expected[names[j], names[k]] = expected.get((names[j], names[k]), 0.0) + p
    table = exact.solve(model).sample(1500, rng=1).interactions(0.0)
    assert {pair for pair, p in expected.items() if p > 0.01} <= set(zip(table["feature"], table["other"], strict=True))
    for feature, other, p, mcse in table.itertuples(index=False):
        assert p == pytest.approx(expected[feature, other], abs=0.06)
        assert mcse == pytest.approx(np.sqrt(p * (1.0 - p) / 1500), rel=0.3)


@pytest.mark.parametrize("wrong", [{"min_probability": 2.0}, {"most": 0}, {"draws": 0}])
def test_refused(wrong):
    refuses(next(iter(wrong)), lambda: exact.solve(MODELS["local, regression"]).interactions(**wrong))


def grid():
    a, b, c = (x.ravel().astype(float) for x in np.meshgrid(*[np.arange(4)] * 3))
    return np.column_stack([a, b, c])


def test_pairs_of_one_tree_and_of_none():
    X = grid()
    model = pt.TreeModel(X, X[:, 0] > 1)
    post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    assert len(post.interactions()) == 0
    tree = pt.Tree([0, 1, -1, -1, -1], [1.5, 1.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])
    pairs = pt.posterior_from_trees(model, [tree]).interactions(1.0)
    assert pairs[["feature", "other", "probability"]].to_numpy().tolist() == [["x0", "x1", 1.0]]
    assert len(pt.posterior_from_trees(model, [tree], [[0]]).interactions(most=1)) == 1


def stopped_model(trivial=True, depth=2):
    prior = pt.BranchingProcess(0.5, max_depth=depth)
    return pt.TreeModel(X, Y, tree_prior=prior, split_prior=pt.LocalCuts(trivial=trivial))


@pytest.fixture(scope="module")
def globally():
    return solve_global_splitting(stopped_model())


@pytest.fixture(scope="module")
def mixture():
    return exact.progressive_mixture(stopped_model(False))


@pytest.fixture(scope="module")
def staged():
    return pt.progressive_mixture(stopped_model(False), rng=1, chains=2, draws=20, particles=10)


def test_trees_that_a_set_lists_are_in_it_or_the_set_is_refused(globally):
    # the log prior of the model is that of other trees
    draws = globally.sample(50, rng=1)
    own = [globally.model.log_prior(draws.draws.distinct_tree(t)) for t in range(draws.draws.n_distinct_trees)]
    assert not np.allclose(own, draws.draws.log_prior_of_tree)
    for post in (globally, draws):
        with pytest.raises(ValueError, match="global splitting prior"):
            post.credible_set()


def test_means_over_stages_have_no_credible_set_and_neither_have_their_draws(mixture, staged):
    for post in (mixture, mixture.sample(50, rng=1), staged):
        with pytest.raises(ValueError, match="of many stages"):
            post.credible_set()


def test_a_file_keeps_what_the_draws_are_of(globally, mixture, tmp_path):
    for name, truth, message in (("prior", globally, "global splitting"), ("stages", mixture, "stages")):
        truth.sample(50, rng=1).save(tmp_path / f"{name}.nc")
        with pytest.raises(ValueError, match=message):
            pt.load(tmp_path / f"{name}.nc").credible_set()


def test_draws_of_stages_have_no_leave_one_out_densities(mixture):
    refuses("many stages", lambda: mixture.to_arviz(draws=20, log_likelihood=True))


def test_engines_under_different_priors_are_not_compared(globally):
    local = exact.solve(globally.model, progress=False)
    for truth, sampled in ((globally, local), (local, globally)):
        with pytest.raises(ValueError, match="global splitting prior"):
            exact.compare(truth, sampled.sample(100, rng=1))
    assert exact.compare(globally, globally.sample(2000, rng=1)).max_abs_z < 5


@pytest.mark.more(everyday=[f"{s}-{prior}-{cuts}" for prior in PRIORS for s, cuts in ((0.0, "local"), (3.0, "grid"))])
@pytest.mark.parametrize("cuts", FEW_CUTS)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_both_engines_divide_the_prior_by_its_mass(prior, cuts, strength, tmp_path):
    model = pt.TreeModel(X, Y, tree_prior=PRIORS[prior], split_prior=FEW_CUTS[cuts], leaf=pt.PacBayesLoss(strength))
    truth = exact.solve(model, progress=False)
    draws = truth.sample(20_000, rng=1)
    # the divergence of n draws from their own distribution is about (trees - 1) / 2 n
    slack = draws.draws.n_distinct_trees / 20_000 + 0.01 * strength
    assert draws.kl_to_prior() == pytest.approx(truth.kl_to_prior(), abs=slack)
    assert strength > 0.0 or truth.kl_to_prior() == pytest.approx(0.0, abs=1e-9)
    draws.save(tmp_path / "draws.nc")
    assert pt.load(tmp_path / "draws.nc").kl_to_prior() == draws.kl_to_prior()


@pytest.mark.parametrize("which", ["globally", "staged"])
def test_a_report_has_no_levels_of_such_trees(which, request, tmp_path):
    post = request.getfixturevalue(which)
    page = post.report(tmp_path / "page.html").read_text()
    assert "no common order" in page and "credible set has" not in page and not re.search(r'"level": ?[0-9]', page)
    assert ("log posterior -" in page) == (which == "globally")


def test_trees_of_different_stages_are_ordered_by_their_draws():
    # at the first stages every tree has a score near 0, at the last one all scores are far below
    x = np.arange(30.0)[:, None]
    y = x[:, 0] > 14
    model = pt.TreeModel(x, y, tree_prior=pt.ChipmanPrior(max_depth=1))
    stump = pt.Tree([0, -1, -1], [14.5, 0, 0], [1, 0, 0], [2, 0, 0])
    early = pt.Tree([0, -1, -1], [3.5, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [stump, early], [[0] * 9 + [1]])
    post.draws.sees_all_rows = False
    post.draws.log_score_of_tree = np.array([-10.0, -0.5])
    assert post.shapes().shapes[0].tree.threshold[0] == 14.5 and post.map_tree().threshold[0] == 14.5


@pytest.mark.parametrize("prior", ["conditioned", "penalty"])
def test_chains_do_not_know_the_mass_of_the_prior(prior):
    model = pt.TreeModel(X, Y, tree_prior=PRIORS[prior], split_prior=pt.LocalCuts())
    trees = exact.solve(model, progress=False).draw_trees(5, 1)
    refuses("draws do not determine", lambda: pt.posterior_from_trees(model, trees).kl_to_prior())
