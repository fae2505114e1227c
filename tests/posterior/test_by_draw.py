"""Numbers of a posterior are by draw; a posterior has the trees of its draws, each once; class labels."""

import re

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc import course
from pactree_mcmc.posterior.draws import Draws
from pactree_mcmc.posterior.report.content import report_content

SCALARS = ("n_leaves", "depth", "log_prior", "log_score", "root_feature")
rng = np.random.default_rng(0)
X = rng.integers(0, 5, (60, 3)).astype(float)
Y = (X[:, 0] > 1) ^ (rng.random(60) < 0.15)
MODEL = pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.8, 1.0, 4))
LINE = np.arange(40.0)[:, None]
STEP = (LINE[:, 0] > 19) * 4.0 + np.sin(LINE[:, 0])
STUMP = pt.Tree([-1], [0], [0], [0])
GOOD = pt.Tree([0, -1, -1], [19.5, 0, 0], [1, 0, 0], [2, 0, 0])
BAD = pt.Tree([0, -1, -1], [7.5, 0, 0], [1, 0, 0], [2, 0, 0])
TRUTH = exact.solve(pt.TreeModel(LINE, np.where(LINE[:, 0] > 25, "ill", "well")), progress=False)
OTHER_LABELS = [
    lambda: TRUTH.shapes().format("dead"),
    lambda: pt.plots.plot_shape(TRUTH, label=1),
    lambda: TRUTH.report("page.html", label="dead"),
]


def posterior_of_chains():
    return pt.sample(
        MODEL, 97, tune=20, chains=3, rng=1, kernel="grow-prune", proposals=20, start="prior", progress=False
    )


def posterior_of_stages():
    return pt.progressive_mixture(MODEL, particles=10, draws=141, chains=3, kernel="grow-prune", rng=1)


def posterior_of_exact_draws():
    return exact.solve(MODEL).sample(89, rng=1)


POSTERIORS = {"chains": posterior_of_chains, "stages": posterior_of_stages, "independent": posterior_of_exact_draws}


@pytest.fixture(scope="module", params=POSTERIORS)
def post(request):
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "short_diagnosis", lambda post: [])
        return POSTERIORS[request.param]()


def test_numbers_are_those_of_the_tree_of_each_draw(post):
    assert post.draws.n_distinct_trees < post.draws.tree_of_draw.size  # else the two have equal shapes
    for name in SCALARS:
        assert getattr(post, name).shape == (post.n_chains, post.n_draws)
    assert post.draws.split_counts_of_tree[post.draws.tree_of_draw].shape == (post.n_chains, post.n_draws, 3)
    for chain, draw in np.ndindex(post.n_chains, min(post.n_draws, 30)):
        number = int(post.draws.tree_of_draw[chain, draw])
        tree = post.draws.distinct_tree(number)
        features = tree.feature[tree.feature >= 0]
        assert (post.n_leaves[chain, draw], post.depth[chain, draw]) == (tree.n_leaves, tree.depth)
        assert post.root_feature[chain, draw] == tree.feature[0]
        assert (
            post.draws.split_counts_of_tree[post.draws.tree_of_draw[chain, draw]].tolist()
            == np.bincount(features, minlength=3).tolist()
        )
        assert post.log_prior[chain, draw] == post.draws.log_prior_of_tree[number]
        assert post.log_score[chain, draw] == post.draws.log_score_of_tree[number]


def test_means_are_those_of_the_posterior(post):
    """The mean of an array by distinct tree is another number, which a reader would not notice."""
    pmf = post.n_leaves_pmf()
    assert post.n_leaves.mean() == pytest.approx(pmf @ np.arange(len(pmf)))
    assert post.depth.mean() == pytest.approx(post.depth_pmf() @ np.arange(len(post.depth_pmf())))
    assert (post.draws.split_counts_of_tree[post.draws.tree_of_draw] > 0).mean(axis=(0, 1)) == pytest.approx(
        post._feature_inclusion()
    )
    assert abs(post.draws.n_leaves_of_tree.mean() - post.n_leaves.mean()) > 0.05
    assert post.draws.weight_of_tree @ post.draws.n_leaves_of_tree == pytest.approx(post.n_leaves.mean())


def test_every_public_array_by_distinct_tree_says_so(post):
    draws = post.draws
    lengths = {draws.n_distinct_trees: "of_tree", len(draws.distinct_trees.feature): "node|place"}
    assert not set(lengths) & {post.n_chains, post.n_draws}
    public = [name for name in dir(draws) if not name.startswith("_")]
    for name in public:
        value = getattr(draws, name)
        if isinstance(value, np.ndarray) and value.ndim:
            assert re.search(lengths.get(len(value), ""), name), name
    assert {"trees", "tree", "n_trees", "weight", "stats"}.isdisjoint(public)


