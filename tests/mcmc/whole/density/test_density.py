"""The learned density with anchors leaves the posterior in balance, and the spaces it is tried on really have them."""

from itertools import product

import numpy as np
import pytest

from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.balance import check_balance
from tests.mcmc.moves.test_noise import given_variance, noisy_chain
from tests.mcmc.planting import standing_in
from tests.mcmc.transitions import Stepper, new_chain
from tests.problems.everyday import everyday
from tests.problems.leaves import NAMED
from tests.problems.models import build_model
from tests.problems.spaces import case_problem, problem
from tests.problems.split_priors import LOCAL
from tests.problems.tree_priors import PRIORS

FEW = ("mcmc.sums.split_sums", "mcmc.sums.ways")
"""Modules that know how many categories are few."""
NEGLIGIBLE = 1e-3
"""Anchors that are worth less than this, in nats, would show nothing."""
MET = {"root", "ordered", "worth"}
NAMES = {"root", "nominal", "worth"}
SPACES = [
    ("learned", "ties", "chipman", "dirichlet", 1.0, MET | {"below"}),
    ("learned", "line_of_four", "penalty", "dirichlet", 1.0, {"root", "ordered", "below", "between"}),
    ("learned", "line_of_four", "stopped_by_depth", "laplace", 1.0, MET | {"below", "between"}),
    ("learned", "line_of_four", "chipman", "nig", 0.4, MET | {"below", "between"}),
    ("learned", "line_of_four all", "conditioned", "poisson", 1.0, MET | {"below"}),
    ("learned", "weighted_line", "stopped_with_zero", "nig", 1.0, MET | {"past"}),
    ("learned", "four_letters", "stopped", "dirichlet", 1.0, NAMES | {"before", "past"}),
    ("learned", "four_letters few", "chipman", "nig", 1.0, NAMES),
    ("learned", "three_letters", "conditioned_by_depth", "known", 1.0, NAMES),
    ("learned", "min_leaf_mixed", "penalty", "nig", 1.0, MET | {"below", "nominal"}),
    ("learned", "min_leaf_mixed shared", "chipman", "known", 1.0, MET | {"below", "nominal"}),
    ("learned", "min_leaf_mixed one", "stopped", "dirichlet", 1.0, MET | {"below", "bare"}),
    ("learned", "box one", "chipman", "nig", 1.0, {"root", "bare"}),
    ("learned", "min_leaf_uneven", "chipman", "known", 1.0, MET | {"below"}),
    ("learned", "trivial_line", "chipman", "nig", 1.0, MET | {"trivial"}),
    ("learned", "trivial_pair", "penalty_empty_cheap", "dirichlet", 1.0, NAMES | {"trivial"}),
    ("learned", "grid_line", "stopped", "poisson", 1.0, MET | {"below", "alike", "trivial"}),
    ("learned", "grid_box", "chipman", "nig", 1.0, MET | {"nominal", "alike"}),
    ("learned", "gaps_line", "chipman", "nig", 1.0, MET | {"missing"}),
    ("learned", "gaps_min_leaf", "chipman", "known", 1.0, {"root", "ordered", "missing"}),
    ("learned", "gaps_grid_line", "penalty_empty_cheap", "known", 1.0, MET | {"below", "missing", "alike"}),
    ("subgraph", "shallow_ties", "chipman", "dirichlet", 1.0, MET),
    ("subgraph", "short_line", "penalty", "nig", 1.0, MET | {"between"}),
    ("subgraph", "short_line", "chipman", "known", 0.4, MET | {"between"}),
    ("subgraph", "three_letters", "stopped", "known", 1.0, NAMES),
    ("subgraph", "three_letters few", "chipman", "nig", 1.0, NAMES),
    ("subgraph", "min_leaf_mixed", "stopped_by_depth", "poisson", 1.0, MET | {"below", "nominal"}),
    ("subgraph", "min_leaf_mixed shared", "chipman", "known", 1.0, MET | {"below", "nominal"}),
    ("subgraph", "min_leaf_mixed one", "stopped", "dirichlet", 1.0, MET | {"below", "bare"}),
    ("subgraph", "min_leaf_uneven", "conditioned", "nig", 1.0, MET | {"below"}),
    ("subgraph", "trivial_one", "penalty", "nig", 1.0, {"root", "nominal", "trivial"}),
    ("subgraph", "grid_one", "chipman", "laplace", 1.0, NAMES),
    ("subgraph", "grid_line", "chipman", "loss", 1.0, MET | {"below", "alike", "trivial"}),
    ("subgraph", "gaps_line", "chipman", "dirichlet", 1.0, MET | {"missing"}),
]


