"""Answers about rows: predictions, their spread, Shapley values, densities of rows left out, bounds on the risk."""
