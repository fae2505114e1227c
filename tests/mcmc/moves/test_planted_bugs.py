"""Negative controls: wrong acceptance ratios, planted in the plain copy of the kernels, break detailed balance."""

from math import inf, log

import pytest

from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.transitions import KERNELS, explore, imbalance, posterior_of
from tests.problems.leaves import LEAVES
from tests.problems.models import build_model
from tests.problems.spaces import problem
from tests.problems.split_priors import LOCAL
from tests.problems.tables import ORDERED, THREE, WIDE
from tests.problems.tree_priors import PRIORS

BREACH = 1e-3
FOUNDATION = ("grow-prune", "blanchard")
CHIPMAN = {**PRIORS["chipman"], "max_depth": 2}
STEEP = {"kind": "stopped", "rho": [0.9, 0.1, 0.1], "max_depth": 3}


def kernel_module(kernel):
    return plain_package().module(KERNELS[kernel])


def growth_module():
    return plain_package().module("mcmc.edits.grow")


def largest_breach(kernel, data, prior):
    model = build_model(plain_package().package, problem(data, LOCAL, prior, LEAVES["dirichlet"]))
    space = explore(model, kernel)
    return imbalance(space.transition, posterior_of(model, space.trees))


def wrong_growth_ratio(patch, error):
    """Add ``error(state, node, n_growable, n_prunable)`` to the log proposal ratio of growing and pruning."""
    module = kernel_module("grow-prune")
    right = module.growth_proposal_ratio

    def wrong(state, node, n_growable, n_prunable):
        return right(state, node, n_growable, n_prunable) + error(state, node, n_growable, n_prunable)

    patch.setattr(module, "growth_proposal_ratio", wrong)


def parent_had_two_leaves(state, node):
    lists = plain_package().module("mcmc.state.lists")
    other = lists.sibling(state, node)
    return other >= 0 and lists.is_leaf(state, other)


def prunable_after(state, node, n_prunable):
    return n_prunable + 1 - parent_had_two_leaves(state, node)


def growable_after(state, node, n_growable):
    children = (state.node[node].left, state.node[node].right)
    return n_growable - 1 + sum(int(state.node[child].splittable) for child in children)


def stump_grows_with_one_half(patch):
    wrong_growth_ratio(patch, lambda state, node, n_growable, n_prunable: log(2.0) if n_prunable == 0 else 0.0)


def full_tree_prunes_with_one_half(patch):
    def error(state, node, n_growable, n_prunable):
        return -log(2.0) if growable_after(state, node, n_growable) == 0 else 0.0

    wrong_growth_ratio(patch, error)


def prunable_nodes_of_the_old_tree(patch):
    def error(state, node, n_growable, n_prunable):
        return log(prunable_after(state, node, n_prunable)) - log(max(n_prunable, 1))

    wrong_growth_ratio(patch, error)


def prunable_parent_forgotten(patch):
    def error(state, node, n_growable, n_prunable):
        return log(prunable_after(state, node, n_prunable)) - log(n_prunable + 1)

    wrong_growth_ratio(patch, error)


def growable_leaves_of_the_new_tree(patch):
    def error(state, node, n_growable, n_prunable):
        return log(max(growable_after(state, node, n_growable), 1)) - log(n_growable)

    wrong_growth_ratio(patch, error)


@pytest.mark.tenth_a_day
@pytest.mark.planted
@pytest.mark.parametrize(
    "plant",
    [
        stump_grows_with_one_half,
        full_tree_prunes_with_one_half,
        prunable_nodes_of_the_old_tree,
        prunable_parent_forgotten,
        growable_leaves_of_the_new_tree,
    ],
)
def test_counts(plant, monkeypatch):
    """Errors in the numbers of places to grow and to prune; only the grow-prune kernel counts them."""
    plant(monkeypatch)
    assert largest_breach("grow-prune", WIDE, CHIPMAN) > BREACH


