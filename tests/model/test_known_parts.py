"""Parts of a model that compiled code would take for something else are refused before anything is computed."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.model import Leaf, SplitPrior
from pactree_mcmc.model.model import COMPILED_LEAVES, COMPILED_SPLIT_PRIORS, COMPILED_TREE_PRIORS
from pactree_mcmc.model.tree_prior import TreePrior

X = np.arange(12.0)[:, None]
Y = np.arange(12) > 5


class Exponential(Leaf):
    """A leaf of one's own, with a code that compiled code does not know."""

    kind = 17
    is_classifier = True

    def n_stats(self, target):
        return target.n_classes

    def labels(self, target):
        return target.values

    def params(self, target):
        return np.array([1.0, 0.0, 2.0])

    def log_score(self, stats, target):
        return -float(stats[0] * stats[1])


class Other(pt.DirichletMultinomial):
    """Another plain score than the compiled one."""

    def log_score(self, stats, target):
        return -3.0


class OtherParams(pt.NormalInverseGamma):
    """Another compiled score than the plain one."""

    def params(self, target):
        return 2.0 * super().params(target)


class Middle(SplitPrior):
    """A split prior of one's own."""

    kind = 9


class EveryOther(pt.GridCuts):
    """Other numbers of splits than the compiled ones."""

    def count_splits(self, cell, feature):
        return super().count_splits(cell, feature) // 2


class Duck(TreePrior):
    """A tree prior of one's own."""

    max_depth = 3

    def log_split(self, depth, node):
        return np.full(np.shape(depth), -1.0)

    def log_stop(self, depth, node, *, forced, empty):
        return np.full(np.shape(depth), -1.0)

    def log_constant(self, shape):
        return 0.0


class Steep(pt.ChipmanPrior):
    """Not normalised, though prior draws take it for that."""

    def log_split(self, depth, node):
        return super().log_split(depth, node) - 1.0


STRANGE = {
    "leaf, unknown kind": (
        {"leaf": Exponential()},
        r"leaf is a Exponential, which has no compiled form; give Dirichlet",
    ),
    "leaf, plain score": ({"leaf": Other()}, r"leaf is a Other, which changes log_score of DirichletMultinomial"),
    "leaf, parameters": ({"leaf": OtherParams(0.0, 1.0, 1.0, 1.0)}, r"changes params of NormalInverseGamma"),
    "splits, unknown kind": (
        {"split_prior": Middle()},
        r"split_prior is a Middle, which has no compiled form; give Local",
    ),
    "split_prior, count_splits": (
        {"split_prior": EveryOther(3)},
        r"split_prior is a EveryOther, which changes count_splits of GridCuts",
    ),
    "prior, a duck": ({"tree_prior": Duck()}, r"tree_prior is a Duck, which has no compiled form; give Branching"),
    "prior, not normalised": (
        {"tree_prior": Steep()},
        r"tree_prior is a Steep, which changes log_split of ChipmanPrior",
    ),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_model_of_strange_parts_is_refused(case):
    parts, message = STRANGE[case]
    y = np.sin(X[:, 0]) if "parameters" in case else Y
    with pytest.raises(TypeError, match=message):
        pt.TreeModel(X, y, **parts)


def test_every_part_that_is_exported_is_known():
    exported = [getattr(pt, name) for name in pt.__all__]
    classes = [thing for thing in exported if isinstance(thing, type)]
    assert {cls for cls in classes if issubclass(cls, Leaf)} == set(COMPILED_LEAVES)
    assert {cls for cls in classes if issubclass(cls, SplitPrior)} == set(COMPILED_SPLIT_PRIORS)
    assert {cls for cls in classes if hasattr(cls, "log_stop")} == set(COMPILED_TREE_PRIORS)
