"""Negative controls: every wrong ratio, count, check or table of a move breaks detailed balance."""

from math import exp, inf, log

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.state import records
from pactree_mcmc.testing.spaces import StateSnapshot, imbalance, plain_package, posterior_of
from tests.mcmc.planting import (
    BALANCED,
    BREACH,
    Bug,
    always,
    breach,
    in_proposal,
    never,
    one_less,
    one_more,
    only_within,
    plant,
    zero,
)
from tests.mcmc.transitions import KERNELS, STEPS, explore, new_ladder
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

GROW_PRUNE, BLANCHARD, COLLAPSED, CHANGE, INFORMED, SWAP = (
    f"mcmc.moves.{name}" for name in ("grow_prune", "blanchard", "collapsed", "change", "informed_change", "swap")
)
ROTATE = "mcmc.moves.rotate"
GROWTH, MERGE, ROTATION = "mcmc.edits.grow", "mcmc.edits.merge", "mcmc.edits.rotate_in_place"
SCAN, SPLITS = "mcmc.sums.split_sums", "mcmc.state.splits"
CHAIN, CARRY, LAST_ROW = "mcmc.chain.chain", "mcmc.edits.carry_over", 3
DENSITY, LEARNED = "mcmc.whole.density.density", "mcmc.moves.learned"
GRAPH, SYSTEMATIC = "mcmc.whole.density.graph", "mcmc.whole.density.systematic"
FEW_CANDIDATES = ((SCAN, "MAX_PARTITIONED_CATEGORIES", 2),)
FEW_LEARNED = (*FEW_CANDIDATES, (SYSTEMATIC, "MAX_PARTITIONED_CATEGORIES", 2))
MERGE_LITTLE = ((MERGE, "MAX_MERGED_LEAVES", 2),)
COUNTS = {
    "a stump grows with 1/2": lambda state, node, growable, prunable: log(2.0) if prunable == 0 else 0.0,
    "a full tree is pruned with 1/2": lambda state, node, growable, prunable: (
        -log(2.0) if growable_after(state, node, growable) == 0 else 0.0
    ),
    "prunable nodes of the old tree": lambda state, node, growable, prunable: (
        log(prunable_after(state, node, prunable)) - log(max(prunable, 1))
    ),
    "prunable parent forgotten": lambda state, node, growable, prunable: (
        log(prunable_after(state, node, prunable)) - log(prunable + 1)
    ),
    "growable leaves of the new tree": lambda state, node, growable, prunable: (
        log(max(growable_after(state, node, growable), 1)) - log(growable)
    ),
}
NO_FREEDOM = ((CHANGE, "make_plan_raw", zero), (CHANGE, "log_raw_forms_below", zero))
NO_FORMS = ((INFORMED, "make_plan_raw", zero), (INFORMED, "log_raw_forms_below", zero))
SWAP_BUGS = {
    "freedom of the top": Bug("swap", "min_leaf_mixed", ((SWAP, "log_raw_forms", zero),)),
    "freedom below": Bug("swap", "min_leaf_mixed", ((SWAP, "log_raw_forms_below", zero),)),
    "other child ignored": Bug(
        "swap", "trivial_line", ((SWAP, "has_same_split", lambda right, state, a, b: a != 0 and right(state, a, b)),)
    ),
}
ROW_HASH = tuple((m, "hash_integer", lambda right, x: 0 if x == LAST_ROW else right(x)) for m in (CHAIN, GROWTH))


def stops_left_out(right, model, state, top):
    """The leaves of the old tree are sure."""
    total, node = right(model, state, top), top
    terms, density = plain_package().module("mcmc.state.terms"), plain_package().module(DENSITY)
    lists = plain_package().module("mcmc.state.lists")
    while node >= 0:
        if lists.is_leaf(state, node) and state.node[node].splittable:
            total -= state.stored.guide[density.evaluate_cell(model, state, node)].log_stop
        node = terms.next_node(state, node, top)
    return total


def split_without_rule(right, model, state, node):
    return right(model, state, node) - state.node[node].log_rule


def learned_alone(right, model, state, node, place, k, rule, learned):
    """A split weighs what the learned part says."""
    return rule * exp(learned - state.stored.guide[place].log_learned)


