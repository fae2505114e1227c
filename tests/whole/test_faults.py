"""What machines and callers do to a run: no memory, no disk, deep trees, sizes, hostile input."""

import decimal
import os
import pickle
import resource
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates
from pactree_mcmc.mcmc import course
from pactree_mcmc.model.leaf.distributions import Burr, NegativeBinomial, StudentT
from tests import ROOT
from tests.problems.extremes import faults
from tests.problems.refusals import refuses
from tests.problems.runs import assert_same, draw
from tests.programs import run

sys.path.insert(0, str(ROOT / "verification"))

from fuzzing.calls import call_of, make
from fuzzing.hostile import Anything, Integer, Odd, OddEqual, OddNumber, _deep
from fuzzing.world import World

DEPTH = 1_000
X = np.arange(DEPTH + 1.0)[:, None]
Y = np.arange(DEPTH + 1) % 2
MODEL = pt.TreeModel(X, Y, split_prior=pt.LocalCuts())
CALLS = 150
SLOW = ("BayesianTree", "sample", "resume", "progressive_mixture", "to_arviz", "save", "load", "Classifier", "simulate")
"""Targets that compile, or import, more than the rest of the suite does in this process."""
PLANTED = {
    "an error of Python": lambda **given: [][1],
    "an error of NumPy": lambda **given: np.zeros(3) + np.zeros(4),
    "a bare error": lambda **given: int("x"),
    "NaN": lambda **given: float("nan"),
    "a warning of NumPy": lambda **given: np.float64(1.0) / np.float64(0.0),
}
NUMBERS = [
    "0.5",
    None,
    [0.5],
    1j,
    OddNumber(),
    10**400,
    np.timedelta64(1, "D"),
    decimal.Decimal("0.1"),
    pd.NaT,
    Odd("repr"),
]
COUNTS = [True, 2.0, "3", 2**31, 10**30, np.timedelta64(3, "D"), Integer(-5), None, np.array([3])]
FLAGS = {
    "trivial": lambda v: pt.LocalCuts(trivial=v),
    "conditioned": lambda v: pt.BranchingProcess(conditioned=v),
    "cyclic": lambda v: pt.DyadicCuts(2, cyclic=v),
    "upper": lambda v: certificates.kl_inverse(0.1, 0.1, upper=v),
    "resplit": lambda v: exact.progressive_mixture(pt.TreeModel([[0.0], [1.0]], [0, 1]), resplit=v),
}
SEEDS = [_deep(3000), "1", 1.5, -1, True, Anything(), [[1]], Odd("raises")]
TABLES = {
    "odd": Odd("raises"),
    "deep": _deep(40),
    "lazy": pl.LazyFrame({"a": [1.0, 2.0]}),
    "lists": pl.DataFrame({"a": [[1.0], [2.0]]}),
    "records": np.zeros((2, 1), dtype=[("a", float)]),
    "far times": np.full((2, 1), 2**62, dtype="M8[s]"),
    "large": [[10**400], [0]],
    "huge": np.full((2, 1), np.longdouble("1e4000")),
    "range": range(10**12),
}
TREE = pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.mark.more
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory in use is read from /proc")
def test_no_memory(tmp_path):
    """Half a gigabyte left: the sampler and the engine say so, what was saved is there, and the process goes on."""
    done = run("out_of_memory", tmp_path / "run.nc", timeout=300)
    assert done.returncode == 0, done.stderr
    for word in ("sampler: ", "engine: ", "alive"):
        assert word in done.stderr, done.stderr


