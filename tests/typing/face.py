"""A program that uses every public name, and says of what type its results are: ``mypy --strict`` checks it.

Not a test: pytest does not import it. It runs all the same, ``python tests/typing/face.py``, on tables of a few rows.
"""

import math
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates, moves, plots, testing

Array = npt.NDArray[Any]
Root = tuple[int, float] | tuple[int, float, str] | tuple[int, frozenset[Any]] | None
# mypy reads a function of an AnyPosterior once for each of the classes
AnyPosterior = TypeVar(
    "AnyPosterior",
    pt.Posterior,
    pt.SampledPosterior,
    pt.ProgressiveSample,
    exact.ExactPosterior,
    exact.ProgressiveMixture,
)
TreePrior = pt.BranchingProcess | pt.ChipmanPrior | pt.LeafPenalty

X = np.random.default_rng(0).uniform(size=(16, 2))
LABELS = np.where(X[:, 0] > 0.5, "yes", "no")
NUMBERS = np.where(X[:, 0] > 0.5, 1.0, 0.0) + 0.1 * X[:, 1]
ROWS = [[0.2, 0.3], [0.7, 0.3]]


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
        pt.TreeModel(X, np.column_stack([[1, 2] * 8, [3] * 16]), leaf=pt.BetaBinomial(a=1.0, b=1.0)),
        pt.TreeModel(X, times, leaf=pt.ExponentialGamma(shape=None, rate=None)),
        pt.TreeModel(X, times, leaf=pt.WeibullGamma(k=2.0)),
        pt.TreeModel(X, positive, leaf=pt.GammaGamma(k=2.0)),
        pt.TreeModel(X, [1, 2] * 8, leaf=pt.NegativeBinomialBeta(dispersion=1.0)),
        pt.TreeModel(X, np.column_stack([NUMBERS, X[:, 1]]), leaf=pt.MultivariateNormal(outputs=2)),
        pt.TreeModel(X, NUMBERS, leaf=pt.NormalLinear(columns=[1])),
    ]


def exponential(s: Any, n: int) -> Any:
    """Score of a leaf of one's own: the rate is Gamma(1, 1)."""
    return math.lgamma(1.0 + s[0]) - (1.0 + s[0]) * math.log(1.0 + s[1])


def idle(rng: Any, model: Any, state: Any) -> Any:
    """Step of a move of one's own: the tree stays."""
    return moves.nothing()


def own_parts(model: pt.TreeModel) -> None:
    """A move of one's own, and the checks for what others bring."""
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


def questions_to_model(model: pt.TreeModel) -> None:
    assert_type(model.classes_, Array | None)
    assert_type(model.tree_prior, TreePrior)
    assert_type(model.columns.names, tuple[str, ...])
    assert_type(model.n_rows, int)
    assert_type(model.n_features, int)
    tree, y = pt.simulate(model, rng=1)
    assert_type(tree, pt.Tree)
    assert_type(y, Array)
    assert_type(model.log_posterior(tree), float)
    assert_type(model.log_prior(tree), float)
    assert_type(model.log_score(tree), float)
    assert_type(repr(model), str)


def questions_to_tree(tree: pt.Tree) -> None:
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
    assert_type(tree.question(0), str)
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
    assert_type(plots.plot_ladder(tempered), Axes)
    return post


def run_of_its_own_length(model: pt.TreeModel) -> pt.SampledPosterior:
    return pt.sample(model, 20, chains=2, rng=1, steps=40, seconds=10.0, work=1e4, progress=False)


def evidence(post: pt.Posterior) -> None:
    assert_type(post.log_evidence, float | None)


def questions_to_any_posterior(post: AnyPosterior) -> None:
    evidence(post)
    assert_type(post.model, pt.TreeModel)
    assert_type(post.n_leaves_pmf(), Array)
    assert_type(post.feature_inclusion(), Array)
    assert_type(post.root_split_pmf(), dict[Root, float])
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
    assert_type(pt.typical_tree(post, n_draws=10, rng=1), pt.Tree)


def questions_to_draws(post: pt.SampledPosterior, folder: Path) -> None:
    questions_to_any_posterior(post)
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
    assert_type(post.summary(), pd.DataFrame)
    post.to_arviz(log_likelihood=True, posterior_predictive=True, rng=1)  # its type is that of the ArviZ installed
    assert_type(post.save(folder / "draws.nc", log_likelihood=False), None)
    post.model.save(str(folder / "model.nc"))
    again = assert_type(pt.load(folder / "draws.nc"), pt.SampledPosterior | pt.TreeModel)
    assert isinstance(again, pt.SampledPosterior)
    assert_type(again, pt.SampledPosterior)
    assert_type(issubclass(pt.ConvergenceWarning, UserWarning), bool)


