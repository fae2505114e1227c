"""Draws added to graphs: trees rebuilt from what was saved of them, and what the graph of each team holds then."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import FIRST_NODES, Chain
from pactree_mcmc.mcmc.chain.draw_store import join_draws, select_draws, trim_draws
from pactree_mcmc.mcmc.chain.start import load_tree
from pactree_mcmc.mcmc.course import even_indices
from pactree_mcmc.mcmc.edits.grow import prune_all, restore_saved_tree
from pactree_mcmc.mcmc.edits.replace_subtree import MAX_DRAWN_INTERNAL
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.moves.learned import add_saved_trees
from pactree_mcmc.mcmc.run.records import Stretch, Tuned
from pactree_mcmc.mcmc.run.run import Run
from pactree_mcmc.mcmc.run.run_chain import RunChain, draw, tune
from pactree_mcmc.mcmc.state.records import IS_GROWING, N_FREE, N_LINKS, N_NODES, N_PIECES, initial_density, new_graph
from pactree_mcmc.mcmc.whole import rounds as _rounds
from pactree_mcmc.mcmc.whole import tasks as _tasks
from pactree_mcmc.mcmc.whole.density.graph import MIN_FREE_ENTRIES, add_tree, is_drawable
from pactree_mcmc.mcmc.whole.rounds import has_room_in_graphs, with_draws_in_graphs
from pactree_mcmc.mcmc.whole.tasks import add_draws, set_growing
from pactree_mcmc.posterior.draws import Draws
from tests.mcmc.run.test_executors import AtOnce
from tests.problems.lazy import MadeWhenUsed
from tests.problems.runs import LABELS, MODELS, PRIOR, X, Y, assert_equal, chain_at, done, request_of

ROOM = 20_000
KERNEL = read_kernel({"learned": 0.05, "collapsed": 0.5, "change": 0.1, "swap": 0.1, "rotate": 0.25}, 60)
GAPPED = X.copy()
GAPPED[::7, 0] = GAPPED[3::11, 2] = np.nan
NAMES = np.array(["a", "b", "c", "d", "e", "f"], dtype=object)[(X[:, 0] // 2).astype(int)]
MANY = np.column_stack([NAMES, X[:, 1].astype(object), X[:, 2].astype(object)])
MODELS_HERE = MadeWhenUsed(
    {
        **{name: partial(MODELS.__getitem__, name) for name in MODELS if name != "shared variance"},
        "cyclic": lambda: pt.TreeModel(X[:, :2], Y, split_prior=pt.DyadicCuts(3, cyclic=True), tree_prior=PRIOR),
        "gaps": lambda: pt.TreeModel(GAPPED, LABELS, nominal=[2], missing="branch", tree_prior=PRIOR),
        "gaps, grid": lambda: pt.TreeModel(
            GAPPED[:, :2], Y, split_prior=pt.GridCuts(6), missing="branch", tree_prior=PRIOR
        ),
        "gaps, dyadic": lambda: pt.TreeModel(
            GAPPED[:, :2], Y, split_prior=pt.DyadicCuts(3), missing="branch", tree_prior=PRIOR
        ),
        "nominal": lambda: pt.TreeModel(MANY, LABELS, nominal=[0, 2], tree_prior=PRIOR),
        "nominal grid": lambda: pt.TreeModel(
            MANY, LABELS, nominal=[0, 2], split_prior=pt.GridCuts(4), tree_prior=PRIOR
        ),
        "large leaves": lambda: pt.TreeModel(
            MANY, Y, nominal=[0], split_prior=pt.LocalCuts(min_leaf=4), tree_prior=PRIOR
        ),
        "trivial nominal": lambda: pt.TreeModel(
            MANY[:12],
            Y[:12],
            nominal=[0, 2],
            split_prior=pt.LocalCuts(trivial=True),
            tree_prior=pt.ChipmanPrior(0.9, 0.5, max_depth=4),
        ),
        "weighted features": lambda: pt.TreeModel(
            X, LABELS, nominal=[2], split_prior=pt.LocalCuts(feature_weights=[1, 2, 5]), tree_prior=PRIOR
        ),
    }
)


def drawn(model, n=25, seed=5, thin=1):
    """Draws of a chain, as it saves them."""
    chain = Chain(model.lowered, KERNEL, np.random.default_rng(seed))
    chain.reserve(n)
    for _ in range(n):
        chain.run_blocks(thin)
        chain.save()
    return trim_draws(chain.saved)


def nodes_of(saved):
    start = np.asarray(saved.tree)["start"]
    return start[:-1].copy(), start[1:].copy()


def empty_chain(model, room=ROOM):
    chain = Chain(model.lowered, KERNEL, np.random.default_rng(1))
    density = chain.state.density
    density[:-1] += np.random.default_rng(2).normal(0.0, 0.3, density[:-1].shape)
    set_growing(chain, new_graph(), room)
    return chain


def rebuilt(model, saved):
    """The same trees, each made by compiled code from the saved one and saved again."""
    chain = empty_chain(model)
    chain.reserve(len(saved.tree) - 1)
    for first, last in zip(*nodes_of(saved), strict=True):
        while not restore_saved_tree(chain.model, chain.packed_state, saved.node, first, last):
            chain.enlarge()
        assert chain.state.count[N_NODES] == last - first
        chain.save(as_new=True)
    return trim_draws(chain.saved)


@pytest.mark.more(everyday=["classes", "fractions of classes"])
@pytest.mark.parametrize("name", list(MODELS_HERE))
def test_a_rebuilt_tree_is_the_saved_one(name):
    """Node by node; its sums, prior and score to rounding, as the rows lie in another order."""
    saved = drawn(MODELS_HERE[name], 60)
    again = rebuilt(MODELS_HERE[name], saved)
    assert len(saved.tree) > 20 and np.diff(saved.tree.start).max() >= 5
    for field in saved.node.dtype.names:
        assert np.array_equal(again.node[field], saved.node[field]), field
    assert np.array_equal(again.tree.start, saved.tree.start)
    assert again.stats == pytest.approx(saved.stats, rel=1e-12, abs=1e-12)
    for field in ("log_prior", "log_score"):
        assert again.tree[field] == pytest.approx(saved.tree[field], rel=1e-11, abs=1e-11), field


def contents(graph):
    """What a graph holds by cell and depth: numbers of the piece, and of its links by split and children."""
    n, key = (
        int(graph.used[N_PIECES]),
        lambda i: (int(graph.piece[i].hash), int(graph.piece[i].depth)) if i >= 0 else None,
    )
    out, n_links = {}, 0
    for i in range(n):
        piece, links, e = graph.piece[i], {}, int(graph.piece[i].first)
        while e >= 0:
            link = graph.link[e]
            split = tuple(int(link[field]) for field in ("feature", "cut", "upper", "categories"))
            assert split not in links
            links[(*split, key(int(link.left)), key(int(link.right)))] = [
                link.log_rule,
                link.fixed,
                link.g,
                link.weight,
            ]
            e, n_links = int(link.next), n_links + 1
        assert key(i) not in out
        out[key(i)] = [piece.stop, piece.g_stop, piece.value], links
    assert n_links == graph.used[N_LINKS]
    return out


def assert_alike(one, other):
    one, other = contents(one), contents(other)
    assert set(one) == set(other)
    for at, (numbers, links) in one.items():
        assert numbers == pytest.approx(other[at][0], rel=1e-8, abs=1e-8) and set(links) == set(other[at][1])
        for split, weights in links.items():
            assert weights == pytest.approx(other[at][1][split], rel=1e-8, abs=1e-8)


def one_by_one(model, saved, trees=None, chain=None):
    """The graph of trees read as those of a posterior, loaded and added in turn."""
    chain = empty_chain(model) if chain is None else chain
    drawn = Draws.join(model, [saved], moves=KERNEL.count_names)
    for number in np.unique(saved.tree_of_draw, return_index=True)[1] if trees is None else trees:
        prune_all(chain.packed_state)
        load_tree(model, chain, drawn.distinct_tree(drawn.tree_of_draw[0, number]))
        if is_drawable(chain.model, chain.packed_state, np.int64(0)):
            add_tree(chain.model, chain.packed_state, np.int64(0))
    return chain.state.graph


def taken_in(model, saved, chain=None):
    """The graph of trees rebuilt in compiled code, the chain, and how often it was enlarged."""
    chain, n, done = empty_chain(model) if chain is None else chain, 0, 0
    first, last = nodes_of(saved)
    while (done := int(add_saved_trees(chain.packed_chain, saved.node, first, last, done))) < len(first):
        chain.enlarge()
        n += 1
    assert chain.state.count[N_NODES] == 1 and chain.state.count[N_FREE] == len(chain.state.node) - 1
    return chain.state.graph, n


@pytest.mark.more(everyday=["classes", "fractions of classes"])
@pytest.mark.parametrize("name", list(MODELS_HERE))
def test_the_graph_holds_what_trees_added_one_by_one_give_it(name):
    saved = drawn(MODELS_HERE[name], 200)
    graph, _ = taken_in(MODELS_HERE[name], saved)
    assert graph.used[N_PIECES] > 10 and graph.used[N_LINKS] > 5
    assert_alike(graph, one_by_one(MODELS_HERE[name], saved))


# room

LARGE = pt.TreeModel(
    np.random.default_rng(1).random((400, 1)),
    np.random.default_rng(2).random(400) < 0.5,
    tree_prior=pt.ChipmanPrior(0.99, 0.0),
    split_prior=pt.LocalCuts(),
    leaf=pt.PacBayesLoss(0.0),
)


def large_draws():
    """Trees of a few nodes, of more than a chain has room for at first, and of more than the density draws."""
    saved = drawn(LARGE, 120, thin=6)
    sizes = np.diff(saved.tree.start)
    assert sizes.min() < FIRST_NODES < 2 * FIRST_NODES < 2 * MAX_DRAWN_INTERNAL < sizes.max()
    return saved


@pytest.mark.more
def test_room_that_runs_out_in_between_changes_nothing():
    """Twice and more; the tree at which it did is begun again."""
    saved, ample = large_draws(), empty_chain(LARGE)
    for _ in range(6):
        ample.enlarge()
    expected, n = taken_in(LARGE, saved, ample)
    assert n == 0
    graph, n = taken_in(LARGE, saved)
    assert n > 2
    assert_alike(graph, expected)
    assert_alike(graph, one_by_one(LARGE, saved))


def test_a_full_graph_takes_no_more():
    """What it holds is part of what a larger one does, and the trees are gone through all the same."""
    saved = drawn(MODELS_HERE["numbers"], 80)
    whole, _ = taken_in(MODELS_HERE["numbers"], saved)
    graph, _ = taken_in(MODELS_HERE["numbers"], saved, empty_chain(MODELS_HERE["numbers"], room=MIN_FREE_ENTRIES + 40))
    assert 40 < graph.used.max() <= MIN_FREE_ENTRIES + 40 and graph.used[N_PIECES] < whole.used[N_PIECES]
    some, every = contents(graph), contents(whole)
    assert all(set(links) <= set(every[at][1]) for at, (_, links) in some.items())


def result_of(name, draws=40, seed=9):
    model = MODELS_HERE[name] if isinstance(name, str) else name
    request = request_of(model, KERNEL, draws=draws)
    chain, tuned = chain_at(request, seed)
    done(tune(chain, tuned, 5, 5))
    done(draw(chain, tuned, draws, 1, True))
    return request, chain, chain.take_draws()


def tuned_of(n_teams=1):
    return Tuned(KERNEL, 5, 0, np.array([initial_density()] * n_teams), tuple(new_graph() for _ in range(n_teams)))


def graph_with(chain, *draws):
    """The graph of a chain with these draws."""
    tuned = tuned_of()
    chain.use(tuned)
    return done(add_draws(chain, tuned, ROOM, _rounds.ROUND_TREES, draws))


@pytest.fixture
def nothing_fresh(monkeypatch):
    monkeypatch.setattr(_rounds, "ROUND_TREES", 0)


def splits_in(*graphs):
    """Links of graphs, by the cell and depth of their pieces; numbers apart, which hang on what joined them."""
    found = {}
    for graph in graphs:
        for at, (_, links) in contents(graph).items():
            found.setdefault(at, set()).update(links)
    return found


@pytest.mark.more(everyday=["whole-1"])
@pytest.mark.parametrize("most", [1, 7, 1000])
@pytest.mark.parametrize("part", ["whole", "every second", "joined"])
def test_draws_evenly_spaced_are_taken_in(nothing_fresh, monkeypatch, most, part):
    """Their first and last among them; what chains drew and know stays as it was."""
    monkeypatch.setattr(_tasks, "MAX_ADDED_DRAWS", most)
    request, chain, saved = result_of("numbers")
    if part == "every second":
        saved = select_draws(saved, even_indices(40, 20))
    if part == "joined":
        done(draw(chain, chain.current, 30, 1, True))
        saved = join_draws(saved, chain.take_draws())
    state, n = chain.sampler.rng.bit_generator.state, len(saved.tree_of_draw)
    which = [0] if most == 1 else sorted({i * (n - 1) // (most - 1) for i in range(most)}) if most < n else range(n)
    graph = graph_with(chain, saved)
    assert graph.used[IS_GROWING] == 0 and chain.sampler.state.graph.used[N_PIECES] == 0
    assert chain.sampler.rng.bit_generator.state == state
    other = Chain(request.model.lowered, KERNEL, np.random.default_rng(1))
    set_growing(other, new_graph(), ROOM)
    assert splits_in(graph) == splits_in(one_by_one(request.model, saved, which, other))


def run_of(teams, executor=None, draws=40):
    """A run whose chains are in teams of given numbers and have draws, and the splits of the draws of each."""
    model, results = MODELS_HERE["classes"], [result_of("classes", draws, seed) for seed in range(1, len(teams) + 1)]
    alone = []
    for _, _, saved in results:
        chain = Chain(model.lowered, KERNEL, np.random.default_rng(1))
        set_growing(chain, new_graph(), ROOM)
        alone.append(splits_in(one_by_one(model, saved, range(draws), chain)))
    assert len({frozenset(one) for one in alone}) == len(teams)
    request = request_of(model, KERNEL)._replace(starts=("grown",) * len(teams))
    chains = [RunChain(c, chain.rest._replace(team=teams[c])) for c, (_, chain, _) in enumerate(results)]
    for chain in chains:
        chain.steps = chain.rest.steps
    tuned, stretch = tuned_of(len(set(teams))), Stretch(0, False, 0, 1, draws)
    return Run(request, tuned, stretch, chains, [saved for _, _, saved in results], executor, False), alone


def union(parts):
    """Splits of several graphs."""
    found = {}
    for part in parts:
        for at, links in part.items():
            found.setdefault(at, set()).update(links)
    return found


@pytest.mark.more(everyday=["None-(0, 0, 0)", "None-(0, 1, 0)", "ThreadPoolExecutor-(0, 1, 0, 1, 0)"])
@pytest.mark.parametrize("teams", [(0, 0, 0), (0, 1), (0, 1, 0), (0, 1, 0, 1, 0)], ids=str)
@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor])
def test_the_draws_of_all_chains_are_in_the_graph_of_every_team(nothing_fresh, executor, teams):
    """Each chain stands where it stood. With the same draws once more the graphs stay as they are."""
    run, alone = run_of(teams, executor and executor(2))
    before = [chain.rest for chain in run.chains]
    run.tuned = with_draws_in_graphs(run)
    assert len({id(graph) for graph in run.tuned.graphs}) == len(set(teams))
    for chain, rest in zip(run.chains, before, strict=True):
        assert_equal(chain.at_rest().rest, rest)
    for _ in range(2):
        for graph in run.tuned.graphs:
            assert splits_in(graph) == union(alone) and graph.used[IS_GROWING] == 0
        run.tuned = with_draws_in_graphs(run)


def test_a_team_keeps_its_graph_if_a_worker_is_lost(nothing_fresh):
    run, alone = run_of((0, 1, 0), AtOnce(1))
    first, second = with_draws_in_graphs(run).graphs
    assert first is run.tuned.graphs[0] and run.up == [0, 1, 2] and splits_in(second) == union(alone)


def test_draws_are_added_to_graphs_with_room_alone(nothing_fresh, monkeypatch):
    run, _ = run_of((0, 1))
    empty = run.tuned
    assert not has_room_in_graphs(run)
    run.tuned = grown = with_draws_in_graphs(run)
    assert has_room_in_graphs(run)
    run.tuned = empty._replace(graphs=(grown.graphs[0], empty.graphs[1]))
    assert not has_room_in_graphs(run)
    run.tuned = empty._replace(density=None, graphs=())
    assert not has_room_in_graphs(run)
    run.tuned, used = grown, max(int(graph.used.max()) for graph in grown.graphs)
    for most, has_room in ((used + 2 * MIN_FREE_ENTRIES, True), (used, False)):
        monkeypatch.setattr(_rounds, "MAX_GRAPH_PIECES", most)
        assert has_room_in_graphs(run) == has_room


def test_draws_fresh_from_the_density_come_on_top():
    request, at_end, saved = result_of("classes")
    chain = Chain(request.model.lowered, KERNEL, np.random.default_rng(1))
    set_growing(chain, new_graph(), ROOM)
    seen = splits_in(one_by_one(request.model, saved, range(40), chain))
    graph = splits_in(graph_with(at_end, saved))
    assert all(links <= graph[at] for at, links in seen.items()) and len(graph) > len(seen)
