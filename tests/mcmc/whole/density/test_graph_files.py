"""The graph in files: stored once for the chains of a team."""

import copy

import h5py
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.state.records import N_PIECES
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
