"""Metropolis sampling over trees: `pt.sample`, `pt.resume`, `pt.simulate` and all that they call."""
