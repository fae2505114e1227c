"""The two simple kernels leave the posterior in balance: exact transition matrices on whole spaces of trees."""

from itertools import product

import numpy as np
import pytest

from pactree_mcmc.mcmc.state import random as _random
from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.balance import TOLERANCE, check_balance
from tests.mcmc.naive_kernels import blanchard_row, grow_prune_row
from tests.mcmc.transitions import (
    Snapshot,
    all_outcomes,
    explore,
    imbalance,
    load,
    new_chain,
    row_of_numbers,
    transition_row,
    tree_key,
)
from tests.problems.leaves import LEAVES, LOSS
from tests.problems.models import build_model
from tests.problems.spaces import CASES, case_problem, problem
from tests.problems.split_priors import FIXED, LOCAL
from tests.problems.tables import ORDERED, THREE, WIDE
from tests.problems.tree_priors import PRIORS, RHO_BY_NODE
from tests.problems.trees import library_tree, nested_tree
from tests.reference.enumeration import LEAF, Reference

FOUNDATION = ("grow-prune", "blanchard")


def rotated():
    """Every case with a sixth of the priors, every prior with a sixth of the cases, the leaf models in turn."""
    chosen = [(c, p) for (i, c), (j, p) in product(enumerate(CASES), enumerate(PRIORS)) if (i + j) % 6 == 0]
    with_empty_cells = [(case, "penalty_empty_cheap") for case in ("trivial", "grid", "dyadic", "cyclic")]
    chosen += [pair for pair in with_empty_cells if pair not in chosen]
    return [(case, prior, list(LEAVES)[i % len(LEAVES)]) for i, (case, prior) in enumerate(chosen)]


COMBINATIONS = [(kernel, *rest) for rest in rotated() for kernel in FOUNDATION]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("kernel", "case", "prior", "leaf"), COMBINATIONS)
def test_balance(kernel, case, prior, leaf):
    check_balance(case_problem(case, prior, leaf), kernel)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(
    ("kernel", "case", "prior"),
    [("grow-prune", "grid", "chipman"), ("blanchard", "trivial", "conditioned"), ("swap", "cyclic", "stopped")],
)
def test_balance_with_a_leaf_of_ones_own(kernel, case, prior):
    check_balance(case_problem(case, prior, "own"), kernel)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kernel", FOUNDATION)
@pytest.mark.parametrize(
    "prior",
    [
        {"kind": "stopped", "rho": RHO_BY_NODE, "max_depth": None},
        {"kind": "stopped", "rho": RHO_BY_NODE, "max_depth": 2},
        {"kind": "conditioned", "rho": RHO_BY_NODE, "max_depth": 2},
        {"kind": "conditioned", "rho": 0.45, "max_depth": 3},
        {"kind": "chipman", "alpha": 0.9, "beta": 0.5, "max_depth": None},
        {"kind": "penalty", "cost": 0.6, "empty_cost": 0.1, "max_depth": None},
    ],
)
def test_balance_on_a_fixed_tree(kernel, prior):
    check_balance(problem(THREE, FIXED, prior, LEAVES["laplace"]), kernel)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kernel", FOUNDATION)
@pytest.mark.parametrize("kind", ["chipman", "penalty"])
def test_balance_without_depth_limit(kernel, kind):
    check_balance(problem(ORDERED, LOCAL, {**PRIORS[kind], "max_depth": None}, LEAVES["nig"]), kernel)


@pytest.mark.parametrize("kernel", FOUNDATION)
def test_balance_of_a_loss_with_labels_from_other_rows(kernel):
    mask = [True, False, True, True, False, False]
    check_balance(problem(WIDE, LOCAL, {**PRIORS["stopped"], "max_depth": 2}, LOSS, estimation=mask), kernel)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kernel", FOUNDATION)
