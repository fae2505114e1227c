"""The compiled package draws what its plain Python does; which proposals a kernel makes when; starts apart."""

import importlib
import warnings
from concurrent.futures import ThreadPoolExecutor
from math import lgamma

import numba
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import chain as compiled_chains
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.chain.start import Dispersed, feature_at
from pactree_mcmc.mcmc.kernel import KERNEL_WEIGHTS, LIBRARY_MOVES, PROPOSAL_ROWS, Kernel, read_kernel
from pactree_mcmc.mcmc.state.records import NONE
from pactree_mcmc.posterior.draws import Draws
from pactree_mcmc.testing.spaces import plain_package
from tests.problems.leaves import KNOWN
from tests.problems.models import build_model
from tests.problems.priors import PRIORS
from tests.problems.runs import MODELS, chain_at, request_of
from tests.problems.spaces import case_problem, problem

LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1}
MIXTURES = {
    **KERNEL_WEIGHTS,
    "one step of many weights": {"change": 7.0},
    "two alike": {"change": 1.0, "swap": 1.0},
    "thirds": {"change": 1.0, "swap": 1.0, "rotate": 1.0},
    "all alike": dict.fromkeys(LIBRARY_MOVES, 1.0),
    "small parts": {name: 2.0**-i for i, name in enumerate(list(LIBRARY_MOVES)[:12])},
    "rare": {"collapsed": 1.0, "rotate": 0.3, "learned": 3e-4, "informed-change": 1e-4},
}
REPEATS = 10_000
"""Proposals before which no order repeats."""
rng = np.random.default_rng(0)
DISPERSED = {
    "local": lambda: pt.TreeModel(X, Y),
    "grid, numbers": lambda: pt.TreeModel(X, X[:, 0] + X[:, 1], split_prior=pt.GridCuts(4)),
    "shared variance": lambda: pt.TreeModel(X, X[:, 0] + X[:, 1], leaf=pt.NormalSharedVariance()),
    "dyadic": lambda: pt.TreeModel(X, Y, split_prior=pt.DyadicCuts(3)),
    "trivial": lambda: pt.TreeModel(
        X, Y, tree_prior=pt.ChipmanPrior(max_depth=4), split_prior=pt.LocalCuts(trivial=True)
    ),
    "nominal": lambda: pt.TreeModel(X, Y, nominal=[0, 1, 2, 3]),
    "missing": lambda: pt.TreeModel(np.where(X == 2, np.nan, X), Y, missing="branch"),
    "leaf penalty": lambda: pt.TreeModel(X, Y, tree_prior=pt.LeafPenalty(1.0)),
}


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
    rng = np.random.default_rng(seed)
    X = list(zip(rng.integers(0, 6, n).astype(float).tolist(), rng.random(n).round(2).tolist(), strict=True))
    return {"X": X, "y": rng.integers(0, 2, n).tolist()}


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
    assert plain.package is not pt and hasattr(compiled_chains.plant_root, "py_func")
    assert not hasattr(plain.module("mcmc.chain.chain").plant_root, "py_func")
    assert plain.module("mcmc.chain.chain") is not compiled_chains
    naive = case_problem("ties", "stopped", "dirichlet")
    assert isinstance(build_model(pt, naive), pt.TreeModel)
    assert not isinstance(build_model(plain.package, naive), pt.TreeModel)


