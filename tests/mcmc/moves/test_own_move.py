"""A move of one's own: proved by its matrix; errors planted in one are found, and said in plain words."""

from math import log

import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import moves
from pactree_mcmc.mcmc.edits.proposal import GROW, PRUNE
from tests.mcmc.moves.own_moves import (
    SETTINGS,
    WIDER,
    another_cut,
    compiled,
    grow_or_prune,
    own_cut,
    own_growth,
    redraw_all,
    small_model,
)

# the matrix


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"split_prior": pt.LocalCuts(trivial=True)},
        {"split_prior": pt.GridCuts([[0.5, 1.5], [1.5]])},
        {"split_prior": pt.LocalCuts(min_leaf=2)} | WIDER,
        {"nominal": [0]},
    ],
    ids=["local", "trivial", "grid", "min_leaf", "nominal"],
)
def test_own_moves_are_in_balance(parts):
    report = pt.testing.check_balance(own_cut(), small_model(**parts))
    assert report.imbalance < 1e-10
    assert not report.reaches_all
    report = pt.testing.check_balance(own_growth(), small_model(**parts))
    assert report.reaches_all
    assert report.moving > 0.01
    assert abs(report.transition.sum(axis=1) - 1.0).max() < 1e-12
    assert abs(report.posterior @ report.transition - report.posterior).max() < 1e-12


def test_the_trees_are_those_of_the_exact_engine():
    model = small_model()
    report = pt.testing.check_balance("swap", model)
    graph = exact.build_graph(model)
    assert report.n_trees == exact.count_trees(graph)


# errors planted in moves

either_way = moves.jit(grow_or_prune)


def wrong_ratio(rng, model, state):
    """R of the split is forgotten in the proposal ratio of a growth."""
    proposal = either_way(rng, model, state)
    if proposal.edit == GROW:
        return moves.growth(model, state, 0, proposal.node, proposal.log_proposal_ratio + log(2.0))
    return proposal


def wrong_prior(rng, model, state):
    proposal = either_way(rng, model, state)
    prior = proposal.log_prior_ratio * 1.01
    return moves.Proposal(
        proposal.edit,
        proposal.which,
        proposal.node,
        proposal.top,
        prior,
        proposal.log_score_ratio,
        proposal.log_proposal_ratio - (prior - proposal.log_prior_ratio),
        0.0,
    )


def loses_a_tree(rng, model, state):
    """The stump is left and never come back to."""
    proposal = either_way(rng, model, state)
    if proposal.edit == PRUNE and proposal.node == 0:
        return moves.refused(1)
    return proposal


def breaks_the_arrays(rng, model, state):
    proposal = either_way(rng, model, state)
    if proposal.edit == GROW:
        state.node[state.node[proposal.node].left].score += 0.25
    return proposal


PLANTED = {
    "wrong_ratio": (wrong_ratio, "their logs differ by"),
    "wrong_prior": (wrong_prior, "a log prior ratio of"),
    "loses_a_tree": (loses_a_tree, "the way back is never made"),
    "breaks_the_arrays": (breaks_the_arrays, "breaks the arrays"),
}


@pytest.mark.more(everyday=["wrong_ratio"])
@pytest.mark.planted
@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_move_is_named(name):
    step, words = PLANTED[name]
    with pytest.raises(pt.testing.BalanceError, match=words) as caught:
        pt.testing.check_balance(pt.Move(name, step, counts=("a", "b")), small_model())
    assert repr(name) in str(caught.value)
    assert "of posterior probability" in str(caught.value)


@pytest.mark.planted
@pytest.mark.parametrize(("step", "words"), [(another_cut, "replaces=False"), (redraw_all, "scans=False")])
def test_scratch_that_was_not_asked_for_is_named(step, words):
    """Compiled code checks no bounds: it would write behind the arrays."""
    flags = {words.partition("=")[0]: False}
    with pytest.raises(pt.testing.BalanceError, match=words):
        pt.testing.check_balance(pt.Move("mean", step, **flags), small_model())
    assert pt.testing.check_balance(pt.Move("mean", step), small_model()).imbalance < 1e-10


def says_nothing(rng, model, state):
    moves.nothing()


def counts_a_second(rng, model, state):
    return moves.refused(1)


def counts_below_zero(rng, model, state):
    return moves.refused(-1)


def draws_integers(rng, model, state):
    return moves.refused(rng.integers(1))


def draws_normal(rng, model, state):
    return moves.refused(0) if rng.normal() > 0.0 else moves.nothing()


def computes_with_chance(rng, model, state):
    return moves.refused(int(3 * rng.random()))


def returns_a_tuple(rng, model, state):
    return 1, 2


@pytest.mark.more(everyday=["counts_below_zero-which=-1"])
@pytest.mark.planted
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (says_nothing, r"returned nothing; return a Proposal in every case, moves.nothing\(\)"),
        (returns_a_tuple, "returned a tuple"),
        (counts_a_second, "which=1, and the move counts one number"),
        (counts_below_zero, "which=-1"),
        (draws_integers, "use moves.pick"),
        (draws_normal, "uses rng.normal"),
        (computes_with_chance, "only be compared"),
    ],
)
def test_what_a_step_may_not_return_or_draw_is_said(step, words):
    with pytest.raises(pt.testing.BalanceError, match=words) as caught:
        pt.testing.check_balance(pt.Move("mean", step), small_model())
    assert "of posterior probability" in str(caught.value)


@pytest.mark.more(everyday=["counts_a_second"])
@compiled
@pytest.mark.planted
@pytest.mark.parametrize("step", [counts_a_second, counts_below_zero])
def test_counts_of_other_moves_are_not_written(step):
    kernel = {"grow-prune": 0.5, pt.Move("mean", step, replaces=False, scans=False): 0.5}
    with pytest.raises(ValueError, match="which is not the number of one of its counts"):
        pt.sample(small_model(), kernel=kernel, **SETTINGS)


def test_a_move_that_moves_nothing_is_warned_of():
    with pytest.warns(UserWarning, match="nothing was checked"):
        report = pt.testing.check_balance(pt.Move("idle", lambda rng, model, state: moves.nothing()), small_model())
    assert report.moving == 0.0


def test_too_large_a_model_is_refused():
    with pytest.raises(ValueError, match="more than most_trees=10 trees"):
        pt.testing.check_balance("swap", small_model(), most_trees=10)
