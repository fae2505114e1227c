"""Both kernels once more, on nested tuples and straight from their descriptions, with the naive enumerator's terms."""

import math

from tests.reference.enumeration import LEAF, admissible_splits, child_cells, root_cell
from tests.reference.leaf_scores import score


def nodes(problem, tree):
    """Every (path, subtree, cell); a path is a string of L and R from the root."""
    todo = [("", tree, root_cell(problem))]
    while todo:
        path, subtree, cell = todo.pop()
        yield path, subtree, cell
        if subtree != LEAF:
            left, right = child_cells(problem, cell, subtree[1], subtree[2])
            todo += [(path + "L", subtree[3], left), (path + "R", subtree[4], right)]


def with_subtree(tree, path, new):
    """The tree with another subtree at the end of the path."""
    if not path:
        return new
    _, k, rule, left, right = tree
    if path[0] == "L":
        return ("split", k, rule, with_subtree(left, path[1:], new), right)
    return ("split", k, rule, left, with_subtree(right, path[1:], new))


def growable(problem, tree):
    """Leaves that some split can split: (path, cell, splits)."""
    leaves = [(path, cell) for path, subtree, cell in nodes(problem, tree) if subtree == LEAF]
    asked = [(path, cell, admissible_splits(problem, cell)) for path, cell in leaves]
    return [entry for entry in asked if entry[2]]


def prunable(problem, tree):
    """Nodes whose children are both leaves: (path, subtree, cell)."""
    return [entry for entry in nodes(problem, tree) if entry[1] != LEAF and entry[1][3:] == (LEAF, LEAF)]


def grow_prune_row(problem, tree, posterior):
    """Distribution of the next tree under the uniform grow and prune kernel; ``posterior`` maps trees to
    probabilities.
    """

    def grow_probability(of):
        return 0.5 if prunable(problem, of) else 1.0

    def propose_growth(of, R):
        return grow_probability(of) / len(growable(problem, of)) * R

    def propose_pruning(of):
        return (1.0 - grow_probability(of)) / len(prunable(problem, of))

    row = {}
    for path, _, split_prior in growable(problem, tree):
        for k, rule, R in split_prior:
            larger = with_subtree(tree, path, ("split", k, rule, LEAF, LEAF))
            there = propose_growth(tree, R)
            back = propose_pruning(larger)
            row[larger] = there * min(1.0, posterior.get(larger, 0.0) * back / (posterior[tree] * there))
    for path, subtree, cell in prunable(problem, tree):
        R = {(k, rule): R for k, rule, R in admissible_splits(problem, cell)}[subtree[1], subtree[2]]
        smaller = with_subtree(tree, path, LEAF)
        there, back = propose_pruning(tree), propose_growth(smaller, R)
        row[smaller] = row.get(smaller, 0.0) + there * min(1.0, posterior[smaller] * back / (posterior[tree] * there))
    return {**row, tree: 1.0 - math.fsum(row.values())}


def blanchard_row(problem, tree):
    """Distribution of the next tree under the paper's kernel, for a conditioned process with constant rho.

    The walk reaches a leaf at depth j with probability 2^-j; then a growth is proposed with probability
    rho (1 - rho) / 2, a deletion, if the sibling is a leaf, with 1/2, and only the scores decide.
    """
    rho = problem.tree_prior["rho"]
    row = {}
    for path, cell, split_prior in growable(problem, tree):
        for k, rule, R in split_prior:
            larger = with_subtree(tree, path, ("split", k, rule, LEAF, LEAF))
            K = fit_ratio(problem, cell, k, rule)
            row[larger] = 2.0 ** -len(path) * rho * (1.0 - rho) / 2.0 * R * min(1.0, 1.0 / K)
    for path, subtree, cell in prunable(problem, tree):
        smaller = with_subtree(tree, path, LEAF)
        either = 2 * 2.0 ** -(len(path) + 1)
        K = fit_ratio(problem, cell, subtree[1], subtree[2])
        row[smaller] = row.get(smaller, 0.0) + either / 2.0 * min(1.0, K)
    return {**row, tree: 1.0 - math.fsum(row.values())}


def fit_ratio(problem, cell, k, rule):
    """K: how much likelier the data are in the cell than in its two parts."""
    return math.exp(score(problem, cell) - sum(score(problem, child) for child in child_cells(problem, cell, k, rule)))
