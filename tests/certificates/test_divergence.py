"""Divergences from the prior: of every kind of posterior, over trees merged by plain code."""

import math

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact import sums
from pactree_mcmc.tree.arrays import LEAF

FAST = {"kernel": "grow-prune", "chains": 2, "rng": 1}


def table(n, seed=0):
    """A coarse number, one that lacks values and a category, and a label that follows them with noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "u": rng.integers(6, size=n) / 6.0,
            "v": np.where(rng.random(n) < 0.2, np.nan, rng.integers(4, size=n)),
            "c": pd.Categorical(np.append(list("pqr"), rng.choice(list("pqr"), n - 3))),
        }
    )
    return frame, ((frame["u"] > 0.4) | (frame["c"] == "q")).to_numpy() ^ (rng.random(n) < 0.15)


def model_with(split_prior, n=40, columns=("u", "v", "c"), **more):
    X, y = table(n)
    options = {"leaf": pt.FrozenLaplace(), "estimation": np.arange(n) % 2 == 0, **more}
    prior = pt.ChipmanPrior(0.8, 0.8, max_depth=3)
    return pt.TreeModel(X[list(columns)], y, tree_prior=prior, split_prior=split_prior, missing="branch", **options)


SPLIT_PRIORS = {
    "local": lambda: model_with(pt.LocalCuts()),
    "trivial": lambda: model_with(pt.LocalCuts(trivial=True), columns=("u", "c")),
    "grid": lambda: model_with(pt.GridCuts([[0.2, 0.4, 0.7], [0.5, 1.5], None])),
    "dyadic": lambda: model_with(pt.DyadicCuts(2), columns=("u", "v")),
    "fixed": lambda: model_with(pt.kd_tree(table(40)[0][["u"]], 3), columns=("u",)),
}
KINDS = {
    "chains": lambda model, path: pt.sample(model, 100, tune=50, **FAST),
    "tempered": lambda model, path: pt.sample(model, 60, tune=50, betas=[1.0, 0.5], **FAST),
    "resumed": lambda model, path: pt.resume(pt.sample(model, 50, tune=50, **FAST), 50),
    "loaded": lambda model, path: through_a_file(pt.sample(model, 50, tune=50, **FAST), path),
    "exact draws": lambda model, path: exact.solve(model).sample(200, rng=1),
    "exact progressive draws": lambda model, path: exact.progressive_mixture(model, orders=2, rng=1).sample(200, rng=1),
    "progressive, smc": lambda model, path: pt.progressive_mixture(model, particles=20, draws=100, **FAST),
    "progressive, mcmc": lambda model, path: pt.progressive_mixture(model, engine="mcmc", draws=100, **FAST),
}


def through_a_file(post, path):
    post.save(path / "post.nc")
    return pt.load(path / "post.nc")


def split_in_model_terms(model, cell, split):
    """Return a split in the terms of the model, and True if its sides are in the other order."""
    k = split.feature
    if model.split_prior.kind in (0, 1):  # local: how the rows of the cell are parted
        left = cell.goes_left(split)
        sides = [frozenset(cell.index[left].tolist()), frozenset(cell.index[~left].tolist())]
        if len(cell.index) == 0:
            return (k, "the one way of an empty cell"), False
    elif split.categories >= 0:
        sides = [
            frozenset(bits(split.categories & int(cell.low[k]))),
            frozenset(bits(~split.categories & int(cell.low[k]))),
        ]
    else:
        return (k, split.cut), False
    if split.categories >= 0 and all(sides) and model.shape is None:
        return (k, frozenset(sides)), min(sides[1]) < min(sides[0])
    return (k, tuple(sides)), False


def bits(mask):
    return [j for j in range(63) if mask >> j & 1]


def key_of(model, tree):
    """The tree as nested tuples of splits in the model's terms."""
    nodes = {number: (cell, split) for number, cell, split in model.visit(tree)}

    def told(i):
        if tree.feature[i] == LEAF:
            return LEAF
        split, turned = split_in_model_terms(model, *nodes[i])
        below = [told(int(tree.left[i])), told(int(tree.right[i]))]
        return (split, *(below[::-1] if turned else below))

    return told(0)


def merged_divergence(post):
    """The divergence of the distribution of the draws, and how many trees there are, one draw at a time."""
    fraction, log_prior = {}, {}
    for t in post.draws.tree_of_draw.ravel().tolist():
        tree = post.draws.distinct_tree(t)
        key = key_of(post.model, tree)
        fraction[key] = fraction.get(key, 0.0) + 1.0 / post.draws.tree_of_draw.size
        log_prior[key] = post.model.log_prior(tree)
    return math.fsum(q * (math.log(q) - log_prior[key]) for key, q in fraction.items()), len(fraction)


@pytest.mark.more(everyday=["tempered-trivial", "loaded-dyadic"])
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_divergence_is_that_of_the_merged_distribution(kind, split_prior, tmp_path):
    post = KINDS[kind](SPLIT_PRIORS[split_prior](), tmp_path)
    expected, n_different = merged_divergence(post)
    assert post.kl_to_prior() == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert post.kl_to_prior() >= 0.0
    if kind.startswith("progressive"):
        assert n_different < post.draws.n_distinct_trees  # the same tree with the leaves of other stages
    else:
        assert n_different == post.draws.n_distinct_trees


def test_the_certificate_of_a_progressive_mixture():
    """Each of many stages has its own leaves under a leaf that learns, and other counts of S under a frozen one."""
    rng = np.random.default_rng(0)
    x = rng.random(60)
    y = (x > 0.4) ^ (rng.random(60) < 0.1)
    model = pt.TreeModel(
        x[:, None], y, split_prior=pt.GridCuts([[0.25, 0.5, 0.75]]), leaf=pt.FrozenLaplace(),
        tree_prior=pt.ChipmanPrior(0.8, 1.0, max_depth=3), estimation=np.arange(60) % 2 == 0,
    )  # fmt: skip
    post = pt.progressive_mixture(model, engine="mcmc", draws=120, **FAST)
    expected, n_different = merged_divergence(post)
    assert n_different <= 15 < 60 < post.draws.n_distinct_trees
    weight = np.bincount(post.draws.tree_of_draw.ravel()) / post.draws.tree_of_draw.size
    assert weight @ (np.log(weight) - post.draws.log_prior_of_tree) < 0.0  # as if a tree were another one at each stage
    assert post.certificate().kl == pytest.approx(expected, rel=1e-12)
    assert expected > 0.0


def test_no_posterior_hides_a_negative_divergence(monkeypatch):
    model = SPLIT_PRIORS["grid"]()
    truth = exact.solve(model)
    draws = truth.sample(100, rng=0)
    draws.draws.log_prior_of_tree += 100.0
    with pytest.raises(RuntimeError, match="report it"):
        draws.kl_to_prior()
    monkeypatch.setattr(sums, "log_sum", lambda graph: -100.0)
    with pytest.raises(RuntimeError, match="report it"):
        truth.kl_to_prior()
