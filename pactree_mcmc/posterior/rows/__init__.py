"""Answers about rows: predictions and their intervals, Shapley values, leave-one-out densities, bounds on the risk."""
