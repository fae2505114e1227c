"""A leaf score that is NaN or infinite stops the run, and the error names the cell; nothing goes on without it."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.model import NotFinite

X = np.column_stack([np.arange(12.0), [0, 1, 2] * 4])
Y = np.array([0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1])
SPLIT_PRIORS = {"local": pt.LocalCuts(), "grid": pt.GridCuts(6), "dyadic": pt.DyadicCuts(3)}
COUNT = 2


def planted(split_prior="local", planted=True, **rest):
    """A model whose compiled score of a cell with two rows of the first class is NaN."""
    model = pt.TreeModel(
        X, Y, nominal=[1] if split_prior == "local" else None, split_prior=SPLIT_PRIORS[split_prior], **rest
    )
    if planted:
        leaf = model.lowered.leaf
        table = leaf.lookup.copy()
        table[0, COUNT] = np.nan
        leaf = leaf._replace(lookup=table)
        model.__dict__["lowered"] = model.lowered._replace(leaf=leaf, proposal_leaf=leaf)
    return model


def rows_named(message):
    """Boolean array: the rows of the cell that the answers in the message describe."""
    is_named = np.ones(len(X), dtype=bool)
    for k, sign, threshold in re.findall(r"x(\d) (<=|>) ([-\d.e]+)", message):
        low = X[:, int(k)] <= float(threshold)
        is_named &= low if sign == "<=" else ~low
    for k, out, labels in re.findall(r"x(\d) (not )?in \{([^}]*)\}", message):
        here = np.isin(X[:, int(k)], [float(label) for label in labels.split(", ")])
        is_named &= ~here if out else here
    return is_named


def check_cell(message):
    """The cell described has as many rows as it says, and the count that was planted."""
    rows, first, second = (float(v) for v in re.search(r"(\d+) rows, statistics \[(\d+), (\d+)\]", message).groups())
    assert first == COUNT and rows == first + second
    is_named = rows_named(message)
    if "side of a possible split" in message:
        assert is_named.sum() > rows
    else:
        assert [(Y[is_named] == label).sum() for label in (0, 1)] == [first, second]


@pytest.mark.more(everyday=["grow-prune"])
@pytest.mark.planted
@pytest.mark.parametrize("kernel", ["grow-prune", "default", "collapsed", "cgm"])
def test_the_sampler_stops(kernel):
    kernel = {kernel: 1.0} if kernel == "collapsed" else kernel
    with pytest.raises(NotFinite, match=r"the score of .* is nan") as caught:
        pt.sample(planted(), 200, tune=0, chains=1, rng=3, kernel=kernel, start="stump", progress=False)
    check_cell(str(caught.value))
    post = pt.sample(planted(planted=False), 5, tune=0, chains=1, rng=3, kernel=kernel, start="stump", progress=False)
    assert np.isfinite(post.draws.log_score_of_tree).all()


@pytest.mark.planted
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
def test_the_exact_engine_stops(split_prior):
    with pytest.raises(NotFinite, match="the score of a cell is nan") as caught:
        exact.solve(planted(split_prior))
    check_cell(str(caught.value))
    assert np.isfinite(exact.solve(planted(split_prior, planted=False)).log_evidence)


@pytest.mark.more(everyday=["smc"])
@pytest.mark.planted
@pytest.mark.parametrize("engine", ["smc", "mcmc"])
def test_the_progressive_mixture_stops(engine):
    with pytest.raises(NotFinite, match="is nan"):
        pt.progressive_mixture(planted(), engine=engine, rng=1, chains=2, draws=5)
    with pytest.raises(NotFinite, match="is nan"):
        exact.progressive_mixture(planted()).predict_proba(X)


def test_a_nan_is_no_lost_chain():
    """A chain that dies is left out with a warning; one that cannot go on is an error."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(NotFinite, match="is nan"):
        pt.sample(planted(), 200, tune=0, chains=2, rng=3, start="stump", executor=pool, progress=False)
    error = NotFinite("why")
    assert str(pickle.loads(pickle.dumps(error))) == "why"