def guide_of_another_cell(right, model, state, node):
    state.stored.guide[0].hash = state.node[node].hash
    return right(model, state, node)


def guide_at_another_depth(right, model, state, node):
    if state.stored.guide[0].hash == state.node[node].hash:
        state.stored.guide[0].depth = state.node[node].depth
    return right(model, state, node)


def nowhere(x):
    """A hash by which all that the density keeps has the same place."""
    return 0


ONE_GUIDE = ((DENSITY, "hash_integer", nowhere),)


def one_feature_if_pure(right, model, state, node, place):
    """In a cell of one class only one feature is drawn."""
    right(model, state, node, place)
    if plain_package().module(DENSITY)._has_one_class(model, state, node):
        fraction = state.stored.fraction[place]
        fraction *= np.arange(len(fraction)) == fraction.argmax()


def both(name, wrong):
    """Changes of a function where the density of a cell and that of a tree call it."""
    return tuple((module, name, wrong) for module in (DENSITY, GRAPH))


LEARNED_BUGS = {
    "old tree not weighed": Bug("learned", "box", ((LEARNED, "log_density", zero),)),
    "stops left out": Bug("learned", "box", ((LEARNED, "log_density", stops_left_out),)),
    "R dropped": Bug("learned", "min_leaf_mixed", ((GRAPH, "log_split_probability", split_without_rule),)),
    "defence forgotten": Bug(
        "learned", "ties", only_within(DENSITY, "log_split_probability", "split_probability", learned_alone, GRAPH)
    ),
    "picked by the tree": Bug("learned", "ties", ((LEARNED, "pick_cell", lambda right, *args: max(right(*args), 0)),)),
    "candidates": Bug("learned", "four_letters", ((GRAPH, "is_candidate", always),), FEW_LEARNED),
    "another cell": Bug("learned", "shallow_ties", both("evaluate_cell", guide_of_another_cell), ONE_GUIDE),
    "one feature if pure": Bug(
        "learned", "pure_below", ((DENSITY, "_evaluate_features", one_feature_if_pure),), leaf="dirichlet"
    ),
    "another depth": Bug("learned", "trivial_one", both("evaluate_cell", guide_at_another_depth), ONE_GUIDE, "penalty"),
}


def module(name):
    return plain_package().module(name)


def one(right, *args):
    return 1


def in_growth(error):
    """`log_growth_proposal_ratio` with an error, by the state, node and numbers of growable and prunable nodes."""
    return lambda right, *args: right(*args) + error(*args)


def growable_after(state, node, n_growable):
    """Return the number of growable leaves after the growth."""
    here = state.node[node]
    return n_growable - 1 + int(state.node[here.left].splittable) + int(state.node[here.right].splittable)


def prunable_after(state, node, n_prunable):
    """Return the number of prunable nodes after the growth."""
    lists = module("mcmc.state.lists")
    other = lists.sibling(state, node)
    return n_prunable + 1 - (other >= 0 and lists.is_leaf(state, other))


def split_one_level_too_deep(right, model, state, node):
    table = model.prior.table
    return table[min(state.node[node].depth + 1, len(table) - 2)].log_split


def stop_at_the_parents_depth(right, model, state, node):
    here, terms = state.node[node], module("mcmc.state.terms")
    depth = here.depth - 1 if here.parent >= 0 else 0
    return terms.log_stop(model, terms.prior_index(model, depth, here.design), here.splittable, here.rows)


def stop_as_if_splittable(right, model, state, node):
    here, terms = state.node[node], module("mcmc.state.terms")
    return terms.log_stop(model, terms.prior_index(model, here.depth, here.design), True, here.rows)


def without_rule(sign):
    """R is in the prior ratio but not in the proposal ratio."""

    def wrong(right, model, state, which, node, log_proposal_ratio):
        return right(model, state, which, node, log_proposal_ratio + sign * state.node[node].log_rule)

    return wrong


def rate_of_the_child(right, model, state, node):
    """A pruning is weighed by the r of the left child, not by that of the parent."""
    left = state.node[node].left
    rate = right(model, state, node if left < 0 else left)
    return rate if rate > -inf else log(0.5)


