"""Answers about trees: cells and splits, distances, one tree for many, clusters, credible sets, divergence."""
