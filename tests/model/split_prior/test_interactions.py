"""Groups of features that may be split on together: both engines, against the enumeration of all allowed trees."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.split_prior.custom_splits import BoundSplits
from pactree_mcmc.testing.plain import plain_package

TABLE = pd.DataFrame(
    [(0.0, 0.0, "a"), (0.0, 1.0, "b"), (1.0, 0.0, "a"), (2.0, 1.0, "b"), (3.0, 1.0, "b")], columns=["u", "v", "w"]
)
Y = [0, 1, 1, 0, 1]
GROUPS = [["u", "v"], ["v", "w"]]
GEOMETRIES = {
    "local": pt.LocalCuts(),
    "grid": pt.GridCuts([[0.5, 1.5], [0.5], None]),
    "missing": pt.LocalCuts(),
    "missing, grid": pt.GridCuts([[0.5], [0.5], None]),
}
GAPS = TABLE.mask(np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=bool))


def model_of(of="local", groups=GROUPS, depth=3, **more):
    splits = pt.CustomSplits(of=GEOMETRIES[of], interactions=groups, **more)
    return table_model(of, splits, depth)


def table_model(of, splits, depth):
    table, missing = (GAPS, "branch") if "missing" in of else (TABLE, "error")
    return pt.TreeModel(table, Y, split_prior=splits, tree_prior=pt.ChipmanPrior(max_depth=depth), missing=missing)


def paths(tree, node=0, above=frozenset()):
    """Sets of features on the paths from the root to the leaves."""
    if tree.feature[node] < 0:
        return {above}
    above = above | {int(tree.feature[node])}
    return paths(tree, tree.left[node], above) | paths(tree, tree.right[node], above)


@pytest.mark.more(everyday=["missing, grid-2"])
@pytest.mark.parametrize(("of", "depth"), [("local", 3), ("grid", 2), ("missing", 2), ("missing, grid", 2)])
def test_the_exact_engine_sums_over_the_allowed_trees(of, depth):
    model, free = model_of(of, depth=depth), table_model(of, GEOMETRIES[of], depth)
    trees = pt.testing.check_balance("grow-prune", free, most_trees=5000).trees
    allowed_trees = [tree for tree in trees if all(path <= {0, 1} or path <= {1, 2} for path in paths(tree))]
    assert len(allowed_trees) < len(trees)
    log_prior = np.array([model.log_prior(tree) for tree in trees])
    assert np.isfinite(log_prior).sum() == len(allowed_trees)
    assert np.exp(log_prior).sum() == pytest.approx(1.0, abs=1e-12)
    log_evidence = np.logaddexp.reduce([model.log_posterior(tree) for tree in allowed_trees])
    assert exact.solve(model).log_evidence == pytest.approx(log_evidence, abs=1e-10)


@pytest.mark.more(everyday=["grow-prune-missing, grid", "change-missing, grid", "swap-local"])
@pytest.mark.parametrize("of", GEOMETRIES)
@pytest.mark.parametrize("step", ["grow-prune", "change", "swap", "rotate", "reshape", "collapsed"])
def test_each_move_keeps_the_posterior(step, of):
    report = pt.testing.check_balance(step, model_of(of, [["u", "w"], ["v"]], 2 if "missing" in of else 3))
    assert report.imbalance < 1e-12
    assert report.moving > 0.0 or (step, of) == ("reshape", "missing, grid")  # which has one cut a feature


@pytest.mark.planted
def test_sums_stored_without_the_open_groups_break_the_balance(monkeypatch):
    splits, sums = (plain_package().module(f"mcmc.{name}") for name in ("state.splits", "sums.split_sums"))
    right = splits.claim_cell_entry

    def keyless(model, state, node):
        state.node[node].open, is_open = -1, state.node[node].open
        place = right(model, state, node)
        state.node[node].open = is_open
        return place

    for module in (splits, sums):
        monkeypatch.setattr(module, "claim_cell_entry", keyless)
    with pytest.raises(pt.testing.BalanceError):
        pt.testing.check_balance("collapsed", model_of(groups=[["u", "w"], ["v"]]))


@pytest.mark.planted
def test_a_plain_form_without_groups_is_seen(monkeypatch):
    splits = pt.CustomSplits(of=pt.LocalCuts(), interactions=[[0, 1], [1, 2]])
    assert pt.testing.check_split_prior(splits).max_difference < 1e-12
    monkeypatch.setattr(BoundSplits, "_may_split_on", lambda self, cell, k: True)
    with pytest.raises(pt.testing.SplitPriorError):
        pt.testing.check_split_prior(splits)


def test_weights_and_groups_together(tmp_path):
    """Columns in no group are one more group; a file knows the groups."""
    model = model_of(groups=[["u", "v"]], weight=lambda cut: 1.0 + cut.number, over="cell", name="mine")
    assert "interactions=[['u', 'v']]" in repr(model.split_prior)
    model.save(tmp_path / "model.nc")
    loaded = pt.load(tmp_path / "model.nc", split_prior=model.split_prior)
    assert loaded.split_prior.interactions == (("u", "v"),)
    other = pt.CustomSplits(model.split_prior.weight, over="cell", name="mine")
    with pytest.raises(ValueError, match="its interactions"):
        pt.load(tmp_path / "model.nc", split_prior=other)


@pytest.mark.parametrize("of", ["missing", "missing, grid"])
def test_files_of_models_and_runs_with_missing_values_are_read(tmp_path, of):
    model, path = model_of(of), tmp_path / "file.nc"
    model.save(path)
    assert exact.solve(pt.load(path, split_prior=model.split_prior)).log_evidence == exact.solve(model).log_evidence
    sampling = {"tune": 5, "chains": 1, "rng": 1, "kernel": "local", "progress": False}
    post = pt.sample(model, 20, checkpoint=tmp_path / "run.nc", every=1e-9, **sampling)
    resumed = pt.resume(tmp_path / "run.nc", split_prior=model.split_prior, progress=False)
    assert np.array_equal(resumed.tree_of_draw, post.tree_of_draw)
    post.save(path)
    longer = pt.resume(path, 10, split_prior=model.split_prior, progress=False)
    assert np.array_equal(longer.predict_proba(GAPS), pt.resume(post, 10, progress=False).predict_proba(GAPS))


@pytest.mark.parametrize("more", [{}, {"over": "cell", "name": "mine"}])
def test_files_without_a_weight_of_the_user_need_no_code(tmp_path, more):
    model, path = model_of("missing", [["w", "v"], ["u"]], **more), tmp_path / "run.nc"
    model.save(path)
    assert pt.load(path).split_prior == model.split_prior
    post = pt.sample(model, 20, tune=5, chains=1, rng=1, kernel="local", progress=False)
    post.save(path)
    assert "n_leaves" in pt.load(path).summary().index
    longer = pt.resume(post, 10, progress=False).predict_proba(GAPS)
    split_prior_given = pt.CustomSplits(interactions=[[0], [2, 1], [1]], **more)
    for split_prior in (None, split_prior_given):
        resumed = pt.resume(path, 10, split_prior=split_prior, progress=False)
        assert resumed.model.split_prior.interactions == (("w", "v"), ("u",))
        assert np.array_equal(resumed.predict_proba(GAPS), longer)
    for groups in ([["u", "v"]], None):
        with pytest.raises(ValueError, match="its interactions are"):
            pt.load(path, split_prior=pt.CustomSplits(interactions=groups, **more))


def test_priors_that_mean_the_same_are_equal():
    first = pt.CustomSplits(of=pt.LocalCuts(feature_weights=[1.0, 2.0, 1.0]), interactions=[["u", "v"], ["w"]])
    equal_prior = pt.CustomSplits(of=pt.LocalCuts(feature_weights=[1.0, 2.0, 1.0]), interactions=[{"w"}, ["v", "u"]])
    assert first == equal_prior
    assert hash(first) == hash(equal_prior)
    for other in (pt.LocalCuts(), pt.CustomSplits(interactions=first.interactions), pt.CustomSplits(of=first.of)):
        assert first != other


@pytest.mark.parametrize(
    ("groups", "read"),
    [
        ([{"v", "u"}, ("w",)], (("u", "v"), ("w",))),
        ({frozenset([10, 9]), (8,)}, ((8,), (9, 10))),
        (np.array([[0, 1], [1, 2]]), ((0, 1), (1, 2))),
        ([TABLE.columns[:2], np.array(["w"]), range(2)], (("u", "v"), ("w",), (0, 1))),
        ([["u", "v"]] * 70, (("u", "v"),)),
    ],
)
def test_groups_are_any_collections_of_columns(groups, read):
    interactions = pt.CustomSplits(interactions=groups).interactions
    assert interactions == read
    assert {type(column) for group in interactions for column in group} <= {str, int}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("uv", "each a list of columns"),
        ([], "each a list of columns"),
        (["u", "v"], "'u' is not a group"),
        (np.array(["u", "v"]), "is not a group"),
        ([[0.5]], "0.5 is not a column; give names or indices"),
        ([["u", "x"]], "not a column"),
        ([[3]], "not a column"),
        ([range(k) for k in range(62)], "has 62 different groups; give at most 61"),
    ],
)
def test_wrong_groups_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        model_of(groups=groups)