def facts(model, state, node, place):
    """What there is to be met among the anchors of a cell, just found."""
    anchors_of, guide = plain_package().module("mcmc.whole.density.anchors"), state.guide[place]
    bits, even = anchors_of.WAY_BITS, plain_package().module("mcmc.whole.density.terms").EVEN
    anchors = [divmod(int(code), 1 << bits) for code in state.anchors[place, : guide.n_anchors]]
    met = {("root", "below", "deep")[min(state.node[node].depth, 2)]} if anchors else set()
    if anchors and np.abs(state.ahead[place, : len(anchors)]).max() > NEGLIGIBLE:
        met.add("worth")
    for k in range(len(model.split_prior.feature)):
        base, end = state.kept_from[k], state.kept_from[k + 1]
        has = [at for feature, at in anchors if feature == k]
        open_ways = [at for at in range(end - base) if state.kept_alike[base + at] > 0]
        if not has:
            met |= {"bare"} if anchors and state.sums[even, k] > -np.inf else set()
            continue
        met.add("nominal" if model.split_prior.feature[k].nominal else "ordered")
        met |= {"missing"} if model.split_prior.feature[k].twin != k else set()
        met |= {"trivial"} if has[0] < 2 else set()
        met |= {"alike"} if max(state.kept_alike[base + at] for at in has) > 1 else set()
        met |= {"before"} if open_ways[0] < has[0] else set()
        met |= {"past"} if open_ways[-1] > has[-1] else set()
        met |= {"between"} if any(has[0] < at < has[-1] and at not in has for at in open_ways) else set()
    return met


@pytest.fixture
def met(monkeypatch):
    """What the cells whose anchors are found meanwhile have."""
    density, found = plain_package().module("mcmc.whole.density.density"), set()
    look_ahead = density._look_ahead

    def noted(model, state, node, place):
        look_ahead(model, state, node, place)
        found.update(facts(model, state, node, place))

    monkeypatch.setattr(density, "_look_ahead", noted)
    return found


def test_each_move_meets_everything_there_is():
    for step in ("learned", "subgraph"):
        found = set().union(*(entry[-1] for entry in SPACES if entry[0] == step))
        assert found >= {*MET, *NAMES, "below", "between", "bare", "missing", "trivial", "alike"}


EVERY_DAY = (
    *("learned line_of_four penalty", "learned line_of_four stopped_by_depth", "learned line_of_four chipman"),
    *("learned line_of_four all", "learned weighted_line", "learned four_letters few", "learned three_letters"),
    *("learned min_leaf_mixed penalty", "learned min_leaf_mixed shared", "learned min_leaf_mixed one"),
    *("learned box one", "learned min_leaf_uneven", "learned trivial_pair", "learned grid_line", "learned gaps_line"),
    *("subgraph short_line penalty", "subgraph three_letters stopped", "subgraph three_letters few"),
    *("subgraph min_leaf_mixed stopped_by_depth", "subgraph min_leaf_mixed one", "subgraph min_leaf_uneven"),
    *("subgraph trivial_one", "subgraph gaps_line"),
)


@pytest.mark.parametrize(("step", "case", "prior", "leaf", "beta", "expected"), everyday(SPACES, EVERY_DAY))
def test_balance_with_anchors(step, case, prior, leaf, beta, expected, met, monkeypatch):
    """Some splits have anchors, others are between two, before the first, past the last, or of a feature without."""
    case, way = (*case.split(), "")[:2]
    for module in FEW if way == "few" else ():
        monkeypatch.setattr(plain_package().module(module), "FEW_CATEGORIES", 2)
    if way == "one":
        monkeypatch.setattr(plain_package().module("mcmc.whole.density.anchors"), "N_SKETCHED", 1)
    naive, chain = case_problem(case, prior, leaf), None
    if way == "shared":
        naive = given_variance(case, prior)
        chain = noisy_chain(naive)
    elif way == "all":
        chain = new_chain(build_model(plain_package().package, naive))
        chain.state.density[-1, :4] = 56.0
    walker = "grow-prune" if way == "few" else None
    check_balance(naive, step, beta, walker, chain)
    assert met >= expected, expected - met


