"""Implementation of `check_split_prior`, which compares plain and compiled forms of a split prior in random cells."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import check_count, read_generator, repr_of
from ..model import ChipmanPrior, TreeModel
from ..model.cells import PlainCell, Split
from ..model.split_prior.base import SplitPrior
from ..model.split_prior.geometry import has_one_way, parts_rows, told
from .plain import plain_package
from .spaces import all_outcomes, new_chain

MOST_CATEGORIES = 8
"""Largest number of categories of a nominal column, since all subsets are tried."""
MOST_DEPTH, MOST_WALKS = 20, 1000
"""Largest values allowed for ``max_depth`` and ``n_walks``."""


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
        If an argument is out of range or the prior does not suit X.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> pt.testing.check_split_prior(pt.LocalCuts(min_leaf=2)).max_difference < 1e-12
    True
    """
    if not isinstance(split_prior, SplitPrior):
        raise TypeError(f"split_prior is {repr_of(split_prior)}; give a split prior, such as pt.LocalCuts().")
    check_count("max_depth", max_depth, 1, MOST_DEPTH)
    check_count("n_walks", n_walks, 1, MOST_WALKS)
    generator = read_generator(rng)
    is_default = X is None
    if is_default:
        columns = [np.arange(12) % 4, np.arange(12) // 2 % 3, np.arange(12) // 3 % 4]
        takes_nominal = not told(has_one_way, split_prior)
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
        check.walk(generator)
    return SplitPriorReport(split_prior, check.n_cells, check.n_splits, check.max_difference)


class _SplitPriorCheck:
    """Checks of the split prior of one model in the cells on random paths down from the root."""

    def __init__(self, model: TreeModel) -> None:
        self.model, self.rules, self.parts_rows = model, model.rules, told(parts_rows, model.split_prior)
        self.columns = model.columns.is_nominal[model.columns.source]
        widest = max((int(n) for n, is_it in zip(model.n_codes, self.columns, strict=True) if is_it), default=0)
        if widest > MOST_CATEGORIES:
            raise ValueError(
                f"a column has {widest} categories; give at most {MOST_CATEGORIES}, as all parts are tried."
            )
        plain = plain_package()
        self.splits, self.grow = plain.module("mcmc.state.splits"), plain.module("mcmc.edits.grow")
        self.n_cells, self.n_splits, self.max_difference = 0, 0, 0.0

    def walk(self, rng: np.random.Generator) -> None:
        """Check every cell on one random path down from the root."""
        chain, cell, node = new_chain(self.model), self.model.root_cell(), 0
        with np.errstate(over="ignore"):
            while True:
                self._check_node(chain, cell, node)
                drawn = self._check_cell(chain, cell, node)
                if not drawn:
                    return
                split = drawn[int(rng.integers(len(drawn)))]
                self.grow.attach_children(chain.model, chain.packed_state, node, split)
                self.grow.accept_growth(chain.model, chain.packed_state, node)
                sides = self.rules.children(cell, Split(int(split.feature), int(split.cut), int(split.categories)))
                here = chain.state.node[node]
                for child, side in zip((here.left, here.right), sides, strict=True):
                    self._check_child(chain, cell, split, child, side)
                goes_left = rng.random() < 0.5
                node, cell = (here.left, sides[0]) if goes_left else (here.right, sides[1])

    def _check_cell(self, chain: Any, cell: PlainCell, node: int) -> list:
        """Check all splits of a cell. Return the splits that compiled code draws, [] if the cell cannot be split."""
        self.n_cells += 1
        if not chain.state.node[node].splittable:
            return []
        plainly: dict[Hashable, float] = {}
        for split in self._all_splits(cell):
            log_p = self.rules.log_probability(cell, split)
            if log_p > -math.inf:
                plainly[self._key(cell, split)] = log_p
                self._check_parts(cell, split)
        total = math.fsum(math.exp(log_p) for log_p in plainly.values())
        self.max_difference, self.n_splits = max(self.max_difference, abs(total - 1.0)), self.n_splits + len(plainly)
        self._require(abs(total - 1.0) < 1e-9, cell, f"probabilities of {len(plainly)} splits that sum to {total!r}")
        for k in range(len(cell.low)):
            n_found = sum(key[0] == k for key in plainly)  # type: ignore[index]
            n_splits = self.rules.count_splits(cell, k)
            mass = self.rules.mass(cell, k)
            compiled = float(self.splits.compute_split_mass(chain.model, chain.packed_state, node, k))
            if plainly and n_found:
                self._require(
                    n_found == n_splits, cell, f"count_splits {n_splits} of coordinate {k}, and {n_found} splits"
                )
                agree = abs(mass - compiled) <= 1e-9 * mass
                self._require(agree, cell, f"mass {compiled!r} of coordinate {k} compiled, and {mass!r} plainly")
        return self._check_draws(chain, cell, node, plainly)

    def _check_draws(self, chain: Any, cell: PlainCell, node: int, plainly: dict[Hashable, float]) -> list:
        """Return the splits that compiled code draws in a cell.

        Raise an error if these are not the splits of the plain form, with the log probabilities ``plainly``.
        """
        drawn: dict[Hashable, tuple[float, Any]] = {}
        for probability, result in all_outcomes(
            lambda rng: self.splits.draw_split(rng, chain.model, chain.packed_state, node)
        ):
            split = Split(int(result.feature), int(result.cut), int(result.categories))
            key = self._key(cell, split)
            self._require(
                key in plainly, cell, f"a split that compiled code draws and the prior does not know, {split}"
            )
            drawn[key] = (drawn.get(key, (0.0, None))[0] + probability, result)
            right = plainly[key]
            self._require(
                abs(result.log_rule - right) < 1e-9,
                cell,
                f"log_rule {result.log_rule!r} of {split}, and log R is {right!r}",
            )
        for key, log_p in plainly.items():
            p = drawn.get(key, (0.0, None))[0]
            good = abs(p - math.exp(log_p)) < 1e-9
            self._require(good, cell, f"a split {key} drawn with probability {p!r}, and R is {math.exp(log_p)!r}")
        return [result for _, result in drawn.values()]

    def _check_node(self, chain: Any, cell: PlainCell, node: int) -> None:
        """Check that compiled code and the plain form agree on whether the cell can be split."""
        splits = bool(chain.state.node[node].splittable)
        can = cell.depth < self.model.prior_tables.depth_limit and bool(self.rules.admissible(cell).any())
        self._require(splits == can, cell, f"splittable {splits} compiled, and {can} plainly")

    def _check_parts(self, cell: PlainCell, split: Split) -> None:
        """Raise an error if the plain children of a split do not part the rows of the cell, one level deeper."""
        left, right = self.rules.children(cell, split)
        together = np.sort(np.concatenate([left.index, right.index]))
        good = np.array_equal(together, np.sort(cell.index)) and left.depth == right.depth == cell.depth + 1
        self._require(good, cell, f"children of {split} that do not hold its rows between them")

    def _check_child(self, chain: Any, cell: PlainCell, split: Any, child: int, side: PlainCell) -> None:
        """Raise an error if a child node of compiled code has other rows or another box than the plain child."""
        here = chain.state.node[child]
        rows = np.sort(chain.state.order[here.start : here.stop])
        good = np.array_equal(rows, np.sort(side.index)) and here.rows == side.n_rows and here.depth == side.depth
        box = chain.state.box[child]
        for k in range(len(box)):
            good = good and int(box[k, 0]) == int(side.low[k]) and (self.columns[k] or box[k, 1] == side.high[k])
        self._require(bool(good), cell, f"other children compiled than plainly, of {split}")

    def _all_splits(self, cell: PlainCell) -> Iterator[Split]:
        """Yield every split of a cell that any split prior could have: all subsets of categories and all cuts."""
        for k, n_codes in enumerate(self.model.n_codes.tolist()):
            if self.columns[k]:
                for bits in range(1 << n_codes):
                    yield Split(k, -1, bits)
            else:
                for cut in range(-1, n_codes):
                    yield Split(k, cut, -1)

    def _key(self, cell: PlainCell, split: Split) -> Hashable:
        """Return a key that is equal for two splits of a cell if and only if the prior counts them as the same."""
        left = cell.goes_left(split)
        if self.parts_rows:
            parts = {tuple(cell.index[left].tolist()), tuple(cell.index[~left].tolist())}
            # the two parts of categories have no order; trivial splits of rows, one part empty, have one
            ordered = tuple(cell.index[left].tolist())
            return split.feature, frozenset(parts) if self.columns[split.feature] and () not in parts else ordered
        if self.columns[split.feature]:
            inside = int(cell.low[split.feature])
            return split.feature, frozenset({split.categories & inside, inside & ~split.categories})
        return split.feature, split.cut

    def _require(self, holds: bool, cell: PlainCell, what: str) -> None:
        """Raise a SplitPriorError that names the cell, unless the condition holds."""
        if not holds:
            boxes = list(zip(cell.low.tolist(), cell.high.tolist(), strict=True))
            raise SplitPriorError(
                f"{self.model.split_prior!r} has {what}, in the cell of depth {cell.depth} with merged rows "
                f"{cell.index.tolist()} and box {boxes}."
            )
