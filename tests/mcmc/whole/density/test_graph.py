"""The graph of what trees met, and the density: the posterior is in balance whatever they hold; sums of all trees."""

import math
from itertools import product
from zlib import crc32

import numpy as np
import pytest

from pactree_mcmc.testing.spaces import Stepper, new_chain, plain_package, with_records
from tests.mcmc.moves.test_noise import given_variance, noisy_chain
from tests.mcmc.planting import only_within, standing_in
from tests.mcmc.transitions import check_balance, load
from tests.problems.models import build_model
from tests.problems.spaces import case_problem
from tests.reference.enumeration import Reference

ROOM = 700
SPACES = [
    ("ties", "chipman", "dirichlet"),
    ("line_of_four", "penalty", "dirichlet"),
    ("line_of_four", "chipman", "nig"),
    ("box", "stopped_by_depth", "laplace"),
    ("weighted_line", "stopped_with_zero", "nig"),
    ("four_letters", "stopped", "dirichlet"),
    ("three_letters", "conditioned_by_depth", "known"),
    ("min_leaf_mixed", "penalty", "nig"),
    ("min_leaf_uneven", "conditioned", "poisson"),
    ("trivial_line", "chipman", "nig"),
    ("trivial_pair", "penalty_empty_cheap", "dirichlet"),
    ("grid_line", "stopped", "poisson"),
    ("grid_box", "chipman", "nig"),
    ("gaps_line", "chipman", "nig"),
    ("gaps_min_leaf", "chipman", "known"),
]
"""Cases, tree priors and leaves: every kind of split, with missing values, nominal features and empty cells."""
FEW = ("mcmc.sums.split_sums", "mcmc.whole.density.systematic")
"""Modules with the number of categories that count as few."""
MOST_TOPS = 7
"""Number of tops, exclusive, in a density of arbitrary parameters. Numbers below `MIN_TOP_DEPTHS` are among them."""
DENSITY_SPACES = [
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
DENSITY, GRAPH, TERMS = (f"mcmc.whole.density.{name}" for name in ("density", "graph", "terms"))
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


def module(name):
    return plain_package().module(f"mcmc.{name}")


def with_graph(model, graph, nodes=64):
    chain = new_chain(model, n_nodes=nodes)
    chain.state = chain.state._replace(graph=graph)
    chain.packed_state = chain.state
    return chain


def with_room(model, room=ROOM, nodes=64):
    graph = module("state.records").new_graph(room, room)
    graph.used[module("state.records").IS_GROWING] = 1
    return with_graph(model, with_records(graph), nodes)


def freeze(chain):
    """Let the graph grow no more, and value its pieces from the bottom up."""
    records, graph = module("state.records"), chain.state.graph
    graph.used[records.IS_GROWING] = 0
    depths = [piece.depth for piece in graph.piece[: graph.used[records.N_PIECES]]]
    module("whole.density.graph").evaluate_pieces(graph, np.argsort([-d for d in depths], kind="stable"))


def grown(model, n_trees, disturbed=0.0, seed=4):
    """A plain chain whose graph has met ``n_trees`` drawn by a larger one, what it says of them wrong by ``nats``."""
    chain, rng = with_room(model, nodes=ROOM), np.random.default_rng(seed)
    walk = module("chain.chain").PackedChain(rng, chain.model, chain.packed_state)
    with np.errstate(over="ignore"):
        assert module("moves.learned").sample_trees(walk, np.empty(n_trees), 0) == n_trees
    for link in chain.state.graph.link:
        link.fixed += disturbed * rng.normal()
    freeze(chain)
    return with_graph(model, chain.state.graph)


def prune_all(chain):
    with np.errstate(over="ignore"):
        while chain.state.count[module("state.records").N_PRUNABLE] > 0:
            module("edits.grow").prune(chain.packed_state, chain.state.node[0].prunable)


def unseen(chain):
    with np.errstate(over="ignore"):
        piece = chain.state.graph.piece[module("whole.density.graph").piece_of_node(chain.packed_state, 0)]
    links, e, g = chain.state.graph.link, piece.first, math.exp(piece.g_stop)
    while e >= 0:
        g, e = g + math.exp(links[e].g), links[e].next
    return max(1.0 - g, 0.0)


@pytest.mark.more(everyday=["ties-chipman-dirichlet-4", "min_leaf_uneven-conditioned-poisson-4"])
@pytest.mark.parametrize(("case", "prior", "leaf", "n_trees"), [(*space, n) for space in SPACES for n in (1, 4)])
def test_balance_by_a_graph(case, prior, leaf, n_trees):
    """Arbitrary weights, few trees met: some splits were seen, some were not, some cells are outside."""
    naive = case_problem(case, prior, leaf)
    chain = grown(build_model(plain_package().package, naive), n_trees, disturbed=1.0)
    check_balance(naive, "learned", chain=chain)


def all_met(naive):
    model = build_model(plain_package().package, naive)
    chain = with_room(model)
    for tree, *_ in trees_of(naive, model):
        load(model, chain, tree)
        with np.errstate(over="ignore"):
            module("whole.density.graph").add_tree(chain.model, chain.packed_state, 0)
        prune_all(chain)
    freeze(chain)
    return chain


def trees_of(naive, model):
    from tests.problems.trees import library_tree

    return [
        (library_tree(plain_package().package, naive, tree), log_prior, log_score)
        for tree, log_prior, log_score in Reference(naive).entries
    ]


@pytest.mark.more(everyday=["ties chipman dirichlet", "line_of_four penalty dirichlet"])
@pytest.mark.parametrize(("case", "prior", "leaf"), SPACES, ids=[" ".join(space) for space in SPACES])
def test_with_all_trees_met_the_root_has_the_evidence(case, prior, leaf, monkeypatch):
    """The recursion against enumeration, and every tree's weight is the same if no proposal by g is kept."""
    monkeypatch.setattr(module("whole.density.graph"), "KEEP_PROBABILITY", 1e-300)
    naive = case_problem(case, prior, leaf)
    chain = all_met(naive)
    joints = [log_prior + log_score for _, log_prior, log_score in Reference(naive).entries]
    largest = max(joints)
    evidence = largest + math.log(math.fsum(math.exp(v - largest) for v in joints))
    with np.errstate(over="ignore"):
        root = chain.state.graph.piece[module("whole.density.graph").piece_of_node(chain.packed_state, 0)]
    constant = float(chain.lowered.prior.log_constant)
    assert abs(root.value + constant - evidence) < 1e-9 and unseen(chain) < 1e-9
    model = build_model(plain_package().package, naive)
    for tree, log_prior, log_score in trees_of(naive, model)[::7]:
        load(model, chain, tree)
        with np.errstate(over="ignore"):
            log_g = module("whole.density.graph").log_density(chain.model, chain.packed_state, 0)
        prune_all(chain)
        assert abs(log_prior + log_score - log_g - evidence) < 1e-9


def test_joined_graphs_have_what_each_had():
    """Pieces and links of both, none twice, and the values of one graph that met the trees of both."""
    import pactree_mcmc as pt
    from pactree_mcmc.mcmc.chain.chain import Chain
    from pactree_mcmc.mcmc.kernel import read_kernel
    from pactree_mcmc.mcmc.state.records import IS_GROWING, N_LINKS, N_PIECES, new_graph
    from pactree_mcmc.mcmc.whole.density.graph import merge_graphs
    from pactree_mcmc.mcmc.whole.tasks import sample_independent

    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (40, 3)).astype(float), rng.integers(0, 2, 40)
    graphs = []
    for seed in (1, 2):
        chain = Chain(pt.TreeModel(X, y).lowered, read_kernel({"learned": 1.0}), np.random.default_rng(seed))
        chain.use_graph(new_graph(4000, 4000))
        chain.state.graph.used[IS_GROWING] = 1
        sample_independent(chain, 60)
        graphs.append(chain.state.graph)
    both, alone = merge_graphs(graphs), [merge_graphs([graph]) for graph in graphs]

    def pieces(graph):
        n = graph.used[N_PIECES]
        return set(zip(graph.piece.hash[:n].tolist(), graph.piece.depth[:n].tolist(), strict=True))

    def links(graph):
        out = set()
        for piece in graph.piece[: graph.used[N_PIECES]]:
            e = piece.first
            while e >= 0:
                link = graph.link[e]
                out.add((int(piece.hash), int(piece.depth), int(link.feature), int(link.cut), int(link.categories)))
                e = link.next
        assert len(out) == graph.used[N_LINKS]
        return out

    assert pieces(both) == pieces(alone[0]) | pieces(alone[1]) and links(both) == links(alone[0]) | links(alone[1])
    assert pieces(alone[0]) != pieces(alone[1])
    again = merge_graphs([both, both])
    assert np.array_equal(again.piece.value, both.piece.value)