def split_factor_one_level_too_deep(patch):
    right = growth_module().prior_index

    def wrong(model, depth, design):
        return min(right(model, depth, design) + 1, len(model.prior.table) - 2)

    patch.setattr(growth_module(), "prior_index", wrong)


def stop_factor_at_the_parents_depth(patch):
    terms = plain_package().module("mcmc.state.terms")

    def wrong(model, state, node):
        here = state.node[node]
        depth = here.depth - 1 if here.parent >= 0 else 0
        return terms.log_stop(model, terms.prior_index(model, depth, here.design), here.splittable, here.rows)

    patch.setattr(growth_module(), "node_log_stop", wrong)


def unsplittable_leaf_stops_as_if_splittable(patch):
    terms = plain_package().module("mcmc.state.terms")

    def wrong(model, state, node):
        here = state.node[node]
        return terms.log_stop(model, terms.prior_index(model, here.depth, here.design), True, here.rows)

    patch.setattr(growth_module(), "node_log_stop", wrong)


@pytest.mark.tenth_a_day
@pytest.mark.planted
@pytest.mark.parametrize("kernel", FOUNDATION)
@pytest.mark.parametrize(
    "plant",
    [
        split_factor_one_level_too_deep,
        stop_factor_at_the_parents_depth,
        unsplittable_leaf_stops_as_if_splittable,
    ],
)
def test_prior_factors(plant, kernel, monkeypatch):
    plant(monkeypatch)
    assert largest_breach(kernel, ORDERED, CHIPMAN) > BREACH


def change_proposals(patch, kernel, error):
    """Add ``error(state, node)`` to the log proposal ratio of a growth and take it off that of a pruning."""
    module = kernel_module(kernel)

    def changed(right, sign):
        def wrong(model, state, which, node, log_proposal_ratio):
            return right(model, state, which, node, log_proposal_ratio + sign * error(state, node))

        return wrong

    patch.setattr(module, "growth", changed(module.growth, 1.0))
    patch.setattr(module, "pruning", changed(module.pruning, -1.0))


@pytest.mark.tenth_a_day
@pytest.mark.planted
@pytest.mark.parametrize("kernel", FOUNDATION)
@pytest.mark.parametrize("data", [WIDE, THREE], ids=["ordered", "nominal"])
def test_dropped_split_probability(kernel, data, monkeypatch):
    """R is in the prior ratio but not in the proposal ratio."""
    change_proposals(monkeypatch, kernel, lambda state, node: float(state.node[node].log_rule))
    assert largest_breach(kernel, data, CHIPMAN) > BREACH


@pytest.mark.tenth_a_day
@pytest.mark.planted
@pytest.mark.parametrize("kernel", FOUNDATION)
def test_unchanged_proposals(kernel, monkeypatch):
    """The controls above break the balance by what they change, not by how they are planted."""
    change_proposals(monkeypatch, kernel, lambda state, node: 0.0)
    wrong_growth_ratio(monkeypatch, lambda *args: 0.0)
    assert largest_breach(kernel, WIDE, CHIPMAN) < 1e-12
    assert largest_breach(kernel, ORDERED, STEEP) < 1e-12


@pytest.mark.planted
def test_growth_rate_above_one_not_cut(monkeypatch):
    """At the root r = .9 (.9)^2 / .1: the walk cannot propose more often than always."""
    monkeypatch.setattr(kernel_module("blanchard"), "min", lambda rate, most: rate, raising=False)
    assert largest_breach("blanchard", ORDERED, STEEP) > BREACH


@pytest.mark.planted
def test_growth_rate_of_the_child_on_the_way_back(monkeypatch):
    """A pruning is weighed by the r of the leaf the walk ended in, not by that of its parent."""
    module = kernel_module("blanchard")
    right = module.log_growth_rate

    def wrong(model, state, node):
        left = state.node[node].left
        rate = right(model, state, node if left < 0 else left)
        return rate if rate > -inf else log(0.5)

    monkeypatch.setattr(module, "log_growth_rate", wrong)
    assert largest_breach("blanchard", WIDE, CHIPMAN) > BREACH
