"""A ladder of weights: each level has its own distribution, by every step that it makes, and chains share no tree."""

import math

import numpy as np
import pytest
from scipy import stats

import pactree_mcmc as pt
from pactree_mcmc.loading.validate import check_state
from pactree_mcmc.mcmc.chain import weight_ladder as _weight_ladder
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.chain.snapshot import ARRAYS, chain_from, snapshot_of
from pactree_mcmc.mcmc.chain.start import load_tree
from pactree_mcmc.mcmc.chain.weight_ladder import TREE, WeightLadder, _put_back
from pactree_mcmc.mcmc.edits.grow import cut_down
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.learned.graph import frozen, joined_graph
from pactree_mcmc.mcmc.moves.learned import draw_freely, weigh
from pactree_mcmc.mcmc.state.arrays import first_density
from pactree_mcmc.mcmc.state.pieces import new_graph
from pactree_mcmc.mcmc.state.records import GROWING, N_FREE, N_NODES, ROWS
from pactree_mcmc.testing.outcomes import all_outcomes
from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.balance import check_reversible
from tests.mcmc.distributions import COMMON, FALSE_ALARM
from tests.mcmc.learned.test_graph import grown, module
from tests.mcmc.transitions import Snapshot, explore, load, posterior_of, row_of_numbers, tree_key
from tests.problems.models import build_model
from tests.problems.runs import LABELS, PRIOR, WEIGHT, X, assert_equal
from tests.problems.spaces import case_problem
from tests.problems.trees import library_tree
from tests.reference.enumeration import Reference, count_leaves

POWERS = (0.0, 0.3, 0.7, 1.0)
SPACES = [
    ("ties", "chipman", "dirichlet"),
    ("three_letters", "conditioned_by_depth", "known"),
    ("gaps_min_leaf", "chipman", "known"),
    ("trivial_pair", "penalty_empty_cheap", "dirichlet"),
]


def level_distribution(chain, model, space, power):
    """Probabilities in proportion to ``g w^power``, by the posterior's plain formula and the density of every tree."""
    log_pi, log_w = np.log(posterior_of(model, space.trees)), []
    for tree in space.trees:
        load(model, chain, tree)
        with np.errstate(over="ignore"):
            log_w.append(module("moves.learned").weigh(walk_of(chain)))
            module("edits.grow").cut_down(chain.packed)
    log_level = log_pi + (power - 1.0) * np.array(log_w)
    weight = np.exp(log_level - log_level.max())
    return weight / weight.sum()


def walk_of(chain, rng=None):
    """A plain chain's walk."""
    return module("chain.chain").Walk(rng, chain.model, chain.packed)


def arbitrary(model, power):
    """A plain chain at a level whose density knows two trees, what it says of them wrong by about a nat."""
    chain = grown(model, 2, disturbed=1.0)
    chain.state.power[0] = power
    return chain


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("case", "prior", "leaf"), SPACES)
def test_redrawn_subtrees_leave_a_level_in_balance(case, prior, leaf, power):
    model = build_model(plain_package().package, case_problem(case, prior, leaf))
    chain = arbitrary(model, power)
    space = explore(model, "learned", walker="grow-prune", chain=chain)
    expected = level_distribution(arbitrary(model, power), model, space, power)
    check_reversible(space.transition, expected)
    other = level_distribution(arbitrary(model, power), model, space, 1.0 - power)
    assert np.abs(other @ space.transition - other).max() > 1e-4


def ladder_of(chain, kernel, rng):
    """A plain ladder whose chains are the given one."""
    ladder = object.__new__(module("chain.weight_ladder").WeightLadder)
    ladder.rng, ladder.weights = rng, np.ones(1)
    ladder.local = [chain.kernel.names.index(kernel)]
    chain.walk = walk_of(chain, rng)
    return ladder


