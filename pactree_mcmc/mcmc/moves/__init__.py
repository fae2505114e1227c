"""Moves, one file each."""
