"""Plots of a run of chains: four plots in one figure, and how often trees have a cell or a split."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import check_number, check_type
from ...posterior.base import Posterior
from ...posterior.ess import MIN_DRAWS_PER_CHAIN, autocorrelation_times, ess, rhat
from ...posterior.sampled import SampledPosterior
from ...posterior.trees.support import Support
from . import style
from .many_trees import plot_inclusion, plot_n_leaves
from .style import ERRORBAR_STYLE, MAX_CHAINS_IN_LEGEND, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUPPORT_MARKERS = {"cell": "o", "split": "x"}
BAND_FREQUENCIES = np.linspace(0.0, 1.0, 201)  # frequencies at which the band of `plot_split_frequencies` is computed


def plot_posterior(posterior: SampledPosterior, truth: Posterior | None = None) -> Figure:
    """Draw four plots of a sampled posterior: traces, distribution of the number of leaves, feature inclusion.

    Parameters
    ----------
    posterior, truth
        As for `plot_n_leaves`.

    Returns
    -------
    matplotlib Figure
        On the left the log posterior (unnormalised, nats) and the number of leaves, draw by draw, a line for each
        chain; titles give R-hat and the bulk effective sample size.

    Raises
    ------
    TypeError
        If the posterior does not consist of draws.
    """
    import matplotlib.pyplot as plt

    style.check_sampled(posterior)
    figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.5), layout="constrained")
    traces = {"log posterior": posterior.log_prior + posterior.log_score, "number of leaves": posterior.n_leaves}
    for ax, (name, values) in zip(axes[:, 0], traces.items(), strict=True):
        ax.set(xlabel="draw", ylabel=name)
        ax.margins(x=0.01)
        for c, line in enumerate(values):
            ax.plot(line, color=color_of(c), linewidth=0.8, alpha=0.8, marker="." if line.size == 1 else None)
        style.set_title(ax, f"{name} by chain: R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}")
    plot_n_leaves(posterior, axes[0, 1], truth)
    plot_inclusion(posterior, axes[1, 1], truth=truth)
    return figure


def plot_split_frequencies(
    posterior: SampledPosterior,
    ax: Axes | None = None,
    *,
    truth: Posterior | None = None,
    min_probability: float = 0.05,
) -> Axes:
    """Draw how often the trees of each chain have each cell and split, against other chains or the exact posterior.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains. One chain is compared half with half.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    truth : Posterior, optional
        An exact posterior of the same model, for the horizontal axis. All draws together, with two Monte-Carlo standard
        errors, are then on the vertical one.
    min_probability : float, default 0.05
        Cells and splits that are less probable are left out; in [0, 1].

    Returns
    -------
    matplotlib Axes
        Without ``truth``, a point for each cell (a split: a cross) and chain: across the mean of the other chains, up
        the chain. Grey is the band in which points lie with about 95 % probability if all chains draw from one
        distribution; the title has `SampledPosterior.asdsf`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind or out of range.

    Notes
    -----
    The band is 2 sqrt(p (1 - p) (1 / ess + 1 / (ess * other chains))) around a frequency p, at the median effective
    sample size of a chain.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> post = pt.posterior_from_trees(model, stumps, [[0, 1] * 20, [1, 1] * 20])
    >>> plot_split_frequencies(post).get_ylabel()
    'frequency in the chain'
    """
    style.check_sampled(posterior)
    if truth is not None:
        check_type("truth", truth, Posterior, "an exact posterior, such as exact.solve returns")
    check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    ax = style.axes_or_new(ax, 4.8, 4.6)
    support = posterior.support(min_probability)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.5", linewidth=0.8, zorder=1)
    if truth is None:
        _draw_chain_against_chains(ax, posterior, support)
    else:
        _draw_draws_against_exact(ax, support, truth)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    style.set_title_below_caveat(ax, ax.get_title(), support.caveat, "medium", resizes=False)
    return ax


def _draw_draws_against_exact(ax: Axes, support: Support, truth: Posterior) -> None:
    """Draw a point for each cell and split of ``support``."""
    # its exact probability across, its frequency in the draws up
    exact_support = truth.support(0.0)
    probability_of = dict(zip(exact_support.key, exact_support.probability, strict=True))
    exact = np.array([probability_of.get(key, 0.0) for key in support.key])
    for kind, marker in SUPPORT_MARKERS.items():
        here = support.kind == kind
        reach = 2.0 * np.where(support.mcse[here] > 0.0, support.mcse[here], np.nan)
        ax.errorbar(exact[here], support.probability[here], reach, **{**ERRORBAR_STYLE, "ecolor": "0.6"})
        ax.plot(exact[here], support.probability[here], marker, color=color_of(0), markersize=4, label=f"{kind}s")
    ax.set(xlabel="exact probability", ylabel="frequency in the draws")
    style.set_title(ax, f"{len(support.kind)} cells and splits, drawn against exact")
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def _draw_chain_against_chains(ax: Axes, post: SampledPosterior, support: Support) -> None:
    """Draw a point for each cell, split and chain: frequency in the other chains across, in this chain up."""
    in_draw = support.by_tree[:, post.tree_of_draw].astype(np.float64)
    names, one, others = [f"chain {c}" for c in range(post.n_chains)], "chain", "chains"
    if post.n_chains == 1:
        half = max(in_draw.shape[2] // 2, 1)
        in_draw = np.concatenate([in_draw[:, :, :half], in_draw[:, :, -half:]], axis=1)
        names, one, others = ["first half", "second half"], "half", "half"
    _draw_band(ax, in_draw)
    frequency = in_draw.mean(axis=2)
    for c, name in enumerate(names):
        of_others = np.delete(frequency, c, axis=1).mean(axis=1)
        for kind, marker in SUPPORT_MARKERS.items():
            here, label = support.kind == kind, name if kind == "cell" else None
            points = of_others[here], frequency[here, c]
            ax.plot(*points, marker, label=label, color=color_of(c), markersize=4, alpha=0.7)
    ax.set(xlabel=f"frequency in the other {others}", ylabel=f"frequency in the {one}")
    deviation = post.asdsf()
    expected = "" if np.isnan(deviation.expected) else f", expected {deviation.expected:.3f}"
    title = f"average deviation of split frequencies {deviation.asdsf:.3f}{expected}"
    style.set_title(ax, title if deviation.n_cells else "no cell is in a tenth of the trees of a chain")
    if len(names) <= MAX_CHAINS_IN_LEGEND:
        for kind, marker in SUPPORT_MARKERS.items():
            ax.plot([], [], marker, color="0.35", markersize=4, label=f"{kind}s")
        ax.legend(frameon=False, fontsize="small", loc="upper left")


def _draw_band(ax: Axes, in_draw: np.ndarray) -> None:
    """Draw the band of `plot_split_frequencies`, nothing if there are too few draws for an effective sample size."""
    m, chains, draws = in_draw.shape
    if draws < MIN_DRAWS_PER_CHAIN or m == 0:
        return
    size = float(np.median(draws / autocorrelation_times(in_draw)))
    p = BAND_FREQUENCIES
    reach = 2.0 * np.sqrt(p * (1.0 - p) * (1.0 + 1.0 / (chains - 1)) / size)
    ax.fill_between(p, np.maximum(p - reach, 0.0), np.minimum(p + reach, 1.0), color="0.88", linewidth=0.0, zorder=0)
