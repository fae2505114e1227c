"""The exact engine within a budget: its bounds against the whole sum, and best scores against all set partitions."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.graph.arrays import distinct_points
from exact.limits import ceilings
from tests.problems.drawn import random_problem

N = 6
RNG = np.random.default_rng(12)
TIMES = np.column_stack([RNG.exponential(2.0, N) + 0.1, [1, 0, 1, 1, 0, 1]])
COUNTS, REALS = RNG.poisson(3.0, N).astype(float), RNG.normal(size=N).round(2)
CLASSES = [0, 1, 2, 1, 1, 0]
LEAVES = {
    "dirichlet": (pt.DirichletMultinomial([0.5, 1.0, 2.0]), CLASSES),
    "laplace": (pt.FrozenLaplace(), CLASSES),
    "loss": (pt.PacBayesLoss(0.8, 0.3), CLASSES),
    "normal": (pt.NormalInverseGamma(0.2, 0.5, 2.0, 0.3), REALS),
    "known variance": (pt.NormalKnownVariance(0.2, 0.1, 0.5), REALS),
    "poisson": (pt.PoissonGamma(1.5, 0.7), COUNTS),
    "poisson, exposed": (pt.PoissonGamma(1.5, 0.7, exposure=[0.5, 1, 2, 1, 1, 3]), COUNTS),
    "poisson, large": (pt.PoissonGamma(1.5, 0.001), COUNTS + 1000.0),
    "negative binomial": (pt.NegativeBinomialBeta(1.5, 2.5, 3.0), COUNTS),
    "beta binomial": (pt.BetaBinomial(1.2, 0.7), np.column_stack([COUNTS, COUNTS + np.arange(N)])),
    "exponential": (pt.ExponentialGamma(2.5, 3.0), TIMES),
    "weibull": (pt.WeibullGamma(1.6, 2.5, 3.0), TIMES),
    "gamma": (pt.GammaGamma(2.0, 2.5, 3.0), TIMES[:, 0]),
}
EXPOSURE = [0.5, 1, 2, 1, 1, 3]
LEAVES |= {
    "negative binomial, exposed": (pt.NegativeBinomialBeta(1.5, 2.5, 3.0, exposure=EXPOSURE), COUNTS),
    "exponential, exposed": (pt.ExponentialGamma(2.5, 3.0, exposure=EXPOSURE), TIMES),
    "weibull, exposed": (pt.WeibullGamma(1.6, 2.5, 3.0, exposure=EXPOSURE), TIMES),
}
UNBOUNDED = {
    "ordered classes": (pt.OrderedClasses(), CLASSES),
    "independent outputs": (pt.IndependentNormals(2), np.column_stack([REALS, COUNTS])),
    "several outputs": (pt.MultivariateNormal(2), np.column_stack([REALS, COUNTS])),
    "regressions": (pt.NormalLinear([0]), REALS),
}


def model_of(leaf, y, weights, **options):
    """Some rows are alike."""
    mask = [True, False, True, False, False, True] if leaf.uses_estimation else None
    X = np.array([[0.0], [0.0], [1.0], [2.0], [3.0], [3.0]])
    return pt.TreeModel(X, y, leaf=leaf, sample_weight=weights, estimation=mask, **options)


def partitions(items):
    """All set partitions."""
    if not items:
        yield []
        return
    for rest in partitions(items[1:]):
        yield [[items[0]], *rest]
        for i in range(len(rest)):
            yield [*rest[:i], [items[0], *rest[i]], *rest[i + 1 :]]


def check_best_scores(leaf, y, weights):
    """No partition of some of the points has a larger score; the smallest excess over the best one."""
    model = model_of(leaf, y, weights)
    points = distinct_points(model)
    ceiling = ceilings.ceiling_of(model, points)
    excess = []
    for which in ([0, 1, 2, 3], [0, 1], [1, 2, 3], [0]):
        best_scores = ceiling.best_scores(ceiling.values[which].sum(axis=0)[None])[0]
        assert (np.diff(best_scores) >= 0.0).all()
        best = np.full(len(best_scores), -math.inf)
        for parts in partitions(which):
            score = sum(model.leaf.log_score(points.stats[part].sum(axis=0), model.target) for part in parts)
            first = max(len(parts), 2) - 2
            best[min(first, len(best) - 1) :] = np.maximum(best[min(first, len(best) - 1) :], score)
        assert (best_scores >= best - 1e-9).all()
        excess.append((best_scores - best).min())
    return min(excess)


@pytest.mark.parametrize("weights", [None, [1, 2, 0, 1, 1, 3], [0.5, 1.5, 1, 1, 0.2, 2]])
@pytest.mark.parametrize("name", LEAVES)
def test_best_scores_are_those_of_no_partition(name, weights):
    assert check_best_scores(*LEAVES[name], weights) < 12.0


@pytest.mark.more(everyday=["_max_log_multinomial-dirichlet"])
@pytest.mark.planted
@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("_max_log_multinomial", "dirichlet"),
        ("_max_log_multinomial", "laplace"),
        ("_max_log_exponential", "weibull"),
        ("least_scatters", "normal"),
    ],
)
def test_best_scores_that_are_too_small(part, name, monkeypatch):
    """As if the rows of a point had less likelihood, or rows were never close to each other."""
    right = getattr(ceilings, part)
    monkeypatch.setattr(ceilings, part, lambda *arguments: right(*arguments) + (2.0 if name == "normal" else -2.0))
    with pytest.raises(AssertionError):
        check_best_scores(*LEAVES[name], None)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_why_there_is_no_bound(name):
    partial = exact.solve(model_of(*UNBOUNDED[name], None), budget=2)
    assert partial.log_evidence_bound == math.inf
    assert partial.coverage is None
    assert type(UNBOUNDED[name][0]).__name__ in partial.no_bound
    complete = exact.solve(model_of(*UNBOUNDED[name], None), budget=10_000)
    assert complete.log_evidence_bound == pytest.approx(complete.log_evidence, abs=1e-9)
    assert complete.no_bound is None


def test_no_bound_under_a_prior_of_unknown_mass():
    some = exact.solve(model_of(*LEAVES["dirichlet"], None, tree_prior=pt.LeafPenalty(1.0)), budget=2)
    assert "mass of LeafPenalty" in some.no_bound


def check_budgets(model):
    """Both bounds tighten, and meet; how far apart they are at first."""
    truth, before, above = exact.solve(model), -math.inf, math.inf
    gap = math.inf
    for budget in (1, 5, 20, 100, 100_000):
        some = exact.solve(model, budget=budget)
        assert some.log_evidence <= truth.log_evidence + 1e-9
        assert some.log_evidence_bound >= truth.log_evidence - 1e-9
        assert before - 1e-9 <= some.log_evidence
        assert some.log_evidence_bound <= above + 1e-9
        gap = min(gap, some.log_evidence_bound - some.log_evidence) if budget == 1 else gap
        before, above = some.log_evidence, some.log_evidence_bound
    assert before == pytest.approx(truth.log_evidence, abs=1e-9)
    assert some.n_trees == truth.n_trees
    if above < math.inf:
        assert above == pytest.approx(truth.log_evidence, abs=1e-9)
        assert some.coverage == pytest.approx(1.0)
    return gap


@pytest.mark.more
@pytest.mark.parametrize("split_prior", ["local", "grid", "dyadic"])
def test_a_budget_bounds_the_sum(split_prior):
    """Check 200 random problems in all, with every leaf and tree prior."""
    rng, bounded = np.random.default_rng([11, len(split_prior)]), 0
    for _ in range(67):
        model = random_problem(rng, split_prior=split_prior, max_trees=500, gaps=rng.random() < 0.3)[1]
        bounded += check_budgets(model) < math.inf
    assert bounded > 20


def check_classes():
    rng, kinds = np.random.default_rng(3), {"split_prior": "local", "tree_prior": "chipman", "leaf": "dirichlet"}
    for _ in range(8):
        check_budgets(random_problem(rng, **kinds, max_trees=500)[1])


@pytest.mark.planted
def test_trees_of_more_than_two_leaves_forgotten(monkeypatch):
    right = ceilings.leaf_masses
    monkeypatch.setattr(ceilings, "leaf_masses", lambda model, n: right(model, n + 1)[:, :1] + np.zeros(n))
    with pytest.raises(AssertionError):
        check_classes()


@pytest.mark.planted
def test_a_bound_by_the_cube_of_the_largest_likelihood(monkeypatch):
    right = ceilings.Ceiling.log_upper_bound
    monkeypatch.setattr(ceilings.Ceiling, "log_upper_bound", lambda *arguments: 3.0 * right(*arguments))
    with pytest.raises(AssertionError):
        check_classes()
