"""The graph of what trees met: the posterior is in balance whatever it holds, and its sums are those of all trees."""

import math

import numpy as np
import pytest

from pactree_mcmc.testing.spaces import plain_package, with_records
from tests.mcmc.balance import check_balance
from tests.mcmc.transitions import load, new_chain
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


def module(name):
    return plain_package().module(f"mcmc.{name}")


def with_graph(model, graph, nodes=64):
    """A plain chain at the stump, with a graph."""
    chain = new_chain(model, n_nodes=nodes)
    chain.state = chain.state._replace(graph=graph)
    chain.packed_state = chain.state
    return chain


def with_room(model, room=ROOM, nodes=64):
    """A plain chain at the stump whose empty graph may grow."""
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
    """A plain chain whose graph has met ``n_trees`` drawn by it, what it says of them wrong by so many nats.

    Trees are drawn by a chain with room for the largest; that of all its nodes would be put back after every outcome.
    """
    chain, rng = with_room(model, nodes=ROOM), np.random.default_rng(seed)
    walk = module("chain.chain").PackedChain(rng, chain.model, chain.packed_state)
    with np.errstate(over="ignore"):
        assert module("moves.learned").sample_trees(walk, np.empty(n_trees), 0) == n_trees
    for link in chain.state.graph.link:
        link.fixed += disturbed * rng.normal()
    freeze(chain)
    return with_graph(model, chain.state.graph)


def prune_all(chain):
    """Bring a plain chain back to the stump."""
    with np.errstate(over="ignore"):
        while chain.state.count[module("state.records").N_PRUNABLE] > 0:
            module("edits.grow").prune(chain.packed_state, chain.state.node[0].prunable)


def unseen(chain):
    """Probability that the root's split is none of those seen."""
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
    """A plain chain whose graph has met every tree there is."""
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
    """Library trees with what the naive enumerator says of them."""
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
    assert abs(root.value + constant - evidence) < 1e-9
    assert unseen(chain) < 1e-9
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

    assert pieces(both) == pieces(alone[0]) | pieces(alone[1])
    assert links(both) == links(alone[0]) | links(alone[1])
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
    """Then the density alone decides."""
    assert piece_with([], [], -np.inf, -np.inf).value == -np.inf
    assert piece_with([-np.inf], [np.log(0.5)], -np.inf, -np.inf).value == -np.inf
