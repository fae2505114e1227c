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
from . import style
from .style import ERRORS, MOST_CHAINS, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = {"cell": "o", "split": "x"}
BAND_FREQUENCIES = np.linspace(0.0, 1.0, 201)
"""Frequencies at which the band of `plot_split_frequencies` is computed."""
MOST_POINTS = 400
"""Largest number of draws of a chain at which cumulative support is drawn."""
LINE_LETTERS = 75


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
    style.check_sampled(posterior)
    if truth is not None:
        check_type("truth", truth, Posterior, "an exact posterior, such as exact.solve returns")
    check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    ax = style.axes_or_new(ax, 4.8, 4.6)
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    support = posterior.support(min_probability)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.5", linewidth=0.8, zorder=1)
    if truth is None:
        _draw_chain_against_chains(ax, posterior, support)
    else:
        _draw_draws_against_exact(ax, support, truth)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    return ax


def _draw_draws_against_exact(ax: Axes, support: Support, truth: Posterior) -> None:
    exact_support = truth.support(0.0)
    probability_of = dict(zip(exact_support.key, exact_support.probability, strict=True))
    exact = np.array([probability_of.get(key, 0.0) for key in support.key])
    for kind, marker in MARKERS.items():
        here = support.kind == kind
        reach = 2.0 * np.where(support.mcse[here] > 0.0, support.mcse[here], np.nan)
        ax.errorbar(exact[here], support.probability[here], reach, **{**ERRORS, "ecolor": "0.6"})
        ax.plot(exact[here], support.probability[here], marker, color=color_of(0), markersize=4, label=f"{kind}s")
    ax.set(xlabel="exact probability", ylabel="frequency in the draws")
    ax.set_title(f"{len(support.kind)} cells and splits, with two standard errors", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def _draw_chain_against_chains(ax: Axes, post: SampledPosterior, support: Support) -> None:
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
        for kind, marker in MARKERS.items():
            here, label = support.kind == kind, name if kind == "cell" else None
            points = of_others[here], frequency[here, c]
            ax.plot(*points, marker, label=label, color=color_of(c), markersize=4, alpha=0.7)
    ax.set(xlabel=f"frequency in the other {others}", ylabel=f"frequency in the {one}")
    deviation = post.asdsf()
    expected = "" if np.isnan(deviation.expected) else f", expected {deviation.expected:.3f}"
    title = f"average deviation of split frequencies {deviation.asdsf:.3f}{expected}"
    ax.set_title(title if deviation.n_cells else "no cell is in a tenth of the trees of a chain", fontsize="medium")
    if len(names) <= MOST_CHAINS:
        for kind, marker in MARKERS.items():
            ax.plot([], [], marker, color="0.35", markersize=4, label=f"{kind}s")
        ax.legend(frameon=False, fontsize="small", loc="upper left")


def _draw_band(ax: Axes, in_draw: np.ndarray) -> None:
    """Draw the band of `plot_split_frequencies` for indicators (m, chains, draws) of cells and splits."""
    m, chains, draws = in_draw.shape
    if draws < FEWEST_PER_CHAIN or m == 0:
        return
    size = float(np.median(draws / autocorrelation_times(in_draw)))
    p = BAND_FREQUENCIES
    reach = 2.0 * np.sqrt(p * (1.0 - p) * (1.0 + 1.0 / (chains - 1)) / size)
    ax.fill_between(p, np.maximum(p - reach, 0.0), np.minimum(p + reach, 1.0), color="0.88", linewidth=0.0, zorder=0)


def plot_cumulative_support(posterior: SampledPosterior, ax: Axes | None = None, *, n_splits: int = 4) -> Axes:
    """Draw how the probability of uncertain splits settles along the run, chain by chain.

    Parameters
    ----------
    posterior, ax
        As for `plot_split_frequencies`.
    n_splits : int, default 4
        Largest number of splits shown: those whose probability is nearest to one half. Splits that are in the same
        draws are one line.

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
    style.check_sampled(posterior)
    check_count("n_splits", n_splits)
    ax = style.axes_or_new(ax, 6.6, 4.4)
    ax.set(xlabel="draws of each chain so far", ylabel="fraction of them with the split")
    if style.has_no_draws(posterior):
        return style.say_no_draws(ax)
    support = posterior.support(0.0)
    in_draw = support.by_tree[:, posterior.tree_of_draw]
    at = style.evenly_spaced(posterior.n_draws, MOST_POINTS)
    lines, names = [], []
    for number, i in enumerate(_uncertain_splits(support, in_draw, n_splits)):
        so_far = (np.cumsum(in_draw[i], axis=1) / np.arange(1, posterior.n_draws + 1))[:, at]
        look: dict[str, Any] = {"color": color_of(number), "marker": "." if len(at) == 1 else None}
        for line in so_far:
            ax.plot(at + 1, line, linewidth=0.8, alpha=0.6, **look)
        lines += ax.plot(at + 1, so_far.mean(axis=0), linewidth=2.2, **look)
        words = style.shortened(support.words[i].replace(" <= ", " ≤ "), 2 * LINE_LETTERS)
        names.append("\n".join(textwrap.wrap(words, LINE_LETTERS + 10)))
    ax.set(ylim=(-0.02, 1.02))
    ax.margins(x=0.01)
    if not lines:
        ax.set_title("no draw has a split that divides the training rows", fontsize="medium")
        return ax
    several = f"{posterior.n_chains} chains (thin) and all (thick)" if posterior.n_chains > 1 else "one chain"
    ax.set_title(f"splits with a probability nearest to one half: {several}", fontsize="medium")
    style.legend_below(ax, lines, names)
    return ax


def _uncertain_splits(support: Support, in_draw: np.ndarray, n: int) -> list[int]:
    """Return the ``n`` splits whose probability is nearest to one half; of those in the same draws, the first."""
    splits: dict[bytes, int] = {}
    for i in np.argsort(np.abs(support.probability - 0.5), kind="stable").tolist():
        if support.kind[i] == "split":
            splits.setdefault(in_draw[i].tobytes(), i)
        if len(splits) == n:
            break
    return list(splits.values())
