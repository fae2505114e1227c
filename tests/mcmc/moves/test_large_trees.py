"""Moves of large trees: the flow to each neighbour is the flow back; sizes of arrays follow from limits."""

import ast
import inspect
from itertools import product

import numpy as np
import pytest

from pactree_mcmc.mcmc.edits import replace_subtree
from pactree_mcmc.mcmc.moves import learned
from pactree_mcmc.mcmc.state import records as scratch
from pactree_mcmc.mcmc.sums import split_sums
from pactree_mcmc.mcmc.whole.density import graph, systematic
from pactree_mcmc.testing.spaces import StateSnapshot, new_chain, plain_package, tree_key
from tests.mcmc.transitions import load, present_tree, transition_row
from tests.problems.leaves import DIRICHLET, KNOWN, NORMAL
from tests.problems.models import build_model
from tests.problems.priors import LOCAL, TRIVIAL
from tests.problems.spaces import problem
from tests.problems.trees import library_tree
from tests.reference.enumeration import LEAF, count_leaves

TOLERANCE = 1e-11
NO_LIMIT = {"kind": "penalty", "cost": 0.2, "max_depth": None}
CUBE = {"X": [(float(a), float(b), float(c)) for a in (0, 1) for b in (0, 1) for c in (0, 1)], "y": [0, 1, 1, 0] * 2}
RULES = {
    "local": LOCAL,
    "grid": {"kind": "grid", "cuts": [[0.5], [0.5], [0.5]]},
    "dyadic": {"kind": "dyadic", "levels": 1, "cyclic": False, "bounds": [(0.0, 1.0)] * 3},
}
TREES_THAT_GROW = ("two sides kept", "three leaves cut", "parts that cross", "a part and a cut")
LETTERS = {"X": [(a, b) for a in "abcde" for b in (0.0, 1.0)], "y": [0, 1, 1, 0, 1] * 2, "nominal": {0}}
LETTER_RULES = {"local": LOCAL, "grid": {"kind": "grid", "cuts": [None, [0.5]]}}


def loaded(naive, tree):
    """A plain model, and a chain at the tree."""
    package = plain_package().package
    model = build_model(package, naive)
    chain = new_chain(model, n_nodes=128)
    load(model, chain, library_tree(package, naive, tree))
    return model, chain


def neighbours(model, chain, start, step):
    """Distribution of the next tree, {key: probability}, and {key: (snapshot, log posterior)} of these trees."""
    start_of_tree = {}

    def note_tree(key):
        if key not in start_of_tree:
            start_of_tree[key] = StateSnapshot(chain.state), model.log_posterior(present_tree(model, chain))

    return transition_row(chain, start, step, note_tree), start_of_tree


def breaches(model, chain, step, at_most=None):
    """Relative breach of detailed balance between the chain's tree and each of its neighbours, {key: breach}."""
    own_key, start = tree_key(chain.state), StateSnapshot(chain.state)
    log_own = model.log_posterior(present_tree(model, chain))
    row, start_of_tree = neighbours(model, chain, start, step)
    assert abs(sum(row.values()) - 1.0) < TOLERANCE
    out = {}
    for key in [key for key in row if key != own_key][:at_most]:
        snapshot, log_other = start_of_tree[key]
        backward_flow = neighbours(model, chain, snapshot, step)[0].get(own_key, 0.0)
        top = max(log_own, log_other)
        forward_flow, backward_flow = np.exp(log_own - top) * row[key], np.exp(log_other - top) * backward_flow
        out[key] = abs(forward_flow - backward_flow) / max(forward_flow, backward_flow)
    return out


def largest(keys):
    return max(sum(entry == -1 for entry in key) for key in keys)


def split(k, left=LEAF, right=LEAF):
    return ("split", k, 0.5, left, right)


def part(letters, left=LEAF, right=LEAF):
    return ("split", 0, frozenset(letters), left, right)


