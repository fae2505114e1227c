"""Context-tree weighting: the mixture of all tree sources of bounded depth, one symbol at a time.

The tree of all contexts that occurred is compiled. An example is a symbol with its context, and updates one path. Each
node holds the log ratio of its own estimate of the symbols counted so far to the product of the weighted estimates of
its children. With rho the probability that a context is extended, the probability of the next symbol is

    P_node(a)  =  (r * estimate(a) + P_child(a)) / (r + 1) ,
    r  =  (1 - rho) / rho  *  product over the past examples of estimate / P_child ,

where the child is the context that is longer by one symbol. log r stays small for a sequence of any length, so that
predictions lose no digits (Willems and Tjalkens's form of `compute_inside`, on one path).
"""

from __future__ import annotations

import math
from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import hash_integer
from pactree_mcmc.core.checks import check_count, check_number, read_array, read_numbers, repr_of
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.special import gammaln
from pactree_mcmc.core.texts import with_short_repr

from ..graph.cells import CellGraph, graph_of_single_splits
from ..sums import best_sums, log_sum

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


FIRST_CAPACITY = 1024  # number of nodes for which a new trie has room, a power of 2


def new_trie(first_ratio: np.ndarray) -> Trie:
    """Return a trie that has only the root, the empty context, with room for `FIRST_CAPACITY` nodes."""
    # first_ratio is the log prior odds, by depth, that a context of this length is not extended
    trie = Trie(
        np.full(4 * FIRST_CAPACITY, NO_NODE, dtype=np.int64),
        np.full(4 * FIRST_CAPACITY, NO_NODE, dtype=np.int64),
        np.zeros(4 * FIRST_CAPACITY, dtype=np.int64),
        np.zeros(FIRST_CAPACITY),
        np.zeros(FIRST_CAPACITY, dtype=np.int64),
        np.zeros(FIRST_CAPACITY, dtype=np.int64),
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


MAX_CONTEXTS_PER_CHUNK = 1 << 18  # number of contexts of a sequence that are copied into one table at a time
LEAST_ALPHA, MOST_ALPHA = 1e-100, 1e100  # smallest and largest ``alpha`` accepted


@with_short_repr
class TreeSource(NamedTuple):
    """A tree source: contexts of which every sequence ends in exactly one. Only contexts that occurred are listed."""

    contexts: list[tuple[int, ...]]
    """The contexts, most recent symbol first."""
    counts: np.ndarray
    """(n_contexts, n_symbols) int64: counts of the symbols after each context."""
    probability: np.ndarray
    """(n_contexts, n_symbols): predictive probabilities after each context."""
    log_probability: float
    """Log posterior probability of the source, nats."""


class ContextTreeWeighting:
    """Bayesian mixture over all tree sources whose contexts are at most ``depth`` symbols long.

    A context is extended by one more symbol with probability ``rho``, up to ``depth`` symbols. In each context symbols
    are independent with a Dirichlet prior on their probabilities, integrated out: with ``alpha = 1/2`` the estimator of
    Krichevsky and Trofimov. The mixture depends only on counts, so examples may come in any order.

    Parameters
    ----------
    depth : int
        Largest length of a context, 0 to 4095.
    n_symbols : int
        Size of the alphabet, >= 2; symbols are 0 to n_symbols - 1.
    alpha : float, default 0.5
        Prior count of each symbol, > 0.
    rho : float or array of shape (depth,), default 0.5
        Probability, in [0, 1), that a context is extended. An array gives it for each length of the context.

    Attributes
    ----------
    context : ndarray of shape (m,), int64
        The last symbols of the sequence given to `update`, most recent first; m is ``depth`` if there are as many.

    Notes
    -----
    An example costs O(depth) time, and about 60 bytes for each new (context, symbol).
    Willems, Shtarkov, Tjalkens (1995), The context-tree weighting method: basic properties, IEEE Trans. Inform. Theory
    41(3).

    Examples
    --------
    >>> ctw = ContextTreeWeighting(depth=2, n_symbols=2)
    >>> ctw.update([0, 1] * 20).shape
    (38,)
    >>> ctw.predict_proba([[1, 0]]).round(3).tolist()
    [[0.975, 0.025]]
    >>> round(ctw.code_length, 2)
    6.92
    """

    def __init__(self, depth: int, n_symbols: int, *, alpha: float = 0.5, rho: Any = 0.5) -> None:
        for name, value, least, most in (("depth", depth, 0, 4_095), ("n_symbols", n_symbols, 2, 1 << 31)):
            check_count(name, value, least, most)
        self.depth, self.n_symbols = int(depth), int(n_symbols)
        requirement = f"a number in {LEAST_ALPHA:g}..{MOST_ALPHA:g}"
        self.alpha = check_number("alpha", alpha, requirement, LEAST_ALPHA, MOST_ALPHA)
        by_depth = read_numbers("rho", rho)
        if by_depth.shape not in ((), (self.depth,)):
            raise ValueError(f"rho has shape {by_depth.shape}; give a number, or one for each depth below {depth}.")
        by_depth = np.broadcast_to(by_depth, self.depth)
        if not np.all((by_depth >= 0.0) & (by_depth < 1.0)):
            raise ValueError(f"rho={repr_of(rho)} is out of range; give 0 <= rho < 1.")
        with np.errstate(divide="ignore"):
            self._log_split = np.append(np.log(by_depth), -np.inf)
        self._log_stop = np.append(np.log1p(-by_depth), 0.0)
        self._first_ratio = self._log_stop - self._log_split
        self._trie = new_trie(self._first_ratio)
        self.context = np.empty(0, dtype=np.int64)

    def add(self, contexts: Any, symbols: Any) -> np.ndarray:
        """Count examples, in any order.

        Parameters
        ----------
        contexts : array of shape (n, depth)
            The symbols before each example, most recent first.
        symbols : array of shape (n,)
            The symbol after each context.

        Returns
        -------
        ndarray of shape (n,), float64
            Log probability, nats, with which each symbol was predicted from the examples before it.

        """
        contexts_read, symbols = self._read_contexts(contexts), self._read_symbols(symbols, "symbols", 1)
        if len(contexts_read) != len(symbols):
            raise ValueError(f"there are {len(contexts_read)} contexts and {len(symbols)} symbols; give as many.")
        out = np.empty(len(symbols))
        n_added = 0
        while n_added < len(symbols):
            settings = self.n_symbols, self.alpha, self._first_ratio
            n_added = add_examples(self._trie, contexts_read, symbols, n_added, *settings, out)
            if n_added < len(symbols):
                self._trie = with_double_capacity(self._trie)
        return out

    def update(self, sequence: Any) -> np.ndarray:
        """Append symbols to the sequence and count them. The first ``depth`` symbols of all serve only as context.

        Parameters
        ----------
        sequence : array of shape (n,)
            Symbols, of any number, also 0.

        Returns
        -------
        ndarray of shape (m,), float64
            Log predictive probability, nats, of each symbol with ``depth`` symbols before it; m is n minus the number
            of symbols that only served as context.

        """
        symbols = np.concatenate([self.context[::-1], self._read_symbols(sequence, "sequence", 1)])
        d = self.depth
        out = [np.empty(0)]
        for begin in range(d, len(symbols), MAX_CONTEXTS_PER_CHUNK):
            end = min(begin + MAX_CONTEXTS_PER_CHUNK, len(symbols))
            places = np.arange(begin, end)[:, None] - np.arange(1, d + 1)
            out.append(self.add(symbols[places], symbols[begin:end]))
        self.context = symbols[::-1][:d].copy()
        return np.concatenate(out)

    def predict_proba(self, contexts: Any) -> np.ndarray:
        """Return probabilities (n, n_symbols) of the symbol after each context (n, depth), most recent symbol first."""
        before = self._read_contexts(contexts)
        out = np.empty((len(before), self.n_symbols))
        predict_into(out, self._trie, before, self.alpha)
        return out

    @property
    def log_evidence(self) -> float:
        """Log probability of all symbols counted so far, nats."""
        return float(self._trie.sums.sum())

    @property
    def code_length(self) -> float:
        """Length in bits of the code of all symbols counted so far: minus the log evidence to base 2."""
        return -self.log_evidence / math.log(2.0)

    @property
    def n_seen(self) -> int:
        """Number of symbols counted so far."""
        return int(self._trie.total[0])

    def best_source(self) -> TreeSource:
        """Return the most probable tree source; O((context, symbol) pairs seen)."""
        graph, cell_of = self.graph()
        best = best_sums(graph)
        parent, symbol, child, count = _entries(self._trie, self.n_symbols)
        contexts: list[tuple[int, ...]] = []
        stack: list[tuple[int, tuple[int, ...]]] = [(0, ())]
        counts_of = []
        while stack:
            node, context = stack.pop()
            entries = slice(*np.searchsorted(parent, [node, node + 1]))
            if best[cell_of[node]] > graph.log_stop[cell_of[node]]:
                longer = zip(symbol[entries].tolist(), child[entries].tolist(), strict=True)
                stack += [(c, (*context, a)) for a, c in reversed(list(longer)) if c != NO_NODE]
            else:
                contexts.append(context)
                counts_of.append(np.bincount(symbol[entries], weights=count[entries], minlength=self.n_symbols))
        counts = np.array(counts_of).astype(np.int64)
        probability = (counts + self.alpha) / (counts.sum(axis=1, keepdims=True) + self.n_symbols * self.alpha)
        return TreeSource(contexts, counts, probability, float(best[0] - self.log_evidence))

    def depth_pmf(self) -> np.ndarray:
        """Return the posterior distribution (depth + 1,) of the length of the longest context of a source.

        Cost: ``depth`` passes over all (context, symbol) pairs.
        """
        graph = self.graph()[0]
        below = np.empty(self.depth + 1)
        can_stop = graph.log_stop > -np.inf
        for d in range(self.depth + 1):
            log_split = np.where(can_stop & (graph.depth >= d), -np.inf, graph.log_split)
            below[d] = log_sum(graph._replace(log_split=log_split))
        return np.diff(np.exp(below - below[-1]), prepend=0.0)

    def graph(self) -> tuple[CellGraph, np.ndarray]:
        """Return the contexts that occurred as a graph of cells, and the number (n_contexts,) of the cell of each.

        A context that is extended has a child for each symbol. The graph makes these children by a chain of binary
        splits, of which all but the first have probability one. Extensions never seen are equivalent: for each length
        there are cells that represent one, two, ... of them together.
        """
        trie, m, depth = self._trie, self.n_symbols, self.depth
        n_nodes = int(trie.counters[N_NODES])
        parent, _, child, _ = _entries(trie, m)
        parent, child = parent[child != NO_NODE], child[child != NO_NODE]
        length = trie.depth[:n_nodes]
        n_children = np.bincount(parent, minlength=n_nodes)
        inner, n_missing = length < depth, m - n_children
        # a chain of cells for each context; for each length its chains come first, then m - 1 cells of unseen contexts
        n_cells = np.where(inner, np.maximum(n_children + (n_missing > 0) - 1, 1), 1)
        by_length = np.argsort(length, kind="stable")
        cell = np.empty(n_nodes, dtype=np.int64)
        cell[by_length] = np.cumsum(n_cells[by_length]) - n_cells[by_length]
        cell += (m - 1) * np.maximum(length - 1, 0)
        n_above = np.cumsum(np.bincount(length, weights=n_cells, minlength=depth + 1)).astype(np.int64)
        unseen = n_above + (m - 1) * np.arange(depth + 1)
        # cell unseen[d] - k is the one of k unseen contexts of length d
        total = int(unseen[-1])
        left, right = np.full(total, NO_NODE), np.full(total, NO_NODE)
        depths, stop, split = np.zeros(total, dtype=np.int64), np.full(total, -np.inf), np.zeros(total)

        # cell j of a chain divides its context into child j and the others, which are cell j + 1
        rank = _ranks(n_children)
        first = rank < n_cells[parent]
        left[(cell[parent] + rank)[first]] = cell[child[first]]
        chain_cells = np.repeat(cell[inner], n_cells[inner]) + _ranks(n_cells[inner])
        right[chain_cells] = chain_cells + 1
        # the others of the last cell are all unseen, or the last child if no context is unseen
        last, has_children = cell + n_cells - 1, inner & (n_children > 0)
        right[last[has_children]] = unseen[length[has_children] + 1] - n_missing[has_children]
        has_all_children = has_children & (n_missing == 0)
        right[last[has_all_children]] = cell[child[np.cumsum(n_children)[has_all_children] - 1]]
        for node in np.flatnonzero(inner & (n_children == 0)):
            left[cell[node]], right[cell[node]] = unseen[length[node] + 1] - 1, unseen[length[node] + 1] - m + 1
        # k unseen contexts are one and k - 1; one has m longer ones, which are one and m - 1
        for d in range(1, depth + 1):
            several = np.arange(unseen[d] - m + 1, unseen[d] - 1)
            depths[unseen[d] - m + 1 : unseen[d]] = d
            left[several], right[several] = unseen[d] - 1, several + 1
            stop[unseen[d] - 1], split[unseen[d] - 1] = self._log_stop[d], self._log_split[d]
            if d < depth:
                left[unseen[d] - 1], right[unseen[d] - 1] = unseen[d + 1] - 1, unseen[d + 1] - m + 1
        depths[chain_cells] = np.repeat(length[inner], n_cells[inner])
        depths[cell] = length
        score, rows = np.zeros(total), np.zeros(total, dtype=np.int64)
        score[cell], rows[cell] = self._scores(n_nodes), trie.total[:n_nodes]
        stop[cell], split[cell] = self._log_stop[length] + score[cell], self._log_split[length]
        by_cell = rows, rows[:, None].astype(np.float64), score, np.zeros(total, dtype=np.int32), depths
        return graph_of_single_splits(left, right, depths, by_cell, stop, split), cell

    def _scores(self, n_nodes: int) -> np.ndarray:
        """Return the log marginal likelihood (n_nodes,), nats, of the symbols after each context of the trie."""
        node, _, _, count = _entries(self._trie, self.n_symbols)
        gains = np.bincount(node, weights=gammaln(count + self.alpha) - gammaln(self.alpha), minlength=n_nodes)
        prior = self.n_symbols * self.alpha
        return gains + gammaln(prior) - gammaln(self._trie.total[:n_nodes] + prior)

    def _read_contexts(self, contexts: Any) -> np.ndarray:
        """Check contexts, and return them as an array (n, depth)."""
        before = self._read_symbols(contexts, "contexts", 2)
        if before.shape[1] != self.depth:
            raise ValueError(f"contexts has shape {before.shape}; give {self.depth} symbols a row, most recent first.")
        return before

    def _read_symbols(self, symbols: Any, name: str, ndim: int) -> np.ndarray:
        """Check that symbols are integers of the alphabet in an array of ``ndim`` dimensions, and return them."""
        values = read_array(name, symbols)
        if values.size == 0:
            values = values.astype(np.int64)
        if values.ndim != ndim or values.dtype.kind not in "iub":
            raise ValueError(f"{name} has dtype {values.dtype} and shape {values.shape}; give integers, ndim {ndim}.")
        is_outside = (values < 0) | (values >= self.n_symbols)
        if is_outside.any():
            place = tuple(int(i) for i in np.argwhere(is_outside)[0])
            where = place if ndim > 1 else place[0]
            raise ValueError(f"{name} holds {values[place]} at {where}; symbols are 0..{self.n_symbols - 1}.")
        return np.ascontiguousarray(values, dtype=np.int64)

    def __repr__(self) -> str:
        return (
            f"ContextTreeWeighting(depth={self.depth}, n_symbols={self.n_symbols}, {self.n_seen} symbols, "
            f"code_length={self.code_length:.1f} bits)"
        )


def context_tree_weighting(
    symbols: Any, depth: int, n_symbols: int, *, alpha: float = 0.5, rho: Any = 0.5
) -> ContextTreeWeighting:
    """Return the mixture of tree sources after a sequence whose first ``depth`` symbols serve only as context.

    Parameters
    ----------
    symbols : array of shape (n,)
        Integers 0 to n_symbols - 1; n > depth.
    depth, n_symbols, alpha, rho
        As for `ContextTreeWeighting`.

    Examples
    --------
    >>> ctw = context_tree_weighting([0, 1, 1] * 200, depth=4, n_symbols=2)
    >>> ctw.best_source().contexts
    [(0,), (1, 0), (1, 1)]
    """
    ctw = ContextTreeWeighting(depth, n_symbols, alpha=alpha, rho=rho)
    symbols = read_array("symbols", symbols)
    if symbols.ndim == 1 and len(symbols) <= depth:
        raise ValueError(f"a sequence of {len(symbols)} symbols has none with {depth} before it; give a longer one.")
    ctw.update(symbols)
    return ctw


def _entries(trie: Trie, n_symbols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return node, symbol, child (-1 if none) and count of all (node, symbol) pairs of the trie, in this order."""
    entries = np.flatnonzero(trie.key != NO_NODE)
    entries = entries[np.argsort(trie.key[entries])]
    node, symbol = np.divmod(trie.key[entries], n_symbols)
    return node, symbol, trie.child[entries], trie.count[entries]


def _ranks(sizes: np.ndarray) -> np.ndarray:
    """Return the ranks 0, 1, ..., size - 1 within each of consecutive groups of these ``sizes``, concatenated."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
