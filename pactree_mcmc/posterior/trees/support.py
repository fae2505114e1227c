"""Frequencies of cells and splits, their Monte-Carlo errors, and their differences between chains."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import Seed, check_number, check_type
from ..convergence import caveat_of
from ..distribution import HasDraws, TreeDistribution, documented, draws_of
from ..draws import Draws
from ..ess import MIN_DRAWS_PER_CHAIN, autocorrelation_times, rhat_and_ess_by_tree
from ..laws import CellErrors, CellLaw
from .paths import Condition, condition_of, conditions_in_words, path_to

if TYPE_CHECKING:
    import pandas as pd

CELL, SPLIT = "cell", "split"
MAX_PRINTED = 12
"""Number of the most probable cells and splits that are printed."""


class Support(NamedTuple):
    """The cells and splits of a posterior over trees, cells first, each kind by decreasing probability.

    A cell is the set of training rows of a node; that of all rows, which every tree has, is not listed. A split is the
    partition of a cell in two, whichever feature and threshold make it.
    """

    kind: np.ndarray
    """(m,) "cell" or "split", for each of the m listed cells and splits."""
    words: list[str]
    """(m,) the conditions on the path to the cell; for a split also a colon and the condition of its left side."""
    probability: np.ndarray
    """(m,) posterior probability that a tree has the cell or split."""
    by_chain: np.ndarray
    """(m, chains): the probability estimated from each chain; no columns if it is exact."""
    rhat: np.ndarray
    """(m,) R-hat of the indicator that a drawn tree has the cell or split; 1 if the probability is exact."""
    ess: np.ndarray
    """(m,) bulk effective sample size of that indicator; infinite if the probability is exact."""
    mcse: np.ndarray
    """(m,) Monte-Carlo standard error of the probability; 0 if it is exact."""
    rows: np.ndarray
    """(m,) number of training rows, counted with their weights, in the cell, or in the cell that is split."""
    key: list[tuple[int, ...]]
    """(m,) identifiers, equal for the same cell or split in all posteriors of the model."""
    by_tree: np.ndarray
    """(m, n_distinct_trees) bool: True if the tree has the cell or split; no columns if the probability is exact."""
    n_rows: int
    """Number of distinct training rows that were used to decide if two cells are equal."""
    all_rows: int
    """Number of distinct rows of the model."""
    caveat: str = ""
    """Line with which the text begins: what can be used of draws that have not converged. Empty if they have."""

    def __repr__(self) -> str:
        n_cells = int((self.kind == CELL).sum())
        head = f"{self.caveat}\n" if self.caveat else ""
        head += f"Support({n_cells} cells, {len(self.kind) - n_cells} splits; .table() has all)"
        lines = self.table().sort_values("probability", ascending=False, kind="stable").head(MAX_PRINTED)
        return f"{head}\n{lines[['kind', 'words', 'rows', 'probability', 'mcse']].to_string(max_colwidth=60)}"

    def series(self) -> pd.Series:
        """Return the probabilities by kind and words, the largest first.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> round(float(truth.support(0.5).series()["cell", "x0 > 14.5"]), 2)
        0.81
        """
        import pandas as pd

        index = pd.MultiIndex.from_arrays([self.kind, self.words], names=["kind", "words"])
        return pd.Series(self.probability, index, name="probability").sort_values(ascending=False, kind="stable")

    def table(self, beside: Support | None = None) -> pd.DataFrame:
        """Return the numbers as a DataFrame, one line for each cell or split.

        Parameters
        ----------
        beside : Support, optional
            Support of another posterior of the same model, such as the exact one. Its probabilities are added as the
            column ``beside``, NaN for cells and splits that it does not list. Column ``z`` is the difference of the two
            probabilities over its Monte-Carlo standard error.

        Returns
        -------
        DataFrame
            Columns kind, words, rows, probability, mcse, ess, rhat, and "chain 0" and so on.

        Raises
        ------
        TypeError
            If ``beside`` is not a Support.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> both = truth.sample(1000, rng=1).support().table(beside=truth.support())
        >>> bool(both["z"].abs().max() < 4)
        True
        """
        import pandas as pd

        numbers = {name: getattr(self, name) for name in ("rows", "probability", "mcse", "ess", "rhat")}
        by_chain = {f"chain {c}": column for c, column in enumerate(self.by_chain.T)}
        out = pd.DataFrame({"kind": self.kind, "words": self.words} | numbers | by_chain)
        out.attrs["rows"] = f"cells are distinguished by {self.n_rows} of {self.all_rows} distinct rows"
        if beside is not None:
            check_type("beside", beside, Support, "what support() of another posterior of the model returns")
            place = {key: i for i, key in enumerate(beside.key)}
            # a cell that ``beside`` does not list gets the index of the NaN that is appended below
            number = [place.get(key, len(beside.key)) for key in self.key]
            other, error = (np.append(values, np.nan)[number] for values in (beside.probability, beside.mcse))
            out["beside"] = other
            with np.errstate(divide="ignore", invalid="ignore"):
                gap = self.probability - other
                out["z"] = np.where(np.abs(gap) < 1e-12, 0.0, gap / np.hypot(self.mcse, error))
        return out


@documented
def support(post: TreeDistribution, min_probability: float = 0.05, *, draws: int = 1000, rng: Seed = 0) -> Support:
    """Return the cells and splits of the trees, with their probabilities and Monte-Carlo errors.

    A cell is the set of training rows of a node, a split the unordered partition of a cell in two: a nominal split
    with its sides exchanged, or another threshold between the same rows, is the same split. Cells are to decision
    trees what clades are to phylogenies.

    Parameters
    ----------
    min_probability : float, default 0.05
        Smallest probability that is listed, in [0, 1]. With 0 all that occur in draws are listed.
    {draws_1000}

    Returns
    -------
    Support
        Arrays by cell and split; ``.table()`` is a DataFrame, ``.series()`` the probabilities by name. Exact for an
        exact posterior; with fewer than 4 draws a chain R-hat, effective sample size and error are NaN.

    {raises}

    Notes
    -----
    R-hat, effective sample size and error are those of the indicator of the cell (formulas, section 12.5). The
    words are those of the path in the most probable tree with the cell, or for an exact posterior of the most
    probable splits that lead to it. Of more than 2,000 distinct rows 2,000 are used, evenly spaced: cells that
    differ only in other rows count as one. O(rows * depth) a distinct tree, O(draws * log(draws)) a cell.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.repeat([0.0, 1.0], 15)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 0), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> print(post.support(0.5).table()[["kind", "words", "rows"]].to_string(index=False))
     kind               words  rows
     cell           x0 <= 0.5  15.0
     cell            x0 > 0.5  15.0
    split all rows: x0 <= 0.5  30.0
    """
    law = DrawnCells(draws_of(post, draws, rng)) if post._cells is None else post._cells
    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    cells = indices_by_probability(law.probability, min_probability, 1)
    splits = indices_by_probability(law.split_probability, min_probability, 0)
    errors = law.errors(cells, splits)
    texts = [law.cell_words(cell) for cell in cells.tolist()]
    texts += [": ".join(law.split_words(split)) for split in splits.tolist()]
    # a split has the hashes of its two cells, the smaller one first
    keys = [tuple(key) for key in law.key[cells].tolist()]
    keys += [(*min(one, other), *max(one, other)) for one, other in law.key[law.sides[splits]].tolist()]
    return Support(
        np.repeat([CELL, SPLIT], [len(cells), len(splits)]),
        texts,
        np.concatenate([law.probability[cells], law.split_probability[splits]]),
        errors.by_chain,
        errors.rhat,
        errors.ess,
        errors.mcse,
        law.rows(cells, splits),
        keys,
        errors.by_tree,
        law.n_rows,
        law.n_rows_of_model,
        caveat_of(post),
    )


class DrawnCells(CellLaw):
    """Cells and splits of drawn trees, with the fractions of draws that have them."""

    def __init__(self, draws: Draws) -> None:
        self.draws, cells = draws, draws.cells
        self.key, self.sides, self.n_rows, self.n_rows_of_model = cells.key, cells.sides, cells.n_rows, cells.all_rows
        self.by_chain, self.split_by_chain = frequency_by_chain(draws), frequency_by_chain(draws, splits=True)
        self.node, self.split_node = (most_probable_nodes(draws, x) for x in (cells.of_node, cells.split_of_node))

    @cached_property
    def probability(self) -> np.ndarray:
        return self.by_chain.mean(axis=0)

    @cached_property
    def split_probability(self) -> np.ndarray:
        return self.split_by_chain.mean(axis=0)

    def cell_words(self, cell: int) -> str:
        return words_of_node(self.draws, int(self.node[cell]))

    def split_words(self, split: int) -> tuple[str, str]:
        sampled, node = self.draws, int(self.split_node[split])
        above = _conditions_above(sampled, node)
        condition = condition_of(sampled.distinct_trees, sampled.node_between, node)
        columns = sampled.model.columns
        return conditions_in_words(columns, above), conditions_in_words(columns, [condition], above)

    def rows(self, cells: np.ndarray, splits: np.ndarray) -> np.ndarray:
        return self.draws.node_rows[np.concatenate([self.node[cells], self.split_node[splits]])]

    def errors(self, cells: np.ndarray, splits: np.ndarray) -> CellErrors:
        sampled = self.draws
        by_tree = np.vstack([sampled.cells.trees_with(cells), sampled.cells.trees_with(splits, splits=True)])
        by_chain = np.hstack([self.by_chain[:, cells], self.split_by_chain[:, splits]])
        rhat, ess = rhat_and_ess_by_tree(by_tree, sampled.tree_of_draw)
        p = by_chain.mean(axis=0)
        return CellErrors(by_chain.T, rhat, ess, np.sqrt(np.maximum(p * (1.0 - p), 0.0) / ess), by_tree)


def frequency_by_chain(draws: Draws, *, splits: bool = False) -> np.ndarray:
    """Return the fraction of the draws of each chain whose tree has each cell, (chains, n_cells)."""
    counts = [np.bincount(chain, minlength=draws.n_distinct_trees) for chain in draws.tree_of_draw]
    return draws.cells.frequencies(np.array(counts, dtype=np.float64), splits=splits) / draws.n_draws


def indices_by_probability(probability: np.ndarray, min_probability: float, first_index: int) -> np.ndarray:
    """Return the indices >= ``first_index`` with a positive ``probability`` (n,) of at least ``min_probability``."""
    is_listed = (probability >= min_probability) & (probability > 0.0)
    numbers = first_index + np.flatnonzero(is_listed[first_index:])
    return numbers[np.argsort(-probability[numbers], kind="stable")]


def most_probable_nodes(draws: Draws, of_node: np.ndarray) -> np.ndarray:
    """Return a node (n_groups,) of each group, in the most probable tree that has one; -1 for a group without nodes."""
    order = np.argsort(-draws.order_key_of_tree[draws.cells.tree_of_node], kind="stable")
    order = order[of_node[order] >= 0]
    groups, first_node = np.unique(of_node[order], return_index=True)
    out = np.full(int(of_node.max(initial=-1)) + 1, -1)
    out[groups] = order[first_node]
    return out


def words_of_node(draws: Draws, node: int) -> str:
    """Return the conditions on the path to a node, numbered over all trees, as text."""
    return conditions_in_words(draws.model.columns, _conditions_above(draws, node))


def _conditions_above(draws: Draws, node: int) -> list[Condition]:
    """Return the conditions on the path to a node."""
    tree = int(draws.cells.tree_of_node[node])
    return [condition for _, condition in path_to(draws.distinct_trees, draws.node_between, tree, node)]


class SplitFrequencies(NamedTuple):
    """Differences between chains in the frequencies of cells, which phylogenetics calls split frequencies."""

    asdsf: float
    """Average over the cells of the standard deviation, between chains, of the frequency of the cell."""
    expected: float
    """Expected value of ``asdsf`` if chains differ by Monte-Carlo error alone; NaN for chains too short to estimate."""
    n_cells: int
    """Number of cells in the average."""


def asdsf(post: HasDraws, min_probability: float = 0.1) -> SplitFrequencies:
    """Return the average standard deviation, between chains, of the frequencies of cells, and its expected value.

    Parameters
    ----------
    min_probability : float, default 0.1
        Smallest frequency, in at least one chain, of the cells that are used, in [0, 1].

    Returns
    -------
    SplitFrequencies
        ``asdsf``, ``expected``, ``n_cells``. The first two are similar if the chains agree; ``asdsf`` is many times
        ``expected`` if the chains are in different modes. Zeros if there are no such cells; ``expected`` is NaN
        with fewer than 4 draws a chain.

    Raises
    ------
    ValueError
        If ``min_probability`` is out of range.

    Notes
    -----
    As in MrBayes, in which values below .01 are good whatever the number of draws (Ronquist et al. 2012).
    ``expected`` is the mean standard deviation of frequencies that differ by their Monte-Carlo errors alone, given
    the autocorrelation of each cell's indicator. For a single chain its two halves are compared.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stuck = pt.posterior_from_trees(model, stumps, [[0] * 100, [1] * 100]).asdsf()
    >>> round(stuck.asdsf, 3), round(stuck.expected, 3), stuck.n_cells
    (0.707, 0.04, 4)
    """
    sampled = post.draws
    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    draws = sampled.tree_of_draw
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = np.array([draws[0, :half], draws[0, -half:]]) if half else np.repeat(draws, 2, axis=0)
    counts = np.array([np.bincount(chain, minlength=sampled.n_distinct_trees) for chain in draws], dtype=np.float64)
    frequency = sampled.cells.frequencies(counts) / draws.shape[1]
    checked = indices_by_probability(frequency.max(axis=0), min_probability, 1)
    if len(checked) == 0:
        return SplitFrequencies(0.0, 0.0, 0)
    deviation = frequency[:, checked].std(axis=0, ddof=1)
    if draws.shape[1] < MIN_DRAWS_PER_CHAIN:
        return SplitFrequencies(float(deviation.mean()), math.nan, len(checked))
    time = np.empty(len(checked))
    for i, has_cell in enumerate(sampled.cells.trees_with(checked)):
        time[i] = autocorrelation_times(has_cell[draws][None].astype(np.float64))[0]
    mean, chains = frequency[:, checked].mean(axis=0), len(draws)
    variance = mean * (1.0 - mean) * np.minimum(time / draws.shape[1], 1.0)
    # c4, the expected sample standard deviation of ``chains`` independent standard normal numbers
    shrink = math.sqrt(2.0 / (chains - 1)) * math.exp(math.lgamma(chains / 2) - math.lgamma((chains - 1) / 2))
    return SplitFrequencies(float(deviation.mean()), float((shrink * np.sqrt(variance)).mean()), len(checked))
