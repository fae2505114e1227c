"""Draw the pictures of the page."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import TwoSlopeNorm
from ranks import band

INK, ALARM, QUIET = "#2c5f8a", "#b3352c", "0.85"


def save(figure, path):
    """Write a figure as a small PNG, the same file each time, and close it."""
    figure.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(figure)


def rank_histograms(by_row, n_ranks, columns, path, level):
    """Draw histograms of ranks (n, columns), a row of axes for each entry of ``by_row`` and a column for each quantity.

    Rank -1 means that there is none. The grey band contains all bars of a histogram with probability 1 - ``level``.
    """
    shape = len(by_row), len(columns)
    figure, axes = plt.subplots(*shape, figsize=(2.1 * shape[1], 1.25 * shape[0] + 0.3), layout="constrained")
    for line, (row, ranks) in zip(axes, by_row.items(), strict=True):
        for q, (ax, column) in enumerate(zip(line, columns, strict=True)):
            known = ranks[:, q][ranks[:, q] >= 0]
            ax.set(xticks=[], yticks=[])
            if row == next(iter(by_row)):
                ax.set_title(column, fontsize=9)
            if q == 0:
                ax.set_ylabel(_folded(row), fontsize=7)
            if not len(known):
                ax.axis("off")
                continue
            fraction = np.bincount(known, minlength=n_ranks) / len(known) * n_ranks
            low, high = (edge / len(known) * n_ranks for edge in band(len(known), n_ranks, 1.0 - level))
            ax.axhspan(low, high, color=QUIET)
            outside = (fraction < low) | (fraction > high)
            ax.bar(range(n_ranks), fraction, width=0.9, color=np.where(outside, ALARM, INK))
            ax.set_ylim(0.0, max(1.6, fraction.max() * 1.05, high * 1.1))
    save(figure, path)


def _folded(text, most=22):
    lines = [""]
    for word in text.split():
        lines = [*lines[:-1], f"{lines[-1]} {word}".strip()] if len(lines[-1]) + len(word) < most else [*lines, word]
    return "\n".join(lines)


def z_scores(by_row, limit, path, xlabel):
    """Draw z scores as points, a line for each entry of ``by_row``; the names that begin with "planted" in red."""
    figure, ax = plt.subplots(figsize=(9.0, 0.22 * len(by_row) + 0.9), layout="constrained")
    ax.axvspan(-limit, limit, color=QUIET, zorder=0)
    ax.axvline(0.0, color="0.6", lw=0.8, zorder=1)
    edge = 2.0 * limit
    for y, (row, values) in enumerate(by_row.items()):
        values = np.clip(np.asarray(values, dtype=float), -edge, edge)
        ax.plot(values, np.full(len(values), y), "o", ms=4, alpha=0.6, color=ALARM if "planted" in row else INK)
    ax.set_yticks(range(len(by_row)), [row.removeprefix("planted: ") for row in by_row], fontsize=8)
    ax.set(ylim=(len(by_row) - 0.4, -0.6), xlim=(-1.03 * edge, 1.03 * edge))
    ax.set_xlabel(f"{xlabel}\ngrey: within the limit of {limit:.2f}; cut off at {edge:.1f}", fontsize=8)
    save(figure, path)


def intervals(rows, path, xlabel):
    """Draw differences with intervals; ``rows`` are (label, difference, half the width, is planted)."""
    figure, ax = plt.subplots(figsize=(8.0, 0.26 * len(rows) + 0.9), layout="constrained")
    ax.axvline(0.0, color="0.6", lw=0.8)
    for y, (_, gap, reach, planted) in enumerate(rows):
        ax.errorbar(gap, y, xerr=reach, fmt="o", ms=4, lw=1.2, capsize=2, color=ALARM if planted else INK)
    ax.set_yticks(range(len(rows)), [row[0].removeprefix("planted: ") for row in rows], fontsize=8)
    ax.set(ylim=(len(rows) - 0.4, -0.6))
    ax.set_xlabel(xlabel, fontsize=8)
    save(figure, path)


def matrix(values, limits, rows, columns, path, label):
    """Write ``values`` as numbers in a grid, coloured by their ratio to ``limits``; both are (rows, columns)."""
    ratio = values / limits
    figure, ax = plt.subplots(figsize=(0.72 * len(columns) + 2.4, 0.3 * len(rows) + 1.6), layout="constrained")
    shades = TwoSlopeNorm(1.0, 0.0, 3.0)
    shown = ax.imshow(np.clip(ratio, 0.0, 3.0), cmap="RdBu_r", norm=shades, aspect="auto")
    for i, j in np.ndindex(values.shape):
        ax.text(j, i, f"{values[i, j]:.3f}".lstrip("0"), ha="center", va="center", fontsize=7)
    ax.set_xticks(range(len(columns)), columns, rotation=40, ha="right", fontsize=8)
    ax.set_yticks(range(len(rows)), rows, fontsize=8)
    bar = figure.colorbar(shown, ax=ax, shrink=0.8)
    bar.set_label(label, fontsize=8)
    save(figure, path)
