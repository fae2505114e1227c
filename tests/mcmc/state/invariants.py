"""Invariants of the arrays of a chain after every step, computed from the data."""

from math import isclose

import numpy as np

from pactree_mcmc.mcmc.chain import draw_store as _saving
from pactree_mcmc.mcmc.state import records
from pactree_mcmc.mcmc.state.terms import subtree_log_score
from pactree_mcmc.mcmc.sums import split_sums as _scan
from pactree_mcmc.model.rows import PlainSplit
from pactree_mcmc.model.split_prior.base import FIXED, LOCAL, LOCAL_TRIVIAL
from pactree_mcmc.posterior.draws import Draws
from pactree_mcmc.testing.spaces import Record

LISTS = (
    ("growable", "growable_at", records.N_GROWABLE),
    ("prunable", "prunable_at", records.N_PRUNABLE),
    ("internal", "internal_at", records.N_INTERNAL),
)


class Copies:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array.view(np.ndarray)
        self.made: dict = {}

    def __getitem__(self, i: int) -> Record:
        if i not in self.made:
            self.made[i] = Record(zip(self.array.dtype.names, self.array[i].item(), strict=True))
        return self.made[i]

    def first(self, n: int, name: str) -> list:
        return self.array[name][:n].tolist()


def preorder(node):
    """Nodes in use, children after parents, left before right; ``node`` holds the records of a state."""
    out, todo = [], [0]
    while todo:
        node_number = todo.pop()
        out.append(node_number)
        if node[node_number].left >= 0:
            todo += [node[node_number].right, node[node_number].left]
    return out


def check_places(chain):
    """Nodes, free list, links, depths, ranges and both lists fit together."""
    state = chain.state
    node, count = Copies(state.node), state.count.tolist()
    nodes_in_use = preorder(node)
    assert count[records.N_NODES] == len(nodes_in_use)
    assert sorted(nodes_in_use + node.first(count[records.N_FREE], "free")) == list(range(len(state.node)))
    assert sorted(state.order.tolist()) == list(range(len(state.order)))
    root = node[0]
    assert (root.parent, root.depth, root.start, root.stop) == (-1, 0, 0, len(state.order))
    leaves = {i for i in nodes_in_use if node[i].left < 0}
    for i in leaves:
        record = node[i]
        assert (record.left, record.right, record.feature, record.log_rule) == (-1, -1, -1, 0.0)
    for i in set(nodes_in_use) - leaves:
        record = node[i]
        left, right = node[record.left], node[record.right]
        assert left.parent == right.parent == i and left.depth == right.depth == record.depth + 1
        assert (left.start, right.stop) == (record.start, record.stop)
        assert left.start <= left.stop == right.start <= right.stop
    expected = {
        "growable": {i for i in leaves if node[i].splittable},
        "internal": set(nodes_in_use) - leaves,
        "prunable": {i for i in set(nodes_in_use) - leaves if {node[i].left, node[i].right} <= leaves},
    }
    for name, at, length in LISTS:
        listed = node.first(count[length], name)
        assert len(listed) == len(set(listed)) and set(listed) == expected[name]
        assert all(getattr(node[i], at) == place for place, i in enumerate(listed))
        assert all(getattr(node[i], at) == -1 for i in nodes_in_use if i not in expected[name])


class PlainValues:
    """Values of the model's plain formulas, computed once for each cell."""

    def __init__(self, model):
        self.model = model
        self.value_of_cell = {}

    def value(self, formula, cell, *args):
        """Return ``formula(model, cell, *args)``."""
        place = cell.index.tobytes(), cell.low.tobytes(), cell.high.tobytes(), cell.depth, cell.node
        if (formula, place, args) not in self.value_of_cell:
            self.value_of_cell[formula, place, args] = formula(self.model, cell, *args)
        return self.value_of_cell[formula, place, args]


def stats_and_score(model, cell):
    stats = cell.stats(model.leaf.n_stats(model.target))
    return stats, model.leaf.log_score(stats, model.target) if len(cell.index) else 0.0


def is_splittable(model, cell):
    return not model.is_forced(cell)