def balance_below(met, monkeypatch):
    """Five rows on a line: a cell below two splits may have another two. All such cells have anchors."""
    monkeypatch.setattr(plain_package().module("mcmc.whole.density.anchors"), "LEAST_DEEP_ODDS", -np.inf)
    data = {"X": [(0.0,), (1.0,), (3.0,), (4.0,), (6.0,)], "y": [0, 1, 1, 0, 1]}
    naive = problem(data, LOCAL, {**PRIORS["chipman"], "max_depth": 4}, NAMED["nig"])
    check_balance(naive, "learned", 1.0, None, new_chain(build_model(plain_package().package, naive)))
    assert met >= {"root", "below", "deep", "worth"}


@pytest.mark.slow
def test_balance_with_anchors_below_two_splits(met, monkeypatch):
    balance_below(met, monkeypatch)


@pytest.mark.slow
@pytest.mark.planted
def test_anchors_of_deeper_cells_that_drawing_alone_knows_are_noticed(met, monkeypatch):
    density = plain_package().module("mcmc.whole.density.density")
    ahead_of = density._ahead_of

    def forgetful(model, state, node, place):
        return ahead_of(model, state, node, place) if state.node[node].depth < 2 else 0.0

    monkeypatch.setattr(density, "_ahead_of", forgetful)
    with pytest.raises(AssertionError):
        balance_below(met, monkeypatch)


SCRATCH = (
    "bin_of",
    "sketch",
    "sketch_sides",
    "sketch_below",
    "sketch_above",
    "sketch_gains",
    "anchor_cut",
    "anchor_categories",
)
SCRATCH += ("kept_tilts", "kept_alike", "way_terms", "tilts", "alike", "sums", "lefts", "rights", "bins", "gains")
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
    """What the density says of a node's cell, found afresh: anchors, and numbers."""
    density, state = plain_package().module("mcmc.whole.density.density"), chain.state
    for guide in state.guide:
        guide.hash = -1
    place = density.known(chain.model, state, node)
    guide = state.guide[place]
    names = ("weight", "log_learned", "log_even", "odds", "odds_ahead", "log_split", "log_stop")
    numbers = [getattr(guide, name) for name in names]
    n = guide.n_anchors
    return state.anchors[place, :n].tolist(), [
        *numbers,
        *state.ahead[place, :n],
        *state.fractions[place],
        *state.own[place],
    ]


def check_cells(chain, n_steps, rng, disturb):
    """Walk, and let ``disturb(state, node)`` change what should not matter to any splittable node; anchors met."""
    plain, state, met = plain_package(), chain.state, 0
    step, terms = Stepper("grow-prune"), plain.module("mcmc.whole.density.terms")
    next_node = plain.module("mcmc.state.terms").next_node
    with np.errstate(over="ignore"):
        for _ in range(n_steps):
            step.make(rng, chain)
            node = 0
            while node >= 0:
                if state.node[node].splittable:
                    terms.enter_stratum(state, max(state.node[0].feature, 0))
                    anchors, numbers = said_of(chain, node)
                    order = state.order.copy()
                    disturb(state, node)
                    again, other = said_of(chain, node)
                    state.order[:] = order
                    assert again == anchors
                    assert np.allclose(other, numbers, rtol=1e-9, atol=1e-9, equal_nan=False)
                    met += len(anchors)
                node = next_node(state, node, 0)
    return met


def disturbing(rng):
    """Order of the rows and scratch, changed at random."""

    def disturb(state, node):
        rng.shuffle(state.order[state.node[node].start : state.node[node].stop])
        for name in SCRATCH:
            array = getattr(state, name)
            array[...] = rng.integers(0, 16, array.shape)

    return disturb


@pytest.mark.parametrize(
    ("split_prior", "leaf"),
    everyday(product(SPLIT_PRIORS, LEAVES), ["local fractions", "two rows classes", "grid classes"]),
)
def test_what_is_said_of_a_cell_depends_on_the_cell_alone(split_prior, leaf):
    """Not on the order of its rows, nor on what other cells left in scratch."""
    rng = np.random.default_rng(5)
    assert check_cells(with_gaps(split_prior, leaf), 40, rng, disturbing(rng)) > 100


