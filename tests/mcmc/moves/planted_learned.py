"""Errors planted in the moves that draw from a learned density."""

from math import exp

import numpy as np

from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.planting import Bug, always, only_within, zero

DENSITY, LEARNED = "mcmc.whole.density.density", "mcmc.moves.learned"
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
    "candidates": Bug("learned", "four_letters", ((GRAPH, "is_candidate", always),), FEW_LEARNED),
    "another cell": Bug("learned", "shallow_ties", both("evaluate_cell", guide_of_another_cell), ONE_GUIDE),
    "one feature if pure": Bug(
        "learned", "pure_below", ((DENSITY, "_evaluate_features", one_feature_if_pure),), leaf="dirichlet"
    ),
    "another depth": Bug("learned", "trivial_one", both("evaluate_cell", guide_at_another_depth), ONE_GUIDE, "penalty"),
}
