"""Density and graph in files: a graph is stored once for the chains of a team."""

import h5py
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.snapshot import ARRAYS
from pactree_mcmc.mcmc.state.records import N_PIECES
from tests.problems.runs import assert_same, draw


def graph_of(post, c):
    return post.course.ends[c].replicas[0].graph


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


def test_a_chain_without_a_density_does_not_go_on():
    """One of a kernel that draws from none has the shape (1, 1)."""
    post = draw("classes", 5, kernel="whole", tune=35)
    first, *rest = post.course.ends
    state = [np.zeros((1, 1)) if name == "density" else array for name, array in zip(ARRAYS, first.replicas[0].state)]
    first = first._replace(replicas=(first.replicas[0]._replace(state=tuple(state)),))
    post.course = post.course._replace(ends=(first, *rest))
    with pytest.raises(ValueError, match="density has shape"):
        pt.resume(post, 3, progress=False)
