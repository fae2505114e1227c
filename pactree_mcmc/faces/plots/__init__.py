"""Plots of trees and posteriors with matplotlib: axes in, axes out.

Trees: plot_tree, plot_leaves (with the training rows of each leaf), plot_partition.
Many trees: plot_shape (the most probable shape, with intervals), plot_forest, plot_consensus.
Distributions, beside the exact ones if these are known: plot_n_leaves, plot_inclusion.
Predictions: plot_surface (with their spread), plot_partial_dependence (of one or two features, and individual
conditional expectation), plot_survival (curves of rows), plot_calibration (observed beside expected, of classes and of
times).
A run: plot_posterior, four plots in one figure, and plot_split_frequencies. ArviZ draws chains,
``az.plot_trace(post.to_arviz())``.

The ``plot`` method of the result of ``exact.compare`` draws exact against sampled. Every function takes the axes to
draw on and returns them; without them it makes a figure. For a posterior without draws the axes say so.
"""

from .many_trees import plot_forest, plot_inclusion, plot_n_leaves, plot_posterior, plot_split_frequencies
from .predictions import plot_calibration, plot_partial_dependence, plot_partition, plot_surface, plot_survival
from .tree import plot_consensus, plot_leaves, plot_shape, plot_tree

__all__ = [
    "plot_calibration", "plot_consensus", "plot_forest", "plot_inclusion", "plot_leaves", "plot_n_leaves",
    "plot_partial_dependence", "plot_partition", "plot_posterior", "plot_shape", "plot_split_frequencies",
    "plot_surface", "plot_survival", "plot_tree",
]  # fmt: skip
