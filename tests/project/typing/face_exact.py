"""The part of `face` that uses exact posteriors."""

import tempfile
from pathlib import Path
from typing import Any, TypeVar, assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd

import exact
import pactree_mcmc as pt
from exact.posterior import BestTrees, TreesWithin
from exact.rows import CellProbabilities
from exact.solving import VisitedPosterior
from exact.sums import MeanAndVariance
from exact.systems.progressive.mixture import ProgressiveMixture
from pactree_mcmc.posterior.rows.calibration import Calibration
from pactree_mcmc.posterior.rows.survival import Survival
from pactree_mcmc.posterior.trees.consensus import ConsensusTree
from pactree_mcmc.posterior.trees.credible_set import CredibleSet
from pactree_mcmc.posterior.trees.shapes import Shape, Shapes
from pactree_mcmc.posterior.trees.support import Support
from pactree_mcmc.smc import ProgressiveSample

Array = npt.NDArray[Any]
# mypy reads a function of an AnyPosterior once for each of the classes
AnyPosterior = TypeVar(
    "AnyPosterior", pt.Posterior, pt.SampledPosterior, ProgressiveSample, exact.ExactPosterior, ProgressiveMixture
)
TreePrior = pt.BranchingProcess | pt.ChipmanPrior | pt.LeafPenalty
X = np.random.default_rng(0).uniform(size=(16, 2))
LABELS = np.where(X[:, 0] > 0.5, "yes", "no")
NUMBERS = np.where(X[:, 0] > 0.5, 1.0, 0.0) + 0.1 * X[:, 1]
ROWS = [[0.2, 0.3], [0.7, 0.3]]


def evidence(post: pt.Posterior) -> None:
    assert_type(post.log_evidence, float | None)


def use_any_posterior(post: AnyPosterior) -> None:
    evidence(post)
    assert_type(post.model, pt.TreeModel)
    assert_type(post.n_leaves_pmf(), Array)
    post.feature_inclusion().to_dict(), post.prior_inclusion(draws=10).to_dict(), post.root_split_pmf().to_dict()
    assert_type(post.map_tree(), pt.Tree)
    assert_type(post.draw_trees(2, rng=1), list[pt.Tree])
    assert_type(post.predict(ROWS), Array)
    if post.model.classes_ is None:
        assert_type(post.predict_quantiles(ROWS, [0.1, 0.9]), Array)
        assert_type(post.predict_interval(ROWS, coverage=0.8), Array)
        assert_type(post.predict_std_new_y(ROWS), Array)
    else:
        assert_type(post.predict_proba(ROWS), Array)
    assert_type(post.sample_predictive(ROWS, draws=3, rng=1), Array)
    assert_type(post.kl_to_prior(), float)
    with tempfile.TemporaryDirectory() as folder:
        page = post.report(Path(folder) / "page.html", truth=None, title="Trees")
        assert_type(page, Path)
    trees_of_any_posterior(post)


def trees_of_any_posterior(post: pt.Posterior) -> None:
    support = assert_type(post.support(0.1, draws=50, rng=1), Support)
    for array in (support.kind, support.probability, support.by_chain, support.rhat, support.ess, support.mcse):
        assert_type(array, Array)
    assert_type(support.words, list[str])
    assert_type(support.table(beside=support), pd.DataFrame)
    consensus = assert_type(post.consensus_tree(0.5, draws=50, rng=1), ConsensusTree)
    assert_type(consensus.format(), str)
    assert_type(consensus.children(0), list[int])
    assert_type(consensus.support, Array)
    assert_type(consensus.value, Array | None)
    shapes = assert_type(post.shapes(3, 0.8, draws=50, rng=1), Shapes)
    assert_type(shapes.table(), pd.DataFrame)
    first = assert_type(shapes.shapes[0], Shape)
    assert_type(first.splits, pd.DataFrame)
    assert_type(first.tree, pt.Tree)
    likely = assert_type(post.credible_set(0.9, draws=50, rng=1), CredibleSet)
    assert_type(likely.level(likely.tree(0)), float)
    assert_type(likely.log_odds, Array)
    assert_type(list(likely), list[pt.Tree])
    assert_type(likely.exact, bool)


def survival() -> Survival:
    """Answers of a posterior of times to an event."""
    y = np.column_stack([NUMBERS + 0.5, np.ones(16)])
    post = exact.solve(pt.TreeModel(X, y, leaf=pt.WeibullGamma(k=2.0)), progress=False)
    curves = assert_type(post.survival(X, [0.5, 1.0], coverage=0.8), Survival)
    for array in (curves.times, curves.mean, curves.lower, curves.upper):
        assert_type(array, Array)
    assert_type(curves.table(), pd.DataFrame)
    assert_type(post.median_survival(X, 0.8), pd.DataFrame)
    check = assert_type(post.calibration(X, y, 2, times=[0.5], coverage=0.8), Calibration)
    assert_type(check.table(), pd.DataFrame)
    assert_type(check.expected_events, Array)
    return curves


def use_exact_posterior(model: pt.TreeModel) -> exact.ExactPosterior:
    try:
        truth = exact.solve(model, max_cells=1_000_000, progress=False)
        pieces = assert_type(exact.visited(truth.sample(5, 1), 1, max_cells=1000), VisitedPosterior)
        assert_type(pieces.coverage, float | None)
    except exact.Intractable as error:
        assert_type(error.needed, int)
        raise
    assert_type(truth, exact.ExactPosterior)
    use_any_posterior(truth)
    assert_type(truth.log_evidence, float)
    assert_type(truth.n_trees, int)
    assert_type(truth.graph, exact.CellGraph)
    assert_type(truth.log_inside, Array)
    assert_type(truth.map_log_joint, float)
    best = assert_type(truth.best_trees(2), BestTrees)
    assert_type(best.trees, list[pt.Tree])
    assert_type(best.log_joint, Array)
    near = assert_type(truth.trees_within(1.0, most=5), TreesWithin)
    assert_type(near.trees, list[pt.Tree])
    assert_type(near.complete, bool)
    if model.classes_ is not None:
        assert_type(near.ambiguity(X), float)
        assert_type(near.importance(X, np.repeat(model.classes_[:1], len(X)), rng=1), Array)
    assert_type(truth.best_log_joint_by_size(2), Array)
    assert_type(truth.best_tree_of_size(2), pt.Tree)
    assert_type(truth.depth_pmf(), Array)
    assert_type(truth.expected_splits(), Array)
    moments = assert_type(truth.mean_and_variance(np.ones(truth.graph.n_cells)), MeanAndVariance)
    mean, variance = moments  # as a pair too
    assert_type(mean, float | Array)
    assert_type(moments.mean, float | Array)
    assert_type(variance, float | Array)
    cells = assert_type(truth.cell_probabilities(), CellProbabilities)
    assert_type(cells.leaf, Array)
    assert_type(cells.split, Array)
    assert_type(truth.split_probabilities(), Array)
    assert_type(truth.predict_std_over_trees(ROWS), Array)
    assert_type(truth.sample(50, rng=1), pt.SampledPosterior)
    truth.to_arviz(draws=10, rng=1, log_likelihood=True, posterior_predictive=True, expectation=True)
    assert_type(truth.summary(), pd.DataFrame)
    return truth
