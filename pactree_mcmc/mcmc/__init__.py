"""Metropolis sampling over trees."""

from ._resume import resume
from ._sample import sample
