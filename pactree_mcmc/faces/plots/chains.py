"""Plots of chains: traces, ranks, exchanges between temperatures, and how often trees have a split."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_count, check_number, check_type
from ...posterior.base import Posterior
from ...posterior.ess import MIN_DRAWS_PER_CHAIN, autocorrelation_times, ess, rhat
from ...posterior.inference_data import scalars_by_draw
from ...posterior.sampled import SampledPosterior
from ...posterior.trees.distances import evenly_spaced_integers
from ...posterior.trees.support import Support
from . import style
from .many_trees import plot_inclusion, plot_n_leaves
from .style import ERRORBAR_STYLE, MAX_CHAINS_IN_LEGEND, color_of, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUPPORT_MARKERS = {"cell": "o", "split": "x"}
BAND_FREQUENCIES = np.linspace(0.0, 1.0, 201)
"""Frequencies at which the band of `plot_split_frequencies` is computed."""
MAX_SUPPORT_POINTS = 400
"""Largest number of draws of a chain at which cumulative support is drawn."""
MAX_LINE_LETTERS = 75


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
        Titles give R-hat and the bulk effective sample size.

    Raises
    ------
    TypeError, ValueError
        If the posterior does not consist of draws; if ``axes`` are not two.
    """
    from matplotlib.ticker import MaxNLocator

    style.check_sampled(posterior)
    axes = _two_axes(axes)
    for ax, name, values in _traced_quantities(posterior, axes):
        ax.set(xlabel="draw", ylabel=name)
        if values.size == 0:
            continue
        for c, line in enumerate(values):
            ax.plot(line, color=color_of(c), linewidth=0.8, alpha=0.8, marker="." if line.size == 1 else None)
        style.set_title(ax, f"{name} by chain: R-hat {rhat(values):.2f}, effective sample size {ess(values):.0f}")
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
        Counts of each chain as an outline; dashed the expected count if the chains agree.

    Raises
    ------
    TypeError, ValueError
        As for `plot_trace`, or if ``n_bins`` is below 1.

    Notes
    -----
    Ties are broken at random, so that discrete quantities of agreeing chains are flat too. Vehtari et al. (2021),
    section 4.
    """
    style.check_sampled(posterior)
    check_count("n_bins", n_bins, 1)
    axes = _two_axes(axes)
    for ax, name, values in _traced_quantities(posterior, axes):
        ax.set(xlabel=f"rank of the {name}", ylabel="draws")
        if values.size == 0:
            continue
        chains, draws = values.shape
        edges = np.linspace(0.5, values.size + 0.5, min(n_bins, draws) + 1)
        order = np.lexsort((np.random.default_rng(0).random(values.size), values.ravel()))
        ranks = 1 + np.argsort(order).reshape(values.shape)
        for c in range(chains):
            label = f"chain {c}" if chains <= MAX_CHAINS_IN_LEGEND else None
            ax.stairs(np.histogram(ranks[c], edges)[0], edges, **line_style(c), linewidth=1.3, label=label)
        ax.axhline(draws / (len(edges) - 1), color="0.4", linestyle="--", linewidth=1.0)
        ax.set(xlim=(edges[0], edges[-1]))
        ax.set_ylim(bottom=0.0)
    if not style.has_no_draws(posterior) and posterior.n_chains <= MAX_CHAINS_IN_LEGEND:
        style.set_title(axes[0], "ranks of the draws of each chain among all, flat if the chains agree")
        axes[1].legend(frameon=False, ncols=4, fontsize="small", loc="lower left")
    return axes


def _two_axes(axes: Sequence[Axes] | np.ndarray | None) -> np.ndarray:
    """Return the two axes that the caller gave, or those of a new figure, as an array (2,); raise if not two."""
    import matplotlib.pyplot as plt

    pair: Any = plt.subplots(2, 1, figsize=(7.0, 5.5), layout="constrained")[1] if axes is None else axes
    pair = np.ravel(pair)
    if len(pair) != 2:
        raise ValueError(f"axes has {len(pair)} entries; give two Axes, or leave it out.")
    return pair


def _traced_quantities(posterior: SampledPosterior, axes: np.ndarray) -> Iterator[tuple[Any, str, np.ndarray]]:
    """Yield axes, name and values (chains, draws), first of the log posterior, then of the number of leaves.

    ``axes`` (2,) belong to these two. Write "no draws" into them if there are none.
    """
    scalars = scalars_by_draw(posterior)
    values = (scalars["log_prior"] + scalars["log_score"], scalars["n_leaves"])
    for ax, name, value in zip(axes, ("log posterior", "number of leaves"), values, strict=True):
        if style.has_no_draws(posterior):
            style.write_no_draws(ax)
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
        The title has the number of round trips of replicas between the ends, by chain; without any, the levels do not
        exchange information.

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
        label = f"chain {c}" if chains <= MAX_CHAINS_IN_LEGEND else None
        ax.plot(np.arange(n - 1) + 0.5, rates, marker="o", markersize=4, linewidth=1.2, **line_style(c), label=label)
    at = np.arange(0, n, max(1, round(n / 9)))
    ax.set_xticks(at, [f"{beta:.2g}" for beta in tempering.betas.mean(axis=0)[at]])
    trips = ", ".join(str(int(t)) for t in tempering.round_trips[:MAX_CHAINS_IN_LEGEND])
    more = ", ..." if chains > MAX_CHAINS_IN_LEGEND else ""
    style.set_title(ax, f"exchanges along the ladder; round trips by chain: {trips}{more}")
    ax.set(xlabel="power of the score, from the posterior to the prior", ylabel="exchanges accepted")
    ax.set(xlim=(-0.3, n - 0.7), ylim=(0.0, 1.02))
    if chains <= MAX_CHAINS_IN_LEGEND:
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
    if style.has_no_draws(posterior):
        return style.write_no_draws(ax)
    support = posterior.support(min_probability)
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.5", linewidth=0.8, zorder=1)
    if truth is None:
        _draw_chain_against_chains(ax, posterior, support)
    else:
        _draw_draws_against_exact(ax, support, truth)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    return ax


def _draw_draws_against_exact(ax: Axes, support: Support, truth: Posterior) -> None:
    """Draw a point for each cell and split of ``support``: its exact probability across, its frequency in the draws up.

    ``support`` is that of the sampled posterior. Bars are two Monte-Carlo standard errors.
    """
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
    """Draw a point for each cell, split and chain: frequency in the other chains across, in this chain up.

    The halves of a single chain count as two chains.
    """
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
    """Draw the band of `plot_split_frequencies`, nothing if there are too few draws for an effective sample size.

    ``in_draw`` (m, chains, draws) is 1 if the tree of a draw has a cell or split, else 0.
    """
    m, chains, draws = in_draw.shape
    if draws < MIN_DRAWS_PER_CHAIN or m == 0:
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
        Largest number of splits shown, those whose probability is nearest to one half. Splits in the same draws are one
        line.

    Returns
    -------
    matplotlib Axes
        For each split a thin line for each chain, the fraction of its draws so far that have the split, and a thick one
        for all chains. Chains that agree come together.

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
        return style.write_no_draws(ax)
    support = posterior.support(0.0)
    in_draw = support.by_tree[:, posterior.tree_of_draw]
    at = evenly_spaced_integers(posterior.n_draws, MAX_SUPPORT_POINTS)
    lines, names = [], []
    for number, i in enumerate(_uncertain_splits(support, in_draw, n_splits)):
        so_far = (np.cumsum(in_draw[i], axis=1) / np.arange(1, posterior.n_draws + 1))[:, at]
        look: dict[str, Any] = {**line_style(number), "marker": "." if len(at) == 1 else None}
        for line in so_far:
            ax.plot(at + 1, line, linewidth=0.8, alpha=0.6, **look)
        lines += ax.plot(at + 1, so_far.mean(axis=0), linewidth=2.2, **look)
        words = style.shortened(support.words[i].replace(" <= ", " ≤ "), 2 * MAX_LINE_LETTERS)
        names.append("\n".join(textwrap.wrap(words, MAX_LINE_LETTERS + 10)))
    ax.set(ylim=(-0.02, 1.02))
    ax.margins(x=0.01)
    if not lines:
        style.set_title(ax, "no draw has a split that divides the training rows")
        return ax
    several = f"{posterior.n_chains} chains (thin) and all (thick)" if posterior.n_chains > 1 else "one chain"
    style.set_title(ax, f"splits with a probability nearest to one half: {several}")
    style.legend_below(ax, lines, names)
    return ax


def _uncertain_splits(support: Support, in_draw: np.ndarray, n: int) -> list[int]:
    """Return the indices in ``support`` of up to ``n`` splits whose probability is nearest to one half.

    ``in_draw`` (m, chains, draws) is True if the tree of a draw has cell or split m. Of splits in the same draws only
    the first is taken.
    """
    splits: dict[bytes, int] = {}
    for i in np.argsort(np.abs(support.probability - 0.5), kind="stable").tolist():
        if support.kind[i] == "split":
            splits.setdefault(in_draw[i].tobytes(), i)
        if len(splits) == n:
            break
    return list(splits.values())
