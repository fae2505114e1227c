"""Draws of trees as arrays, of each distinct tree and of each draw, and the course of the run that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import check_count
from ..core.texts import with_short_repr
from ..files.calls import Call
from ..files.encoding import register_class
from ..model import TreeModel
from ..model.leaf.distributions import Mixture
from ..model.model import coded_tree, words_of_cells
from ..tree.arrays import LEAF, TreeArrays, add_predictions_into, leaf_values, leaves_reached, node_depths
from ..tree.coded import (
    CODED_NODE,
    CodedTrees,
    Saved,
    bytes_view,
    from_records,
    in_data_units,
    number_trees,
    values_between,
    weight_of_nodes,
)
from ..tree.tree import Tree
from .evidence import Tempering
from .laws import MAX_PLACES_PER_BLOCK, RowLaw, has_values_by_leaf
from .trees.cells import Cells, number_cells

ATTRIBUTE_OF_FIELD = {name: f"{name}_of_tree" for name in ("log_prior", "log_score")}
ATTRIBUTE_OF_FIELD |= {"trees": "coded_trees", "stats": "place_stats"}
"""Names of attributes of `Draws` by name of its argument, and of the field in a file, where the two differ."""


@register_class
class DrawsInFile(NamedTuple):
    """The part of `Draws` that is written to a file."""

    NAME_IN_FILE = "Draws"  # type: ignore[misc]

    trees: CodedTrees
    stats: np.ndarray
    tree_of_draw: np.ndarray
    log_prior: np.ndarray
    log_score: np.ndarray
    proposed: np.ndarray
    accepted: np.ndarray
    moves: tuple[str, ...]
    seconds: float
    noise_variance: np.ndarray
    tempering: Tempering | None
    calls: tuple[Call, ...] = ()
    sees_all_rows: bool = True
    has_model_prior: bool = True
    log_prior_mass: float | None = None
    caveat: str | None = None


@with_short_repr
@register_class
class Course(NamedTuple):
    """Course of a run: what was asked and tuned, and the chains at rest, from which `resume` continues."""

    request: Any  # `mcmc.run.records.Request`, the arguments of the run
    tuned: Any  # `mcmc.run.records.Tuned`: kernel, density and graphs that the chains use since tuning
    stretch: Any  # `mcmc.run.records.Stretch`, the place of the draws in the run
    rests: tuple  # `mcmc.chain.rest.Rest` of each chain, its last place without stored values
    steps: int  # number of steps of each chain since tuning
    # (teams, 2): log evidence in nats by the draws and the fitted density of each team of chains that tuned together,
    # and its standard error, NaN if unknown. None with a temperature ladder, without density, or if there is no
    # estimate.
    evidences: np.ndarray | None = None
    draws_by_chain: tuple[int, ...] = ()  # number of draws of each chain in a checkpoint, empty after the end of a run
    # (2, p): the probability that a tree has each feature at its root, and anywhere, is at least this, by the exact sum
    # over the trees that a team has visited in tuning. None without evidences.
    visited: np.ndarray | None = None
    every: float = 0.0  # seconds between two checkpoints, 0 after the end of a run

    @property
    def kernel(self) -> Any:
        """Mixture of moves of the chains."""
        return self.tuned.kernel

    @property
    def thin(self) -> int:
        """Number of steps of a chain from one draw to the next."""
        return self.stretch.thin

    @property
    def teams(self) -> list[list[int]]:
        """Indices of the chains of each team, a group of chains that tuned together, separately from other teams."""
        numbers = [rest.team for rest in self.rests]
        return [[c for c, other in enumerate(numbers) if other == number] for number in sorted(set(numbers))]

    def for_file(self) -> Course:
        """Return the course as a file contains it, without the model, which the file contains once."""
        return self._replace(request=self.request._replace(model=None))


class Draws(RowLaw):
    """Trees drawn from a posterior: the distinct ones, and the number of the tree of each draw, by chain.

    Arrays whose names end in ``_of_tree`` have an entry for each distinct tree. Nodes are numbered over all of them.

    Attributes
    ----------
    model : TreeModel
        The model whose trees are drawn.
    coded_trees : CodedTrees
        The distinct trees, one after the other, with splits in codes; ``distinct_trees`` in the units of X.
    place_stats : ndarray of shape (n_nodes, statistics)
        Additive statistics of the training rows in each node.
    tree_of_draw : ndarray of shape (chains, draws), int64
        Number of the distinct tree of each draw.
    log_prior_of_tree, log_score_of_tree : ndarray of shape (n_distinct_trees,)
        Log prior and log score of each distinct tree, nats.
    proposed, accepted : ndarray of shape (chains, draws, moves), int64
        Numbers of proposals of each move since the previous draw, and of accepted ones.
    moves : tuple of str
        Names of the moves.
    seconds : float
        Wall time of the run.
    noise_variance : ndarray of shape (chains, draws)
        The variance common to all leaves, under NormalSharedVariance; NaN under other leaves.
    tempering : Tempering or None
        Ladders, swap rates, round trips and scores by level of a tempered run.
    calls : tuple of Call
        The calls of `sample` and `resume` that made the draws, with seed and versions: ``draws.calls[0].line`` makes
        them again. Empty for independent draws.
    sees_all_rows : bool
        False for draws of a mixture of posteriors given fewer rows.
    has_model_prior : bool
        False if the prior of the trees is not that of the model.
    log_prior_mass : float or None
        Log of the sum of the prior over all trees, nats, if the exact engine has computed it.
    caveat : str or None
        First line of the warning of a run that has not converged, with which texts about trees begin; "" if the run
        passed, None for draws that no run has judged.
    """

    def __init__(
        self,
        model: TreeModel,
        trees: CodedTrees,
        stats: np.ndarray,
        tree_of_draw: np.ndarray,
        log_prior: np.ndarray,
        log_score: np.ndarray,
        proposed: np.ndarray | None = None,
        accepted: np.ndarray | None = None,
        moves: tuple[str, ...] = (),
        seconds: float = 0.0,
        noise_variance: np.ndarray | None = None,
        tempering: Tempering | None = None,
        calls: tuple[Call, ...] = (),
        sees_all_rows: bool = True,
        has_model_prior: bool = True,
        log_prior_mass: float | None = None,
        caveat: str | None = None,
    ) -> None:
        self.model, self.coded_trees, self.place_stats, self.tree_of_draw = model, trees, stats, tree_of_draw
        self.log_prior_of_tree, self.log_score_of_tree = log_prior, log_score
        no_moves = np.zeros((*tree_of_draw.shape, 0), dtype=np.int64)
        self.proposed: np.ndarray = no_moves if proposed is None else proposed
        self.accepted: np.ndarray = no_moves if accepted is None else accepted
        self.moves, self.seconds, self.tempering, self.calls = moves, seconds, tempering, calls
        self.noise_variance = np.full(tree_of_draw.shape, np.nan) if noise_variance is None else noise_variance
        self.sees_all_rows, self.has_model_prior = sees_all_rows, has_model_prior
        self.log_prior_mass, self.caveat = log_prior_mass, caveat

    @classmethod
    def join(cls, model: TreeModel, chains: Sequence[Saved], *, by_stats: bool = False, **facts: Any) -> Draws:
        """Return the draws of several ``chains``, each distinct tree stored once."""
        # With ``by_stats``, trees with equal splits and different node statistics are different. ``facts`` are further
        # arguments of `Draws`, such as ``moves`` and ``seconds``.
        # a chain that was cut short may have saved trees after its last draw
        n_trees = [int(saved.tree_of_draw.max()) + 1 for saved in chains]
        ends = [np.asarray(saved.tree)["start"][: n + 1] for saved, n in zip(chains, n_trees, strict=True)]
        nodes = np.concatenate([bytes_view(saved.node[: end[-1]]) for saved, end in zip(chains, ends, strict=True)])
        stats = np.concatenate([saved.stats[: end[-1]] for saved, end in zip(chains, ends, strict=True)])
        offset = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(end) for end in ends]))])
        trees = from_records(nodes.view(CODED_NODE), offset)
        number, first_tree = number_trees(trees, stats if by_stats else None)
        tree = np.concatenate([np.asarray(saved.tree)[:n] for saved, n in zip(chains, n_trees, strict=True)])
        number_of_chain = np.split(number, np.cumsum(n_trees)[:-1])
        move_counts = np.array([saved.moves for saved in chains])
        return cls(
            model,
            trees.take(first_tree),
            stats[trees.nodes_of(first_tree)],
            np.array([n[saved.tree_of_draw] for n, saved in zip(number_of_chain, chains, strict=True)]),
            tree["log_prior"][first_tree],
            tree["log_score"][first_tree],
            move_counts[:, :, 0],
            move_counts[:, :, 1],
            noise_variance=np.array([saved.noise for saved in chains]),
            **facts,
        )

    @classmethod
    def independent(
        cls,
        model: TreeModel,
        trees: CodedTrees,
        stats: np.ndarray,
        log_prior: np.ndarray,
        log_score: np.ndarray,
        **facts: Any,
    ) -> Draws:
        """Return independent draws as one chain: draw t is tree t, and equal trees are stored once."""
        # The arguments are those of `Draws`, before equal trees are merged
        number, first_tree = number_trees(trees)
        stats = stats[trees.nodes_of(first_tree)]
        return cls(
            model, trees.take(first_tree), stats, number[None], log_prior[first_tree], log_score[first_tree], **facts
        )

    def record(self) -> DrawsInFile:
        """Return the part that is written to a file."""
        return DrawsInFile(**{name: getattr(self, ATTRIBUTE_OF_FIELD.get(name, name)) for name in DrawsInFile._fields})

    def replace(self, **changes: Any) -> Draws:
        """Return these draws with other arguments of the constructor."""
        return Draws(self.model, **(self.record()._asdict() | changes))

    def without_undrawn_trees(self) -> Draws:
        """Return these draws without trees that no draw has, and with equal trees stored once."""
        trees = self.coded_trees
        # trees that send unknown categories to other sides are not equal
        number, first_tree = number_trees(trees, trees.default_left[:, None])
        numbers_drawn, renumbered = np.unique(number[self.tree_of_draw], return_inverse=True)
        trees_drawn = first_tree[numbers_drawn]
        return self.replace(
            trees=trees.take(trees_drawn),
            stats=self.place_stats[trees.nodes_of(trees_drawn)],
            tree_of_draw=renumbered.reshape(self.tree_of_draw.shape),
            log_prior=self.log_prior_of_tree[trees_drawn],
            log_score=self.log_score_of_tree[trees_drawn],
        )

    def __repr__(self) -> str:
        return f"Draws({self.n_chains} chains x {self.n_draws} draws, {self.n_distinct_trees} distinct trees)"

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.tree_of_draw.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of draws per chain."""
        return self.tree_of_draw.shape[1]

    @property
    def n_distinct_trees(self) -> int:
        """Number of distinct trees drawn."""
        return len(self.log_prior_of_tree)

    @cached_property
    def distinct_trees(self) -> TreeArrays:
        """The distinct trees drawn, one after the other, with thresholds in the units of X; see ``coded_trees``."""
        return in_data_units(self.model, self.coded_trees)

    @cached_property
    def place_tree(self) -> np.ndarray:
        tree = np.repeat(np.arange(self.n_distinct_trees), np.diff(self.coded_trees.offset))
        return np.where(self.coded_trees.feature == LEAF, tree, -1)

    def reach(self, X: np.ndarray) -> Iterator[tuple[slice, Mixture]]:
        step = max(MAX_PLACES_PER_BLOCK // self.n_distinct_trees, 1)
        for start in range(0, len(X), step):
            node = leaves_reached(self.distinct_trees, X[start : start + step])
            first = np.arange(len(node) + 1) * self.n_distinct_trees
            yield slice(start, start + step), Mixture(node.ravel(), np.tile(self.weight_of_tree, len(node)), first)

    def average(self, X: np.ndarray, by_place: np.ndarray) -> np.ndarray:
        out = np.zeros((len(X), by_place.shape[1]))
        add_predictions_into(out, self.distinct_trees, self.weight_of_tree, by_place, X)
        return out

    def values_of_trees(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (n_distinct_trees, n, d) of each distinct tree at rows of numbers X (n, p)."""
        leaf, target = self.model.leaf, self.model.target
        if leaf.x_columns is None:
            return leaf_values(self.distinct_trees, self.place_values, X)
        reached, regressors = leaves_reached(self.distinct_trees, X).T, self.model.regressors(X)
        assert regressors is not None
        return np.array([leaf.value(self.place_stats[nodes], target, regressors) for nodes in reached])

    @cached_property
    def cells(self) -> Cells:
        """The cells and splits of the distinct trees, by number."""
        return number_cells(self.model, self.coded_trees)

    @cached_property
    def node_between(self) -> np.ndarray | None:
        """Training values (n_nodes, 2) beside each threshold in its cell, NaN without one; None if cuts are fixed."""
        return values_between(self.model, self.coded_trees)

    @cached_property
    def node_rows(self) -> np.ndarray:
        """Number of training rows in each node, (n_nodes,), counted with their weights."""
        # trees of a stage have statistics of the rows of this stage alone
        model = self.model
        if model.leaf.weighs_rows and self.sees_all_rows:
            return model.leaf.weight(self.place_stats)
        return weight_of_nodes(self.coded_trees, model.units.codes, model.weight_of_unit)

    @cached_property
    def _rows_of_values(self) -> np.ndarray:
        """Number of rows (n_nodes,) on which the value of each node rests, counted with their weights."""
        return self.model.leaf.weight(self.place_stats) if self.model.leaf.weighs_rows else self.node_rows

    @cached_property
    def log_posterior_of_tree(self) -> np.ndarray:
        """Log prior plus log score (n_distinct_trees,) of each distinct tree, nats."""
        return self.log_prior_of_tree + self.log_score_of_tree

    @cached_property
    def order_key_of_tree(self) -> np.ndarray:
        """Key (n_distinct_trees,) that is larger for better trees: log prior plus log score, nats."""
        # The scores of trees of different stages cannot be compared, so there it is the log of the fraction of draws
        return self.log_prior_of_tree + self.log_score_of_tree if self.sees_all_rows else np.log(self.weight_of_tree)

    def distinct_tree(self, t: int) -> Tree:
        """Return distinct tree number ``t``, from 0. The tree of a draw has number ``tree_of_draw[chain, draw]``."""
        t = check_count("t", t, 0, self.n_distinct_trees - 1)
        nodes = slice(int(self.distinct_trees.offset[t]), int(self.distinct_trees.offset[t + 1]))
        feature, threshold, left, right, categories, default_left = (a[nodes] for a in self.distinct_trees[1:])
        return Tree(
            feature,
            threshold,
            left,
            right,
            categories,
            default_left,
            value=self.place_values[nodes] if has_values_by_leaf(self.model) else None,
            columns=self.model.columns,
            classes=self.model.classes_,
            rows=self._rows_of_values[nodes],
            between=None if self.node_between is None else self.node_between[nodes],
            words=words_of_cells(self.model, self.place_stats[nodes]),
        )

    @cached_property
    def weight_of_tree(self) -> np.ndarray:
        """Fraction of the draws with each distinct tree, (n_distinct_trees,)."""
        return np.bincount(self.tree_of_draw.ravel(), minlength=self.n_distinct_trees) / self.tree_of_draw.size

    @cached_property
    def n_leaves_of_tree(self) -> np.ndarray:
        """Number of leaves of each distinct tree, (n_distinct_trees,) int64."""
        return (np.diff(self.distinct_trees.offset) + 1) // 2

    @cached_property
    def depth_of_tree(self) -> np.ndarray:
        """Depth of each distinct tree, (n_distinct_trees,) int64."""
        return np.maximum.reduceat(node_depths(self.distinct_trees), self.distinct_trees.offset[:-1])

    @cached_property
    def root_feature_of_tree(self) -> np.ndarray:
        """Feature that the root of each distinct tree splits on, (n_distinct_trees,) int64; -1 without a split."""
        return self.distinct_trees.feature[self.distinct_trees.offset[:-1]].astype(np.int64)

    @cached_property
    def split_counts_of_tree(self) -> np.ndarray:
        """Number of splits of each distinct tree on each feature, (n_distinct_trees, p) int64."""
        trees, n, p = self.distinct_trees, self.n_distinct_trees, self.model.n_features
        inner = trees.feature != LEAF
        tree = np.repeat(np.arange(n), np.diff(trees.offset))[inner]
        return np.bincount(tree * p + trees.feature[inner], minlength=n * p).reshape(n, p)


def code_trees(model: TreeModel, trees: Sequence[Tree]) -> tuple[CodedTrees, np.ndarray]:
    """Return trees in coded form, and the leaf model's statistics (n_nodes, s) of the training rows in each node."""
    coded = [coded_tree(model, tree, t) for t, tree in enumerate(trees)]
    offset = np.cumsum([0, *(len(node) for node, _ in coded)])
    return from_records(np.concatenate([node for node, _ in coded]), offset), np.concatenate([s for _, s in coded])