@pytest.mark.parametrize("power", POWERS[1:])
@pytest.mark.parametrize(
    ("n", "step", "space"), [(1, "grow-prune", SPACES[0]), (1, "collapsed", SPACES[1]), (2, "grow-prune", SPACES[3])]
)
def test_local_moves_decided_together_leave_a_level_in_balance(n, step, space, power, monkeypatch):
    """So many at once, by the ratio of weights before and after, as any run of them leaves the posterior alone."""
    model = build_model(plain_package().package, case_problem(*space))
    monkeypatch.setattr(module("chain.weight_ladder"), "LOCAL_MOVES", n)
    found = explore(model, "grow-prune", chain=arbitrary(model, power))
    number = {key: i for i, key in enumerate(found.keys)}
    chain, rows = bare(model, power), []
    for tree in found.trees:
        load(model, chain, tree)
        here = Snapshot(chain.state)

        def run(rng, here=here):
            here.restore(chain.state)
            ladder_of(chain, step, rng)._move_locally(chain, power)
            return tree_key(chain.state)

        row = {}
        with np.errstate(over="ignore"):
            for probability, key in all_outcomes(run):
                row[key] = row.get(key, 0.0) + probability
            module("edits.grow").cut_down(chain.packed)
        rows.append(row_of_numbers(row, number))
    check_reversible(np.array(rows), level_distribution(arbitrary(model, power), model, found, power))


def bare(model, power):
    """A plain chain like `arbitrary`, its nodes in arrays that can be kept and put back."""
    like = arbitrary(model, power)
    kernels = module("kernel")
    kernel = kernels.read_kernel(dict.fromkeys(kernels.STEPS, 1.0))
    with np.errstate(over="ignore"):
        chain = module("chain.chain").Chain(model.lowered, kernel, np.random.default_rng(0))
    chain.state = chain.state._replace(graph=like.state.graph, density=like.state.density, power=like.state.power)
    chain.packed, chain.model = chain.state, like.model
    return chain


LADDERS, BLOCKS = 24, 250
LEVELS = np.array([1.0, 0.6, 0.25, 0.0])


def learned_chain(model, kernel, rng, n_trees=3):
    """A compiled chain with a density wrong at random, and a frozen graph of a few trees, wrong by about a nat."""
    chain = Chain(model.lowered, kernel, rng)
    p = len(model.lowered.split_prior.feature)
    density = first_density(p) + np.random.default_rng(1).normal(0.0, 0.3, first_density(p).shape)
    density[-1] = first_density(p)[-1]
    chain.state.density[...] = density
    graph = new_graph(2000, 2000)
    graph.used[GROWING] = 1
    chain.take(graph)
    done, weights = 0, np.empty(n_trees)
    while (done := draw_freely(chain.walk, weights, done)) < n_trees:
        chain.enlarge()
    graph.link.fixed += np.random.default_rng(2).normal(0.0, 1.0, len(graph.link))
    graph.used[GROWING] = 0
    chain.take(frozen(joined_graph([graph])))
    return chain


def new_ladder(model, seed, kernel="whole", powers=LEVELS):
    """A compiled ladder of stumps with such a density."""
    kernel = read_kernel(kernel)
    like = learned_chain(model, kernel, np.random.default_rng(7))
    ladder = WeightLadder(model.lowered, kernel, np.random.default_rng(seed), powers.copy())
    for chain in ladder.all_chains:
        chain.state.density[...] = like.state.density
        chain.take(like.state.graph)
    return ladder