@pytest.fixture(scope="module")
def model():
    return pt.TreeModel(LINE, STEP)


@pytest.mark.parametrize("drawn", [[[1] * 10], [[1, 2], [2, 1]]])
def test_trees_that_no_draw_has_are_in_no_answer(model, drawn):
    # the tree without draws is by far the best
    post, chosen = pt.posterior_from_trees(model, [GOOD, BAD, STUMP], drawn), np.unique(drawn)
    expected = pt.posterior_from_trees(model, [[GOOD, BAD, STUMP][t] for t in chosen], np.searchsorted(chosen, drawn))
    assert post.draws.n_distinct_trees == len(chosen) and 19.5 not in post.map_tree().threshold
    names = "map_tree", "consensus_tree", "shapes", "support", "root_split_pmf", "credible_set", "feature_inclusion"
    for name in names:
        assert str(getattr(post, name)()) == str(getattr(expected, name)())
    assert np.array_equal(post.depth_pmf(), expected.depth_pmf()) and post.kl_to_prior() == expected.kl_to_prior()
    assert np.array_equal(post.credible_interval(LINE[:3]), expected.credible_interval(LINE[:3]))


def test_equal_trees_are_stored_and_listed_once(model):
    # thresholds that part the rows in the same way are one split
    twin = pt.Tree([0, -1, -1], [19.4, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [GOOD, BAD, twin, GOOD], [[0, 1, 2], [3, 3, 1]])
    assert post.draws.tree_of_draw.tolist() == [[0, 1, 0], [0, 0, 1]]
    listed = post.credible_set(0.5)
    assert post.draws.n_distinct_trees == 2 and len(listed) == 1 and listed.weight == pytest.approx([4 / 6])
    assert post.shapes().shapes[0].n_trees == 2


@pytest.mark.parametrize("shape", [(1, 0), (2, 0), (0, 3)])
def test_a_posterior_without_draws_is_refused(model, shape):
    with pytest.raises(ValueError, match="without draws; give at least one"):
        pt.posterior_from_trees(model, [GOOD], np.zeros(shape, dtype=int))


def test_a_file_of_an_older_release_is_loaded_without_its_undrawn_trees(model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Draws, "without_undrawn_trees", lambda draws: draws)
        old = pt.posterior_from_trees(model, [GOOD, BAD, BAD, STUMP], [[1, 2, 3, 1]])
    assert old.draws.n_distinct_trees == 4
    old.save(tmp_path / "old.nc")
    post = pt.load(tmp_path / "old.nc")
    assert post.draws.tree_of_draw.tolist() == [[0, 0, 1, 0]]
    assert str(post.map_tree()) == str(old.draws.distinct_tree(1)) and np.array_equal(
        post.predict(LINE), old.predict(LINE)
    )


@pytest.mark.parametrize("label", ["ill", "well"])
def test_a_shape_shows_the_class_that_is_asked_for(label):
    plt = pytest.importorskip("matplotlib.pyplot")
    shapes = TRUTH.shapes()
    leaves = shapes.shapes[0].leaves
    means = [f"{x:.3g}" for x in leaves.loc[leaves["class"] == label, "mean"]]
    for text in (shapes.format(label), shapes.shapes[0].format(label)):
        assert text.count(f"{label}: ") == 2 and all(f"{label}: {mean}" in text for mean in means)
    texts = [text.get_text() for text in pt.plots.plot_shape(TRUTH, label=label).texts]
    assert sum(text.startswith(f"{label} ") for text in texts) == 2
    other = "well" if label == "ill" else "ill"
    assert not any(text.startswith(other) for text in texts)
    plt.close("all")


@pytest.mark.parametrize("label", ["ill", "well"])
def test_a_report_shows_the_class_that_is_asked_for(label, tmp_path):
    content = report_content(TRUTH, None, label)
    assert content["curve_names"] == [label]
    leaves = [content["shape_tree"]]
    while leaves and "children" in leaves[0]:
        leaves = leaves[0]["children"] + leaves[1:]
    assert [strip.name for strip in leaves[0]["strips"]] == [label]
    TRUTH.report(tmp_path / "page.html", label=label)


@pytest.mark.parametrize("call", OTHER_LABELS)
def test_other_labels_are_refused(call):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"label=.* is not a class; give one of \['ill', 'well'\]"):
        call()