@pytest.mark.more
def test_a_disk_that_fills_up_under_a_run(monkeypatch, tmp_path):
    """The error names the file, the checkpoint before it is still whole, and the run is finished from there."""
    path, write, made = tmp_path / "run.nc", course.write_parts, []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def until_full(parts, path):
        if len(made) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        write(parts, path)
        made.append(path.read_bytes())

    monkeypatch.setattr(course, "write_parts", until_full)
    try:
        with pytest.raises(OSError, match=r"run\.nc could not be written: .*before is kept"):
            draw("classes", 8, tune=1, kernel="grow-prune", checkpoint=path, every=1e-6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == made[-1] and os.listdir(tmp_path) == ["run.nc"]
    monkeypatch.setattr(course, "write_parts", write)
    assert_same(pt.resume(path, progress=False), draw("classes", 8, tune=1, kernel="grow-prune"))


def nested(on_the_right):
    """Each split sends one row to one side, the others on."""
    n = 2 * DEPTH + 1
    feature, threshold = np.full(n, -1), np.zeros(n)
    left, right = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    inner = np.arange(0, n - 1, 2) if on_the_right else np.arange(DEPTH)
    feature[inner] = 0
    threshold[inner] = np.arange(DEPTH) + 0.5 if on_the_right else DEPTH - 0.5 - np.arange(DEPTH)
    left[inner] = inner + 1
    right[inner] = inner + 2 if on_the_right else n - 1 - np.arange(DEPTH)
    return pt.Tree(feature, threshold, left, right)


@pytest.fixture(scope="module", params=[True, False], ids=["right", "left"])
def post(request):
    return pt.posterior_from_trees(MODEL, [nested(request.param)])


@pytest.mark.more(everyday=["right"])
def test_the_tree_itself(post, tmp_path):
    tree = post.draws.distinct_tree(0)
    assert tree.depth == DEPTH and len(np.unique(tree.apply(X))) == DEPTH + 1 and len(tree.to_dot()) > DEPTH
    assert len(tree.format()) > DEPTH and tree.to_sklearn() and np.isfinite(MODEL.log_posterior(tree))
    again = pickle.loads(pickle.dumps(tree))
    assert np.array_equal(again.threshold, tree.threshold)
    post.save(tmp_path / "deep.nc")
    assert pt.load(tmp_path / "deep.nc").draws.distinct_tree(0).depth == DEPTH


def test_posteriors(post):
    assert post.predict_proba(X).shape == (DEPTH + 1, 2) and post.map_tree().depth == DEPTH
    assert post.credible_set(0.9) is not None


@pytest.mark.more(everyday=["right"])
def test_exact_answers(post):
    tree = post.draws.distinct_tree(0)
    pieces = exact.visited(post)
    assert pieces.map_tree().depth <= DEPTH and pieces.n_trees >= 1
    fixed = pt.TreeModel(X, Y, split_prior=pt.FixedTree(tree), tree_prior=pt.BranchingProcess(0.5, DEPTH))
    assert exact.solve(fixed).predict_proba(X).shape == (DEPTH + 1, 2)
    assert exact.Prunings(tree, X, Y).weakest_link().at(0.0).depth <= DEPTH
    assert pt.certificates.naive_occam(tree, X, Y, split_bits=4.0).value <= 1.0


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.more)], ids=["few", "many"]
)
def test_answers_or_a_refusal(seeds):
    assert [line for seed in seeds for line in faults(seed)] == []


@pytest.mark.parametrize("df", [1e-16, 0.02, 1.0, 3.5, 1e5])
@pytest.mark.parametrize("q", [1e-300, 1e-200, 1e-12, 0.3])
def test_quantiles_of_student_are_beyond_all_floats_or_right(df, q):
    law = StudentT(np.array([df]), np.array([0.0]), np.array([1.0]))
    (low,), (other,) = law.bracket(q)
    assert low == other < 0.0
    if low > -1e300:
        assert law.below(np.array([low]))[0] == pytest.approx(q, rel=1e-9)
        assert law.above(np.array([-low]))[0] == pytest.approx(q, rel=1e-9)
    else:
        # P(T < -1e300) = C 1e300^-df
        assert law.below(np.array([-1e300]))[0] > q


def test_counts_of_a_known_rate_are_of_poisson():
    law = NegativeBinomial(np.array([3e200]), np.array([1e200]))
    for y in (0.0, 2.0, 40.0):
        assert law.below(np.array([y]))[0] == pytest.approx(stats.poisson.cdf(y, 3.0), rel=1e-12)
        assert law.above(np.array([y]))[0] == pytest.approx(stats.poisson.sf(y, 3.0), rel=1e-12)