@pytest.mark.parametrize(
    ("space", "kernel"),
    [
        (SPACES[0], "whole"),
        (("box", "stopped_by_depth", "laplace"), {"learned": 1.0, "grow-prune": 1.0}),
        (SPACES[2], {"learned": 0.2, "subgraph": 0.4, "collapsed": 0.4}),
        (SPACES[3], {"learned": 1.0}),
    ],
    ids=["whole", "two moves", "subgraph", "no local move"],
)
def test_every_level_has_its_distribution(space, kernel):
    """How often each tree, and each number of leaves, is met by independent ladders, against enumeration."""
    naive = case_problem(*space)
    model, entries = build_model(pt, naive), Reference(naive).entries
    judge, number, log_w = new_ladder(model, 0, kernel).all_chains[0], {}, []
    for i, (tree, *_) in enumerate(entries):
        load_tree(model, judge, library_tree(pt, naive, tree))
        number[tree_key(judge.state)] = i
        log_w.append(weigh(judge.walk))
        cut_down(judge.packed)
    counts = np.zeros((LADDERS, len(LEVELS), len(number)))
    for i in range(LADDERS):
        ladder = new_ladder(model, i, kernel)
        ladder.proceed(30)
        for _ in range(BLOCKS):
            ladder.proceed(1)
            for level, chain in enumerate(ladder.all_chains):
                counts[i, level, number[tree_key(chain.state)]] += 1.0 / BLOCKS
    log_pi = np.array([log_prior + log_score for _, log_prior, log_score in entries])
    leaves = np.array([count_leaves(tree) for tree, *_ in entries])
    for level, power in enumerate(LEVELS):
        log_level = log_pi + (power - 1.0) * np.array(log_w)
        expected = np.exp(log_level - log_level.max())
        check_frequencies(counts[:, level], expected / expected.sum(), leaves, f"power {power}")


def check_frequencies(found, expected, leaves, at):
    """Means over ladders (ladders, trees) are what is expected, by a t test over ladders."""
    events = [[i] for i in np.flatnonzero(expected > COMMON)] + [np.flatnonzero(leaves == n) for n in set(leaves)]
    events = [which for which in events if COMMON < expected[which].sum() < 1.0 - COMMON]
    limit = stats.t.isf(FALSE_ALARM / (2 * len(events)), df=len(found) - 1)
    for which in events:
        drawn = found[:, which].sum(axis=1)
        t = (drawn.mean() - expected[which].sum()) / (drawn.std(ddof=1) / math.sqrt(len(drawn)))
        assert abs(t) < limit, f"{at}: {expected[which].sum():.4f} expected, {drawn.mean():.4f} drawn, t = {t:.1f}"


def start_of_a_run(seed=0, **rest):
    """A ladder on a table of fractions, on its way, where trees have a few leaves."""
    model = pt.TreeModel(X, LABELS, nominal=[2], tree_prior=PRIOR, **rest)
    ladder = new_ladder(model, seed)
    ladder.proceed(21)
    return model, ladder


def tree_of(chain):
    """What a chain's tree is: nodes by preorder, rows and statistics in each."""
    state, todo, out = chain.state, [0], []
    while todo:
        here = state.node[(i := todo.pop())]
        rows = np.sort(state.order[here.start : here.stop]).tolist()
        out.append((int(here.left >= 0), rows, state.stats[i].tolist(), float(here.score), state.box[i].tolist()))
        todo += [here.right, here.left] if here.left >= 0 else []
    return out


@pytest.mark.parametrize("grows", [False, True])
def test_a_tree_is_put_back_as_it_was(grows):
    """Its lists and the nodes that are free too, where a chain was given more room in between."""
    model, ladder = start_of_a_run()
    for chain in ladder.all_chains:
        before, n_nodes = tree_of(chain), int(chain.state.count[N_NODES])
        kept = [getattr(chain.state, name).copy() for name in TREE]
        rows = int(chain.state.count[ROWS])
        if grows:
            chain.enlarge()
        for step in ("grow-prune", "collapsed", "rotate"):
            chain.make(chain.kernel.names.index(step), 30) if step in chain.kernel.names else None
        chain.enlarge() if grows else None
        visited = int(chain.state.count[ROWS])
        _put_back(chain, kept)
        assert visited > rows and int(chain.state.count[ROWS]) == visited
        assert tree_of(chain) == before and chain.state.count[N_NODES] == n_nodes
        free = chain.state.node.free[: chain.state.count[N_FREE]].tolist()
        assert sorted([*reached(chain), *free]) == list(range(len(chain.state.node)))
        check_state({name: getattr(chain.state, name) for name in ARRAYS}, model)


def reached(chain):
    """Places of the nodes of a chain's tree."""
    todo, out = [0], []
    while todo:
        out.append(i := todo.pop())
        here = chain.state.node[i]
        todo += [int(here.left), int(here.right)] if here.left >= 0 else []
    return out


