"""The density leaves the posterior in balance with any parameters, and depends on nothing of a cell but the cell."""

from itertools import product
from zlib import crc32

import numpy as np
import pytest

from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.balance import check_balance
from tests.mcmc.moves.test_noise import given_variance, noisy_chain
from tests.mcmc.planting import only_within, standing_in
from tests.mcmc.transitions import Stepper, new_chain
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

FEW = ("mcmc.sums.split_sums", "mcmc.whole.density.systematic")
"""Modules with the number of categories that count as few."""
MOST_TOPS = 7
"""Number of tops, exclusive, in a density of arbitrary parameters. Numbers below `MIN_TOP_DEPTHS` are among them."""
SPACES = [
    ("learned", "ties", "chipman", "dirichlet", 1.0),
    ("learned", "line_of_four", "penalty", "dirichlet", 1.0),
    ("learned", "line_of_four", "stopped_by_depth", "laplace", 1.0),
    ("learned", "line_of_four", "chipman", "nig", 0.4),
    ("learned", "line_of_four", "conditioned", "poisson", 1.0),
    ("learned", "weighted_line", "stopped_with_zero", "nig", 1.0),
    ("learned", "four_letters", "stopped", "dirichlet", 1.0),
    ("learned", "four_letters few", "chipman", "nig", 1.0),
    ("learned", "three_letters", "conditioned_by_depth", "known", 1.0),
    ("learned", "min_leaf_mixed", "penalty", "nig", 1.0),
    ("learned", "min_leaf_mixed shared", "chipman", "known", 1.0),
    ("learned", "box", "chipman", "nig", 1.0),
    ("learned", "min_leaf_uneven", "chipman", "known", 1.0),
    ("learned", "trivial_line", "chipman", "nig", 1.0),
    ("learned", "trivial_pair", "penalty_empty_cheap", "dirichlet", 1.0),
    ("learned", "grid_line", "stopped", "poisson", 1.0),
    ("learned", "grid_box", "chipman", "nig", 1.0),
    ("learned", "gaps_line", "chipman", "nig", 1.0),
    ("learned", "gaps_min_leaf", "chipman", "known", 1.0),
    ("learned", "gaps_grid_line", "penalty_empty_cheap", "known", 1.0),
]
"""Moves, cases, tree priors, leaves and powers of the score: every kind of split.

``few``: features have more categories than the density tries. ``shared``: the leaves share a variance.
"""


def arbitrary_density(shape, seed):
    """Return parameters that no fit gives, other ones for each depth class, and an arbitrary number of tops."""
    rng = np.random.default_rng(seed)
    density = np.zeros(shape)
    density[:-1] = rng.normal(0.0, 0.7, density[:-1].shape)
    density[-1, 0] = rng.integers(MOST_TOPS)
    return density


def with_arbitrary_density(naive, beta=1.0, seed=0, chain=None):
    """Return a plain chain at the stump whose density has arbitrary parameters."""
    chain = chain or new_chain(build_model(plain_package().package, naive), beta)
    chain.state.density[...] = arbitrary_density(chain.state.density.shape, seed)
    return chain


@pytest.mark.more(
    everyday=["learned-three_letters-conditioned_by_depth-known-1.0", "learned-min_leaf_mixed-penalty-nig-1.0"]
)
@pytest.mark.parametrize(("step", "case", "prior", "leaf", "beta"), SPACES)
def test_balance_by_any_density(step, case, prior, leaf, beta, monkeypatch):
    seed = crc32(f"{step} {case} {prior} {leaf}".encode())
    case, way = (*case.split(), "")[:2]
    for module in FEW if way == "few" else ():
        monkeypatch.setattr(plain_package().module(module), "MAX_PARTITIONED_CATEGORIES", 2)
    naive = case_problem(case, prior, leaf)
    if way == "shared":
        naive = given_variance(case, prior)
        chain = with_arbitrary_density(naive, seed=seed, chain=noisy_chain(naive))
    else:
        chain = with_arbitrary_density(naive, beta, seed)
    check_balance(naive, step, beta, "grow-prune" if way == "few" else None, chain)


def above(right, state, node):
    """A cell has the parameters of its parent."""
    return max(right(state, node) - 1, 0)


def with_row(right, *given):
    """The splits of a cell are weighed with the parameters of the root."""
    terms = plain_package().module(TERMS)
    depth_class, terms.depth_class = terms.depth_class, lambda state, node: 0
    try:
        return right(*given)
    finally:
        terms.depth_class = depth_class


DENSITY, GRAPH, TERMS = (f"mcmc.whole.density.{name}" for name in ("density", "graph", "terms"))
BUGS = {
    "the old split by the root": (
        "learned",
        "line_of_four",
        only_within(DENSITY, "log_split_probability", "depth_class", above, GRAPH),
    ),
    "drawn by the root": (
        "learned",
        "min_leaf_mixed",
        only_within(DENSITY, "draw_guided_split", "evaluate_splits", with_row, GRAPH),
    ),
}
"""Moves, spaces, and changes that mistake the depth class only if its parameters differ from those of others."""


