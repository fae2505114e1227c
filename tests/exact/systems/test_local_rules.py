"""Condition (*) and Theorem 5 on all small labelled trees."""

import math
from itertools import permutations

import numpy as np
import pytest

import exact
import pactree_mcmc as pt


def by_ancestors(splits, leaf):
    """Depends on the splits above alone."""
    above = sum(splits[leaf[:j]] + j for j in range(len(leaf)))
    weight = np.array([1.0 + above, 2.0, 1.0])
    return weight / weight.sum()


def avoid_used(splits, leaf):
    """Prefers splits not made yet anywhere: the first of two leaves to be split decides."""
    weight = np.where(np.isin(np.arange(3), list(splits.values())), 0.5, 1.0)
    weight[0] *= 3.0
    return weight / weight.sum()


def unlike_the_sibling(splits, leaf):
    """Two siblings are split by a table that is symmetric, so that neither comes first."""
    joint_probability = np.array([[1.0, 4.0, 5.0], [4.0, 2.0, 4.0], [5.0, 4.0, 1.0]]) / 30.0
    joint_probability[0, 0] = 1.0 / 30.0
    beside = splits.get(leaf[:-1] + "10"[int(leaf[-1])]) if leaf else None
    return (
        joint_probability.sum(axis=0) if beside is None else joint_probability[beside] / joint_probability[beside].sum()
    )


@pytest.mark.parametrize("rule", [by_ancestors, unlike_the_sibling])
def test_coherent_rules(rule):
    report = exact.check_local_rule(rule, 3, 2)
    assert report.holds and report.max_difference < 1e-12
    assert report.n_checked == 3 * 9  # the roots split in three ways, two leaves and nine pairs each


def test_an_incoherent_rule_is_found_with_its_place():
    report = exact.check_local_rule(avoid_used, 3, 2)
    assert not report.holds
    tree, one, other, f1, f2 = report.worst
    first = avoid_used(tree, one)[f1] * avoid_used({**tree, one: f1}, other)[f2]
    second = avoid_used(tree, other)[f2] * avoid_used({**tree, other: f2}, one)[f1]
    assert abs(first - second) / max(first, second) == pytest.approx(report.max_difference)


def orders(splits):
    """All orders of construction of a tree."""
    for order in permutations(splits):
        if all(not path or path[:-1] in order[:i] for i, path in enumerate(order)):
            yield order


def log_product(rule, splits, order):
    tree, total = {}, 0.0
    for path in order:
        total += math.log(rule(tree, path)[splits[path]])
        tree[path] = splits[path]
    return total


TREE = {"": 1, "0": 2, "1": 0, "00": 1, "11": 2}


@pytest.mark.parametrize(("rule", "agree"), [(by_ancestors, True), (unlike_the_sibling, True), (avoid_used, False)])
def test_theorem_five_all_orders_have_one_product(rule, agree):
    products = [log_product(rule, TREE, order) for order in orders(TREE)]
    assert len(products) == 6
    assert bool(np.ptp(products) < 1e-12) is agree
    log_probability = exact.local_rule_log_probability(rule, TREE)
    assert log_probability == pytest.approx(log_product(rule, TREE, sorted(TREE, key=lambda p: (len(p), p))))


X = np.array([[0.1, 0.5], [0.4, 0.2], [0.6, 0.9], [0.9, 0.3]])


def has_box(splits):
    return not isinstance(getattr(splits, "of", splits), pt.LocalCuts)


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize(
    "splits",
    [
        pt.LocalCuts(),
        pt.GridCuts([[0.25, 0.5], [0.4]]),
        pt.DyadicCuts(2, bounds=[[0, 1]] * 2),
        pt.CustomSplits(lambda cut: math.exp(-cut.depth) + cut.left * cut.at, by_depth=True),
        pt.CustomSplits(lambda cut: 1.0 + cut.at, of=pt.GridCuts([[0.25, 0.5], [0.4]]), over="cell"),
    ],
    ids=["local", "grid", "dyadic", "own, by depth", "own grid"],
)
def test_the_rule_of_a_model(splits):
    """Through the door of `CustomSplits`: coherent, and its product is the prior of both engines."""
    model = pt.TreeModel(
        X, [0, 1, 0, 1], split_prior=splits, tree_prior=pt.BranchingProcess(0.5, 2), leaf=pt.DirichletMultinomial()
    )
    rule, numbered_splits = exact.local_rule(model)
    report = exact.check_local_rule(rule, len(numbered_splits), 2)
    assert report.holds and report.n_checked > 0
    for tree in exact.solve(model).draw_trees(20, 1):
        numbers, shape, paths = {}, 0.0, {0: ""}
        for number, cell, split in model.visit(tree):
            if split is None:
                shape += 0.0 if model.is_forced(cell) else math.log(0.5)
                continue
            shape += math.log(0.5)
            codes = cell.codes(split.feature)
            same = split if has_box(splits) else split._replace(cut=int(codes[codes <= split.cut].max()))
            numbers[paths[number]] = numbered_splits.index(same)
            paths[int(tree.left[number])] = paths[number] + "0"
            paths[int(tree.right[number])] = paths[number] + "1"
        assert exact.local_rule_log_probability(rule, numbers) + shape == pytest.approx(model.log_prior(tree))


def test_bad_input():
    with pytest.raises(TypeError, match="function"):
        exact.check_local_rule("rule", 2, 2)
    with pytest.raises(ValueError, match="rule fails at ''"):
        exact.check_local_rule(lambda splits, leaf: splits["0"], 2, 2)
    with pytest.raises(ValueError, match="sum to 2"):
        exact.check_local_rule(lambda splits, leaf: [1.0, 1.0], 2, 2)
    with pytest.raises(ValueError, match="shape"):
        exact.check_local_rule(lambda splits, leaf: [1.0], 2, 2)
    with pytest.raises(exact.Intractable, match=r"labelled trees allowed\. Give fewer splits .* or raise max_trees"):
        exact.check_local_rule(lambda splits, leaf: np.full(5, 0.2), 5, 4, max_trees=1000)
    with pytest.raises(ValueError, match="path"):
        exact.local_rule_log_probability(by_ancestors, {"0": 1})
    with pytest.raises(ValueError, match="trivial"):
        exact.local_rule(
            pt.TreeModel(
                X, [0, 1, 0, 1], split_prior=pt.LocalCuts(trivial=True), tree_prior=pt.BranchingProcess(0.5, 2)
            )
        )
    with pytest.raises(ValueError, match="nominal"):
        exact.local_rule(pt.TreeModel([[0], [1]], [0, 1], nominal=[0]))
