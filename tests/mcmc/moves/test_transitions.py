"""Every move leaves the posterior in balance: exact transition matrices on whole spaces of trees."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from pactree_mcmc.mcmc.kernel import KERNEL_WEIGHTS, read_kernel
from pactree_mcmc.mcmc.state import random as _random
from pactree_mcmc.testing.spaces import all_outcomes, imbalance, new_chain, plain_package, tree_key
from tests.mcmc.transitions import (
    STEPS,
    TOLERANCE,
    blanchard_row,
    check_balance,
    check_row_ignores_history,
    explore,
    grow_prune_row,
    load,
    moving,
)
from tests.problems.leaves import LEAVES, LOSS
from tests.problems.models import build_model
from tests.problems.priors import FIXED, LOCAL, PRIORS, RHO_BY_NODE
from tests.problems.spaces import CASES, GAPS, OWN_SPLITS, SMALL, case_problem, kinds_of, problem
from tests.problems.tables import ORDERED, THREE, WIDE
from tests.problems.trees import library_tree, nested_tree
from tests.reference.enumeration import LEAF, Reference

SIMPLE = ("grow-prune", "blanchard")
"""Moves that grow and prune without sums over splits, for which every space is small enough."""
OTHERS = [step for step in STEPS if step not in SIMPLE]
LATE = {"own_grid_line", "own_late_line"}
OFF = {
    "change": {"cyclic", "fixed"} | LATE,
    "shift": {
        *("min_leaf_mixed", "trivial_pair", "dyadic", "cyclic", "fixed", "gaps_grid", "gaps_dyadic", "gaps_cyclic"),
        *LATE,
    },
    "informed-change": {"fixed"} | LATE,
    "swap": {
        *("depth_1", "trivial_diagonal", "feature_without_weight", "grid_line", "cyclic", "fixed", "min_leaf_uneven"),
        *("gaps_min_leaf", "gaps_grid_line", "gaps_cyclic"),
        *("own_few_rows", "own_grid_line", "own_grid_deep", "own_line", "own_late_line"),
    },
    "rotate": {
        *("depth_1", "trivial_line", "trivial_pair", "trivial_diagonal", "cyclic", "fixed"),
        *("gaps_min_leaf", "gaps_cyclic", *LATE),
    },
}
"""Spaces in which a move changes nothing, because it is off or no tree has another tree of its kind."""
EVERY_DAY = {
    "grow-prune": "gaps_local gaps_nominal gaps_grid own_even own_deep own_grid",
    "blanchard": "gaps_local gaps_nominal gaps_grid own_late own_deep own_grid",
    "collapsed": (
        "feature_without_weight three_categories min_leaf_mixed trivial_diagonal grid_box dyadic cyclic fixed "
        "gaps_line gaps_nominal gaps_cyclic own_few_rows own_deep own_grid_deep"
    ),
    "learned": "depth_1 min_leaf_mixed cyclic fixed gaps_line gaps_min_leaf",
    "change": (
        "feature_without_weight three_categories min_leaf_2 trivial_diagonal grid_box dyadic gaps_local "
        "gaps_nominal gaps_dyadic own_even own_deep_letters own_grid"
    ),
    "shift": (
        "ties three_categories min_leaf_2 trivial_diagonal grid_box gaps_local gaps_min_leaf gaps_grid_line "
        "own_few_rows own_deep_letters own_grid"
    ),
    "informed-change": (
        "ties three_categories min_leaf_mixed trivial_line grid_box dyadic gaps_min_leaf gaps_grid own_deep own_grid"
    ),
    "swap": (
        "ties three_categories min_leaf_2 trivial_pair grid_box dyadic gaps_local gaps_nominal gaps_grid "
        "own_late own_deep own_grid"
    ),
    "rotate": (
        "feature_without_weight three_categories min_leaf_uneven grid_box dyadic gaps_line gaps_nominal "
        "gaps_grid own_even own_deep own_grid"
    ),
}
"""Spaces of each move that are explored every day: one of each kind."""
OWN_LEAF = [("grow-prune", "grid", "chipman"), ("blanchard", "trivial", "conditioned"), ("swap", "cyclic", "stopped")]
FIXED_PRIORS = [
    {"kind": "stopped", "rho": RHO_BY_NODE, "max_depth": None},
    {"kind": "stopped", "rho": RHO_BY_NODE, "max_depth": 2},
    {"kind": "conditioned", "rho": RHO_BY_NODE, "max_depth": 2},
    {"kind": "conditioned", "rho": 0.45, "max_depth": 3},
    {"kind": "chipman", "alpha": 0.9, "beta": 0.5, "max_depth": None},
    {"kind": "penalty", "cost": 0.6, "empty_cost": 0.1, "max_depth": None},
]
UNLIMITED = [{**PRIORS[kind], "max_depth": None} for kind in ("chipman", "penalty")]
OTHER_ROWS = problem(
    WIDE, LOCAL, {**PRIORS["stopped"], "max_depth": 2}, LOSS, estimation=[True, False, True, True, False, False]
)
PROBLEMS = {
    **{
        f"fixed tree, prior {i}": problem(THREE, FIXED, prior, LEAVES["laplace"])
        for i, prior in enumerate(FIXED_PRIORS)
    },
    **{f"no limit, {prior['kind']}": problem(ORDERED, LOCAL, prior, LEAVES["nig"]) for prior in UNLIMITED},
    "loss with labels from other rows": OTHER_ROWS,
}
BOUNDS = {
    "large cells": (("whole.density.density", "MAX_REDRAWN_VALUES"),),
    "many nodes": (("moves.learned", "MAX_DRAWN_INTERNAL"), ("whole.density.graph", "MAX_DRAWN_INTERNAL")),
}
ALWAYS_ACCEPTED = {
    "two rows": (2, lambda package: package.LeafPenalty(0.0)),
    "two rows, one half": (2, lambda package: package.BranchingProcess(0.5, 1)),
    "three rows": (3, lambda package: package.BranchingProcess([0.75, 1 / 3], 2)),
    "one level": (4, lambda package: package.BranchingProcess(0.5, 1)),
}
"""Number of rows and tree prior of models without data, under which growths and prunings are nearly all accepted."""
CONNECTED_SPACES = (
    *(*ALWAYS_ACCEPTED, "depth_1"),
    *(pytest.param(space, marks=pytest.mark.more) for space in ("trivial_pair", "min_leaf_2")),
)
WITH_FEW_CANDIDATES = [
    *product(("collapsed",), ("grid_three", "four_letters", "three_categories", "own_wide", "own_deep_letters")),
    ("learned", "four_letters"),
    pytest.param("learned", "grid_three", marks=pytest.mark.more),
]
BOUNDED = [
    ("learned", "ties", "large cells", 6),
    ("learned", "min_leaf_mixed", "large cells", 8),
    ("learned", "shallow_ties", "many nodes", 1),
    pytest.param("learned", "line_of_four", "many nodes", 2, marks=pytest.mark.more),
]
SIMPLE_MOVES = [
    ("grow-prune", "ties", "chipman"),
    ("grow-prune", "four_categories", "stopped_with_zero"),
    ("grow-prune", "trivial", "penalty_empty_cheap"),
    ("blanchard", "weighted_rows", "conditioned"),
    ("blanchard", "three_categories", "conditioned"),
    ("blanchard", "grid", "conditioned"),
]


def spaces_of(step):
    return [] if step in SIMPLE else SMALL, GAPS, [] if step == "learned" else OWN_SPLITS


def in_turn():
    return [
        (step, case, list(PRIORS)[(3 * i + s) % len(PRIORS)], list(LEAVES)[(i + s) % len(LEAVES)])
        for s, step in enumerate(STEPS)
        for cases in spaces_of(step)
        for i, case in enumerate(cases)
    ]


def one_of_each_kind_every_day(values):
    return [pytest.param(*v, marks=[] if v[1] in EVERY_DAY[v[0]].split() else pytest.mark.more) for v in values]


@pytest.mark.parametrize(("step", "case", "prior", "leaf"), one_of_each_kind_every_day(in_turn()))
def test_balance(step, case, prior, leaf):
    space = check_balance(case_problem(case, prior, leaf), step)
    assert (moving(space).max() > 1e-12) == (case not in OFF.get(step, ()))


def simple_in_turn():
    """Return every case with a sixth of the priors, and leaves in turn; a third of them is of every day."""
    pairs = [(c, p) for (i, c), (j, p) in product(enumerate(CASES), enumerate(PRIORS)) if (i + j) % 6 == 0]
    with_empty_cells = [(case, "penalty_empty_cheap") for case in ("trivial", "grid", "dyadic", "cyclic")]
    pairs += [pair for pair in with_empty_cells if pair not in pairs]
    return [
        pytest.param(step, *pair, list(LEAVES)[i % len(LEAVES)], marks=[] if i % 3 == 0 else pytest.mark.more)
        for i, pair in enumerate(pairs)
        for step in SIMPLE
    ]


@pytest.mark.parametrize(
    ("step", "case", "prior", "leaf"), [*simple_in_turn(), *((*values, "own") for values in OWN_LEAF)]
)
def test_balance_of_simple_moves(step, case, prior, leaf):
    check_balance(case_problem(case, prior, leaf), step)


@pytest.mark.more(everyday=["grow-prune-fixed tree, prior 0", "blanchard-fixed tree, prior 1"])
@pytest.mark.parametrize(("step", "name"), list(product(SIMPLE, PROBLEMS)))
def test_balance_on_other_problems(step, name):
    check_balance(PROBLEMS[name], step)


def test_every_move_meets_every_kind_of_split_prior_and_leaf():
    kinds = {"local", "trivial", "grid", "dyadic", "cyclic", "fixed", "few", "nominal"}
    for step in OTHERS:
        met = [values for values in in_turn() if values[0] == step and values[1] in spaces_of(step)[0]]
        assert {prior for _, _, prior, _ in met} == set(PRIORS) and {leaf for _, _, _, leaf in met} == set(LEAVES)
        assert set().union(*(kinds_of(case) for _, case, _, _ in met)) == kinds


TEMPERED = [(step, "ties", 0.4) for step in OTHERS]
TEMPERED += [(step, "min_leaf_mixed", 0.0) for step in OTHERS]
TEMPERED += [(step, "grid_box", 0.4) for step in OTHERS]
TEMPERED += [(step, "own_wide", 0.4) for step in ("collapsed", "rotate")]


@pytest.mark.more(
    everyday=[
        "collapsed-ties-0.4",
        "learned-min_leaf_mixed-0.0",
        "change-grid_box-0.4",
        "informed-change-ties-0.4",
        "rotate-own_wide-0.4",
    ]
)
@pytest.mark.parametrize(("step", "case", "beta"), TEMPERED)
def test_balance_when_tempered(step, case, beta):
    check_balance(case_problem(case, "stopped_by_depth", "nig"), step, beta)


@pytest.mark.more(everyday=["collapsed-grid_three"])
@pytest.mark.parametrize(("step", "case"), WITH_FEW_CANDIDATES)
def test_balance_with_few_candidates(step, case, monkeypatch):
    """Of more than two categories only the prefixes by mean are candidates. Nodes with another split stay."""
    for name in ("mcmc.sums.split_sums", "mcmc.whole.density.systematic"):
        monkeypatch.setattr(plain_package().module(name), "MAX_PARTITIONED_CATEGORIES", 2)
    name = "mcmc.whole.density.graph" if step == "learned" else STEPS[step]
    module, answers = plain_package().module(name), set()
    right = module.is_candidate

    def is_candidate(model, state, node):
        answers.add(right(model, state, node))
        return right(model, state, node)

    monkeypatch.setattr(module, "is_candidate", is_candidate)
    check_balance(case_problem(case, "chipman", "nig"), step, walker="grow-prune")
    assert answers == {True, False}


@pytest.mark.parametrize("case", ["ties", "min_leaf_mixed", "trivial_pair", "grid_line"])
def test_informed_changes_can_all_be_built(case, monkeypatch):
    """No candidate leaves too few rows in a leaf below, or a cut below outside of its box."""
    move, answers = plain_package().module(STEPS["informed-change"]), set()
    right = move.build

    def build(*args):
        answers.add(right(*args))
        return right(*args)

    monkeypatch.setattr(move, "build", build)
    explore(build_model(plain_package().package, case_problem(case, "chipman", "nig")), "informed-change")
    assert answers == {True}


@cache
def unbounded(step, case):
    model = build_model(plain_package().package, case_problem(case, "chipman", "nig"))
    return explore(model, step, walker="grow-prune").transition


@pytest.mark.more(everyday=["learned-ties-large cells-6"])
@pytest.mark.parametrize(("step", "case", "bound", "most"), BOUNDED)
def test_balance_within_bounds(step, case, bound, most, monkeypatch):
    """Cells that are too large are skipped. A subtree stays if it has or gets too many nodes, or costs too much."""
    free = unbounded(step, case)
    for module, name in BOUNDS[bound]:
        monkeypatch.setattr(plain_package().module(f"mcmc.{module}"), name, most)
    space = check_balance(case_problem(case, "chipman", "nig"), step, walker="grow-prune")
    assert moving(space).max() > 0.0 and np.abs(space.transition - free).max() > 1e-6


HISTORIES = [(step, case) for case in ("ties", "min_leaf_mixed", "grid_box") for step in STEPS]
HISTORIES += list(product(SIMPLE, ("trivial_pair", "cyclic")))
HISTORIES += list(product(("collapsed", "change", "rotate"), ("own_wide", "own_deep", "own_grid")))


@pytest.mark.more(
    everyday=[
        "grow-prune-ties",
        "blanchard-min_leaf_mixed",
        "collapsed-grid_box",
        "change-own_wide",
        "rotate-own_deep",
    ]
)
@pytest.mark.parametrize(("step", "case"), HISTORIES)
def test_row_does_not_depend_on_the_history_of_the_tree(step, case):
    check_row_ignores_history(case_problem(case, "stopped", "dirichlet"), step)


@pytest.mark.more
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


@pytest.mark.more(everyday=["grow-prune-ties-chipman"])
@pytest.mark.parametrize(("step", "case", "prior"), SIMPLE_MOVES)
def test_simple_moves_are_those_described(step, case, prior):
    naive = case_problem(case, prior, "dirichlet")
    posterior = dict(Reference(naive).posterior())
    space = explore(build_model(plain_package().package, naive), step)
    nested = [nested_tree(naive, tree) for tree in space.trees]
    for tree, probabilities in zip(nested, space.transition, strict=True):
        row = grow_prune_row(naive, tree, posterior) if step == "grow-prune" else blanchard_row(naive, tree)
        assert np.abs(probabilities - [row.get(other, 0.0) for other in nested]).max() < TOLERANCE


@cache
def transition_of(step, space):
    """Return the transition matrix of a step on a space of `CONNECTED_SPACES`."""
    package = plain_package().package
    if space not in ALWAYS_ACCEPTED:
        return explore(
            build_model(package, case_problem(space, "chipman", "nig")), step, walker="grow-prune"
        ).transition
    n, prior = ALWAYS_ACCEPTED[space]
    with np.errstate(over="ignore"):
        parts = {"leaf": package.PacBayesLoss(0.0), "tree_prior": prior(package)}
        model = package.TreeModel(np.arange(float(n))[:, None], np.arange(n) % 2, **parts)
    return explore(model, step, walker="grow-prune").transition


@pytest.mark.parametrize("space", CONNECTED_SPACES)
@pytest.mark.parametrize("step", ["grow-prune", "blanchard", "collapsed", "learned"])
def test_moves_that_reach_every_tree_have_no_period(step, space):
    """The chain is reversible, so that its eigenvalues are real: 1 once, and none is -1."""
    eigenvalues = np.sort(np.linalg.eigvals(transition_of(step, space)).real)
    assert eigenvalues[0] > -0.999 and eigenvalues[-1] == pytest.approx(1.0, abs=1e-12)
    assert len(eigenvalues) == 1 or eigenvalues[-2] < 1.0 - 1e-9


@pytest.mark.parametrize("space", CONNECTED_SPACES)
@pytest.mark.parametrize("name", KERNEL_WEIGHTS)
def test_kernels_have_no_period(name, space):
    """Draws after blocks of any length forget the start: one eigenvalue of 100 proposals in order is of size 1."""
    for block in (1, 2, 3, 10, 100):
        kernel = read_kernel(name, block)
        transition = np.eye(len(transition_of(kernel.names[0], space)))
        for b in range(-(-100 // block)):
            for step, n in zip(kernel.names, kernel.proposals_of_block(b), strict=True):
                transition = transition @ np.linalg.matrix_power(transition_of(step, space), n)
        sizes = np.sort(np.abs(np.linalg.eigvals(transition)))
        assert sizes[-1] == pytest.approx(1.0, abs=1e-9) and sizes[-2] < 0.999


def as_nested(key):
    """Return a tree key as nested triples (split, left, right), None for a leaf."""
    entries = iter(key)

    def next_subtree():
        split = next(entries)
        return None if split == -1 else (split, next_subtree(), next_subtree())

    return next_subtree()


def is_cut_below(old, new):
    """Return True if old is u(v(X, Y), Z), or mirrored, and new is v(u(X, Z'), u(Y, Z'')), and no Z is a leaf."""
    if old is None or new is None:
        return False
    for v, z, third in ((old[1], old[2], 2), (old[2], old[1], 1)):
        if v and z and new[1] and new[2] and new[0][0] == v[0][0] != old[0][0]:
            both = new[1][0][0] == new[2][0][0] == old[0][0]
            if both and new[1][third] and new[2][third]:
                return True
    return is_cut_below(old[1], new[1]) or is_cut_below(old[2], new[2])


@pytest.mark.more
@pytest.mark.parametrize(("case", "leaf"), [("corners", "dirichlet"), ("prism", "known")])
def test_rotations_cut_and_merge(case, leaf, monkeypatch):
    """Subtrees are cut by the split that rises above them, and the reverse merges them in one of several ways."""
    n_merges = []
    rotate = plain_package().module("mcmc.moves.rotate")
    right = rotate.n_allowed_merges

    def count(*args):
        n_merges.append(int(right(*args)))
        return n_merges[-1]

    monkeypatch.setattr(rotate, "n_allowed_merges", count)
    space = check_balance(case_problem(case, "chipman", leaf), "rotate")
    nested, n_leaves = [as_nested(key) for key in space.keys], [sum(entry == -1 for entry in key) for key in space.keys]
    cuts = [(i, j) for i, j in zip(*np.nonzero(space.transition), strict=True) if is_cut_below(nested[i], nested[j])]
    assert all(space.transition[j, i] > 0.0 for i, j in cuts) and any(n_leaves[j] >= n_leaves[i] + 2 for i, j in cuts)
    assert max(n_merges) >= 3


def test_rotations_if_both_nodes_split_on_the_same_feature():
    """On one ordered feature rotations connect all trees with the same cuts, and no others."""
    space = check_balance(case_problem("line_of_four", "penalty", "loss"), "rotate")
    cuts = [frozenset(entry[1] for entry in key if entry != -1) for key in space.keys]
    reached = np.linalg.matrix_power(np.eye(len(cuts)) + (space.transition > 0.0), 8) > 0.0
    assert max(map(len, cuts)) == 3 and reached.tolist() == [[one == other for other in cuts] for one in cuts]


def test_all_outcomes_of_weighted_choices():
    """Weights 1, 0, 3, 4, then a coin of 1/4 after the last, else one of three."""
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
    subsets = dict.fromkeys((0, 2, 8, 10), 0.25)
    assert {result: p for p, result in all_outcomes(lambda rng: int(random.pick_subset(rng, np.int64(10))))} == subsets


@pytest.mark.parametrize(("log_ratio", "accepted"), [(7.0, 1.0), (1e-16, 1.0), (0.0, 1.0), (-1e-16, 1.0), (-1.0, 0.37)])
def test_a_decision_draws_one_number(log_ratio, accepted):
    """Otherwise later draws would depend on the last bit of a ratio of 1."""
    rng, other = np.random.default_rng(4), np.random.default_rng(4)
    fraction = np.mean([_random.flip_log(rng, log_ratio) for _ in range(4000)])
    other.random(4000)
    assert rng.bit_generator.state == other.bit_generator.state
    assert fraction == pytest.approx(accepted, abs=0.0 if accepted == 1.0 else 0.03)
    assert not _random.flip_log(rng, np.nan)


def test_balance_of_known_matrices():
    third = np.full(3, 1 / 3)
    assert imbalance(np.full((3, 3), 1 / 3), third) < 1e-15 and imbalance(np.roll(np.eye(3), 1, axis=1), third) == 1.0
    assert imbalance(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0.25, 0.75])) == pytest.approx(2 / 3)
