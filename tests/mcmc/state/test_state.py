"""The state of a chain stays valid step by step, and is that of the tree and of uncompiled code; sums by code."""

from dataclasses import replace
from math import isclose

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import draw_store as _saving
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import LIBRARY_MOVES, read_kernel
from pactree_mcmc.mcmc.state import terms as _noise
from pactree_mcmc.mcmc.state.records import N_NODES, N_VISITED_ROWS, TREE_CHANGED
from pactree_mcmc.mcmc.sums import split_sums as _scan
from pactree_mcmc.posterior.draws import Draws
from pactree_mcmc.testing.spaces import new_chain as chain_of_bins
from pactree_mcmc.testing.spaces import plain_package, tree_key
from tests.mcmc import transitions
from tests.mcmc.chain.test_compiled_is_plain import assert_identical, compiled_module, plain  # noqa: F401
from tests.mcmc.distributions import seed_of
from tests.mcmc.state.invariants import (
    PlainValues,
    all_splits,
    check_contents,
    check_places,
    check_untouched_ranges,
    has_few_splits,
    preorder,
)
from tests.mcmc.transitions import grow_at_random
from tests.problems.leaves import LEAVES
from tests.problems.models import build_model
from tests.problems.runs import LISTS
from tests.problems.spaces import case_problem, problem

MIXTURE = {name: 1.0 for name in LIBRARY_MOVES if name != "blanchard"}
KERNELS = {"grow-prune": "grow-prune", "blanchard": "blanchard", "all moves": MIXTURE}
LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1}
KERNEL = dict.fromkeys(LIBRARY_MOVES, 1.0)
SHARED = ("order", "node", "stats", "box", "count", "moves")
N = 14
UNEVEN = 10.0 ** np.random.default_rng(6).uniform(-4.0, 1.0, N)
PRIOR = {"tree_prior": ("ChipmanPrior", 0.95, 0.7)}
SHALLOW = ("BranchingProcess", 0.6, 4)
PROBLEMS = {
    "ordered": {"leaf": ("DirichletMultinomial", 0.7)},
    "nominal": {"leaf": ("NormalInverseGamma", 0.4, 0.5, 2.0, 0.3), "nominal": [0]},
    "grid": {"leaf": ("PoissonGamma", 1.5, 1.2), "split_prior": ("GridCuts", 5), "nominal": [0]},
    "dyadic": {"leaf": ("NormalKnownVariance", 0.4, 0.4, 0.5), "split_prior": ("DyadicCuts", 3)},
    "weighted": {"leaf": ("PacBayesLoss", 0.8, 0.3), "sample_weight": UNEVEN},
    "weighted numbers": {"leaf": ("NormalInverseGamma", 0.4, 0.5, 2.0, 0.3), "sample_weight": UNEVEN},
    "shared variance": {"leaf": ("NormalSharedVariance", 0.4, 0.5, 2.0, 0.3)},
    "trivial": {"leaf": ("DirichletMultinomial", 0.7), "split_prior": {"trivial": True}, "tree_prior": SHALLOW},
    "few rows": {"leaf": ("FrozenLaplace", 0.3), "split_prior": {"min_leaf": 2, "feature_weights": [1.0, 0.0, 2.0]}},
    "cyclic": {"leaf": ("PacBayesLoss", 0.8), "split_prior": {"levels": 3, "cyclic": True}, "tree_prior": SHALLOW},
    "thinned": {"leaf": ("DirichletMultinomial", 0.7), "split_prior": {"max_cuts": 3}},
    "fixed": {"leaf": ("DirichletMultinomial", 0.7), "split_prior": "fixed"},
}
plain_modules = plain_package()
sums, terms, splits = (
    plain_modules.module(f"mcmc.{of}") for of in ("sums.split_sums", "whole.density.terms", "state.splits")
)
leaf_score = plain_modules.module("model.leaf.compiled").leaf_score
LEAVES_OF_BINS = {
    "two classes": lambda package: package.DirichletMultinomial(0.5),
    "four classes": lambda package: package.DirichletMultinomial(0.5),
    "half weights": lambda package: package.DirichletMultinomial(0.5),
    "numbers": lambda package: package.NormalInverseGamma(0.0, 0.5, 2.0, 0.5),
    "known variance": lambda package: package.NormalKnownVariance(sigma2=0.5),
    "counts": lambda package: package.PoissonGamma(1.0, 1.0),
}


