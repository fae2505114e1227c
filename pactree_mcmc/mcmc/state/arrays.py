"""A chain's state: flat arrays in one NamedTuple, and the bookkeeping that keeps them consistent.

Every node owns a contiguous range of ``order``; growing parts the range of a leaf in place, pruning joins two ranges.
Nodes come from a pool with a free list. Growable leaves, prunable and internal nodes are kept in lists for a uniform
choice.
"""

from typing import NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import halves_box, has_box, has_free_cuts, is_weighted, told
from .pieces import Graph, new_graph
from .records import (
    BRANCH,
    CELL,
    GUIDE,
    N_CELL_TERMS,
    N_DENSITY_ROWS,
    N_FREE,
    N_WAY_TERMS,
    NODE,
    NONE,
    PLAN,
)

PROPOSED, ACCEPTED = range(2)
MOST_WAYS = 4096
MOST_PATTERNS = 128
CELL_BYTES = 1 << 24
MOST_BLOCKS = 32
MOST_PIECES = 24
FEW_SUMS, MOST_SUMS = 1 << 15, 1 << 22
FEWEST_LEVELS, MOST_LEVELS = 8, 24
"""Of a line: subtrees with more are left to other moves; where there is room for few alone there is no table."""
MOST_CELLS = 8000
"""Cells of a random subgraph. The move stops at the first cell beyond."""
MOST_BRANCHES, MOST_DRAWN = 2048, 2 * MOST_CELLS
"""Splits chosen and not yet done with, and nodes of trees drawn and not yet built, in a random subgraph.

Every cell adds at most one node to the trees drawn; their number is not checked.
"""
MOST_VALUES = 200_000
"""Units times features of the largest cell whose subtree is redrawn."""
FEWEST_TOPS = 3
"""Depths, at least, of one of which the top of what is redrawn lies."""
MOST_GUIDES = 1 << 14
"""Cells of which it is kept what the density says, at most."""
CELLS, VALUES, EXHAUSTED = range(3)
"""What a random subgraph has cost: cells, values looked at, whether that was too much."""


class ChainState(NamedTuple):
    """Arrays of one chain; ``cap`` nodes of room. Entries of free nodes are dirty."""

    order: np.ndarray
    """(U,) int32: the units, those of a node side by side."""
    node: np.recarray
    """(cap,) records of dtype NODE."""
    stats: np.ndarray
    """(cap, n_stats) float64: leaf statistics, kept for internal nodes too."""
    box: np.ndarray
    """(cap, p, 2) int64: low and high code, or categories and 0; (cap, 0, 2) when splits ignore the box."""
    count: np.ndarray
    """(8,) int64: entries of the lists, nodes in use, whether the tree changed since it was last saved, the number that
    tables of scores must bear to be fresh, and rows visited."""
    beta: np.ndarray
    """(1,) float64: power of the score, 1 unless tempered."""
    moves: np.ndarray
    """(2, m) int64: proposals since the last saved draw, and those accepted, by what the kernel's steps count."""
    cell: np.recarray
    """(N_CELLS,) records of dtype CELL: what was computed of cells, by their hash; (1,) where no move keeps it."""
    ways: np.ndarray
    """(N_CELLS, p) float64: in how many ways each feature parts the cell; see `splits.know_admissible`."""
    table: np.ndarray
    """(N_CELLS, p) float64: log of each feature's part of W."""
    side: np.ndarray
    """(U,) int32 scratch: units going right while a range is parted; codes of the units of a cell."""
    kept: np.ndarray
    """(U,) int32 scratch: a range of ``order`` to be restored; (1,) where no move replaces subtrees."""
    codes: np.ndarray
    """(4, largest n_codes) int64 scratch: the codes in a cell; a number by code, all 0 between uses; rows of a code;
    rows going left."""
    marks: np.ndarray
    """(largest n_codes,) uint8 scratch: whether a code was met, all 0 between uses."""
    feature_weight: np.ndarray
    """(p,) float64 scratch: weights of the admissible features."""
    cut_weights: np.ndarray
    """(largest n_codes,) float64 scratch: weights of the ways of a feature; (1,) where all weigh the same."""
    bins: np.ndarray
    """(largest n_codes, n_stats) float64 scratch: statistics by code; (2, n_stats) where no move scans."""
    by_code: np.ndarray
    """The same by code, all 0 between uses."""
    lefts: np.ndarray
    """(m, n_stats) float64 scratch: statistics of the left sides of the ways of parting; m = 2 where no move scans."""
    rights: np.ndarray
    """(m, n_stats) float64 scratch: those of the right sides."""
    gains: np.ndarray
    """(m,) float64 scratch: gains in score."""
    way: np.ndarray
    """(4,) int64 scratch: the way of parting chosen in a scan."""
    terms: np.ndarray
    """(MOST_WAYS,) float64 scratch: terms of a lookahead sum; (1,) where no move scans."""
    blocks: np.ndarray
    """(MOST_BLOCKS, p, 2) int64 scratch: smallest and largest code, or bits, of the rows of a leaf; else (1, p, 2)."""
    plan: np.recarray
    """(cap,) scratch records of dtype PLAN; (1,) where no move replaces subtrees."""
    pieces: np.ndarray
    """(8, MOST_PIECES) int64 scratch: what hangs below a block of nodes, the nodes between, and what is still open."""
    shapes: np.ndarray
    """(m, m, m) float64 scratch: log sums over the ways of arranging a block; m = 1 where no move replaces subtrees."""
    line: np.ndarray
    """(m,) float64: sums over the subtrees of the intervals of a line (`interval_sums`); (1,) where no move asks."""
    line_of: np.ndarray
    """(3, m) int64: the cell they belong to, its codes, the rows before each."""
    density: np.ndarray
    """(N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS) float64: parameters of the learned density by depth class; last, in
    the first column, the number of depths from which the top of a redrawn subtree is chosen. (1, 1) without."""
    guide: np.recarray
    """(N_CELLS,) records of dtype GUIDE; (1,) where no move draws from the density."""
    fractions: np.ndarray
    """(N_CELLS, p) float64: probability of each feature in the same cells, given a split."""
    own: np.ndarray
    """(N_CELLS, p) float64: log normaliser of each feature's splits, by the learned part."""
    sums: np.ndarray
    """(3, p) float64 scratch: log sums over the ways of each feature, of three parts."""
    tilts: np.ndarray
    """(2, m) float64 scratch: gain and logit of each way."""
    alike: np.ndarray
    """(m,) int64 scratch: how many ways are alike."""
    logs: np.ndarray
    """(2, m) float64: x log x and log(1 + x) of 0, 1, ..., as far as rows and whole weights go; (2, 1): not kept."""
    way_terms: np.ndarray
    """(N_WAY_TERMS, m) float64 scratch: terms of each way."""
    cell_terms: np.ndarray
    """(N_CELL_TERMS,) float64 scratch: terms of a cell."""
    branch: np.recarray
    """(MOST_BRANCHES,) scratch records of dtype BRANCH: chosen splits on the way down; (1,) without density."""
    branch_terms: np.ndarray
    """(MOST_BRANCHES, N_WAY_TERMS) float64 scratch: their terms."""
    drawn: np.recarray
    """(MOST_DRAWN,) scratch records of dtype BRANCH: trees drawn from a random subgraph; (1,) without density."""
    work: np.ndarray
    """(3,) int64 scratch: CELLS, VALUES, EXHAUSTED."""
    weights: np.ndarray
    """(p + 1,) float64: logs of the feature weights, normalised, and the concentration of their prior; (0,) where the
    weights are given."""
    tilt: np.ndarray
    """(cap,) float64: log R of the split of an internal node by these weights, less that by equal ones, which is its
    ``log_rule``; (1,) where the weights are given."""
    graph: Graph
    """Of what trees met in tuning; empty without density."""


