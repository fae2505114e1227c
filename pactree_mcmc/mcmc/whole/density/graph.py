"""The graph of visited cells, and estimates of the sums over all subtrees of each.

A *piece* is a cell at a depth. It has a *link* for each split that some tree had there, with the pieces of both
children. With ``s_0 = log p(stop) + score`` and ``s_q = log p(split) + log R(q | u) + V(u0) + V(u1)`` for the stored
splits, the log sum of prior times likelihood over all subtrees of u is estimated from the bottom up by importance
sampling:

    V(u) = log sum_stored e^s - log G,      G = sum_stored g

with g the density (`density`). A *decision* at u is to stop or to take one of the splits. It is proposed from g. If the
graph contains it, one of the stored decisions is drawn instead, in proportion to ``e^s``, unless the proposal is kept,
with probability k (`KEEP_PROBABILITY`). So

    P(q | u) = k g(q) + (1 - k) e^(s_q - V(u))   if q is stored,      P(q | u) = g(q)   otherwise.

Outside the graph g decides. For a tree all of whose links are stored, ``log pi(T) - log P(T)`` is V of the root but for
the part k, whatever the errors of the density. That part bounds the errors of V: a split with which only poor subtrees
were found is still drawn by g. While the graph grows, it is larger. The sums are those of section 6 of the formulas on
the graph of section 12.4. The graph grows with every tree drawn in the last rounds of tuning, and is then frozen.
"""

from math import exp, inf, log
from typing import Any

import numpy as np

from ....core.bits import hash_integer
from ....core.compile.jit import jit, pack
from ....core.special import log_add
from ....model import Lowered
from ...edits.carry_over import cell_categories
from ...edits.replace_subtree import MAX_DRAWN_INTERNAL
from ...state.lists import is_leaf
from ...state.random import flip
from ...state.records import IS_GROWING, N_LINKS, N_PIECES, NONE, ChainState, Graph, new_graph
from ...state.splits import Split
from ...state.terms import next_node, node_log_split, node_log_stop
from ...sums.split_sums import is_candidate
from .density import draw_guided_split, evaluate_cell, log_split_probability

# probability that a decision proposed from g is kept although the graph contains it, and in a growing graph, so that
# branches in which only poor subtrees were found are explored again (benchmarks/README.md)
KEEP_PROBABILITY, KEEP_PROBABILITY_GROWING = 0.02, 0.25
# number of pieces, and of links, that must be free to add a tree. A tree has at most ``2 * MAX_DRAWN_INTERNAL + 1``
# nodes, and compiled code does not check the bounds of arrays.
MIN_FREE_ENTRIES = 4 * MAX_DRAWN_INTERNAL


@jit
def find_piece(graph: Any, cell_hash: int, depth: int) -> int:
    """Return the index of the piece with this hash and depth, or -1 - slot with its free entry of the hash table."""
    slots, slot = graph.slot, hash_integer(cell_hash + depth * np.int64(0x9E3779B1))
    slot = (slot ^ (slot >> 32)) & (len(slots) - 1)
    while slots[slot] >= 0:
        piece = graph.piece[slots[slot]]
        if piece.hash == cell_hash and piece.depth == depth:
            return np.int64(slots[slot])
        slot = (slot + 1) & (len(slots) - 1)
    return -1 - slot


@jit
def piece_of_node(state: ChainState, node: int) -> int:
    """Return the index of a node's piece, or -1 if the graph has none with a value V."""
    index = find_piece(state.graph, state.node[node].hash, state.node[node].depth)
    return np.int64(NONE) if index < 0 or state.graph.piece[index].value == -inf else index


@jit
def find_link(graph: Any, piece_index: int, feature: int, cut: int, categories: int) -> int:
    """Return the index of a piece's link, the stored split with this feature and cut or categories, or -1."""
    # `cut` is ignored if `categories`, from `canonical_categories`, is not -1
    link_index = np.int64(graph.piece[piece_index].first)
    while link_index >= 0:
        link = graph.link[link_index]
        if link.feature == feature and link.categories == categories and (categories >= 0 or link.cut == cut):
            return link_index
        link_index = np.int64(link.next)
    return link_index


@jit
def canonical_categories(model: Lowered, state: ChainState, node: int, feature: int, categories: int) -> int:
    """Return the categories of a node's cell on the same side as its first one, so that a partition has one name."""
    # 0 if all categories go right, -1 for an ordered feature
    if categories < 0:
        return categories
    present = cell_categories(model, state, node, feature)
    left = categories & present
    return left if left == 0 or left & present & -present != 0 else present & ~left


