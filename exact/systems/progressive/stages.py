"""The graph of cells unrolled in time, with one copy of a cell for each number of its test examples seen so far.

A progressive mixture sees test examples one by one. *Stage* M is the state after the first M of them.

The prediction of a progressive mixture is ``1 / L * sum over M = 0, ..., L - 1 of Q^(M)``, with Q^(M) the posterior
given the first M examples (formulas, section 5). All these posteriors are sums over one graph. Copy ``j`` of a cell,
with its first ``j`` examples, is split into the copies of its children that have seen the same examples:

    inside_(A, j)  =  stop_(A, j)  +  sum over splits e of  split_A * R_e * inside_(left, i) * inside_(right, j - i) ,

where i of the first j examples of A go to the left. A copy is shared by all stages between two examples that pass
through the cell. The parent of the copies of the root is a cell that chooses a stage uniformly; its other child is an
empty leaf. So any recursion over a graph of cells averages over the stages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.leaf.compiled import leaf_score
from pactree_mcmc.model.rows import UnitStats, add_unit

from ...graph.boxes import sends_left
from ...graph.cells import CellGraph, pack_graph
from ...sums import log_sums


class Examples(NamedTuple):
    """All rows in the order in which they are seen. Those seen before the first stage come first."""

    codes: np.ndarray  # (q, n) unsigned: codes of the coordinates
    row_stats: UnitStats  # Statistics that each row adds to its cells
    n_before: int  # Number of rows seen before the first stage


class CellExamples(NamedTuple):
    """The examples that pass through each cell."""

    first: np.ndarray  # (n_cells + 1,) int64: cell c has entries first[c] to first[c + 1] - 1 of ``example``
    example: np.ndarray  # int32: numbers of the examples of each cell in the order in which they are seen, ascending
    n_staged: np.ndarray  # (n_cells,) int64: number of the cell's examples, the last ones, that are seen one by one


class UnrolledGraph(NamedTuple):
    """The graph unrolled over the stages, with copies of the cells and splits of the original graph."""

    # stage t is the posterior after t test examples; copy j of a cell is the cell with its first j test examples
    # Cell 0 chooses the stage by splits on an additional last feature, cell 1 + j is the root at stage j; the last cell
    # is the empty leaf
    graph: CellGraph
    cell: np.ndarray  # (n_cells,) int64: cell of the original graph; -1 for the first and the last cell
    edge: np.ndarray  # (n_edges,) int64: split of the original graph; -1 for the splits of the first cell
    n_stages: int  # Number of stages, one more than that of the test examples

    @property
    def roots(self) -> np.ndarray:
        """Slots (n_stages,) of the copies of the root, stage by stage."""
        return self.graph.first_slot[1 : 1 + self.n_stages]


@jit
def list_cell_examples(graph: Any, codes: np.ndarray, nominal: np.ndarray, n_before: int) -> CellExamples:
    """Return the examples that pass through each cell, taken from the first of its parents."""
    n_cells = len(graph.rows)
    first = np.zeros(n_cells + 1, dtype=np.int64)
    for cell in range(n_cells):
        first[cell + 1] = first[cell] + graph.rows[cell]
    example = np.empty(first[n_cells], dtype=np.int32)
    for i in range(codes.shape[1]):
        example[i] = i
    filled = np.zeros(n_cells, dtype=np.bool_)
    n_staged = np.zeros(n_cells, dtype=np.int64)
    for cell in range(n_cells):
        n = first[cell + 1] - first[cell]
        while n_staged[cell] < n and example[first[cell + 1] - 1 - n_staged[cell]] >= n_before:
            n_staged[cell] += 1
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = np.int64(graph.left[e]), np.int64(graph.right[e])
            to_left = left != cell and graph.rows[left] > 0 and not filled[left]
            to_right = right != cell and graph.rows[right] > 0 and not filled[right]
            if not to_left and not to_right:
                continue
            filled[left], filled[right] = filled[left] or to_left, filled[right] or to_right
            k, split, left_place, right_place = graph.feature[e], graph.split[e], first[left], first[right]
            for place in range(first[cell], first[cell + 1]):
                i = example[place]
                if sends_left(split, np.int64(codes[k, i]), nominal[k]):
                    if to_left:
                        example[left_place] = i
                        left_place += 1
                elif to_right:
                    example[right_place] = i
                    right_place += 1
    return CellExamples(first, example, n_staged)


@jit
def score_copies_into(
    model: Any, cell_examples: CellExamples, rows: Examples, stats: np.ndarray, score: np.ndarray
) -> None:
    """Write the statistics and scores of all copies of cells, which have zeros before."""
    # copy j of a cell has the first j of its staged examples, and all that were seen before the first stage
    copy = np.int64(1)
    for cell in range(len(cell_examples.n_staged)):
        stop = cell_examples.first[cell + 1]
        start = stop - cell_examples.n_staged[cell]
        for place in range(cell_examples.first[cell], start):
            add_unit(stats, copy, rows.row_stats, np.int64(cell_examples.example[place]))
        score[copy] = leaf_score(model.leaf, stats, copy)
        for place in range(start, stop):
            copy += 1
            for a in range(stats.shape[1]):
                stats[copy, a] = stats[copy - 1, a]
            add_unit(stats, copy, rows.row_stats, np.int64(cell_examples.example[place]))
            score[copy] = leaf_score(model.leaf, stats, copy)
        copy += 1


@jit
def write_children_of_copies(
    graph: Any,
    cell_examples: CellExamples,
    first_copy: np.ndarray,
    first: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> None:
    """Write the two children of every edge of the copies of cells into `left` and `right`."""
    # Copy j of a cell has seen its first j staged examples. The i of them that go left are the first i staged examples
    # of the left child, so that this edge leads to copy i of the left child and to copy j - i of the right child
    example, n_staged = cell_examples.example, cell_examples.n_staged
    for cell in range(len(n_staged)):
        start = cell_examples.first[cell + 1] - n_staged[cell]
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left_cell, right_cell = np.int64(graph.left[e]), np.int64(graph.right[e])
            n_left, n_right, n_left_staged = 0, 0, n_staged[left_cell]
            left_start = cell_examples.first[left_cell + 1] - n_left_staged
            for j in range(n_staged[cell] + 1):
                place = first[first_copy[cell] + j] + e - graph.first_edge[cell]
                left[place], right[place] = first_copy[left_cell] + n_left, first_copy[right_cell] + n_right
                if j == n_staged[cell]:
                    break
                if n_left < n_left_staged and example[left_start + n_left] == example[start + j]:
                    n_left += 1
                else:
                    n_right += 1


def unroll_graph(graph: CellGraph, model: Any, cell_examples: CellExamples, rows: Examples) -> UnrolledGraph:
    """Return the graph unrolled over the stages, with sum(n_staged + 1) copies of cells and two further cells."""
    # these are a root that chooses the stage, and an empty leaf beside it
    n_copies = cell_examples.n_staged + 1
    first_copy = 1 + np.concatenate([[0], np.cumsum(n_copies)])
    n, n_stages = int(first_copy[-1]) + 1, int(n_copies[0])
    cell = np.concatenate([[-1], np.repeat(np.arange(graph.n_cells), n_copies), [-1]])
    original = np.maximum(cell, 0)
    n_edges = np.concatenate([[n_stages], np.diff(graph.first_edge)[cell[1:-1]], [0]])
    first_edge = np.concatenate([[0], np.cumsum(n_edges)])
    edge = np.arange(first_edge[-1]) - np.repeat(first_edge[:-1] - graph.first_edge[original], n_edges)
    edge[:n_stages] = -1
    left, right = np.empty(len(edge), graph.left.dtype), np.empty(len(edge), graph.right.dtype)
    left[:n_stages], right[:n_stages] = np.arange(1, n_stages + 1), n - 1
    write_children_of_copies(pack_graph(graph), cell_examples, first_copy, first_edge, left, right)
    stats, score = np.zeros((n, graph.stats.shape[1])), np.zeros(n)
    score_copies_into(model, cell_examples, rows, stats, score)
    n_layers = np.diff(graph.first_slot)[original]
    n_layers[[0, -1]] = 1
    first_slot = np.concatenate([[0], np.cumsum(n_layers)])
    slot = np.arange(first_slot[-1]) - np.repeat(first_slot[:-1] - graph.first_slot[original], n_layers)
    log_stop = graph.log_stop[slot] + np.repeat(score - graph.score[original], n_layers)
    log_split = graph.log_split[slot]
    log_stop[[0, -1]], log_split[[0, -1]] = [-np.inf, 0.0], [0.0, -np.inf]
    rows_of_cell, depth = graph.rows[original], graph.depth[original] + 1
    rows_of_cell[[0, -1]], depth[[0, -1]] = [graph.rows[0], 0], [0, 1]
    unrolled = graph._replace(
        first_edge=first_edge,
        left=left,
        right=right,
        feature=np.append(graph.feature, graph.feature.dtype.type(rows.codes.shape[0]))[edge],
        split=np.append(graph.split, 0)[edge],
        log_rule=np.append(graph.log_rule, 0.0)[edge],
        rows=rows_of_cell,
        stats=stats,
        score=score,
        design=graph.design[original],
        depth=depth,
        first_slot=first_slot,
        log_stop=log_stop,
        log_split=log_split,
    )
    return UnrolledGraph(unrolled, cell, edge, n_stages)


def mean_root_pmf(stages: UnrolledGraph, log_inside: np.ndarray) -> tuple[float, np.ndarray]:
    """Return P(the root is a leaf), and P of each of its splits, as means over the stages."""
    graph, n, root = stages.graph, stages.n_stages, stages.roots
    stop = float(np.exp(graph.log_stop[root] - log_inside[root]).mean())
    edges = np.arange(graph.first_edge[1], graph.first_edge[n + 1]).reshape(n, -1)
    child_slots = [graph.slots_at(c, 2) for c in (graph.left, graph.right)]
    value = graph.log_rule[edges] + log_inside[child_slots[0][edges]] + log_inside[child_slots[1][edges]]
    return stop, np.exp(value + (graph.log_split[root] - log_inside[root])[:, None]).mean(axis=0)


def log_sums_over_stages(stages: UnrolledGraph) -> np.ndarray:
    """Return the log sums (n_slots,) of the graph of all stages, and overwrite the weights that choose a stage."""
    # all stages become equally likely, whatever their evidence: the log sum of the root is then 0
    log_inside = log_sums(stages.graph)
    stages.graph.log_rule[: stages.n_stages] = -np.log(stages.n_stages) - log_inside[stages.roots]
    log_inside[0] = 0.0
    return log_inside
