"""Runs of several chains: tasks, rounds of tuning, length, workers, progress, checkpoints."""
