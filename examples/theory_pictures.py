"""Draw Figures 4.2 and 4.4 of Scott (2004) for a real tree: lines of prunings over alpha, and the hull of their points.

Run: python examples/theory_pictures.py [DIRECTORY]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

import exact

CLOSE = 0.04
"""Fraction of the axis within which a second number of leaves would overlap the first, and is left out."""


def prunings_of_a_tree():
    """Return the prunings of a tree for breast cancer, of four columns, so that it has some twenty leaves."""
    data = load_breast_cancer()
    X, y = data.data[:, [0, 1, 4, 8]], data.target
    return exact.Prunings(DecisionTreeClassifier(max_leaf_nodes=22, random_state=0).fit(X, y), X, y)


def lines(axes, prunings, penalty, name):
    """Draw Figure 4.2: cost plus alpha times penalty of the best pruning of each size, and the family in bold.

    ``penalty`` is a function of the number of leaves, ``name`` its formula.
    """
    sizes = np.arange(1, prunings.tree.n_leaves + 1)
    cost, phi, family = prunings.minimum_cost[1:], penalty(sizes), prunings.family(penalty)
    alpha = np.linspace(0.0, 1.3 * family.threshold[-2], 300)
    values = cost[:, None] + phi[:, None] * alpha
    for k, line in enumerate(values):
        axes.plot(alpha, line, color="0.8", linewidth=0.7, label=None if k else "best pruning of each size")
    axes.plot(alpha, values.min(axis=0), color="C0", linewidth=2.5, label="the family, with its leaves")
    labelled = -np.inf
    for size, threshold in zip(family.n_leaves, family.threshold, strict=True):
        at = cost[size - 1] + threshold * penalty(size)
        axes.plot(threshold, at, "o", color="C1", markersize=4)
        if threshold - labelled > CLOSE * alpha[-1]:
            axes.annotate(f"{size}", (threshold, at), xytext=(3, -10), textcoords="offset points", fontsize=8)
            labelled = threshold
    axes.locator_params(axis="x", nbins=4)
    axes.set(
        xlabel="alpha",
        ylabel="cost + alpha * penalty",
        title=f"penalty {name}",
        xlim=(0, alpha[-1]),
        ylim=(0, 1.9 * values.min(axis=0)[-1]),
    )
    axes.legend(fontsize=8, loc="upper left")


def points(axes, prunings, penalty, name):
    """Draw Figure 4.4: (cost, penalty) of the best pruning of each size, and the family on the lower hull."""
    sizes = np.arange(1, prunings.tree.n_leaves + 1)
    cost, family = prunings.minimum_cost[1:], prunings.family(penalty)
    axes.plot(cost, penalty(sizes), ".", color="0.6", label="best pruning of each size")
    axes.plot(family.cost, penalty(family.n_leaves), "o-", color="C0", label="the family")
    axes.set(xlabel="cost", ylabel="penalty", title=f"penalty {name}")
    axes.legend(frameon=False)


def main():
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "docs" / "theory"
    directory.mkdir(parents=True, exist_ok=True)
    prunings = prunings_of_a_tree()
    penalties = {"k": lambda k: np.asarray(k, dtype=float), "sqrt(k)": np.sqrt, "k^2": np.square}
    for draw, file in ((lines, "prunings_lines.png"), (points, "prunings_hull.png")):
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True)
        for ax, (name, penalty) in zip(axes, penalties.items(), strict=True):
            draw(ax, prunings, penalty, name)
        figure.savefig(directory / file, dpi=90)
        plt.close(figure)


if __name__ == "__main__":
    main()
