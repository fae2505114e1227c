"""Trees whose odds are not those of the model: global splitting priors, means over stages, and draws of them."""

import re

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.systems.progressive.global_splitting import solve_global_splitting

X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [2.0, 1.0]])
Y = np.array([0, 0, 1, 0, 1, 1])


def model_of(trivial=True, depth=2):
    prior = pt.BranchingProcess(0.5, max_depth=depth)
    return pt.TreeModel(X, Y, tree_prior=prior, split_prior=pt.LocalCuts(trivial=trivial))


@pytest.fixture(scope="module")
def globally():
    return solve_global_splitting(model_of())


@pytest.fixture(scope="module")
def mixture():
    return exact.progressive_mixture(model_of(False))


@pytest.fixture(scope="module")
def staged():
    return pt.progressive_mixture(model_of(False), rng=1, chains=2, draws=20, particles=10)


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
    with pytest.raises(ValueError, match="many stages"):
        mixture.to_arviz(draws=20, log_likelihood=True)


def test_engines_under_different_priors_are_not_compared(globally):
    local = exact.solve(globally.model, progress=False)
    for truth, sampled in ((globally, local), (local, globally)):
        with pytest.raises(ValueError, match="global splitting prior"):
            exact.compare(truth, sampled.sample(100, rng=1))
    assert exact.compare(globally, globally.sample(2000, rng=1)).max_abs_z < 5


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
    assert "no common order" in page and "credible set has" not in page
    assert not re.search(r'"level": ?[0-9]', page)
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
    assert post.shapes().shapes[0].tree.threshold[0] == 14.5
    assert post.map_tree().threshold[0] == 14.5


@pytest.mark.parametrize("prior", ["conditioned", "penalty"])
def test_chains_do_not_know_the_mass_of_the_prior(prior):
    model = pt.TreeModel(X, Y, tree_prior=PRIORS[prior], split_prior=pt.LocalCuts())
    trees = exact.solve(model, progress=False).draw_trees(5, 1)
    with pytest.raises(ValueError, match="draws do not determine"):
        pt.posterior_from_trees(model, trees).kl_to_prior()
