"""A chain's state: flat arrays in one NamedTuple, and the bookkeeping that keeps them consistent.

Every node owns a contiguous range of ``order``; growing parts the range of a leaf in place, pruning joins two ranges.
Nodes come from a pool with a free list. Growable leaves, prunable and internal nodes are kept in lists for a uniform
choice.
"""

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ...core.compile.jit import jit, struct
from ...files.encoding import kept
from ...model import Lowered
from ...model.leaf.codes import SHARED_NORMAL
from ...model.leaf.compiled import leaf_score
from ...model.split_prior.base import CYCLIC, DYADIC, GRID, LOCAL

NONE = -1
N_GROWABLE, N_PRUNABLE, N_INTERNAL, N_FREE, N_NODES, CHANGED, SCAN, ROWS = range(8)
PROPOSED, ACCEPTED = range(2)
MOST_WAYS = 4096
MOST_PATTERNS = 128
CELL_BYTES = 1 << 24
MOST_BLOCKS = 32
MOST_PIECES = 24
FEW_SUMS, MOST_SUMS = 1 << 15, 1 << 22
FEWEST_LEVELS, MOST_LEVELS = 8, 24
"""Of a line: subtrees with more are left to other moves; where there is room for few alone there is no table."""
DENSITY_LEVELS, N_STRATA, N_CELL_TERMS, N_WAY_TERMS, MOST_ANCHORS = 4, 8, 10, 7, 64
"""Of a learned density: depth classes, kinds of root, terms of a cell and of a way of parting it, anchors of a cell."""
N_DENSITY_ROWS = 2 + N_STRATA * (DENSITY_LEVELS - 1)
MOST_BRANCHES, MOST_DRAWN = 2048, 1 << 14
"""Questions chosen and not yet done with, and nodes of trees drawn and not yet built, in a random subgraph."""
MOST_VALUES = 200_000
"""Units times features of the largest cell that has anchors, and whose subtree is redrawn."""
ANCHOR_STEPS = (56, 24, 0, 0)
"""Anchors of a cell at even steps, at most, by depth class."""
N_SKETCHED, N_SKETCH_BINS = 8, 16
"""Of a sketch of a cell: features, and bins of each."""
MOST_GUIDES = 1 << 14
"""Cells of which it is kept what the density says, at most."""
N_PIECES, N_LINKS, GROWING = range(3)
EXPLORING = 2
"""What a graph counts, and whether it grows: not (0), with each tree (1), and with questions not seen preferred."""
CELLS, VALUES, EXHAUSTED = range(3)
"""What a random subgraph has cost: cells, values looked at, whether that was too much."""
MOVES = (
    "grow",
    "prune",
    "collapsed grow",
    "collapsed prune",
    "redraw",
    "change",
    "shift",
    "swap",
    "rotate",
    "regrow-1",
    "regrow-2",
    "restructure",
    "reshape",
    "regrow-line",
    "learned",
    "subgraph",
)
"""What is counted, by its place in ``ChainState.moves``."""
GROW, PRUNE, COLLAPSED_GROW, COLLAPSED_PRUNE, REDRAW, CHANGE, SHIFT, SWAP = range(8)
ROTATE, REGROW_1, REGROW_2, RESTRUCTURE, RESHAPE, REGROW_LINE, LEARNED_REDRAW, SUBGRAPH = range(8, len(MOVES))