GROWTH_BUGS = {
    name: Bug(
        "grow-prune", "weighted_rows", ((GROW_PRUNE, "log_growth_proposal_ratio", in_growth(error)),), leaf="dirichlet"
    )
    for name, error in COUNTS.items()
}

for _step, _module in (("grow-prune", GROW_PRUNE), ("blanchard", BLANCHARD)):
    _no_rule = ((_module, "growth", without_rule(1.0)), (_module, "pruning", without_rule(-1.0)))
    GROWTH_BUGS |= {
        f"{_step}: split too deep": Bug(_step, "ties", ((GROWTH, "node_log_split", split_one_level_too_deep),)),
        f"{_step}: depth of a stop": Bug(_step, "ties", ((GROWTH, "node_log_stop", stop_at_the_parents_depth),)),
        f"{_step}: forced stop": Bug(_step, "ties", ((GROWTH, "node_log_stop", stop_as_if_splittable),)),
        f"{_step}: R dropped": Bug(_step, "weighted_rows", _no_rule, leaf="dirichlet"),
        f"{_step}: R dropped, nominal": Bug(_step, "three_categories", _no_rule, leaf="dirichlet"),
    }

GROWTH_BUGS |= {
    "rate above one": Bug(
        "blanchard", "ties", ((BLANCHARD, "min", lambda right, rate, most: rate),), prior="stopped_by_depth"
    ),
    "rate of the child": Bug(
        "blanchard", "weighted_rows", ((BLANCHARD, "log_growth_rate", rate_of_the_child),), leaf="dirichlet"
    ),
}


def growth_without_rule(right, state, node, *counts):
    """R of the split is not taken off."""
    return right(state, node, *counts) + state.node[node].log_rule


def rule_forgotten(state, old, new):
    """Return the error of a proposal ratio without R(old) / R(new)."""
    return state.node[new].log_rule - state.node[old].log_rule


def parent_never_loses_its_place(right, state, node, n_growable, n_prunable):
    """The parent of a grown leaf is counted as if it could still be pruned."""
    moves = module("mcmc.moves.grow_prune")
    before = n_prunable + 1 - moves.has_leaf_sibling(state, node)
    return right(state, node, n_growable, n_prunable) + log(before) - log(n_prunable + 1)


def all_decided(right, proposal, hope):
    """The second stage takes whatever the first has let through."""
    ratio = proposal.log_prior_ratio + proposal.log_score_ratio + proposal.log_proposal_ratio
    return right(proposal, ratio)


COLLAPSED_BUGS = {
    "R dropped": Bug("collapsed", "ties", ((COLLAPSED, "log_growth_proposal_ratio", growth_without_rule),)),
    "W dropped": Bug("collapsed", "ties", ((COLLAPSED, "scan", zero),)),
    "gain dropped": Bug("collapsed", "ties", ((COLLAPSED, "split_gain", zero),)),
    "prunable nodes": Bug(
        "collapsed", "ties", ((COLLAPSED, "log_growth_proposal_ratio", parent_never_loses_its_place),)
    ),
    "second stage": Bug("collapsed", "ties", ((COLLAPSED, "with_log_decided", all_decided),)),
    "candidates": Bug("collapsed", "four_letters", ((COLLAPSED, "is_candidate", always),), FEW_CANDIDATES),
}


def cut_at_the_end(right, model, state, node, by):
    """A shift beyond the last cut stops there."""
    cut = right(model, state, node, by)
    while cut == state.node[node].cut and by != 0:
        by -= 1 if by > 0 else -1
        cut = right(model, state, node, by)
    return cut


def rather_down(right, rng, probability):
    return right(rng, 0.7)


CHANGE_BUGS = {
    "R dropped": Bug("change", "ties", ((CHANGE, "replacement", in_proposal(rule_forgotten)),)),
    "freedom dropped": Bug("change", "ties", NO_FREEDOM),
    "freedom of the new tree": Bug("change", "min_leaf_mixed", NO_FREEDOM[1:]),
}
SHIFT_BUGS = {
    "freedom dropped": Bug("shift", "trivial_line", NO_FREEDOM),
    "freedom of the old tree": Bug("shift", "trivial_line", NO_FREEDOM[:1]),
    "stops at the last cut": Bug("shift", "grid_line", ((CHANGE, "shifted_cut", cut_at_the_end),)),
    "rather down than up": Bug("shift", "line_of_four", ((CHANGE, "flip", rather_down),)),
}