@pytest.mark.parametrize(("n_values", "n_rows", "expected"), [(6, 700, True), (6, 1100, False), (300, 700, False)])
def test_deeper_cells_have_anchors_in_small_tables(n_values, n_rows, expected):
    """Those that are surely split: the classes are those of an exclusive-or of three features."""
    rng = np.random.default_rng(0)
    X = rng.permuted(np.arange(n_rows)[:, None] % n_values + np.zeros((1, 5)), axis=0)
    y = (X[:, :3] >= n_values / 2).sum(axis=1) % 2
    X[:, 4] = np.arange(n_rows) % 400 if n_values < 10 else X[:, 4]
    grow, node = plain_package().module("mcmc.edits.grow").grow_as_given, 0
    with np.errstate(over="ignore"):
        model = plain_package().package.TreeModel(X, y ^ (rng.random(n_rows) < 0.02))
        assert (model.units.n_units <= 1000) == (n_rows < 1000)
        chain = new_chain(model)
        for feature in range(3):
            assert (len(said_of(chain, node)[0]) > 0) == (feature < 2 or expected)
            grow(chain.model, chain.state, node, feature, n_values // 2 - 1, -1)
            node = chain.state.node[node].left


def test_deeper_cells_have_anchors_where_they_are_surely_split():
    """Of a small table of noise and of a step: log odds of all sizes."""
    rng, plain, odds_at = np.random.default_rng(1), plain_package(), 3
    X = rng.integers(0, 6, size=(200, 3))
    grow, next_node = plain.module("mcmc.edits.grow").grow_as_given, plain.module("mcmc.state.terms").next_node
    found, node = set(), 0
    with np.errstate(over="ignore"):
        chain = new_chain(plain.package.TreeModel(X, (X[:, 2] > 2) ^ ((X[:, 0] > 2) & (rng.random(200) < 0.5))))
        state = chain.state
        grow(chain.model, state, 0, 0, 2, -1)
        for child in (state.node[0].left, state.node[0].right):
            grow(chain.model, state, child, 1, 2, -1)
        while node >= 0:
            if state.node[node].splittable and state.node[node].depth > 1:
                anchors, numbers = said_of(chain, node)
                assert (len(anchors) > 0) == (numbers[odds_at] > 4.0)
                found.add(len(anchors) > 0)
            node = next_node(state, node, 0)
    assert found == {True, False}


def test_children_that_every_split_makes_far_worse(monkeypatch):
    """By more than an exponential can hold: of the feature that is looked at, not of that of the anchor."""
    package, y = plain_package().package, np.repeat([-1000.0, 1000.0], 32)
    monkeypatch.setattr(plain_package().module("mcmc.whole.density.anchors"), "N_SKETCHED", 1)
    parts = {
        "leaf": package.NormalKnownVariance(1.0, 0.0, 1.0),
        "tree_prior": package.ChipmanPrior(0.95, 0.5, max_depth=4),
        "split_prior": package.LocalCuts(feature_weights=[3.0, 1.0]),
    }
    with np.errstate(over="ignore"):
        chain = new_chain(package.TreeModel(np.column_stack([y > 0.0, np.tile(np.arange(16.0), 4)]), y, **parts))
        chain.state.density[-1, 0], chain.state.density[0, -1] = 4.0, 1e9
        anchors, numbers = said_of(chain, 0)
    assert min(anchors) < 1 << plain_package().module("mcmc.whole.density.terms").WAY_BITS
    assert np.isfinite(numbers).all()


def by_the_rows(right, model, state, node, *rest):
    return right(model, state, node, *rest) + 0.1 * state.order[state.node[node].start]


def outside_not_binned(right, model, state, f, k, n, rows):
    """Codes below the box have whatever bin they had before."""
    before = state.bin_of[f, : state.codes[0, 0]].copy()
    right(model, state, f, k, n, rows)
    state.bin_of[f, : state.codes[0, 0]] = before
    state.codes[0, 0] = 0


PLANTED = [("local", "_look", by_the_rows), ("grid", "_bin_codes", outside_not_binned)]


@pytest.mark.planted
@pytest.mark.parametrize(("split_prior", "name", "wrong"), PLANTED, ids=[name for _, name, _ in PLANTED])
def test_what_depends_on_more_than_the_cell_is_noticed(split_prior, name, wrong, monkeypatch):
    """On the order of rows; on the bins that a box before has left."""
    anchors = plain_package().module("mcmc.whole.density.anchors")
    monkeypatch.setattr(anchors, name, standing_in(getattr(anchors, name), wrong))
    rng = np.random.default_rng(5)
    with pytest.raises(AssertionError):
        check_cells(with_gaps(split_prior, "fractions"), 40, rng, disturbing(rng))