def kept_for_certain(right, graph, at, e):
    """A stored decision has the probability of the graph alone, as if no proposal by g were kept."""
    piece = graph.piece[at]
    return (piece.stop if e < 0 else graph.link[e].weight) - piece.value


def as_they_come(right, model, state, node, feature, categories):
    """Categories that are not in the cell tell splits apart."""
    return categories


def stops_count_more(right, model, state, node):
    """A leaf weighs more than it does."""
    return right(model, state, node) + 0.1 * (state.node[node].left < 0)


BUGS = {
    "kept proposals forgotten": (("weighted_line", "chipman", "nig"), 4, "_log_stored_probability", kept_for_certain),
    "stop counted twice": (("box", "chipman", "dirichlet"), 1, "log_decision_probability", stops_count_more),
    "absent categories": (("three_letters", "chipman", "nig"), 4, "canonical_categories", as_they_come),
}
"""The space, how many trees the graph has met, the function, and what stands in for it."""


@pytest.mark.more(everyday=["kept proposals forgotten"])
@pytest.mark.planted
@pytest.mark.parametrize("bug", list(BUGS))
def test_errors_in_the_graph_are_noticed(bug, monkeypatch):
    space, n_trees, name, wrong = BUGS[bug]
    naive, graphs = case_problem(*space), module("whole.density.graph")
    chain = grown(build_model(plain_package().package, naive), n_trees, disturbed=1.0)
    right = getattr(graphs, name)
    monkeypatch.setattr(graphs, name, lambda *given: wrong(right, *given))
    with pytest.raises(AssertionError):
        check_balance(naive, "learned", chain=chain)