NODE = np.dtype(
    [
        ("parent", np.int64),  # -1 for the root, node 0
        ("left", np.int64),  # -1 in a leaf
        ("right", np.int64),  # -1 in a leaf
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),  # largest code going left
        ("upper", np.int64),  # next code on the right, in the cell under local questions
        ("categories", np.int64),  # bits going left, -1 if ordered
        ("log_rule", np.float64),  # log R of the question, 0 in a leaf
        ("score", np.float64),  # leaf score, kept for internal nodes too
        ("guess", np.float64),  # score in which tables are kept; the same but where a variance moves
        ("rows", np.int64),  # training rows
        ("depth", np.int64),
        ("design", np.int64),  # node of the fixed tree, 0 for other questions
        ("start", np.int64),  # first entry of `order` in the node
        ("stop", np.int64),  # one behind the last
        ("growable_at", np.int64),  # place in the list of growable leaves, -1 if not in it
        ("prunable_at", np.int64),  # place in the list of prunable nodes, -1 if not in it
        ("internal_at", np.int64),  # place in the list of internal nodes, -1 if not in it
        ("growable", np.int64),  # entry i of the list of splittable leaves stands in record i
        ("prunable", np.int64),  # likewise the nodes whose children are both leaves
        ("internal", np.int64),  # likewise the internal nodes
        ("free", np.int64),  # likewise the stack of free nodes
        ("hash", np.int64),  # of the cell: of its rows, box or fixed node, whichever its future depends on
        ("saved_at", np.int64),  # scratch: place in the draw being saved
        ("default_left", np.bool_),  # as many training rows go left as right, or more
        ("splittable", np.bool_),  # above the depth limit and with an admissible question
    ],
    align=True,
)

CELL = np.dtype(
    [
        ("hash", np.int64),  # of the cell the record holds, NONE: of none
        ("weight", np.float64),  # sum of the weights of its admissible features, negative: not computed
        ("scan", np.int64),  # `count[SCAN]` when it was scanned: under another its table is stale
        ("log_w", np.float64),  # log W
        ("ahead", np.int64),  # `count[SCAN]` when the lookahead over two levels was computed
        ("depth", np.int64),  # for a node at this depth
        ("log_z2", np.float64),  # log of its sum over questions
    ]
)
"""What depends on a cell alone, kept for when a node holds it again; a cell overwrites another with the same place."""

GUIDE = np.dtype(
    [
        ("hash", np.int64),  # of the cell the record holds, NONE: of none
        ("depth", np.int64),  # of the node
        ("row", np.int64),  # of the density's parameters
        ("scan", np.int64),  # `count[SCAN]` when it was computed
        ("weight", np.float64),  # sum of the weights of its admissible features
        ("log_learned", np.float64),  # log normaliser of the learned part of the questions
        ("log_even", np.float64),  # log normaliser of the part by the prior alone
        ("odds", np.float64),  # log odds of splitting by lookahead
        ("odds_ahead", np.float64),  # the same over two levels, as far as they are known
        ("n_anchors", np.int64),  # questions whose children were looked at
        ("asked", np.int64),  # whether its questions were weighed, 1, or only whether it is split, 0
        ("log_split", np.float64),  # log probability of splitting
        ("log_stop", np.float64),  # log probability of stopping
    ]
)
"""What the learned density says of a cell at a depth."""

BRANCH = np.dtype(
    [
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),
        ("upper", np.int64),
        ("categories", np.int64),
        ("log_rule", np.float64),
        ("log_p", np.float64),  # log probability of being in the subgraph
        ("left", np.int64),  # distance to the left child, in a tree drawn
        ("right", np.int64),  # distance to the right child
        ("kept", np.bool_),  # the question of the present tree
    ],
    align=True,
)
"""A question of a random subgraph, or a node of a tree drawn from it."""

PIECE = np.dtype(
    [
        ("hash", np.int64),  # of the cell
        ("depth", np.int32),  # of the node
        ("stratum", np.int32),  # of the density by whose parameters its questions are drawn
        ("first", np.int32),  # the link added last, -1: none
        ("stop", np.float64),  # log prior and score as a leaf
        ("guess", np.float64),  # value by the terms of the cell, where other pieces tell how it follows from them
        ("floor", np.float64),  # least value, by the lookahead sums of the cell
        ("g_stop", np.float64),  # log probability of stopping, by the learned density
        ("seen", np.float64),  # probability of what was seen, by the same
        ("value", np.float64),  # log sum over all subtrees, estimated
        ("log_tried", np.float64),  # log probability of trying a question by that density
        ("log_norm", np.float64),  # log probability of what was seen less its weight
    ],
    align=True,
)
"""A cell at a depth in the graph of what trees met (see `graph`)."""