def questions_to_exact_posterior(model: pt.TreeModel) -> exact.ExactPosterior:
    try:
        truth = exact.solve(model, max_cells=1_000_000)
    except exact.Intractable as error:
        assert_type(error, exact.Intractable)
        raise
    assert_type(truth, exact.ExactPosterior)
    questions_to_any_posterior(truth)
    assert_type(truth.log_evidence, float)
    assert_type(truth.n_trees, int)
    assert_type(truth.graph, exact.CellGraph)
    assert_type(truth.log_inside, Array)
    assert_type(truth.map_log_joint, float)
    best = assert_type(truth.best_trees(2), exact.BestTrees)
    assert_type(best.trees, list[pt.Tree])
    assert_type(best.log_joint, Array)
    assert_type(truth.best_log_joint_by_size(2), Array)
    assert_type(truth.best_tree_of_size(2), pt.Tree)
    assert_type(truth.depth_pmf(), Array)
    assert_type(truth.expected_splits(), Array)
    moments = assert_type(truth.mean_and_variance(np.ones(truth.graph.n_cells)), exact.MeanAndVariance)
    mean, variance = moments  # as a pair too
    assert_type(mean, float | Array)
    assert_type(moments.mean, float | Array)
    assert_type(variance, float | Array)
    cells = assert_type(truth.cell_probabilities(), exact.CellProbabilities)
    assert_type(cells.leaf, Array)
    assert_type(cells.split, Array)
    assert_type(truth.question_probabilities(), Array)
    assert_type(truth.cell_values, Array)
    assert_type(truth.predict_std_over_trees(ROWS), Array)
    assert_type(truth.sample(50, rng=1), pt.SampledPosterior)
    truth.to_arviz(draws=10, rng=1, log_likelihood=True, posterior_predictive=True)
    assert_type(truth.summary(), pd.DataFrame)
    return truth


def comparison(truth: exact.ExactPosterior) -> None:
    table = assert_type(exact.compare(truth, truth.sample(50, rng=1), X=ROWS), exact.Comparison)
    assert_type(table.max_abs_z, float)
    assert_type(table.rows[0].quantity, str)
    assert_type(table.rows[0].z, float)
    assert_type(table.to_frame(), pd.DataFrame)
    assert_type(table.plot(), Axes)
    assert_type(str(table), str)


def sums_over_graph(model: pt.TreeModel) -> None:
    graph = assert_type(exact.build_graph(model, max_cells=10_000), exact.CellGraph)
    for number in (graph.n_cells, graph.n_edges, graph.n_slots):
        assert_type(number, int)
    for array in (graph.rows, graph.stats, graph.score, graph.log_stop, graph.log_split, graph.log_rule, graph.feature):
        assert_type(array, Array)
    by_slot = assert_type(exact.by_slot(graph, graph.score), Array)
    assert_type(exact.with_terms(graph, log_stop=by_slot, log_split=0.0, log_rule=0.0), exact.CellGraph)
    assert_type(exact.log_sum(graph), float)
    assert_type(exact.best_log_weight(graph), float)
    assert_type(exact.count_trees(graph), int)
    assert_type(exact.best_by_size(graph, 3).value, Array)
    assert_type(exact.hull_by_size(graph).leaves, Array)
    assert_type(exact.occurrences(graph).slot, Array)
    assert_type(exact.occurrences(graph).question, Array)


def progressive_mixtures(frozen: pt.TreeModel) -> None:
    sampled = pt.progressive_mixture(
        frozen,
        engine="smc",
        chains=2,
        draws=10,
        steps=2,
        particles=10,
        threshold=0.5,
        block=None,
        shuffle=False,
        kernel="grow-prune",
        rng=1,
        executor=None,
    )
    assert_type(sampled, pt.ProgressiveSample)
    for array in (sampled.stage, sampled.stage_log_evidence, sampled.n_resampled):
        assert_type(array, Array)
    assert_type(sampled.predict_proba_se(ROWS), Array)
    assert_type(sampled.log_evidence, float | None)
    assert_type(sampled.log_evidence_se, float | None)
    mixture = exact.progressive_mixture(frozen, orders=2, resplit=False, rng=1, max_cells=100_000)
    assert_type(mixture, exact.ProgressiveMixture)
    assert_type(mixture.stage_log_evidence, Array)
    assert_type(mixture.cell_probabilities(), exact.CellProbabilities)
    assert_type(mixture.sample(10, rng=1), pt.SampledPosterior)
    assert_type(mixture.log_evidence, float | None)
    assert_type(mixture.predict_proba(ROWS), Array)
    bound = assert_type(exact.kl_bound(frozen, mixture.map_tree()), exact.KLBound)
    assert_type(bound.prior, float)
    assert_type(bound.total, float)
    assert_type(bound.classification, float)


