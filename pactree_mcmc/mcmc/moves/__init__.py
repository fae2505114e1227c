"""Moves of which kernels are mixtures, one file each, and the loop that runs them (`base`)."""