LINK = np.dtype(
    [
        ("feature", np.int32),
        ("cut", np.int32),
        ("upper", np.int32),
        ("left", np.int32),  # piece of the left child, -1: it is a leaf for ever
        ("right", np.int32),
        ("next", np.int32),  # the link of the same piece added before, -1: none
        ("categories", np.int64),
        ("log_rule", np.float64),
        ("fixed", np.float64),  # log prior of the question, and of children that have no piece with their scores
        ("g", np.float64),  # log probability, by the learned density
        ("weight", np.float64),  # log of its part of the sum
    ],
    align=True,
)
"""A question of a piece, seen in some tree."""

PLAN = np.dtype(
    [
        ("feature", np.int64),  # -1 in a leaf
        ("cut", np.int64),
        ("categories", np.int64),
        ("left", np.int64),  # planned node
        ("right", np.int64),
        ("node", np.int64),  # node of the state grown for it, -1 before
        ("origin", np.int64),  # planned node it stood for at first
        ("side", np.int64),  # side all rows went when it was left out, -1: it was not
    ]
)
"""A subtree to be built: parents before children."""


@kept
class Graph(NamedTuple):
    """Pieces that trees met, and their links."""

    slot: np.ndarray
    """(a power of two,) int32: pieces by hash, -1 in free slots, of which there is one at least."""
    piece: np.recarray
    """(m,) records of dtype PIECE."""
    link: np.recarray
    """(l,) records of dtype LINK."""
    used: np.ndarray
    """(3,) int64: N_PIECES, N_LINKS, GROWING."""
    terms: np.ndarray
    """(m, N_CELL_TERMS) float32: terms of the cells, by which values are guessed; (1, N_CELL_TERMS) once frozen."""
    rule: np.ndarray
    """(DENSITY_LEVELS, N_CELL_TERMS + 1) float64: weights of the terms by depth class, and by how much a guess may be
    wrong, in nats; 0: there is none."""


_graph = struct(Graph)


def new_graph(n_pieces: int = 1, n_links: int = 1) -> Graph:
    """An empty graph with so much room."""
    return Graph(
        np.full(1 << int(np.ceil(np.log2(2 * n_pieces))), NONE, dtype=np.int32),
        np.zeros(n_pieces, dtype=PIECE).view(np.recarray),
        np.zeros(n_links, dtype=LINK).view(np.recarray),
        np.zeros(3, dtype=np.int64),
        np.zeros((n_pieces, N_CELL_TERMS), dtype=np.float32),
        np.zeros((DENSITY_LEVELS, N_CELL_TERMS + 1)),
    )


@jit
def pack_graph(g: Graph) -> Any:
    """The graph as one pointer; the arrays are shared."""
    return _graph(g.slot, g.piece, g.link, g.used, g.terms, g.rule)


