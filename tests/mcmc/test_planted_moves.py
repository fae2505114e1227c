"""Negative controls: every wrong ratio, count or check planted in a move breaks detailed balance."""

from math import exp, inf, log

import pytest
from everyday import everyday

from pactree_mcmc.testing.plain import plain_package

from .planting import (
    BALANCED,
    BREACH,
    REMEMBERED,
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
from .transitions import KERNELS, STEPS

COLLAPSED, REDRAW, CHANGE, SWAP, ROTATE, REGROW, RESTRUCTURE, RESHAPE, REGROW_LINE = (
    f"mcmc.moves.{name}"
    for name in ("collapsed", "redraw", "change", "swap", "rotate", "regrow", "restructure", "reshape", "regrow_line")
)
DENSITY, LEARNED, SUBGRAPH = "mcmc.learned.density", "mcmc.moves.learned", "mcmc.moves.subgraph"
AHEAD, ANCHORS, GRAPH, LINE, MERGE, SCAN, SYSTEMATIC, TERMS, TURN, WAYS = (
    f"mcmc.{name}"
    for name in (
        "sums.lookahead",
        "learned.anchors",
        "learned.graph",
        "sums.interval_sums",
        "edits.merge",
        "sums.split_sums",
        "learned.systematic",
        "learned.terms",
        "edits.rotate_in_place",
        "sums.ways",
    )
)
SPLITS = "mcmc.state.splits"
FEW_CANDIDATES = ((SCAN, "FEW_CATEGORIES", 2),)
ALL_FROM_LOGS = ((LINE, "LEAST_SUM", inf),)
MERGE_LITTLE = ((MERGE, "MOST_MERGED", 2),)
REGROW_LITTLE = ((REGROW, "MOST_INTERNAL", 1),)


def growth_without_rule(right, state, node, *counts):
    """R of the question is not taken off."""
    return right(state, node, *counts) + state.node[node].log_rule


def rule_forgotten(state, old, new):
    """What a proposal ratio of R(old) / R(new) lacks without it."""
    return state.node[new].log_rule - state.node[old].log_rule


def parent_never_loses_its_place(right, state, node, n_growable, n_prunable):
    """The parent of a grown leaf is counted as if it could still be pruned."""
    moves = plain_package().module("mcmc.moves.grow_prune")
    before = n_prunable + 1 - moves.parent_is_prunable_without(state, node)
    return right(state, node, n_growable, n_prunable) + log(before) - log(n_prunable + 1)


def all_decided(right, proposal, hope):
    """The second stage takes whatever the first has let through."""
    ratio = proposal.log_prior_ratio + proposal.log_score_ratio + proposal.log_proposal_ratio
    return right(proposal, ratio)


COLLAPSED_BUGS = {
    "R dropped": Bug("collapsed", "ties", ((COLLAPSED, "growth_proposal_ratio", growth_without_rule),)),
    "W dropped": Bug("collapsed", "ties", ((COLLAPSED, "scan", zero),)),
    "gain dropped": Bug("collapsed", "ties", ((COLLAPSED, "guessed_score_ratio", zero),)),
    "prunable nodes": Bug("collapsed", "ties", ((COLLAPSED, "growth_proposal_ratio", parent_never_loses_its_place),)),
    "second stage": Bug("collapsed", "ties", ((COLLAPSED, "passed", all_decided),)),
    "candidates": Bug("collapsed", "four_letters", ((COLLAPSED, "is_candidate", always),), FEW_CANDIDATES),
}
REDRAW_BUGS = {
    "R dropped": Bug("redraw", "ties", ((REDRAW, "replacement", in_proposal(rule_forgotten)),)),
    "gain dropped": Bug("redraw", "ties", ((REDRAW, "guessed_score_ratio", zero),)),
    "candidates": Bug("redraw", "four_letters", ((REDRAW, "is_candidate", always),), FEW_CANDIDATES),
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


NO_FREEDOM = ((CHANGE, "loosen_plan", zero), (CHANGE, "freedom_below", zero))
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


def other_child_ignored(right, state, a, b):
    """Whether the other child asks what the parent asks."""
    return a != 0 and right(state, a, b)


SWAP_BUGS = {
    "freedom of the top": Bug("swap", "min_leaf_mixed", ((SWAP, "log_freedom", zero),)),
    "freedom below": Bug("swap", "min_leaf_mixed", ((SWAP, "freedom_below", zero),)),
    "other child ignored": Bug("swap", "trivial_line", ((SWAP, "same_question", other_child_ignored),)),
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
    leaves = plain_package().module(MERGE).n_leaves_of
    edges = state.count[plain_package().module("mcmc.state.records").N_INTERNAL] - 1
    return log(edges + leaves(state, new) - leaves(state, old)) - log(edges)


ROTATE_BUGS = {
    "turn: depths ignored": Bug("rotate", "line_of_four", ((TURN, "sunk", depths_ignored),)),
    "turn: old R kept": Bug("rotate", "line_of_four", ((ROTATE, "turn", old_rule_kept),)),
    "turn: new R left out": Bug("rotate", "line_of_four", ((ROTATE, "turn", new_rule_left_out),)),
    "cut: wider questions": Bug("rotate", "ties", ((ROTATE, "plan_wider", zero),)),
    "merge: wider questions": Bug("rotate", "min_leaf_mixed", ((ROTATE, "log_wider", zero),)),
    "places": Bug("rotate", "five_corners", ((ROTATE, "replacement", in_proposal(places_ignored)),)),
    "cut: parted elsewhere": Bug("rotate", "five_corners", ((ROTATE, "parted_elsewhere", never),)),
    "cut: a way back too many": Bug("rotate", "five_corners", only_within(ROTATE, "cut_step", "n_options", one_more)),
    "cut: a merge too many": Bug("rotate", "five_corners", only_within(ROTATE, "cut_step", "n_merges", one_more)),
    "merge: the last one never": Bug("rotate", "five_corners", ((ROTATE, "n_merges", one_less),)),
    "cut: too large to merge": Bug(
        "rotate", "five_corners", only_within(ROTATE, "cut_step", "too_large", never), MERGE_LITTLE
    ),
}


def term_without_rule(right, model, state, node, ahead):
    return right(model, state, node, ahead) - state.node[node].log_rule


def one_level_is_none(right, model, state, node, ahead):
    """The children of a node drawn by looking two levels ahead are weighed by none."""
    return 0.0 if ahead == 1 else right(model, state, node, ahead)


def depth_not_counted(right, model, state, node):
    """A sum over two levels kept at another depth is taken."""
    place = plain_package().module("mcmc.state.splits").cell_of(model, state, node)
    state.cell[place].depth = state.node[node].depth
    return right(model, state, node)


REGROW_1_BUGS = {
    "places": Bug("regrow-1", "shallow_ties", ((REGROW, "n_choices", zero),)),
    "R dropped": Bug("regrow-1", "shallow_ties", ((REGROW, "log_split_term", term_without_rule),)),
    "gain dropped": Bug("regrow-1", "shallow_ties", ((REGROW, "guessed_score_ratio", zero),)),
    "candidates": Bug("regrow-1", "three_letters", ((REGROW, "is_candidate", always),), FEW_CANDIDATES),
    "too large to come back": Bug("regrow-1", "shallow_ties", ((REGROW, "may_regrow", always),), REGROW_LITTLE),
}
REGROW_2_BUGS = {
    "places": Bug("regrow-2", "three_letters", ((REGROW, "n_choices", zero),)),
    "R dropped": Bug("regrow-2", "three_letters", ((REGROW, "log_split_term", term_without_rule),)),
    "gain dropped": Bug("regrow-2", "three_letters", ((REGROW, "guessed_score_ratio", zero),)),
    "gain dropped ahead": Bug("regrow-2", "three_letters", ((AHEAD, "guessed_score_ratio", zero),)),
    "children not looked at": Bug("regrow-2", "line_of_four", ((REGROW, "log_z", one_level_is_none),)),
    "depth not counted": Bug("regrow-2", "trivial_one", ((AHEAD, "two_levels", depth_not_counted),), (), "penalty"),
}


def first_choice_forgotten(right, model, state, top):
    """The choice among the questions of the top is left out of the way back."""
    ways = plain_package().module(RESTRUCTURE).n_ways_in_all(model, state, state.node[top].saved_at)
    return right(model, state, top) + log(ways)


RESTRUCTURE_BUGS = {
    "way back dropped": Bug("restructure", "ties", ((RESTRUCTURE, "log_build", zero),)),
    "first choice forgotten": Bug("restructure", "ties", ((RESTRUCTURE, "log_build", first_choice_forgotten),)),
    "questions alike": Bug("restructure", "grid_three", ((RESTRUCTURE, "log_alike", zero),)),
}


def depth_forgotten(right, model, state, piece, by):
    """What hangs below a block weighs the same at any depth."""
    right(model, state, piece, by)
    return 0.0


def cuts_not_counted(right, model, state, node, k, cut):
    """Every union of pieces is taken to have one cut."""
    return right(model, state, node, k, cut) + log(plain_package().module(SPLITS).mass(model, state, node, k))


RESHAPE_BUGS = {
    "depth forgotten": Bug("reshape", "line_of_four", ((RESHAPE, "sink", depth_forgotten),)),
    "cuts not counted": Bug("reshape", "line_of_four", ((RESHAPE, "log_rule_of", cuts_not_counted),)),
    "splits not weighed": Bug("reshape", "line_of_four", ((RESHAPE, "split_factor", zero),)),
}


def last_cut_left_out(right, model, state, i, j):
    """Runs are not cut before their last code."""
    first, last = right(model, state, i, j)
    return first, max(last - 1, first)


def top_level(right, model, depth, *rest):
    """A run stops at any level as it would at the root."""
    return right(model, 0, *rest)


def level_above(right, state, i, j, d):
    """A run weighs what it does one level higher."""
    return right(state, i, j, max(d - 1, 0))


def one(right, *args):
    return 1


def node_itself(right, model, state, node):
    """The line begins at the node picked."""
    return node if right(model, state, node) >= 0 else -1


REGROW_LINE_BUGS = {
    "one cut too few": Bug("regrow-line", "line_of_four", ((LINE, "cuts_of_run", last_cut_left_out),)),
    "depth of a leaf": Bug("regrow-line", "line_of_four", ((LINE, "log_stop", top_level),)),
    "level of a run": Bug("regrow-line", "line_of_four", ((LINE, "log_z_of", level_above),), ALL_FROM_LOGS),
    "weights dropped": Bug("regrow-line", "line_of_four", ((REGROW_LINE, "log_weight", zero),)),
    "picks not counted": Bug("regrow-line", "line_below", ((REGROW_LINE, "n_choices", one),)),
    "not the highest": Bug("regrow-line", "line_of_four", ((REGROW_LINE, "line_top", node_itself),)),
}


def stops_left_out(right, model, state, top):
    """The leaves of the old tree are sure."""
    total, node = right(model, state, top), top
    terms, density = plain_package().module("mcmc.state.terms"), plain_package().module(DENSITY)
    lists = plain_package().module("mcmc.state.lists")
    while node >= 0:
        if lists.is_leaf(state, node) and state.node[node].splittable:
            total -= state.guide[density.known(model, state, node)].log_stop
        node = terms.next_node(state, node, top)
    return total


def question_without_rule(right, model, state, node):
    return right(model, state, node) - state.node[node].log_rule


def learned_alone(right, model, state, node, place, k, rule, learned):
    """A question weighs what the learned part says."""
    return rule * exp(learned - state.guide[place].log_learned)


def root_instead(right, *args):
    """Where a path is too short the root is picked."""
    return max(right(*args), 0)


def guide_of_another_cell(right, model, state, node):
    state.guide[0].hash = state.node[node].hash
    return right(model, state, node)


def guide_at_another_depth(right, model, state, node):
    if state.guide[0].hash == state.node[node].hash:
        state.guide[0].depth = state.node[node].depth
        state.guide[0].row = plain_package().module(DENSITY).row_of(state, node)
    return right(model, state, node)


def without_even(right, model, state, node, place, k, rule, learned):
    """The part of the mixture by R alone."""
    even = plain_package().module(DENSITY).EVENLY * exp(-state.guide[place].log_even)
    return right(model, state, node, place, k, rule, learned) - rule * even


def anchors_of(state, place, k):
    """Entries of the ways of a feature that are anchors."""
    bits = plain_package().module(TERMS).WAY_BITS
    found = [divmod(int(code), 1 << bits) for code in state.anchors[place, : state.guide[place].n_anchors]]
    return [at for feature, at in found if feature == k]


def nothing_past_the_last(right, model, state, place, k, n):
    """Splits past the last anchor of a feature open nothing."""
    right(model, state, place, k, n)
    last = anchors_of(state, place, k)
    if last:
        state.way_terms[last[-1] + 1 : n, 6] = 0.0


def steps_between(right, model, state, place, k, n):
    """Between two anchors the first counts."""
    right(model, state, place, k, n)
    anchors = anchors_of(state, place, k)
    for first, end in zip(anchors, anchors[1:], strict=False):
        state.way_terms[first + 1 : min(end, n), 6] = state.way_terms[first, 6]


def anchors_of_the_last_cell(right, model, state, node, place, n):
    """The anchors are new, what they open is not."""
    mean = right(model, state, node, place, n)
    here = state.ahead[place].copy()
    state.ahead[place] = REMEMBERED.get("ahead", here)
    REMEMBERED["ahead"] = here
    return mean


def by_the_rows(right, model, state, node, place, j, *rest):
    """What a question opens hangs on the order of the rows of the node."""
    here = state.node[node]
    return right(model, state, node, place, j, *rest) + 0.3 * (j + 1) * state.order[(here.start + here.stop) // 2]


def stratum_not_compared(right, model, state, node):
    """What was kept last of a cell below a root is taken for its kind of root too."""
    here = state.node[node]
    if here.depth == 0:
        return right(model, state, node)
    before, hash_and_depth, place = REMEMBERED.get("kept", (None, None, None))
    if before is not state or hash_and_depth != (here.hash, here.depth):
        place = right(model, state, node)
    REMEMBERED["kept"] = state, (here.hash, here.depth), place
    return place


def without_anchors(right, model, state, node, k, n, place):
    return right(model, state, node, k, n, -1)


def stays_out(right, state, feature):
    """No stratum is entered."""


def nowhere(x):
    """A hash by which all that the density keeps has the same place."""
    return 0


ONE_GUIDE = ((DENSITY, "mixed", nowhere),)
FEW_LEARNED = (*FEW_CANDIDATES, (WAYS, "FEW_CATEGORIES", 2))


def one_feature_if_pure(right, model, state, node, place):
    """In a cell of one class the feature by which the odds were found is the only one that is drawn."""
    right(model, state, node, place)
    if plain_package().module(DENSITY)._is_pure(model, state, node):
        state.shares[place] *= state.shares[place] == state.shares[place].max()


def both(name, wrong):
    """Changes of a function where the density of a cell and that of a tree call it."""
    return tuple((module, name, wrong) for module in (DENSITY, GRAPH))


LEARNED_BUGS = {
    "old tree not weighed": Bug("learned", "ties", ((LEARNED, "log_density", zero),)),
    "stops left out": Bug("learned", "ties", ((LEARNED, "log_density", stops_left_out),)),
    "R dropped": Bug("learned", "min_leaf_mixed", ((GRAPH, "log_question", question_without_rule),)),
    "defence forgotten": Bug("learned", "ties", only_within(DENSITY, "log_question", "mixture", learned_alone, GRAPH)),
    "picked by the tree": Bug("learned", "ties", ((LEARNED, "pick_cell", root_instead),)),
    "candidates": Bug("learned", "four_letters", ((LEARNED, "is_candidate", always),), FEW_LEARNED),
    "another cell": Bug("learned", "ties", both("known", guide_of_another_cell), ONE_GUIDE),
    "one feature if pure": Bug(
        "learned", "weighted_rows", ((DENSITY, "_share_questions", one_feature_if_pure),), leaf="dirichlet"
    ),
    "stratum not entered": Bug("learned", "box", ((LEARNED, "enter_stratum", stays_out),)),
    "anchors ignored": Bug("learned", "line_of_four", ((DENSITY, "_ahead_of", zero),)),
    "even part forgotten": Bug("learned", "ties", only_within(DENSITY, "log_question", "mixture", without_even, GRAPH)),
    "past the last anchor": Bug(
        "learned", "weighted_line", only_within(DENSITY, "_ahead_of", "ahead_into", nothing_past_the_last)
    ),
    "between two anchors": Bug(
        "learned", "line_of_four", only_within(DENSITY, "_ahead_of", "ahead_into", steps_between)
    ),
    "drawn without anchors": Bug("learned", "line_of_four", ((DENSITY, "weigh_ways", without_anchors),)),
    "anchors of another cell": Bug(
        "learned", "ties", ((DENSITY, "place_anchors", anchors_of_the_last_cell),), ONE_GUIDE
    ),
    "anchors by the rows": Bug("learned", "ties", ((ANCHORS, "_look", by_the_rows),), ONE_GUIDE),
    "stratum not compared": Bug("learned", "mirrored", both("known", stratum_not_compared)),
    "another prefix": Bug("learned", "four_letters", ((WAYS, "prefix_of", one_less),), FEW_LEARNED),
    "another depth": Bug("learned", "trivial_line", both("known", guide_at_another_depth), ONE_GUIDE, "penalty"),
}


def as_if_sure(right, rng, model, state, node, expected, retained, base):
    """Splits in the sample are taken to be there always."""
    n = right(rng, model, state, node, expected, retained, base)
    for j in range(base, base + n):
        state.branch[j].log_p = 0.0
    return n


def none_retained(right, rng, model, state, node, expected, retained, base):
    return right(rng, model, state, node, expected, -1, base)


def any_point(right, rng, *rest):
    """The question of the tree is put into a sample drawn without it."""
    return rng.random()


def is_right(state, node):
    parent = state.node[node].parent
    return parent >= 0 and state.node[parent].right == node


def left_twice(right, rng, model, state, node, *rest):
    """Both children weigh what the left one does."""
    log_z, n = right(rng, model, state, node, *rest)
    parent = state.node[node].parent
    if is_right(state, node):
        return REMEMBERED[parent], n
    REMEMBERED[parent] = log_z
    return log_z, n


def right_side_forgotten(right, rng, model, state, node, retained, *rest):
    """The samples in the right child do not hold the present tree."""
    return right(rng, model, state, node, -1 if is_right(state, node) else retained, *rest)


def never_exhausted(right, rng, model, state, node, *rest):
    """What was drawn until the work was too much is taken."""
    out = right(rng, model, state, node, *rest)
    if state.node[node].parent < 0:
        state.work[plain_package().module("mcmc.state.arrays").EXHAUSTED] = 0
    return out


def size_forgotten(right, rng, model, state, node, *rest):
    """A subtree drawn is never too large."""
    log_z, n = right(rng, model, state, node, *rest)
    return log_z, n if state.node[node].parent >= 0 else 1


THREE_CELLS = ((SUBGRAPH, "MOST_CELLS", 3),)
TWO_INTERNAL = tuple((module, "MOST_INTERNAL", 2) for module in (LEARNED, SUBGRAPH))
GUIDE_OF_ANOTHER = tuple((module, "known", guide_of_another_cell) for module in (DENSITY, SUBGRAPH))
SUBGRAPH_BUGS = {
    "1/p left out": Bug("subgraph", "three_letters", ((SUBGRAPH, "sample_ways", as_if_sure),)),
    "question not retained": Bug("subgraph", "three_letters", ((SUBGRAPH, "sample_ways", none_retained),)),
    "any offset": Bug("subgraph", "three_letters", ((SYSTEMATIC, "_first_point", any_point),)),
    "left child twice": Bug("subgraph", "three_letters", ((SUBGRAPH, "draw_below", left_twice),)),
    "right side not retained": Bug("subgraph", "three_letters", ((SUBGRAPH, "draw_below", right_side_forgotten),)),
    "picked by the tree": Bug("subgraph", "three_letters", ((SUBGRAPH, "pick_cell", root_instead),)),
    "exhausted": Bug("subgraph", "three_letters", ((SUBGRAPH, "draw_below", never_exhausted),), THREE_CELLS),
    "too large to come back": Bug("subgraph", "short_line", ((SUBGRAPH, "draw_below", size_forgotten),), TWO_INTERNAL),
    "candidates": Bug("subgraph", "three_letters", ((LEARNED, "is_candidate", always),), FEW_LEARNED),
    "another cell": Bug("subgraph", "three_letters", GUIDE_OF_ANOTHER, ONE_GUIDE),
    "offset without anchors": Bug(
        "subgraph", "short_line", only_within(SYSTEMATIC, "_first_point", "weigh_ways", without_anchors)
    ),
    "even part forgotten": Bug(
        "subgraph", "short_line", only_within(SYSTEMATIC, "_first_point", "mixture", without_even)
    ),
    "stratum not entered": Bug("subgraph", "mirrored", ((SUBGRAPH, "enter_stratum", stays_out),)),
    "anchors by the rows": Bug("subgraph", "three_letters", ((ANCHORS, "_look", by_the_rows),), ONE_GUIDE),
    "another prefix": Bug("subgraph", "three_letters", ((WAYS, "prefix_of", one_less),), FEW_LEARNED),
}
BUGS = [
    pytest.param(bug, id=f"{bug.step}: {name}")
    for bugs in (
        COLLAPSED_BUGS,
        REDRAW_BUGS,
        CHANGE_BUGS,
        SHIFT_BUGS,
        SWAP_BUGS,
        ROTATE_BUGS,
        REGROW_1_BUGS,
        REGROW_2_BUGS,
        RESTRUCTURE_BUGS,
        RESHAPE_BUGS,
        REGROW_LINE_BUGS,
        LEARNED_BUGS,
        SUBGRAPH_BUGS,
    )
    for name, bug in bugs.items()
]


@pytest.mark.planted
@pytest.mark.parametrize("bug", BUGS)
def test_an_error_is_noticed(bug, monkeypatch):
    plant(monkeypatch, bug)
    assert breach(bug) > BREACH


def spaces():
    """Every space above once, with all that is changed in it."""
    found = {}
    for bug in (param.values[0] for param in BUGS):
        place = (bug.step, bug.case, bug.settings, bug.prior, bug.leaf)
        found[place] = found.get(place, ()) + bug.changes
    return [(Bug(step, case, changes, *rest),) for (step, case, *rest), changes in found.items()]


@pytest.mark.parametrize(
    "bug",
    everyday(spaces(), lambda bug: [bug.step, bug.settings]),
    ids=lambda bug: f"{bug.step} {bug.case} {len(bug.settings)}",
)
def test_planting_changes_nothing_by_itself(bug, monkeypatch):
    """With the right functions planted at the same places, the same spaces are in balance."""
    plant(monkeypatch, bug, right=True)
    assert breach(bug) < BALANCED


def test_every_new_move_has_its_errors():
    count = {}
    for param in BUGS:
        count[param.values[0].step] = count.get(param.values[0].step, 0) + 1
    assert set(count) == set(STEPS) - {"grow-prune", "blanchard"}
    assert min(count.values()) >= 2
    assert set(KERNELS) < set(STEPS)
