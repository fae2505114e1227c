"""KD trees, dyadic trees and context trees are what their definitions say; split priors of one's own."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt
from pactree_mcmc.tree.arrays import LEAF
from tests.problems.priors import WEIGHED, deep, even, late, near, own_splits, wide
from tests.problems.refusals import refuses
from tests.reference import pac_bayes as naive

RNG = np.random.default_rng(3)
NEAR = pt.CustomSplits(near, params=[0.5, 0.3])
GRID = pt.GridCuts([[0.25, 0.5, 0.75], [0.5, 1.5, 2.5], None])
SPLITS = {
    "even": pt.CustomSplits(even, pt.LocalCuts(min_leaf=2)),
    "near": NEAR,
    "near on a grid": pt.CustomSplits(near, GRID, params=[0.5, 0.3]),
    "wide": pt.CustomSplits(wide, over="cell"),
    "deep": pt.CustomSplits(deep, over="cell", by_depth=True),
    "deep on a grid": pt.CustomSplits(deep, GRID, over="cell", by_depth=True),
    "late": pt.CustomSplits(late, pt.LocalCuts(feature_weights=[1.0, 2.0, 0.5])),
}
LEVEL = 1.0


def _cells(tree, X):
    """Rows of X in each node."""
    rows = [None] * tree.n_nodes
    rows[0] = np.arange(len(X))
    for i in np.flatnonzero(tree.feature != LEAF):
        left = X[rows[i], tree.feature[i]] <= tree.threshold[i]
        rows[tree.left[i]], rows[tree.right[i]] = rows[i][left], rows[i][~left]
    return rows


def _best_fraction(x):
    sizes = [int((x <= v).sum()) for v in np.unique(x)[:-1]]
    return min(abs(2 * s - len(x)) for s in sizes)


@pytest.mark.more(everyday=["0-median-cycling", "1-midpoint-widest"])
@pytest.mark.parametrize("coordinate", ["cycling", "widest"])
@pytest.mark.parametrize("rule", ["median", "midpoint"])
@pytest.mark.parametrize("seed", range(4))
def test_kd_tree_follows_its_rules(rule, coordinate, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((200, 3)) if seed < 2 else rng.integers(0, 6, size=(200, 3)).astype(float)
    X[:, 2] *= 1 if seed % 2 else 0
    tree = pt.kd_tree(X, 6, rule=rule, coordinate=coordinate).tree
    depth, rows, sd = tree.node_depth, _cells(tree, X), X.std(axis=0)
    for i in range(tree.n_nodes):
        cell = X[rows[i]]
        spread = cell.max(axis=0) - cell.min(axis=0)
        if tree.feature[i] == LEAF:
            assert depth[i] == 6 or not spread.any()
            continue
        k = tree.feature[i]
        if coordinate == "widest":
            fraction = spread / np.where(sd > 0, sd, 1.0)
            assert fraction[k] == pytest.approx(fraction.max())
        else:
            turns = [(depth[i] + j) % 3 for j in range(3)]
            assert k == next(t for t in turns if spread[t] > 0)
        n_left = len(rows[tree.left[i]])
        assert 0 < n_left < len(cell)
        if rule == "median":
            assert abs(2 * n_left - len(cell)) == _best_fraction(cell[:, k])
            left, right = X[rows[tree.left[i]], k], X[rows[tree.right[i]], k]
            assert tree.threshold[i] == pytest.approx((left.max() + right.min()) / 2)
        else:
            assert tree.threshold[i] == pytest.approx((cell[:, k].min() + cell[:, k].max()) / 2)


def test_kd_tree_refuses():
    X = [[0.0], [1.0]]
    for depth in (0, 1.5, True, 5000):
        with pytest.raises(ValueError, match="depth="):
            pt.kd_tree(X, depth)
    refuses("rule='mean' is unknown", lambda: pt.kd_tree(X, 2, rule="mean"))
    refuses("coordinate='first' is unknown", lambda: pt.kd_tree(X, 2, coordinate="first"))
    refuses("column 'a' is nominal", lambda: pt.kd_tree(pd.DataFrame({"a": pd.Categorical(["x", "y"])}), 2))
    refuses("contains NaN", lambda: pt.kd_tree([[0.0], [np.nan]], 2))


def test_contexts_read_the_sequence_backwards():
    symbols = [3, 1, 4, 1, 5, 9, 2, 6]
    table = pt.contexts(symbols, 3, 10)
    assert table.y.tolist() == symbols[3:]
    for i, row in enumerate(table.X.tolist()):
        assert row == [symbols[3 + i - 1 - r] for r in range(3)]


@pytest.mark.parametrize(("depth", "m"), [(1, 2), (3, 2), (2, 3), (2, 5)])
def test_a_context_tree_has_a_leaf_for_each_context(depth, m):
    design = pt.context_tree(depth, m)
    assert design.tree.n_leaves == m**depth
    contexts = np.array(np.meshgrid(*[range(m)] * depth)).reshape(depth, -1).T
    assert len(set(design.tree.apply(contexts.astype(float)))) == m**depth and design.shape().depth.max() == depth
    assert int((design.tree.feature != LEAF).sum() - design.joint.sum()) == (m**depth - 1) // (m - 1)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_trees_are_those_grown_plainly(seed, labelled):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 40)), int(rng.integers(1, 4))
    X = rng.random((n, p)) if seed % 2 else np.vstack([np.zeros(p), np.full(p, 8.0), rng.integers(0, 9, size=(n, p))])
    y = rng.integers(0, 2, size=len(X))
    for design, grow in ((pt.dyadic_tree, naive.dyadic), (pt.kd_tree, naive.kd)):
        tree = design(X, 6, y=y if labelled else None).tree
        nodes = list(grow(X, y if labelled else range(len(X)), 6).walk())
        assert tree.feature.tolist() == [node.feature for node in nodes]
        assert tree.threshold == pytest.approx([node.cut for node in nodes])


@pytest.mark.parametrize("design", [pt.dyadic_tree, pt.kd_tree])
def test_bad_input_is_refused(design):
    X = np.arange(6.0)[:, None]
    refuses("depth=0 is out of range", lambda: design(X, 0))
    refuses(r"y has shape \(5,\); X has 6 rows", lambda: design(X, 2, y=np.zeros(5)))
    refuses("contains NaN", lambda: design(X * np.nan, 2))


def fitted(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (n, 3)).astype(float)
    y = rng.integers(0, 2, n)
    return X, y, pt.FixedTree.from_sklearn(DecisionTreeClassifier(random_state=0).fit(X, y))


@pytest.mark.parametrize("seed", range(3))
def test_split_probabilities_are_those_of_local_cuts(seed):
    """The prior of the whole tree under local cuts is the product of its split probabilities."""
    X, y, design = fitted(seed)
    rho = 0.6
    local = pt.TreeModel(X, y, tree_prior=pt.BranchingProcess(rho, max_depth=None))
    splits = design.split_probabilities(X, rho)[design.tree.feature >= 0]
    leaves = sum(
        0.0 if local.is_forced(visit.cell) else np.log(1.0 - rho)
        for visit in local.visit(design.tree)
        if visit.split is None
    )
    assert np.isclose(np.log(splits).sum() + leaves, local.log_prior(design.tree), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("rho", [-0.1, 1.0, float("nan")])
def test_rho_out_of_range(rho):
    X, _, design = fitted(0)
    refuses("out of range", lambda: design.split_probabilities(X, rho))


X = np.column_stack([RNG.random(40).round(1), RNG.integers(0, 4, 40), RNG.integers(0, 3, 40)]).astype(float)
Y = (X[:, 0] + 0.4 * RNG.normal(size=40) > 0.5).astype(int)


def model_of(split_prior, max_depth=2, **parts):
    return pt.TreeModel(
        X, Y, split_prior=split_prior, nominal=[2], tree_prior=pt.ChipmanPrior(max_depth=max_depth), **parts
    )


@pytest.mark.more(everyday=["1-even", "2-near"])
@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("of", [pt.LocalCuts(), pt.LocalCuts(min_leaf=2), pt.GridCuts(3)], ids=["1", "2", "grid"])
def test_both_forms_are_one_prior(name, of):
    if name == "even" and isinstance(of, pt.GridCuts):
        pytest.skip("needs rows")
    assert pt.testing.check_split_prior(own_splits(of, WEIGHED[name])).max_difference < 1e-12


def test_a_weight_of_one_is_the_prior_that_is_weighed():
    for of in (pt.LocalCuts(min_leaf=2, feature_weights=[1.0, 2.0, 3.0]), GRID):
        one = model_of(pt.CustomSplits(lambda cut: 1.0, of))
        truth, other = exact.solve(model_of(of)), exact.solve(one)
        assert other.log_evidence == pytest.approx(truth.log_evidence, abs=1e-10)


class TestFiles:
    @pytest.mark.more
    def test_a_file_holds_no_code_and_says_so(self, tmp_path):
        path = tmp_path / "post.nc"
        post = pt.sample(model_of(NEAR), 30, tune=10, chains=1, rng=1, progress=False)
        post.save(path)
        refuses("a file holds no code: give the split prior", lambda: pt.load(path))
        loaded = pt.load(path, split_prior=pt.CustomSplits(near, params=[0.5, 0.3]))
        assert np.array_equal(loaded.predict_proba(X), post.predict_proba(X))
        longer = pt.resume(loaded, 20, progress=False)
        assert longer.n_draws == 50
        assert np.array_equal(pt.resume(post, 20, progress=False).predict_proba(X), longer.predict_proba(X))
        resumed = pt.resume(path, 20, split_prior=NEAR, progress=False)
        assert np.array_equal(resumed.predict_proba(X), longer.predict_proba(X))

    @pytest.mark.more(everyday=["other0-its name"])
    @pytest.mark.parametrize(
        ("other", "said"),
        [
            (pt.CustomSplits(even), "its name"),
            (pt.CustomSplits(near, params=[0.5, 0.4]), "its params"),
            (pt.CustomSplits(near, params=[0.5, 0.3], over="cell"), "its over"),
            (pt.CustomSplits(near, pt.LocalCuts(min_leaf=2), params=[0.5, 0.3]), "its splits are those of"),
            (pt.CustomSplits(near, GRID, params=[0.5, 0.3]), "its splits are those of"),
            (pt.CustomSplits(lambda cut, p: 2.0 + cut.at * p[0], params=[0.5, 0.3], name="near"), "its weights"),
        ],
    )
    def test_another_one_is_refused(self, tmp_path, other, said):
        model_of(NEAR).save(tmp_path / "model.nc")
        refuses(f"another split prior.*{said}", lambda: pt.load(tmp_path / "model.nc", split_prior=other))


def counted(cut):
    return 1.0 + LEVEL * cut.number


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: pt.CustomSplits(3), "weight is"),
            (lambda: pt.CustomSplits(even, pt.LocalCuts(trivial=True)), "without trivial"),
            (lambda: pt.CustomSplits(even, pt.DyadicCuts(2)), "LocalCuts or GridCuts"),
            (lambda: pt.CustomSplits(even, over="node"), "over="),
            (lambda: pt.CustomSplits(even, by_depth=3), "by_depth"),
            (lambda: pt.CustomSplits(even, params=[np.nan]), "params is"),
            (lambda: pt.CustomSplits(even, name=3), "name is"),
            (lambda: model_of(pt.CustomSplits(lambda cut: -1.0)), "weighs Cut.*with -1.0"),
            (lambda: model_of(pt.CustomSplits(lambda cut: math.log(-cut.n_splits))), "with nan"),
            (lambda: model_of(pt.CustomSplits(lambda cut: 1e101)), r"with 1e\+101"),
            (lambda: model_of(pt.CustomSplits(even, GRID)), "with nan"),
            (lambda: model_of(pt.CustomSplits(lambda cut: 1.0 + cut.depth)), "give by_depth=True"),
            (lambda: pt.TreeModel([[0.0], [np.nan], [1.0]], [0, 1, 1], missing="branch", split_prior=NEAR), "missing"),
            (lambda: model_of(pt.CustomSplits(lambda cut: [cut.at])), "cannot be compiled"),
            (lambda: NEAR.check(X, cells=0), "cells"),
            (lambda: pt.resume(3, split_prior=NEAR), "split_prior= is for the path"),
            (lambda: exact.DesignCounts(SPLITS["near on a grid"]), "weighs splits"),
        ],
    )
    def test_is_refused(self, call, message):
        refuses(message, call, (ValueError, TypeError))

    def test_a_weight_that_fails_further_down_stops_both_engines(self):
        """The root's splits are fine; only `check` sees, and names, those of other cells."""

        def fails(cut):
            return cut.n_splits - 1.5

        splits, x = pt.CustomSplits(fails), np.arange(6.0)[:, None]
        model = pt.TreeModel(x, [0, 1, 1, 0, 1, 0], split_prior=splits)
        refuses(r"weighs Cut.*n_splits=1.0.*with -0.5", lambda: splits.check(x))
        refuses("the weight of a split is negative", lambda: exact.solve(model))
        with pytest.raises(ValueError, match="the weight of a split is negative"):
            pt.sample(model, 200, tune=10, chains=1, rng=1, progress=False)

    @pytest.mark.planted
    def test_a_weight_that_reads_what_changes_is_seen(self, monkeypatch):
        """Compiled once, its number stays; plainly it is another by then."""
        splits = pt.CustomSplits(counted)
        splits.check(X)
        monkeypatch.setattr(f"{__name__}.LEVEL", 2.0)
        refuses("both must be the same function", lambda: splits.check(X))
        refuses("both must be the same function", lambda: model_of(splits))
