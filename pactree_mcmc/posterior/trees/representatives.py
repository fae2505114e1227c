"""Trees that can stand for a posterior in a paper, with what each of them stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.names import short_repr
from ..draws import has_values_by_leaf
from .consensus import ConsensusTree, consensus_of
from .projection import Projection, projection_of
from .shapes import Shape, shapes_of

if TYPE_CHECKING:
    from ...core.checks import Seed
    from ...tree.tree import Tree
    from ..protocol import AnyPosterior

MAJORITY = 0.5
"""Probability from which the most probable shape is recommended: then no other shape is as probable."""


class Representatives(NamedTuple):
    """Four answers to the question which tree goes into the paper."""

    def __repr__(self) -> str:
        return short_repr(self)

    shape: Shape
    """The most probable shape: the features of its splits, with intervals of cuts and leaves."""
    consensus: ConsensusTree
    """The cells that more than half of the trees have."""
    best: Tree
    """The most probable tree."""
    best_probability: float
    """Its posterior probability; for draws, the fraction of them that have it."""
    projection: Projection | None
    """The tree of as many leaves as the shape whose predictions are closest to the posterior mean, or None if the
    prediction of a leaf depends on the row."""

    @property
    def recommended(self) -> str:
        """Name of the field to print: "shape" if it has most of the posterior probability, otherwise "consensus"."""
        return "shape" if self.shape.probability >= MAJORITY else "consensus"

    def format(self) -> str:
        """Return what each tree stands for as text, and then the recommended one."""
        support = self.consensus.support[1:]
        cells = f"support {support.min():.2f} to {support.max():.2f}" if len(support) else "no cell but all rows"
        lines = [
            f"most probable shape   {self.shape.probability:.3f} of the posterior, {self.shape.tree.n_leaves} leaves",
            f"consensus tree        cells in more than half of the trees, {cells}",
            f"most probable tree    {self.best_probability:.3g} of the posterior, {self.best.n_leaves} leaves",
        ]
        if self.projection is not None:
            tree, r2 = self.projection.tree, self.projection.r2
            lines.append(f"projection            {r2:.2f} of the variance of the predictions, {tree.n_leaves} leaves")
        if self.recommended == "shape":
            reason = "most trees have the same shape, so print it with its intervals"
        else:
            reason = "no shape has half of the probability, so print what most trees have in common"
        chosen = self.shape if self.recommended == "shape" else self.consensus
        return "\n".join([*lines, f"{reason}:", chosen.format()])

    def __str__(self) -> str:
        return self.format()


def representatives_of(post: AnyPosterior, draws: int, rng: Seed) -> Representatives:
    """Return the trees that can stand for a posterior; see `Posterior.representatives`."""
    drawn = post._draws_that_predict(draws, rng)
    shape = shapes_of(drawn, 1, 0.9).shapes[0]
    best = post.map_tree()
    log_joint, log_evidence = getattr(post, "map_log_joint", None), post.log_evidence
    if drawn is post or log_joint is None or log_evidence is None:
        t = int(np.argmax(drawn.log_prior_of_tree + drawn.log_score_of_tree))
        probability = float(drawn.weight_of_tree[t])
    else:
        probability = float(np.exp(log_joint - log_evidence))
    projection = None
    if has_values_by_leaf(post.model):
        projection = projection_of(drawn, max(shape.tree.n_leaves, 2), post._mean_at)
    consensus = consensus_of(drawn, post._cell_probability(drawn), MAJORITY)
    return Representatives(shape, consensus, best, probability, projection)
