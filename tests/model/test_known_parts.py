"""Parts of a model that compiled code would take for something else are refused before anything is computed."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model import Leaf, SplitPrior
from pactree_mcmc.model.leaf.codes import LeafRule
from pactree_mcmc.model.leaf.compiled import leaf_score
from pactree_mcmc.model.obstacles import COMPILED_LEAVES, COMPILED_SPLIT_PRIORS, COMPILED_TREE_PRIORS
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


CALLS = {
    "sample": lambda model: pt.sample(model, 2, tune=0, chains=1, rng=1, progress=False),
    "solve": exact.solve,
    "progressive_mixture": lambda model: pt.progressive_mixture(model, particles=2, draws=1, chains=2, rng=1),
    "exact.progressive_mixture": exact.progressive_mixture,
    "lowered": lambda model: model.lowered,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("part", ["leaf", "split_prior", "tree_prior"])
def test_a_part_put_into_a_model_later_is_refused(call, part):
    model = pt.TreeModel(X, Y)
    setattr(model, part, {"leaf": Exponential(), "split_prior": Middle(), "tree_prior": Duck()}[part])
    with pytest.raises(TypeError, match="which has no compiled form"):
        CALLS[call](model)


def test_what_has_no_compiled_form_may_be_changed():
    class Mine(pt.DirichletMultinomial):
        """Another name, another prediction."""

        def __repr__(self):
            return "Mine()"

        def value(self, stats, target):
            return np.full((len(stats), target.n_classes), 1.0 / target.n_classes)

    class Deep(pt.ChipmanPrior):
        pass

    model = pt.TreeModel(X, Y, leaf=Mine(), tree_prior=Deep(0.9))
    assert exact.solve(model).predict_proba(X[:1])[0] == pytest.approx([0.5, 0.5])


def test_every_part_that_is_exported_is_known():
    exported = [getattr(pt, name) for name in pt.__all__]
    classes = [thing for thing in exported if isinstance(thing, type)]
    assert {cls for cls in classes if issubclass(cls, Leaf)} == set(COMPILED_LEAVES)
    assert {cls for cls in classes if issubclass(cls, SplitPrior)} == set(COMPILED_SPLIT_PRIORS)
    assert {cls for cls in classes if hasattr(cls, "log_stop")} == set(COMPILED_TREE_PRIORS)


def test_compiled_code_scores_no_unknown_kind():
    """Not as a loss, which is what the last branch of the dispatch was."""
    rule = LeafRule(17, np.array([1.0, 0.0, 2.0]), 2, np.zeros((1, 1)))
    assert np.isnan(leaf_score(rule, np.array([[3.0, 4.0]]), 0))
