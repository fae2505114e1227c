"""Frequencies of cells and splits, their Monte-Carlo errors, and their differences between chains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import check_number, check_type
from ..convergence import caveat_of
from ..ess import MIN_DRAWS_PER_CHAIN, autocorrelation_times, rhat_and_ess_by_tree
from .paths import condition_of, conditions_in_words, path_to

if TYPE_CHECKING:
    import pandas as pd

    from ..draws import DrawnTrees

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
        probability = pd.Series(self.probability, index, name="probability")
        return probability.sort_values(ascending=False, kind="stable")

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


def support_of_draws(post: DrawnTrees, min_probability: float) -> Support:
    """Return the cells and splits in at least a fraction ``min_probability`` of the draws; see `Posterior.support`."""
    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    cells, nodes = post.cells, []
    by_tree, by_chain = [], []
    key: list[tuple[int, ...]] = []
    texts: list[str] = []
    for splits in (False, True):
        frequency = frequency_by_chain(post, splits=splits)
        listed = indices_by_probability(frequency.mean(axis=0), min_probability, 0 if splits else 1)
        nodes.append(most_probable_nodes(post, cells.split_of_node if splits else cells.of_node)[listed])
        by_tree.append(cells.trees_with(listed, splits=splits))
        by_chain.append(frequency[:, listed])
        key += (
            split_keys(cells.key[cells.sides[listed]])
            if splits
            else [tuple(word) for word in cells.key[listed].tolist()]
        )
        texts += [words_of_node(post, node, split=splits) for node in nodes[-1].tolist()]
    has_it, frequencies = np.vstack(by_tree), np.hstack(by_chain)
    rhat, ess = rhat_and_ess_by_tree(has_it, post.tree_of_draw)
    probability = frequencies.mean(axis=0)
    return Support(
        np.repeat([CELL, SPLIT], [len(of_kind) for of_kind in nodes]),
        texts,
        probability,
        frequencies.T,
        rhat,
        ess,
        np.sqrt(np.maximum(probability * (1.0 - probability), 0.0) / ess),
        post.node_rows[np.concatenate(nodes)],
        key,
        has_it,
        cells.n_rows,
        cells.all_rows,
        caveat_of(post),
    )


def frequency_by_chain(post: DrawnTrees, *, splits: bool = False) -> np.ndarray:
    """Return the fraction of the draws of each chain whose tree has each cell, (chains, n_cells).

    A cell is the set of training rows of a node. With ``splits`` return the fraction that have each split of a cell in
    two, (chains, n_splits).
    """
    counts = [np.bincount(chain, minlength=post.n_distinct_trees) for chain in post.tree_of_draw]
    return post.cells.frequencies(np.array(counts, dtype=np.float64), splits=splits) / post.n_draws


def indices_by_probability(probability: np.ndarray, min_probability: float, first_index: int) -> np.ndarray:
    """Return the indices >= ``first_index`` with a positive ``probability`` (n,) of at least ``min_probability``.

    They are in descending order of probability. With ``first_index`` 1, cell 0, which is all rows, is left out.
    """
    is_listed = (probability >= min_probability) & (probability > 0.0)
    numbers = first_index + np.flatnonzero(is_listed[first_index:])
    return numbers[np.argsort(-probability[numbers], kind="stable")]


def split_keys(sides: np.ndarray) -> list[tuple[int, ...]]:
    """Return the key of each split, four integers: the hashes of its two cells, the smaller hash first.

    ``sides`` (m, 2, 2) are these hashes. Equal splits in posteriors of one model have equal keys.
    """
    return [(*min(first, second), *max(first, second)) for first, second in sides.tolist()]


def most_probable_nodes(post: DrawnTrees, of_node: np.ndarray) -> np.ndarray:
    """Return a node (n_groups,) of each group, in the most probable tree that has one; -1 for a group without nodes.

    Nodes are numbered over all trees. ``of_node`` (n_nodes,) is the group of each node, such as its cell or its split;
    -1 for a node in no group.
    """
    key = post.order_key_of_tree
    order = np.argsort(-key[post.cells.tree_of_node], kind="stable")
    order = order[of_node[order] >= 0]
    groups, first_node = np.unique(of_node[order], return_index=True)
    out = np.full(int(of_node.max(initial=-1)) + 1, -1)
    out[groups] = order[first_node]
    return out


def words_of_node(post: DrawnTrees, node: int, *, split: bool = False) -> str:
    """Return the conditions on the path to a node as text; with ``split``, a colon and the node's condition follow.

    Nodes are numbered over all trees.
    """
    trees, between, columns = post.distinct_trees, post.node_between, post.model.columns
    tree = int(post.cells.tree_of_node[node])
    ancestors = [condition for _, condition in path_to(trees, between, tree, node)]
    path = conditions_in_words(columns, ancestors)
    if not split:
        return path
    return split_text(path, conditions_in_words(columns, [condition_of(trees, between, node)], ancestors))


def split_text(path: str, split: str) -> str:
    """Return the text of a split: the ``path`` to its cell, a colon, and the condition ``split`` of its left side."""
    return f"{path}: {split}"


class SplitFrequencies(NamedTuple):
    """Differences between chains in the frequencies of cells, which phylogenetics calls split frequencies."""

    asdsf: float
    """Average over the cells of the standard deviation, between chains, of the frequency of the cell."""
    expected: float
    """Expected value of ``asdsf`` if chains differ by Monte-Carlo error alone; NaN for chains too short to estimate."""
    n_cells: int
    """Number of cells in the average."""


def split_frequencies(post: DrawnTrees, min_probability: float) -> SplitFrequencies:
    """Return the average standard deviation between chains of the frequencies of cells, and its expected value.

    The average is over cells, sets of training rows of a node, with a frequency of at least ``min_probability`` in some
    chain; 0 if there are none. A single chain is divided into two halves. See `SampledPosterior.asdsf`.
    """
    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    draws = post.tree_of_draw
    if len(draws) == 1:
        half = draws.shape[1] // 2
        draws = np.array([draws[0, :half], draws[0, -half:]]) if half else np.repeat(draws, 2, axis=0)
    counts = np.array([np.bincount(chain, minlength=post.n_distinct_trees) for chain in draws], dtype=np.float64)
    frequency = post.cells.frequencies(counts) / draws.shape[1]
    checked = indices_by_probability(frequency.max(axis=0), min_probability, 1)
    if len(checked) == 0:
        return SplitFrequencies(0.0, 0.0, 0)
    deviation = frequency[:, checked].std(axis=0, ddof=1)
    if draws.shape[1] < MIN_DRAWS_PER_CHAIN:
        return SplitFrequencies(float(deviation.mean()), math.nan, len(checked))
    time = np.empty(len(checked))
    for i, has_cell in enumerate(post.cells.trees_with(checked)):
        time[i] = autocorrelation_times(has_cell[draws][None].astype(np.float64))[0]
    mean, chains = frequency[:, checked].mean(axis=0), len(draws)
    variance = mean * (1.0 - mean) * np.minimum(time / draws.shape[1], 1.0)
    # c4, the expected sample standard deviation of ``chains`` independent standard normal numbers
    shrink = math.sqrt(2.0 / (chains - 1)) * math.exp(math.lgamma(chains / 2) - math.lgamma((chains - 1) / 2))
    return SplitFrequencies(float(deviation.mean()), float((shrink * np.sqrt(variance)).mean()), len(checked))
