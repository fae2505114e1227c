"""Metropolis sampling over trees."""

from .learned.bridge import bridge
from .resuming import resume
from .sampling import sample
