"""Implementation of `check_split_prior`, which compares plain and compiled forms of a split prior in random cells."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import check_count, read_generator, repr_of
from ..model import ChipmanPrior, TreeModel
from ..model.rows import PlainCell, PlainSplit
from ..model.split_prior.base import SplitPrior, call_uncompiled, has_one_split_per_feature, parts_rows
from .spaces import all_outcomes, new_chain, plain_package

MAX_TESTED_CATEGORIES = 8  # largest number of categories of a nominal column: all subsets are tried
MAX_DEPTH, MAX_WALKS = 20, 1000  # largest values allowed for ``max_depth`` and ``n_walks``


class SplitPriorError(AssertionError):
    """Error for a split prior that violates its definition."""


class SplitPriorReport(NamedTuple):
    """The result of `check_split_prior` for a split prior."""

    split_prior: SplitPrior
    n_cells: int
    """Number of cells tested."""
    n_splits: int
    """Number of splits of all these cells."""
    max_difference: float
    """Largest distance of a sum of probabilities from 1."""


def check_split_prior(
    split_prior: SplitPrior, X: Any = None, *, nominal: Any = None, max_depth: int = 3, n_walks: int = 6, rng: Any = 0
) -> SplitPriorReport:
    """Test a split prior on random cells against its definition.

    In every cell on random paths down from the root, the probabilities of all splits must sum to 1, ``count_splits``
    must be their number for each feature, and ``mass`` the sum of their weights. The compiled code must draw these
    splits with these probabilities, report them in ``log_rule``, and make the right children. Each draw is followed
    through every outcome of every random choice.

    Parameters
    ----------
    split_prior : SplitPrior
        A split prior of the library.
    X : array of shape (n, p), optional
        Rows; nominal columns may have at most 8 categories, as all their subsets are tested. Default: 12 rows of a
        column with four values, one with three and, if the prior allows it, one with four categories.
    nominal : sequence of int or str, optional
        Nominal columns, as for `TreeModel`.
    max_depth : int, default 3
        Largest depth of the cells, >= 1.
    n_walks : int, default 6
        Number of paths down from the root, >= 1.
    rng : int, Generator or None, default 0
        Source of randomness for the paths.

    Returns
    -------
    SplitPriorReport

    Raises
    ------
    SplitPriorError
        An AssertionError with the cell, the split, the value found and the value required.
    TypeError
        If ``split_prior`` is not a split prior, or is one that has no compiled form.
    ValueError
        If an argument is out of range, the prior does not suit X, or no cell of X can be split.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> pt.testing.check_split_prior(pt.LocalCuts(min_leaf=2)).max_difference < 1e-12
    True
    """
    if not isinstance(split_prior, SplitPrior):
        raise TypeError(f"split_prior is {repr_of(split_prior)}; give a split prior, such as pt.LocalCuts().")
    check_count("max_depth", max_depth, 1, MAX_DEPTH)
    check_count("n_walks", n_walks, 1, MAX_WALKS)
    generator = read_generator(rng)
    is_default = X is None
    if is_default:
        columns = [np.arange(12) % 4, np.arange(12) // 2 % 3, np.arange(12) // 3 % 4]
        takes_nominal = not call_uncompiled(has_one_split_per_feature, split_prior)
        X = np.column_stack(columns if takes_nominal else columns[:2]).astype(float)
        nominal = [2] if takes_nominal else None
    prior = ChipmanPrior(0.95, 1.0, max_depth=int(max_depth))
    y = np.arange(len(X)) % 2
    try:
        model = TreeModel(X, y, nominal=nominal, split_prior=split_prior, tree_prior=prior)
    except ValueError as error:
        if not is_default:
            raise
        raise ValueError(f"{error} The default X of check_split_prior has {X.shape[1]} columns; pass X=.") from error
    check = _SplitPriorCheck(model)
    for _ in range(int(n_walks)):
        check.check_path(generator)
    if check.n_splits == 0:
        raise ValueError(f"no cell of X can be split by {split_prior!r}: nothing was checked; pass X= with more rows.")
    return SplitPriorReport(split_prior, check.n_cells, check.n_splits, check.max_difference)


class _SplitPriorCheck:
    """Checks of the split prior of one model in the cells on random paths down from the root."""

    def __init__(self, model: TreeModel) -> None:
        self.model, self.rules, self.parts_rows = model, model.rules, call_uncompiled(parts_rows, model.split_prior)
        self.columns = model.columns.is_nominal[model.columns.source]
        widest = max((int(n) for n, is_it in zip(model.n_codes, self.columns, strict=True) if is_it), default=0)
        if widest > MAX_TESTED_CATEGORIES:
            raise ValueError(
                f"a column has {widest} categories; give at most {MAX_TESTED_CATEGORIES}, as all parts are tried."
            )
        plain = plain_package()
        self.splits, self.grow = plain.module("mcmc.state.splits"), plain.module("mcmc.edits.grow")
        self.n_cells, self.n_splits, self.max_difference = 0, 0, 0.0

    def check_path(self, rng: np.random.Generator) -> None:
        """Check every cell on a random path down from the root, until a cell that cannot be split."""
        chain, cell, node = new_chain(self.model), self.model.root_cell(), 0
        with np.errstate(over="ignore"):
            while True:
                self._check_node(chain, cell, node)
                drawn_splits = self._check_cell(chain, cell, node)
                if not drawn_splits:
                    return
                split = drawn_splits[int(rng.integers(len(drawn_splits)))]
                self.grow.attach_children(chain.model, chain.packed_state, node, split)
                self.grow.accept_growth(chain.model, chain.packed_state, node)
                sides = self.rules.children(cell, PlainSplit(int(split.feature), int(split.cut), int(split.categories)))
                record = chain.state.node[node]
                for child, side in zip((record.left, record.right), sides, strict=True):
                    self._check_child(chain, cell, split, child, side)
                node, cell = (record.left, sides[0]) if rng.random() < 0.5 else (record.right, sides[1])

    def _check_cell(self, chain: Any, cell: PlainCell, node: int) -> list:
        """Check all splits of a cell, at ``node`` of the chain."""
        # return the splits that compiled code draws in the cell
        self.n_cells += 1
        if not chain.state.node[node].splittable:
            return []
        plain_log_p: dict[Hashable, float] = {}
        for split in self._all_splits():
            log_p = self.rules.log_probability(cell, split)
            if log_p > -math.inf:
                plain_log_p[self._key(cell, split)] = log_p
                self._check_parts(cell, split)
        total = math.fsum(math.exp(log_p) for log_p in plain_log_p.values())
        self.max_difference = max(self.max_difference, abs(total - 1.0))
        self.n_splits += len(plain_log_p)
        self._require(abs(total - 1.0) < 1e-9, cell, f"probabilities of {len(plain_log_p)} splits with sum {total!r}")
        for k in range(len(cell.low)):
            n_listed = sum(key[0] == k for key in plain_log_p)  # type: ignore[index]
            n_splits = self.rules.count_splits(cell, k)
            mass = self.rules.mass(cell, k)
            compiled = float(self.splits.compute_split_mass(chain.model, chain.packed_state, node, k))
            if plain_log_p and n_listed:
                fault = f"count_splits {n_splits} of coordinate {k}, and {n_listed} splits"
                self._require(n_listed == n_splits, cell, fault)
                agrees = abs(mass - compiled) <= 1e-9 * mass
                self._require(agrees, cell, f"mass {compiled!r} of coordinate {k} compiled, and {mass!r} plainly")
        return self._check_draws(chain, cell, node, plain_log_p)

    def _check_draws(self, chain: Any, cell: PlainCell, node: int, plain_log_p: dict[Hashable, float]) -> list:
        """Return the splits that compiled code draws in a cell, at ``node`` of the chain."""
        drawn_splits: dict[Hashable, tuple[float, Any]] = {}
        arguments = chain.model, chain.packed_state, node
        for probability, result in all_outcomes(lambda rng: self.splits.draw_split(rng, *arguments)):
            split = PlainSplit(int(result.feature), int(result.cut), int(result.categories))
            key = self._key(cell, split)
            self._require(key in plain_log_p, cell, f"a split that compiled code draws and plain code lacks, {split}")
            drawn_splits[key] = (drawn_splits.get(key, (0.0, None))[0] + probability, result)
            expected = plain_log_p[key]
            fault = f"log_rule {result.log_rule!r} of {split}, and log R is {expected!r}"
            self._require(abs(result.log_rule - expected) < 1e-9, cell, fault)
        for key, log_p in plain_log_p.items():
            p = drawn_splits.get(key, (0.0, None))[0]
            is_right = abs(p - math.exp(log_p)) < 1e-9
            self._require(is_right, cell, f"a split {key} drawn with probability {p!r}, and R is {math.exp(log_p)!r}")
        return [result for _, result in drawn_splits.values()]

    def _check_node(self, chain: Any, cell: PlainCell, node: int) -> None:
        """Raise an error unless the compiled and the Python form of the prior agree on whether a cell can be split."""
        is_splittable = bool(chain.state.node[node].splittable)
        has_splits = cell.depth < self.model.prior_tables.depth_limit and self.rules.has_split(cell)
        fault = f"splittable {is_splittable} compiled, and {has_splits} plainly"
        self._require(is_splittable == has_splits, cell, fault)

    def _check_parts(self, cell: PlainCell, split: PlainSplit) -> None:
        """Raise an error unless the children by the prior's Python form divide the rows, and are one level deeper."""
        left, right = self.rules.children(cell, split)
        rows = np.sort(np.concatenate([left.index, right.index]))
        is_right = np.array_equal(rows, np.sort(cell.index)) and left.depth == right.depth == cell.depth + 1
        self._require(is_right, cell, f"children of {split} that do not divide its rows")

    def _check_child(self, chain: Any, cell: PlainCell, split: Any, child: int, side: PlainCell) -> None:
        """Raise an error if node ``child`` has other rows or another box than ``side``, the plain child of ``cell``."""
        record = chain.state.node[child]
        rows = np.sort(chain.state.order[record.start : record.stop])
        is_right = np.array_equal(rows, np.sort(side.index))
        is_right &= record.rows == side.n_rows and record.depth == side.depth
        box = chain.state.box[child]
        for k in range(len(box)):
            is_right = is_right and int(box[k, 0]) == int(side.low[k])
            is_right = is_right and (self.columns[k] or box[k, 1] == side.high[k])
        self._require(bool(is_right), cell, f"other children compiled than plainly, of {split}")

    def _all_splits(self) -> Iterator[PlainSplit]:
        """Yield every split that a cell could have under any split prior: all subsets of categories and all cuts."""
        for k, n_codes in enumerate(self.model.n_codes.tolist()):
            if self.columns[k]:
                for bits in range(1 << n_codes):
                    yield PlainSplit(k, -1, bits)
            else:
                for cut in range(-1, n_codes):
                    yield PlainSplit(k, cut, -1)

    def _key(self, cell: PlainCell, split: PlainSplit) -> Hashable:
        """Return a key that is equal for two splits of a cell if and only if the prior counts them as the same."""
        goes_left = cell.goes_left(split)
        if self.parts_rows:
            parts = {tuple(cell.index[goes_left].tolist()), tuple(cell.index[~goes_left].tolist())}
            # the two parts of categories have no order; trivial splits of rows, one part empty, have one
            ordered = tuple(cell.index[goes_left].tolist())
            return split.feature, frozenset(parts) if self.columns[split.feature] and () not in parts else ordered
        if self.columns[split.feature]:
            admitted = int(cell.low[split.feature])
            return split.feature, frozenset({split.categories & admitted, admitted & ~split.categories})
        return split.feature, split.cut

    def _require(self, holds: bool, cell: PlainCell, fault: str) -> None:
        """Raise a SplitPriorError that says that the prior has ``fault`` in the cell, unless ``holds`` is True."""
        if not holds:
            boxes = list(zip(cell.low.tolist(), cell.high.tolist(), strict=True))
            raise SplitPriorError(
                f"{self.model.split_prior!r} has {fault}, in the cell of depth {cell.depth} with merged rows "
                f"{cell.index.tolist()} and box {boxes}."
            )
