"""TreeModel and its parts refuse invalid input with a message that says what was received and what is allowed."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pactree_mcmc as pt

X = np.array([[0.0, 3.0], [1.0, 1.0], [2.0, 4.0], [3.0, 2.0]])
Y = [0, 1, 1, 0]
SPLIT = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])


def with_value(value):
    """X with one entry replaced."""
    out = X.copy()
    out[2, 1] = value
    return out


def objects(*column):
    return np.array([[v] for v in column], dtype=object)


def frame(**columns):
    return pd.DataFrame(columns)


NA = pd.NA
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
    with pytest.raises(ValueError, match=message):
        pt.TreeModel(table, np.arange(len(table)) % 2)


def test_sparse_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ValueError, match="X is a sparse matrix; give a dense array"):
        pt.TreeModel(sparse.csr_array(X), Y)


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


@pytest.mark.parametrize(("y", "message"), BAD_TARGETS.values(), ids=BAD_TARGETS.keys())
def test_bad_targets(y, message):
    with pytest.raises(ValueError, match=message):
        pt.TreeModel(X, y)


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


@pytest.mark.parametrize(("parts", "message"), BAD_PARTS.values(), ids=BAD_PARTS.keys())
def test_bad_parts(parts, message):
    with pytest.raises(ValueError, match=message):
        pt.TreeModel(X, Y, **parts)


@pytest.mark.parametrize(
    ("y", "leaf", "message"),
    [
        (list("abba"), pt.NormalInverseGamma(), "NormalInverseGamma needs numbers; y holds <U1 labels"),
        (list("abba"), pt.PoissonGamma(), "PoissonGamma needs numbers"),
        ([0, 2, -1, 1], pt.PoissonGamma(), r"y is -1\.0 in row 2; PoissonGamma needs counts 0, 1, 2"),
        ([0.0, 2.5, 1.0, 1.0], pt.PoissonGamma(), r"y is 2\.5 in row 1; PoissonGamma needs counts"),
        ([0.0, 2.5, 1.0, 1.0], pt.DirichletMultinomial(), "y holds fractions; a classification needs labels"),
    ],
)
def test_targets_that_do_not_fit_the_leaf(y, leaf, message):
    with pytest.raises(ValueError, match=message):
        pt.TreeModel(X, y, leaf=leaf)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"tree_prior": 0.5}, "tree_prior is 0.5; give BranchingProcess, ChipmanPrior or LeafPenalty"),
        ({"tree_prior": pt.ChipmanPrior}, "tree_prior is <class .*; give BranchingProcess"),
        ({"split_prior": "local"}, "split_prior is 'local'; give LocalCuts, GridCuts, DyadicCuts, FixedTree or"),
        ({"split_prior": pt.LocalCuts}, "split_prior is <class"),
        ({"leaf": "dirichlet"}, "leaf is 'dirichlet'; give a leaf model"),
        ({"leaf": pt.DirichletMultinomial}, "leaf is <class"),
    ],
)
def test_parts_of_the_wrong_type(parts, message):
    with pytest.raises(TypeError, match=message):
        pt.TreeModel(X, Y, **parts)


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


@pytest.mark.parametrize("part", LONG, ids=lambda part: type(part).__name__)
def test_representations_fit_a_screen(part):
    assert len(repr(part)) < 500
    assert repr(part).startswith(f"{type(part).__name__}(")
    assert "\n" not in repr(part)


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


@pytest.mark.parametrize(("part", "arguments", "message"), BAD_ARGUMENTS)
def test_arguments_out_of_range(part, arguments, message):
    with pytest.raises(ValueError, match=message):
        part(**arguments)


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