class ChainState(NamedTuple):
    """Arrays of one chain; ``cap`` nodes of room. Entries of free nodes are dirty."""

    order: np.ndarray
    """(U,) int32: the units, those of a node side by side."""
    node: np.recarray
    """(cap,) records of dtype NODE."""
    stats: np.ndarray
    """(cap, n_stats) float64: leaf statistics, kept for internal nodes too."""
    box: np.ndarray
    """(cap, p, 2) int64: low and high code, or categories and 0; (cap, 0, 2) when questions ignore the box."""
    count: np.ndarray
    """(8,) int64: entries of the lists, nodes in use, whether the tree changed since it was last saved, the number that
    tables of scores must bear to be fresh, and rows visited."""
    beta: np.ndarray
    """(1,) float64: power of the score, 1 unless tempered."""
    moves: np.ndarray
    """(2, len(MOVES)) int64: proposals by move since the last saved draw, and those accepted."""
    cell: np.recarray
    """(N_CELLS,) records of dtype CELL: what was computed of cells, by their hash; (1,) where no move keeps it."""
    ways: np.ndarray
    """(N_CELLS, p) float64: in how many ways each feature parts the cell."""
    table: np.ndarray
    """(N_CELLS, p) float64: log of each feature's part of W."""
    side: np.ndarray
    """(U,) int32 scratch: units going right while a range is parted."""
    kept: np.ndarray
    """(U,) int32 scratch: a range of ``order`` to be restored; (1,) where no move replaces subtrees."""
    codes: np.ndarray
    """(4, largest n_codes) int64 scratch: the codes in a cell; a number by code, all 0 between uses; rows of a code;
    rows going left."""
    feature_weight: np.ndarray
    """(p,) float64 scratch: weights of the admissible features."""
    bins: np.ndarray
    """(largest n_codes, n_stats) float64 scratch: statistics by code; (2, n_stats) where no move scans."""
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
    """(N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS + p) float64: parameters of the learned density: of the root, then of
    each stratum the depth classes below; last, in the first columns, how many anchors a cell may have by depth class,
    and in the last p the stratum of each feature at the root. (1, 1) without."""
    stratum: np.ndarray
    """(1,) int64 scratch: stratum of the tree being drawn or looked at."""
    guide: np.recarray
    """(N_CELLS,) records of dtype GUIDE; (1,) where no move draws from the density."""
    anchors: np.ndarray
    """(N_CELLS, MOST_ANCHORS) int64: questions of a guide's cell whose children were looked at (see `anchors`)."""
    ahead: np.ndarray
    """(N_CELLS, MOST_ANCHORS) float64: what they open further down, in nats."""
    sketched: np.ndarray
    """(N_SKETCHED,) int64 scratch: features of the sketch of a cell."""
    n_bins: np.ndarray
    """(N_SKETCHED,) int64 scratch: bins of each."""
    bin_of: np.ndarray
    """(N_SKETCHED, m) int64 scratch: bin of each code."""
    sketch: np.ndarray
    """(m, N_SKETCHED) uint8 scratch: bins of the cell's units, at most ``MOST_VALUES``."""
    sketch_sides: np.ndarray
    """(2, N_SKETCHED, N_SKETCH_BINS, n_stats) float64 scratch: statistics of both children, bin by bin."""
    sketch_stats: np.ndarray
    """(2, N_SKETCH_BINS, n_stats) float64 scratch."""
    sketch_gains: np.ndarray
    """(N_SKETCHED * N_SKETCH_BINS,) float64 scratch."""
    anchor_cut: np.ndarray
    """(MOST_ANCHORS,) int64 scratch: where the anchors cut."""
    anchor_categories: np.ndarray
    """(MOST_ANCHORS,) int64 scratch: categories that go left, or -1."""
    shares: np.ndarray
    """(N_CELLS, p) float64: probability of each feature in the same cells, given a split."""
    own: np.ndarray
    """(N_CELLS, p) float64: log normaliser of each feature's questions, by the learned part."""
    sums: np.ndarray
    """(3, p) float64 scratch: log sums over the ways of each feature, of three parts."""
    tilts: np.ndarray
    """(2, m) float64 scratch: gain and logit of each way."""
    kept_from: np.ndarray
    """(p + 1,) int64 scratch: where what the ways of each feature weigh is kept while a cell's anchors are found."""
    kept_tilts: np.ndarray
    """(2, k) float64 scratch."""
    kept_alike: np.ndarray
    """(k,) int64 scratch."""
    alike: np.ndarray
    """(m,) int64 scratch: how many ways are alike."""
    logs: np.ndarray
    """(2, m) float64: x log x and log(1 + x) of 0, 1, ..., as far as rows and whole weights go; (2, 1): not kept."""
    way_terms: np.ndarray
    """(m, N_WAY_TERMS) float64 scratch: terms of each way."""
    cell_terms: np.ndarray
    """(N_CELL_TERMS,) float64 scratch: terms of a cell."""
    branch: np.recarray
    """(MOST_BRANCHES,) scratch records of dtype BRANCH: chosen questions on the way down; (1,) without density."""
    branch_terms: np.ndarray
    """(MOST_BRANCHES, N_WAY_TERMS) float64 scratch: their terms."""
    drawn: np.recarray
    """(MOST_DRAWN,) scratch records of dtype BRANCH: trees drawn from a random subgraph; (1,) without density."""
    work: np.ndarray
    """(3,) int64 scratch: CELLS, VALUES, EXHAUSTED."""
    graph: Graph
    """Of what trees met in tuning; empty without density."""


_state = struct(ChainState)


