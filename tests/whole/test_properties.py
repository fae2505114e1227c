"""Distributions that need no reference: what may not change an answer, found by hypothesis on small tables."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import exact
import pactree_mcmc as pt

EXAMPLES = 12
PROFILE = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
NORMAL = pt.NormalInverseGamma(m0=0.25, k0=0.5, a0=2.0, b0=0.5)
PRIORS = [pt.ChipmanPrior(0.9, 1.0), pt.BranchingProcess(0.4, 3), pt.LeafPenalty(0.7, max_depth=3)]


@st.composite
def problems(draw, least=3):
    """A table of small whole numbers, y in classes or eighths, weights, a tree prior."""
    n = draw(st.integers(least, 7))
    columns = [draw(st.lists(st.integers(-3, 4), min_size=n, max_size=n)) for _ in range(2)]
    classes = draw(st.booleans())
    y = draw(st.lists(st.integers(0, 2) if classes else st.integers(-8, 16), min_size=n, max_size=n))
    assume(len(set(y)) > 1)
    return {
        "X": np.array(columns, dtype=float).T,
        "y": np.array(y) if classes else np.array(y) / 8.0,
        "weight": np.array(draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)), dtype=float),
        "prior": draw(st.sampled_from(PRIORS)),
        "seed": draw(st.integers(0, 2**20)),
    }


def model_of(problem, *, split_prior=None, **changes):
    parts = problem | changes
    leaf = parts.get("leaf") or (NORMAL if parts["y"].dtype.kind == "f" else pt.DirichletMultinomial(0.7))
    return pt.TreeModel(
        parts["X"],
        parts["y"],
        tree_prior=parts["prior"],
        split_prior=split_prior,
        leaf=leaf,
        nominal=parts.get("nominal"),
        missing=parts.get("missing", "error"),
        sample_weight=parts["weight"],
    )


def predictions(truth, X):
    return truth.predict(X)[:, None] if truth.model.classes_ is None else truth.predict_proba(X)


def assert_alike(one, other, X, X_there=None, *, inclusion=None):
    """Evidence, distribution of the sizes, predictions, features split on; ``inclusion``: where the features are
    there.
    """
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-10)
    sizes = [truth.n_leaves_pmf() for truth in (one, other)]
    longest = max(map(len, sizes))
    here, there = (np.pad(size, (0, longest - len(size))) for size in sizes)
    assert here == pytest.approx(there, abs=1e-10)
    assert predictions(one, X) == pytest.approx(predictions(other, X if X_there is None else X_there), abs=1e-10)
    where = slice(None) if inclusion is None else inclusion
    assert one._feature_inclusion() == pytest.approx(other._feature_inclusion()[where], abs=1e-10)


@PROFILE
@given(problems())
def test_the_names_of_the_classes(problem):
    """Renamed so that they sort otherwise; prior counts go with their class."""
    assume(problem["y"].dtype.kind != "f" and len(set(problem["y"])) == 3)
    alpha = np.array([0.4, 1.0, 2.5])
    place = np.random.default_rng(problem["seed"]).permutation(3)
    names, moved = np.array(["a", "b", "c"]), np.empty(3)
    moved[place] = alpha
    one = exact.solve(model_of(problem, leaf=pt.DirichletMultinomial(alpha)))
    other = exact.solve(model_of(problem, y=names[place[problem["y"]]], leaf=pt.DirichletMultinomial(moved)))
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-10)
    assert one.predict_proba(problem["X"]) == pytest.approx(other.predict_proba(problem["X"])[:, place], abs=1e-10)


KINDS = {
    "local": lambda scale, shift: pt.LocalCuts(),
    "grid": lambda scale, shift: pt.GridCuts([np.array([-1.5, 0.25, 2.0]) * scale + shift] * 2),
    "dyadic": lambda scale, shift: pt.DyadicCuts(2, bounds=[(-3.0 * scale + shift, 4.0 * scale + shift)] * 2),
}


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("kind", KINDS)
@PROFILE
@given(problems(), st.integers(-40, 40), st.integers(-8, 8))
def test_shifts_and_scales(kind, problem, power, shift):
    """By powers of two nothing is rounded: answers are the same to the last bit, thresholds move along."""
    scale = 2.0**power
    shift *= scale
    one = model_of(problem, split_prior=KINDS[kind](1.0, 0.0))
    other = model_of(problem, split_prior=KINDS[kind](scale, shift), X=problem["X"] * scale + shift)
    truth, there = exact.solve(one), exact.solve(other)
    assert truth.log_evidence == there.log_evidence
    roots = {k if k is None else (k[0], k[1] * scale + shift): p for k, p in truth._root_split_pmf().items()}
    assert roots == there._root_split_pmf()
    X = problem["X"] + 0.5
    assert (predictions(truth, X) == predictions(there, X * scale + shift)).all()
    for tree, image in zip(truth.draw_trees(3, problem["seed"]), there.draw_trees(3, problem["seed"]), strict=True):
        assert (tree.feature == image.feature).all()
        thresholds = np.where(tree.feature >= 0, tree.threshold * scale + shift, 0.0)
        moved = pt.Tree(tree.feature, thresholds, tree.left, tree.right, tree.categories)
        assert one.log_posterior(tree) == other.log_posterior(moved)


@PROFILE
@given(problems(), st.integers(-9, 9))
def test_chains_do_not_see_the_scale(problem, power):
    X = problem["X"] * 2.0**power - 2.0**power
    run = {"tune": 5, "chains": 1, "rng": problem["seed"], "kernel": "grow-prune", "progress": False, "proposals": 20}
    one, other = (pt.sample(model_of(problem, X=table), 20, **run) for table in (problem["X"], X))
    assert (one.draws.tree_of_draw == other.draws.tree_of_draw).all()
    assert (one.log_prior == other.log_prior).all() and (one.log_score == other.log_score).all()


@PROFILE
@given(problems())
def test_monotone_transforms_under_local_cuts(problem):
    X = np.column_stack([np.exp(problem["X"][:, 0]), -1.0 / (5.0 + problem["X"][:, 1]) ** 3])
    one, other = (exact.solve(model_of(problem, X=table)) for table in (problem["X"], X))
    assert_alike(one, other, problem["X"], X)
    distributions = [truth._root_split_pmf() for truth in (one, other)]
    for k in range(2):
        here, there = (
            [distribution[key] for key in sorted(key for key in distribution if key and key[0] == k)]
            for distribution in distributions
        )
        assert here == pytest.approx(there, abs=1e-12)


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("kind", KINDS)
@PROFILE
@given(problems())
def test_weight_two_is_the_row_twice(kind, problem):
    times = problem["weight"].astype(int)
    rows = np.repeat(np.arange(len(times)), times)
    split_prior = KINDS[kind](1.0, 0.0)
    one = exact.solve(model_of(problem, split_prior=split_prior))
    twice = {"X": problem["X"][rows], "y": problem["y"][rows], "weight": None}
    assert_alike(one, exact.solve(model_of(problem, split_prior=split_prior, **twice)), problem["X"])