@pytest.mark.more(everyday=["drawn by the root"])
@pytest.mark.planted
@pytest.mark.parametrize("bug", list(BUGS))
def test_parameters_of_another_depth_are_noticed(bug, monkeypatch):
    step, case, changes = BUGS[bug]
    naive = case_problem(case, "chipman", "nig")
    for module, name, wrong in changes:
        where = plain_package().module(module)
        monkeypatch.setattr(where, name, standing_in(getattr(where, name), wrong))
    with pytest.raises(AssertionError):
        check_balance(naive, step, chain=with_arbitrary_density(naive))


SCRATCH = {
    "density": ("split_terms", "exponent", "n_alike", "log_sum"),
    "scan": ("left", "right", "stats", "gain", "rows", "rows_left"),
}
SPLIT_PRIORS = {
    "local": lambda package: package.LocalCuts(),
    "two rows": lambda package: package.LocalCuts(min_leaf=2),
    "grid": lambda package: package.GridCuts([[0.5, 1.5, 2.5, 3.5, 4.5], [0.2, 0.4, 0.6, 0.8], None]),
}
LEAVES = {
    "fractions": lambda package: package.NormalInverseGamma(0.0, 0.5, 2.0, 0.5),
    "classes": lambda package: package.DirichletMultinomial(0.5),
}


def with_gaps(split_prior, leaf, seed=3, n=24):
    """A plain model of two numbers with missing values and a nominal feature, and a chain at its stump."""
    package, rng = plain_package().package, np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 6, n), rng.random(n), rng.integers(0, 4, n)]).astype(object)
    X[:, 2] = ["abcd"[int(i)] for i in X[:, 2]]
    y = np.array([float(row[0]) / 3.0 for row in X]) + rng.standard_normal(n)
    X[rng.random((n, 3)) < [0.3, 0.3, 0.0]] = None
    y = y if leaf == "fractions" else (y > 1.0).astype(int)
    with np.errstate(over="ignore"):
        model = package.TreeModel(
            X,
            y,
            tree_prior=package.ChipmanPrior(0.95, 0.5, max_depth=4),
            split_prior=SPLIT_PRIORS[split_prior](package),
            leaf=LEAVES[leaf](package),
            nominal=[2],
            missing="branch",
        )
    return new_chain(model)


def said_of(chain, node):
    """The numbers of the density for a node's cell, computed anew."""
    density, state = plain_package().module("mcmc.whole.density.density"), chain.state
    for guide in state.stored.guide:
        guide.hash = -1
    place = density.evaluate_cell_and_splits(chain.model, state, node)
    guide = state.stored.guide[place]
    names = ("weight", "log_learned", "odds", "log_split", "log_stop")
    return [*(getattr(guide, name) for name in names), *state.stored.fraction[place], *state.stored.log_learned[place]]


def check_cells(chain, n_steps, rng, disturb):
    """Walk, and let ``disturb(state, node)`` change what should not matter to any splittable node; count these."""
    plain, state, n = plain_package(), chain.state, 0
    step, next_node = Stepper("grow-prune"), plain.module("mcmc.state.terms").next_node
    with np.errstate(over="ignore"):
        for _ in range(n_steps):
            step.make(rng, chain)
            node = 0
            while node >= 0:
                if state.node[node].splittable:
                    numbers, order = said_of(chain, node), state.order.copy()
                    disturb(state, node)
                    again = said_of(chain, node)
                    state.order[:] = order
                    assert np.allclose(again, numbers, rtol=1e-9, atol=1e-9, equal_nan=False)
                    n += 1
                node = next_node(state, node, 0)
    return n


def disturbing(rng):
    """Order of the rows and scratch, changed at random."""

    def disturb(state, node):
        rng.shuffle(state.order[state.node[node].start : state.node[node].stop])
        for group, names in SCRATCH.items():
            for array in (getattr(getattr(state.scratch, group), name) for name in names):
                array[...] = rng.integers(0, 16, array.shape)

    return disturb


@pytest.mark.more(everyday=["local-fractions"])
@pytest.mark.parametrize(
    ("split_prior", "leaf"),
    list(product(SPLIT_PRIORS, LEAVES)),
)
def test_what_is_said_of_a_cell_depends_on_the_cell_alone(split_prior, leaf):
    """Not on the order of its rows, nor on what other cells left in scratch."""
    rng = np.random.default_rng(5)
    assert check_cells(with_gaps(split_prior, leaf), 40, rng, disturbing(rng)) > 50


def by_the_rows(right, model, state, node, *rest):
    return right(model, state, node, *rest) + 0.1 * state.order[state.node[node].start]


@pytest.mark.planted
def test_what_depends_on_more_than_the_cell_is_noticed(monkeypatch):
    density = plain_package().module("mcmc.whole.density.density")
    monkeypatch.setattr(density, "lookahead_odds", standing_in(density.lookahead_odds, by_the_rows))
    rng = np.random.default_rng(5)
    with pytest.raises(AssertionError):
        check_cells(with_gaps("local", "fractions"), 40, rng, disturbing(rng))