KNOWN = ("cell", "ways", "table", "guide", "anchors", "ahead", "fractions", "own", "density")
OWN = ("order", "node", "stats", "box", "count", "power", "moves")


@pytest.mark.parametrize("split_prior", [None, pt.GridCuts(7)])
def test_what_is_known_of_cells_is_common_and_trees_are_not(split_prior):
    """As they are made, and later, when they were given more room."""
    model, ladder = start_of_a_run(split_prior=split_prior)
    for first, *others in (new_ladder(model, 0).all_chains, ladder.all_chains):
        for chain in others:
            for name in (*KNOWN, *OWN):
                shared = np.shares_memory(getattr(chain.state, name), getattr(first.state, name))
                assert shared == (name in KNOWN), name
    first, *others = ladder.all_chains
    before = [tree_of(chain) for chain in (first, *others)]
    first.make(first.kernel.names.index("collapsed"), 50)
    assert tree_of(first) != before[0]
    assert [tree_of(chain) for chain in others] == before[1:]


def test_levels_do_as_one_chain_alone_does():
    """What others leave in common scratch, and in what is kept of cells, changes nothing."""
    model, ladder = start_of_a_run()
    chain = ladder.all_chains[1]
    alone = learned_chain(model, read_kernel("whole"), np.random.default_rng(7))
    for step in chain.kernel.names:
        for one, before in ((alone, None), (chain, ladder.all_chains[2])):
            if before is not None:
                before.make(before.kernel.names.index(step), 20)
            cut_down(one.packed)
            one.state.power[0] = 0.6
            one.rng.bit_generator.state = np.random.default_rng(5).bit_generator.state
            one.make(one.kernel.names.index(step), 40)
        assert tree_key(alone.state) == tree_key(chain.state), step


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_a_ladder_stopped_goes_on_as_if_it_had_not(weight):
    """Where statistics are rounded too, so that the order in which rows were added matters."""
    model, ladder = start_of_a_run(sample_weight=weight)
    ladder.reserve(9)
    again = chain_from(snapshot_of(ladder, 0), model.lowered, ladder.all_chains[0].kernel)
    again.reserve(9)
    for one in (ladder, again):
        for _ in range(9):
            one.proceed(3)
            one.save()
    assert isinstance(again, WeightLadder) and again.trips == ladder.trips > 0
    assert_equal(snapshot_of(again, 0), snapshot_of(ladder, 0))
    assert np.array_equal(again.saved.tree_of_draw, ladder.saved.tree_of_draw)
    assert len(np.unique(ladder.saved.tree_of_draw)) > 3


def test_what_is_saved_is_the_tree_of_the_first_level():
    """Also one that came there by an exchange alone."""
    _, ladder = start_of_a_run()
    ladder.reserve(150)
    here = []
    for _ in range(150):
        ladder._exchange()
        here.append(tree_key(ladder.all_chains[0].state))
        ladder.save()
    number = ladder.saved.tree_of_draw.tolist()
    assert len(set(here)) > 1
    assert all((number[i] == number[i - 1]) == (here[i] == here[i - 1]) for i in range(1, 150))


def test_a_tree_that_the_density_has_not_stays_at_the_first_level(monkeypatch):
    """Elsewhere it gives way: no step would lead from it, and what it weighs is no number to compare."""
    _, ladder = start_of_a_run()
    states = {id(chain.walk): chain.state for chain in ladder.all_chains}
    monkeypatch.setattr(_weight_ladder, "weigh", lambda walk: math.inf if states[id(walk)].count[N_NODES] > 1 else 1.0)
    ladder.all_chains[0].make(ladder.all_chains[0].kernel.names.index("collapsed"), 50)
    with np.errstate(invalid="raise"):
        ladder._exchange()
    assert [int(chain.state.count[N_NODES] > 1) for chain in ladder.all_chains] == [1, 0, 0, 0]
    assert np.isfinite(ladder.acceptance).all()
