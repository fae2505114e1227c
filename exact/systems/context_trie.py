"""The tree of all contexts that occurred, compiled. An example is a symbol with its context, and updates one path.

Each node holds the log ratio of its own estimate of the symbols counted so far to the product of the weighted estimates
of its children. With rho the probability that a context is extended, the probability of the next symbol is

    P_node(a)  =  (r * estimate(a) + P_child(a)) / (r + 1) ,
    r  =  (1 - rho) / rho  *  product over the past examples of estimate / P_child ,

where the child is the context that is longer by one symbol. log r stays small for a sequence of any length, so that
predictions lose no digits (Willems and Tjalkens's form of `compute_inside`, on one path).
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from pactree_mcmc.core.bits import hash_integer
from pactree_mcmc.core.compile.jit import jit

N_NODES, N_ENTRIES = range(2)  # entries of `Trie.counters`: numbers of nodes, and of entries of the hash table
NO_NODE = -1  # key of a free entry, or child that does not exist


class Trie(NamedTuple):
    """Nodes, one for each context that occurred, and a hash table with the child and count of each (node, symbol)."""

    key: np.ndarray  # (2^b,) int64: node times n_symbols plus symbol; -1 for a free entry
    child: np.ndarray  # (2^b,) int64: node of the context longer by the symbol, -1 if it has none
    # (2^b,) int64: how often the symbol followed the node's context
    count: np.ndarray  # type: ignore[assignment]  # tuples have a method of this name
    # (cap,) float64: log of stop times own estimate over split times the product of the children's values
    log_ratio: np.ndarray
    total: np.ndarray  # (cap,) int64: examples with the node's context
    depth: np.ndarray  # (cap,) int64: length of the context
    counters: np.ndarray  # (2,) int64: nodes and entries in use
    sums: np.ndarray  # (2,) float64: sum of the log predictive probabilities so far, and its rounding error


def new_trie(first_ratio: np.ndarray, capacity: int = 1024) -> Trie:
    """Return a trie that has only the root, the empty context, with room for ``capacity`` nodes, a power of 2."""
    # first_ratio is the log prior odds, by depth, that a context of this length is not extended
    trie = Trie(
        np.full(4 * capacity, NO_NODE, dtype=np.int64),
        np.full(4 * capacity, NO_NODE, dtype=np.int64),
        np.zeros(4 * capacity, dtype=np.int64),
        np.zeros(capacity),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity, dtype=np.int64),
        np.array([1, 0]),
        np.zeros(2),
    )
    trie.log_ratio[0] = first_ratio[0]
    return trie


def with_double_capacity(trie: Trie) -> Trie:
    """Return the same trie with room for twice as many nodes (contexts) and entries."""
    nodes = {"log_ratio": trie.log_ratio, "total": trie.total, "depth": trie.depth}
    columns = {name: np.concatenate([values, np.zeros_like(values)]) for name, values in nodes.items()}
    empty = np.full(2 * len(trie.key), NO_NODE, dtype=np.int64)
    out = trie._replace(**columns, key=empty, child=empty.copy(), count=np.zeros_like(empty))
    reinsert_entries(out, trie.key, trie.child, trie.count)
    return out


@jit
def reinsert_entries(trie: Trie, key: np.ndarray, child: np.ndarray, count: np.ndarray) -> None:
    """Insert the entries of an old hash table, with columns ``key``, ``child`` and ``count``, into that of ``trie``."""
    for i in range(len(key)):
        if key[i] != NO_NODE:
            place = find_place(trie.key, key[i])
            trie.key[place], trie.child[place], trie.count[place] = key[i], child[i], count[i]


@jit
def find_place(keys: np.ndarray, key: int) -> int:
    """Return the place of a key (node times n_symbols plus symbol) in the hash table, or of the free entry for it."""
    mask = len(keys) - 1
    place = hash_integer(key) & mask
    while keys[place] != NO_NODE and keys[place] != key:
        place = (place + 1) & mask
    return place


@jit
def find_or_insert(trie: Trie, key: int) -> int:
    """Return the place of a key in the hash table, and insert the key if it is new."""
    place = find_place(trie.key, key)
    if trie.key[place] == NO_NODE:
        trie.key[place] = key
        trie.counters[N_ENTRIES] += 1
    return place


@jit
def add_examples(
    trie: Trie,
    contexts: np.ndarray,
    symbols: np.ndarray,
    first: int,
    n_symbols: int,
    alpha: float,
    first_ratio: np.ndarray,
    out: np.ndarray,
) -> int:
    """Count the examples from `first` on while the trie has room, and return the next example."""
    # each is predicted, into `out`, before it is counted; if the trie is full, the caller doubles it and calls again
    depth = contexts.shape[1]
    path, entries = np.empty(depth + 1, dtype=np.int64), np.empty(depth + 1, dtype=np.int64)
    for i in range(first, len(symbols)):
        n_nodes, n_entries = trie.counters[N_NODES] + depth, trie.counters[N_ENTRIES] + 2 * depth + 1
        if n_nodes > len(trie.total) or 2 * n_entries > len(trie.key):
            return i
        path[0] = 0
        for d in range(depth):
            place = find_or_insert(trie, path[d] * n_symbols + contexts[i, d])
            if trie.child[place] == NO_NODE:
                new = trie.counters[N_NODES]
                trie.child[place], trie.log_ratio[new], trie.depth[new] = new, first_ratio[d + 1], d + 1
                trie.counters[N_NODES] += 1
            path[d + 1] = trie.child[place]
        for d in range(depth + 1):
            entries[d] = find_or_insert(trie, path[d] * n_symbols + symbols[i])
        out[i] = log(_count_and_predict(trie, path, entries, n_symbols, alpha))
        _add_exactly(trie.sums, out[i])
    return len(symbols)


@jit
def _count_and_predict(trie: Trie, path: np.ndarray, entries: np.ndarray, n_symbols: int, alpha: float) -> float:
    """Return the predictive probability of a symbol, and count the symbol in the contexts on one path."""
    # each context mixes its own estimate with that of the next longer one
    weighted = 0.0
    for d in range(len(path) - 1, -1, -1):
        node, place = path[d], entries[d]
        estimate = (trie.count[place] + alpha) / (trie.total[node] + n_symbols * alpha)
        trie.count[place] += 1
        trie.total[node] += 1
        if d == len(path) - 1:
            weighted = estimate
        else:
            ratio, longer = trie.log_ratio[node], weighted
            weighted = mix_probabilities(ratio, estimate, longer)
            trie.log_ratio[node] = ratio + log(estimate) - log(longer)
    return weighted


@jit
def mix_probabilities(log_ratio: float, estimate: float, longer: float) -> float:
    """Return the mean of a context's own estimate and that of the longer ones, by their log odds `log_ratio`."""
    if log_ratio > 0.0:
        fraction = exp(-log_ratio)
        return (estimate + fraction * longer) / (1.0 + fraction)
    fraction = exp(log_ratio)
    return (fraction * estimate + longer) / (1.0 + fraction)


