"""Density and graph in files: a graph is stored once for the chains of a team."""

import h5py
import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.mcmc.state.records import N_PIECES
from tests.problems.runs import draw


def graph_of(post, c):
    return post.course.tuned.graphs[post.course.rests[c].team]


def test_chains_of_a_file_share_the_graphs_of_their_teams(tmp_path):
    post = draw("numbers", 5, kernel="whole", tune=50, chains=4)
    post.save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc") as file:
        assert [name for name in file["pactree_mcmc"] if name.endswith(".piece")] == [
            f"course.tuned.graphs.{c}.piece" for c in (0, 1)
        ]
    again = pt.load(tmp_path / "run.nc")
    for c in range(4):
        assert graph_of(post, c).used[N_PIECES] > 10
        for mine, theirs in zip(graph_of(again, c), graph_of(post, c), strict=True):
            np.testing.assert_array_equal(mine, theirs)
