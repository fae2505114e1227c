"""Context trees, and every tree of a graph, by plain recursion."""

import math
from itertools import product

from scipy.special import gammaln


def log_estimate(counts, alpha):
    """Log of the Dirichlet mixture of sequences with these counts."""
    prior, total = alpha * len(counts), sum(counts)
    return sum(gammaln(c + alpha) - gammaln(alpha) for c in counts) + gammaln(prior) - gammaln(total + prior)


def counts_after(pairs, context, m):
    """Return the counts of each symbol after a context, most recent symbol first."""
    found = [0] * m
    for before, symbol in pairs:
        if tuple(before[: len(context)]) == context:
            found[symbol] += 1
    return found


def log_weighted(pairs, depth, m, alpha, rho, context=()):
    """Log of the mixture over all sources below a context; ``rho`` by length."""
    own = log_estimate(counts_after(pairs, context, m), alpha)
    d = len(context)
    if d == depth:
        return own
    below = sum(log_weighted(pairs, depth, m, alpha, rho, (*context, a)) for a in range(m))
    return float(math.log((1 - rho[d]) * math.exp(own) + rho[d] * math.exp(below)))


def sources(depth, m, context=()):
    """All sets of contexts that make a tree below a context."""
    found = [[context]]
    if len(context) < depth:
        for below in product(*(sources(depth, m, (*context, a)) for a in range(m))):
            found.append([leaf for part in below for leaf in part])
    return found


def log_joint(pairs, source, depth, m, alpha, rho):
    """Log prior plus log probability of the symbols under one source."""
    inner = {leaf[:d] for leaf in source for d in range(len(leaf))}
    total = sum(math.log(rho[len(s)]) for s in inner)
    for leaf in source:
        total += math.log(1 - rho[len(leaf)]) if len(leaf) < depth else 0.0
        total += log_estimate(counts_after(pairs, leaf, m), alpha)
    return float(total)


def slots_of(graph, cell, depth):
    """The slot of a cell at a depth."""
    return int(graph.first_slot[cell]) + (depth - int(graph.depth[cell]) if graph.layered else 0)


def derivations(graph, cell=0, depth=0):
    """Every tree below a cell at a depth: (log weight, leaves as (cell, slot), splits as (edge, slot))."""
    slot = slots_of(graph, cell, depth)
    found = [(float(graph.log_stop[slot]), [(cell, slot)], [])]
    if graph.log_split[slot] > -math.inf:
        for e in range(int(graph.first_edge[cell]), int(graph.first_edge[cell + 1])):
            weight = float(graph.log_split[slot] + graph.log_rule[e])
            rights = derivations(graph, int(graph.right[e]), depth + 1)
            for left_weight, left_leaves, left_splits in derivations(graph, int(graph.left[e]), depth + 1):
                for right_weight, right_leaves, right_splits in rights:
                    split_prior = [(e, slot), *left_splits, *right_splits]
                    found.append((weight + left_weight + right_weight, left_leaves + right_leaves, split_prior))
    return [tree for tree in found if tree[0] > -math.inf]


def log_sum(weights):
    """Log of the sum of exp."""
    top = max(weights)
    return top + math.log(math.fsum(math.exp(w - top) for w in weights))
