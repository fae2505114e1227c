"""Moves under splits that a function of the user weighs: errors planted in the weights break the balance."""

from math import exp, inf, log

import pytest

import pactree_mcmc as pt
from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.planting import BALANCED, BREACH, Bug, breach, plant

SCAN, RESHAPE, ROTATION, SPLITS, CARRY = (
    f"mcmc.{name}"
    for name in ("sums.split_sums", "moves.reshape", "edits.rotate_in_place", "state.splits", "edits.carry_over")
)


def test_moves_that_need_even_splits_are_refused_by_name():
    model = pt.TreeModel([[0.0], [1.0], [2.0]], [0, 1, 1], split_prior=pt.CustomSplits(lambda cut: cut.left))
    for kernel in ({"learned": 1.0}, "whole", {"default": 0.5, "learned": 0.5}):
        with pytest.raises(ValueError, match="equally likely"):
            pt.sample(model, 10, tune=10, kernel=kernel)
    with pytest.raises(ValueError, match="equally likely"):
        pt.progressive_mixture(model, kernel={"learned": 1.0})


def unweighed(right, model, state, node, k, cut):
    """A split carried over weighs what all do."""
    weight = plain_package().module(SPLITS).log_cut_weight(model, state, node, k, cut)
    return right(model, state, node, k, cut) - weight


def uniform_part(right, model, state, node, k, n, split):
    """Ways count as often as there are cuts, whatever these weigh."""
    box = plain_package().module("model.split_prior.base").parts_box(model.split_prior)
    codes = state.scratch.codes.distinct
    return float(codes[split + 1] - codes[split]) if box and split >= 0 else 1.0


def first_of_alike(right, rng, model, state, node, k, cut, count):
    """Cuts in a gap are drawn evenly."""
    return plain_package().module("mcmc.state.random").pick(rng, count)


def stays(right, model, state, node, k, cut):
    """R of the upper node of a turned edge stays what it was."""
    record = state.node[node]
    return record.log_rule if record.left >= 0 and record.parent < 0 else right(model, state, node, k, cut)


def by_shape_alone(right, model, state, i, j, k, d):
    """Cuts of a block are drawn as if they weighed the same."""
    log_rule = state.scratch.reshape.log_rule[i, j]
    mean = log(sum(exp(log_rule[b]) for b in range(i, j)) / (j - i))
    return right(model, state, i, j, k, d) - log_rule[k] + mean


def keyless(right, model, state, node):
    """Cells of other depths are taken for the same."""
    state.node[node].depth, depth = 0, state.node[node].depth
    place = right(model, state, node)
    state.node[node].depth = depth
    return place


def without_joint(right, rule, weight, mass):
    """A feature's part does not grow with the mass of its splits."""
    return weight


def factor_without_rule(right, model, state, node):
    """R of the splits of a subtree stays as it sinks."""
    factor = right(model, state, node)
    is_inner = state.node[node].left >= 0
    return factor - state.node[node].log_rule if is_inner and factor > -inf else factor


BUGS = {
    "weight of a split dropped from W": Bug("collapsed", "own_line", ((SCAN, "weight_of_alike_splits", uniform_part),)),
    "weight dropped from R": Bug("swap", "own_even", ((CARRY, "log_rule_of", unweighed),)),
    "weights in a gap": Bug("collapsed", "own_grid", ((SCAN, "draw_alike_cut", first_of_alike),)),
    "R above a turned edge": Bug("rotate", "own_line", ((ROTATION, "log_rule_of", stays),)),
    "R of sunk splits": Bug("rotate", "own_deep_edge", ((ROTATION, "log_prior_factor", factor_without_rule),)),
    "cuts of a block": Bug("reshape", "own_line", ((RESHAPE, "log_cut_term", by_shape_alone),)),
    "depth not part of a cell": Bug(
        "collapsed", "own_deep", ((SPLITS, "claim_cell_entry", keyless), (SCAN, "claim_cell_entry", keyless))
    ),
    "mass of features": Bug("collapsed", "own_wide", ((SCAN, "feature_rule_weight", without_joint),)),
}


@pytest.mark.more(everyday=["weight of a split dropped from W"])
@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_error_breaks_the_balance(name, monkeypatch):
    bug = BUGS[name]
    plant(monkeypatch, bug)
    assert breach(bug) > BREACH


@pytest.mark.more(everyday=["weight of a split dropped from W"])
@pytest.mark.parametrize("name", BUGS)
def test_what_is_planted_is_right_without_the_error(name, monkeypatch):
    bug = BUGS[name]
    plant(monkeypatch, bug, right=True)
    assert breach(bug) < BALANCED