ORDERED = {
    "two sides kept": split(0, split(1), split(2, split(1))),
    "three leaves cut": split(0, split(1), split(2)),
    "the same below": split(1, split(0, split(2)), split(0, LEAF, split(2))),
    "all leaves": split(2, split(0, split(1), split(1)), split(1, split(0), split(0))),
}


@pytest.mark.more(everyday=["two sides kept-local"])
@pytest.mark.parametrize(("tree", "split_prior"), list(product(ORDERED, RULES)))
def test_rotations_about_three_features(tree, split_prior):
    """Every neighbour; where a subtree is cut in two, some have two or more leaves more."""
    model, chain = loaded(problem(CUBE, RULES[split_prior], NO_LIMIT, DIRICHLET), ORDERED[tree])
    breach_of_tree = breaches(model, chain, "rotate")
    assert max(breach_of_tree.values()) < TOLERANCE
    assert (largest(breach_of_tree) >= count_leaves(ORDERED[tree]) + 2) == (tree in TREES_THAT_GROW)


NOMINAL = {
    "parts that cross": split(1, part("abc", part("a")), part("ace")),
    "a part within a part": part("abc", split(1, part("ab"), part("a"))),
    "a part and a cut": part("abc", part("a"), split(1)),
}


@pytest.mark.more(everyday=["parts that cross-local"])
@pytest.mark.parametrize(("tree", "split_prior"), list(product(NOMINAL, LETTER_RULES)))
def test_rotations_about_parts_of_five_categories(tree, split_prior):
    model, chain = loaded(problem(LETTERS, LETTER_RULES[split_prior], NO_LIMIT, NORMAL), NOMINAL[tree])
    breach_of_tree = breaches(model, chain, "rotate", at_most=20)
    assert max(breach_of_tree.values()) < TOLERANCE
    assert (largest(breach_of_tree) >= count_leaves(NOMINAL[tree]) + 2) == (tree in TREES_THAT_GROW)


@pytest.mark.more(everyday=["local-tree0-change", "grid-tree2-shift"])
@pytest.mark.parametrize("step", ["change", "informed-change", "shift", "swap", "collapsed"])
@pytest.mark.parametrize(
    ("split_prior", "tree"),
    [
        ("local", split(0, split(1, split(2)), split(2))),
        ("local", split(1, split(0, split(2)), split(0, LEAF, split(2)))),
        ("grid", split(0, split(1, split(2)), split(2))),
        ("dyadic", split(2, split(0, split(1)), split(0, split(1)))),
    ],
)
def test_other_moves_of_trees_of_five_leaves(step, split_prior, tree):
    model, chain = loaded(problem(CUBE, RULES[split_prior], NO_LIMIT, DIRICHLET), tree)
    assert all(breach < TOLERANCE for breach in breaches(model, chain, step, at_most=8).values())


@pytest.mark.more(everyday=["split_prior0"])
@pytest.mark.parametrize("split_prior", [LOCAL, TRIVIAL, {"kind": "grid", "cuts": [None, [0.5]]}])
def test_more_categories_than_are_tried_one_by_one(split_prior):
    """Ten categories: prefixes of their order are proposed, and only these are given up again."""
    rng, names = np.random.default_rng(10), [*"abcdefghij"]
    X = [(str(a), float(b)) for a, b in zip([*names, *rng.choice(names, 12)], rng.integers(0, 2, 22), strict=True)]
    data = {"X": X, "y": rng.random(22).round(2).tolist(), "nominal": {0}}
    naive = problem(data, split_prior, {**NO_LIMIT, "max_depth": 1}, KNOWN)
    mean = {a: np.mean([y for (b, _), y in zip(X, naive.y, strict=True) if a == b]) for a in names}
    order = sorted(names, key=mean.get)
    for letters, is_proposed in ((order[:4], True), (order[6:], True), ([order[0], order[5]], False)):
        left = letters if "a" in letters else set(names) - set(letters)
        model, chain = loaded(naive, part(left))
        breach_of_tree = breaches(model, chain, "collapsed", at_most=3)
        assert bool(breach_of_tree) == is_proposed and all(breach < TOLERANCE for breach in breach_of_tree.values())


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