@pytest.mark.parametrize(
    ("c", "d", "scale"), [(100.0, 0.02, 1.0), (0.5, 3.0, 1e200), (1e3, 1e-3, 1e-8), (2.0, 1e6, 1.0)]
)
@pytest.mark.parametrize("q", [1e-300, 1e-12, 0.3, 0.7, 1.0 - 2.0**-40])
def test_quantiles_of_burr_are_right_where_the_power_overflows(c, d, scale, q):
    law = Burr(np.array([c]), np.array([d]), np.array([scale]))
    (y,), _ = law.bracket(q)
    with mpmath.workdps(60):
        z = -mpmath.log1p(-mpmath.mpf(q)) / mpmath.mpf(d)
        expected = mpmath.mpf(scale) * mpmath.expm1(z) ** (1 / mpmath.mpf(c))
    assert y == pytest.approx(float(expected), rel=1e-12)
    assert (law.below if q < 0.5 else law.above)(np.array([y]))[0] == pytest.approx(min(q, 1.0 - q), rel=1e-8)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def truth(world):
    return world.truths["local"]


def test_a_sample_of_the_calls(world):
    """Refused in words, or answered as documented; all fast ones among the first calls of seed 2."""
    made = 0
    for number in range(CALLS):
        call = call_of(2, number)
        if any(word in call.target.name for word in SLOW):
            continue
        outcome = make(call, world)
        assert outcome.kind != "wrong", f"python verification/fuzz.py --seed 2 --replay {number}: {outcome.what}"
        made += 1
    assert made > CALLS // 2


@pytest.mark.planted
@pytest.mark.parametrize("what", PLANTED)
def test_the_fuzzer_sees_what_is_wrong(what, world):
    call = next(call for call in (call_of(0, n) for n in range(10_000)) if call.target.name == "SquareRoot")
    assert make(call._replace(target=call.target._replace(call=PLANTED[what])), world).kind == "wrong"


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: type(value).__name__)
def test_no_number(value):
    for ask in (
        lambda: pt.ChipmanPrior(alpha=value),
        lambda: pt.LeafPenalty(cost=value),
        lambda: pt.PacBayesLoss(value),
        lambda: pt.FrozenLaplace(value),
        lambda: exact.AdditivePenalty(value),
        lambda: certificates.pac_bayes_kl(0.1, value, 100),
        lambda: certificates.holdout_gibbs(value, 100),
        lambda: certificates.dyadic_length(0.1, value, 0.0, 1.0),
        lambda: exact.minimise_risk([[0.0], [1.0]], [0, 1], strength=value),
    ):
        refuses(r"give|make", ask)


@pytest.mark.parametrize("value", COUNTS, ids=lambda value: type(value).__name__)
def test_no_count(value, truth):
    for ask in (
        lambda: truth.sample(value, rng=1),
        lambda: truth.draw_trees(value, rng=1),
        lambda: truth.best_trees(value),
        lambda: exact.best_by_size(truth.graph, value),
        lambda: pt.DyadicCuts(value),
        lambda: certificates.holdout(1, value),
    ):
        refuses("is out of range; give an integer", ask)


@pytest.mark.parametrize("name", FLAGS)
def test_no_flag(name):
    for value in (np.array([True, False]), "no", OddEqual(), 1):
        with pytest.raises(ValueError, match=f"{name}=.*give True or False"):
            FLAGS[name](value)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: type(seed).__name__)
def test_no_seed(seed, truth):
    """A deeply nested list as a seed overflows the stack inside NumPy: the process died."""
    for ask in (lambda: truth.sample(3, rng=seed), lambda: pt.simulate(truth.model, rng=seed)):
        refuses(r"rng=.*is not a source of randomness", ask)


