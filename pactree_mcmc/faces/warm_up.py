"""Compilation of what default runs and exact sums need, for container images, clusters and wheels."""

from __future__ import annotations

import tempfile
import warnings

import numpy as np

import exact

from ..core.compile.cache import code_folder
from ..mcmc.sampling import sample
from ..model import ChipmanPrior, TreeModel
from ..posterior.ess import ConvergenceWarning

MANY_VALUES = (1 << 16) + 1
"""Number of distinct values of a column from which its codes take four bytes, so that other code is compiled."""


def warm_up() -> None:
    """Compile what a default run, `exact.solve` and their answers need, and keep it on disk for later processes.

    The code goes to the folder that the environment variable ``NUMBA_CACHE_DIR`` names, by default that of the user.
    What is on disk already is not compiled again. Otherwise this takes one to three minutes of processor time.

    Raises
    ------
    OSError
        If the folder cannot be written.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> pt.warm_up()  # doctest: +SKIP
    """
    folder = code_folder()
    if folder is None:
        raise OSError("you have no home directory for compiled code; set NUMBA_CACHE_DIR to a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).round(1)
    y = X[:, 0] + rng.normal(size=len(X))
    large = rng.normal(size=(MANY_VALUES, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for target in (y > 0.0, y):
            post = sample(TreeModel(X, target), 50, work=1e6, rng=0, progress=False)
            post.predict(X)
            post.credible_interval(X)
            post.summary()
            post.consensus_tree()
            post.shapes()
            post.support()
            post.predict_interval(X) if target is y else post.predict_proba(X)
            truth = exact.solve(TreeModel(X[:60, :2].round(), target[:60], tree_prior=ChipmanPrior(max_depth=3)))
            truth.predict(X[:, :2])
            truth.summary()
            exact.visited(truth.sample(20, rng=0))
        sample(TreeModel(large, large[:, 0] > 0.0), 20, work=1e6, rng=0, progress=False)