def line_sums(model: Lowered) -> int:
    """Sums that make up the table of the root's line; 0 where the model is not of one ordered feature, or too large."""
    rule = model.split_prior
    asked = np.flatnonzero(rule.feature.weight > 0.0)
    if not told(has_free_cuts, rule) or told(is_weighted, rule) or len(asked) != 1 or rule.feature.nominal[asked[0]]:
        return 0
    n, limit = int(rule.feature.n_codes[asked[0]]), int(model.prior.depth_limit)
    levels = line_levels(n, limit, MOST_SUMS)
    return 2 * n * n * (levels + 1) if levels > 0 else 0


@jit
def line_levels(n: int, limit: int, room: int) -> int:
    """Levels of the table of a line of n codes whose subtrees have a depth up to ``limit``; 0 if it cannot be kept."""
    levels = min(limit, n - 1, MOST_LEVELS - 1) + 1
    kept = min(levels, room // (2 * n * n) - 1)
    return kept if kept >= min(levels, FEWEST_LEVELS) else 0


def first_density() -> np.ndarray:
    """Return the parameters before any fit: splitting by the lookahead odds, splits by half of their gain in nats."""
    out = np.zeros((N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS))
    out[-1, 0] = FEWEST_TOPS
    out[:-1, 1], out[:-1, N_CELL_TERMS] = 1.0, 0.5
    return out


def first_weights(model: Lowered) -> np.ndarray:
    """Equal feature weights, in logs, and a concentration, where they are drawn; else (0,)."""
    rule = model.split_prior
    if rule.is_fixed:
        return np.empty(0)
    return np.append(np.full(rule.n_turns, -np.log(rule.n_turns)), rule.dirichlet[0] or 1.0)


def log_table(model: Lowered) -> np.ndarray:
    """Logarithms of whole numbers up to the number of rows, where the weights of classes are such; else (2, 1)."""
    whole = model.units.counts and model.leaf.lookup.shape[1] > 1
    x = np.arange(float(max(model.leaf.lookup.shape[1], 1) + 3 if whole else 1))
    return np.stack([x * np.log(np.maximum(x, 1.0)), np.log1p(x)])


def new_state(
    model: Lowered, cap: int, moves: int, *, scans: bool, replaces: bool, lines: bool, guided: bool
) -> ChainState:
    """State of a chain with room for ``cap`` nodes and ``moves`` numbers to count; ``plant_root`` makes it a tree.

    ``scans``: some move scans nodes; ``replaces``: some move replaces whole subtrees; ``lines``: some sums over lines;
    ``guided``: some draws from a learned density.
    """
    n_units, p, n_stats = model.units.n_units, len(model.split_prior.feature), model.leaf.n_stats
    rule = model.split_prior
    uses_box = told(has_box, rule)
    n_cells = 1 << int(np.clip(np.log2(CELL_BYTES / (16 * p + CELL.itemsize)), 8, 16)) if scans or replaces else 1
    n_guides = min(n_cells, MOST_GUIDES) if guided else 1
    widest = 2 if told(halves_box, rule) else max(int(rule.feature.n_codes.max()), MOST_PATTERNS)
    return ChainState(
        order=np.arange(n_units, dtype=np.int32),
        node=np.zeros(cap, dtype=NODE).view(np.recarray),
        stats=np.zeros((cap, n_stats)),
        box=np.zeros((cap, p if uses_box else 0, 2), dtype=np.int64),
        count=np.zeros(8, dtype=np.int64),
        beta=np.ones(1),
        moves=np.zeros((2, moves), dtype=np.int64),
        cell=np.full(n_cells, NONE, dtype=np.int64).astype(CELL).view(np.recarray),
        ways=np.zeros((n_cells, p)),
        table=np.zeros((n_cells, p)),
        side=np.empty(n_units, dtype=np.int32),
        kept=np.empty(n_units if replaces else 1, dtype=np.int32),
        codes=np.zeros((4, widest), dtype=np.int64),
        marks=np.zeros(int(rule.feature.n_codes.max()), dtype=np.uint8),
        feature_weight=np.zeros(p),
        cut_weights=np.zeros(widest if told(is_weighted, rule) else 1),
        bins=np.zeros((widest if scans else 2, n_stats)),
        by_code=np.zeros((widest if scans else 2, n_stats)),
        lefts=np.zeros((widest if scans else 2, n_stats)),
        rights=np.zeros((widest if scans else 2, n_stats)),
        gains=np.zeros(widest if scans else 2),
        way=np.zeros(4, dtype=np.int64),
        terms=np.zeros(MOST_WAYS if scans else 1),
        blocks=np.zeros((MOST_BLOCKS if replaces else 1, p, 2), dtype=np.int64),
        plan=np.zeros(cap if replaces else 1, dtype=PLAN).view(np.recarray),
        pieces=np.zeros((8, MOST_PIECES), dtype=np.int64),
        shapes=np.zeros((MOST_PIECES if replaces else 1,) * 3),
        line=np.zeros(max(line_sums(model), FEW_SUMS) if lines else 1),
        line_of=np.full((3, widest + 5 if lines else 5), NONE, dtype=np.int64),
        density=first_density() if guided else np.zeros((1, 1)),
        guide=np.full(n_guides, NONE, dtype=np.int64).astype(GUIDE).view(np.recarray),
        fractions=np.zeros((n_guides, p)),
        own=np.zeros((n_guides, p)),
        sums=np.zeros((3, p)),
        tilts=np.zeros((2, widest + 3 if guided else 1)),
        alike=np.zeros(widest + 3 if guided else 1, dtype=np.int64),
        logs=log_table(model) if guided else np.zeros((2, 1)),
        way_terms=np.zeros((N_WAY_TERMS, widest + 3 if guided else 1)),
        cell_terms=np.zeros(N_CELL_TERMS),
        branch=np.zeros(MOST_BRANCHES if guided else 1, dtype=BRANCH).view(np.recarray),
        branch_terms=np.zeros((MOST_BRANCHES if guided else 1, N_WAY_TERMS)),
        drawn=np.zeros(MOST_DRAWN if guided else 1, dtype=BRANCH).view(np.recarray),
        work=np.zeros(3, dtype=np.int64),
        weights=first_weights(model),
        tilt=np.zeros(1 if model.split_prior.is_fixed else cap),
        graph=new_graph(),
    )


def enlarged(state: ChainState) -> ChainState:
    """The same chain with twice the room for nodes."""
    cap, n_free = len(state.node), int(state.count[N_FREE])
    out = state._replace(
        node=np.concatenate([state.node, np.zeros_like(state.node)]).view(np.recarray),
        stats=np.concatenate([state.stats, np.zeros_like(state.stats)]),
        box=np.concatenate([state.box, np.zeros_like(state.box)]),
    )
    if len(state.weights) > 0:
        out = out._replace(tilt=np.concatenate([state.tilt, np.zeros(cap)]))
    if len(state.plan) > 1:
        out = out._replace(plan=np.zeros(2 * cap, dtype=PLAN).view(np.recarray))
    out.node.free[n_free : n_free + cap] = np.arange(2 * cap - 1, cap - 1, -1)
    out.count[N_FREE] += cap
    return out
