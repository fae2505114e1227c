"""Published numbers, and distributions that need no reference."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import exact
import pactree_mcmc as pt
from tests import ROOT

DATA = ROOT.parent / "shared" / "data"
MAPTREE = [
    ("maptree_small", 1.0, -13.516869, -12.138724, 0.252046),
    pytest.param("maptree_medium", 2.5, -66.006945, -58.803694, 0.000744, marks=pytest.mark.more),
]
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
KINDS = {
    "local": lambda scale, shift: pt.LocalCuts(),
    "grid": lambda scale, shift: pt.GridCuts([np.array([-1.5, 0.25, 2.0]) * scale + shift] * 2),
    "dyadic": lambda scale, shift: pt.DyadicCuts(2, bounds=[(-3.0 * scale + shift, 4.0 * scale + shift)] * 2),
}


def chipman_model():
    """The data of the example, drawn as its description says."""
    rng = np.random.default_rng(34647)
    n = 800
    x1 = rng.choice(np.arange(1, 11) - 0.5, n)
    x2 = rng.choice(["a", "b", "c", "d"], n)
    noise = 2 * rng.standard_normal(n)
    ab = np.isin(x2, ["a", "b"])
    mean = np.select([ab & (x1 <= 5), ab, x1 <= 3, x1 <= 7], [8.0, 2.0, 1.0, 5.0], 8.0)
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    table = pd.DataFrame({"x1": x1, "x2": pd.Categorical(x2)})
    return pt.TreeModel(table, mean + noise, tree_prior=pt.ChipmanPrior(0.95, 1), leaf=leaf)


def test_chipman_1998():
    truth = exact.solve(chipman_model())
    assert truth.log_evidence == pytest.approx(-1712.127332, abs=1e-6)
    assert truth.map_log_joint == pytest.approx(-1713.055514, abs=1e-6)
    assert np.exp(truth.map_log_joint - truth.log_evidence) == pytest.approx(0.3953, abs=5e-5)
    assert truth.n_leaves_pmf()[5:10] == pytest.approx([0.7905, 0.1772, 0.0282, 0.0036, 0.0004], abs=5e-5)
    root = truth._root_split_pmf()
    assert root[1, frozenset("ab")] == pytest.approx(0.9891, abs=5e-5)
    assert [root[0, cut] for cut in (3.0, 7.0, 5.0)] == pytest.approx([0.0077, 0.0016, 0.0015], abs=5e-5)


def read_case(name):
    """X and y of one of MAPTree's cases; skips where the table is not at hand."""
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{name} is in the shared tables, which are not beside this checkout")
    table = pd.read_csv(path)
    return table.drop(columns="target"), table["target"].to_numpy()


@pytest.mark.more(everyday=["maptree_small-1.0--13.516869--12.138724-0.252046"])
@pytest.mark.parametrize(("name", "alpha", "best", "evidence", "probability"), MAPTREE)
def test_maptree(name, alpha, best, evidence, probability):
    X, y = read_case(name)
    prior, leaf = pt.ChipmanPrior(0.95, 0.5), pt.DirichletMultinomial(alpha)
    truth = exact.solve(pt.TreeModel(X, y, tree_prior=prior, leaf=leaf))
    assert truth.map_log_joint == pytest.approx(best, abs=1e-5)
    assert truth.log_evidence == pytest.approx(evidence, abs=1e-5)
    assert np.exp(truth.map_log_joint - truth.log_evidence) == pytest.approx(probability, abs=1e-6)
    if name == "maptree_medium":
        root = truth._root_split_pmf()
        features = {k: sum(p for key, p in root.items() if key and key[0] == k) for k in (11, 2, 10, 0, 5, 22)}
        expected = {11: 0.6765, 2: 0.1674, 10: 0.0421, 0: 0.0241, 5: 0.0116, 22: 0.0081}
        assert features == pytest.approx(expected, abs=6e-5)


@pytest.mark.more
def test_one_dimension():
    rng = np.random.default_rng(0)
    x = rng.random(120)
    y = rng.random(120) < np.select([x < 0.3, x < 0.55, x < 0.8], [0.9, 0.2, 0.75], 0.35)
    prior = pt.ChipmanPrior(0.95, 1, max_depth=10)
    truth = exact.solve(pt.TreeModel(x[:, None], y, tree_prior=prior, split_prior=pt.LocalCuts()))
    assert truth.graph.n_cells == 120 * 121 // 2 and truth.n_leaves_pmf().sum() == pytest.approx(1.0, abs=1e-9)


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
