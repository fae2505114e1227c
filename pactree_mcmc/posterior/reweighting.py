"""Posteriors under another prior from the same draws.

Draws are resampled by importance weights, or those that satisfy a constraint on the trees are selected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from ..core.checks import Seed, check_number, check_type, read_generator, repr_of
from ..core.names import with_short_repr
from ..core.special import logsumexp
from ..files.calls import Call, python_source, versions
from ..model import TreeModel
from ..model.differences import difference_of_rows, wider_support
from ..model.obstacles import unknown_weights
from ..tree.arrays import LEAF, iterate_nodes
from ..tree.coded import CodedTrees
from ..tree.tree import Tree
from .draws import code_trees, has_values_by_leaf, refuse_by_row
from .ess import ess, rhat_and_ess

if TYPE_CHECKING:
    from .chains import AnswersAboutChains
    from .draws import DrawnTrees
    from .sampled import SampledPosterior

    PosteriorOfDraws = TypeVar("PosteriorOfDraws", bound=AnswersAboutChains)
    Region = tuple[np.ndarray, ...]


LEAF_VALUE_TOLERANCE = 1e-12
"""Relative difference of two leaf values up to which they count as equal."""


class Reweighting(NamedTuple):
    """Result of importance weights on the draws of another model."""

    ess: float
    """Effective number of draws: (sum of weights)^2 / sum of squared weights."""
    log_evidence_ratio: float
    """Log evidence of the new model minus that of the old one, nats."""
    log_evidence_ratio_se: float
    """Standard error of ``log_evidence_ratio``; NaN with fewer than four draws a chain."""
    log_evidence: float | None = None
    """Log evidence of the new model, if that of the old one is known, otherwise None."""
    log_evidence_se: float | None = None
    """Standard error of ``log_evidence``, if that of the old model is known, otherwise None."""


def data_difference(first_model: TreeModel, second_model: TreeModel) -> str:
    """Return the name of the first data other than X in which two models differ; "" if there are none.

    It is "their classes", "y", "sample_weight" or "the rows that count".
    """
    parts = (
        ("their classes", first_model.classes_, second_model.classes_),
        ("y", first_model.target.values, second_model.target.values),
        ("sample_weight", first_model.target.weights, second_model.target.weights),
        ("the rows that count", first_model.counted_rows, second_model.counted_rows),
    )
    for name, a, b in parts:
        if a is None or b is None:
            if a is not b:
                return name
        elif not np.array_equal(a, b):
            return name
    return ""


def check_same_data(old: TreeModel, model: Any) -> None:
    """Raise an error unless ``model`` is a TreeModel of the rows of ``old``, with its y, weights and columns."""
    check_type("model", model, TreeModel, "a TreeModel")
    difference = data_difference(old, model)
    same_table = old.n_rows == model.n_rows and old.columns.names == model.columns.names
    if same_table and not difference:
        difference = difference_of_rows(old, model)
    if difference or not same_table:
        raise ValueError(
            f"the model differs in {difference or 'its table'} from that of the posterior; give one of the same X and "
            "y, with another tree_prior, split_prior or leaf, or use post.update for more rows."
        )


def reweight_draws(post: PosteriorOfDraws, model: TreeModel, least_ess: float, rng: Seed) -> PosteriorOfDraws:
    """Resample the draws of ``post`` by importance weights into draws of another model's posterior.

    Implementation of `SampledPosterior.reweight`. The weight of a draw of tree T is p'(T) p'(y | T) / (p(T) p(y | T)),
    with p' under ``model``. Raise a ValueError if the effective number of draws is below ``least_ess``. The result has
    one chain.
    """
    check_number("least_ess", least_ess, "a number >= 1", 1.0)
    generator = read_generator(rng)
    _check_reweightable(post, model)
    trees = [post.distinct_tree(t) for t in range(post.n_distinct_trees)]
    log_prior = np.array([model.log_prior(tree) for tree in trees])
    possible = np.flatnonzero(log_prior > -math.inf)
    coded, stats, log_score = _score_trees(post, model, trees, possible)
    log_ratio = np.full(len(trees), -math.inf)
    log_ratio[possible] = log_prior[possible] + log_score - (post.log_prior_of_tree + post.log_score_of_tree)[possible]
    log_weight = log_ratio[post.tree_of_draw]
    summary = _summarise_weights(log_weight)
    if not summary.ess >= least_ess:
        raise ValueError(
            f"the effective size is {summary.ess:.1f} of {log_weight.size} draws, less than least_ess={least_ess:g}: "
            "the new prior prefers trees that were seldom drawn. Sample the new model, pt.sample(model); or go by "
            "models in between; or give more draws."
        )
    probability = np.exp(log_weight.ravel() - logsumexp(log_weight))
    resampled = generator.permutation(systematic_indices(generator, probability, len(probability)))
    number = np.full(len(trees), -1, dtype=np.int64)
    number[possible] = np.arange(len(possible))
    trees = number[post.tree_of_draw.ravel()[resampled]][None]
    noise = post.noise_variance.ravel()[resampled][None]
    out = type(post)(model, coded, stats, trees, log_prior[possible], log_score, noise_variance=noise)
    old_evidence, old_error = post._evidence
    if old_evidence is not None:
        summary = summary._replace(log_evidence=old_evidence + summary.log_evidence_ratio)
    if old_error is not None:
        summary = summary._replace(log_evidence_se=math.hypot(old_error, summary.log_evidence_ratio_se))
    out.reweighting = summary
    return out


def _score_trees(
    post: Any, model: TreeModel, trees: list[Tree], numbers: np.ndarray
) -> tuple[CodedTrees, np.ndarray, np.ndarray]:
    """Return some trees in the codes of ``model``, the statistics of their nodes, and their log scores (m,) under it.

    A log score is a log marginal likelihood, nats, and the statistics are those of the training rows in a node.
    ``trees`` are the distinct trees of ``post``, and ``numbers`` (m,) say which to return. If both models have the same
    leaf and codes, the arrays of ``post`` are reused, which is three times as fast.
    """
    old = post.model
    if repr(old.leaf) == repr(model.leaf) and np.array_equal(old.units.codes, model.units.codes):
        return (
            post.coded_trees.take(numbers),
            post.node_stats[post.coded_trees.nodes_of(numbers)],
            post.log_score_of_tree[numbers],
        )
    if not len(numbers):
        return post.coded_trees.take(numbers), post.node_stats[:0], np.empty(0)
    scored = [trees[t] for t in numbers.tolist()]
    return *code_trees(model, scored), np.array([model.log_score(tree) for tree in scored])


def _check_reweightable(post: Any, model: TreeModel) -> None:
    """Raise a ValueError if the draws cannot be reweighted to the posterior of ``model``.

    Examples are other data, trees that only the new prior allows, or feature weights that are drawn.
    """
    old = post.model
    if not post.sees_all_rows:
        raise ValueError(f"the draws of a {type(post).__name__} are of many stages; sample(model), and reweight that.")
    if post.tree_of_draw.size == 0:
        raise ValueError("there are no draws to reweight.")
    check_same_data(old, model)
    for side in (old, model):
        if side.split_prior.drawn_weights is not None:
            raise ValueError(f"draws cannot be reweighted: {unknown_weights(side)}.")
    if not (old.leaf.has_additive_score and model.leaf.has_additive_score) and repr(old.leaf) != repr(model.leaf):
        raise ValueError(
            "the leaves of one model share a variance, which is drawn with the trees, and the leaf of the other model "
            "is another one; sample the model instead."
        )
    wider = wider_support(old, model)
    if wider:
        raise ValueError(
            f"the new prior allows trees that the prior of the draws excludes: {wider}. No draw shows such trees, so "
            "that all answers would be wrong; sample the new model, pt.sample(model). From these draws only priors "
            "that allow no other trees can be computed."
        )


def _summarise_weights(log_weight: np.ndarray) -> Reweighting:
    """Return effective sample size, log ratio of evidences and its error, given log importance weights (chains, draws).

    The log ratio is the log of the mean weight. If all weights are 0 the size is 0, the log ratio -inf and the error
    NaN. The evidences of the result are None.
    """
    total = logsumexp(log_weight.ravel())
    if total == -math.inf:
        return Reweighting(0.0, -math.inf, math.nan)
    weight = np.exp(log_weight - log_weight.max())
    size = weight.sum() ** 2 / (weight**2).sum()
    relative = weight.std() / weight.mean()
    se = 0.0 if relative < 1e-12 else relative / math.sqrt(ess(weight)) if log_weight.shape[1] > 3 else math.nan
    return Reweighting(float(size), float(total - math.log(weight.size)), float(se))


def systematic_indices(rng: np.random.Generator, probability: np.ndarray, n: int) -> np.ndarray:
    """Return ``n`` indices by systematic sampling, ascending: index i is expected ``n * probability[i]`` times.

    Probabilities are divided by their sum.
    """
    ends = np.cumsum(probability)
    places = (np.arange(n) + rng.random()) / n * ends[-1]
    return np.minimum(np.searchsorted(ends, places, side="right"), len(ends) - 1)


@with_short_repr
class Restriction(NamedTuple):
    """The posterior given a constraint on the trees."""

    posterior: SampledPosterior
    """The draws that satisfy the constraint, as one chain."""
    probability: float
    """Posterior probability of the constraint."""
    standard_error: float
    """Monte-Carlo standard error of the probability."""
    by_chain: np.ndarray
    """(chains,) the probability of the constraint estimated from each chain."""
    ess: float
    """Effective number of draws of ``posterior``."""

    def __str__(self) -> str:
        return (
            f"constraint of probability {self.probability:.3g} +- {self.standard_error:.2g}; "
            f"{self.posterior.n_draws} draws, {self.ess:.0f} effective ones"
        )


class LeafRegions(NamedTuple):
    """The regions of the m leaves of a tree, as boxes in the f features that the tree splits on.

    The box of a leaf in an ordered feature is low < x <= high.
    """

    leaf: np.ndarray
    """(m,) number of the node of each leaf, counted from the start of the tree."""
    low: np.ndarray
    """(m, f): lower bound of the region, not in it; -inf if there is none."""
    high: np.ndarray
    """(m, f): upper bound of the region, in it; inf if there is none."""
    has_values: np.ndarray
    """(m, f) bool: the region has values that are not missing."""
    has_missing: np.ndarray
    """(m, f) bool: the region has missing values."""
    categories: np.ndarray
    """(m, f) int64: bits of the categories in the region; -1 for ordered features."""


def restriction_of(
    post: DrawnTrees, monotone: Any, interactions: Any, min_ess: float, *, independent: bool
) -> Restriction:
    """Return the draws whose trees satisfy ``monotone`` and ``interactions``, and the probability of these constraints.

    See `Posterior.restrict`. If ``independent``, the draws are independent, so that each counts as one effective draw.
    Raise a ValueError if fewer than ``min_ess`` effective draws satisfy the constraints.
    """
    min_ess = check_number("min_ess", min_ess, "a number of draws >= 1", 1.0)
    signs, groups = read_monotone(post, monotone), read_interaction_groups(post, interactions)
    if not signs and groups is None:
        raise ValueError(
            "no constraint is given; give monotone={column: 1 or -1}, or interactions=[[column, ...], ...]."
        )
    satisfies = np.ones(post.n_distinct_trees, dtype=bool)
    for t in np.flatnonzero(post.weight_of_tree).tolist():
        satisfies[t] = groups is None or has_allowed_paths(post, t, groups)
        satisfies[t] = satisfies[t] and (not signs or is_monotone(post, t, signs))
    is_kept = satisfies[post.tree_of_draw]
    n_kept, n = int(is_kept.sum()), is_kept.size
    probability, efficiency = n_kept / n, np.ones(2)
    if not independent:
        log_posterior = (post.log_prior_of_tree + post.log_score_of_tree)[post.tree_of_draw]
        # with fewer draws than an effective size needs it is NaN, and every draw counts as effective
        efficiency = np.minimum(np.nan_to_num(rhat_and_ess([is_kept, log_posterior])[1], nan=n) / n, 1.0)
    ess = n_kept * float(efficiency.min())
    error = math.sqrt(probability * (1.0 - probability) / (n * efficiency[0]))
    if ess < min_ess:
        advice = f"draw about {math.ceil(1.2 * n * min_ess / ess):,}" if ess > 0.0 else "draw many more"
        raise ValueError(
            f"{n_kept} of {n:,} draws satisfy the constraint (probability {probability:.3g}, standard error "
            f"{error:.2g}), {ess:.1f} effective ones, and {min_ess:g} are needed; {advice}, give a weaker constraint, "
            "or a smaller min_ess."
        )
    selection = keep_draws(post, is_kept)
    constraints = {"monotone": monotone, "interactions": interactions}
    arguments = {name: python_source(value)[0] for name, value in constraints.items() if value is not None}
    selection.calls = (*post.calls, Call("restrict", arguments, True, versions()))
    return Restriction(selection, probability, error, is_kept.mean(axis=1), ess)


def refuse_restricted(post: DrawnTrees, advice: str) -> None:
    """Raise a ValueError if the draws are those that `Posterior.restrict` has selected. ``advice`` ends the message."""
    if any(call.function == "restrict" for call in post.calls):
        raise ValueError(f"the draws are restricted to trees with a constraint, by restrict; {advice}.")


def keep_draws(post: DrawnTrees, is_kept: np.ndarray) -> SampledPosterior:
    """Return the draws of ``post`` for which ``is_kept`` (chains, draws) is True, as a posterior of one chain.

    The draws of the first chain come first. It has no record of calls.
    """
    trees, number = np.unique(post.tree_of_draw[is_kept], return_inverse=True)
    out: Any = type(post)(
        post.model,
        post.coded_trees.take(trees),
        post.node_stats[post.coded_trees.nodes_of(trees)],
        number.reshape(1, -1),
        post.log_prior_of_tree[trees],
        post.log_score_of_tree[trees],
        seconds=post.seconds,
        noise_variance=post.noise_variance[is_kept][None],
        weights_of_draw=None if post.weights_of_draw is None else post.weights_of_draw[is_kept][None],
    )
    return out


def read_monotone(post: DrawnTrees, monotone: Any) -> dict[int, int]:
    """Check the argument ``monotone`` of `Posterior.restrict`, and return {feature number: 1 or -1}; {} for None."""
    if monotone is None:
        return {}
    if not isinstance(monotone, Mapping) or not all(sign in (-1, 1) for sign in monotone.values()):
        raise ValueError(
            f"monotone={repr_of(monotone)}; give {{column: 1}} for increasing, {{column: -1}} for decreasing."
        )
    signs = dict(zip(post.model.columns.ordered_indices("monotone", monotone), monotone.values(), strict=True))
    refuse_by_row(post.model)
    if not has_values_by_leaf(post.model):
        raise ValueError(f"{post.model.leaf!r} predicts nothing, so that no tree is monotone; drop monotone=.")
    n_outputs = post.node_values.shape[1]
    if n_outputs != (1 if post.model.classes_ is None else 2):
        raise ValueError(f"the leaves predict {n_outputs} numbers; monotone= is for one output, or for two classes.")
    return signs


def read_interaction_groups(post: DrawnTrees, interactions: Any) -> list[int] | None:
    """Check the argument ``interactions`` of `Posterior.restrict`, and return for each feature the set of its groups.

    A set of groups is an integer with bit g set for group g. None if there is no such constraint.
    """
    if interactions is None:
        return None
    return post.model.columns.group_bits("interactions", interactions)


def has_allowed_paths(post: DrawnTrees, t: int, groups: list[int]) -> bool:
    """Return True if the features on each path of distinct tree ``t`` have a group in common.

    ``groups`` has for each feature the set of its groups, as bits.
    """
    feature = post.distinct_trees.feature

    def with_groups(node: int, common: int, left: int, right: int) -> list[tuple[int, int]]:
        """Return both children, each with the bits of the groups that all features above it have in common."""
        common &= groups[int(feature[node])]
        return [(left, common), (right, common)]

    return all(common for _, _, common in iterate_nodes(post.distinct_trees, t, -1, with_groups))


def is_monotone(post: DrawnTrees, t: int, signs: dict[int, int]) -> bool:
    """Return True if the prediction of distinct tree ``t`` is monotone in each feature of ``signs``, the others fixed.

    ``signs`` has 1 for a prediction that never decreases and -1 for one that never increases, by number of the feature.
    Of two classes the prediction is the probability of the second.
    Two leaves are compared in feature j if one is above the other in j and they have points in common in all others.
    """
    nodes = slice(int(post.distinct_trees.offset[t]), int(post.distinct_trees.offset[t + 1]))
    features = np.unique(post.distinct_trees.feature[nodes])
    features = features[features != LEAF]
    if not np.isin(features, list(signs)).any():
        return True
    regions = regions_of(post, t, features)
    value = post.node_values[nodes][regions.leaf, -1]
    tolerance = LEAF_VALUE_TOLERANCE * np.abs(value).max()
    overlaps = [_regions_overlap(regions, j) for j in range(len(features))]
    for j, k in enumerate(features.tolist()):
        if k not in signs:
            continue
        has_values = regions.has_values[:, j]
        is_below = has_values[:, None] & has_values & (regions.high[:, j][:, None] <= regions.low[:, j])
        for i, overlap in enumerate(overlaps):
            is_below &= overlap if i != j else True
        increase = signs[k] * (value - value[:, None])
        if (increase[is_below] < -tolerance).any():
            return False
    return True


def regions_of(post: DrawnTrees, t: int, features: np.ndarray) -> LeafRegions:
    """Return the region of each leaf of distinct tree ``t`` in the features (f,) that the tree splits on."""
    trees, base, columns = post.distinct_trees, int(post.distinct_trees.offset[t]), post.model.columns
    n_features, position = len(features), {k: j for j, k in enumerate(features.tolist())}
    can_be_missing, labels = np.isin(features, columns.twins), [columns.categories[k] for k in features]
    all_categories = np.array([-1 if names is None else (1 << len(names)) - 1 for names in labels], dtype=np.int64)
    bounds = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    root = (*bounds, np.ones(n_features, dtype=bool), can_be_missing, all_categories)

    def with_regions(node: int, region: Region, left: int, right: int) -> Iterator[tuple[int, Region]]:
        """Yield both children with their regions, given the node's, the fields of `LeafRegions` after ``leaf``."""
        j, cut, mask = position[int(trees.feature[node])], trees.threshold[node], int(trees.categories[node])
        for is_left, child in ((True, left), (False, right)):
            low, high, has_values, has_missing, categories = (column.copy() for column in region)
            takes_missing = bool(trees.default_left[node]) == is_left
            if mask >= 0:
                categories[j] &= mask if is_left else ~mask
            else:
                has_missing[j] &= takes_missing
                if np.isnan(cut):
                    has_values[j] &= not takes_missing
                elif is_left:
                    high[j] = min(high[j], cut)
                else:
                    low[j] = max(low[j], cut)
            yield child, (low, high, has_values, has_missing, categories)

    leaves = [(node - base, *region) for node, k, region in iterate_nodes(trees, t, root, with_regions) if k == LEAF]
    return LeafRegions(*(np.array(column) for column in zip(*leaves, strict=True)))


def _regions_overlap(regions: LeafRegions, j: int) -> np.ndarray:
    """Return a (m, m) bool array: True if the regions of two leaves have a value of feature ``j`` in common.

    A missing value counts as a value. ``j`` is a column of ``regions``.
    """
    low, high, has_values, has_missing, categories = (column[:, j] for column in regions[1:])
    overlap = has_values[:, None] & has_values & (np.maximum(low[:, None], low) < np.minimum(high[:, None], high))
    return (overlap | (has_missing[:, None] & has_missing)) & ((categories[:, None] & categories) != 0)
