"""TreeModel and its parts refuse invalid input with a message that says what was received and allowed."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model import Leaf, SplitPrior
from pactree_mcmc.model.model import COMPILED_LEAVES, COMPILED_SPLIT_PRIORS, COMPILED_TREE_PRIORS, NotFinite
from pactree_mcmc.model.tree_prior import TreePrior
from tests.problems.refusals import refuses

X = np.array([[0.0, 3.0], [1.0, 1.0], [2.0, 4.0], [3.0, 2.0]])
Y = [0, 1, 1, 0]
SPLIT = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])
NA = pd.NA
BAD_TARGETS = {
    "too short": ([0, 1], "X has 4 rows and y has 2; give as many"),
    "two columns": (np.zeros((4, 2)), r"y has shape \(4, 2\); give one value a row, shape \(4,\)"),
    "one number": (1.0, r"y has shape \(\); give one value a row"),
    "NaN": ([0.0, np.nan, 1.0, 2.0], "y is nan in row 1; give finite numbers"),
    "infinity": ([0.0, 1.0, np.inf, 2.0], "y is inf in row 2"),
    "complex": (np.array(Y) + 1j, "y is complex; give real numbers or labels"),
    "dates": (np.arange(4).astype("M8[ns]"), r"y has dtype datetime64\[ns\]"),
    "None": (["a", None, "b", "a"], "y is missing in row 1; give it a label, or drop the row"),
    "NaN among labels": (np.array(["a", "b", np.nan, "a"], dtype=object), "y is missing in row 2"),
    "NA among labels": (pd.Series(["a", "b", "a", NA], dtype="string"), "y is missing in row 3"),
    "mixed labels": (np.array([1, "a", 2, 3], dtype=object), "y mixes or holds int, str; give all strings"),
    "too large": ([1e200, -1e200, 0.0, 0.0], "y is too large: its variance overflows; rescale y"),
    "too small": ([1e-160, -1e-160, 0.0, 0.0], r"y is too small: its variance is 5e-321; rescale y"),
}
E_MASK = np.array([True, False, True, False])
CLASSIC = pt.DirichletMultinomial()
BAD_PARTS = {
    "negative weight": (
        {"sample_weight": [1, 2, -0.5, 1]},
        r"sample_weight is -0\.5 in row 2; give finite weights >= 0",
    ),
    "NaN weight": ({"sample_weight": [1, np.nan, 1, 1]}, "sample_weight is nan in row 1"),
    "too few weights": (
        {"sample_weight": [1, 1]},
        r"sample_weight has shape \(2,\); give one weight a row, shape \(4,\)",
    ),
    "no mask": ({"leaf": pt.FrozenLaplace()}, "FrozenLaplace needs estimation=: a boolean mask"),
    "empty mask": ({"leaf": pt.FrozenLaplace(), "estimation": ~E_MASK & E_MASK}, "the estimation mask selects no row"),
    "empty mask of a loss": (
        {"leaf": pt.PacBayesLoss(1.0), "estimation": ~E_MASK & E_MASK},
        "selects no row; PacBayesLoss would have no labels",
    ),
    "mask of indices": (
        {"leaf": pt.FrozenLaplace(), "estimation": [0, 1, 2, 3]},
        r"estimation has dtype int64 and shape",
    ),
    "short mask": (
        {"leaf": pt.FrozenLaplace(), "estimation": E_MASK[:3]},
        r"estimation has dtype bool and shape \(3,\)",
    ),
    "unused mask": ({"leaf": CLASSIC, "estimation": E_MASK}, "DirichletMultinomial does not use estimation="),
    "unknown nominal name": ({"nominal": "colour"}, r"nominal: 'colour' is not a column; X has 2"),
    "nominal index": ({"nominal": [2]}, "nominal: 2 is not a column"),
    "feature weights of another table": (
        {"split_prior": pt.GridCuts(3, feature_weights=[1])},
        r"feature_weights has shape \(1,\); X has 2 columns",
    ),
    "cuts of another table": ({"split_prior": pt.GridCuts([[0.5]])}, "cuts has 1 entries; X has 2 columns"),
    "no cuts of an ordered column": (
        {"split_prior": pt.GridCuts([[0.5], None])},
        "column 'x1' is ordered; give its cuts",
    ),
    "cuts of a nominal column": (
        {"split_prior": pt.GridCuts([[0.5], [1.5]]), "nominal": 1},
        "column 'x1' is nominal; give None as its cuts",
    ),
    "bounds of another table": (
        {"split_prior": pt.DyadicCuts(2, bounds=[[0, 1]])},
        "bounds has 1 rows; X has 2 columns",
    ),
    "dyadic nominal": (
        {"split_prior": pt.DyadicCuts(2), "nominal": 1},
        "column 'x1' is nominal; use LocalCuts or GridCuts",
    ),
    "trivial without limit": (
        {"split_prior": pt.LocalCuts(trivial=True)},
        "never runs out of splits; give.* a max_depth",
    ),
    "short rho": ({"tree_prior": pt.BranchingProcess([0.5], 2)}, "rho has 1 entries; max_depth=2 needs 2"),
    "rho by depth without limit": ({"tree_prior": pt.BranchingProcess([0.5], None)}, "rho by depth needs a max_depth"),
    "rho by node": (
        {"tree_prior": pt.BranchingProcess([0.5] * 2), "split_prior": pt.FixedTree(SPLIT)},
        "rho has 2 entries; the fixed tree has 3 nodes",
    ),
    "fixed tree of a wider table": (
        {"split_prior": pt.FixedTree(pt.Tree([5, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0]))},
        "node 0: splits on feature 5; there are 2 features",
    ),
    "fixed tree of an ordered column": (
        {"split_prior": pt.FixedTree(SPLIT), "nominal": 0},
        "disagree on whether column 'x0'",
    ),
    "alpha of other classes": (
        {"leaf": pt.DirichletMultinomial([1, 2, 3])},
        r"alpha has shape \(3,\); y has 2 classes",
    ),
    "exposure of other rows": ({"leaf": pt.PoissonGamma(exposure=[1, 2])}, r"exposure has shape \(2,\); y has 4 rows"),
}
MANY = np.arange(1.0, 1000.0)
LONG = [
    pt.GridCuts([MANY] * 50),
    pt.LocalCuts(feature_weights=MANY),
    pt.DyadicCuts(2, bounds=np.column_stack([-MANY, MANY])),
    pt.CustomSplits(lambda cut: cut.at, of=pt.GridCuts([MANY] * 50)),
    pt.BranchingProcess(MANY / 1000.0),
    pt.DirichletMultinomial(MANY),
    pt.PoissonGamma(exposure=MANY),
    pt.TreeModel(pd.DataFrame(np.eye(300)), np.arange(300) % 2).columns,
    pt.contexts([0, 1] * 500, 3, 2),
]
BAD_ARGUMENTS = [
    (pt.BranchingProcess, {"rho": 1.0}, r"rho=1\.0 is out of range; give 0 <= rho < 1"),
    (pt.BranchingProcess, {"rho": []}, r"rho has shape \(0,\); give a number or a one-dimensional array"),
    (pt.BranchingProcess, {"max_depth": -1}, r"max_depth=-1 is out of range; give an integer 0\.\.4095, or None"),
    (pt.BranchingProcess, {"rho": 0.6, "max_depth": None, "conditioned": True}, "needs one rho <= 1/2; give max_depth"),
    (pt.ChipmanPrior, {"alpha": 1.0}, r"alpha=1\.0 is out of range; give 0 <= alpha < 1"),
    (pt.ChipmanPrior, {"beta": -1.0}, r"beta=-1\.0 is out of range; give a finite beta >= 0"),
    (pt.ChipmanPrior, {"max_depth": 2.5}, r"max_depth=2\.5 is out of range"),
    (pt.LeafPenalty, {"cost": -1.0}, r"cost=-1\.0 is out of range; give a finite number >= 0"),
    (pt.LeafPenalty, {"empty_cost": np.inf}, "empty_cost=inf is out of range"),
    (pt.LocalCuts, {"min_leaf": 0}, "min_leaf=0 is out of range; give an integer >= 1"),
    (pt.LocalCuts, {"max_cuts": 0}, "max_cuts=0 is out of range"),
    (pt.LocalCuts, {"trivial": True, "min_leaf": 2}, "min_leaf=2 contradicts trivial=True"),
    (pt.GridCuts, {"cuts": 0}, "cuts=0 is out of range; give an integer >= 1"),
    (pt.GridCuts, {"cuts": 2.5}, r"cuts=2\.5; give an integer >= 1 or one increasing array a feature"),
    (pt.GridCuts, {"cuts": [[1.0, 2.0], [3.0, 1.0]]}, r"cuts of feature 1 are unsorted: \[3\.0, 1\.0\]; give strictly"),
    (pt.GridCuts, {"cuts": [[1.0, 1.0]]}, "cuts of feature 0 are duplicate"),
    (pt.GridCuts, {"cuts": [[1.0, np.nan]]}, "cuts of feature 0 are not a one-dimensional array of finite numbers"),
    (pt.DyadicCuts, {"levels": 0}, "levels=0 is out of range; give an integer >= 1"),
    (pt.DyadicCuts, {"levels": 32}, "levels=32: codes would overflow; give at most 31"),
    (pt.DyadicCuts, {"levels": 2, "bounds": [[0, 1, 2]]}, r"bounds has shape \(1, 3\)"),
    (
        pt.DyadicCuts,
        {"levels": 2, "bounds": [[0, 1], [1, 1]]},
        r"bounds of feature 1 are \[1\.0, 1\.0\]; give lower < upper",
    ),
    (pt.DyadicCuts, {"levels": 2, "cyclic": True, "feature_weights": [1]}, "feature_weights mean nothing when cyclic"),
    (pt.LocalCuts, {"feature_weights": [0, 0]}, r"feature_weights=\[0\.0, 0\.0\].*not all 0"),
    (pt.DyadicCuts, {"levels": 2, "feature_weights": [1, np.nan]}, "give finite weights >= 0"),
    (pt.DirichletMultinomial, {"alpha": 0.0}, r"alpha=0\.0 is out of range; give finite alpha > 0"),
    (pt.FrozenLaplace, {"pseudocount": np.inf}, "pseudocount=inf is out of range"),
    (pt.FrozenLaplace, {"pseudocount": [1.0, 1.0]}, r"pseudocount has shape \(2,\); give one number"),
    (pt.NormalInverseGamma, {"m0": np.nan}, "m0=nan is out of range; give a finite number"),
    (pt.NormalInverseGamma, {"k0": 0.0}, r"k0=0\.0 is out of range"),
    (pt.NormalInverseGamma, {"b0": [1.0]}, r"b0 has shape \(1,\); give one number"),
    (pt.NormalKnownVariance, {"sigma2": 0.0}, r"sigma2=0\.0 is out of range"),
    (pt.PoissonGamma, {"shape": 0.0}, r"shape=0\.0 is out of range"),
    (pt.PoissonGamma, {"exposure": [1.0, 0.0]}, r"exposure=0\.0 is out of range"),
    (pt.PacBayesLoss, {"lambda1": -1.0}, r"lambda1=-1\.0 is out of range; give a finite number >= 0"),
    (pt.PacBayesLoss, {"lambda1": 1.0, "lambda2": np.inf}, "lambda2=inf is out of range"),
]
TARGETS_THAT_DO_NOT_FIT_THE_LEAF = [
    (list("abba"), pt.NormalInverseGamma(), "NormalInverseGamma needs numbers; y holds <U1 labels"),
    (list("abba"), pt.PoissonGamma(), "PoissonGamma needs numbers"),
    ([0, 2, -1, 1], pt.PoissonGamma(), r"y is -1\.0 in row 2; PoissonGamma needs counts 0, 1, 2"),
    ([0.0, 2.5, 1.0, 1.0], pt.PoissonGamma(), r"y is 2\.5 in row 1; PoissonGamma needs counts"),
    ([0.0, 2.5, 1.0, 1.0], pt.DirichletMultinomial(), "y holds fractions; a classification needs labels"),
]
PARTS_OF_THE_WRONG_TYPE = [
    ({"tree_prior": 0.5}, "tree_prior is 0.5; give BranchingProcess, ChipmanPrior or LeafPenalty"),
    ({"tree_prior": pt.ChipmanPrior}, "tree_prior is <class .*; give BranchingProcess"),
    ({"split_prior": "local"}, "split_prior is 'local'; give LocalCuts, GridCuts, DyadicCuts, FixedTree or"),
    ({"split_prior": pt.LocalCuts}, "split_prior is <class"),
    ({"leaf": "dirichlet"}, "leaf is 'dirichlet'; give a leaf model"),
    ({"leaf": pt.DirichletMultinomial}, "leaf is <class"),
]
DOZEN = np.arange(12.0)[:, None]
HALVES = np.arange(12) > 5
THIRDS = np.column_stack([np.arange(12.0), [0, 1, 2] * 4])
MIXED = np.array([0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1])
SPLIT_PRIORS = {"local": pt.LocalCuts(), "grid": pt.GridCuts(6), "dyadic": pt.DyadicCuts(3)}
COUNT = 2


def with_value(value):
    """X with one entry replaced."""
    out = X.copy()
    out[2, 1] = value
    return out


def objects(*column):
    return np.array([[v] for v in column], dtype=object)


def frame(**columns):
    return pd.DataFrame(columns)


BAD_TABLES = {
    "NaN": (with_value(np.nan), r"column 'x1' contains NaN \(first in row 2\); fill it in"),
    "infinity": (with_value(-np.inf), r"column 'x1' contains infinity \(first in row 2\)"),
    "no rows": (np.empty((0, 2)), r"X is empty: shape \(0, 2\); give at least 2 rows and 1 column"),
    "one row": (X[:1], "X has one row; a tree needs at least 2 rows"),
    "one dimension": (
        X[:, 0],
        r"X is of shape \(\d+,\); for one row give \[X\], for one column np.reshape\(X, \(-1, 1\)\)",
    ),
    "an empty list": ([], r"X is of shape \(0,\)"),
    "a series": (pd.Series([1.0, 2.0]), "X is a Series; for one row"),
    "complex": (X + 1j, "column 'x0' is complex; X must be real"),
    "text": (np.array([["a"], ["b"], ["c"], ["d"]]), "column 'x0' holds text; make it a pandas or polars categorical"),
    "objects": (objects(1, 2, {}, 3), r"column 'x0' holds objects \(dict \{\} in row 2\); give numbers"),
    "None": (objects(1, None, 3, 4), r"column 'x0' contains None \(first in row 1\); fill it in"),
    "dates and numbers": (objects(date(2020, 3, 1), 2, 3, 4), r"column 'x0' holds objects \(date .* in row 0\)"),
    "a missing date": (frame(u=pd.to_datetime(["2020-03-01", None])), r"column 'u' contains NaN \(first in row 1\)"),
    "a missing text": (frame(u=["a", None, "b", "a"]), r"nominal column 'u' has a missing value \(first in row 1\)"),
    "several columns": (
        frame(u=[1.0, np.nan, 2.0, 3.0], v=[1.0, 2.0, 3.0, 4.0], w=[1.0, 2.0, np.inf, 3.0], s=["a", None, "b", "a"]),
        r"(?s)3 columns cannot be used:.*'u' contains NaN.*'w' contains infinity.*nominal column 's' has a missing",
    ),
    "very many columns": (pd.DataFrame(np.full((4, 30), np.nan)), r"(?s)30 columns cannot be used:.*and 22 more$"),
    "NA in a nullable column": (frame(u=pd.array([1, NA, 2, 3], dtype="Int64")), "column 'u' contains NaN|NAType <NA>"),
    "missing category": (
        frame(u=pd.Categorical(["a", None, "b", "a"])),
        r"nominal column 'u' has a missing value .*row 1",
    ),
    "null category": (
        pl.DataFrame({"u": pl.Series(["a", "b", None, "a"], dtype=pl.Categorical)}),
        r"nominal column 'u' has a missing value \(first in row 2\)",
    ),
    "a name twice": (pd.DataFrame(X, columns=["a", "a"]), "column name 'a' occurs more than once"),
}


@pytest.mark.parametrize(("table", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_bad_tables(table, message):
    refuses(message, lambda: pt.TreeModel(table, np.arange(len(table)) % 2))


def test_sparse_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    refuses("X is a sparse matrix; give a dense array", lambda: pt.TreeModel(sparse.csr_array(X), Y))


@pytest.mark.parametrize(("y", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS.keys())
def test_bad_targets(y, message):
    refuses(message, lambda: pt.TreeModel(X, y))


@pytest.mark.parametrize(("parts", "message"), BAD_PARTS.values(), ids=BAD_PARTS.keys())
def test_bad_parts(parts, message):
    refuses(message, lambda: pt.TreeModel(X, Y, **parts))


@pytest.mark.parametrize(("y", "leaf", "message"), TARGETS_THAT_DO_NOT_FIT_THE_LEAF)
def test_targets_that_do_not_fit_the_leaf(y, leaf, message):
    refuses(message, lambda: pt.TreeModel(X, y, leaf=leaf))


@pytest.mark.parametrize(("parts", "message"), PARTS_OF_THE_WRONG_TYPE)
def test_parts_of_the_wrong_type(parts, message):
    refuses(message, lambda: pt.TreeModel(X, Y, **parts), TypeError)


@pytest.mark.parametrize("part", LONG, ids=lambda part: type(part).__name__)
def test_representations_fit_a_screen(part):
    assert len(repr(part)) < 500 and repr(part).startswith(f"{type(part).__name__}(") and "\n" not in repr(part)


@pytest.mark.parametrize(("part", "arguments", "message"), BAD_ARGUMENTS)
def test_arguments_out_of_range(part, arguments, message):
    refuses(message, lambda: part(**arguments))


def test_fixed_tree_must_be_a_tree():
    with pytest.raises(TypeError, match=r"tree is a list; give a Tree, or use FixedTree\.from_sklearn"):
        pt.FixedTree([0, -1, -1])


def test_a_fraction_takes_the_last_rows_as_e():
    X, y = np.arange(10.0)[:, None], np.arange(10) % 2
    model = pt.TreeModel(X, y, leaf=pt.FrozenLaplace(), estimation=0.3)
    assert np.flatnonzero(model.target.estimation).tolist() == [7, 8, 9]
    for bad in (0.0, 1.0, 0.01, -0.5, 1.5, float("nan")):
        with pytest.raises(ValueError, match="E or S empty"):
            pt.TreeModel(X, y, leaf=pt.FrozenLaplace(), estimation=bad)


@pytest.mark.parametrize("y", [range(13), np.arange(13).tolist(), pd.Series(range(13))])
def test_classes_of_many_whole_numbers_are_announced(y):
    X = np.arange(13.0)[:, None]
    with pytest.warns(UserWarning, match=r"13 different whole numbers.*PoissonGamma\(\) for counts, y\.astype"):
        pt.TreeModel(X, y)
    # the three ways that the message names, and labels and digits, are silent
    for leaf in (pt.PoissonGamma(), pt.DirichletMultinomial()):
        pt.TreeModel(X, y, leaf=leaf)
    pt.TreeModel(X, np.array(y, dtype=float))
    pt.TreeModel(X, [str(value) for value in y])
    pt.TreeModel(X, np.arange(13) % 10)


class Exponential(Leaf):
    """A leaf of one's own, with a code that compiled code does not know."""

    kind = 17
    is_classifier = True

    def n_stats(self, target):
        return target.n_classes

    def labels(self, target):
        return target.values

    def params(self, target):
        return np.array([1.0, 0.0, 2.0])

    def log_score(self, stats, target):
        return -float(stats[0] * stats[1])


