"""Posteriors and models in files: save, load; checkpoints of runs."""

from .content import Unfinished, load, load_unfinished, save, save_model, save_unfinished
from .store import check_target