def splits_of_the_root(right, model, state, node, k):
    """The splits of a feature are counted in the root."""
    return right(model, state, 0, k)


def without_first_cut(right, model, state, node, k, side, j, *rest):
    """The lowest cut of a feature is no candidate."""
    return -inf if j == 1 else right(model, state, node, k, side, j, *rest)


def one_of_alike(right, *args):
    """Cuts that divide the rows alike weigh as much as one."""
    return min(right(*args), 0.0)


def without_rule_of_split(right, state, node):
    return right(state, node) - state.node[node].log_rule


INFORMED_BUGS = {
    "R of another cell": Bug("informed-change", "ties", ((INFORMED, "split_mass", splits_of_the_root),)),
    "R dropped": Bug("informed-change", "ties", ((INFORMED, "log_omega", without_rule_of_split),)),
    "scores dropped": Bug("informed-change", "ties", ((INFORMED, "subtree_log_score", zero),)),
    "masses dropped": Bug("informed-change", "ties", ((INFORMED, "split_mass", one),)),
    "a cut dropped": Bug("informed-change", "ties", ((INFORMED, "log_weight_of_alike", without_first_cut),)),
    "freedom dropped": Bug("informed-change", "ties", NO_FORMS),
    "cuts in a gap": Bug("informed-change", "grid_line", ((INFORMED, "log_weight_of_alike", one_of_alike),)),
    "candidates": Bug("informed-change", "four_letters", ((INFORMED, "separates_prefix", always),)),
}


def depths_ignored(right, *args):
    """Subtrees that cannot lie so deep apart."""
    return min(right(*args), 0.0) if right(*args) == -inf else 0.0


def old_rule_kept(right, model, state, v):
    rule = state.node[v].log_rule
    return right(model, state, v) + rule


def new_rule_left_out(right, model, state, v):
    ratio = right(model, state, v)
    return ratio - state.node[v].log_rule


def places_ignored(state, old, new):
    """The new tree has other internal nodes to pick from than the old one."""
    internal = module("mcmc.state.terms").count_internal
    edges = state.count[module("mcmc.state.records").N_INTERNAL] - 1
    return log(edges + internal(state, new) - internal(state, old)) - log(edges)


ROTATE_BUGS = {
    "turn: depths ignored": Bug("rotate", "line_of_four", ((ROTATION, "move_subtree_down", depths_ignored),)),
    "turn: old R kept": Bug("rotate", "line_of_four", ((ROTATE, "rotate_in_place", old_rule_kept),)),
    "turn: new R left out": Bug("rotate", "line_of_four", ((ROTATE, "rotate_in_place", new_rule_left_out),)),
    "cut: wider splits": Bug("rotate", "ties", ((ROTATE, "plan_wider_split", zero),)),
    "merge: wider splits": Bug("rotate", "min_leaf_mixed", ((ROTATE, "log_n_wider", zero),)),
    "places": Bug("rotate", "five_corners", ((ROTATE, "replacement", in_proposal(places_ignored)),)),
    "cut: parted elsewhere": Bug("rotate", "five_corners", ((ROTATE, "loses_split", never),)),
    "cut: a way back too many": Bug(
        "rotate", "five_corners", only_within(ROTATE, "propose_cut", "n_merge_options", one_more)
    ),
    "cut: a merge too many": Bug("rotate", "five_corners", only_within(ROTATE, "propose_cut", "n_merges", one_more)),
    "merge: the last one never": Bug("rotate", "five_corners", ((ROTATE, "n_merges", one_less),)),
    "cut: too large to merge": Bug(
        "rotate", "five_corners", only_within(ROTATE, "propose_cut", "is_too_large_to_merge", never), MERGE_LITTLE
    ),
}


BUGS = [
    pytest.param(bug, id=f"{bug.step}: {name}")
    for bugs in (
        GROWTH_BUGS,
        COLLAPSED_BUGS,
        CHANGE_BUGS,
        SHIFT_BUGS,
        INFORMED_BUGS,
        SWAP_BUGS,
        ROTATE_BUGS,
        LEARNED_BUGS,
    )
    for name, bug in bugs.items()
]


