"""The same seed gives the same draws, release after release, on every processor."""

import hashlib
import os

import numpy as np
import pytest

import pactree_mcmc as pt
from tests.programs import run

CHANGED = (
    "the draws of a seed have changed. If that is meant, say so in CHANGELOG.md under the release's numerical changes "
    "and pin the new digest here; if not, something draws, scores or orders otherwise than before."
)
SETTINGS = {"draws": 25, "tune": 10, "chains": 2, "rng": 11, "progress": False}
RUNS = {
    "local cuts, two classes": (
        lambda **start: pt.sample(pt.TreeModel(X[:, :2], LABEL), **SETTINGS, **start),
        {"prior": "f37a4ae48303a3d8", "dispersed": "d9f7d61bc6690f90"},
    ),
    "a grid, a regression": (
        lambda **start: pt.sample(pt.TreeModel(X[:, :2], Y, split_prior=pt.GridCuts(6)), **SETTINGS, **start),
        {"prior": "dd39d5bb435e1856", "dispersed": "53913e6e5462a975"},
    ),
    "nominal, tempered": (
        lambda **start: pt.sample(pt.TreeModel(X, LABEL, nominal=[2]), kernel="cgm", betas=3, **SETTINGS, **start),
        {"prior": "95f7e71ce1fe81bb", "dispersed": "f20823343f0ae7d4"},
    ),
    "a density": (
        lambda **start: pt.sample(pt.TreeModel(X, LABEL), kernel="whole", **SETTINGS | {"tune": 90}, **start),
        {"prior": "fa212d2cf7543868", "dispersed": "1bf5d54c0adb3671"},
    ),
}
OLD = {
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable",
}
"""Environment in which BLAS, NumPy and the C library take their code for a processor of 2004."""


def tables():
    """Whole numbers and their quarters alone, so that nothing is rounded on the way in."""
    rng = np.random.default_rng(2026)
    X = np.column_stack([rng.integers(0, 10, 80), rng.integers(0, 6, 80), rng.integers(0, 4, 80)]).astype(float)
    label = (X[:, 0] > 4) ^ (X[:, 2] == 1) ^ (rng.random(80) < 0.1)
    return X, label, np.round(4.0 * (X[:, 0] / 3.0 + rng.standard_normal(80))) / 4.0


X, LABEL, Y = tables()


def digest(post):
    """Trees, draws and counts of proposals to the last bit; scores to nine digits behind the point."""
    out = hashlib.sha256()
    counts = (post.draws.tree_of_draw, post.draws.proposed, post.draws.accepted)
    for array in (*post.draws.distinct_trees, *counts):
        out.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    for scores in (post.draws.log_prior_of_tree, post.draws.log_score_of_tree):
        out.update(" ".join(f"{score + 0.0:.9f}" for score in scores).encode())
    return out.hexdigest()[:16]


@pytest.mark.more(everyday=["local cuts, two classes-prior", "a density-dispersed"])
@pytest.mark.parametrize("start", ["prior", "dispersed"])
@pytest.mark.parametrize("name", list(RUNS))
def test_draws_are_those_of_earlier_releases(name, start):
    """From the prior, as chains of small tables began once, and from where they begin now."""
    run, pinned = RUNS[name]
    assert digest(run(start=start)) == pinned[start], CHANGED


def drawn(*words, **environment):
    """Return the lines that the program prints in this environment, by name of the run."""
    done = run("same_draws", *words, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ") for line in done.stdout.splitlines())


def test_draws_are_those_of_other_processors():
    """Of an old one, and of those that are not at hand: there NumPy, SciPy and BLAS may round in any way."""
    here, there = drawn(), drawn("--other-digits", **OLD)
    assert len(here) > 40 and [name for name in here if here[name] != there.get(name)] == []
