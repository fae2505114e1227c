"""Metropolis sampling over trees."""
