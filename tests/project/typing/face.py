"""A program that says of what type the results of models, runs and posteriors are: ``mypy --strict`` checks it.

Not a test: pytest does not import it. It runs all the same, ``python -m tests.project.typing.face``, on tables of a few
rows.
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import assert_type

import numpy as np
import pandas as pd

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.trees.distances import TreeDistances, TreeEss
from pactree_mcmc.posterior.trees.support import SplitFrequencies
from tests.project.typing.face_exact import (
    LABELS,
    NUMBERS,
    ROWS,
    Array,
    TreePrior,
    X,
    survival,
    use_any_posterior,
    use_exact_posterior,
)


def models() -> list[pt.TreeModel]:
    """Each kind of prior and leaf."""
    assert_type(pt.ChipmanPrior(alpha=0.95, beta=2.0, max_depth=None), pt.ChipmanPrior)
    chipman, process = pt.ChipmanPrior(0.5, 1.0, 3), pt.BranchingProcess(rho=0.5, max_depth=3, conditioned=False)
    penalty = pt.LeafPenalty(cost=1.0, max_depth=3)
    local, grid = pt.LocalCuts(trivial=False, min_leaf=1, max_cuts=3, feature_weights=[1.0, 2.0]), pt.GridCuts(2)
    assert_type(pt.GridCuts.from_table(X, 3), pt.GridCuts)
    dyadic = pt.DyadicCuts(2, cyclic=True)
    boxes = pt.DyadicCuts(2, bounds=[[0.0, 1.0], [0.0, 1.0]])
    tree = pt.Tree([0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0])
    assert_type(pt.FixedTree(tree), pt.FixedTree)
    design = assert_type(pt.kd_tree(X, 2, y=None, rule="median", coordinate="cycling"), pt.FixedTree)
    assert_type(pt.FixedTree.from_sklearn(tree.to_sklearn()), pt.FixedTree)
    assert_type(design.split_probabilities(X, rho=0.9), Array)
    assert_type(design.tree, pt.Tree)
    assert_type(pt.dyadic_tree(X, 2), pt.FixedTree)
    words = assert_type(pt.contexts([0, 1, 0, 1, 1, 0, 1], 2, 2), pt.Contexts)
    assert_type(words.X, Array)
    assert_type(words.y, Array)
    found = [
        pt.TreeModel(X, LABELS),
        pt.TreeModel(X, LABELS, tree_prior=chipman, split_prior=local, leaf=pt.DirichletMultinomial(alpha=0.5)),
        pt.TreeModel(X, NUMBERS, tree_prior=process, split_prior=dyadic, leaf=pt.NormalInverseGamma()),
        pt.TreeModel(X, NUMBERS, tree_prior=penalty, split_prior=grid, leaf=pt.NormalKnownVariance(sigma2=0.1)),
        pt.TreeModel(X, NUMBERS, split_prior=design, leaf=pt.NormalSharedVariance(), sample_weight=np.ones(16)),
        pt.TreeModel(X, [1, 2] * 8, leaf=pt.PoissonGamma(shape=1.0, rate=1.0), missing="branch"),
        pt.TreeModel(X, LABELS, leaf=pt.FrozenLaplace(pseudocount=1.0), estimation=0.5),
        pt.TreeModel(
            X, LABELS, split_prior=boxes, leaf=pt.PacBayesLoss(4.0, lambda2=0.0), estimation=[True, False] * 8
        ),
        pt.TreeModel(words.X, words.y, split_prior=pt.context_tree(2, 2), tree_prior=pt.BranchingProcess(0.5, None)),
        pt.TreeModel(pd.DataFrame({"a": X[:, 0], "b": ["u", "v"] * 8}), LABELS, nominal=["b"]),
    ]
    return assert_type(found, list[pt.TreeModel])


def use_model(model: pt.TreeModel) -> None:
    compile_all: Callable[[], None] = pt.warm_up  # not called: it takes minutes
    assert compile_all.__doc__
    assert_type(model.classes_, Array | None)
    assert_type(model.tree_prior, TreePrior)
    assert_type(model.columns.names, tuple[str, ...])
    assert_type(model.n_rows, int)
    assert_type(model.n_features, int)
    tree, y = pt.simulate(model, rng=1)
    assert_type(tree, pt.Tree)
    assert_type(y, Array)
    assert_type(pt.compare_models({"a": model, "b": exact.solve(model)}, rng=1, draws=20), pd.DataFrame)
    assert_type(model.log_posterior(tree), float)
    assert_type(model.log_prior(tree), float)
    assert_type(model.log_score(tree), float)
    assert_type(repr(model), str)


def use_tree(tree: pt.Tree) -> None:
    assert_type(pt.check_tree(tree, n_features=2), None)
    for array in (tree.feature, tree.threshold, tree.left, tree.right, tree.categories, tree.default_left):
        assert_type(array, Array)
    for possible in (tree.value, tree.classes, tree.rows):
        assert_type(possible, Array | None)
    assert_type(tree.n_nodes, int)
    assert_type(tree.n_leaves, int)
    assert_type(tree.depth, int)
    assert_type(tree.node_depth, Array)
    assert_type(tree.apply(ROWS), Array)
    assert_type(tree.predict(ROWS), Array)
    assert_type(tree.split(0), str)
    assert_type(tree.format(), str)
    assert_type(tree.to_dot(name="t"), str)
    assert_type(tree.to_sklearn(), dict[str, Array])
    assert_type(pt.Tree.from_sklearn(tree.to_sklearn()), pt.Tree)
    assert_type(tree == tree, bool)
    assert_type(hash(tree), int)


def runs(model: pt.TreeModel, folder: Path) -> pt.SampledPosterior:
    """All arguments of sample and resume."""
    with ThreadPoolExecutor(1) as executor:
        post = pt.sample(
            model,
            20,
            tune=5,
            chains=2,
            rng=np.random.default_rng(1),
            kernel="grow-prune",
            thin=1,
            proposals=20,
            start="dispersed",
            betas=None,
            executor=executor,
            progress=False,
            checkpoint=folder / "checkpoint.nc",
            every=30.0,
        )
    assert_type(post, pt.SampledPosterior)
    pt.sample(model, 10, tune=5, rng=[1, 2], chains=2, kernel={"grow-prune": 0.5, "change": 0.5}, progress=False)
    tempered = pt.sample(model, 10, tune=5, rng=1, betas=[1.0, 0.5, 0.0], chains=2, progress=False, kernel="cgm")
    pt.sample(model, 10, tune=5, rng=1, betas=2, start=tempered.map_tree(), chains=2, progress=False, kernel="cgm")
    pt.sample(model, 10, tune=5, start=[post.map_tree()] * 2, rng=np.random.SeedSequence(1), chains=2, progress=False)
    found = tempered.draws.tempering
    assert found is not None
    assert_type(found.betas, Array)
    assert_type(found.swap_rates, Array)
    assert_type(found.round_trips, Array)
    assert_type(pt.resume(post, 5, executor=None, progress=False, checkpoint=None, every=60.0), pt.SampledPosterior)
    assert_type(pt.resume(folder / "checkpoint.nc"), pt.SampledPosterior)
    if post.course is not None:
        assert_type(post.course.steps, int)
    return post


def use_draws(post: pt.SampledPosterior, folder: Path) -> None:
    use_any_posterior(post)
    assert_type(post.log_evidence, float | None)
    for number in (post.n_chains, post.n_draws, post.draws.n_distinct_trees):
        assert_type(number, int)
    for by_draw in (post.log_prior, post.log_score, post.n_leaves, post.depth, post.root_feature):
        assert_type(by_draw, Array)
    for by_tree in (
        post.draws.log_prior_of_tree,
        post.draws.log_score_of_tree,
        post.draws.weight_of_tree,
        post.draws.n_leaves_of_tree,
    ):
        assert_type(by_tree, Array)
    for further in (
        post.draws.depth_of_tree,
        post.draws.root_feature_of_tree,
        post.draws.split_counts_of_tree,
        post.draws.place_values,
    ):
        assert_type(further, Array)
    for array in (
        post.draws.tree_of_draw,
        post.draws.place_stats,
        post.draws.proposed,
        post.draws.accepted,
        post.draws.noise_variance,
    ):
        assert_type(array, Array)
    assert_type(post.draws.distinct_trees.feature, Array)
    assert_type(post.draws.moves, tuple[str, ...])
    assert_type(post.draws.seconds, float)
    assert_type(post.log_evidence_se, float | None)
    assert_type(post.predict_std_over_trees(ROWS), Array)
    assert_type(post.values_by_draw(ROWS), Array)
    assert_type(post.depth_pmf(), Array)
    assert_type(post.draws.distinct_tree(0), pt.Tree)
    assert_type(pt.posterior_from_trees(post.model, [post.draws.distinct_tree(0)], [[0, 0]]), pt.SampledPosterior)
    assert_type(post.draws.coded_trees.cut, Array)
    assert_type(post.asdsf(), SplitFrequencies)
    assert_type(post.asdsf().expected, float)
    assert_type(post.tree_ess(), TreeEss)
    assert_type(post.tree_ess().frechet, float)
    assert_type(post.tree_distances([0, 1], kind="partitions"), TreeDistances)
    assert_type(post.tree_distances().matrix, Array)
    assert_type(post.draws.cells.of_node, Array)
    assert_type(post.summary(), pd.DataFrame)
    post.to_arviz(
        log_likelihood=True, posterior_predictive=True, expectation=ROWS, rng=1
    )  # its type is that of the ArviZ installed
    assert_type(post.save(folder / "draws.nc", log_likelihood=False), None)
    post.model.save(str(folder / "model.nc"))
    again = assert_type(pt.load(folder / "draws.nc"), pt.SampledPosterior | pt.TreeModel)
    assert isinstance(again, pt.SampledPosterior)
    assert_type(again, pt.SampledPosterior)
    assert_type(issubclass(pt.ConvergenceWarning, UserWarning), bool)


def main() -> None:
    given = models()
    classes, numbers = given[1], given[2]
    use_model(classes)
    with tempfile.TemporaryDirectory() as name:
        post = runs(classes, Path(name))
        use_draws(post, Path(name))
    truth = use_exact_posterior(classes)
    use_exact_posterior(numbers)
    use_tree(truth.map_tree())
    survival()


if __name__ == "__main__":
    main()
