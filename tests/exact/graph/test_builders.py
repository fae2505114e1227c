"""Graphs of every kind: their size, order, statistics and sums, also of joint nodes and context trees."""

from dataclasses import replace

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.problems.drawn import random_problem
from tests.problems.models import build_model
from tests.problems.refusals import refuses
from tests.reference.dyadic_trees import dyadic_answers
from tests.reference.enumeration import LEAF, Reference

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}
BROKEN_GRAPHS = [
    ("left", lambda a: np.where(np.arange(len(a)) == 1, 0, a), "edge 1 leads from cell 1 to cells 0 and"),
    ("right", lambda a: a + 100, "edge 0 leads from cell 0 to cells .*topological"),
    ("first_edge", lambda a: a[::-1], "first_edge must rise from 0"),
    ("first_slot", lambda a: a[:-1], "first_slot must rise"),
    ("log_rule", lambda a: a[1:], "log_rule has"),
]
BAD_JOINT_MASKS = [
    ([True, False, False], "the root cannot be joint"),
    ([False, True, False], "node 1, a leaf of the tree, cannot be joint"),
    ([False, False], r"joint has dtype bool and shape \(2,\); give booleans of shape \(3,\)"),
    ([0, 0, 0], "joint has dtype int64"),
]


def _table(rng, n, p, n_values):
    X = rng.integers(0, n_values, size=(n, p)) / n_values
    X[:, rng.integers(p)] = 0.5 if rng.random() < 0.3 else X[:, 0]
    return X, rng.integers(0, 3, size=n)


@pytest.mark.more(everyday=["0-False", "1-True"])
@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_equals_the_recursion_over_boxes(cyclic, seed):
    rng = np.random.default_rng([seed, cyclic])
    p, levels, n = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(2, 40))
    X, y = _table(rng, n, p, 7)
    weights = None if cyclic else rng.choice([0.0, 1.0, 2.5], p)
    weights = None if weights is None or not weights.any() else weights
    w = rng.choice([0.0, 1.0, 2.0], n) if seed % 2 else None
    if w is not None:
        w[0] = 1.0
    limit = int(rng.integers(1, 6))
    split_prior = pt.DyadicCuts(levels, cyclic, [[0.0, 1.0]] * p, feature_weights=weights)
    model = pt.TreeModel(X, y, split_prior=split_prior, tree_prior=pt.BranchingProcess(0.4, limit), sample_weight=w)
    truth = exact.solve(model)
    truth.graph.check()
    codes = np.minimum((np.ceil(X.T * 2**levels) - 1).clip(0), 2**levels - 1).astype(np.int64)
    classes = np.unique(y, return_inverse=True)[1]
    evidence, leaf = dyadic_answers(codes, classes, classes.max() + 1, levels, 0.4, limit, cyclic, weights, w)
    assert truth.log_evidence == pytest.approx(evidence, rel=1e-12)
    leaf_probabilities = truth.cell_probabilities().leaf[truth.graph.rows > 0]
    assert len(leaf_probabilities) == len(leaf)
    assert np.sort(leaf_probabilities) == pytest.approx(np.sort(list(leaf.values())), rel=1e-9, abs=1e-12)


def test_a_path_longer_than_a_word():
    """Ten features of seven levels: 70 bits, more than the units are sorted by."""
    rng = np.random.default_rng(3)
    X, y = rng.random((60, 10)), rng.integers(0, 2, 60)
    rest = rng.permutation(60)
    prior = pt.BranchingProcess(0.7, max_depth=70)
    split_prior = pt.DyadicCuts(7, cyclic=True)
    a = exact.solve(pt.TreeModel(X, y, split_prior=split_prior, tree_prior=prior))
    b = exact.solve(pt.TreeModel(X[rest], y[rest], split_prior=split_prior, tree_prior=prior))
    a.graph.check()
    assert a.graph.depth.max() == 70 and a.log_evidence == pytest.approx(b.log_evidence, rel=1e-12)
    assert a.cell_probabilities().leaf[a.graph.rows > 0].sum() < 60


