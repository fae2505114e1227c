"""Every move leaves the posterior in balance: exact transition matrices on whole spaces of trees."""

from functools import cache

import numpy as np
import pytest

from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.balance import check_balance, moving
from tests.mcmc.transitions import STEPS, Snapshot, explore, load, new_chain, row_of_numbers, transition_row, tree_key
from tests.problems.leaves import LEAVES
from tests.problems.models import build_model
from tests.problems.spaces import SMALL, TINY, case_problem, kinds_of
from tests.problems.tree_priors import PRIORS

NEW = [step for step in STEPS if step not in ("grow-prune", "blanchard")]
MANY_OUTCOMES = ("regrow-2", "subgraph")
OFF = {
    "redraw": {"cyclic", "fixed"},
    "change": {"cyclic", "fixed"},
    "shift": {"min_leaf_mixed", "trivial_pair", "dyadic", "cyclic", "fixed"},
    "swap": {
        *("depth_1", "trivial_diagonal", "feature_without_weight", "grid_line", "cyclic", "fixed", "min_leaf_uneven")
    },
    "rotate": {"depth_1", "trivial_line", "trivial_pair", "trivial_diagonal", "cyclic", "fixed"},
    "restructure": {"trivial_line", "trivial_pair", "dyadic", "cyclic", "fixed"},
    "regrow-line": {
        *("depth_1", "min_leaf_2", "min_leaf_mixed", "trivial_line", "trivial_pair", "trivial_diagonal", "dyadic"),
        *("cyclic", "fixed"),
    },
    "reshape": {
        *("depth_1", "min_leaf_mixed", "trivial_line", "trivial_pair", "trivial_diagonal", "dyadic", "cyclic", "fixed")
    },
}
"""Where a move changes nothing: it is turned off, or there is no other tree of its kind."""


def cases_of(step):
    """The spaces to be followed through; the steps with most outcomes have their own."""
    if step in MANY_OUTCOMES:
        return TINY
    return [case if (step, case) != ("regrow-1", "three_categories") else "box" for case in SMALL]


def rotated():
    """Every move with every case, priors and leaf models in turn; each move meets all of them."""
    chosen = []
    for s, step in enumerate(NEW):
        for i, case in enumerate(cases_of(step)):
            prior, leaf = list(PRIORS)[(3 * i + s) % len(PRIORS)], list(LEAVES)[(i + s) % len(LEAVES)]
            chosen.append((step, case, prior, leaf))
    return chosen


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("step", "case", "prior", "leaf"), rotated())
def test_balance(step, case, prior, leaf):
    space = check_balance(case_problem(case, prior, leaf), step)
    assert (moving(space).max() > 1e-12) == (case not in OFF.get(step, ()))


def test_every_move_meets_every_kind_of_split_prior_and_leaf():
    kinds = {"local", "trivial", "grid", "dyadic", "cyclic", "fixed", "few", "nominal"}
    for step in NEW:
        met = [values for values in rotated() if values[0] == step]
        assert {prior for _, _, prior, _ in met} == set(PRIORS)
        assert {leaf for _, _, _, leaf in met} == set(LEAVES)
        assert set().union(*(kinds_of(case) for _, case, _, _ in met)) == kinds


TIES = {"regrow-2": "shallow_ties", "subgraph": "three_letters"}
TEMPERED = [(step, TIES.get(step, "ties"), 0.4) for step in NEW]
TEMPERED += [(step, "min_leaf_mixed", 0.0) for step in NEW]
TEMPERED += [(step, "grid_one" if step in MANY_OUTCOMES else "grid_box", 0.4) for step in NEW]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("step", "case", "beta"), TEMPERED)
def test_balance_when_tempered(step, case, beta):
    check_balance(case_problem(case, "stopped_by_depth", "nig"), step, beta)


DRAWING = ("collapsed", "redraw", "regrow-1", "learned")


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(
    ("step", "case"),
    [
        *[(step, case) for step in DRAWING for case in ("grid_three", "four_letters") if step != "learned"],
        ("learned", "four_letters"),
        pytest.param("learned", "grid_three", marks=pytest.mark.slow),
        ("collapsed", "three_categories"),
        ("redraw", "three_categories"),
        ("regrow-1", "three_letters"),
        ("regrow-2", "three_letters"),
        ("subgraph", "three_letters"),
        pytest.param("subgraph", "four_letters", marks=pytest.mark.slow),
    ],
)
def test_balance_with_few_candidates(step, case, monkeypatch):
    """Of more than two categories only the prefixes by mean are tried; other splits are left alone."""
    for name in ("mcmc.sums.split_sums", "mcmc.sums.ways"):
        monkeypatch.setattr(plain_package().module(name), "FEW_CATEGORIES", 2)
    module, met = plain_package().module(STEPS["learned" if step == "subgraph" else step]), set()
    asked = module.is_candidate

    def is_candidate(model, state, node):
        met.add(asked(model, state, node))
        return asked(model, state, node)

    monkeypatch.setattr(module, "is_candidate", is_candidate)
    check_balance(case_problem(case, "chipman", "nig"), step, walker="grow-prune")
    assert met == ({True, False} if step != "regrow-2" else set())


