"""Plots of chains: traces, ranks, the ladder of a tempered run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_count
from ...posterior.base import Posterior
from ...posterior.ess import ess, rhat
from ...posterior.inference_data import by_draw
from ...posterior.sampled import SampledPosterior
from .axes import MOST_CHAINS, axes_or_new, check_sampled, color_of, has_no_draws, say_no_draws
from .distributions import plot_inclusion, plot_n_leaves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_trace(posterior: SampledPosterior, axes: Sequence[Axes] | np.ndarray | None = None) -> np.ndarray:
    """Log posterior and number of leaves, draw by draw, a line for each chain.

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
        If the posterior has no draws; if ``axes`` are not two.
    """
    from matplotlib.ticker import MaxNLocator

    check_sampled(posterior)
    axes = _two_axes(axes)
    for ax, (name, values) in zip(axes, _watched(posterior).items(), strict=True):
        ax.set(xlabel="draw", ylabel=name)
        if has_no_draws(posterior):
            say_no_draws(ax)
            continue
        for c, line in enumerate(values):
            ax.plot(line, color=color_of(c), linewidth=0.8, alpha=0.8, marker="." if line.size == 1 else None)
        ax.set_title(f"R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}", fontsize="medium")
        ax.margins(x=0.01)
    if not has_no_draws(posterior):
        axes[1].yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    return axes


def plot_ranks(
    posterior: SampledPosterior, axes: Sequence[Axes] | np.ndarray | None = None, n_bins: int = 20
) -> np.ndarray:
    """Histograms of the ranks of each chain's draws among those of all, flat when the chains agree.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains.
    axes : two matplotlib Axes, optional
        For the log posterior and the number of leaves. Default: those of a new figure.
    n_bins : int, default 20
        Bins, fewer when there are fewer draws than bins.

    Returns
    -------
    ndarray of shape (2,) of matplotlib Axes
        Each chain's counts as an outline; the dashed line is the expected count if the chains agree.

    Raises
    ------
    TypeError, ValueError
        If the posterior has no draws; if ``axes`` are not two, or ``n_bins`` is below 1.

    Notes
    -----
    Ties are broken at random, so that the histograms of agreeing chains are flat for discrete quantities too. Vehtari
    et al. (2021), section 4; for ArviZ's own plots pass it ``posterior.to_arviz()``.
    """
    check_sampled(posterior)
    check_count("n_bins", n_bins, 1)
    axes = _two_axes(axes)
    for ax, (name, values) in zip(axes, _watched(posterior).items(), strict=True):
        ax.set(xlabel=f"rank of the {name}", ylabel="draws")
        if has_no_draws(posterior):
            say_no_draws(ax)
            continue
        chains, draws = values.shape
        edges = np.linspace(0.5, values.size + 0.5, min(n_bins, draws) + 1)
        for c, ranks in enumerate(_ranks(values)):
            label = f"chain {c}" if chains <= MOST_CHAINS else None
            ax.stairs(np.histogram(ranks, edges)[0], edges, color=color_of(c), linewidth=1.3, label=label)
        ax.axhline(draws / (len(edges) - 1), color="0.4", linestyle="--", linewidth=1.0)
        ax.set(xlim=(edges[0], edges[-1]))
        ax.set_ylim(bottom=0.0)
    if not has_no_draws(posterior) and posterior.n_chains <= MOST_CHAINS:
        axes[0].legend(frameon=False, ncols=4, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return axes


def plot_ladder(posterior: SampledPosterior, ax: Axes | None = None) -> Axes:
    """Fraction of exchanges accepted between neighbours of a tempered run, a line for each chain.

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
        If the posterior has no draws; if the run was not tempered.
    """
    check_sampled(posterior)
    if posterior.tempering is None:
        raise ValueError("the run was not tempered; give pt.sample betas=8, or more levels.")
    found, ax = posterior.tempering, axes_or_new(ax, 5.5, 3.4)
    n = found.betas.shape[1]
    for c, rates in enumerate(found.swap_rates):
        label = f"chain {c}" if len(found.swap_rates) <= MOST_CHAINS else None
        ax.plot(np.arange(n - 1) + 0.5, rates, "o-", markersize=4, linewidth=1.2, color=color_of(c), label=label)
    powers = found.betas.mean(axis=0)
    step = max(1, round(n / 9))
    at = np.arange(0, n, step)
    ax.set_xticks(at, [f"{powers[i]:.2g}" for i in at])
    trips = ", ".join(str(int(t)) for t in found.round_trips[:MOST_CHAINS])
    more = ", ..." if len(found.round_trips) > MOST_CHAINS else ""
    ax.set_title(f"round trips by chain: {trips}{more}", fontsize="medium")
    ax.set(xlabel="power of the score, from the posterior to the prior", ylabel="exchanges accepted")
    ax.set(xlim=(-0.3, n - 0.7), ylim=(0.0, 1.02))
    if len(found.swap_rates) <= MOST_CHAINS:
        ax.legend(frameon=False, fontsize="small")
    return ax


def plot_posterior(posterior: SampledPosterior, truth: Posterior | None = None) -> Figure:
    """Four plots of a sampled posterior: traces, distribution of the number of leaves, feature inclusion.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.
    truth : Posterior, optional
        An exact posterior, whose distributions are drawn beside.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    TypeError
        If the posterior has no draws.
    """
    import matplotlib.pyplot as plt

    check_sampled(posterior)
    figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.5), layout="constrained")
    plot_trace(posterior, axes[:, 0])
    plot_n_leaves(posterior, axes[0, 1], truth)
    plot_inclusion(posterior, axes[1, 1], truth=truth)
    return figure


def _watched(posterior: SampledPosterior) -> dict[str, np.ndarray]:
    """What is looked at, draw by draw, each (chains, draws)."""
    scalars = by_draw(posterior)
    return {"log posterior": scalars["log_prior"] + scalars["log_score"], "number of leaves": scalars["n_leaves"]}


def _ranks(values: np.ndarray) -> np.ndarray:
    """Rank of each value among all, from 1, those of equal values by chance."""
    flat = values.ravel()
    order = np.lexsort((np.random.default_rng(0).random(flat.size), flat))
    out = np.empty(flat.size, dtype=np.int64)
    out[order] = np.arange(1, flat.size + 1)
    return out.reshape(values.shape)


def _two_axes(axes: Sequence[Axes] | np.ndarray | None) -> np.ndarray:
    import matplotlib.pyplot as plt

    given: Any = plt.subplots(2, 1, figsize=(7.0, 5.5), layout="constrained")[1] if axes is None else axes
    axes = np.ravel(given)
    if len(axes) != 2:
        raise ValueError(f"axes has {len(axes)} entries; give two Axes, or leave it out.")
    return axes