def test_masked_entries_are_not_read():
    """What lies under a mask was taken as a value."""
    X = np.ma.masked_array(np.arange(8.0).reshape(4, 2), mask=np.eye(4, 2, dtype=bool))
    refuses("masked entries", lambda: pt.TreeModel(X, [0, 1, 0, 1]))
    with pytest.raises(ValueError, match="y is an array with masked entries"):
        pt.TreeModel(np.eye(4), np.ma.masked_array([0, 1, 0, 1], mask=[1, 0, 0, 0]))


@pytest.mark.parametrize("name", TABLES)
def test_no_table(name):
    X = TABLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ask in (lambda: pt.TreeModel(X, [0, 1]), lambda: pt.kd_tree(X, 2)):
            refuses(r"X |column", ask)
        if name in ("large", "huge"):  # to a bare tree they are infinite, as in any comparison
            assert TREE.apply(X).tolist() == [2, 2 if name == "huge" else 1]
        else:
            refuses(r"X ", lambda: TREE.apply(X))


def test_trees_that_do_not_fit_their_types():
    """1.5 as a child was cut to 1, 2^40 wrapped round, and labels beside values of another width were kept."""
    half = np.array([np.inf], dtype=np.float16)
    for fields in (([0, -1, -1], [0.5, 0, 0], [1.5, 0, 0], [2, 0, 0]), ([2**40], [0], [0], [0]), (half, [0], [0], [0])):
        with pytest.raises(ValueError, match="give integers"):
            pt.Tree(*fields)
    refuses("left is None", lambda: pt.Tree([-1], [0], None, [0]))
    with pytest.raises(ValueError, match="give a label for each column of value"):
        pt.Tree([-1], [0], [0], [0], value=[[0.5, 0.5]], classes=np.arange(3))
    with pytest.raises(ValueError, match="different lengths"):
        pt.Tree.from_sklearn(
            {"children_left": np.array([1]), "children_right": np.array([2, 3]), "feature": np.array([0])}
            | {"threshold": np.array([0.5])}
        )


def test_categories_beyond_the_mask_are_unknown():
    """A shift by more than 63 bits wrapped round, so that category 64 went where category 0 goes."""
    tree = pt.Tree([0, -1, -1], [0.0, 0, 0], [1, 0, 0], [2, 0, 0], categories=[1, -1, -1])
    assert tree.apply([[0.0], [1.0], [64.0], [1e300], [-3.0]]).tolist() == [1, 2, 2, 2, 2]


def test_holdout_labels_of_another_kind(truth):
    """Numbers beside labels that are text are errors, not an exception of NumPy."""
    X = np.zeros((5, 3))
    assert truth.holdout_certificate(X, np.arange(5)).errors == 5


def test_bounds_out_of_range():
    for ask in (
        lambda: certificates.binary_kl(0.5, 2.0),
        lambda: certificates.binary_kl(_deep(40), 0.5),
        lambda: exact.context_tree_weighting(Odd("raises"), 1, 2),
        lambda: certificates.binary_kl([0.1, 0.2], [0.1, 0.2, 0.3]),
        lambda: certificates.dyadic_penalty([5], [1, 2], 10, 2, 0.05),
        lambda: certificates.dyadic_penalty([50], [1], 10, 2, 0.05),
        lambda: certificates.tree_bits(pt.Tree([-1], [0], [0], [0]), 2.0, n_classes=0),
    ):
        refuses("give", ask)


def test_no_path(truth):
    for path in (3, None, b"run.nc", "a\0b.nc", "x" * 10_000 + ".nc", [], np.array("run.nc")):
        with pytest.raises(ValueError, match=r"path.*give the path of a file|cannot be the path of a file"):
            truth.model.save(path)
        with pytest.raises(ValueError, match=r"path.*give the path of a file|cannot be the path of a file"):
            pt.load(path)


def test_numbers_of_any_real_type_become_floats():
    """A fraction as a price made arrays of objects, which no compiled code takes."""
    prior = pt.ChipmanPrior(Fraction(1, 2), np.float32(1.0))
    assert (type(prior.alpha), type(prior.beta)) == (float, float)
    assert type(pt.LeafPenalty(2, empty_cost=Fraction(1, 4)).empty_cost) is float