@jit
def pack_state(s: ChainState) -> Any:
    """The state as one pointer; the arrays are shared."""
    return _state(
        s.order,
        s.node,
        s.stats,
        s.box,
        s.count,
        s.beta,
        s.moves,
        s.cell,
        s.ways,
        s.table,
        s.side,
        s.kept,
        s.codes,
        s.feature_weight,
        s.bins,
        s.lefts,
        s.rights,
        s.gains,
        s.way,
        s.terms,
        s.blocks,
        s.plan,
        s.pieces,
        s.shapes,
        s.line,
        s.line_of,
        s.density,
        s.stratum,
        s.guide,
        s.anchors,
        s.ahead,
        s.sketched,
        s.n_bins,
        s.bin_of,
        s.sketch,
        s.sketch_sides,
        s.sketch_stats,
        s.sketch_gains,
        s.anchor_cut,
        s.anchor_categories,
        s.shares,
        s.own,
        s.sums,
        s.tilts,
        s.kept_from,
        s.kept_tilts,
        s.kept_alike,
        s.alike,
        s.logs,
        s.way_terms,
        s.cell_terms,
        s.branch,
        s.branch_terms,
        s.drawn,
        s.work,
        _graph(s.graph.slot, s.graph.piece, s.graph.link, s.graph.used, s.graph.terms, s.graph.rule),
    )


def line_sums(model: Lowered) -> int:
    """Sums that make up the table of the root's line; 0 where the model is not of one ordered feature, or too large."""
    rule = model.questions
    asked = np.flatnonzero(rule.feature.weight > 0.0)
    if rule.kind not in (LOCAL, GRID) or len(asked) != 1 or rule.feature.nominal[asked[0]]:
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


def first_density(p: int) -> np.ndarray:
    """Parameters before anything was learned: splits by lookahead odds, questions by a power of their gain."""
    out = np.zeros((N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS + p))
    out[-1, :DENSITY_LEVELS] = ANCHOR_STEPS
    out[:-1, 8], out[:-1, N_CELL_TERMS], out[:-1, N_CELL_TERMS + 6] = 1.0, 0.5, 0.5
    return out


def log_table(model: Lowered) -> np.ndarray:
    """Logarithms of whole numbers up to the number of rows, where the weights of classes are such; else (2, 1)."""
    whole = model.units.counts and model.leaf.lookup.shape[1] > 1
    x = np.arange(float(max(model.leaf.lookup.shape[1], 1) + 3 if whole else 1))
    return np.stack([x * np.log(np.maximum(x, 1.0)), np.log1p(x)])