def sequences_and_streams(loss: pt.TreeModel) -> None:
    weighting = exact.context_tree_weighting([0, 1, 0, 1, 1, 0, 1], 2, 2, alpha=0.5, rho=0.5)
    assert_type(weighting, exact.ContextTreeWeighting)
    assert_type(exact.ContextTreeWeighting(2, 2).update([0, 1, 1, 0]), Array)
    assert_type(weighting.add([[0, 1]], [1]), Array)
    assert_type(weighting.predict_proba([[0, 1]]), Array)
    assert_type(weighting.log_evidence, float)
    assert_type(weighting.code_length, float)
    assert_type(weighting.n_seen, int)
    assert_type(weighting.depth_pmf(), Array)
    assert_type(weighting.graph(), tuple[exact.CellGraph, Array])
    source = assert_type(weighting.best_source(), exact.TreeSource)
    assert_type(source.contexts, list[tuple[int, ...]])
    assert_type(source.counts, Array)
    assert_type(source.probability, Array)
    assert_type(source.log_probability, float)

    counts = exact.DesignCounts(pt.DyadicCuts(2, bounds=[[0.0, 1.0], [0.0, 1.0]]))
    assert_type(counts.update(X, LABELS, sample_weight=None, estimation=None), exact.DesignCounts)
    assert_type(counts + counts, exact.DesignCounts)
    assert_type(counts.n_rows, int)
    assert_type(counts.n_cells, int)
    assert_type(counts.model(tree_prior=pt.ChipmanPrior(), leaf=pt.DirichletMultinomial()), pt.TreeModel)
    assert_type(counts.solve(max_cells=1000, tree_prior=pt.ChipmanPrior()), exact.ExactPosterior)


def dyadic_trees() -> None:
    risk, y = exact.minimise_risk, [int(label == "yes") for label in LABELS]
    found = assert_type(risk(X, y, penalty="adaptive", strength=0.1, levels=2, cyclic=True), exact.PenalisedTree)
    for number in (found.risk, found.penalty, found.objective):
        assert_type(number, float)
    assert_type(found.tree, pt.Tree)
    assert_type(found.levels, int)
    assert_type(found.n_cells, int)
    penalties: list[exact.SpatiallyAdaptive | exact.SquareRoot | exact.AdditivePenalty | exact.SizePenalty] = [
        exact.SpatiallyAdaptive(delta=0.05),
        exact.SquareRoot(delta=None),
        exact.AdditivePenalty(lambda rows, depth: 0.01 * depth),
        exact.AdditivePenalty(0.01),
        exact.SizePenalty(lambda leaves: 0.1 * leaves**0.5),
    ]
    for penalty in penalties:
        assert_type(exact.minimise_risk(X, y, penalty=penalty, levels=2), exact.PenalisedTree)
    tree = exact.neyman_pearson_tree(X, y, alpha=0.2, method="srm", tolerance=0.0, strength=0.5, levels=2)
    assert_type(tree, exact.NeymanPearsonTree)
    assert_type(tree.tree, pt.Tree)
    for share in (tree.alpha, tree.false_alarm, tree.miss, tree.limit, tree.objective):
        assert_type(share, float)
    guarantee = assert_type(tree.guarantee, exact.Guarantee)
    assert_type(guarantee.false_alarm, certificates.Bound)
    assert_type(guarantee.miss, certificates.Bound)
    assert_type(guarantee.excess, Array)


def prunings(tree: pt.Tree) -> None:
    found = exact.Prunings(tree, X, LABELS, loss=None, sample_weight=None)
    assert_type(found, exact.Prunings)
    assert_type(found.minimum_cost, Array)
    assert_type(found.of_size(1), pt.Tree)
    pruned = found.best(lambda leaves: 0.1 * leaves)
    assert_type(pruned.tree, pt.Tree)
    assert_type(pruned.cost, float)
    assert_type(pruned.penalty, float)
    family = assert_type(found.weakest_link(), exact.PruningFamily)
    assert_type(found.family(lambda leaves: np.sqrt(leaves)), exact.PruningFamily)
    assert_type(family.n_leaves, Array)
    assert_type(family.cost, Array)
    assert_type(family.threshold, Array)
    assert_type(len(family), int)
    assert_type(family.tree(0), pt.Tree)
    assert_type(family.at(0.1), pt.Tree)


