"""Plots of many trees: forests, distributions of size and features, frequencies of splits, and a run of chains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, check_count, check_number, check_type
from ...posterior.distribution import draws_of
from ...posterior.draws import Draws
from ...posterior.ess import MIN_DRAWS_PER_CHAIN, autocorrelation_times, ess, rhat
from ...posterior.posterior import Posterior
from ...posterior.sampled import SampledPosterior
from ...posterior.trees.cells import identifying_rows
from ...posterior.trees.distances import evenly_spaced_integers, weights_of_rows
from ...posterior.trees.support import Support
from ...tree.arrays import LEAF
from ...tree.coded import leaves_of_units
from . import style
from .style import COLORS, ERRORBAR_STYLE, MAX_CHAINS_IN_LEGEND, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_TAIL_PROBABILITY = 1e-4  # probability below which tails are left out
N_COLORED_FEATURES = len(COLORS) - 2  # number of features with a colour of their own in a forest; all others are grey
GREY = COLORS[-1]
MAX_NAME_LETTERS = 36  # largest number of letters of a name in a legend


def plot_forest(
    posterior: Posterior, ax: Axes | None = None, *, n_trees: int = 200, alpha: float | None = None, rng: Seed = 0
) -> Axes:
    """Draw many trees over one another, translucent: what most trees have in common is dark.

    Parameters
    ----------
    posterior : Posterior
        Sampled or exact.
    ax : matplotlib Axes, optional
        Default: those of a new figure.
    n_trees : int, default 200
        Number of draws shown, evenly spaced, or drawn from a posterior that is not sampled.
    alpha : float, optional
        Opacity of an edge, in (0, 1]. Default: 3 / sqrt(number of draws shown), at most 0.8.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness for those draws.

    Returns
    -------
    matplotlib Axes
        Nodes at their depth; across, the mean position of their training rows, which are sorted by the leaves of the
        most probable tree (thin black lines). Edges have the colour of the feature that their upper node splits on.

    Raises
    ------
    ValueError
        If ``n_trees`` or ``alpha`` is out of range.

    Notes
    -----
    After DensiTree (Bouckaert 2010) for phylogenies. Nodes without rows are not drawn, and rows count with their
    weights. At most 2,000 distinct rows, evenly spaced, determine the positions.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> stump = pt.Tree([0, -1, -1], [5.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> ax = plot_forest(pt.posterior_from_trees(model, [stump]))
    >>> ax.lines[0].get_xdata().round(2).tolist()  # from the root to the left leaf, from the root to the right one
    [0.5, 0.3, nan, 0.5, 0.8, nan]
    """
    style.check_posterior(posterior)
    check_count("n_trees", n_trees)
    if alpha is not None:
        alpha = check_number("alpha", alpha, "a number 0..1", 0.0, 1.0)
    ax = style.axes_or_new(ax, 7.0, 4.6)
    from matplotlib.ticker import MaxNLocator

    sampled = draws_of(posterior, n_trees, rng)
    tree_of_draw = sampled.tree_of_draw.ravel()[evenly_spaced_integers(sampled.tree_of_draw.size, n_trees)]
    numbers, counts = np.unique(tree_of_draw, return_counts=True)
    edges = _tree_edges(sampled, np.append(numbers, int(np.argmax(sampled.order_key_of_tree))))
    opacity = min(0.8, 3.0 / math.sqrt(len(tree_of_draw))) if alpha is None else alpha
    lines = _draw_edges(ax, sampled, edges, np.append(counts, 0), opacity)
    ends = edges.ends[edges.tree == len(numbers)]
    # a NaN after each edge interrupts the line
    limits = np.concatenate([ends, np.full((len(ends), 1, 2), np.nan)], axis=1).reshape(-1, 2)
    thin: dict[str, Any] = {"color": "black", "linewidth": 1.0, "marker": "o", "markersize": 3, "alpha": 0.9}
    lines += ax.plot(*limits.T, label="most probable tree", **thin)
    across = "fraction of the training rows, in the order of the leaves of the most probable tree"
    ax.set(xlim=(-0.02, 1.02), ylim=(edges.depth + 0.3, -0.3), xlabel=across, ylabel="depth")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    style.set_title(ax, f"{len(tree_of_draw)} draws over one another, {len(numbers)} different trees")
    names = [str(line.get_label()) for line in lines]
    style.legend_below(ax, lines, names, title="edges by the feature of the split above", ncols=2)
    return ax


class TreeEdges(NamedTuple):
    """Edges between nodes with training rows, of several trees."""

    # (m, 2, 2): mean position of the rows, in (0, 1), and depth, first of the upper, then of the lower node
    ends: np.ndarray
    tree: np.ndarray  # (m,) int64: index of the tree in ``numbers`` of `_tree_edges`
    feature: np.ndarray  # (m,) int64: feature that the upper node splits on
    depth: int  # depth of the deepest tree


def _tree_edges(sampled: Draws, numbers: np.ndarray) -> TreeEdges:
    """Return the edges between nodes with training rows, of distinct trees with indices ``numbers``."""
    # the position of a node is the mean position of its training rows, as a fraction of all, sorted by the leaves, from
    # left to right, of the last of these trees
    trees, merged_rows = sampled.coded_trees.take(numbers), identifying_rows(sampled.model)[0]
    tree = np.repeat(np.arange(len(numbers)), np.diff(trees.offset))
    first = trees.offset[tree]
    leaf = leaves_of_units(trees, sampled.model.units.codes, merged_rows)
    rows = weights_of_rows(sampled.model.weight_of_unit[merged_rows])
    # leaves are numbered from left to right, so their numbers sort rows; the mean over the trees decides among equals
    order = np.lexsort(((leaf - trees.offset[:-1]).mean(axis=1), leaf[:, -1]))
    position = np.empty(len(rows))
    position[order] = (np.cumsum(rows[order]) - rows[order] / 2.0) / rows.sum()
    n = len(tree)
    n_rows, position_sum = np.zeros(n), np.zeros(n)
    for column in leaf.T:
        n_rows += np.bincount(column, weights=rows, minlength=n)
        position_sum += np.bincount(column, weights=rows * position, minlength=n)
    inner = np.flatnonzero(trees.feature != LEAF)
    parent, depth = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    left, right = inner + 1, first[inner] + trees.right[inner]
    parent[left] = parent[right] = inner
    # nodes are in preorder: parents come before their children
    for i, low, high in zip(inner.tolist(), left.tolist(), right.tolist(), strict=True):
        depth[low] = depth[high] = depth[i] + 1
    for i, low, high in zip(inner[::-1].tolist(), left[::-1].tolist(), right[::-1].tolist(), strict=True):
        for sums in (n_rows, position_sum):
            sums[i] = sums[low] + sums[high]
    below = np.sort(np.concatenate([left, right]))
    below = below[n_rows[below] > 0.0]
    with np.errstate(invalid="ignore"):
        place = np.column_stack([position_sum / n_rows, depth])
    above = parent[below]
    feature = sampled.model.columns.source[trees.feature[above]]
    return TreeEdges(np.stack([place[above], place[below]], axis=1), tree[below], feature, int(depth.max()))


def _draw_edges(ax: Axes, sampled: Draws, edges: TreeEdges, counts: np.ndarray, opacity: float) -> list[Any]:
    """Draw the edges of trees, and return the lines of a legend of their colours."""
    # an edge of n draws has the opacity 1 - (1 - opacity)^n; the most frequent features have their own colours
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    n_draws = counts[edges.tree]
    is_drawn = n_draws > 0
    weight = np.bincount(edges.feature[is_drawn], n_draws[is_drawn], sampled.model.n_features)
    frequent = np.argsort(-weight, kind="stable")[:N_COLORED_FEATURES]
    frequent = frequent[weight[frequent] > 0.0]
    color = np.tile(to_rgba(GREY), (sampled.model.n_features, 1))
    for k, name in zip(frequent, COLORS, strict=False):
        color[k] = to_rgba(name)
    colors = color[edges.feature[is_drawn]]
    # the opacity of as many edges over one another
    colors[:, 3] = 1.0 - (1.0 - opacity) ** n_draws[is_drawn]
    ax.add_collection(LineCollection(edges.ends[is_drawn], colors=colors, linewidths=1.4, capstyle="round"))
    names = style.shortened_names([sampled.model.columns.names[k] for k in frequent], MAX_NAME_LETTERS)
    lines = [Line2D([], [], color=color[k], linewidth=2.5, label=x) for k, x in zip(frequent, names, strict=True)]
    n_others = int((weight > 0.0).sum()) - len(frequent)
    if n_others:
        lines.append(Line2D([], [], color=GREY, linewidth=2.5, label=f"{n_others} other features"))
    return lines


def plot_n_leaves(posterior: Posterior, ax: Axes | None = None, truth: Posterior | None = None) -> Axes:
    """Draw the distribution of the number of leaves as bars; tails below 1e-4 are left out.

    Parameters
    ----------
    posterior : Posterior
        Sampled, with two Monte-Carlo standard errors, or exact.
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
    from matplotlib.ticker import MaxNLocator

    ax = style.axes_or_new(ax, 5.0, 3.2)
    ax.set(xlabel="number of leaves", ylabel="probability")
    pmfs = [p.n_leaves_pmf() for p in (posterior, truth) if p is not None]
    size = max(map(len, pmfs))
    probability = np.array([np.pad(pmf, (0, size - len(pmf))) for pmf in pmfs])
    likely_values = np.flatnonzero(probability.max(axis=0) > MIN_TAIL_PROBABILITY)
    values, width = np.arange(likely_values[0], likely_values[-1] + 1), 0.8 / len(pmfs)
    place = values + width * (np.arange(len(pmfs))[:, None] - (len(pmfs) - 1) / 2.0)
    styles = ((_kind_label(posterior), COLORS[0]), ("exact", COLORS[1]))
    for here, pmf, (name, color) in zip(place, probability, styles, strict=False):
        ax.bar(here, pmf[values], width, label=name, color=color)
    if style.is_sampled(posterior):
        errors = style.two_standard_errors([posterior.n_leaves == m for m in values])
        ax.errorbar(place[0], probability[0, values], yerr=errors, **ERRORBAR_STYLE)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set_xlim(values[0] - 0.6, values[-1] + 0.6)
    style.set_title(ax, "number of leaves of a tree" + ", with two standard errors" * style.is_sampled(posterior))
    if truth is not None:
        ax.legend(frameon=False)
    return ax


def _kind_label(posterior: Posterior) -> str:
    return "sampled" if style.is_sampled(posterior) else "posterior"


def plot_inclusion(
    posterior: Posterior, ax: Axes | None = None, max_features: int = 20, truth: Posterior | None = None
) -> Axes:
    """Draw the probability that a tree splits on each feature as bars, the largest on top.

    Parameters
    ----------
    posterior, ax, truth
        As for `plot_n_leaves`; exact probabilities are drawn as marks.
    max_features : int, default 20
        Largest number of features shown, the most probable ones.

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
    inclusion = posterior._feature_inclusion()
    order = np.argsort(-inclusion, kind="stable")[:n_shown]
    inclusion, place = inclusion[order], np.arange(n_shown)
    bars = ax.barh(place, inclusion, 0.75, label=_kind_label(posterior), color=COLORS[0])
    if style.is_sampled(posterior):
        has_split = (posterior.draws.split_counts_of_tree > 0)[posterior.draws.tree_of_draw]
        errors = style.two_standard_errors([has_split[:, :, k] for k in order])
        ax.errorbar(inclusion, place, xerr=errors, **ERRORBAR_STYLE)
    if truth is not None:
        exact = truth._feature_inclusion()[order]
        mark: dict[str, Any] = {"color": COLORS[1], "markersize": 13, "markeredgewidth": 2.5, "clip_on": False}
        marks = ax.plot(exact, place, "|", label="exact", **mark)[0]
        ax.legend(handles=[bars, marks], frameon=False, ncols=2, loc="lower right", fontsize="small")
    ax.set_yticks(place, style.shortened_names([names[k] for k in order], 32), parse_math=False, fontsize="small")
    part = f" ({n_shown} of {len(names)} features)" if n_shown < len(names) else ""
    ax.set(xlim=(0.0, 1.02), ylim=(n_shown - 0.4, -0.6), xlabel=f"probability{part}")
    style.set_title(ax, "probability that a tree splits on a feature")
    return ax


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
    in_draw = support.by_tree[:, post.draws.tree_of_draw].astype(np.float64)
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