def naive(weights, n):
    """(n + 1, steps) how often each step was made: at each proposal the one whose next is due first."""
    made = np.zeros((n + 1, len(weights)), dtype=int)
    for i in range(n):
        due = [(count + 0.5) / weight for count, weight in zip(made[i], weights, strict=True)]
        made[i + 1] = made[i]
        made[i + 1, due.index(min(due))] += 1
    return made


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("mixture", list(MIXTURES))
def test_blocks_are_cut_from_one_order(mixture):
    """As a loop makes them, whatever the size of blocks; none negative, each with all its proposals."""
    whole = naive(read_kernel(MIXTURES[mixture]).weights, 3000)
    for block in (1, 7, 10, 30, 100, 333):
        kernel = read_kernel(MIXTURES[mixture], block)
        ends = np.arange(0, 3000 - block, block)
        proposals_of_block = [kernel.proposals_of_block(b) for b in range(len(ends))]
        assert np.array_equal(proposals_of_block, whole[ends + block] - whole[ends])
        assert all(sum(fraction) == block and min(fraction) >= 0 for fraction in proposals_of_block)
    assert kernel.next_proposals(17, 1000) == (whole[1017] - whole[17]).tolist()


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_parts_follow_the_weights_at_every_proposal(mixture):
    """Never further off than rounding takes them, and the order where it repeats."""
    kernel, n = read_kernel(MIXTURES[mixture], 1), 4 * REPEATS
    made = np.cumsum([kernel.proposals_of_block(b) for b in range(n)], axis=0)
    weights = np.array(kernel.weights)
    off = np.abs(made - np.arange(1, n + 1)[:, None] * weights)
    assert (off <= 0.5 + 0.5 * weights * len(weights) + 1e-6 + (np.arange(1, n + 1) // REPEATS)[:, None]).all()


@pytest.mark.parametrize("mixture", list(MIXTURES))
@pytest.mark.parametrize("block", [1, 30, 9_999, 10_000, 25_001])
def test_blocks_go_on_where_the_period_ends(mixture, block):
    """One after another they are what is made of all at once; far out as well, and where a block is longer."""
    kernel = read_kernel(MIXTURES[mixture], block)
    first = max(REPEATS // block - 2, 0)
    for start in (first, first + 10**9):
        proposals_of_block = np.array([kernel.proposals_of_block(b) for b in range(start, start + 5)])
        assert proposals_of_block.min() >= 0 and (proposals_of_block.sum(axis=1) == block).all()
        assert proposals_of_block.sum(axis=0).tolist() == kernel.next_proposals(start * block, 5 * block)
    assert sum(kernel.next_proposals(first * block, 0)) == 0


@pytest.mark.parametrize("weight", [0.002, 5e-4, 2.4e-4, 7e-7, 4e-7])
def test_over_many_blocks_a_rare_step_makes_its_part(weight):
    """Within a tenth, and some in any case: it may be the one that makes the chain reach all trees."""
    kernel = read_kernel({"change": 1.0 - weight, "grow-prune": weight}, 100)
    made = kernel.next_proposals(0, 10**9)
    assert made[1] == pytest.approx(weight * 10**9, rel=0.1)


@pytest.mark.parametrize("blocks", [0, 331])
def test_a_chain_makes_the_shares_of_its_blocks(blocks):
    """From the block it stands at, in one go or in several; 333 blocks of 30 end just before a period does."""
    kernel = read_kernel({"grow-prune": 0.6, "change": 0.3, "swap": 0.0997, "rotate": 3e-4}, 30)
    ends = []
    for parts in ([6], [1, 2, 3], [4, 2]):
        chain = Chain(MODELS["numbers"].lowered, kernel, np.random.default_rng(3))
        chain.blocks = blocks
        for part in parts:
            chain.run_blocks(part)
        assert chain.blocks == blocks + 6 and chain.cost[0].tolist() == kernel.next_proposals(30 * blocks, 180)
        ends.append((chain.state.order.tolist(), chain.rng.bit_generator.state, chain.cost.tolist()))
    assert ends[0] == ends[1] == ends[2]


def test_a_proposal_costs_the_same_however_long_ago_it_was_made():
    """Both the number of proposals and their rows are multiplied by 0.7 after each of six rounds."""
    kernel = read_kernel("whole", 30, adapts=True)
    cost = np.array([[50.0, 2.0, 500.0, 200.0, 80.0, 70.0], [5e5, 1e5, 5e4, 2e4, 8e3, 7e3]])
    then = cost.copy()
    then[:, 1] *= 0.7**6
    assert kernel.rows_per_block(then) == pytest.approx(kernel.rows_per_block(cost))
    assert kernel.with_weights_by_cost(then, 1e5).weights == pytest.approx(
        kernel.with_weights_by_cost(cost, 1e5).weights
    )


def test_a_step_that_made_no_proposals_is_as_dear_as_the_dearest():
    kernel = read_kernel({"learned": 0.5, "collapsed": 0.3, "swap": 0.2}, 10)
    cost = np.array([[4.0, 0.0, 10.0], [400.0, 0.0, 50.0]])
    assert kernel.rows_per_block(cost) == pytest.approx(10 * (0.8 * 100.0 + 0.2 * 5.0 + PROPOSAL_ROWS))


def rounded(kernel, done, n):
    before, after = (np.round(np.cumsum(kernel.weights) * made).astype(int) for made in (done, done + n))
    return np.diff(after - before, prepend=0).tolist()


@pytest.mark.more
@pytest.mark.planted
@pytest.mark.parametrize("wrong", [rounded, lambda kernel, done, n, right=Kernel.next_proposals: right(kernel, 0, n)])
def test_wrong_shares_are_noticed(wrong, monkeypatch):
    monkeypatch.setattr(Kernel, "next_proposals", wrong)
    with pytest.raises(AssertionError):
        test_blocks_are_cut_from_one_order("whole")
    with pytest.raises(AssertionError):
        test_parts_follow_the_weights_at_every_proposal("rare")


def test_kernels_of_equal_weights_share_one_order():
    """Steps are named by the kernel, their order is by weights alone."""
    one, other = Kernel(("change", "swap"), (0.75, 0.25), 10), Kernel(("swap", "rotate"), (0.75, 0.25), 10)
    assert [one.proposals_of_block(b) for b in range(9)] == [other.proposals_of_block(b) for b in range(9)]


X = rng.integers(0, 8, (80, 6)).astype(float)
Y = (X[:, 0] > 3) ^ (rng.random(80) < 0.1)


def started(model, chains=4, betas=None):
    """The chains at their starts, before any proposal."""
    out = []
    for c in range(chains):
        request = request_of(model, read_kernel("grow-prune"), Dispersed(c), betas)
        out.append(chain_at(request, c)[0].sampler)
    return out


def tree_of(model, chain):
    chain.reserve(1)
    chain.save()
    return Draws.join(model, [chain.saved]).distinct_tree(0)


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("name", DISPERSED)
def test_the_first_four_chains_have_four_features_at_the_root(name):
    model = DISPERSED[name]()
    chains = started(model)
    trees = [tree_of(model, chain) for chain in chains]
    assert len({int(tree.feature[0]) for tree in trees}) == 4 - (
        name == "missing" and len({int(t.feature[0]) for t in trees}) == 3
    )
    for tree, chain in zip(trees, chains):
        assert tree.n_leaves >= 2 and model.log_prior(tree) > -np.inf
        # nothing of how it was grown is left behind
        assert chain.state.beta[0] == 1.0 and chain.state.count[-1] != -2
        assert (chain.state.stored.cell.scan == NONE).all()


def test_replicas_of_a_ladder_start_at_their_own_powers():
    model = DISPERSED["local"]()
    ladder = started(model, 1, 3)[0]
    assert [float(chain.state.beta[0]) for chain in ladder.all_chains] == ladder.betas.tolist()


def test_places_and_features():
    places = [Dispersed(c).place for c in range(8)]
    assert sorted(np.floor(4 * np.array(places[:4]))) == [0, 1, 2, 3]
    assert sorted(np.floor(8 * np.array(places))) == list(range(8))
    flat, steep = np.zeros(5), -300.0 * np.arange(5.0)
    assert [feature_at(flat, place) for place in (0.0, 0.3, 0.99)] == [0, 1, 4]
    assert len({feature_at(steep, place) for place in places[:4]}) == 4
    assert feature_at(np.array([-np.inf, 2.0, -np.inf]), 0.9) == 1
    assert {feature_at(np.array([0.0, -1e6]), place) for place in places[:4]} == {0, 1}


def test_a_stump_where_nothing_can_be_asked():
    model = pt.TreeModel([[1.0], [1.0]], [0, 1])
    assert [tree_of(model, chain).n_leaves for chain in started(model)] == [1] * 4
    never = pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.0))
    assert [tree_of(never, chain).n_leaves for chain in started(never)] == [1] * 4


def test_starts_do_not_depend_on_who_runs_the_chains():
    options = {"draws": 3, "tune": 0, "chains": 4, "rng": 1, "kernel": "grow-prune", "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        alone = pt.sample(DISPERSED["local"](), **options)
        with ThreadPoolExecutor(1) as executor:
            one = pt.sample(DISPERSED["local"](), executor=executor, **options)
        more = pt.sample(DISPERSED["local"](), **options | {"chains": 3, "rng": np.random.SeedSequence(1).spawn(3)})
    assert (alone.log_score == one.log_score).all() and (alone.log_score[:3] == more.log_score).all()