def first_of_each_move(names):
    """Mark as `more` all but the first error of a move; all of swap run every day, and the cheapest of learned."""
    marked, met = [], {"learned"}
    for name in names:
        step, _, what = getattr(name, "id", name).partition(": ")
        every_day = step == "swap" or step not in met or what in ("defence forgotten", "picked by the tree")
        met.add(step)
        marked.append(name if every_day else with_all(name))
    return marked


def with_all(name):
    values, case = getattr(name, "values", (name,)), getattr(name, "id", name)
    return pytest.param(*values, id=case, marks=pytest.mark.more)


@pytest.mark.planted
@pytest.mark.parametrize("bug", first_of_each_move(BUGS))
def test_an_error_is_noticed(bug, monkeypatch):
    plant(monkeypatch, bug)
    assert breach(bug) > BREACH


def spaces():
    """Every space above once, by the name of its first error, with all that is changed in it."""
    names, changes_of_space = {}, {}
    for param in BUGS:
        bug = param.values[0]
        place = (bug.step, bug.case, bug.settings, bug.prior, bug.leaf)
        names.setdefault(place, param.id)
        changes_of_space[place] = changes_of_space.get(place, ()) + bug.changes
    return {names[place]: Bug(*place[:2], changes, *place[2:]) for place, changes in changes_of_space.items()}


SPACES = spaces()


@pytest.mark.parametrize("name", first_of_each_move(SPACES))
def test_planting_changes_nothing_by_itself(name, monkeypatch):
    """With the right functions planted at the same places, the same spaces are in balance."""
    plant(monkeypatch, SPACES[name], right=True)
    assert breach(SPACES[name]) < BALANCED


def test_every_move_has_its_errors():
    count = {}
    for param in BUGS:
        count[param.values[0].step] = count.get(param.values[0].step, 0) + 1
    assert set(count) == set(STEPS) and min(count.values()) >= 2 and set(KERNELS) < set(STEPS)


