"""A program that uses every public name, and says of what type its results are: ``mypy --strict`` checks it.

Not a test: pytest does not import it. It runs all the same, ``python -m tests.project.typing.face``, on tables of a few
rows.
"""

import math
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates, moves, plots, testing
from tests.project.typing.face_exact import (
    LABELS,
    NUMBERS,
    ROWS,
    AnyPosterior,
    Array,
    TreePrior,
    X,
    classifiers,
    comparison,
    dyadic_trees,
    global_splitting,
    local_rules_and_equation_nine,
    progressive_mixtures,
    prunings,
    regressor,
    sequences_and_streams,
    sums_over_graph,
    survival,
    trees_by_bounds,
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


def further_leaves() -> list[pt.TreeModel]:
    """Those with a y of several columns, a slope, or a score of one's own."""
    own = pt.CustomLeaf(
        exponential,
        stats=lambda y: np.column_stack([np.ones_like(y), y]),
        predict=lambda stats: (1.0 + stats[:, 1]) / stats[:, 0],
        params=(),
        name="exponential",
    )
    assert_type(own, pt.CustomLeaf)
    assert_type(own.check([0.5, 2.0, 1.2], rng=1), None)
    positive, times = NUMBERS + 0.5, np.column_stack([NUMBERS + 0.5, np.ones(16)])
    return [
        pt.TreeModel(X, positive, leaf=own),
        pt.TreeModel(X, times, leaf=pt.ExponentialGamma(shape=None, rate=None)),
        pt.TreeModel(X, times, leaf=pt.WeibullGamma(k=2.0)),
        pt.TreeModel(X, NUMBERS, leaf=pt.NormalLinear(columns=[1])),
    ]


def exponential(s: Any, n: int) -> Any:
    """Score of a leaf of one's own: the rate is Gamma(1, 1)."""
    return math.lgamma(1.0 + s[0]) - (1.0 + s[0]) * math.log(1.0 + s[1])


def even(cut: pt.Cut) -> float:
    """Weight of a split of one's own: those that part the rows evenly are likelier."""
    return cut.left * cut.right


def idle(rng: Any, model: Any, state: Any) -> Any:
    """Step of a move of one's own: the tree stays."""
    return moves.nothing()


def own_parts(model: pt.TreeModel) -> None:
    """A split prior and a move of one's own, and the checks for what others bring."""
    splits = pt.CustomSplits(even, of=pt.LocalCuts(min_leaf=2), params=(), over="cell", by_depth=False, name="even")
    assert_type(splits, pt.CustomSplits)
    assert_type(splits.check(X, cells=3, rng=1), None)
    pt.TreeModel(X, LABELS, split_prior=splits)
    move = assert_type(pt.Move("idle", idle, counts=("idle",), replaces=False, scans=False), pt.Move)
    assert_type(move.name, str)
    assert_type(move.counts, tuple[str, ...])
    pt.sample(model, 5, tune=5, chains=2, rng=1, kernel={"grow-prune": 0.9, move: 0.1}, progress=False)
    try:
        balance = assert_type(testing.check_balance("grow-prune", model), testing.BalanceReport)
        assert_type(balance.n_trees, int)
        assert_type(balance.imbalance, float)
        assert_type(balance.transition, Array)
        assert_type(balance.trees, list[pt.Tree])
        leaf = assert_type(testing.check_leaf(pt.PoissonGamma(), n_cells=10, rng=1), testing.LeafReport)
        assert_type(leaf.max_difference, float)
        cuts = assert_type(testing.check_split_prior(pt.LocalCuts(), max_depth=2), testing.SplitPriorReport)
        assert_type(cuts.n_cells, int)
    except (testing.BalanceError, testing.LeafError, testing.SplitPriorError) as error:
        assert_type(str(error), str)
        raise


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
    found = tempered.tempering
    assert found is not None
    assert_type(found.betas, Array)
    assert_type(found.swap_rates, Array)
    assert_type(found.round_trips, Array)
    assert_type(pt.resume(post, 5, executor=None, progress=False, checkpoint=None, every=60.0), pt.SampledPosterior)
    assert_type(pt.resume(folder / "checkpoint.nc"), pt.SampledPosterior)
    if post.course is not None:
        assert_type(post.course.steps, int)
    return post


def run_of_its_own_length(model: pt.TreeModel) -> pt.SampledPosterior:
    return pt.sample(model, 20, chains=2, rng=1, steps=40, seconds=10.0, work=1e4, progress=False)


def use_draws(post: pt.SampledPosterior, folder: Path) -> None:
    use_any_posterior(post)
    assert_type(post.log_evidence, float | None)
    for number in (post.n_chains, post.n_draws, post.n_distinct_trees):
        assert_type(number, int)
    for by_draw in (post.log_prior, post.log_score, post.n_leaves, post.depth, post.split_counts, post.root_feature):
        assert_type(by_draw, Array)
    for by_tree in (post.log_prior_of_tree, post.log_score_of_tree, post.weight_of_tree, post.n_leaves_of_tree):
        assert_type(by_tree, Array)
    for further in (post.depth_of_tree, post.root_feature_of_tree, post.split_counts_of_tree, post.node_values):
        assert_type(further, Array)
    for array in (post.tree_of_draw, post.node_stats, post.proposed, post.accepted, post.noise_variance):
        assert_type(array, Array)
    assert_type(post.distinct_trees.feature, Array)
    assert_type(post.moves, tuple[str, ...])
    assert_type(post.seconds, float)
    assert_type(post.log_evidence_se, float | None)
    assert_type(post.predict_std_over_trees(ROWS), Array)
    assert_type(post.values_by_draw(ROWS), Array)
    assert_type(post.depth_pmf(), Array)
    assert_type(post.distinct_tree(0), pt.Tree)
    assert_type(pt.posterior_from_trees(post.model, [post.distinct_tree(0)], [[0, 0]]), pt.SampledPosterior)
    assert_type(post.coded_trees.cut, Array)
    assert_type(post.asdsf(), pt.SplitFrequencies)
    assert_type(post.asdsf().expected, float)
    assert_type(post.tree_ess(), pt.TreeEss)
    assert_type(post.tree_ess().frechet, float)
    assert_type(post.tree_distances([0, 1], kind="partitions"), pt.TreeDistances)
    assert_type(post.tree_distances().matrix, Array)
    assert_type(post.cells.of_node, Array)
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


def bounds_of_posterior(post: AnyPosterior) -> None:
    found = post.certificate(delta=0.05)
    assert_type(found.n, int)
    for number in (found.delta, found.risk, found.tandem_loss, found.kl):
        assert_type(number, float)
    for bound in (found.gibbs, found.relaxed, found.factor_two, found.tandem, found.vote):
        assert_type(bound, certificates.Bound)
    fresh = post.holdout_certificate(X, LABELS, delta=0.05)
    assert_type(fresh.errors, int)
    assert_type(fresh.gibbs, certificates.Bound)
    assert_type(fresh.vote, certificates.Bound)


def bounds(tree: pt.Tree) -> None:
    given: list[certificates.Bound] = [
        certificates.pac_bayes_kl(0.1, 2.0, 1000, 0.05),
        certificates.pac_bayes_lambda(0.1, 2.0, 1000, lam=0.5),
        certificates.vote_factor_two(0.1, 2.0, 1000),
        certificates.vote_tandem(0.05, 2.0, 1000),
        certificates.naive_occam(tree, X, [0, 1] * 8, split_bits=4.0, n_classes=2, delta=0.05),
        certificates.root_fragment(tree, X, [0, 1] * 8, split_bits=4.0),
        certificates.compression(3, 2, 1000, 10),
        certificates.compression_tail(3, 2, 1000, 10),
        certificates.occam_discrete(3, 2, 5, 1000, 10),
        certificates.occam_continuous(3, 2, [3], 1000, 10, halvings=0),
        certificates.dyadic_tree_bound(tree, X, [0, 1] * 8, n_classes=2, cyclic=False),
        certificates.compression_tree_bound(tree, X, [0, 1] * 8, parents="number", n_classes=2, delta=0.05),
        certificates.occam_tree_bound(tree, X, [0, 1] * 8, ranges=[[0.0, 9.0]] * 2, halvings="cheapest", shared=True),
        certificates.holdout(3, 100),
        certificates.holdout_gibbs(0.1, 100, delta=0.05),
        exact.vote_excess_bound([0.1], [0.0], [-1.0], n=1000, n_classes=2),
        exact.oracle_bound(0.0, [0.5, 0.5], n=1000, n_nodes=7, depth=2, n_features=1, n_classes=2),
    ]
    for bound in given:
        assert_type(bound.name, str)
        for number in (bound.raw, bound.value, bound.delta, float(bound)):
            assert_type(number, float)
        assert_type(bound.terms, dict[str, float])
    coded = certificates.occam_tree_bound(tree, X, [0, 1] * 8, thresholds=[[0.5]] * 2)
    assert_type(coded, certificates.TreeBound)
    assert_type(coded.tree, pt.Tree)
    assert_type(coded.rows, Array)
    for size in (coded.n, coded.errors):
        assert_type(size, int)
    assert_type(certificates.pac_bayes_kl(0.1, 2.0, 1000), certificates.Bound)
    assert_type(certificates.optimal_lambda(0.1, 2.0, 1000), float)
    assert_type(certificates.tree_bits(tree, 4.0), Array)
    fragment = certificates.compute_R(tree, [16, 8, 8], split_bits=4.0)
    assert_type(fragment, certificates.RootFragment)
    assert_type(fragment.leaves, Array)
    assert_type(fragment.penalty, float)
    assert_type(certificates.dyadic_bits([0, 2], 4), Array)
    assert_type(certificates.dyadic_penalty([1000], [0], 1000, 2, 0.025), Array)
    assert_type(certificates.dyadic_length(0.25, 0.5, 0.0, 1.0), int)
    assert_type(certificates.binomial_tail_inversion(3, 100, -3.0), float)
    assert_type(certificates.binary_kl(0.1, 0.2), float)
    assert_type(certificates.binary_kl(np.array([0.1, 0.3]), 0.2), Array)
    assert_type(certificates.kl_inverse(0.1, 0.05, upper=True), float)
    assert_type(certificates.kl_inverse([0.1, 0.3], 0.05), Array)


def pictures(post: pt.SampledPosterior, truth: exact.ExactPosterior, ax: Axes) -> None:
    assert_type(plots.plot_tree(post.map_tree(), ax, max_depth=2), Axes)
    assert_type(plots.plot_tree(truth), Axes)
    assert_type(plots.plot_partition(post, (0, 1), ax, fill=True), Axes)
    assert_type(plots.plot_surface(truth, features=("x0", "x1"), spread=True, points=False), Axes)
    assert_type(plots.plot_partial_dependence(truth, 0, coverage=0.8, n_trees=10, rng=1), Axes)
    assert_type(plots.plot_n_leaves(post, truth=truth), Axes)
    assert_type(plots.plot_inclusion(post, max_features=5), Axes)
    assert_type(plots.plot_posterior(post, truth), Figure)
    assert_type(plots.plot_split_frequencies(post, truth=truth, min_probability=0.1), Axes)
    assert_type(plots.plot_forest(truth, n_trees=20, alpha=0.2, rng=1), Axes)
    assert_type(plots.plot_consensus(post.consensus_tree()), Axes)
    assert_type(plots.plot_consensus(post, min_support=0.6), Axes)
    assert_type(plots.plot_leaves(post, tree=post.map_tree(), n_bins=5), Axes)
    assert_type(plots.plot_partial_dependence(post, 0, X=ROWS, individual=2), Axes)
    assert_type(plots.plot_survival(survival(), ax), Axes)
    assert_type(plots.plot_shape(post, ax), Axes)
    assert_type(plots.plot_partial_dependence(post, (0, "x1")), Axes)


def main() -> None:
    import matplotlib.pyplot as plt

    given = models()
    classes, numbers, frozen, loss = given[1], given[2], given[6], given[7]
    use_model(classes)
    with tempfile.TemporaryDirectory() as name:
        post = runs(classes, Path(name))
        use_draws(post, Path(name))
    truth = use_exact_posterior(classes)
    use_exact_posterior(numbers)
    run_of_its_own_length(classes)
    further_leaves()
    own_parts(pt.TreeModel(X[:4], LABELS[:4], tree_prior=pt.ChipmanPrior(0.5, 1.0, 2)))
    use_tree(truth.map_tree())
    comparison(truth)
    sums_over_graph(classes)
    progressive_mixtures(frozen)
    sequences_and_streams(loss)
    local_rules_and_equation_nine()
    dyadic_trees()
    trees_by_bounds()
    prunings(truth.best_tree_of_size(2))
    global_splitting(pt.kd_tree(X[:6], 1))
    classifiers()
    regressor(with_spread=False)
    bounds_of_posterior(exact.solve(loss))
    bounds(pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=np.arange(2)))
    pictures(post, truth, plt.subplots()[1])


if __name__ == "__main__":
    main()
