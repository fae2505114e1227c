"""The moves, one file each."""
