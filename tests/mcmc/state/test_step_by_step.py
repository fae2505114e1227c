"""After every single step of every move the arrays are those of the tree, and those of uncompiled code."""

from dataclasses import replace
from math import isclose

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import draw_store as _saving
from pactree_mcmc.mcmc.kernel import LIBRARY_MOVES
from pactree_mcmc.mcmc.state import terms as _noise
from pactree_mcmc.mcmc.state.records import N_NODES, N_VISITED_ROWS, TREE_CHANGED
from pactree_mcmc.mcmc.sums import split_sums as _scan
from pactree_mcmc.posterior.draws import Draws
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
from tests.problems.runs import LISTS

KERNEL = dict.fromkeys(LIBRARY_MOVES, 1.0)
SHARED = ("order", "node", "stats", "box", "count", "moves")
N = 14
UNEVEN = 10.0 ** np.random.default_rng(6).uniform(-4.0, 1.0, N)
UNEVEN[::5] = 0.0
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
    """The same chain, compiled and plain, each with a generator of the same seed."""

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
    assert largest >= 5
    assert len(changed) >= 3


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
