"""The draws of a sampled posterior as arrays: properties of each distinct tree, and of each draw."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.checks import check_count
from ..files.calls import Call
from ..files.encoding import register_class
from ..model.model import coded_tree, words_of_cells
from ..tree.arrays import LEAF, TreeArrays, node_depths
from ..tree.coded import CodedTrees, Course, from_records, in_data_units, values_between, weight_of_nodes
from ..tree.tree import Tree
from .evidence import Tempering
from .trees.cells import Cells, number_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model import TreeModel

ATTRIBUTE_OF_FIELD = {name: f"{name}_of_tree" for name in ("log_prior", "log_score")}
ATTRIBUTE_OF_FIELD |= {"trees": "coded_trees", "stats": "node_stats"}
"""Names of attributes of `DrawnTrees` by name of the field in `Draws`, where the two differ."""


def has_values_by_leaf(model: TreeModel) -> bool:
    """Return True if each leaf has one prediction, the same for all rows in it."""
    return model.leaf.predicts and model.leaf.x_columns is None


def refuse_by_row(model: TreeModel) -> None:
    """Raise a ValueError if the prediction of a leaf depends on the row."""
    if model.leaf.x_columns is not None:
        raise ValueError(
            f"{model.leaf!r} looks at columns of X, so a leaf does not predict one value; use predict, "
            "predict_interval and sample_predictive, which take rows."
        )


class DrawnTrees:
    """The distinct trees of some chains, and the tree of each draw: the arrays of `SampledPosterior`.

    The functions of `posterior.trees` take such an object. The arguments are attributes of `SampledPosterior`:
    ``trees`` is ``coded_trees``, ``stats`` is ``node_stats``, and log priors and scores are those of distinct trees.
    ``proposed`` and ``accepted`` count proposals by move, and ``course`` is the state from which `resume` continues.
    ``sees_all_rows`` is False for draws of a mixture of posteriors given fewer rows, ``has_model_prior`` is False if
    the prior of the trees is not that of the model. ``log_prior_mass`` is the log of the sum of the prior over all
    trees, nats, if the exact engine has computed it. ``caveat`` is the line with which texts about trees begin if the
    draws failed the criteria of convergence, "" if they passed, None if they were not judged.
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
        course: Course | None = None,
        calls: tuple[Call, ...] = (),
        sees_all_rows: bool = True,
        has_model_prior: bool = True,
        log_prior_mass: float | None = None,
        caveat: str | None = None,
    ) -> None:
        self.model, self.coded_trees, self.node_stats, self.tree_of_draw = model, trees, stats, tree_of_draw
        self.log_prior_of_tree, self.log_score_of_tree = log_prior, log_score
        no_moves = np.zeros((*tree_of_draw.shape, 0), dtype=np.int64)
        self.proposed: np.ndarray = no_moves if proposed is None else proposed
        self.accepted: np.ndarray = no_moves if accepted is None else accepted
        self.moves, self.seconds = moves, seconds
        self.noise_variance = np.full(tree_of_draw.shape, np.nan) if noise_variance is None else noise_variance
        self.tempering, self.course, self.calls = tempering, course, calls
        self.sees_all_rows, self.has_model_prior = sees_all_rows, has_model_prior
        self.log_prior_mass, self.caveat = log_prior_mass, caveat

    @cached_property
    def distinct_trees(self) -> TreeArrays:
        """The distinct trees drawn, one after the other, with thresholds in the units of X; see ``coded_trees``."""
        return in_data_units(self.model, self.coded_trees)

    @cached_property
    def _tree_of_place(self) -> np.ndarray:
        """Number (n_nodes,) of the distinct tree of which each node is a leaf, -1 for internal nodes."""
        tree = np.repeat(np.arange(self.n_distinct_trees), np.diff(self.coded_trees.offset))
        return np.where(self.coded_trees.feature == LEAF, tree, -1)

    @cached_property
    def cells(self) -> Cells:
        """The cells and splits of the distinct trees, by number."""
        return number_cells(self.model, self.coded_trees)

    @cached_property
    def node_between(self) -> np.ndarray | None:
        """Training values (n_nodes, 2) on either side of each threshold of ``distinct_trees``, in the cell it splits.

        NaN in leaves and nominal splits. None if the cuts do not depend on the training values in a cell.
        """
        return values_between(self.model, self.coded_trees)

    @cached_property
    def node_rows(self) -> np.ndarray:
        """Number of training rows in each node, (n_nodes,), counted with their weights."""
        model = self.model
        if model.leaf.weighs_rows:
            return model.leaf.weight(self.node_stats)
        return weight_of_nodes(self.coded_trees, model.units.codes, model.weight_of_unit)

    @cached_property
    def node_values(self) -> np.ndarray:
        """Prediction of each node of each distinct tree, (n_nodes, d)."""
        refuse_by_row(self.model)
        return np.ascontiguousarray(self.model.leaf.value(self.node_stats, self.model.target))

    @cached_property
    def log_posterior_of_tree(self) -> np.ndarray:
        """Log prior plus log score (n_distinct_trees,) of each distinct tree, nats."""
        return self.log_prior_of_tree + self.log_score_of_tree

    @cached_property
    def order_key_of_tree(self) -> np.ndarray:
        """Key (n_distinct_trees,) that is larger for better trees: log prior plus log score, nats.

        The scores of trees of different stages cannot be compared, so there it is the log of the fraction of draws.
        """
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
            value=self.node_values[nodes] if has_values_by_leaf(self.model) else None,
            columns=self.model.columns,
            classes=self.model.classes_,
            rows=self.node_rows[nodes],
            between=None if self.node_between is None else self.node_between[nodes],
            words=words_of_cells(self.model, self.node_stats[nodes]),
        )

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

    @property
    def log_prior(self) -> np.ndarray:
        """Log prior of the tree of each draw, nats (chains, draws)."""
        return self.log_prior_of_tree[self.tree_of_draw]

    @property
    def log_score(self) -> np.ndarray:
        """Log score, the log marginal likelihood, of the tree of each draw, nats (chains, draws)."""
        return self.log_score_of_tree[self.tree_of_draw]

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of the tree of each draw, (chains, draws) int64."""
        return self.n_leaves_of_tree[self.tree_of_draw]

    @property
    def depth(self) -> np.ndarray:
        """Depth of the tree of each draw, (chains, draws) int64."""
        return self.depth_of_tree[self.tree_of_draw]

    @property
    def split_counts(self) -> np.ndarray:
        """Number of splits of the tree of each draw on each feature, (chains, draws, p) int64."""
        return self.split_counts_of_tree[self.tree_of_draw]

    @property
    def root_feature(self) -> np.ndarray:
        """Feature that the root of each draw splits on, (chains, draws) int64; -1 if the tree has no split."""
        return self.root_feature_of_tree[self.tree_of_draw]

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


@register_class
class Draws(NamedTuple):
    """The part of a sampled posterior that is written to a file, beside its model and the states of its chains.

    The fields are described in `SampledPosterior`; ``trees`` and ``stats`` are ``coded_trees`` and ``node_stats``, and
    ``log_prior`` and ``log_score`` are those of distinct trees.
    """

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


def draws_of(posterior: DrawnTrees) -> Draws:
    """Return the part of a sampled posterior that is written to a file.

    It has the trees, the tree of each draw, priors and scores, counts of moves, and the description of the run.
    """
    return Draws(**{name: getattr(posterior, ATTRIBUTE_OF_FIELD.get(name, name)) for name in Draws._fields})


def code_trees(model: TreeModel, trees: Sequence[Tree]) -> tuple[CodedTrees, np.ndarray]:
    """Return trees in coded form, and the leaf model's statistics (n_nodes, s) of the training rows in each node.

    In coded form a threshold is the largest integer code, of the values of its feature in the model, that goes left.
    """
    coded = [coded_tree(model, tree, t) for t, tree in enumerate(trees)]
    offset = np.cumsum([0, *(len(node) for node, _ in coded)])
    return from_records(np.concatenate([node for node, _ in coded]), offset), np.concatenate([s for _, s in coded])
