"""What the fuzzer found, one line a defect, and a sample of both fuzzers; all of them: python verification/fuzz.py."""

import decimal
import sys
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates
from tests import ROOT

sys.path.insert(0, str(ROOT / "verification"))

from fuzzing.calls import call_of, make
from fuzzing.hostile import Anything, Integer, Odd, OddEqual, OddNumber, _deep
from fuzzing.world import World

CALLS = 150
SLOW = ("BayesianTree", "sample", "resume", "progressive_mixture", "to_arviz", "save", "load", "Classifier", "simulate")
"""Targets that compile, or import, more than the rest of the suite does in this process."""


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


PLANTED = {
    "an error of Python": lambda **given: [][1],
    "an error of NumPy": lambda **given: np.zeros(3) + np.zeros(4),
    "a bare error": lambda **given: int("x"),
    "NaN": lambda **given: float("nan"),
    "a warning of NumPy": lambda **given: np.float64(1.0) / np.float64(0.0),
}


@pytest.mark.planted
@pytest.mark.parametrize("what", PLANTED)
def test_the_fuzzer_sees_what_is_wrong(what, world):
    call = next(call for call in (call_of(0, n) for n in range(10_000)) if call.target.name == "SquareRoot")
    assert make(call._replace(target=call.target._replace(call=PLANTED[what])), world).kind == "wrong"


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
        with pytest.raises(ValueError, match=r"give|make"):
            ask()


COUNTS = [True, 2.0, "3", 2**31, 10**30, np.timedelta64(3, "D"), Integer(-5), None, np.array([3])]


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
        with pytest.raises(ValueError, match="is out of range; give an integer"):
            ask()


FLAGS = {
    "trivial": lambda v: pt.LocalCuts(trivial=v),
    "conditioned": lambda v: pt.BranchingProcess(conditioned=v),
    "cyclic": lambda v: pt.DyadicCuts(2, cyclic=v),
    "upper": lambda v: certificates.kl_inverse(0.1, 0.1, upper=v),
    "resplit": lambda v: exact.progressive_mixture(pt.TreeModel([[0.0], [1.0]], [0, 1]), resplit=v),
}


@pytest.mark.parametrize("name", FLAGS)
def test_no_flag(name):
    for value in (np.array([True, False]), "no", OddEqual(), 1):
        with pytest.raises(ValueError, match=f"{name}=.*give True or False"):
            FLAGS[name](value)


SEEDS = [_deep(3000), "1", 1.5, -1, True, Anything(), [[1]], Odd("raises")]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: type(seed).__name__)
def test_no_seed(seed, truth):
    """A deeply nested list as a seed overflows the stack inside NumPy: the process died."""
    for ask in (lambda: truth.sample(3, rng=seed), lambda: pt.simulate(truth.model, rng=seed)):
        with pytest.raises(ValueError, match=r"rng=.*is not a source of randomness"):
            ask()


def test_masked_entries_are_not_read():
    """What lies under a mask was taken as a value."""
    X = np.ma.masked_array(np.arange(8.0).reshape(4, 2), mask=np.eye(4, 2, dtype=bool))
    with pytest.raises(ValueError, match="masked entries"):
        pt.TreeModel(X, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="y is an array with masked entries"):
        pt.TreeModel(np.eye(4), np.ma.masked_array([0, 1, 0, 1], mask=[1, 0, 0, 0]))


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


@pytest.mark.parametrize("name", TABLES)
def test_no_table(name):
    X = TABLES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ask in (lambda: pt.TreeModel(X, [0, 1]), lambda: pt.kd_tree(X, 2)):
            with pytest.raises(ValueError, match=r"X |column"):
                ask()
        if name in ("large", "huge"):  # to a bare tree they are infinite, as in any comparison
            assert TREE.apply(X).tolist() == [2, 2 if name == "huge" else 1]
        else:
            with pytest.raises(ValueError, match=r"X "):
                TREE.apply(X)


def test_trees_that_do_not_fit_their_types():
    """1.5 as a child was cut to 1, 2^40 wrapped round, and labels beside values of another width were kept."""
    half = np.array([np.inf], dtype=np.float16)
    for fields in (([0, -1, -1], [0.5, 0, 0], [1.5, 0, 0], [2, 0, 0]), ([2**40], [0], [0], [0]), (half, [0], [0], [0])):
        with pytest.raises(ValueError, match="give integers"):
            pt.Tree(*fields)
    with pytest.raises(ValueError, match="left is None"):
        pt.Tree([-1], [0], None, [0])
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
        with pytest.raises(ValueError, match="give"):
            ask()


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
