"""The graph in files: kept once for the chains of a team, refused if it makes no sense."""

import copy

import h5py
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.state.records import GROWING, N_LINKS, N_PIECES
from tests.problems.runs import assert_same, draw


@pytest.fixture(scope="module")
def post():
    return draw("numbers", 5, kernel="whole", tune=50)


def graph_of(post, c=0):
    return post.course.ends[c].replicas[0].graph


def with_graph(post, c, graph):
    """The posterior with another graph where one chain stopped."""
    ends = list(post.course.ends)
    ends[c] = ends[c]._replace(replicas=(ends[c].replicas[0]._replace(graph=graph),))
    out = copy.copy(post)
    out.course = post.course._replace(ends=tuple(ends))
    return out


def test_a_file_has_cells_whose_splits_were_not_asked_for(tmp_path):
    """Of one class alone; cells are kept where sums of weights depend on the order of rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = pt.TreeModel(X, X[:, 0] > 0.0, sample_weight=rng.uniform(0.5, 1.5, 60))
    post = pt.sample(model, 60, rng=1, progress=False)
    assert any((end.replicas[0].cells.guide.asked == 0).any() for end in post.course.ends)
    post.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert_same(pt.resume(again, 10, progress=False), pt.resume(post, 10, progress=False))


def test_chains_of_a_file_share_the_graphs_of_their_teams(tmp_path):
    post = draw("numbers", 5, kernel="whole", tune=50, chains=4)
    post.save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc") as file:
        assert [name for name in file["pactree_mcmc"] if name.endswith("graph.piece")] == [
            f"course.ends.{c}.replicas.0.graph.piece" for c in (0, 1)
        ]
    again = pt.load(tmp_path / "run.nc")
    for c in range(4):
        assert graph_of(post, c) is graph_of(post, c % 2)
        assert graph_of(post, c).used[N_PIECES] > 10
        for mine, theirs in zip(graph_of(again, c), graph_of(post, c), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def piece(name, value, at=0):
    def spoil(graph):
        graph.piece[name][at] = value

    return spoil


def link(name, value):
    """Of the first link that splits on an ordered feature."""

    def spoil(graph):
        graph.link[name][np.flatnonzero(graph.link["categories"] < 0)[0]] = value

    return spoil


def used(which, value):
    def spoil(graph):
        graph.used[which] = value

    return spoil


def slot_of_nothing(graph):
    graph.slot[np.flatnonzero(graph.slot >= 0)[0]] = -1


def slot_twice(graph):
    first, second = np.flatnonzero(graph.slot >= 0)[:2]
    graph.slot[first] = graph.slot[second]


def forward(graph):
    graph.link["next"][3] = graph.used[N_LINKS] - 1


def shared(graph):
    """Two pieces with the same links; those that one of them had are nobody's."""
    owners = np.flatnonzero(graph.piece["first"][: graph.used[N_PIECES]] >= 0)
    graph.piece["first"][owners[0]] = graph.piece["first"][owners[1]]


FORGED = {
    "pieces": (used(N_PIECES, 1 << 40), "the graph is none"),
    "negative": (used(N_LINKS, -1), "the graph is none"),
    "growing": (used(GROWING, 1), "the graph is none"),
    "no slot": (slot_of_nothing, "a piece has no slot"),
    "slot twice": (slot_twice, "a piece has no slot"),
    "depth": (piece("depth", -1), "the depth of a piece"),
    "first": (piece("first", 1 << 30), "a link is out of range"),
    "cycle": (forward, "the links lead astray"),
    "shared": (shared, "a link has no piece"),
    "feature": (link("feature", 1000), "the feature of a link"),
    "cut": (link("cut", 10_000), "the cut of a link"),
    "upper": (link("upper", 10_000), "the cut of a link"),
    "left": (link("left", 1 << 30), "a child is out of range"),
    "right": (link("right", -2), "a child is out of range"),
    "categories": (link("categories", 3), "a link has a split that its feature cannot have"),
    "weight": (link("weight", np.nan), "weight of a link is not finite"),
    "weight moved": (lambda graph: piece_weight(graph, 0.5), "the probabilities of a piece do not add up"),
    "value": (piece("value", np.nan), "a number of a piece is none"),
    "value moved": (lambda graph: graph.piece["value"].__isub__(0.7), "the probabilities of a piece do not add up"),
    "stop": (piece("stop", np.nan), "a number of a piece is none"),
    "stop moved": (lambda graph: graph.piece["stop"].__isub__(0.7), "the probabilities of a piece do not add up"),
}


def piece_weight(graph, by):
    at = int(graph.piece["first"][0])
    graph.link["weight"][at] += by


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("spoil", "said"), FORGED.values(), ids=FORGED)
def test_graphs_that_make_no_sense_are_refused(spoil, said, post, tmp_path):
    """Compiled code would lose its way in them, or draw with other probabilities than it says."""
    graph = type(graph_of(post))(*(np.array(array, copy=True) for array in graph_of(post)))
    assert graph.piece["first"][0] >= 0
    spoil(graph)
    forged = with_graph(post, 1, graph)
    forged.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")
