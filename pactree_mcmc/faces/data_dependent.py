"""The progressive mixture whose prior depends on the new row, too: its splits also divide this row from the others.

The estimator of Blanchard (1999), equation 9.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from exact.limits import check_cells
from exact.solving import solve
from exact.systems.progressive.global_splitting import SplittingCounts, solve_global_splitting
from exact.systems.progressive.kl_bounds import log_n_splits
from exact.systems.progressive.mixture import progressive_mixture

from ..core.checks import Seed, check_choice, check_flag, read_generator, read_labels, read_matrix, refuse_other_rows
from ..core.special import logsumexp
from ..model import FrozenLaplace, TreeModel
from ..model.rows import read_mask
from ..model.split_prior.cuts import LocalCuts
from ..smc import progressive_mixture as by_populations
from ..table.columns import Columns, describe_columns
from ..table.reader import Table

TINY_WEIGHT = 1e-300
"""Weight of a row that must have a positive weight and must not change any sum."""
MIN_BLOCK_DRAWS = 50
"""Smallest number of draws in a block, over which importance weights of the global prior are normalised."""


class DataDependentMixture(NamedTuple):
    """Class probabilities at new rows, by the estimator of equation 9 of Blanchard (1999)."""

    probability: np.ndarray
    """(m, K) probability of each of the K ``classes`` for each of the m new rows."""
    standard_error: np.ndarray
    """(m, K) Monte-Carlo standard error, from the variance between repetitions; 0 for the exact sum."""
    classes: np.ndarray
    """(K,) sorted labels of the classes."""
    ess: float
    """Effective fraction of the draws, in (0, 1], under the importance weights of the global prior.

    The mean over blocks of stages, at the new row where it is smallest; 1 if no weights are needed."""


def data_dependent_mixture(
    X: Any,
    y: Any,
    X_new: Any,
    *,
    estimation: Any,
    tree_prior: Any,
    splitting: str = "global",
    feature_weights: Any = None,
    together: bool = False,
    engine: str = "exact",
    chains: int = 8,
    draws: int = 1000,
    particles: int = 200,
    rng: Seed = None,
    max_cells: int = 20_000_000,
    classes: Any = None,
) -> DataDependentMixture:
    """Return the data-dependent progressive mixture at new rows: the estimator of Theorem 3.

    The cuts are those that divide the rows of X *and* the new row, which has no label. The prior of
    `progressive_mixture` depends on the rows of X alone.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns without missing values, n >= 0.
    y : array-like of shape (n,)
        Labels of the rows of X.
    X_new : table of shape (m, p)
        New rows, m >= 1, each with a prior of its own; columns are found by name where both tables have names.
    estimation : float or boolean array of shape (n,)
        The rows of E, as for `TreeModel`; the others, S, enter in the order of the data. Both may be empty: without E
        each leaf gives all classes the same probability, and without S the mixture is the mean over the prior.
    tree_prior : BranchingProcess or ChipmanPrior
        With a ``max_depth``: trivial divisions never run out.
    splitting : {"global", "local"}, default "global"
        Prior on the splits of a structure, that is a tree shape with the feature of each split. "global": all divisions
        of the rows by the structure (splittings) are equally likely. "local": at each node all divisions of the node's
        rows are equally likely, the distribution omega of [1]_.
    feature_weights : array of shape (p,), optional
        Weights of the features, >= 0. Default: equal.
    together : bool, default False
        If True, all new rows count as points simultaneously, which takes one sum instead of m. Theorem 3 then holds
        with ``N + m`` instead of ``N + 1`` in its logarithm; N is the number of rows of X.
    engine : {"exact", "smc"}, default "exact"
        "smc": populations of trees under the local prior (`pactree_mcmc.progressive_mixture`), weighted by the ratio of
        the two priors within blocks of neighbouring stages with 50 draws or more (a bias of the order of one over
        their number); the number of splittings is exact for structures with two levels of splits, or one feature,
        otherwise estimated without bias.
    chains, draws, particles : int
        As for `pactree_mcmc.progressive_mixture`; "smc" only.
    rng : int, SeedSequence, Generator or None
        Source of randomness; "smc" only.
    max_cells : int, default 20,000,000
        As for `progressive_mixture`; "exact" only.
    classes : array-like of shape (K,), optional
        Labels of all classes, if y need not contain them all. Default: the labels in y.

    Returns
    -------
    DataDependentMixture

    Raises
    ------
    ValueError
        If an argument is out of range or does not fit the others.
    Intractable
        If the exact sum is too large: give ``engine="smc"``.

    Notes
    -----
    Cost of m progressive mixtures (one if ``together``) with n + 1 rows; "smc" counts the splittings of each distinct
    structure besides, some .1 s for one of four levels over several features. The weights of the global prior have mean
    one within a structure; ``ess`` shows how unequal they are.

    References
    ----------
    .. [1] Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x, labels = np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1]
    >>> prior = pt.BranchingProcess(0.5, max_depth=2)
    >>> import exact
    >>> found = exact.data_dependent_mixture(x, labels, [[0.5], [6.5]], estimation=[True, False] * 4, tree_prior=prior)
    >>> found.probability.round(3).tolist()
    [[0.58, 0.42], [0.421, 0.579]]
    """
    check_choice("splitting", splitting, ("global", "local"))
    check_choice("engine", engine, ("exact", "smc"))
    check_flag("together", together)
    check_cells(max_cells)
    refuse_other_rows(X=X, y=y, estimation=estimation)
    sample = _read_mixture_data(X, y, X_new, estimation, classes)
    splits = LocalCuts(trivial=True, feature_weights=feature_weights)
    new, n_classes = sample.new, len(sample.classes)
    groups = [np.arange(len(new))] if together else np.arange(len(new))[:, None]
    seeds = read_generator(rng).spawn(len(groups))
    probability, error, ess = np.empty((len(new), n_classes)), np.zeros((len(new), n_classes)), 1.0
    for new_indices, seed in zip(groups, seeds, strict=False):
        model = _model_with_points(sample, new[new_indices], tree_prior, splits)
        if not len(model.counted_rows):
            prior = solve_global_splitting(model) if splitting == "global" else solve(model, progress=False)
            probability[new_indices] = prior.predict_proba(new[new_indices])
        elif engine == "exact":
            mixture = progressive_mixture(model, global_splitting=splitting == "global", max_cells=int(max_cells))
            probability[new_indices] = mixture.predict_proba(new[new_indices])
        else:
            estimate = _mixture_by_populations(
                model, sample, new[new_indices], splitting, (chains, draws, particles), seed
            )
            probability[new_indices], error[new_indices], ess = estimate[0], estimate[1], min(ess, estimate[2])
    return DataDependentMixture(probability, error, sample.classes, ess)


class MixtureData(NamedTuple):
    """The checked training rows, those of E and of S, and the new rows."""

    rows: np.ndarray
    """(n, p) float64: the training rows."""
    labels: np.ndarray
    """(n,) labels of the training rows."""
    estimation: np.ndarray
    """(n,) bool: True for the rows of E, which determine the leaf values; the other rows are S."""
    new: np.ndarray
    """(m, p) float64: the new rows."""
    classes: np.ndarray
    """(K,) sorted labels of all classes."""


def _read_mixture_data(X: Any, y: Any, X_new: Any, estimation: Any, classes: Any) -> MixtureData:
    """Check those arguments of `data_dependent_mixture` that have rows or labels, and return them as arrays."""
    table = Table(X)
    rows, labels = _finite_numbers(table), read_labels(y)
    if labels.shape != (len(rows),):
        raise ValueError(f"y has shape {labels.shape}; X has {len(rows)} rows: give one label a row.")
    columns = _described_columns(table, rows)
    if columns.is_nominal.any():
        raise ValueError("X holds nominal columns, whose splits equation 9 does not count; give numbers.")
    new = columns.numbers(X_new)
    if not len(new):
        raise ValueError("X_new has no rows; give at least one.")
    labels_in_y = np.unique(labels) if len(labels) else np.empty(0, dtype=object)
    all_labels = labels_in_y if classes is None else np.unique(read_labels(classes))
    if not len(all_labels):
        raise ValueError("y has no labels; give classes=, the labels of all classes.")
    missing = [label for label in labels_in_y.tolist() if label not in all_labels.tolist()]
    if missing:
        raise ValueError(f"y holds {missing[0]!r}, which is not among classes={all_labels.tolist()}; name all classes.")
    return MixtureData(rows, labels, _read_mask(estimation, len(rows)), new, all_labels)


def _read_mask(estimation: Any, n: int) -> np.ndarray:
    """Return a mask (n,) of the rows of E from ``estimation``: a mask of any rows, or the fraction of last rows."""
    if estimation is None:
        raise ValueError("estimation is None; give a boolean mask (n,) of the rows of E, or a fraction in (0, 1).")
    if n == 0:
        return np.zeros(0, dtype=np.bool_)
    mask = read_mask(estimation, n)
    assert mask is not None
    return mask


def _described_columns(table: Table, rows: np.ndarray) -> Columns:
    """Return the description (names, kinds) of the columns of a table, also if it has fewer than two rows."""
    # ``rows`` (n, p) are its rows as numbers. If n < 2, two rows of zeros are described too, since one row is too few
    if len(rows) > 1:
        return describe_columns(table, None)
    padded: Any = np.vstack([rows, np.zeros((2, table.n_features))])
    if table.names is not None:
        import pandas as pd

        padded = pd.DataFrame(padded, columns=table.names)
    return describe_columns(Table(padded), None)


def _finite_numbers(table: Table) -> np.ndarray:
    """Return the rows of a table as float64 (n, p), or raise a ValueError if an entry is not a finite number."""
    columns = [read_matrix(f"column {k} of X", table.column(k)) for k in range(table.n_features)]
    values = np.column_stack(columns) if columns else np.empty((table.n_rows, 0))
    if not np.isfinite(values).all():
        raise ValueError("X holds missing or infinite values; give finite numbers.")
    return values


def _model_with_points(sample: MixtureData, new: np.ndarray, tree_prior: Any, splits: LocalCuts) -> TreeModel:
    """Return the model of the training rows and the rows ``new`` (m, p), which have weight zero and only add cuts."""
    # the new rows are in S, with any label. A copy of the first one is added for each class, so that the model has all
    # classes, and one more, so that it has at least two rows. The copies are in E, so that E is not empty, and have
    # weight zero, so that they do not change leaf values. They add no cuts. If there are no training rows, the new rows
    # and copies have the weight TINY_WEIGHT, since some row must have a positive one
    n_copies = len(sample.classes) + 1
    points = np.vstack([new, new[:1].repeat(n_copies, axis=0)])
    labels = [*sample.labels.tolist(), *sample.classes[:1].tolist() * (len(new) + 1), *sample.classes.tolist()]
    in_e = np.repeat([False, True], [len(new), n_copies])
    return TreeModel(
        np.vstack([sample.rows, points]),
        labels,
        tree_prior=tree_prior,
        split_prior=splits,
        leaf=FrozenLaplace(),
        estimation=np.concatenate([sample.estimation, in_e]),
        sample_weight=np.repeat([1.0, 0.0 if len(sample.rows) else TINY_WEIGHT], [len(sample.rows), len(points)]),
    )


def _mixture_by_populations(
    model: TreeModel, sample: MixtureData, new: np.ndarray, splitting: str, sizes: tuple[int, int, int], rng: Any
) -> tuple[np.ndarray, np.ndarray, float]:
    """Compute the mixture at ``new`` rows (m, p) by populations of trees (sequential Monte Carlo), local prior."""
    # ``model`` is the one of `_model_with_points` for the same rows. If ``splitting`` is "global", draws have
    # importance weights: the prior with ``splitting="global"`` divided by the local one. ``sizes`` are the numbers of
    # chains, draws per chain and particles. Returns probabilities (m, K), their standard errors (m, K) from the
    # variance between chains, and the effective fraction of draws, averaged over blocks
    chains, draws, particles = sizes
    post = by_populations(model, chains=chains, draws=draws, particles=particles, rng=rng)
    trees = [post.draws.distinct_tree(t) for t in range(post.draws.n_distinct_trees)]
    value = np.array([np.asarray(tree.value)[tree.apply(new)] for tree in trees])
    log_weight = np.zeros(len(trees))
    if splitting == "global":
        counts = SplittingCounts(np.vstack([sample.rows, new]), rng)
        log_weight = np.array([log_n_splits(model, tree) - counts.log_count(tree) for tree in trees])
    out, ess = [], []
    for tree_of_draw, stage in zip(post.draws.tree_of_draw, post.stage, strict=True):
        mean = 0.0
        for block in blocks_of_stages(stage):
            log_w = log_weight[tree_of_draw[block]]
            w = np.exp(log_w - logsumexp(log_w))
            mean = mean + len(block) / len(stage) * np.einsum("i,ijk->jk", w, value[tree_of_draw[block]])
            ess.append(1.0 / (len(block) * (w**2).sum()))
        out.append(mean)
    return np.mean(out, axis=0), np.std(out, axis=0, ddof=1) / math.sqrt(len(out)), float(np.mean(ess))


def blocks_of_stages(stage: np.ndarray) -> list[np.ndarray]:
    """Divide draws into blocks of whole neighbouring stages, each with at least 50 draws; return indices by block."""
    # ``stage`` (draws,) is the stage of each draw, in ascending order; each stage adds rows of S to the posterior from
    # which it draws trees. Fewer than 100 draws are one block. Importance weights are divided by their mean over a
    # block, which would vary too much over the few draws of one stage. A block of one draw would always give it weight
    # one
    ends = np.flatnonzero(np.diff(stage)) + 1
    starts = [0]
    for end in ends.tolist():
        if end - starts[-1] >= MIN_BLOCK_DRAWS and len(stage) - end >= MIN_BLOCK_DRAWS:
            starts.append(end)
    return np.split(np.arange(len(stage)), starts[1:])
