"""Plots of chains and of distributions over trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_count
from ...posterior.base import Posterior
from ...posterior.ess import ess, rhat
from ...posterior.inference_data import by_draw
from ...posterior.sampled import SampledPosterior
from . import style
from .style import ERRORS, MOST_CHAINS, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEGLIGIBLE = 1e-4
"""Probability below which tails are left out."""


def plot_n_leaves(posterior: Posterior, ax: Axes | None = None, truth: Posterior | None = None) -> Axes:
    """Draw the distribution of the number of leaves as bars; tails below 1e-4 are left out.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact. If it is sampled, two Monte-Carlo standard errors are drawn.
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
    return _plot_distribution(posterior, ax, truth, "n_leaves", "number of leaves")


def plot_depth(posterior: Posterior, ax: Axes | None = None, truth: Posterior | None = None) -> Axes:
    """Draw the distribution of the depth of the deepest leaf as bars; tails below 1e-4 are left out.

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
    return _plot_distribution(posterior, ax, truth, "depth", "depth")


def _plot_distribution(
    posterior: Posterior, ax: Axes | None, truth: Posterior | None, quantity: str, label: str
) -> Axes:
    """Draw the distribution of a property of trees, with values ``quantity`` and probabilities ``{quantity}_pmf``."""
    from matplotlib.ticker import MaxNLocator

    ax = style.axes_or_new(ax, 5.0, 3.2)
    ax.set(xlabel=label, ylabel="probability")
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    pmfs = [getattr(p, f"{quantity}_pmf")() for p in (posterior, truth) if p is not None]
    size = max(map(len, pmfs))
    probability = np.array([np.pad(pmf, (0, size - len(pmf))) for pmf in pmfs])
    shown = np.flatnonzero(probability.max(axis=0) > NEGLIGIBLE)
    values, width = np.arange(shown[0], shown[-1] + 1), 0.8 / len(pmfs)
    place = values + width * (np.arange(len(pmfs))[:, None] - (len(pmfs) - 1) / 2.0)
    for here, pmf, name in zip(place, probability, (_label(posterior), "exact"), strict=False):
        ax.bar(here, pmf[values], width, label=name)
    if style.is_sampled(posterior):
        drawn = getattr(posterior, quantity)
        ax.errorbar(place[0], probability[0, values], yerr=style.two_errors([drawn == m for m in values]), **ERRORS)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(values[0] - 0.6, values[-1] + 0.6)
    if truth is not None:
        ax.legend(frameon=False)
    return ax


def _label(posterior: Posterior) -> str:
    return "sampled" if style.is_sampled(posterior) else "posterior"


def plot_inclusion(
    posterior: Posterior, ax: Axes | None = None, max_features: int = 20, truth: Posterior | None = None
) -> Axes:
    """Draw the probability that a tree splits on each feature as bars, the largest on top.

    Parameters
    ----------
    posterior, ax
        As for `plot_n_leaves`.
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
    ax = style.axes_or_new(ax, 5.5, 0.26 * n_shown + (1.0 if truth is None else 1.4))
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    inclusion = posterior._feature_inclusion()
    order = np.argsort(-inclusion, kind="stable")[:n_shown]
    inclusion, place = inclusion[order], np.arange(n_shown)
    bars = ax.barh(place, inclusion, 0.75, label=_label(posterior))
    if style.is_sampled(posterior):
        has_split = posterior.split_counts > 0
        ax.errorbar(inclusion, place, xerr=style.two_errors([has_split[:, :, k] for k in order]), **ERRORS)
    if truth is not None:
        exact = truth._feature_inclusion()[order]
        mark: dict[str, Any] = {"color": "C1", "markersize": 13, "markeredgewidth": 2.5, "clip_on": False}
        marks = ax.plot(exact, place, "|", label="exact", **mark)[0]
        ax.legend(handles=[bars, marks], frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    ax.set_yticks(place, [style.shortened(names[k], 32) for k in order], parse_math=False, fontsize="small")
    part = f" ({n_shown} of {len(names)} features)" if n_shown < len(names) else ""
    ax.set(xlim=(0.0, 1.02), ylim=(n_shown - 0.4, -0.6), xlabel=f"probability of being split on{part}")
    return ax


def plot_trace(posterior: SampledPosterior, axes: Sequence[Axes] | np.ndarray | None = None) -> np.ndarray:
    """Draw the log posterior and the number of leaves, draw by draw, a line for each chain.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.
    axes : two matplotlib Axes, optional
        For the log posterior (unnormalised, nats) and the number of leaves. Default: those of a new figure.

    Returns
    -------
    ndarray of shape (2,) of matplotlib Axes
        Titles give R-hat and the bulk effective sample size, which ArviZ computes.

    Raises
    ------
    TypeError, ValueError
        If the posterior does not consist of draws; if ``axes`` are not two.
    """
    from matplotlib.ticker import MaxNLocator

    style.check_sampled(posterior)
    axes = _two_axes(axes)
    for ax, name, values in _quantities(posterior, axes):
        ax.set(xlabel="draw", ylabel=name)
        if values.size == 0:
            continue
        for c, line in enumerate(values):
            ax.plot(line, color=color_of(c), linewidth=0.8, alpha=0.8, marker="." if line.size == 1 else None)
        ax.set_title(f"R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}", fontsize="medium")
        ax.margins(x=0.01)
    if not style.has_no_draws(posterior):
        axes[1].yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return axes


def plot_ranks(
    posterior: SampledPosterior, axes: Sequence[Axes] | np.ndarray | None = None, n_bins: int = 20
) -> np.ndarray:
    """Draw histograms of the ranks of each chain's draws among those of all chains, flat if the chains agree.

    Parameters
    ----------
    posterior, axes
        As for `plot_trace`.
    n_bins : int, default 20
        Number of bins, fewer if there are fewer draws.

    Returns
    -------
    ndarray of shape (2,) of matplotlib Axes
        Each chain's counts as an outline; the dashed line is the expected count if the chains agree.

    Raises
    ------
    TypeError, ValueError
        If the posterior does not consist of draws; if ``axes`` are not two, or ``n_bins`` is below 1.

    Notes
    -----
    Ties are broken at random, so that the histograms of agreeing chains are flat for discrete quantities too. Vehtari
    et al. (2021), section 4; for ArviZ's own plots pass it ``posterior.to_arviz()``.
    """
    style.check_sampled(posterior)
    check_count("n_bins", n_bins, 1)
    axes = _two_axes(axes)
    for ax, name, values in _quantities(posterior, axes):
        ax.set(xlabel=f"rank of the {name}", ylabel="draws")
        if values.size == 0:
            continue
        chains, draws = values.shape
        edges = np.linspace(0.5, values.size + 0.5, min(n_bins, draws) + 1)
        order = np.lexsort((np.random.default_rng(0).random(values.size), values.ravel()))
        ranks = 1 + np.argsort(order).reshape(values.shape)
        for c in range(chains):
            label = f"chain {c}" if chains <= MOST_CHAINS else None
            ax.stairs(np.histogram(ranks[c], edges)[0], edges, color=color_of(c), linewidth=1.3, label=label)
        ax.axhline(draws / (len(edges) - 1), color="0.4", linestyle="--", linewidth=1.0)
        ax.set(xlim=(edges[0], edges[-1]))
        ax.set_ylim(bottom=0.0)
    if not style.has_no_draws(posterior) and posterior.n_chains <= MOST_CHAINS:
        axes[0].legend(frameon=False, ncols=4, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return axes


def _two_axes(axes: Sequence[Axes] | np.ndarray | None) -> np.ndarray:
    import matplotlib.pyplot as plt

    pair: Any = plt.subplots(2, 1, figsize=(7.0, 5.5), layout="constrained")[1] if axes is None else axes
    pair = np.ravel(pair)
    if len(pair) != 2:
        raise ValueError(f"axes has {len(pair)} entries; give two Axes, or leave it out.")
    return pair


def _quantities(posterior: SampledPosterior, axes: np.ndarray) -> Iterator[tuple[Any, str, np.ndarray]]:
    """Yield axes, name and values (chains, draws) of the log posterior and of the number of leaves."""
    scalars = by_draw(posterior)
    values = (scalars["log_prior"] + scalars["log_score"], scalars["n_leaves"])
    for ax, name, value in zip(axes, ("log posterior", "number of leaves"), values, strict=True):
        if style.has_no_draws(posterior):
            style.say_no_draws(ax)
        yield ax, name, value


def plot_ladder(posterior: SampledPosterior, ax: Axes | None = None) -> Axes:
    """Draw the fraction of exchanges accepted between neighbours of a tempered run, a line for each chain.

    Parameters
    ----------
    posterior : SampledPosterior
        A run with ``betas=``.
    ax : matplotlib Axes, optional
        Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The horizontal axis is the larger inverse temperature of two neighbours. The title has the number of round trips
        of replicas between the ends, by chain; if there are none, the levels do not exchange information.

    Raises
    ------
    TypeError, ValueError
        If the posterior does not consist of draws; if the run was not tempered.
    """
    style.check_sampled(posterior)
    tempering = posterior.tempering
    if tempering is None:
        raise ValueError("the run was not tempered; give pt.sample betas=8, or more levels.")
    ax = style.axes_or_new(ax, 5.5, 3.4)
    chains, n = tempering.betas.shape
    for c, rates in enumerate(tempering.swap_rates):
        label = f"chain {c}" if chains <= MOST_CHAINS else None
        ax.plot(np.arange(n - 1) + 0.5, rates, "o-", markersize=4, linewidth=1.2, color=color_of(c), label=label)
    at = np.arange(0, n, max(1, round(n / 9)))
    ax.set_xticks(at, [f"{beta:.2g}" for beta in tempering.betas.mean(axis=0)[at]])
    trips = ", ".join(str(int(t)) for t in tempering.round_trips[:MOST_CHAINS])
    more = ", ..." if chains > MOST_CHAINS else ""
    ax.set_title(f"round trips by chain: {trips}{more}", fontsize="medium")
    ax.set(xlabel="power of the score, from the posterior to the prior", ylabel="exchanges accepted")
    ax.set(xlim=(-0.3, n - 0.7), ylim=(0.0, 1.02))
    if chains <= MOST_CHAINS:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_posterior(posterior: SampledPosterior, truth: Posterior | None = None) -> Figure:
    """Draw four plots of a sampled posterior: traces, distribution of the number of leaves, feature inclusion.

    Parameters
    ----------
    posterior, truth
        As for `plot_trace` and `plot_n_leaves`.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    TypeError
        If the posterior does not consist of draws.
    """
    import matplotlib.pyplot as plt

    style.check_sampled(posterior)
    figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.5), layout="constrained")
    plot_trace(posterior, axes[:, 0])
    plot_n_leaves(posterior, axes[0, 1], truth)
    plot_inclusion(posterior, axes[1, 1], truth=truth)
    return figure
