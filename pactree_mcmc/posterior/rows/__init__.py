"""Answers about rows: predictions and their intervals, leave-one-out densities, bounds on the risk."""
