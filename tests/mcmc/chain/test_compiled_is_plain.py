"""The compiled package draws what its plain Python does, bit for bit."""

import importlib
from math import lgamma

import numba
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import chain as compiled_chains
from pactree_mcmc.testing.spaces import plain_package
from tests.problems.leaves import KNOWN
from tests.problems.models import build_model
from tests.problems.spaces import case_problem, problem
from tests.problems.tree_priors import PRIORS


@numba.njit
def compiled_lgamma(x):
    return lgamma(x)


@pytest.fixture
def plain(monkeypatch):
    """The plain package with the lgamma of compiled code, which differs from CPython's own in the last bit."""
    package = plain_package()
    for name in ("distributions", "normal", "counts"):
        monkeypatch.setattr(package.module(f"model.leaf.{name}"), "lgamma", compiled_lgamma)
    return package


def numbers(seed, n=24):
    """Return rows (number with ties, number) and labels."""
    rng = np.random.default_rng(seed)
    X = list(zip(rng.integers(0, 6, n).astype(float).tolist(), rng.random(n).round(2).tolist(), strict=True))
    return {"X": X, "y": rng.integers(0, 2, n).tolist()}


LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1}


def blocks_of(model, module, kernel):
    """Saved arrays of a chain after each of three blocks, its variance and guess, what its generator says next."""
    rng = np.random.default_rng(8)
    chain = module("mcmc.chain.chain").Chain(model.lowered, module("mcmc.kernel").read_kernel(kernel), rng)
    chain.tune(1, 1)
    chain.reserve(3)
    for _ in range(3):
        chain.run_blocks(1)
        chain.save()
    rules = chain.lowered.leaf, chain.lowered.proposal_leaf
    return (
        module("mcmc.chain.draw_store").trim_draws(chain.saved),
        [rule.params.tolist() for rule in rules],
        rng.random(),
    )


def compiled_module(name):
    return importlib.import_module(f"pactree_mcmc.{name}")


def assert_identical(one, other):
    """Arrays, or records field by field, have the same bits."""
    assert one.dtype == other.dtype
    for name in one.dtype.names or [None]:
        a, b = (one, other) if name is None else (one[name], other[name])
        assert a.tobytes() == b.tobytes(), name


@pytest.mark.parametrize(("kernel", "leaf"), [("cgm", "known"), ("default", "shared")])
def test_same_draws_of_whole_blocks(kernel, leaf, plain):
    """The moves of a named kernel in the order and number of its blocks, tuning first; between them what is unknown."""
    naive = problem(numbers(5), LOCAL, {**PRIORS["chipman"], "max_depth": 5}, KNOWN)
    if leaf == "shared":
        naive.leaf = {"kind": "shared", "m0": 0.4, "k0": 0.5, "a0": 2.0, "b0": 0.3}
    kept = [blocks_of(build_model(pt, naive), compiled_module, kernel)]
    with np.errstate(over="ignore"):
        kept.append(blocks_of(build_model(plain.package, naive), plain.module, kernel))
    for one, other in zip(kept[0][0], kept[1][0], strict=True):
        assert_identical(one, other)
    assert kept[0][1:] == kept[1][1:]


def test_same_draws_with_63_categories(plain):
    """Choices among up to 2^62 partitions."""
    X = np.append(np.arange(63), np.arange(0, 63, 2))[:, None].astype(float)
    chains, saved = {pt: compiled_module, plain.package: plain.module}, []
    for package, module in chains.items():
        with np.errstate(over="ignore"):
            model = package.TreeModel(X, X[:, 0] % 3 > 1, nominal=[0], leaf=package.PacBayesLoss(0.3))
            saved.append(blocks_of(model, module, "grow-prune")[0])
    for one, other in zip(*saved, strict=True):
        assert_identical(one, other)


def test_plain_copy_is_plain_and_apart():
    """The copy holds plain functions, and importing it left the compiled package as it was."""
    plain = plain_package()
    assert plain.package is not pt
    assert hasattr(compiled_chains.plant_root, "py_func")
    assert not hasattr(plain.module("mcmc.chain.chain").plant_root, "py_func")
    assert plain.module("mcmc.chain.chain") is not compiled_chains
    naive = case_problem("ties", "stopped", "dirichlet")
    assert isinstance(build_model(pt, naive), pt.TreeModel)
    assert not isinstance(build_model(plain.package, naive), pt.TreeModel)