class Other(pt.DirichletMultinomial):
    """Another plain score than the compiled one."""

    def log_score(self, stats, target):
        return -3.0


class OtherParams(pt.NormalInverseGamma):
    """Another compiled score than the plain one."""

    def params(self, target):
        return 2.0 * super().params(target)


class Middle(SplitPrior):
    """A split prior of one's own."""

    kind = 9


class EveryOther(pt.GridCuts):
    """Other numbers of splits than the compiled ones."""

    def count_splits(self, cell, feature):
        return super().count_splits(cell, feature) // 2


class Duck(TreePrior):
    """A tree prior of one's own."""

    max_depth = 3

    def log_split(self, depth, node):
        return np.full(np.shape(depth), -1.0)

    def log_stop(self, depth, node, *, forced, empty):
        return np.full(np.shape(depth), -1.0)

    def log_constant(self, shape):
        return 0.0


class Steep(pt.ChipmanPrior):
    """Not normalised, though prior draws take it for that."""

    def log_split(self, depth, node):
        return super().log_split(depth, node) - 1.0


STRANGE = {
    "leaf, unknown kind": (
        {"leaf": Exponential()},
        r"leaf is a Exponential, which has no compiled form; give Dirichlet",
    ),
    "leaf, plain score": ({"leaf": Other()}, r"leaf is a Other, which changes log_score of DirichletMultinomial"),
    "leaf, parameters": ({"leaf": OtherParams(0.0, 1.0, 1.0, 1.0)}, r"changes params of NormalInverseGamma"),
    "splits, unknown kind": (
        {"split_prior": Middle()},
        r"split_prior is a Middle, which has no compiled form; give Local",
    ),
    "split_prior, count_splits": (
        {"split_prior": EveryOther(3)},
        r"split_prior is a EveryOther, which changes count_splits of GridCuts",
    ),
    "prior, a duck": ({"tree_prior": Duck()}, r"tree_prior is a Duck, which has no compiled form; give Branching"),
    "prior, not normalised": (
        {"tree_prior": Steep()},
        r"tree_prior is a Steep, which changes log_split of ChipmanPrior",
    ),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_model_of_strange_parts_is_refused(case):
    parts, message = STRANGE[case]
    y = np.sin(DOZEN[:, 0]) if "parameters" in case else HALVES
    refuses(message, lambda: pt.TreeModel(DOZEN, y, **parts), TypeError)


def test_every_part_that_is_exported_is_known():
    exported = [getattr(pt, name) for name in pt.__all__]
    classes = [thing for thing in exported if isinstance(thing, type)]
    assert {cls for cls in classes if issubclass(cls, Leaf)} == set(COMPILED_LEAVES)
    assert {cls for cls in classes if issubclass(cls, SplitPrior)} == set(COMPILED_SPLIT_PRIORS)
    assert {cls for cls in classes if hasattr(cls, "log_stop")} == set(COMPILED_TREE_PRIORS)


def planted(split_prior="local", planted=True, **rest):
    """A model whose compiled score of a cell with two rows of the first class is NaN."""
    model = pt.TreeModel(
        THIRDS, MIXED, nominal=[1] if split_prior == "local" else None, split_prior=SPLIT_PRIORS[split_prior], **rest
    )
    if planted:
        leaf = model.lowered.leaf
        table = leaf.lookup.copy()
        table[0, COUNT] = np.nan
        leaf = leaf._replace(lookup=table)
        model.__dict__["lowered"] = model.lowered._replace(leaf=leaf, proposal_leaf=leaf)
    return model


def rows_named(message):
    """Boolean array: the rows of the cell that the answers in the message describe."""
    is_named = np.ones(len(THIRDS), dtype=bool)
    for k, sign, threshold in re.findall(r"x(\d) (<=|>) ([-\d.e]+)", message):
        low = THIRDS[:, int(k)] <= float(threshold)
        is_named &= low if sign == "<=" else ~low
    for k, out, labels in re.findall(r"x(\d) (not )?in \{([^}]*)\}", message):
        here = np.isin(THIRDS[:, int(k)], [float(label) for label in labels.split(", ")])
        is_named &= ~here if out else here
    return is_named


def check_cell(message):
    """The cell described has as many rows as it says, and the count that was planted."""
    rows, first, second = (float(v) for v in re.search(r"(\d+) rows, statistics \[(\d+), (\d+)\]", message).groups())
    assert first == COUNT and rows == first + second
    is_named = rows_named(message)
    if "side of a possible split" in message:
        assert is_named.sum() > rows
    else:
        assert [(MIXED[is_named] == label).sum() for label in (0, 1)] == [first, second]


@pytest.mark.more(everyday=["grow-prune"])
@pytest.mark.planted
@pytest.mark.parametrize("kernel", ["grow-prune", "default", "collapsed", "cgm"])
def test_the_sampler_stops(kernel):
    kernel = {kernel: 1.0} if kernel == "collapsed" else kernel
    with pytest.raises(NotFinite, match=r"the score of .* is nan") as caught:
        pt.sample(planted(), 200, tune=0, chains=1, rng=3, kernel=kernel, start="stump", progress=False)
    check_cell(str(caught.value))
    post = pt.sample(planted(planted=False), 5, tune=0, chains=1, rng=3, kernel=kernel, start="stump", progress=False)
    assert np.isfinite(post.draws.log_score_of_tree).all()


@pytest.mark.planted
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
def test_the_exact_engine_stops(split_prior):
    with pytest.raises(NotFinite, match="the score of a cell is nan") as caught:
        exact.solve(planted(split_prior))
    check_cell(str(caught.value))
    assert np.isfinite(exact.solve(planted(split_prior, planted=False)).log_evidence)


@pytest.mark.more(everyday=["smc"])
@pytest.mark.planted
@pytest.mark.parametrize("engine", ["smc", "mcmc"])
def test_the_progressive_mixture_stops(engine):
    refuses("is nan", lambda: pt.progressive_mixture(planted(), engine=engine, rng=1, chains=2, draws=5), NotFinite)
    refuses("is nan", lambda: exact.progressive_mixture(planted()).predict_proba(THIRDS), NotFinite)


def test_a_nan_is_no_lost_chain():
    """A chain that dies is left out with a warning; one that cannot go on is an error."""
    with ThreadPoolExecutor(1) as pool, pytest.raises(NotFinite, match="is nan"):
        pt.sample(planted(), 200, tune=0, chains=2, rng=3, start="stump", executor=pool, progress=False)
    error = NotFinite("why")
    assert str(pickle.loads(pickle.dumps(error))) == "why"
