"""Plots of trees and posteriors with matplotlib: axes in, axes out.

Trees: plot_tree, plot_partition.
Distributions, beside the exact ones where these are known: plot_n_leaves, plot_depth, plot_inclusion.
Predictions: plot_surface (with their spread), plot_partial_dependence.
Chains: plot_trace, plot_ranks, plot_ladder, and plot_posterior, four plots in one figure.

The ``plot`` method of the result of ``exact.compare`` draws exact against sampled. Every function takes the axes to
draw on and returns them; without them it makes a figure. For a posterior without draws the axes say so.
"""

from .chains import plot_ladder, plot_posterior, plot_ranks, plot_trace
from .dependence import plot_partial_dependence
from .distributions import plot_depth, plot_inclusion, plot_n_leaves
from .plane import plot_partition, plot_surface
from .tree import plot_tree

__all__ = [
    "plot_depth",
    "plot_inclusion",
    "plot_ladder",
    "plot_n_leaves",
    "plot_partial_dependence",
    "plot_partition",
    "plot_posterior",
    "plot_ranks",
    "plot_surface",
    "plot_trace",
    "plot_tree",
]