@pytest.mark.parametrize("case", ["ties", "min_leaf_mixed", "trivial_pair", "grid_box", "cyclic"])
def test_row_does_not_depend_on_the_way_to_the_tree(kernel, case):
    """A tree loaded, or reached by pruning, has the same distribution of the next tree as one reached by growing."""
    plain = plain_package()
    model = build_model(plain.package, case_problem(case, "stopped", "dirichlet"))
    space = explore(model, kernel)
    chain, number, loaded = new_chain(model), {}, []
    stump = Snapshot(chain.state)
    for i, tree in enumerate(space.trees):
        stump.restore(chain.state)
        load(model, chain, tree)
        number[tree_key(chain.state)] = i
        loaded.append(Snapshot(chain.state))
    assert len(number) == len(space.trees)
    ways = list(space.after_pruning.items())[::3] + list(enumerate(loaded))[::4]
    assert 0 in space.after_pruning
    for i, snapshot in ways:
        row = transition_row(chain, snapshot, kernel, number.__getitem__)
        assert np.abs(row_of_numbers(row, number) - space.transition[i]).max() < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("case", ["four_categories", "grid"])
def test_categories_outside_the_cell_do_not_matter(case):
    """A loaded tree that sends a category left which its cell lacks is the same tree without it."""
    plain = plain_package()
    naive = case_problem(case, "stopped", "dirichlet")
    model, keys = build_model(plain.package, naive), []
    for inner in ("b", "ab"):
        below = ("split", 0, frozenset(inner), LEAF, LEAF)
        tree = library_tree(plain.package, naive, ("split", 0, frozenset("a"), LEAF, below))
        chain = new_chain(model)
        load(model, chain, tree)
        keys.append(tree_key(chain.state))
    assert keys[0] == keys[1]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(
    ("kernel", "case", "prior"),
    [
        ("grow-prune", "ties", "chipman"),
        ("grow-prune", "four_categories", "stopped_with_zero"),
        ("grow-prune", "trivial", "penalty_empty_cheap"),
        ("blanchard", "weighted_rows", "conditioned"),
        ("blanchard", "three_categories", "conditioned"),
        ("blanchard", "grid", "conditioned"),
    ],
)
def test_kernel_is_the_one_described(kernel, case, prior):
    """The matrix equals the one written down naively from the kernel's description."""
    naive = case_problem(case, prior, "dirichlet")
    posterior = dict(Reference(naive).posterior())
    space = explore(build_model(plain_package().package, naive), kernel)
    nested = [nested_tree(naive, tree) for tree in space.trees]
    for tree, probabilities in zip(nested, space.transition, strict=True):
        row = grow_prune_row(naive, tree, posterior) if kernel == "grow-prune" else blanchard_row(naive, tree)
        assert np.abs(probabilities - [row.get(other, 0.0) for other in nested]).max() < TOLERANCE


def test_all_outcomes_of_weighted_choices():
    """Weights 1, 0, 3, 4, then a coin of 1/4 if the last was taken, else one of three."""
    random = plain_package().module("mcmc.state.random")

    def run(rng):
        k = random.pick_weighted(rng, np.array([1.0, 0.0, 3.0, 4.0]), 8.0)
        return (k, random.flip(rng, 0.25)) if k == 3 else (k, random.pick(rng, 3))

    distribution = {}
    for probability, result in all_outcomes(run):
        distribution[result] = distribution.get(result, 0.0) + probability
    expected = {(3, True): 1 / 8, (3, False): 3 / 8}
    expected |= {(0, j): 1 / 24 for j in range(3)} | {(2, j): 1 / 8 for j in range(3)}
    assert distribution == pytest.approx(expected, abs=1e-15)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("log_ratio", "accepted"), [(7.0, 1.0), (1e-16, 1.0), (0.0, 1.0), (-1e-16, 1.0), (-1.0, 0.37)])
def test_a_decision_draws_one_number(log_ratio, accepted):
    """Else the last bit of a ratio of 1 would tell where the stream stands after it."""
    rng, other = np.random.default_rng(4), np.random.default_rng(4)
    fraction = np.mean([_random.flip_log(rng, log_ratio) for _ in range(4000)])
    other.random(4000)
    assert rng.bit_generator.state == other.bit_generator.state
    assert fraction == pytest.approx(accepted, abs=0.0 if accepted == 1.0 else 0.03)


def test_a_ratio_that_is_no_number_is_refused():
    assert not _random.flip_log(np.random.default_rng(1), np.nan)


def test_balance_of_known_matrices():
    """A reversible chain, a stationary one that is not, and one that is neither."""
    third = np.full(3, 1 / 3)
    assert imbalance(np.full((3, 3), 1 / 3), third) < 1e-15
    assert imbalance(np.roll(np.eye(3), 1, axis=1), third) == 1.0
    assert imbalance(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0.25, 0.75])) == pytest.approx(2 / 3)
