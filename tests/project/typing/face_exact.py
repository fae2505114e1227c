"""The part of `face` that uses the exact engine and its estimators."""

import tempfile
from pathlib import Path
from typing import Any, TypeVar, assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates

Array = npt.NDArray[Any]
Root = tuple[int, float | None] | tuple[int, float | None, str] | tuple[int, frozenset[Any]] | None
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
ROWS_OF_ONE = [[0.2], [0.7]]


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
    support = assert_type(post.support(0.1, draws=50, rng=1), pt.Support)
    for array in (support.kind, support.probability, support.by_chain, support.rhat, support.ess, support.mcse):
        assert_type(array, Array)
    assert_type(support.words, list[str])
    assert_type(support.table(beside=support), pd.DataFrame)
    consensus = assert_type(post.consensus_tree(0.5, draws=50, rng=1), pt.ConsensusTree)
    assert_type(consensus.format(), str)
    assert_type(consensus.children(0), list[int])
    assert_type(consensus.support, Array)
    assert_type(consensus.value, Array | None)
    shapes = assert_type(post.shapes(3, 0.8, draws=50, rng=1), pt.Shapes)
    assert_type(shapes.table(), pd.DataFrame)
    first = assert_type(shapes.shapes[0], pt.Shape)
    assert_type(first.splits, pd.DataFrame)
    assert_type(first.tree, pt.Tree)
    likely = assert_type(post.credible_set(0.9, draws=50, rng=1), pt.CredibleSet)
    assert_type(likely.level(likely.tree(0)), float)
    assert_type(likely.log_odds, Array)
    assert_type(list(likely), list[pt.Tree])
    assert_type(likely.exact, bool)


def survival() -> pt.Survival:
    """Answers of a posterior of times to an event."""
    y = np.column_stack([NUMBERS + 0.5, np.ones(16)])
    post = exact.solve(pt.TreeModel(X, y, leaf=pt.WeibullGamma(k=2.0)), progress=False)
    curves = assert_type(post.survival(X, [0.5, 1.0], coverage=0.8), pt.Survival)
    for array in (curves.times, curves.mean, curves.lower, curves.upper):
        assert_type(array, Array)
    assert_type(curves.table(), pd.DataFrame)
    assert_type(post.median_survival(X, 0.8), pd.DataFrame)
    check = assert_type(post.survival_calibration(X, y, 2, times=[0.5], coverage=0.8), pt.SurvivalCalibration)
    assert_type(check.table(), pd.DataFrame)
    assert_type(check.expected_events, Array)
    return curves


def use_exact_posterior(model: pt.TreeModel) -> exact.ExactPosterior:
    try:
        truth = exact.solve(model, max_cells=1_000_000, progress=False)
        pieces = assert_type(exact.visited(truth.sample(5, 1), 1, max_cells=1000), exact.VisitedPosterior)
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
    best = assert_type(truth.best_trees(2), exact.BestTrees)
    assert_type(best.trees, list[pt.Tree])
    assert_type(best.log_joint, Array)
    near = assert_type(truth.trees_within(1.0, most=5), exact.TreesWithin)
    assert_type(near.trees, list[pt.Tree])
    assert_type(near.complete, bool)
    if model.classes_ is not None:
        assert_type(near.ambiguity(X), float)
        assert_type(near.importance(X, np.repeat(model.classes_[:1], len(X)), rng=1), Array)
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
    assert_type(truth.split_probabilities(), Array)
    assert_type(truth.cell_values, Array)
    assert_type(truth.predict_std_over_trees(ROWS), Array)
    assert_type(truth.sample(50, rng=1), pt.SampledPosterior)
    truth.to_arviz(draws=10, rng=1, log_likelihood=True, posterior_predictive=True, expectation=True)
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
    assert_type(exact.occurrences(graph).split, Array)


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
    mixture = exact.progressive_mixture(
        frozen, orders=2, resplit=False, global_splitting=False, rng=1, max_cells=100_000
    )
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
    least = assert_type(exact.kl_infimum(frozen, np.eye(2)[[0, 1] * 8], splits="counted"), exact.KLInfimum)
    assert_type(least.tree, pt.Tree)
    assert_type(least.divergence, float)
    assert_type(least.total, float)
    assert_type(exact.vc_kl_bound(3, n_rows=20, n_frozen=10, vc_dimension=2, log_prior=-1.0), exact.KLBound)
    rate = assert_type(exact.adaptive_rate(100, smoothness=1.0, holder=1.0, n_features=2), exact.AdaptiveRate)
    assert_type(rate.value, float)
    assert_type(rate.exponent, float)
    lower = assert_type(exact.minimax_lower_bound(100, alpha=0.2, beta=0.8), exact.MinimaxBound)
    assert_type(lower.value, float)
    assert_type(lower.n_intervals, int)