BOUNDS = {
    "large cells": (("whole.density.density", "MOST_VALUES"),),
    "many nodes": (("moves.learned", "MOST_INTERNAL"), ("moves.subgraph", "MOST_INTERNAL")),
    "many cells": (("moves.subgraph", "MOST_CELLS"),),
    "much work": (("moves.subgraph", "MOST_WORK"),),
}
SLOW_BOUNDS = [("subgraph", "line_of_four", "many nodes", 2), ("subgraph", "line_of_four", "many cells", 5)]
SLOW_BOUNDS += [("subgraph", "short_line", "many nodes", 2), ("learned", "line_of_four", "many nodes", 2)]


@cache
def unbounded(step, case):
    """Transition matrix of a step without bounds that matter."""
    model = build_model(plain_package().package, case_problem(case, "chipman", "nig"))
    return explore(model, step, walker="grow-prune").transition


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(
    ("step", "case", "bound", "most"),
    [
        ("learned", "ties", "large cells", 6),
        ("learned", "min_leaf_mixed", "large cells", 8),
        ("learned", "shallow_ties", "many nodes", 1),
        ("subgraph", "three_letters", "large cells", 2),
        ("subgraph", "min_leaf_mixed", "large cells", 8),
        ("subgraph", "three_letters", "many cells", 3),
        ("subgraph", "three_letters", "much work", 8),
        *[pytest.param(*bound, marks=pytest.mark.slow) for bound in SLOW_BOUNDS],
    ],
)
def test_balance_within_bounds(step, case, bound, most, monkeypatch):
    """Cells that are too large are passed by; a subtree that has or gets too many nodes, or costs too much, stays."""
    free = unbounded(step, case)
    for module, name in BOUNDS[bound]:
        monkeypatch.setattr(plain_package().module(f"mcmc.{module}"), name, most)
    space = check_balance(case_problem(case, "chipman", "nig"), step, walker="grow-prune")
    assert moving(space).max() > 0.0
    assert np.abs(space.transition - free).max() > 1e-6


WAYS = [(case, step) for case in ("ties", "min_leaf_mixed", "grid_box") for step in NEW]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("case", "step"), WAYS)
def test_row_does_not_depend_on_the_way_to_the_tree(step, case):
    """A tree loaded, or reached by pruning, has the same distribution of the next tree as one reached by growing."""
    case = {"ties": "three_letters", "grid_box": "grid_one"}.get(case, case) if step in MANY_OUTCOMES else case
    model = build_model(plain_package().package, case_problem(case, "stopped", "dirichlet"))
    space = explore(model, step)
    chain, number = new_chain(model), {}
    stump = Snapshot(chain.state)
    loaded = []
    for i, tree in enumerate(space.trees):
        stump.restore(chain.state)
        load(model, chain, tree)
        number[tree_key(chain.state)] = i
        loaded.append(Snapshot(chain.state))
    assert len(number) == len(space.trees)
    for i, snapshot in list(space.after_pruning.items())[::3] + list(enumerate(loaded))[::4]:
        row = transition_row(chain, snapshot, step, number.__getitem__)
        assert np.abs(row_of_numbers(row, number) - space.transition[i]).max() < 1e-12


def as_nested(key):
    """A tree key as nested triples (split, left, right), None for a leaf."""
    here = iter(key)

    def read():
        split = next(here)
        return None if split == -1 else (split, read(), read())

    return read()


def is_cut_below(old, new):
    """Whether old is u(v(X, Y), Z), or its mirror image, and new is v(u(X, Z'), u(Y, Z'')), no Z being a leaf."""
    if old is None or new is None:
        return False
    for v, z, third in ((old[1], old[2], 2), (old[2], old[1], 1)):
        if v and z and new[1] and new[2] and new[0][0] == v[0][0] != old[0][0]:
            both = new[1][0][0] == new[2][0][0] == old[0][0]
            if both and new[1][third] and new[2][third]:
                return True
    return is_cut_below(old[1], new[1]) or is_cut_below(old[2], new[2])


def n_leaves(key):
    return sum(entry == -1 for entry in key)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "leaf"), [("corners", "dirichlet"), ("prism", "known")])
def test_rotations_cut_and_merge(case, leaf, monkeypatch):
    """Subtrees are cut by the split that rises above them, and merged, in several ways, on the way back."""
    ways = []
    rotate = plain_package().module("mcmc.moves.rotate")
    counted = rotate.merges_or_none

    def count(*args):
        ways.append(int(counted(*args)))
        return ways[-1]

    monkeypatch.setattr(rotate, "merges_or_none", count)
    space = check_balance(case_problem(case, "chipman", leaf), "rotate")
    nested = [as_nested(key) for key in space.keys]
    moves = list(zip(*np.nonzero(space.transition), strict=True))
    cuts = [(i, j) for i, j in moves if is_cut_below(nested[i], nested[j])]
    assert all(space.transition[j, i] > 0.0 for i, j in cuts)
    assert any(n_leaves(space.keys[j]) >= n_leaves(space.keys[i]) + 2 for i, j in cuts)
    assert max(ways) >= 3


def test_turns_where_both_ask_the_same_feature():
    """On one ordered feature rotations join all trees with the same cuts, and no others."""
    space = check_balance(case_problem("line_of_four", "penalty", "loss"), "rotate")
    cuts = [frozenset(entry[1] for entry in key if entry != -1) for key in space.keys]
    reached = np.linalg.matrix_power(np.eye(len(cuts)) + (space.transition > 0.0), 8) > 0.0
    assert max(map(len, cuts)) == 3
    assert reached.tolist() == [[one == other for other in cuts] for one in cuts]
