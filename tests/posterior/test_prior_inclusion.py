"""Probabilities of features, prior and posterior: against enumeration, simulation, and by name."""

import itertools

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model import model as model_file

N = 30
RNG = np.random.default_rng(4)
TABLE = pd.DataFrame(
    {"flat": 1.0, "size": RNG.integers(0, 4, N), "colour": RNG.choice(["red", "green"], N), "x": RNG.integers(0, 2, N)}
)
LABELS = np.where(TABLE["size"] > 1, "yes", "no")


def model_of(prior=None, table=TABLE, **parts):
    prior = pt.ChipmanPrior(0.8, 1.0, max_depth=2) if prior is None else prior
    return pt.TreeModel(table, LABELS, tree_prior=prior, **parts)


def inclusion_by_enumeration(model):
    """Return the prior probability of each feature as a sum over all trees."""
    trees = exact.solve(model).best_trees(100_000).trees
    prior = np.exp([model.log_prior(tree) for tree in trees])
    uses = [[np.any(tree.feature == k) for k in range(model.n_features)] for tree in trees]
    return prior @ np.array(uses) / prior.sum()


@pytest.mark.parametrize("prior", [None, pt.LeafPenalty(0.7, max_depth=2), pt.BranchingProcess(0.4, 2)])
def test_the_exact_prior_is_the_sum_over_all_trees(prior):
    model = model_of(prior)
    inclusion = exact.solve(model).prior_inclusion()
    assert inclusion.to_dict() == pytest.approx(
        dict(zip(TABLE.columns, inclusion_by_enumeration(model), strict=True)), abs=1e-9
    )
    assert inclusion["flat"] == pytest.approx(0.0, abs=1e-12) and inclusion.name == "probability"


def test_the_simulated_prior_agrees_and_is_drawn_once(monkeypatch):
    model = model_of()
    sampled = exact.solve(model).sample(50, rng=1)
    simulated = sampled.prior_inclusion(draws=400)
    truth = exact.solve(model).prior_inclusion()
    assert (simulated - truth).abs().max() < 4.0 * 0.5 / np.sqrt(400)
    monkeypatch.setattr(model_file, "draw_prior", None)
    assert sampled.prior_inclusion(draws=400).equals(simulated)
    visited = exact.visited(exact.solve(model_of()).sample(50, rng=1))
    monkeypatch.undo()
    assert (visited.prior_inclusion(draws=200) - truth).abs().max() < 0.15


@pytest.mark.parametrize(("alpha", "beta", "least", "most"), [(0.95, 2.0, 1000, 1000), (0.99, 0.2, 100, 400)])
def test_fewer_trees_are_drawn_by_default_if_they_are_large(alpha, beta, least, most, monkeypatch):
    X = np.random.default_rng(0).normal(size=(600, 2))
    model, n = pt.TreeModel(X, X[:, 0] > 0, tree_prior=pt.ChipmanPrior(alpha, beta)), []
    rng = np.random.default_rng(1)
    drawn = itertools.cycle([model_file.draw_prior(model, rng) for _ in range(20)])
    monkeypatch.setattr(model_file, "draw_prior", lambda *args: n.append(0) or next(drawn))
    pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])]).prior_inclusion()
    assert least <= len(n) <= most


def test_bad_input_is_refused():
    post = exact.solve(model_of()).sample(20, rng=1)
    with pytest.raises(ValueError, match="draws=0 is out of range"):
        post.prior_inclusion(draws=0)
    sampled = exact.solve(model_of(pt.LeafPenalty(0.7, max_depth=2))).sample(20, rng=1)
    match = r"cannot draw trees of LeafPenalty\(.*split by split\. Give exact\.solve.*pt\.simulate"
    with pytest.raises(ValueError, match=match):
        sampled.prior_inclusion()
    # both ways that the message names
    assert exact.solve(sampled.model).prior_inclusion().max() > 0.0
    assert pt.simulate(sampled.model, 1)[0].n_leaves >= 1