def test_a_tree_in_the_graph_is_kept_apart_by_depth():
    """A cell met at two depths has two pieces: what stops and splits there depends on the depth."""
    naive = case_problem("ties", "chipman", "dirichlet")
    chain = all_met(naive)
    pieces = chain.state.graph.piece[: chain.state.graph.used[module("state.records").N_PIECES]]
    assert len({piece.hash for piece in pieces}) < len(pieces)
    assert len({(piece.hash, piece.depth) for piece in pieces}) == len(pieces)


def piece_with(weights, log_g, stop, g_stop):
    """A graph of one piece whose links have these weights."""
    graph = with_records(module("state.records").new_graph(1, len(weights)))
    graph.used[:2] = 1, len(weights)
    piece = graph.piece[0]
    piece.first, piece.stop, piece.g_stop = len(weights) - 1, stop, g_stop
    for e, (weight, g) in enumerate(zip(weights, log_g, strict=True)):
        link = graph.link[e]
        link.fixed, link.g, link.left, link.right, link.next = weight, g, -1, -1, e - 1
    module("whole.density.graph").evaluate_piece(graph, 0)
    return piece


@pytest.mark.parametrize("apart", [0.0, 2.0, 40.0, 900.0])
def test_the_value_of_a_piece_is_the_sum_of_stored_decisions_over_their_probability(apart):
    """Importance sampling: the decisions that are not stored are as good as those that are."""
    piece = piece_with([0.0, -apart], [np.log(0.25), np.log(0.15)], -500.0, np.log(0.1))
    assert piece.value == pytest.approx(np.logaddexp.reduce([0.0, -apart, -500.0]) - np.log(0.5), abs=1e-9)


def test_a_piece_without_a_decision_of_positive_weight_has_no_value():
    assert piece_with([], [], -np.inf, -np.inf).value == -np.inf
    assert piece_with([-np.inf], [np.log(0.5)], -np.inf, -np.inf).value == -np.inf


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
@pytest.mark.parametrize(("step", "case", "prior", "leaf", "beta"), DENSITY_SPACES)
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


DENSITY_BUGS = {
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
@pytest.mark.parametrize("bug", list(DENSITY_BUGS))
def test_parameters_of_another_depth_are_noticed(bug, monkeypatch):
    step, case, changes = DENSITY_BUGS[bug]
    naive = case_problem(case, "chipman", "nig")
    for module, name, wrong in changes:
        where = plain_package().module(module)
        monkeypatch.setattr(where, name, standing_in(getattr(where, name), wrong))
    with pytest.raises(AssertionError):
        check_balance(naive, step, chain=with_arbitrary_density(naive))


def with_gaps(split_prior, leaf, seed=3, n=24):
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
@pytest.mark.parametrize(("split_prior", "leaf"), list(product(SPLIT_PRIORS, LEAVES)))
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
