"""The compiled package draws what its plain Python does, bit for bit."""

import importlib
import zlib
from math import lgamma

import numba
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import chain as compiled_chains
from pactree_mcmc.mcmc.kernel import STEPS
from pactree_mcmc.testing.plain import plain_package
from tests.problems.leaves import KNOWN, LEAVES
from tests.problems.models import build_model
from tests.problems.spaces import case_problem, problem
from tests.problems.split_priors import FIXED
from tests.problems.tables import THREE
from tests.problems.tree_priors import PRIORS, RHO_BY_NODE

KERNELS = {
    "grow-prune": "grow-prune",
    "blanchard": "blanchard",
    "all moves": {name: 1.0 for name in STEPS if name != "blanchard"},
}
DRAWS, PROPOSALS = 30, {"grow-prune": 5, "blanchard": 5, "all moves": 2}


@numba.njit
def compiled_lgamma(x):
    return lgamma(x)


@pytest.fixture
def plain(monkeypatch):
    """The plain package with the lgamma of compiled code, which differs from CPython's own in the last bit."""
    package = plain_package()
    for name in ("gamma", "normal", "poisson"):
        monkeypatch.setattr(package.module(f"model.leaf.{name}"), "lgamma", compiled_lgamma)
    return package


def random_rows(seed, n=24):
    """Rows (category, number with ties, number) and labels."""
    rng = np.random.default_rng(seed)
    rows = zip(["abcde"[i % 5] for i in range(n)], rng.integers(0, 6, n), rng.random(n).round(2), strict=True)
    return {
        "X": [(c, float(t), float(x)) for c, t, x in rows],
        "y": [int(v) for v in rng.integers(0, 2, n)],
        "nominal": {0},
    }


def without_nominal(data):
    return {"X": [row[1:] for row in data["X"]], "y": data["y"]}


GRID_CUTS = [None, [0.5, 1.5, 2.5, 7.0], [0.25, 0.5, 0.75]]
SPLIT_PRIORS = {
    "local": {"kind": "local", "trivial": False, "min_leaf": 1},
    "weighted": {"kind": "local", "trivial": False, "min_leaf": 1, "weights": [1.0, 2.0, 0.5]},
    "trivial": {"kind": "local", "trivial": True, "min_leaf": 1},
    "min_leaf": {"kind": "local", "trivial": False, "min_leaf": 3},
    "grid": {"kind": "grid", "cuts": GRID_CUTS},
    "dyadic": {"kind": "dyadic", "levels": 3, "cyclic": False, "bounds": [(0.0, 8.0), (0.0, 1.0)]},
    "cyclic": {"kind": "dyadic", "levels": 3, "cyclic": True, "bounds": [(0.0, 8.0), (0.0, 1.0)]},
}
PAIRS = list(zip(SPLIT_PRIORS, ["dirichlet", "nig", "laplace", "loss", "poisson", "known", "nig"], strict=True))


def draws_of(model, module, kernel, seed):
    """Saved arrays of a chain, and what its generator says next."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):  # hashes wrap around, which plain NumPy scalars report
        chain = module("mcmc.chain.chain").Chain(model.lowered, module("mcmc.kernel").read_kernel(KERNELS[kernel]), rng)
        chain.reserve(DRAWS)
        for draw in range(DRAWS):
            chain.make(draw % len(chain.kernel.names), PROPOSALS[kernel])
            chain.save()
    return module("mcmc.chain.draw_store").trimmed(chain.saved), rng.random()


def blocks_of(model, module, kernel):
    """Saved arrays of a chain after each of three blocks, its variance and guess, what its generator says next."""
    rng = np.random.default_rng(8)
    chain = module("mcmc.chain.chain").Chain(model.lowered, module("mcmc.kernel").read_kernel(kernel), rng)
    chain.tune(1, 1, 1)
    chain.reserve(3)
    for _ in range(3):
        chain.proceed(1)
        chain.save()
    rules = chain.lowered.leaf, chain.lowered.guess
    return module("mcmc.chain.draw_store").trimmed(chain.saved), [rule.params.tolist() for rule in rules], rng.random()


def compiled_module(name):
    return importlib.import_module(f"pactree_mcmc.{name}")


def assert_identical(one, other):
    """Arrays, or records field by field, have the same bits."""
    assert one.dtype == other.dtype
    for name in one.dtype.names or [None]:
        a, b = (one, other) if name is None else (one[name], other[name])
        assert a.tobytes() == b.tobytes(), name


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("split_prior", "leaf"), PAIRS)
def test_same_draws(kernel, split_prior, leaf, plain):
    seed = zlib.crc32(f"{split_prior} {leaf}".encode())
    data = random_rows(seed)
    if split_prior in ("dyadic", "cyclic"):
        data = without_nominal(data)
    naive = problem(data, SPLIT_PRIORS[split_prior], {**PRIORS["penalty_empty_cheap"], "max_depth": 5}, LEAVES[leaf])
    ours, next_of_ours = draws_of(build_model(pt, naive), compiled_module, kernel, seed)
    theirs, next_of_theirs = draws_of(build_model(plain.package, naive), plain.module, kernel, seed)
    assert ours.used[1] > DRAWS // 8
    for one, other in zip(ours, theirs, strict=True):
        assert_identical(one, other)
    assert next_of_ours == next_of_theirs


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kernel", KERNELS)
def test_same_draws_on_a_fixed_tree(kernel, plain):
    prior = {"kind": "stopped", "rho": RHO_BY_NODE, "max_depth": None}
    naive = problem(THREE, FIXED, prior, LEAVES["dirichlet"])
    ours, _ = draws_of(build_model(pt, naive), compiled_module, kernel, 3)
    theirs, _ = draws_of(build_model(plain.package, naive), plain.module, kernel, 3)
    for one, other in zip(ours, theirs, strict=True):
        assert_identical(one, other)


@pytest.mark.parametrize(("kernel", "leaf"), [("cgm", "known"), ("default", "shared"), ("default", "weights")])
def test_same_draws_of_whole_blocks(kernel, leaf, plain):
    """The moves of a named kernel in the order and number of its blocks, tuning first; between them what is unknown."""
    naive = problem(
        without_nominal(random_rows(5)), SPLIT_PRIORS["local"], {**PRIORS["chipman"], "max_depth": 5}, KNOWN
    )
    if leaf == "shared":
        naive.leaf = {"kind": "shared", "m0": 0.4, "k0": 0.5, "a0": 2.0, "b0": 0.3}
    if leaf == "weights":
        naive.split_prior = {**SPLIT_PRIORS["min_leaf"], "weights": "dirichlet"}
    kept = [blocks_of(build_model(pt, naive), compiled_module, kernel)]
    with np.errstate(over="ignore"):
        kept.append(blocks_of(build_model(plain.package, naive), plain.module, kernel))
    for one, other in zip(kept[0][0], kept[1][0], strict=True):
        assert_identical(one, other)
    assert kept[0][1:] == kept[1][1:]


def test_same_draws_with_63_categories(plain):
    """Choices among up to 2^62 partitions."""
    X = np.append(np.arange(63), np.arange(0, 63, 2))[:, None].astype(float)
    chains, kept = {pt: compiled_module, plain.package: plain.module}, []
    for package in chains:
        with np.errstate(over="ignore"):
            model = package.TreeModel(X, X[:, 0] % 3 > 1, nominal=[0], leaf=package.PacBayesLoss(0.3))
        kept.append(draws_of(model, chains[package], "grow-prune", 63)[0])
    for one, other in zip(*kept, strict=True):
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