def global_splitting(design: pt.FixedTree) -> None:
    cuts, prior = pt.LocalCuts(trivial=True), pt.BranchingProcess(0.5, 2)
    model = pt.TreeModel(X[:6], LABELS[:6], split_prior=cuts, tree_prior=prior)
    assert_type(exact.count_global_splittings(X[:6], design.tree, max_cells=10_000), int)
    assert_type(exact.solve_global_splitting(model, max_cells=10_000), exact.ExactPosterior)


def classifiers() -> None:
    split = dict[str, Array]
    bayes = pt.BayesianTreeClassifier(
        tree_prior=pt.ChipmanPrior(), prior="stated", n_estimators=20, chains=2, work=1e4, random_state=0
    ).fit(X, LABELS, sample_weight=np.ones(16))
    assert_type(bayes, pt.BayesianTreeClassifier)
    assert_type(bayes.posterior_, pt.SampledPosterior | exact.ExactPosterior)
    assert_type(bayes.predict_proba(ROWS), Array)
    assert_type(bayes.predict(ROWS), Array)
    assert_type(bayes.sample_predictive(ROWS, draws=3, rng=1), Array)
    for array in (bayes.classes_, bayes.rows_, bayes.feature_importances_, bayes.split_counts_):
        assert_type(array, Array)
    assert_type(bayes.monte_carlo_error_, float)
    assert_type(bayes.n_features_in_, int)

    pac = exact.PACBayesTreeClassifier("kd", penalty="size", lambda1=4.0, lambda2=0.1)
    assert_type(pac.fit(X, LABELS), exact.PACBayesTreeClassifier)
    assert_type(pac.kl_, float)
    assert_type(pac.gibbs_risk_, float)
    assert_type(pac.n_counted_, int)
    assert_type(pac.lambda1_, float)
    assert_type(pac.cv_errors_, split)
    assert_type(pac.predict_proba(ROWS), Array)
    theory = exact.PACBayesTheoryClassifier("dyadic", lam=0.5, delta=0.1, prior_depth=2, max_depth=3).fit(X, LABELS)
    assert_type(theory, exact.PACBayesTheoryClassifier)
    assert_type(theory.kl_, float)
    assert_type(theory.counted_rows_, Array)
    dyadic = exact.DyadicTreeClassifier(strength=0.1, levels=2, cyclic="auto", bounds=[[0, 1]] * 2).fit(X, LABELS)
    assert_type(dyadic, exact.DyadicTreeClassifier)
    for number in (dyadic.risk_, dyadic.penalty_):
        assert_type(number, float)
    assert_type(dyadic.cyclic_, bool)
    assert_type(dyadic.risk_bound(X, LABELS, n_classes=2, delta=0.05), certificates.Bound)
    neyman = exact.NeymanPearsonTreeClassifier(0.2, levels=2, bounds=[[0, 1]] * 2).fit(X, LABELS)
    assert_type(neyman, exact.NeymanPearsonTreeClassifier)
    assert_type(neyman.false_alarm_, float)
    assert_type(neyman.miss_, float)
    assert_type(neyman.guarantee(), exact.Guarantee)
    mixture = exact.ProgressiveMixtureClassifier("kd", orders=2, random_state=0).fit(X, LABELS)
    assert_type(mixture, exact.ProgressiveMixtureClassifier)
    assert_type(mixture.mixture_, exact.ProgressiveMixture)
    assert_type(mixture.predict_proba(ROWS), Array)
    for classes in (pac.classes_, theory.classes_, dyadic.classes_, neyman.classes_, mixture.classes_):
        assert_type(classes, Array)
    for labels in (pac.predict(ROWS), theory.predict(ROWS), dyadic.predict(ROWS)):
        assert_type(labels, Array)
    for tree in (pac.tree_, theory.tree_, dyadic.tree_, neyman.tree_):
        assert_type(tree, pt.Tree)
    for importance in (pac.feature_importances_, dyadic.split_counts_, mixture.feature_importances_):
        assert_type(importance, Array)


def regressor(with_spread: bool) -> None:
    fitted = pt.BayesianTreeRegressor(n_estimators=20, chains=2, work=1e4, prior="stated").fit(X, NUMBERS)
    assert_type(fitted, pt.BayesianTreeRegressor)
    assert_type(fitted.predict(ROWS), Array)
    assert_type(fitted.predict(ROWS, return_std=True), tuple[Array, Array])
    assert_type(fitted.predict(ROWS, with_spread), Array | tuple[Array, Array])
    assert_type(fitted.predict_quantiles(ROWS, [0.1, 0.9]), Array)
    assert_type(fitted.predict_interval(ROWS, coverage=0.8), Array)


