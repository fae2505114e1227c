"""The hull of (leaves, weight) at the root, on every kind of graph, equals that of all trees listed."""

import numpy as np
import pytest

from exact.recursion.trees import grow_chosen_trees
from exact.sums import hull_by_size, most_leaves
from tests.exact.recursion.test_semirings import random_terms
from tests.problems.drawn import GRAPHS, solved
from tests.reference.derivations import derivations

each_graph = pytest.mark.parametrize("kind", GRAPHS)


def upper_hull(best):
    """Corners from the fewest leaves to the largest weight, by trying every line; ``best`` maps leaves to weight."""
    points = sorted(best.items())
    vertices = [points[0]]
    while vertices[-1][1] < max(w for _, w in points):
        m, weight = vertices[-1]
        slope = max((w - weight) / (k - m) for k, w in points if k > m)
        reached = [(k, w) for k, w in points if k > m and (w - weight) / (k - m) >= slope - 1e-12]
        vertices.append(reached[-1])
    return vertices


def best_by_leaves(graph):
    best = {}
    for weight, leaves, _ in derivations(graph):
        best[len(leaves)] = max(best.get(len(leaves), -np.inf), weight)
    return best


@pytest.mark.more(everyday=["1-local, trivial", "2-grid", "4-cyclic"])
@each_graph
@pytest.mark.parametrize("seed", range(6))
def test_corners_of_all_trees(kind, seed):
    _, model, truth = solved(kind, seed % 3)
    graph = random_terms(truth.graph, np.random.default_rng([seed, 5]))
    best = best_by_leaves(graph)
    hull = hull_by_size(graph)
    vertices = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
    expected = upper_hull(best)
    assert hull.leaves[vertices].tolist() == [k for k, _ in expected]
    assert hull.weight[vertices] == pytest.approx([w for _, w in expected], abs=1e-9)
    trees = grow_chosen_trees(model, graph, hull, np.arange(hull.length[0]))
    assert ((np.diff(trees.offset) + 1) // 2).tolist() == [k for k, _ in expected]
    assert trees.log_prior + trees.log_score == pytest.approx([w for _, w in expected], abs=1e-9)
    assert most_leaves(graph)[0] >= max(best)
    assert most_leaves(truth.graph)[0] == max(best_by_leaves(truth.graph))
