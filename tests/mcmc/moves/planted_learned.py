"""Errors planted in the moves that draw from a learned density."""

from math import exp

import numpy as np

from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.planting import REMEMBERED, Bug, always, one_less, only_within, zero

DENSITY, LEARNED, SUBGRAPH = "mcmc.whole.density.density", "mcmc.moves.learned", "mcmc.moves.subgraph"
GRAPH, SYSTEMATIC = "mcmc.whole.density.graph", "mcmc.whole.density.systematic"
SCAN = "mcmc.sums.split_sums"
FEW_CANDIDATES = ((SCAN, "MAX_PARTITIONED_CATEGORIES", 2),)


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


def root_instead(right, *args):
    """The root is picked if a path is too short."""
    return max(right(*args), 0)


def guide_of_another_cell(right, model, state, node):
    state.stored.guide[0].hash = state.node[node].hash
    return right(model, state, node)


def guide_at_another_depth(right, model, state, node):
    if state.stored.guide[0].hash == state.node[node].hash:
        state.stored.guide[0].depth = state.node[node].depth
    return right(model, state, node)


def without_defence(right, model, state, node, place, k, rule, learned):
    """Return the probability of a split without the defensive part."""
    density, guide = plain_package().module(DENSITY), state.stored.guide[place]
    return rule * (1.0 - density.DEFENSIVE_WEIGHT) * exp(learned - guide.log_learned)


def nowhere(x):
    """A hash by which all that the density keeps has the same place."""
    return 0


ONE_GUIDE = ((DENSITY, "hash_integer", nowhere),)
FEW_LEARNED = (*FEW_CANDIDATES, (SYSTEMATIC, "MAX_PARTITIONED_CATEGORIES", 2))


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
    "picked by the tree": Bug("learned", "ties", ((LEARNED, "pick_cell", root_instead),)),
    "candidates": Bug("learned", "four_letters", ((LEARNED, "is_candidate", always),), FEW_LEARNED),
    "another cell": Bug("learned", "shallow_ties", both("evaluate_cell", guide_of_another_cell), ONE_GUIDE),
    "one feature if pure": Bug(
        "learned", "pure_below", ((DENSITY, "_evaluate_features", one_feature_if_pure),), leaf="dirichlet"
    ),
    "another depth": Bug("learned", "trivial_one", both("evaluate_cell", guide_at_another_depth), ONE_GUIDE, "penalty"),
}


def as_if_sure(right, rng, model, state, node, expected, retained, base):
    """Splits in the sample are taken to be there always."""
    n = right(rng, model, state, node, expected, retained, base)
    for j in range(base, base + n):
        state.scratch.density.branch[j].log_p = 0.0
    return n


def none_retained(right, rng, model, state, node, expected, retained, base):
    return right(rng, model, state, node, expected, -1, base)


def any_point(right, rng, *rest):
    """The split of the tree is put into a sample drawn without it."""
    return rng.random(), False


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
    """A subtree is accepted although its random subgraph cost too much."""
    out = right(rng, model, state, node, *rest)
    if state.node[node].parent < 0:
        state.scratch.density.is_exhausted[0] = 0
    return out


def size_forgotten(right, rng, model, state, node, *rest):
    """A subtree drawn is never too large."""
    log_z, n = right(rng, model, state, node, *rest)
    return log_z, n if state.node[node].parent >= 0 else 1


THREE_CELLS = ((SUBGRAPH, "MAX_SUBGRAPH_CELLS", 3),)
TWO_INTERNAL = tuple((module, "MAX_DRAWN_INTERNAL", 2) for module in (LEARNED, SUBGRAPH))
GUIDE_OF_ANOTHER = tuple((module, "evaluate_cell", guide_of_another_cell) for module in (DENSITY, SUBGRAPH))
SUBGRAPH_BUGS = {
    "1/p left out": Bug("subgraph", "three_letters", ((SUBGRAPH, "sample_splits", as_if_sure),)),
    "split not retained": Bug("subgraph", "three_letters", ((SUBGRAPH, "sample_splits", none_retained),)),
    "any offset": Bug("subgraph", "three_letters", ((SYSTEMATIC, "_first_point", any_point),)),
    "left child twice": Bug("subgraph", "three_letters", ((SUBGRAPH, "draw_from_subgraph", left_twice),)),
    "right side not retained": Bug(
        "subgraph", "three_letters", ((SUBGRAPH, "draw_from_subgraph", right_side_forgotten),)
    ),
    "picked by the tree": Bug("subgraph", "three_letters", ((SUBGRAPH, "pick_cell", root_instead),)),
    "exhausted": Bug("subgraph", "three_letters", ((SUBGRAPH, "draw_from_subgraph", never_exhausted),), THREE_CELLS),
    "too large to come back": Bug(
        "subgraph", "short_line", ((SUBGRAPH, "draw_from_subgraph", size_forgotten),), TWO_INTERNAL
    ),
    "candidates": Bug("subgraph", "three_letters", ((LEARNED, "is_candidate", always),), FEW_LEARNED),
    "another cell": Bug("subgraph", "three_letters", GUIDE_OF_ANOTHER, ONE_GUIDE),
    "defence forgotten": Bug(
        "subgraph", "min_leaf_uneven", only_within(SYSTEMATIC, "_first_point", "split_probability", without_defence)
    ),
    "another prefix": Bug("subgraph", "three_letters", ((SYSTEMATIC, "prefix_number", one_less),), FEW_LEARNED),
}