def bounds_of_posterior(post: AnyPosterior) -> None:
    found = post.certificate(delta=0.05)
    assert_type(found.n, int)
    for number in (found.delta, found.risk, found.tandem_loss, found.kl):
        assert_type(number, float)
    for bound in (found.gibbs, found.relaxed, found.factor_two, found.tandem, found.cantelli, found.vote):
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
        certificates.vote_cantelli(0.1, 0.05, 2.0, 1000),
        certificates.vote_disagreement(0.1, 0.05, 2.0, 1000, n_unlabelled=500),
        certificates.naive_occam(tree, X, [0, 1] * 8, question_bits=4.0, n_classes=2, delta=0.05),
        certificates.root_fragment(tree, X, [0, 1] * 8, question_bits=4.0),
        certificates.compression(3, 2, 1000, 10),
        certificates.compression_tail(3, 2, 1000, 10),
        certificates.occam_discrete(3, 2, 5, 1000, 10),
        certificates.occam_continuous(3, 2, [3], 1000, 10, halvings=0),
        certificates.dyadic_tree_bound(tree, X, [0, 1] * 8, n_classes=2, cyclic=False),
        certificates.holdout(3, 100),
        certificates.holdout_gibbs(0.1, 100, delta=0.05),
        exact.oracle_bound(0.0, [0.5, 0.5], n=1000, n_nodes=7, depth=2, n_features=1, n_classes=2),
    ]
    for bound in given:
        assert_type(bound.name, str)
        for number in (bound.raw, bound.value, bound.delta, float(bound)):
            assert_type(number, float)
        assert_type(bound.terms, dict[str, float])
    assert_type(certificates.pac_bayes_kl(0.1, 2.0, 1000), certificates.Bound)
    assert_type(certificates.optimal_lambda(0.1, 2.0, 1000), float)
    assert_type(certificates.c_bound(0.1, 0.05), float)
    assert_type(certificates.tree_bits(tree, 4.0), Array)
    fragment = certificates.compute_R(tree, [16, 8, 8], question_bits=4.0)
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


def pictures(post: pt.SampledPosterior, truth: exact.ExactPosterior, ax: Axes, pair: Sequence[Axes]) -> None:
    assert_type(plots.plot_tree(post.map_tree(), ax, max_depth=2), Axes)
    assert_type(plots.plot_tree(truth), Axes)
    assert_type(plots.plot_partition(post, (0, 1), ax, fill=True), Axes)
    assert_type(plots.plot_surface(truth, features=("x0", "x1"), spread=True, points=False), Axes)
    assert_type(plots.plot_partial_dependence(truth, 0, coverage=0.8, n_trees=10, rng=1), Axes)
    assert_type(plots.plot_n_leaves(post, truth=truth), Axes)
    assert_type(plots.plot_depth(post, ax), Axes)
    assert_type(plots.plot_inclusion(post, max_features=5), Axes)
    assert_type(plots.plot_trace(post, pair), Array)
    assert_type(plots.plot_ranks(post, None, n_bins=5), Array)
    assert_type(plots.plot_posterior(post, truth), Figure)


def main() -> None:
    import matplotlib.pyplot as plt

    given = models()
    classes, numbers, frozen, loss = given[1], given[2], given[6], given[7]
    questions_to_model(classes)
    with tempfile.TemporaryDirectory() as name:
        post = runs(classes, Path(name))
        questions_to_draws(post, Path(name))
    truth = questions_to_exact_posterior(classes)
    questions_to_exact_posterior(numbers)
    run_of_its_own_length(classes)
    further_leaves()
    own_parts(pt.TreeModel(X[:4], LABELS[:4], tree_prior=pt.ChipmanPrior(0.5, 1.0, 2)))
    questions_to_tree(truth.map_tree())
    comparison(truth)
    sums_over_graph(classes)
    progressive_mixtures(frozen)
    sequences_and_streams(loss)
    dyadic_trees()
    prunings(truth.best_tree_of_size(2))
    global_splitting(pt.kd_tree(X[:6], 1))
    classifiers()
    regressor(with_spread=False)
    bounds_of_posterior(exact.solve(loss))
    bounds(pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=np.arange(2)))
    pictures(post, truth, plt.subplots()[1], plt.subplots(2)[1])


if __name__ == "__main__":
    main()