@jit
def find_link_of_node(model: Lowered, state: ChainState, piece_index: int, node: int) -> int:
    """Return the index of a piece's link for the split of an internal node of the same cell, or -1 if there is none."""
    here = state.node[node]
    categories = canonical_categories(model, state, node, here.feature, here.categories)
    return find_link(state.graph, piece_index, here.feature, here.cut, categories)


@jit
def evaluate_piece(graph: Any, piece_index: int) -> None:
    """Compute V of a piece and the log terms `weight` of its links from the values of the children's pieces."""
    # V estimates the log sum of prior times likelihood over the subtrees of a cell at a depth
    piece, links, pieces = graph.piece[piece_index], graph.link, graph.piece
    largest, e = piece.stop, np.int64(piece.first)
    while e >= 0:
        link = links[e]
        link.weight = link.fixed
        if link.left >= 0:
            link.weight += pieces[link.left].value
        if link.right >= 0:
            link.weight += pieces[link.right].value
        largest = max(largest, link.weight)
        e = np.int64(link.next)
    total, e = exp(piece.stop - largest) if piece.stop > -inf else 0.0, np.int64(piece.first)
    total_g = exp(piece.g_stop)
    while e >= 0:
        total += exp(links[e].weight - largest)
        total_g += exp(links[e].g)
        e = np.int64(links[e].next)
    # V = log sum_stored e^s - log G, with G = sum_stored g, at most 1 but for rounding
    piece.value = largest + log(total) - log(min(total_g, 1.0)) if total > 0.0 and total_g > 0.0 else -inf


@jit
def evaluate_pieces(graph: Any, order: np.ndarray) -> None:
    """Compute V (`evaluate_piece`) of all pieces, from their indices in `order`, children first."""
    for at in order:
        evaluate_piece(graph, at)


