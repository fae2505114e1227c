"""Metropolis sampling over trees."""

from ._sample import sample
