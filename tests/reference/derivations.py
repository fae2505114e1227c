"""Every tree of a small graph of cells, written out; nothing here is fast or clever."""

import math


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