@jit
def log_g_of_split(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log probability by the learned density, without graph, to split an internal node and by its split."""
    return state.stored.guide[evaluate_cell(model, state, node)].log_split + log_split_probability(model, state, node)


@jit
def draw_decision(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> tuple[Split, float]:
    """Draw a split of a splittable node, or feature NONE to stop, and return it with its log probability."""
    # propose from the learned density; if the graph has the proposal, mostly draw a stored one instead
    split, log_g = _propose_decision(rng, model, state, node)
    piece_index, link_index = piece_of_node(state, node), np.int64(NONE)
    if piece_index < 0:
        return split, log_g
    if split.feature != NONE:
        sides = canonical_categories(model, state, node, split.feature, split.categories)
        link_index = find_link(state.graph, piece_index, split.feature, split.cut, sides)
        if link_index < 0:
            return split, log_g
    if not flip(rng, keep_probability(state.graph)):
        split, link_index = _draw_stored_decision(rng, state, piece_index)
    return split, _log_stored_probability(state.graph, piece_index, link_index)


@jit
def keep_probability(graph: Any) -> float:
    """Return the probability that a decision proposed from g is kept although the graph contains it."""
    return KEEP_PROBABILITY_GROWING if graph.used[IS_GROWING] else KEEP_PROBABILITY


@jit
def _log_stored_probability(graph: Any, piece_index: int, e: int) -> float:
    """Return the log probability that `draw_decision` draws link `e` of a piece, or stops if it is -1."""
    piece, keep_p = graph.piece[piece_index], keep_probability(graph)
    weight, log_g = (piece.stop, piece.g_stop) if e < 0 else (graph.link[e].weight, graph.link[e].g)
    # P = k g + (1 - k) e^(s - V), with k = keep_p
    return log_add(log(keep_p) + log_g, log(1.0 - keep_p) + weight - piece.value)


@jit
def _propose_decision(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> tuple[Split, float]:
    """Draw a split of a splittable node from the learned density, or feature NONE to stop, with its log probability."""
    # only splits that the split prior admits are drawn; the node must have one
    guide = state.stored.guide[evaluate_cell(model, state, node)]
    log_p, log_stop = guide.log_split, guide.log_stop
    if not flip(rng, exp(log_p)):
        return Split(np.int64(NONE), np.int64(0), np.int64(0), np.int64(0), 0.0), log_stop
    split, log_g = draw_guided_split(rng, model, state, node)
    return split, log_p + log_g


@jit
def _draw_stored_decision(rng: np.random.Generator, state: ChainState, piece_index: int) -> tuple[Split, int]:
    """Draw one of the decisions of a piece in proportion to its term; return the split and its link, or NONE and -1."""
    piece, links = state.graph.piece[piece_index], state.graph.link
    # sum_stored e^(s - V) = G, or 1 if G is larger, so that no exponential overflows
    stop = exp(piece.stop - piece.value)
    total, e = stop, np.int64(piece.first)
    while e >= 0:
        total += exp(links[e].weight - piece.value)
        e = np.int64(links[e].next)
    remaining, e = rng.random() * total - stop, np.int64(piece.first)
    if remaining < 0.0 or e < 0:
        return Split(np.int64(NONE), np.int64(0), np.int64(0), np.int64(0), 0.0), np.int64(NONE)
    while True:
        link = links[e]
        remaining -= exp(link.weight - piece.value)
        if remaining < 0.0 or link.next < 0:
            break
        e = np.int64(link.next)
    return Split(np.int64(link.feature), np.int64(link.cut), np.int64(link.upper), link.categories, link.log_rule), e


@jit
def log_decision_probability(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log probability that `draw_decision` draws the split of a node, or stops if the node is a leaf."""
    piece_index, link_index = piece_of_node(state, node), np.int64(NONE)
    if not is_leaf(state, node):
        link_index = find_link_of_node(model, state, piece_index, node) if piece_index >= 0 else link_index
        if link_index < 0:
            return log_g_of_split(model, state, node)
    if piece_index < 0:
        return state.stored.guide[evaluate_cell(model, state, node)].log_stop
    return _log_stored_probability(state.graph, piece_index, link_index)


@jit
def log_density(model: Lowered, state: ChainState, top: int) -> float:
    """Return the log probability that `draw_decision`, from cell to cell, draws the subtree at node ``top``."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            total += log_decision_probability(model, state, node)
        node = next_node(state, node, top)
    return total


@jit
def is_drawable(model: Lowered, state: ChainState, top: int) -> bool:
    """Return True if the learned density can draw the subtree at ``top``."""
    # it has not too many internal nodes, and no split of many categories that `draw_scanned` leaves out
    n_internal, node = 0, np.int64(top)
    while node != NONE:
        if not is_leaf(state, node):
            n_internal += 1
            if n_internal > MAX_DRAWN_INTERNAL or not is_candidate(model, state, node):
                return False
        node = next_node(state, node, top)
    return True


@jit
def add_tree(model: Lowered, state: ChainState, top: int) -> None:
    """Add the subtree at node ``top``, which the density must be able to draw, to the graph, and update its values."""
    # nothing is done if the graph is frozen or has no room, or if the chain is tempered
    graph, note = state.graph, state.scratch.note
    if graph.used[IS_GROWING] == 0 or state.beta[0] != 1.0:
        return
    if graph.used[N_PIECES] + MIN_FREE_ENTRIES > len(graph.piece) or graph.used[N_LINKS] + MIN_FREE_ENTRIES > len(
        graph.link
    ):
        return
    n, node = np.int64(0), np.int64(top)
    while node != NONE:
        note[n].preorder, note[node].piece = node, NONE
        if state.node[node].splittable:
            piece_index = find_piece(graph, state.node[node].hash, state.node[node].depth)
            if piece_index < 0:
                piece_index = _add_piece(model, state, node, -1 - piece_index)
            note[node].piece = piece_index
        n += 1
        node = next_node(state, node, top)
    for i in range(n - 1, -1, -1):
        node = note[i].preorder
        if note[node].piece >= 0:
            if not is_leaf(state, node):
                _add_link(model, state, node, note[node].piece)
            evaluate_piece(graph, note[node].piece)


@jit
def _add_piece(model: Lowered, state: ChainState, node: int, slot: int) -> int:
    """Add a piece for the cell of a node, without links and value, at ``slot`` of the hash table. Return its index."""
    graph, here = state.graph, state.node[node]
    piece_index = graph.used[N_PIECES]
    graph.used[N_PIECES] += 1
    graph.slot[slot] = piece_index
    piece = graph.piece[piece_index]
    piece.hash, piece.depth, piece.first = here.hash, here.depth, NONE
    piece.stop = node_log_stop(model, state, node) + here.score
    piece.g_stop = state.stored.guide[evaluate_cell(model, state, node)].log_stop
    return piece_index


@jit
def _add_link(model: Lowered, state: ChainState, node: int, piece_index: int) -> None:
    """Add the link of an internal node's split to its piece, if it is new. Splittable children must have pieces."""
    graph, here, note = state.graph, state.node[node], state.scratch.note
    sides = canonical_categories(model, state, node, here.feature, here.categories)
    if find_link(graph, piece_index, here.feature, here.cut, sides) >= 0:
        return
    link_index, piece = graph.used[N_LINKS], graph.piece[piece_index]
    graph.used[N_LINKS] += 1
    link = graph.link[link_index]
    link.feature, link.cut, link.upper, link.categories = here.feature, here.cut, here.upper, sides
    link.log_rule, link.g = here.log_rule, log_g_of_split(model, state, node)
    link.left, link.right = note[here.left].piece, note[here.right].piece
    link.fixed = here.log_rule + node_log_split(model, state, node)
    for child in (here.left, here.right):
        if note[child].piece < 0:
            link.fixed += node_log_stop(model, state, child) + state.node[child].score
    link.next, piece.first = piece.first, link_index


@jit
def add_graph(graph: Any, other: Any) -> None:
    """Add the pieces and links of ``other`` that ``graph`` lacks, as far as there is room."""
    # `evaluate_pieces` must follow
    index_in_graph = np.empty(other.used[N_PIECES], dtype=np.int64)
    for i in range(len(index_in_graph)):
        piece = other.piece[i]
        piece_index = find_piece(graph, piece.hash, np.int64(piece.depth))
        if piece_index < 0 and graph.used[N_PIECES] < len(graph.piece):
            slot, piece_index = -1 - piece_index, graph.used[N_PIECES]
            graph.used[N_PIECES] += 1
            graph.slot[slot] = piece_index
            graph.piece[piece_index] = piece
            graph.piece[piece_index].first = NONE
        index_in_graph[i] = piece_index
    for i in range(len(index_in_graph)):
        piece_index, link_index = index_in_graph[i], np.int64(other.piece[i].first)
        while piece_index >= 0 and link_index >= 0:
            link, new_link = other.link[link_index], graph.used[N_LINKS]
            left = index_in_graph[link.left] if link.left >= 0 else np.int64(NONE)
            right = index_in_graph[link.right] if link.right >= 0 else np.int64(NONE)
            has_children = (left >= 0 or link.left < 0) and (right >= 0 or link.right < 0)
            is_new = find_link(graph, piece_index, link.feature, link.cut, link.categories) < 0
            if is_new and has_children and new_link < len(graph.link):
                graph.used[N_LINKS] += 1
                graph.link[new_link] = link
                graph.link[new_link].left, graph.link[new_link].right = left, right
                graph.link[new_link].next = graph.piece[piece_index].first
                graph.piece[piece_index].first = new_link
            link_index = np.int64(link.next)


def with_capacity(graph: Graph, n_pieces: int, n_links: int) -> Graph:
    """Return a copy of a graph with room for ``n_pieces`` pieces and ``n_links`` links in all."""
    copy = new_graph(n_pieces, n_links)
    copy.used[:] = graph.used
    copy_graph(pack(graph), pack(copy))
    return copy


@jit
def copy_graph(graph: Any, copy: Any) -> None:
    """Copy the pieces and links of a graph into ``copy``, which has room for them and an empty hash table ``slot``."""
    # the links of a piece get consecutive places, in the same order, so that they are read from memory one after
    # another
    n_links = np.int64(0)
    for i in range(graph.used[N_PIECES]):
        piece, e = graph.piece[i], np.int64(graph.piece[i].first)
        copy.piece[i] = piece
        copy.slot[-1 - find_piece(copy, piece.hash, np.int64(piece.depth))] = i
        if e >= 0:
            copy.piece[i].first = n_links
        while e >= 0:
            copy.link[n_links] = graph.link[e]
            e = np.int64(graph.link[e].next)
            if e >= 0:
                copy.link[n_links].next = n_links + 1
            n_links += 1


def merge_graphs(graphs: list[Graph]) -> Graph:
    """Return a frozen graph with all pieces and links of several graphs, with new values V, without spare entries."""
    n_pieces, n_links = (sum(int(graph.used[i]) for graph in graphs) for i in (N_PIECES, N_LINKS))
    merged = with_capacity(graphs[0], max(n_pieces, 1), max(n_links, 1))
    packed = pack(merged)
    for other in graphs[1:]:
        add_graph(packed, pack(other))
    trimmed_graph = with_capacity(merged, max(int(merged.used[N_PIECES]), 1), max(int(merged.used[N_LINKS]), 1))
    trimmed_graph.used[IS_GROWING] = 0
    order = np.argsort(-trimmed_graph.piece.depth[: trimmed_graph.used[N_PIECES]], kind="stable")
    evaluate_pieces(pack(trimmed_graph), order)
    return trimmed_graph
