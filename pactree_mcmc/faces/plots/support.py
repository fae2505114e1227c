"""Plots of the support of cells and splits: chain against chain, against the exact posterior, along the run."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_count, check_number, check_type
from ...posterior.base import Posterior
from ...posterior.ess import FEWEST_PER_CHAIN, autocorrelation_times
from ...posterior.sampled import SampledPosterior
from ...posterior.trees.support import Support
from .axes import (
    ERRORS,
    MOST_CHAINS,
    axes_or_new,
    check_sampled,
    color_of,
    has_no_draws,
    legend_below,
    say_no_draws,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"cell": "o", "split": "x"}
GRID = np.linspace(0.0, 1.0, 201)
POINTS = 400
"""Places along the run at which cumulative support is drawn, at most."""
LETTERS = 75


def plot_split_frequencies(
    posterior: SampledPosterior,
    ax: Axes | None = None,
    *,
    truth: Posterior | None = None,
    min_probability: float = 0.05,
) -> Axes:
    """How often the trees of each chain have each cell and split, against the other chains or the exact posterior.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains. One chain is compared half with half.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    truth : Posterior, optional
        An exact posterior of the same model: its probabilities are on the horizontal axis, and the draws of all chains
        together, with two Monte-Carlo standard errors, on the vertical one.
    min_probability : float, default 0.05
        Cells and splits that are less probable are left out; in [0, 1].

    Returns
    -------
    matplotlib Axes
        Without ``truth``, a point for each cell (a split: a cross) and chain, in the colour of the chain: the mean of
        the other chains across, the chain up. Grey is the band in which points lie with about 95 % probability if all
        chains draw from one distribution; the title has `SampledPosterior.asdsf`.

    Raises
    ------
    TypeError, ValueError
        If the posterior does not consist of draws, ``truth`` is not a posterior, or ``min_probability`` is out of
        range.

    Notes
    -----
    The band is two standard deviations of the difference of two frequencies p at the median effective sample size of a
    chain, from autocorrelations within chains: 2 sqrt(p (1 - p) (1 / ess + 1 / (ess * other chains))).

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> post = pt.posterior_from_trees(model, stumps, [[0, 1] * 20, [1, 1] * 20])
    >>> plot_split_frequencies(post).get_ylabel()
    'frequency in the chain'
    """
    check_sampled(posterior)
    if truth is not None:
        check_type("truth", truth, Posterior, "an exact posterior, such as exact.solve returns")
    check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    ax = axes_or_new(ax, 4.8, 4.6)
    if has_no_draws(posterior):
        return say_no_draws(ax)
    found = posterior.support(min_probability)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.5", linewidth=0.8, zorder=1)
    if truth is None:
        _draw_chains(ax, posterior, found)
    else:
        _draw_against(ax, found, truth)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    return ax


def _draw_against(ax: Axes, found: Support, truth: Posterior) -> None:
    """Exact probabilities across, those of all draws up."""
    other = truth.support(0.0)
    place = {key: i for i, key in enumerate(other.key)}
    exact = np.array([other.probability[place[key]] if key in place else 0.0 for key in found.key])
    for kind, marker in MARKERS.items():
        here = found.kind == kind
        reach = 2.0 * np.where(found.mcse[here] > 0.0, found.mcse[here], np.nan)
        ax.errorbar(exact[here], found.probability[here], reach, **{**ERRORS, "ecolor": "0.6"})
        ax.plot(exact[here], found.probability[here], marker, color=color_of(0), markersize=4, label=f"{kind}s")
    ax.set(xlabel="exact probability", ylabel="frequency in the draws")
    ax.set_title(f"{len(found.kind)} cells and splits, with two standard errors", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def _draw_chains(ax: Axes, post: SampledPosterior, found: Support) -> None:
    """The mean of the other chains across, each chain up."""
    held = found.by_tree[:, post.tree_of_draw].astype(np.float64)
    halves = post.n_chains == 1
    if halves:
        half = max(held.shape[2] // 2, 1)
        held = np.concatenate([held[:, :, :half], held[:, :, -half:]], axis=1)
    frequency = held.mean(axis=2)
    chains, draws = held.shape[1:]
    if draws >= FEWEST_PER_CHAIN and len(held):
        size = float(np.median(draws / autocorrelation_times(held)))
        reach = 2.0 * np.sqrt(GRID * (1.0 - GRID) * (1.0 + 1.0 / (chains - 1)) / size)
        low, high = np.maximum(GRID - reach, 0.0), np.minimum(GRID + reach, 1.0)
        ax.fill_between(GRID, low, high, color="0.88", linewidth=0.0, zorder=0)
    for c in range(chains):
        others = np.delete(frequency, c, axis=1).mean(axis=1)
        for kind, marker in MARKERS.items():
            here = found.kind == kind
            label = ("first half", "second half")[c] if halves else f"chain {c}"
            style: dict[str, Any] = {"color": color_of(c), "markersize": 4, "alpha": 0.7}
            ax.plot(others[here], frequency[here, c], marker, label=label if kind == "cell" else None, **style)
    name = "half" if halves else "chain"
    ax.set(xlabel=f"frequency in the other {'half' if halves else 'chains'}", ylabel=f"frequency in the {name}")
    judged = post.asdsf()
    expected = "" if np.isnan(judged.expected) else f", expected {judged.expected:.3f}"
    title = f"average deviation of split frequencies {judged.asdsf:.3f}{expected}"
    ax.set_title(title if judged.n_cells else "no cell is in a tenth of the trees of a chain", fontsize="medium")
    if chains <= MOST_CHAINS:
        for kind, marker in MARKERS.items():
            ax.plot([], [], marker, color="0.35", markersize=4, label=f"{kind}s")
        ax.legend(frameon=False, fontsize="small", loc="upper left")


def plot_cumulative_support(posterior: SampledPosterior, ax: Axes | None = None, *, n_splits: int = 4) -> Axes:
    """How the probability of uncertain splits settles along the run, chain by chain.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    n_splits : int, default 4
        Splits shown, at most: those whose probability is nearest to one half. Splits that are in the same draws are one
        line.

    Returns
    -------
    matplotlib Axes
        For each split a colour: a thin line for each chain, the fraction of its draws so far that have the split, and
        a thick one for all chains together. Chains that agree come together. The legend has the splits in words.

    Raises
    ------
    TypeError, ValueError
        If the posterior does not consist of draws, or ``n_splits`` is below 1.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
    >>> ax = plot_cumulative_support(pt.posterior_from_trees(model, stumps, [[0, 1, 1, 1]]), n_splits=1)
    >>> [float(y) for y in ax.lines[0].get_ydata()]
    [0.0, 0.5, 0.6666666666666666, 0.75]
    """
    check_sampled(posterior)
    check_count("n_splits", n_splits)
    ax = axes_or_new(ax, 6.6, 4.4)
    ax.set(xlabel="draws of each chain so far", ylabel="fraction of them with the split")
    if has_no_draws(posterior):
        return say_no_draws(ax)
    found = posterior.support(0.0)
    held = found.by_tree[:, posterior.tree_of_draw]
    places = np.unique(np.linspace(0, posterior.n_draws - 1, min(posterior.n_draws, POINTS)).astype(np.int64))
    lines, names = [], []
    for number, i in enumerate(_uncertain(found, held, n_splits)):
        so_far = (np.cumsum(held[i], axis=1) / np.arange(1, posterior.n_draws + 1))[:, places]
        style: dict[str, Any] = {"color": color_of(number), "marker": "." if len(places) == 1 else None}
        for line in so_far:
            ax.plot(places + 1, line, linewidth=0.8, alpha=0.6, **style)
        lines += ax.plot(places + 1, so_far.mean(axis=0), linewidth=2.2, **style)
        words = shortened(found.words[i].replace(" <= ", " ≤ "), 2 * LETTERS)
        names.append("\n".join(textwrap.wrap(words, LETTERS + 10)))
    ax.set(ylim=(-0.02, 1.02))
    ax.margins(x=0.01)
    if not lines:
        ax.set_title("no draw has a split that parts the training rows", fontsize="medium")
        return ax
    several = f"{posterior.n_chains} chains (thin) and all (thick)" if posterior.n_chains > 1 else "one chain"
    ax.set_title(f"splits with a probability nearest to one half: {several}", fontsize="medium")
    legend_below(ax, lines, names)
    return ax


def _uncertain(found: Support, held: np.ndarray, n: int) -> list[int]:
    """Places of the ``n`` splits whose probability is nearest to one half, of those in the same draws the first."""
    out: list[int] = []
    seen: set[bytes] = set()
    for i in np.argsort(np.abs(found.probability - 0.5), kind="stable").tolist():
        if found.kind[i] == "split" and held[i].tobytes() not in seen:
            seen.add(held[i].tobytes())
            out.append(i)
        if len(out) == n:
            break
    return out