def new_state(model: Lowered, cap: int, *, scans: bool, replaces: bool, lines: bool, guided: bool) -> ChainState:
    """State of a chain with room for ``cap`` nodes; ``plant_root`` makes it a tree.

    ``scans``: some move scans nodes; ``replaces``: some move replaces whole subtrees; ``lines``: some sums over lines;
    ``guided``: some draws from a learned density.
    """
    n_units, p, n_stats = model.units.n_units, len(model.questions.feature), model.leaf.n_stats
    kind = model.questions.kind
    uses_box = kind in (GRID, DYADIC, CYCLIC)
    n_cells = 1 << int(np.clip(np.log2(CELL_BYTES / (16 * p + CELL.itemsize)), 8, 16)) if scans or replaces else 1
    n_guides = min(n_cells, MOST_GUIDES) if guided else 1
    widest = 2 if kind in (DYADIC, CYCLIC) else max(int(model.questions.feature.n_codes.max()), MOST_PATTERNS)
    n_kept = int(np.maximum(model.questions.feature.n_codes, MOST_PATTERNS).sum()) + 3 * p
    n_kept = min(n_kept, MOST_VALUES + (MOST_PATTERNS + 3) * p) if guided else 1
    return ChainState(
        order=np.arange(n_units, dtype=np.int32),
        node=np.zeros(cap, dtype=NODE).view(np.recarray),
        stats=np.zeros((cap, n_stats)),
        box=np.zeros((cap, p if uses_box else 0, 2), dtype=np.int64),
        count=np.zeros(8, dtype=np.int64),
        beta=np.ones(1),
        moves=np.zeros((2, len(MOVES)), dtype=np.int64),
        cell=np.full(n_cells, NONE, dtype=np.int64).astype(CELL).view(np.recarray),
        ways=np.zeros((n_cells, p)),
        table=np.zeros((n_cells, p)),
        side=np.empty(n_units, dtype=np.int32),
        kept=np.empty(n_units if replaces else 1, dtype=np.int32),
        codes=np.zeros((4, widest), dtype=np.int64),
        feature_weight=np.zeros(p),
        bins=np.zeros((widest if scans else 2, n_stats)),
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
        density=first_density(p) if guided else np.zeros((1, 1)),
        stratum=np.zeros(1, dtype=np.int64),
        guide=np.full(n_guides, NONE, dtype=np.int64).astype(GUIDE).view(np.recarray),
        anchors=np.zeros((n_guides, MOST_ANCHORS if guided else 1), dtype=np.int64),
        ahead=np.zeros((n_guides, MOST_ANCHORS if guided else 1)),
        sketched=np.zeros(N_SKETCHED, dtype=np.int64),
        n_bins=np.zeros(N_SKETCHED, dtype=np.int64),
        bin_of=np.zeros((N_SKETCHED, widest if guided else 1), dtype=np.int64),
        sketch=np.zeros((min(n_units, MOST_VALUES) if guided else 1, N_SKETCHED), dtype=np.uint8),
        sketch_sides=np.zeros((2, N_SKETCHED, N_SKETCH_BINS, n_stats)),
        sketch_stats=np.zeros((2, N_SKETCH_BINS, n_stats)),
        sketch_gains=np.zeros(N_SKETCHED * N_SKETCH_BINS),
        anchor_cut=np.zeros(MOST_ANCHORS, dtype=np.int64),
        anchor_categories=np.zeros(MOST_ANCHORS, dtype=np.int64),
        shares=np.zeros((n_guides, p)),
        own=np.zeros((n_guides, p)),
        sums=np.zeros((3, p)),
        tilts=np.zeros((2, widest + 3 if guided else 1)),
        kept_from=np.zeros(p + 1, dtype=np.int64),
        kept_tilts=np.zeros((2, n_kept)),
        kept_alike=np.zeros(n_kept, dtype=np.int64),
        alike=np.zeros(widest + 3 if guided else 1, dtype=np.int64),
        logs=log_table(model) if guided else np.zeros((2, 1)),
        way_terms=np.zeros((widest + 3 if guided else 1, N_WAY_TERMS)),
        cell_terms=np.zeros(N_CELL_TERMS),
        branch=np.zeros(MOST_BRANCHES if guided else 1, dtype=BRANCH).view(np.recarray),
        branch_terms=np.zeros((MOST_BRANCHES if guided else 1, N_WAY_TERMS)),
        drawn=np.zeros(MOST_DRAWN if guided else 1, dtype=BRANCH).view(np.recarray),
        work=np.zeros(3, dtype=np.int64),
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
    if len(state.plan) > 1:
        out = out._replace(plan=np.zeros(2 * cap, dtype=PLAN).view(np.recarray))
    out.node.free[n_free : n_free + cap] = np.arange(2 * cap - 1, cap - 1, -1)
    out.count[N_FREE] += cap
    return out


@jit
def list_growable(state: ChainState, node: int) -> None:
    """Put a leaf on the list of growable leaves, if it is splittable."""
    if state.node[node].splittable:
        state.node[node].growable_at = state.count[N_GROWABLE]
        state.node[state.count[N_GROWABLE]].growable = node
        state.count[N_GROWABLE] += 1
    else:
        state.node[node].growable_at = NONE


@jit
def unlist_growable(state: ChainState, node: int) -> None:
    """Take a node off the list of growable leaves, if it is there."""
    at = state.node[node].growable_at
    if at != NONE:
        state.count[N_GROWABLE] -= 1
        last = state.node[state.count[N_GROWABLE]].growable
        state.node[at].growable = last
        state.node[last].growable_at = at
        state.node[node].growable_at = NONE


@jit
def list_prunable(state: ChainState, node: int) -> None:
    """Put a node whose children are both leaves on the list of prunable nodes."""
    state.node[node].prunable_at = state.count[N_PRUNABLE]
    state.node[state.count[N_PRUNABLE]].prunable = node
    state.count[N_PRUNABLE] += 1


@jit
def unlist_prunable(state: ChainState, node: int) -> None:
    """Take a node off the list of prunable nodes, if it is there."""
    at = state.node[node].prunable_at
    if at != NONE:
        state.count[N_PRUNABLE] -= 1
        last = state.node[state.count[N_PRUNABLE]].prunable
        state.node[at].prunable = last
        state.node[last].prunable_at = at
        state.node[node].prunable_at = NONE


@jit
def is_leaf(state: ChainState, node: int) -> bool:
    """Whether the node has no children."""
    return state.node[node].left == NONE


@jit
def list_internal(state: ChainState, node: int) -> None:
    """Put a node on the list of internal nodes."""
    state.node[node].internal_at = state.count[N_INTERNAL]
    state.node[state.count[N_INTERNAL]].internal = node
    state.count[N_INTERNAL] += 1


@jit
def unlist_internal(state: ChainState, node: int) -> None:
    """Take a node off the list of internal nodes."""
    at = state.node[node].internal_at
    state.count[N_INTERNAL] -= 1
    last = state.node[state.count[N_INTERNAL]].internal
    state.node[at].internal = last
    state.node[last].internal_at = at
    state.node[node].internal_at = NONE


@jit
def sibling(state: ChainState, node: int) -> int:
    """The other child of the node's parent; -1 for the root."""
    parent = state.node[node].parent
    if parent == NONE:
        return NONE
    return state.node[parent].right if state.node[parent].left == node else state.node[parent].left


@jit
def score_node(model: Lowered, state: ChainState, node: int) -> None:
    """Both scores of a node whose statistics are set."""
    here = state.node[node]
    here.score = here.guess = leaf_score(model.leaf, state.stats, node)
    if model.leaf.kind == SHARED_NORMAL:
        here.guess = leaf_score(model.guess, state.stats, node)
    if not isfinite(here.score + here.guess):
        stop_at(state, node, False)


@jit
def stop_at(state: ChainState, node: int, below: bool) -> None:
    """Stop the run: a score is not finite, that of a node or of one side of a way to part it (`stopped`)."""
    state.way[0], state.way[1] = node, below
    raise FloatingPointError("the score of a cell is not finite")


@jit
def log_stop(model: Lowered, index: int, splittable: bool, rows: int) -> float:
    """Log prior factor of a leaf at depth (or fixed node) ``index``."""
    factors = model.prior.table[index]
    out = factors.log_stop if splittable else factors.log_forced
    return out + model.prior.empty_bonus if rows == 0 else out


@jit
def prior_index(model: Lowered, depth: int, design: int) -> int:
    """Where the prior's tables hold a node."""
    return design if model.prior.by_node else depth


@jit
def node_log_stop(model: Lowered, state: ChainState, node: int) -> float:
    """Log prior factor the node pays, or would pay, as a leaf."""
    index = prior_index(model, state.node[node].depth, state.node[node].design)
    return log_stop(model, index, state.node[node].splittable, state.node[node].rows)


@jit
def subtree_log_prior(model: Lowered, state: ChainState, root: int) -> float:
    """Log prior of the part of the tree at and below ``root``, summed afresh."""
    total = 0.0
    node = root
    while node != NONE:
        if is_leaf(state, node):
            total += node_log_stop(model, state, node)
        else:
            total += model.prior.table[prior_index(model, state.node[node].depth, state.node[node].design)].log_split
            total += state.node[node].log_rule
        node = next_node(state, node, root)
    return total


@jit
def subtree_log_score(state: ChainState, root: int) -> float:
    """Sum of the leaf scores at and below ``root``, summed afresh."""
    total = 0.0
    node = root
    while node != NONE:
        if is_leaf(state, node):
            total += state.node[node].score
        node = next_node(state, node, root)
    return total


@jit
def next_node(state: ChainState, node: int, root: int) -> int:
    """The node after ``node`` in preorder at or below ``root``, -1 behind the last."""
    if not is_leaf(state, node):
        return state.node[node].left
    while node != root:
        parent = state.node[node].parent
        if state.node[parent].left == node:
            return state.node[parent].right
        node = parent
    return NONE
