"""Posteriors over trees: their protocol, the answers about rows and trees, draws, evidence and convergence."""