@pytest.mark.parametrize("split_prior", [pt.DyadicCuts(2), pt.DyadicCuts(2, cyclic=True), "tree"])
@pytest.mark.parametrize("leaf", [pt.FrozenLaplace(), pt.NormalInverseGamma(), pt.PacBayesLoss(1.0, 0.5)])
def test_statistics_of_every_cell_add_up(split_prior, leaf):
    rng = np.random.default_rng(5)
    X, y = rng.random((50, 2)), rng.integers(0, 3, 50)
    options = {"estimation": rng.random(50) < 0.5} if leaf.uses_estimation else {}
    design = pt.kd_tree(X, 4) if split_prior == "tree" else split_prior
    weight = rng.random(50)
    model = pt.TreeModel(
        X, y, split_prior=design, leaf=leaf, sample_weight=weight, tree_prior=pt.ChipmanPrior(), **options
    )
    graph = exact.build_graph(model)
    parent = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    for of_parents, of_children in ((graph.rows, graph.rows), (graph.stats, graph.stats)):
        assert of_parents[parent] == pytest.approx(
            of_children[graph.left] + of_children[graph.right], rel=1e-12, abs=1e-12
        )
    assert graph.rows[0] == 50
    assert graph.score[0] == pytest.approx(model.log_score(pt.Tree([-1], [0], [0], [0])), rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e308, -1e308, 1.7976931348623157e308])
def test_dyadic_cuts_of_a_constant_column_of_the_largest_numbers(value):
    model = pt.TreeModel([[value, 0.0], [value, 1.0]], [0, 1], split_prior=pt.DyadicCuts(1, cyclic=True))
    tree = exact.solve(model).map_tree()
    assert np.isfinite(tree.threshold).all() and np.isfinite(exact.solve(model).log_evidence)


def _graph():
    model = pt.TreeModel([[0.0], [1.0], [2.0]], [0, 1, 1], split_prior=pt.DyadicCuts(2))
    return exact.build_graph(model)


@pytest.mark.parametrize(("column", "change", "message"), BROKEN_GRAPHS)
def test_a_broken_graph_is_named(column, change, message):
    graph = _graph()
    graph.check()
    broken = graph._replace(**{column: change(getattr(graph, column))})
    for answer in (exact.CellGraph.check, exact.log_sum, exact.best_log_weight, exact.count_trees, exact.occurrences):
        with pytest.raises(ValueError, match=message):
            answer(broken)


def _inner_nodes(tree, number=0):
    if tree == LEAF:
        return []
    left = _inner_nodes(tree[3], number + 1)
    n_left = 1 if tree[3] == LEAF else 2 * len(left) + 1
    return [number, *left, *_inner_nodes(tree[4], number + 1 + n_left)]


def _with_joint_nodes(rng, prior):
    """A random problem over a fixed tree some of whose inner nodes are joint, and its model."""
    while True:
        problem, _ = random_problem(rng, split_prior="fixed", tree_prior=prior, max_trees=400)
        inner = _inner_nodes(problem.split_prior["tree"])[1:]
        joint_nodes = {i for i in inner if rng.random() < 0.5}
        if joint_nodes:
            problem = replace(problem, split_prior={**problem.split_prior, "joint": joint_nodes})
            return problem, build_model(pt, problem, rng)


@pytest.mark.more(everyday=["stopped-0", "conditioned-1", "chipman-2"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("prior", ["stopped", "conditioned", "chipman", "penalty"])
def test_joint_nodes_equal_enumeration(prior, seed):
    rng = np.random.default_rng([seed, len(prior)])
    problem, model = _with_joint_nodes(rng, prior)
    reference, truth = Reference(problem), exact.solve(model)
    assert truth.log_evidence == pytest.approx(reference.log_evidence, **TOLERANCE)
    assert truth.map_log_joint == pytest.approx(reference.best_log_joint, **TOLERANCE)
    distribution, pmf = reference.n_leaves(), truth.n_leaves_pmf()
    for m in set(distribution) | set(range(len(pmf))):
        assert (pmf[m] if m < len(pmf) else 0.0) == pytest.approx(distribution.get(m, 0.0), **TOLERANCE)
    assert truth._feature_inclusion() == pytest.approx(np.array(reference.inclusion()), **TOLERANCE)
    draws = truth.sample(20, rng=seed)
    for t in range(draws.draws.n_distinct_trees):
        assert model.log_prior(draws.draws.distinct_tree(t)) == pytest.approx(
            draws.draws.log_prior_of_tree[t], **TOLERANCE
        )


def test_chains_refuse_joint_nodes():
    model = pt.TreeModel([[0], [1], [2]], [0, 1, 1], split_prior=pt.context_tree(1, 3))
    refuses(r"joint nodes.*exact\.solve", lambda: pt.sample(model, 10, progress=False))


@pytest.mark.parametrize(("mask", "message"), BAD_JOINT_MASKS)
def test_bad_joint_masks(mask, message):
    refuses(message, lambda: pt.FixedTree(pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0]), mask))
