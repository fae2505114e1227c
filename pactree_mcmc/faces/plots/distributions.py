"""Plots of distributions: number of leaves, depth, feature inclusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_count
from ...posterior.base import Posterior
from .axes import ERRORS, axes_or_new, has_no_draws, is_sampled, say_no_draws, shortened, two_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NEGLIGIBLE = 1e-4


def plot_n_leaves(posterior: Posterior, ax: Axes | None = None, truth: Posterior | None = None) -> Axes:
    """Bar plot of the distribution of the number of leaves; tails below 1e-4 are left out.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; two Monte-Carlo standard errors are drawn when it is sampled.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    truth : Posterior, optional
        An exact posterior, whose distribution is drawn beside.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]))
    >>> len(plot_n_leaves(truth.sample(100, rng=1), truth=truth).patches)
    8
    """
    return _plot_distribution(posterior, ax, truth, ("n_leaves", "n_leaves_pmf", "number of leaves"))


def plot_depth(posterior: Posterior, ax: Axes | None = None, truth: Posterior | None = None) -> Axes:
    """Bar plot of the distribution of the depth of the deepest leaf; tails below 1e-4 are left out.

    Parameters
    ----------
    posterior, ax, truth
        As for `plot_n_leaves`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    TypeError
        If a posterior has no distribution of the depth: a progressive mixture.
    """
    for one in (posterior, truth):
        if one is not None and not hasattr(one, "depth_pmf"):
            raise TypeError(f"{type(one).__name__} has no distribution of the depth; give a sampled or an exact one.")
    return _plot_distribution(posterior, ax, truth, ("depth", "depth_pmf", "depth"))


def _plot_distribution(
    posterior: Posterior, ax: Axes | None, truth: Posterior | None, what: tuple[str, str, str]
) -> Axes:
    """Bars of the distribution of a whole number of the tree: its name by draw, the name of its distribution, its name
    in words.
    """
    from matplotlib.ticker import MaxNLocator

    ax, (by_draw, pmf, words) = axes_or_new(ax, 5.0, 3.2), what
    ax.set(xlabel=words, ylabel="probability")
    if has_no_draws(posterior):
        return say_no_draws(ax)
    each = [getattr(p, pmf)() for p in (posterior, truth) if p is not None]
    distributions = np.array(
        [np.pad(distribution, (0, max(map(len, each)) - len(distribution))) for distribution in each]
    )
    shown = np.flatnonzero(distributions.max(axis=0) > NEGLIGIBLE)
    values, width = np.arange(shown[0], shown[-1] + 1), 0.8 / len(distributions)
    place = values + width * (np.arange(len(distributions))[:, None] - (len(distributions) - 1) / 2.0)
    for here, distribution, label in zip(place, distributions, (_label(posterior), "exact"), strict=False):
        ax.bar(here, distribution[values], width, label=label)
    if is_sampled(posterior):
        drawn = getattr(posterior, by_draw)
        ax.errorbar(place[0], distributions[0, values], yerr=two_errors([drawn == m for m in values]), **ERRORS)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(values[0] - 0.6, values[-1] + 0.6)
    if truth is not None:
        ax.legend(frameon=False)
    return ax


def _label(posterior: Posterior) -> str:
    return "sampled" if is_sampled(posterior) else "posterior"


def plot_inclusion(
    posterior: Posterior, ax: Axes | None = None, max_features: int = 20, truth: Posterior | None = None
) -> Axes:
    """Bar plot of the probability that a tree splits on each feature, the largest on top.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact; two Monte-Carlo standard errors are drawn when it is sampled.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    max_features : int, default 20
        Largest number of features shown, the most probable ones.
    truth : Posterior, optional
        An exact posterior, whose probabilities are drawn as marks.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If ``max_features`` is not an integer >= 1.
    """
    check_count("max_features", max_features, 1)
    names = posterior.model.columns.names
    n_shown = min(max_features, len(names))
    ax = axes_or_new(ax, 5.5, 0.26 * n_shown + (1.0 if truth is None else 1.4))
    if has_no_draws(posterior):
        return say_no_draws(ax)
    inclusion = posterior.feature_inclusion()
    order = np.argsort(-inclusion, kind="stable")[:n_shown]
    inclusion, place = inclusion[order], np.arange(n_shown)
    bars = ax.barh(place, inclusion, 0.75, label=_label(posterior))
    if is_sampled(posterior):
        asked = posterior.split_counts > 0
        error = two_errors([asked[:, :, k] for k in order])
        ax.errorbar(inclusion, place, xerr=error, **ERRORS)
    if truth is not None:
        known = truth.feature_inclusion()[order]
        style: dict[str, Any] = {"color": "C1", "markersize": 13, "markeredgewidth": 2.5, "clip_on": False}
        points = ax.plot(known, place, "|", label="exact", **style)[0]
        ax.legend(handles=[bars, points], frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    ax.set_yticks(place, [shortened(names[k], 32) for k in order], parse_math=False, fontsize="small")
    few = f" ({n_shown} of {len(names)} features)" if n_shown < len(names) else ""
    ax.set(xlim=(0.0, 1.02), ylim=(n_shown - 0.4, -0.6), xlabel=f"probability of being split on{few}")
    return ax