@jit
def _add_exactly(sums: np.ndarray, term: float) -> None:
    """Add a term to the sum ``sums[0]``, and its rounding error to ``sums[1]`` (Neumaier's summation)."""
    total = sums[0] + term
    sums[1] += (sums[0] - total) + term if abs(sums[0]) >= abs(term) else (term - total) + sums[0]
    sums[0] = total


@jit
def predict_into(out: np.ndarray, trie: Trie, contexts: np.ndarray, alpha: float) -> None:
    """Write predictive probabilities (n, n_symbols) after contexts (n, depth), most recent first, into ``out``."""
    depth, n_symbols = contexts.shape[1], out.shape[1]
    path = np.empty(depth + 1, dtype=np.int64)
    for i in range(len(contexts)):
        last, path[0] = 0, 0
        while last < depth:
            place = find_place(trie.key, path[last] * n_symbols + contexts[i, last])
            if trie.key[place] == NO_NODE or trie.child[place] == NO_NODE:
                break
            path[last + 1] = trie.child[place]
            last += 1
        for a in range(n_symbols):
            # contexts never seen predict uniformly at any length
            weighted = 1.0 / n_symbols
            for d in range(last, -1, -1):
                node = path[d]
                place = find_place(trie.key, node * n_symbols + a)
                count = trie.count[place] if trie.key[place] != NO_NODE else 0
                estimate = (count + alpha) / (trie.total[node] + n_symbols * alpha)
                weighted = estimate if d == depth else mix_probabilities(trie.log_ratio[node], estimate, weighted)
            out[i, a] = weighted
