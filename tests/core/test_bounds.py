"""The library under numba's bounds checks, compiled anew for it in a cache of its own."""

import os
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import numpy as np, pactree_mcmc as pt, exact
rng = np.random.default_rng(1)
X = np.column_stack([rng.integers(0, 4, 40), rng.integers(0, 7, 40), rng.random(40)])
y = (X[:, 1] + 4 * X[:, 2] + rng.random(40) > 5).astype(int)
for questions in (pt.LocalCuts(), pt.LocalCuts(min_leaf=3), pt.GridCuts(5), pt.DyadicCuts(3)):
    nominal = None if isinstance(questions, pt.DyadicCuts) else [0]
    model = pt.TreeModel(X, y, split_prior=questions, nominal=nominal)
    post = pt.sample(model, 20, tune=10, chains=1, rng=2, progress=False)
    assert np.isfinite(post.log_score_of_tree).all() and np.isfinite(post.predict_proba(X)).all()
    few = pt.TreeModel(X[:7], y[:7], split_prior=questions, nominal=nominal)
    truth = exact.solve(few)
    truth.predict_proba(X), truth.n_leaves_pmf(), truth.draw_trees(3, 1), truth.map_tree()
print("within bounds")
"""
BEYOND = """
import numpy as np
from pactree_mcmc.core.compiled import sort_first
sort_first(np.zeros(3), 5)
"""


def run(program, cache):
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"}
    here = ROOT
    return subprocess.run([sys.executable, "-c", program], cwd=here, env=environment, capture_output=True, text=True)


@pytest.mark.planted
def test_a_place_beyond_the_end_is_seen(tmp_path):
    assert "IndexError: index is out of bounds" in run(BEYOND, tmp_path).stderr


@pytest.mark.slow
def test_within_bounds(tmp_path):
    done = run(PROGRAM, tmp_path)
    assert done.stdout == "within bounds\n", done.stderr