def local_rules_and_equation_nine() -> None:
    prior, half = pt.BranchingProcess(0.4, 2), [True, False] * 3
    new = exact.data_dependent_mixture(
        X[:6, :1], LABELS[:6], ROWS_OF_ONE, estimation=half, tree_prior=prior, classes=["no", "yes"]
    )
    assert_type(new, exact.DataDependentMixture)
    assert_type(new.probability, Array)
    assert_type(new.standard_error, Array)
    assert_type(new.ess, float)
    found = assert_type(exact.local_rule(pt.TreeModel(X[:3], LABELS[:3])), exact.ModelRule)
    report = assert_type(exact.check_local_rule(found.rule, len(found.splits), 2), exact.LocalRuleReport)
    assert_type(report.holds, bool)
    assert_type(report.max_difference, float)
    assert_type(exact.local_rule_log_probability(lambda splits, leaf: [0.5, 0.5], {"": 1}), float)


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
    assert_type(risk(X, y, penalty=exact.RootFragments(delta=0.1), levels=2), exact.PenalisedTree)
    assert_type(exact.dyadic_fragment_bound(found.tree, X, y, delta=0.1), certificates.Bound)
    oracle = exact.dyadic_oracle(X, np.full((16, 2), 0.5), n=100, levels=2, bounds=[[0, 1]] * 2)
    assert_type(oracle, exact.OracleInequality)
    assert_type(oracle.value, float)
    assert_type(oracle.expected, float)
    assert_type(exact.vc_tolerance([100, 200], 0.1, 3, k=1), Array)
    assert_type(exact.vc_failure(100, 100, 0.2, 0.2, 1), float)
    assert_type(exact.vc_failure_iid(100, 0.5, 0.2, 0.2, 1), float)
    tree = exact.neyman_pearson_tree(X, y, alpha=0.2, method="srm", tolerance=0.0, strength=0.5, levels=2)
    assert_type(tree, exact.NeymanPearsonTree)
    assert_type(tree.tree, pt.Tree)
    assert_type(tree.gap, float)
    for fraction in (tree.alpha, tree.false_alarm, tree.miss, tree.limit, tree.objective):
        assert_type(fraction, float)
    guarantee = assert_type(tree.guarantee, exact.Guarantee)
    assert_type(guarantee.false_alarm, certificates.Bound)
    assert_type(guarantee.miss, certificates.Bound)
    assert_type(guarantee.excess, Array)


def trees_by_bounds() -> None:
    rows, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]] * 5), [0, 0, 1, 1] * 5
    grown = exact.forward_tree(rows, y, criterion="bound", patience=2, min_rows=1, parents="number", delta=0.1)
    assert_type(grown, exact.ForwardTree)
    assert_type(grown.tree, pt.Tree)
    assert_type(grown.bound, certificates.TreeBound)
    assert_type(grown.path, Array)
    assert_type(grown.rounds, int)
    splits = pt.GridCuts([[0.5, 1.5, 2.5], [0.5]])
    least = exact.minimise_root_fragment(rows, y, split_prior=splits, split_bits=2.0, max_depth=2, strength=0.1)
    assert_type(least, exact.RootFragmentTree)
    assert_type(least.tree, pt.Tree)
    assert_type(least.fragment, Array)
    for number in (least.risk, least.penalty, least.objective, least.split_bits, least.strength, least.delta):
        assert_type(number, float)
    assert_type(least.bound, certificates.Bound)
    exact.forward_tree(rows, y, ranges=[[0.0, 3.0]] * 2, max_rounds=1, n_classes=2)
    exact.forward_tree(rows, y, thresholds=[[0.5, 1.5], [0.5]])


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
    assert_type(found.family(np.sqrt, dominated_by=lambda leaves: leaves), exact.PruningFamily)
    assert_type(exact.dominates(np.square, np.sqrt, 10), bool)
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
    dyadic = exact.DyadicTreeClassifier(strength=0.1, levels=2, cyclic="auto", bounds=[[0, 1]] * 2).fit(X, LABELS)
    assert_type(dyadic, exact.DyadicTreeClassifier)
    for number in (dyadic.risk_, dyadic.penalty_):
        assert_type(number, float)
    assert_type(dyadic.cyclic_, bool)
    assert_type(dyadic.risk_bound(X, LABELS, n_classes=2, delta=0.05), certificates.Bound)
    for classes in (pac.classes_, dyadic.classes_):
        assert_type(classes, Array)
    for labels in (pac.predict(ROWS), dyadic.predict(ROWS)):
        assert_type(labels, Array)
    for tree in (pac.tree_, dyadic.tree_):
        assert_type(tree, pt.Tree)
    for importance in (pac.feature_importances_, dyadic.split_counts_):
        assert_type(importance, Array)


def regressor(with_spread: bool) -> None:
    fitted = pt.BayesianTreeRegressor(n_estimators=20, chains=2, work=1e4, prior="stated").fit(X, NUMBERS)
    assert_type(fitted, pt.BayesianTreeRegressor)
    assert_type(fitted.predict(ROWS), Array)
    assert_type(fitted.predict(ROWS, return_std=True), tuple[Array, Array])
    assert_type(fitted.predict(ROWS, with_spread), Array | tuple[Array, Array])
    assert_type(fitted.predict_quantiles(ROWS, [0.1, 0.9]), Array)
    assert_type(fitted.predict_interval(ROWS, coverage=0.8), Array)
    assert_type(fitted.credible_interval(ROWS, coverage=0.8), Array)
    assert_type(fitted.draw_expectations(ROWS, 3, rng=1), Array)
