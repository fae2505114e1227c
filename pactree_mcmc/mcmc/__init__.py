"""Metropolis sampling over trees."""

from .resuming import resume
from .sampling import sample