def check_contents(model, chain, plain_values=None):
    """Rows, statistics, scores, boxes, splittability, log prior and log score are those of the tree."""
    state, plain_values = chain.state, plain_values or PlainValues(model)
    log_prior = float(_saving.log_prior_of(chain.model, chain.packed_state))
    log_score = float(subtree_log_score(chain.packed_state, 0))
    tree = saved_tree(model, chain)
    assert isclose(log_prior, model.log_prior(tree), rel_tol=1e-12, abs_tol=1e-10)
    assert isclose(log_score, model.log_score(tree), rel_tol=1e-10, abs_tol=1e-9)
    node = Copies(state.node)
    numbers, scans = preorder(node), len(state.stored.cell) > 1 and model.split_prior.kind != FIXED
    for number, cell, split in model.visit(tree):
        i = numbers[number]
        record = node[i]
        assert sorted(state.order[record.start : record.stop].tolist()) == cell.index.tolist()
        assert record.rows == cell.n_rows
        stats, score = plain_values.value(stats_and_score, cell)
        for statistic, expected in zip(state.stats[i].tolist(), stats.tolist(), strict=True):
            assert isclose(statistic, expected, rel_tol=1e-12, abs_tol=1e-9)
        assert isclose(record.score, score, rel_tol=1e-10, abs_tol=1e-9)
        assert record.splittable == plain_values.value(is_splittable, cell)
        if state.box.shape[1]:
            ordered = ~model.columns.is_nominal
            assert (state.box[i, :, 0] == cell.low).all() and (state.box[i, ordered, 1] == cell.high[ordered]).all()
        if record.splittable and scans and plain_values.value(has_few_splits, cell):
            expected = plain_values.value(log_w, cell, float(state.beta[0]))
            assert isclose(_scan.scan(chain.model, chain.packed_state, i), expected, rel_tol=1e-9, abs_tol=1e-8)
        if split is not None:
            left, _ = model.rules.children(cell, split)
            assert record.default_left == (2 * left.n_rows >= cell.n_rows)
            assert record.default_left == tree.default_left[number]


def has_few_splits(model, cell):
    rules = model.rules
    return all(rules.count_splits(cell, k) < 2 ** (_scan.MAX_PARTITIONED_CATEGORIES - 1) for k in range(len(cell.low)))


def log_w(model, cell, beta):
    """Log W summed plainly, which a table kept of the cell must equal: else it is stale."""
    total, own_score = 0.0, stats_and_score(model, cell)[1]
    for split in all_splits(model, cell):
        log_rule = model.rules.log_probability(cell, split)
        if log_rule > -np.inf:
            gain = sum(stats_and_score(model, side)[1] for side in model.rules.children(cell, split)) - own_score
            total += np.exp(log_rule + beta * gain)
    return np.log(total)


def all_splits(model, cell):
    """Every split of a cell once; those that cannot be made have probability 0."""
    for k, scale in enumerate(model.scales):
        if model.columns.is_nominal[k]:
            present = model.categories_in(cell, k) or sum(1 << int(c) for c in np.unique(cell.codes(k)))
            if model.split_prior.kind == LOCAL_TRIVIAL:
                yield PlainSplit(k, -1, (1 << scale.n_codes) - 1)
                if len(cell.index):
                    yield PlainSplit(k, -1, 0)
            lowest, others = present & -present, present & (present - 1)
            part = others
            while part:
                part = (part - 1) & others
                yield PlainSplit(k, -1, lowest | part)
        elif model.split_prior.kind in (LOCAL, LOCAL_TRIVIAL):
            codes = np.unique(cell.codes(k))
            if model.split_prior.kind == LOCAL_TRIVIAL:
                yield PlainSplit(k, scale.n_codes - 1, -1)
                if len(codes):
                    yield PlainSplit(k, -1, -1)
            for cut in codes[:-1].tolist():
                yield PlainSplit(k, cut, -1)
        else:
            for cut in range(int(cell.low[k]), int(cell.high[k]) - 1):
                yield PlainSplit(k, cut, -1)


def check_untouched_ranges(model, chain):
    """After a refused growth the units of the leaves may be permuted, not exchanged; scratch is clean."""
    state = chain.state
    clean = state.scratch.codes.rows, state.scratch.codes.is_present, state.scratch.scan.by_code
    assert not any(array.any() for array in clean)
    node = Copies(state.node)
    for i in preorder(node):
        record = node[i]
        if record.left >= 0:
            codes = model.units.codes[record.feature].astype(np.int64)
            goes_left = codes <= record.cut if record.categories < 0 else (record.categories >> codes) & 1 == 1
            middle = node[record.left].stop
            assert goes_left[state.order[record.start : middle]].all()
            assert not goes_left[state.order[middle : record.stop]].any()


def saved_tree(model, chain):
    """The chain's tree as it is saved, saved terms checked against the state's."""
    chain.reserve(1)
    chain.save()
    draws = Draws.join(model, [_saving.trim_draws(chain.saved)])
    assert draws.log_prior_of_tree[0] == _saving.log_prior_of(chain.model, chain.packed_state)
    assert draws.log_score_of_tree[0] == subtree_log_score(chain.packed_state, 0)
    return draws.distinct_tree(0)
