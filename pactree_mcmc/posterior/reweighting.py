"""Another prior on the same draws, by importance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..core.checks import Seed, check_number, check_type, read_generator
from ..core.special import logsumexp
from ..model import TreeModel
from ..model.obstacles import unknown_weights
from ..model.plain import coded_tree
from ..tree.coded import CodedTrees, from_records
from ..tree.tree import Tree
from .ess import ess

if TYPE_CHECKING:
    from .chains import AnswersAboutChains

    Drawn = TypeVar("Drawn", bound=AnswersAboutChains)


class Reweighting(NamedTuple):
    """Result of importance weights on the draws of another model."""

    ess: float
    """Effective number of draws: (sum of weights)^2 / sum of squared weights."""
    log_evidence_ratio: float
    """Log evidence of the new model minus that of the old one, nats."""
    log_evidence_ratio_se: float
    """Standard error of ``log_evidence_ratio``; NaN with fewer than four draws a chain."""
    log_evidence: float | None = None
    """Log evidence of the new model, if that of the old one is known."""
    log_evidence_se: float | None = None
    """Standard error of ``log_evidence``, if that of the old model is known."""


def data_difference(one: TreeModel, other: TreeModel) -> str:
    """Return the name of the data in which two models differ apart from X, or an empty text."""
    parts = (
        ("their classes", one.classes_, other.classes_),
        ("y", one.target.values, other.target.values),
        ("sample_weight", one.target.weights, other.target.weights),
        ("the rows that count", one.counted_rows, other.counted_rows),
    )
    for what, a, b in parts:
        if a is None or b is None:
            if a is not b:
                return what
        elif not np.array_equal(a, b):
            return what
    return ""


def reweighted(post: Drawn, model: TreeModel, least_ess: float, rng: Seed) -> Drawn:
    """Return the posterior of another model from the draws of ``post``; see `SampledPosterior.reweight`."""
    check_type("model", model, TreeModel, "a TreeModel")
    check_number("least_ess", least_ess, "a number >= 1", 1.0)
    generator = read_generator(rng)
    _check_pair(post, model)
    trees = [post.distinct_tree(t) for t in range(post.n_distinct_trees)]
    log_prior = np.array([model.log_prior(tree) for tree in trees])
    kept = np.flatnonzero(log_prior > -math.inf)
    coded, stats, log_score = _scored(post, model, trees, kept)
    log_ratio = np.full(len(trees), -math.inf)
    log_ratio[kept] = log_prior[kept] + log_score - (post.log_prior_of_tree + post.log_score_of_tree)[kept]
    log_weight = log_ratio[post.tree_of_draw]
    info = _summary(log_weight)
    if not info.ess >= least_ess:
        raise ValueError(
            f"the effective size is {info.ess:.1f} of {log_weight.size} draws, less than least_ess={least_ess:g}: the "
            "new prior prefers trees that were seldom drawn. Sample the new model, pt.sample(model); or go by models "
            "in between; or give more draws."
        )
    draw = _systematic(np.exp(log_weight.ravel() - logsumexp(log_weight)), generator)
    number = np.full(len(trees), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    none = np.zeros((1, len(draw), 0), dtype=np.int64)
    out = type(post)(
        model,
        coded,
        stats,
        number[post.tree_of_draw.ravel()[draw]][None],
        log_prior[kept],
        log_score,
        none,
        none,
        (),
        0.0,
        post.noise_variance.ravel()[draw][None],
    )
    before, error = post._evidence
    if before is not None:
        info = info._replace(log_evidence=before + info.log_evidence_ratio)
    if error is not None:
        info = info._replace(log_evidence_se=math.hypot(error, info.log_evidence_ratio_se))
    out.reweighting = info
    return out


def _scored(
    post: Any, model: TreeModel, trees: list[Tree], kept: np.ndarray
) -> tuple[CodedTrees, np.ndarray, np.ndarray]:
    """Return the trees ``kept`` in the codes of the model, the statistics of their nodes, and their log scores.

    Those of the draws are used if both models have the same leaf and codes, which is three times as fast.
    """
    old = post.model
    if repr(old.leaf) == repr(model.leaf) and np.array_equal(old.units.codes, model.units.codes):
        return (
            post.coded_trees.take(kept),
            post.node_stats[post.coded_trees.nodes_of(kept)],
            post.log_score_of_tree[kept],
        )
    if not len(kept):
        return post.coded_trees.take(kept), post.node_stats[:0], np.empty(0)
    coded = [coded_tree(model, trees[t], int(t)) for t in kept]
    offset = np.cumsum([0, *(len(node) for node, _ in coded)])
    log_score = np.array([model.log_score(trees[t]) for t in kept])
    return (
        from_records(np.concatenate([node for node, _ in coded]), offset),
        np.concatenate([s for _, s in coded]),
        log_score,
    )


def _check_pair(post: Any, model: TreeModel) -> None:
    """Refuse a model whose posterior is not a reweighting of the draws."""
    old = post.model
    if not post.sees_all_rows:
        raise ValueError(f"the draws of a {type(post).__name__} are of many stages; sample(model), and reweight that.")
    if post.tree_of_draw.size == 0:
        raise ValueError("there are no draws to reweight.")
    what = data_difference(old, model)
    if what or old.n_rows != model.n_rows or old.columns.names != model.columns.names:
        raise ValueError(
            f"the model differs in {what or 'its table'} from that of the draws; give one of the same X and y, with "
            "another tree_prior, split_prior or leaf, or use post.update for more rows."
        )
    for one in (old, model):
        if one.split_prior.drawn_weights is not None:
            raise ValueError(f"draws cannot be reweighted: {unknown_weights(one)}.")
    if not (old.leaf.separates and model.leaf.separates) and repr(old.leaf) != repr(model.leaf):
        raise ValueError(
            "the leaves of one model share a variance, which is drawn with the trees, and the leaf of the other model "
            "is another one; sample the model instead."
        )


def _summary(log_weight: np.ndarray) -> Reweighting:
    """Return the effective size and the log ratio of evidences of log weights (chains, draws)."""
    total = logsumexp(log_weight.ravel())
    if total == -math.inf:
        return Reweighting(0.0, -math.inf, math.nan)
    weight = np.exp(log_weight - log_weight.max())
    size = weight.sum() ** 2 / (weight**2).sum()
    relative = weight.std() / weight.mean()
    se = 0.0 if relative < 1e-12 else relative / math.sqrt(ess(weight)) if log_weight.shape[1] > 3 else math.nan
    return Reweighting(float(size), float(total - math.log(weight.size)), float(se))


def _systematic(probability: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return as many numbers of draws as there are, by systematic resampling, in random order."""
    n = len(probability)
    at = (rng.random() + np.arange(n)) / n
    edges = np.cumsum(probability)
    return rng.permutation(np.searchsorted(edges / edges[-1], at, side="right").clip(max=n - 1))
