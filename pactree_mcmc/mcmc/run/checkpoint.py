"""A run on its way, written to a file every so many seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...core.checks import check_number
from ...files.encoding import kept
from ...files.store import check_target
from ...files.write import write_parts
from ...model import TreeModel
from ..chain.snapshot import generator_from, generator_state
from .task import Plan, Result


@kept
class Unfinished(NamedTuple):
    """A run on its way: plans without model, and what each chain has done; None: nothing yet."""

    plans: tuple[Plan, ...]
    results: tuple[Result | None, ...]
    every: float
    """Seconds between checkpoints."""
    seconds: float
    """Wall time spent."""


class Checkpoint:
    """The file, and when it is written next.

    Parameters
    ----------
    path : Path
        A netCDF file: only a file can be replaced at one stroke.
    every : float
        Seconds between writing.
    plans : sequence of Plan
        One a chain.
    seconds : float
        Wall time spent before.
    """

    def __init__(self, path: Path, every: float, plans: Sequence[Plan], seconds: float = 0.0) -> None:
        self.path, self.every, self.seconds = path, every, seconds
        self.model = plans[0].model
        # a chain not begun when the file is written begins from here
        self.plans = tuple(plan._replace(seed=generator_state(generator_from(plan.seed))) for plan in plans)
        self.began = self.written = time.perf_counter()

    def follow(self, plans: Sequence[Plan]) -> None:
        """Write other lengths, and the kernel that was tuned, from now on."""
        self.plans = tuple(new._replace(seed=old.seed) for old, new in zip(self.plans, plans, strict=True))

    @property
    def is_due(self) -> bool:
        """Whether the interval is over."""
        return time.perf_counter() - self.written >= self.every

    def write(self, results: Sequence[Result | None]) -> None:
        """Write what chains have done so far."""
        now = time.perf_counter()
        run = Unfinished(self.plans, tuple(results), self.every, self.seconds + now - self.began)
        write_unfinished(run, self.model, self.path)
        self.written = now


def write_unfinished(run: Unfinished, model: TreeModel, path: Path) -> None:
    """Write a run on its way, the model once."""
    plans = tuple(plan._replace(model=None) for plan in run.plans)
    write_parts({"model": model.parts_in_file, "run": run._replace(plans=plans)}, path)


def read_interval(every: Any) -> float:
    """Check ``every``."""
    return check_number("every", every, "seconds between checkpoints, > 0", 5e-324)


def read_checkpoint_path(path: Any) -> Path:
    """Check the path of a new checkpoint."""
    path = check_target(path, only="netCDF")
    if path.exists():
        raise ValueError(
            f"checkpoint={str(path)!r} exists already; pt.resume({str(path)!r}) goes on from it, or remove it."
        )
    return path