def upper_end_by_twos(right, state, node, k):
    """A box hashes as one that ends a code later."""
    hash_integer = plain_package().module("core.bits").hash_integer
    return hash_integer(hash_integer(hash_integer(k) + state.box[node, k, 0]) + state.box[node, k, 1] // 2)


def lower_end_ignored(right, state, node, k):
    """A box hashes as one that begins elsewhere."""
    hash_integer = plain_package().module("core.bits").hash_integer
    return hash_integer(hash_integer(k) + state.box[node, k, 1])


def one_place(model, state, node):
    """`claim_cell_entry` with room for one cell."""
    cell = state.stored.cell[0]
    if cell.hash != state.node[node].hash:
        cell.hash, cell.weight = state.node[node].hash, -1.0
        cell.scan = -1
    return 0


BOX_HASH = tuple((module, "box_hash_term", upper_end_by_twos) for module in (CHAIN, GROWTH, ROTATION))
LOWER_HASH = tuple((module, "box_hash_term", lower_end_ignored) for module, _, _ in BOX_HASH)
ONE_PLACE = tuple((module, "claim_cell_entry", one_place) for module in (SPLITS, SCAN))
TABLE_BUGS = {
    "end of the box": Bug("collapsed", "grid_line", BOX_HASH),
    "beginning of the box": Bug("collapsed", "grid_line", LOWER_HASH),
    "a row": Bug("collapsed", "short_line", ROW_HASH),
    "another cell's table": Bug(
        "collapsed", "grid_line", ((SCAN, "claim_cell_entry", lambda right, model, state, node: 0),), ONE_PLACE
    ),
}


def go_down(ladder):
    """The first replica changes places with the second."""
    ladder._swap(0)


def adapt(ladder):
    """The level in the middle moves."""
    ladder.n_proposed[:], ladder.acceptance[:] = 10, [9.0, 2.0]
    ladder._adapt_betas()


def breaches_on_a_ladder(step, level, *changes):
    """Imbalance of the replica first at a level of the ladder, at once and after each change of its beta."""
    model = build_model(plain_package().package, case_problem("short_line", "chipman", "nig"))
    ladder = new_ladder(model, [1.0, 0.4, 0.0], adapts=True)
    chain = ladder.replicas[level]
    stump, imbalances = StateSnapshot(chain.state), []
    for change in (None, *changes):
        before = float(chain.state.beta[0])
        if change:
            stump.restore(chain.state)
            change(ladder)
            assert chain.state.beta[0] != before
        space = explore(model, step, walker="grow-prune", chain=chain)
        distribution = posterior_of(model, space.trees, float(chain.state.beta[0]))
        imbalances.append(imbalance(space.transition, distribution))
    return imbalances


@pytest.mark.more(everyday=["collapsed"])
@pytest.mark.parametrize("step", ["collapsed", "learned"])
def test_tables_follow_beta(step):
    assert max(breaches_on_a_ladder(step, 0, go_down, adapt)) < BALANCED


def levels_fraction_tables(ladder, i):
    """The number of tables tells ladders apart, not levels."""
    state = ladder.replicas[i].state
    state.beta[0], state.count[records.STORED_VERSION] = ladder.betas[i], ladder.generation


def ladders_fraction_tables(ladder, i):
    """The number of tables tells levels apart, not ladders."""
    state = ladder.replicas[i].state
    state.beta[0], state.count[records.STORED_VERSION] = ladder.betas[i], i


@pytest.mark.more(everyday=["levels_fraction_tables-0-go_down-collapsed"])
@pytest.mark.planted
@pytest.mark.parametrize("step", ["collapsed", "learned"])
@pytest.mark.parametrize(
    ("wrong", "level", "change"), [(levels_fraction_tables, 0, go_down), (ladders_fraction_tables, 1, adapt)]
)
def test_tables_of_another_beta_are_noticed(step, wrong, level, change, monkeypatch):
    monkeypatch.setattr(plain_package().module("mcmc.chain.tempering").Ladder, "_set_level", wrong)
    before, after = breaches_on_a_ladder(step, level, change)
    assert before < BALANCED and after > BREACH


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


def keyless(right, model, state, node):
    """Cells of other depths are taken for the same."""
    state.node[node].depth, depth = 0, state.node[node].depth
    place = right(model, state, node)
    state.node[node].depth = depth
    return place


def factor_without_rule(right, model, state, node):
    """R of the splits of a subtree stays as it sinks."""
    factor = right(model, state, node)
    is_inner = state.node[node].left >= 0
    return factor - state.node[node].log_rule if is_inner and factor > -inf else factor


WEIGHT_BUGS = {
    "weight of a split dropped from W": Bug("collapsed", "own_line", ((SCAN, "weight_of_alike_splits", uniform_part),)),
    "weight dropped from R": Bug("swap", "own_even", ((CARRY, "log_rule_of", unweighed),)),
    "weights in a gap": Bug("collapsed", "own_grid", ((SCAN, "draw_alike_cut", first_of_alike),)),
    "R above a turned edge": Bug("rotate", "own_line", ((ROTATION, "log_rule_of", stays),)),
    "R of sunk splits": Bug("rotate", "own_deep_edge", ((ROTATION, "log_prior_factor", factor_without_rule),)),
    "depth not part of a cell": Bug(
        "collapsed", "own_deep", ((SPLITS, "claim_cell_entry", keyless), (SCAN, "claim_cell_entry", keyless))
    ),
    "mass of features": Bug(
        "collapsed", "own_wide", ((SCAN, "feature_rule_weight", lambda right, rule, weight, mass: weight),)
    ),
}
ALL_BUGS = TABLE_BUGS | WEIGHT_BUGS


@pytest.mark.more(everyday=["another cell's table", "weight of a split dropped from W"])
@pytest.mark.planted
@pytest.mark.parametrize("name", ALL_BUGS)
def test_a_planted_error_breaks_the_balance(name, monkeypatch):
    plant(monkeypatch, ALL_BUGS[name])
    assert breach(ALL_BUGS[name]) > BREACH


@pytest.mark.more(everyday=["end of the box", "weight of a split dropped from W"])
@pytest.mark.parametrize("name", ALL_BUGS)
def test_what_is_planted_is_right_without_the_error(name, monkeypatch):
    """Also with room for one cell."""
    plant(monkeypatch, ALL_BUGS[name], right=True)
    assert breach(ALL_BUGS[name]) < BALANCED