def table(seed, n):
    """Rows (category, number with ties, number), some of them equal, with labels that depend on them."""
    rng = np.random.default_rng(seed)
    category, ties, real = rng.choice(list("abcdef"), n), rng.integers(0, 7, n), rng.random(n).round(2)
    y = (ties + 3 * (category < "c") + 4 * rng.random(n) > 5).astype(int)
    rows = [(str(c), float(t), float(x)) for c, t, x in zip(category, ties, real, strict=True)]
    return {"X": rows + rows[: n // 5], "y": [*y.tolist(), *y[: n // 5].tolist()], "nominal": {0}}


def new_chain(model, kernel, seed):
    return Chain(model.lowered, read_kernel(kernel), np.random.default_rng(seed))


def run_and_check(model, kernel, seed, n_steps, every=1):
    """Step by step, the moves in turn: places always, contents if the tree has changed; returns the largest tree."""
    chain, plain_values, largest = new_chain(model, kernel, seed), PlainValues(model), 1
    for step in range(n_steps // every):
        chain.state.count[TREE_CHANGED] = 0
        chain.propose(step % len(chain.kernel.names), every)
        check_places(chain)
        check_untouched_ranges(model, chain)
        if chain.state.count[TREE_CHANGED]:
            check_contents(model, chain, plain_values)
        largest = max(largest, int(chain.state.count[N_NODES]))
    return largest


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("split_prior", ["local", "trivial", "min_leaf", "grid"])
def test_every_step_with_63_categories(split_prior):
    rng = np.random.default_rng(63)
    X = np.column_stack([np.append(np.arange(63), rng.integers(0, 63, 67)), rng.integers(0, 3, 130)])
    rules = {
        "local": pt.LocalCuts(),
        "trivial": pt.LocalCuts(trivial=True),
        "min_leaf": pt.LocalCuts(min_leaf=5),
        "grid": pt.GridCuts([None, [0.5, 1.5]]),
    }
    prior = pt.LeafPenalty(cost=0.3, max_depth=4)
    model = pt.TreeModel(
        X,
        rng.random(130),
        nominal=[0],
        split_prior=rules[split_prior],
        tree_prior=prior,
        sample_weight=np.full(130, 1e-300),
    )
    assert run_and_check(model, "grow-prune", 63, 50) >= 9


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_saved_draw_is_the_tree_at_that_step(kernel):
    model = build_model(pt, case_problem("weighted_rows", "penalty", "dirichlet"))
    chain, keys = new_chain(model, KERNELS[kernel], 9), []
    chain.reserve(300)
    for step in range(300):
        chain.propose(step % len(chain.kernel.names), 1)
        chain.save()
        keys.append(tree_key(chain.state))
    draws = Draws.join(model, [_saving.trim_draws(chain.saved)])
    key_of_tree = {}
    for t, key in zip(draws.tree_of_draw[0].tolist(), keys, strict=True):
        assert key_of_tree.setdefault(t, key) == key
    assert len(set(key_of_tree.values())) == draws.n_distinct_trees > 5


@pytest.mark.more
def test_draws_that_outgrow_the_first_arrays():
    """More saved nodes than there is room for at first: no draw is lost or changed."""
    data = {**table(8, 200), "weights": [1.0] + [0.0] * 239}
    naive = problem(data, LOCAL, {"kind": "penalty", "cost": 0.0, "max_depth": None}, LEAVES["dirichlet"])
    model = build_model(pt, naive)
    chain = new_chain(model, "grow-prune", 1)
    chain.reserve(200)
    keys = []
    for _ in range(200):
        chain.propose(0, 20)
        chain.save()
        keys.append(tree_key(chain.state))
    saved = _saving.trim_draws(chain.saved)
    assert saved.used[_saving.NODE_COUNT] > 5000 and len(saved.node) == saved.used[_saving.NODE_COUNT]
    starts = saved.tree.start[saved.tree_of_draw]
    assert [int(saved.node.feature[start]) for start in starts] == [key_root(key) for key in keys]
    assert (saved.moves[:, 0].sum(axis=1) == 20).all() and (saved.moves[:, 1] <= saved.moves[:, 0]).all()


def key_root(key):
    return key[0] if len(key) == 1 else key[0][0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_model_with_one_tree(kernel):
    """Constant features leave the stump alone; no step moves or fails."""
    model = pt.TreeModel([[1.0, 2.0]] * 5, [0, 1, 0, 1, 1])
    chain = new_chain(model, KERNELS[kernel], 1)
    chain.run_blocks(10)
    assert chain.state.count[N_NODES] == 1
    check_places(chain)
    check_contents(model, chain)


def test_the_checks_see_a_broken_state():
    """Each breach of one field fails a check."""
    model = build_model(pt, case_problem("weighted_rows", "penalty", "dirichlet"))
    chain = new_chain(model, "grow-prune", 2)
    while chain.state.count[N_NODES] < 5:
        chain.propose(0, 1)
    for name in ("depth", "start", "stop", "rows", "score", "splittable", "growable_at", "prunable_at", "parent"):
        leaf = int(chain.state.node.left[0])
        right_value = chain.state.node[name][leaf]
        chain.state.node[name][leaf] = not right_value if name == "splittable" else right_value + 1
        with pytest.raises(AssertionError):
            check_everything(model, chain)
        chain.state.node[name][leaf] = right_value
    chain.state.stats[0, 0] += 1.0
    with pytest.raises(AssertionError):
        check_everything(model, chain)
    chain.state.stats[0, 0] -= 1.0
    check_everything(model, chain)


def check_everything(model, chain):
    check_places(chain)
    check_contents(model, chain)
    check_untouched_ranges(model, chain)


UNEVEN[::5] = 0.0


def model_of(package, name):
    """The model of ``package``, compiled or plain: parts are given as a class and its arguments."""
    rng = np.random.default_rng(seed_of(f"step by step {name}"))
    X = np.column_stack([rng.integers(0, 5, N), rng.integers(0, 6, N), rng.random(N).round(2)]).astype(float)
    y = (X[:, 1] + 3 * (X[:, 0] < 2) + 4 * rng.random(N) > 5).astype(int)
    parts = {
        key: getattr(package, value[0])(*value[1:]) if isinstance(value, tuple) else value
        for key, value in (PRIOR | PROBLEMS[name]).items()
    }
    if isinstance(options := parts.get("split_prior"), dict):
        parts["split_prior"] = (package.DyadicCuts if "levels" in options else package.LocalCuts)(**options)
    elif options == "fixed":
        parts["split_prior"] = package.FixedTree(package.kd_tree(X, 3).tree)
    if name == "few rows":
        parts["estimation"] = np.arange(N) % 3 == 0
    is_number = "Normal" in PROBLEMS[name]["leaf"][0]
    with np.errstate(over="ignore"):
        return package.TreeModel(X, y + 0.1 * X[:, 2] if is_number else y, **parts)


class Pair:
    def __init__(self, name, package):
        self.modules = [compiled_module, package.module]
        self.model = model_of(pt, name)
        seed = seed_of(f"step by step {name}")
        self.chains = []
        with np.errstate(over="ignore"):
            for model, module in zip([self.model, model_of(package.package, name)], self.modules):
                kernel = module("mcmc.kernel").read_kernel(KERNEL)
                chain = module("mcmc.chain.chain").Chain(model.lowered, kernel, np.random.default_rng(seed))
                self.chains.append(chain)

    def make(self, step):
        """One proposal in each; with the noise drawn anew where it moves."""
        with np.errstate(over="ignore"):
            for chain, module in zip(self.chains, self.modules):
                chain.state.count[TREE_CHANGED] = 0
                chain.propose(chain.kernel.names.index(step), 1)
                if step == "collapsed" and not chain.lowered.leaf.is_fixed:
                    module("mcmc.state.terms").redraw_noise(chain.packed_chain)

    def assert_identical(self):
        """Every array of the state has the same bits, free nodes apart, and rows visited: checks look up cells too."""
        for chain in self.chains:
            chain.state.count[N_VISITED_ROWS] = 0
        ours, theirs = (chain.state for chain in self.chains)
        nodes_in_use = preorder(list(ours.node))
        for name in SHARED:
            one, other = (np.asarray(getattr(state, name)) for state in (ours, theirs))
            if name in ("node", "stats", "box"):
                one, other = one[nodes_in_use], other[nodes_in_use]
            for field in one.dtype.names or [None]:
                if field not in (*LISTS, "saved_at"):
                    a, b = (one, other) if field is None else (one[field], other[field])
                    assert_identical(a.copy(), b.copy())
        assert ours.count.tolist() == theirs.count.tolist()


def test_every_step_is_known():
    assert set(LIBRARY_MOVES) == set(transitions.STEPS)


@pytest.mark.more(everyday=["nominal"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_step_of_every_move(name, plain):  # noqa: F811
    pair, largest, changed = Pair(name, plain), 1, set()
    chain, plain_values = pair.chains[0], PlainValues(pair.model)
    for _ in range(30 if name == "trivial" else 8):
        pair.make("grow-prune")
    for _ in range(4):
        for step in LIBRARY_MOVES:
            pair.make(step)
            if chain.state.count[TREE_CHANGED]:
                changed.add(step)
            pair.assert_identical()
            check_places(chain)
            check_untouched_ranges(pair.model, chain)
            if chain.lowered.leaf.is_fixed:
                check_contents(pair.model, chain, plain_values)
            else:
                check_noisy_contents(pair.model, chain)
            largest = max(largest, int(chain.state.count[N_NODES]))
            chain.state.moves[:] = pair.chains[1].state.moves[:] = 0
    assert largest >= 5 and len(changed) >= 3


def check_noisy_contents(model, chain):
    """As `check_contents`, where the leaves share a variance: scores by its value, tables by the guess of it."""
    leaf_by_variance, leaf_by_guess = (
        model.leaf.with_variance(rule.params[0]) for rule in (chain.lowered.leaf, chain.lowered.proposal_leaf)
    )
    chain.reserve(1)
    chain.save(as_new=True)
    draws = Draws.join(model, [_saving.trim_draws(chain.saved)])
    tree = draws.distinct_tree(0)
    assert isclose(draws.log_score_of_tree[0], model.log_score(tree), rel_tol=1e-10, abs_tol=1e-9)
    assert isclose(_noise.tree_log_score(chain.model, chain.packed_state), draws.log_score_of_tree[0])
    numbers = preorder(list(chain.state.node))
    for number, cell, _ in model.visit(tree):
        record, stats = chain.state.node[numbers[number]], cell.stats(3)
        assert np.allclose(chain.state.stats[numbers[number]], stats, rtol=1e-12, atol=1e-9)
        assert isclose(record.score, leaf_by_variance.log_score(stats, model.target), rel_tol=1e-10, abs_tol=1e-9)
        assert isclose(record.guess, leaf_by_guess.log_score(stats, model.target), rel_tol=1e-10, abs_tol=1e-9)
        if record.splittable and has_few_splits(model, cell):
            total = 0.0
            for split in all_splits(model, cell):
                log_rule = model.rules.log_probability(cell, split)
                sides = [side.stats(3) for side in model.rules.children(cell, split)] if log_rule > -np.inf else []
                gain = sum(leaf_by_guess.log_score(side, model.target) for side in sides) - record.guess
                total += np.exp(log_rule + gain) if sides else 0.0
            assert isclose(_scan.scan(chain.model, chain.packed_state, numbers[number]), np.log(total), rel_tol=1e-9)


def test_light_sides_beside_heavy_ones():
    """The sides of a way are summed: as a difference the light one would be rounding, even negative."""
    weight = np.array([1e12, 0.1, 1e12, 0.3, 1e-12, 0.0, 0.0, 0.0])
    X, y = np.arange(8.0)[:, None], [0, 1, 0, 1, 1, 0, 1, 0]
    for leaf in (pt.PacBayesLoss(0.3, 0.5), pt.DirichletMultinomial(1e-5), pt.NormalKnownVariance(1.0, 0.0, 1e-3)):
        labels = np.array(y, dtype=float) if "Normal" in repr(leaf) else y
        model = pt.TreeModel(X, labels, leaf=leaf, sample_weight=weight)
        chain = compiled_module("mcmc.chain.chain").Chain(
            model.lowered, compiled_module("mcmc.kernel").read_kernel(KERNEL), np.random.default_rng(1)
        )
        lefts, rights = chain.state.scratch.scan.left, chain.state.scratch.scan.right
        _scan.scan_cell(chain.model, chain.packed_state, 0)
        root = model.root_cell()
        for i in range(7):
            for side, index in ((lefts, range(i + 1)), (rights, range(i + 1, 8))):
                stats = replace(root, index=np.array(index)).stats(model.leaf.n_stats(model.target))
                assert np.allclose(side[i], stats, rtol=1e-12, atol=0.0)


@pytest.mark.more(everyday=["stats"])
@pytest.mark.planted
@pytest.mark.parametrize("array", ["stats", "order", "node", "count"])
def test_a_difference_is_seen(array, plain):  # noqa: F811
    pair = Pair("ordered", plain)
    pair.make("grow-prune")
    pair.assert_identical()
    if array == "node":
        pair.chains[1].state.node[0].score += 1e-12
    else:
        getattr(pair.chains[1].state, array).flat[0] += 1
    with pytest.raises(AssertionError):
        pair.assert_identical()


def with_leaf(leaf, *, grid=False, n=60, seed=5):
    """A chain whose leaves have few of 60 rows: features of few and of many values, with gaps, and a nominal one."""
    package, rng = plain_modules.package, np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 4, n), rng.permutation(n), rng.integers(0, 9, n)]).astype(float)
    X[rng.random(n) < 0.3, 1] = np.nan
    y = {"two classes": 2, "four classes": 4, "half weights": 2, "counts": 5}.get(leaf)
    y = rng.standard_normal(n) if y is None else rng.integers(0, y, n)
    priors = {True: lambda: package.GridCuts([[0.5, 1.5], np.arange(-0.5, n, 7.0).tolist(), None])}
    more = {"sample_weight": rng.integers(1, 4, n) / 2.0} if leaf == "half weights" else {}
    with np.errstate(over="ignore"):
        model = package.TreeModel(
            X,
            y,
            tree_prior=package.ChipmanPrior(0.95, 0.3, max_depth=5),
            split_prior=priors[grid]() if grid else package.LocalCuts(),
            leaf=LEAVES_OF_BINS[leaf](package),
            nominal=[2],
            missing="branch",
            **more,
        )
        chain = chain_of_bins(model)
    return chain, grow_at_random(chain, rng, 21)


def stats_of(chain, merged_rows):
    out, table = np.zeros(chain.state.stats.shape[1]), chain.model.units
    for u in merged_rows:
        weight = table.weight[u & table.weight_all]
        if table.counts:
            out[table.label[u]] += weight
        else:
            out += [weight, *table.moments[:, u]]
    return out


def check_node(chain, node):
    """Bins hold each unit once, by its code; the sides of every way are sums of bins."""
    state, rule, n_checked = chain.state, chain.model.split_prior, 0
    record = state.node[node]
    merged_rows = state.order[record.start : record.stop]
    for k in range(len(rule.feature)):
        codes = chain.model.units.codes[k, merged_rows].astype(int)
        if state.box.shape[1] and not rule.feature[k].nominal:
            low, high = splits.box_range(chain.model, chain.packed_state, node, k)
            codes = np.clip(codes, low, high - 1)
        n = sums.fill_bins(chain.model, chain.packed_state, node, k)
        codes_in_bins = state.scratch.codes.distinct[:n].copy()
        assert np.array_equal(codes_in_bins, np.unique(codes_in_bins)) and set(codes) <= set(codes_in_bins.tolist())
        for j, code in enumerate(codes_in_bins):
            of_code = merged_rows[codes == code]
            rows = sum(int(chain.model.units.rows[u & chain.model.units.rows_all]) for u in of_code)
            assert state.scratch.scan.rows[j] == rows
            assert np.allclose(state.scratch.scan.stats[j], stats_of(chain, of_code), rtol=1e-12, atol=1e-12)
        clean = state.scratch.codes.rows, state.scratch.codes.is_present, state.scratch.scan.by_code
        assert not any(array.any() for array in clean)
        n_splits = terms.evaluate_splits(chain.model, chain.packed_state, node, k, n)
        for i in range(n_splits):
            sums.write_split(chain.model, chain.packed_state, node, k, n, i)
            cut, bits = int(state.scratch.scan.drawn_split[0].cut), int(state.scratch.scan.drawn_split[0].categories)
            left = (codes <= cut) if bits < 0 else ((bits >> codes) & 1 == 1)
            check_split(chain, node, k, i, merged_rows[left], merged_rows[~left])
            n_checked += 1
    return n_checked


def check_split(chain, node, k, i, left, right):
    """The statistics of both sides, and the terms that follow from them."""
    state, logs = chain.state, chain.state.scratch.density.logs
    table, sides = chain.model.units, [left, right]
    # of the two names of one partition of categories either may have been summed as the left one
    is_left = np.allclose(state.scratch.scan.left[i], stats_of(chain, left))
    if chain.model.split_prior.feature[k].nominal and not is_left:
        sides.reverse()
    expected = [stats_of(chain, merged_rows) for merged_rows in sides]
    assert np.allclose([state.scratch.scan.left[i], state.scratch.scan.right[i]], expected, rtol=1e-12, atol=1e-9)
    one, other = (terms.impurity(chain.model, logs, np.array([stats]), 0) for stats in expected)
    scores = (leaf_score(chain.model.proposal_leaf, np.array([stats]), 0) for stats in expected)
    assert np.isclose(state.scratch.scan.gain[i], sum(scores) - state.node[node].guess, rtol=1e-9, atol=1e-9)
    f = state.scratch.density.split_terms[:, i + 2]
    least = [one.nats + other.nats, max(one.nats, other.nats), np.sqrt(one.nats) + np.sqrt(other.nats)]
    assert np.allclose(f[1:5], [*least, np.log1p(one.minority) + np.log1p(other.minority)], rtol=1e-9, atol=1e-6)
    rows, n_left = int(state.node[node].rows), int(state.scratch.scan.rows_left[i])
    if not chain.model.split_prior.feature[k].nominal:
        assert n_left == sum(int(table.rows[u & table.rows_all]) for u in left)
    assert np.isclose(f[5], np.log1p(n_left) + np.log1p(rows - n_left) - 2.0 * np.log(rows + 2.0))
    row = terms.depth_class(state, node)
    b = state.density[row, terms.N_CELL_TERMS :]
    assert np.isclose(state.scratch.density.exponent[terms.LEARNED, i + 2], b @ f)


@pytest.mark.more(everyday=["two classes-local"])
@pytest.mark.parametrize("grid", [False, True], ids=["local", "grid"])
@pytest.mark.parametrize("leaf", LEAVES_OF_BINS)
def test_a_cell_by_code(leaf, grid):
    chain, nodes = with_leaf(leaf, grid=grid, seed=len(leaf))
    chain.state.density[:-1] = np.random.default_rng(1).standard_normal(chain.state.density[:-1].shape)
    with np.errstate(over="ignore"):
        assert sum(check_node(chain, node) for node in nodes if chain.state.node[node].splittable) > 100


def test_few_rows_with_codes_far_apart():
    """Codes are sorted if the cell lacks most codes between its smallest and its largest one."""
    chain, _ = with_leaf("numbers", n=400)
    state, collect = chain.state, plain_modules.module("mcmc.state.splits").collect_codes
    chain.packed_state.node[0].stop = 7
    codes_of_rows = chain.model.units.codes[1, state.order[:7]].astype(int)
    assert np.ptp(codes_of_rows) > 16 * 7
    assert np.array_equal(
        state.scratch.codes.distinct[: collect(chain.model, chain.packed_state, 0, 1)], np.unique(codes_of_rows)
    )
    assert not state.scratch.codes.is_present.any()
