"""The features whose indicators are checked: those that some chain has, and some chain does not always have."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import feature_indicators
from tests.posterior.test_convergence import posterior_of_trees

N = 40
MODEL = pt.TreeModel(np.column_stack([np.arange(N), np.arange(N) % 2, np.arange(N) % 3]), np.arange(N) > 17)


def root_cut(i=0):
    return pt.Tree([0, -1, -1], [i + 0.5, 0, 0], [1, 0, 0], [2, 0, 0])


def splits_on_two_features(feature):
    """A cut of feature 0, and one of another feature below."""
    return pt.Tree([0, -1, feature, -1, -1], [1.5, 0, 0.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])


STUMP, ALWAYS, SPLIT_ONCE = pt.Tree([-1], [0], [0], [0]), [root_cut(i) for i in range(3, 38)], splits_on_two_features(1)
DRAWS = 1000


def posterior_of_counts(*counts, often=ALWAYS[2], rare=SPLIT_ONCE):
    """Chains with so many draws, evenly spread, of ``rare`` each, the others of ``often``."""
    tree_of_draw = np.zeros((len(counts), DRAWS), dtype=int)
    for chain, n in zip(tree_of_draw, counts, strict=True):
        chain[(np.arange(n) * DRAWS) // max(n, 1)] = 1
    return posterior_of_trees(MODEL, [often, rare], tree_of_draw)


def checked(post):
    return feature_indicators(post).names


INCLUDED = "inclusion of feature 'x1'"


@pytest.mark.parametrize(
    ("counts", "is_checked"),
    [
        ((50, 0, 0, 0), True),  # 0.0125 of all
        ((21, 0, 0, 0), True),
        ((20, 20, 20, 20), False),  # exactly 0.02
        ((20, 0, 0, 0), False),
        ((20, 20, 20, 21), True),
        ((950, 1000, 1000, 1000), True),  # 0.9875 of all
        ((979, 1000, 1000, 1000), True),
        ((980, 980, 980, 980), False),  # exactly 0.98
        ((980, 1000, 1000, 1000), False),
        ((0, 0, 1000, 1000), True),  # constant in each chain, not in all
        ((0, 1000), True),
        ((0, 0, 0, 0), False),
        ((1000, 1000, 1000, 1000), False),
        ((21,), True),
        ((20,), False),
        ((500,), True),
        ((979,), True),
        ((980,), False),
    ],
)
def test_features_that_some_chain_has_and_some_has_not(counts, is_checked):
    post = posterior_of_counts(*counts)
    assert (INCLUDED in checked(post)) == is_checked
    assert not any("x0" in name or "x2" in name for name in checked(post))


@pytest.mark.parametrize(("counts", "is_checked"), [((50, 0, 0, 0), True), ((20, 20, 20, 20), False)])
def test_roots_are_checked_alike(counts, is_checked):
    """Each feature at a root is missing at the other root."""
    names = checked(posterior_of_counts(*counts, often=STUMP, rare=root_cut()))
    assert names == (["root feature 'x0'", "inclusion of feature 'x0'"] if is_checked else [])
    other = pt.Tree([1, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
    names = checked(posterior_of_counts(*counts, often=other, rare=root_cut()))
    assert len(names) == (4 if is_checked else 0)
