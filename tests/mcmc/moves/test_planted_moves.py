"""Negative controls: every wrong ratio, count or check planted in a move breaks detailed balance."""

from math import inf, log

import pytest

from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.moves.planted_learned import LEARNED_BUGS
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
from tests.mcmc.transitions import KERNELS, STEPS

GROW_PRUNE, BLANCHARD, COLLAPSED, CHANGE, INFORMED, SWAP = (
    f"mcmc.moves.{name}" for name in ("grow_prune", "blanchard", "collapsed", "change", "informed_change", "swap")
)
ROTATE, RESHAPE = "mcmc.moves.rotate", "mcmc.moves.reshape"
GROWTH, MERGE, ROTATION = "mcmc.edits.grow", "mcmc.edits.merge", "mcmc.edits.rotate_in_place"
SCAN, SPLITS = "mcmc.sums.split_sums", "mcmc.state.splits"
FEW_CANDIDATES = ((SCAN, "MAX_PARTITIONED_CATEGORIES", 2),)
MERGE_LITTLE = ((MERGE, "MAX_MERGED_LEAVES", 2),)


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


NO_FREEDOM = ((CHANGE, "make_plan_raw", zero), (CHANGE, "log_raw_forms_below", zero))
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


NO_FORMS = ((INFORMED, "make_plan_raw", zero), (INFORMED, "log_raw_forms_below", zero))
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


def other_child_ignored(right, state, a, b):
    """A child with the same split as the parent is not noticed."""
    return a != 0 and right(state, a, b)


SWAP_BUGS = {
    "freedom of the top": Bug("swap", "min_leaf_mixed", ((SWAP, "log_raw_forms", zero),)),
    "freedom below": Bug("swap", "min_leaf_mixed", ((SWAP, "log_raw_forms_below", zero),)),
    "other child ignored": Bug("swap", "trivial_line", ((SWAP, "has_same_split", other_child_ignored),)),
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


def depth_forgotten(right, model, state, piece, by):
    """The pieces below a block have the same prior at any depth."""
    right(model, state, piece, by)
    return 0.0


def cuts_not_counted(right, model, state, node, k, cut):
    """Every union of pieces is taken to have one cut."""
    return right(model, state, node, k, cut) + log(module(SPLITS).split_mass(model, state, node, k))


RESHAPE_BUGS = {
    "depth forgotten": Bug("reshape", "line_of_four", ((RESHAPE, "move_piece_down", depth_forgotten),)),
    "cuts not counted": Bug("reshape", "line_of_four", ((RESHAPE, "log_rule_of", cuts_not_counted),)),
    "splits not weighed": Bug("reshape", "line_of_four", ((RESHAPE, "log_split_factor", zero),)),
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
        RESHAPE_BUGS,
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
    assert set(count) == set(STEPS)
    assert min(count.values()) >= 2
    assert set(KERNELS) < set(STEPS)
