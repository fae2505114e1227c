"""Sizes of arrays that compiled code fills without checks follow from the limits of the moves that fill them."""

import ast
import inspect

import pytest

from pactree_mcmc.mcmc.edits import replace_subtree
from pactree_mcmc.mcmc.moves import learned
from pactree_mcmc.mcmc.state import records as scratch
from pactree_mcmc.mcmc.sums import split_sums
from pactree_mcmc.mcmc.whole.density import graph, systematic


def value_of(module, name, **changed):
    """A constant of a module, if others had other values."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.Assign):
            targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for target, value in zip(targets, values, strict=False):
                if target.id == name:
                    return eval(compile(ast.Expression(value), name, "eval"), {**vars(module), **changed})
    raise KeyError(name)


@pytest.mark.parametrize("most", [1, 128, 300])
def test_free_nodes_follow_from_the_largest_subtree(most):
    max_new_nodes = value_of(replace_subtree, "MAX_NEW_NODES", MAX_DRAWN_INTERNAL=most)
    assert max_new_nodes >= 2 * (2 * (most + 1) + 1)


@pytest.mark.parametrize("few", [2, 8, 12])
def test_sides_of_splits_follow_from_the_categories_of_which_all_partitions_are_tried(few):
    assert value_of(scratch, "MAX_PARTITIONS", MAX_PARTITIONED_CATEGORIES=few) >= 2 ** (few - 1) - 1
    assert value_of(scratch, "MAX_PARTITIONS") == scratch.MAX_PARTITIONS
    assert (
        split_sums.MAX_PARTITIONED_CATEGORIES
        is systematic.MAX_PARTITIONED_CATEGORIES
        is scratch.MAX_PARTITIONED_CATEGORIES
    )


@pytest.mark.parametrize("most", [1, 128, 300])
def test_spare_pieces_and_links_follow_from_the_largest_subtree(most):
    assert value_of(graph, "MIN_FREE_ENTRIES", MAX_DRAWN_INTERNAL=most) >= 2 * most + 1
    assert value_of(graph, "MIN_FREE_ENTRIES") == graph.MIN_FREE_ENTRIES


def test_moves_share_the_limits():
    assert learned.MAX_DRAWN_INTERNAL is replace_subtree.MAX_DRAWN_INTERNAL
    assert value_of(replace_subtree, "MAX_NEW_NODES") == replace_subtree.MAX_NEW_NODES
