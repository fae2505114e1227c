"""Checkpoints: an unfinished run is written to a file at regular intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...core.checks import check_number
from ...files.encoding import register_class
from ...files.store import check_output_path, write_parts
from ...model import TreeModel
from ..chain.snapshot import generator_from, generator_state
from .task import Plan, Result


@register_class
class Unfinished(NamedTuple):
    """Unfinished run, as a checkpoint contains it.

    In a file the plans have no model. The result of a chain that has not begun is None.
    """

    plans: tuple[Plan, ...]
    results: tuple[Result | None, ...]
    every: float
    """Seconds between two checkpoints."""
    seconds: float
    """Wall time that the run took so far, in seconds."""


class Checkpoint:
    """File of a run, and the time of the next writing.

    ``interval`` is the time between two writings in seconds, and ``seconds`` the wall time that the run took before.
    """

    def __init__(self, path: Path, interval: float, plans: Sequence[Plan], seconds: float = 0.0) -> None:
        self.path, self.every, self.seconds = path, interval, seconds
        self.model = plans[0].model
        # a chain that has not begun when the file is written begins with this generator
        self.plans = tuple(plan._replace(seed=generator_state(generator_from(plan.seed))) for plan in plans)
        self.start_time = self.written = time.perf_counter()

    def update_plans(self, plans: Sequence[Plan]) -> None:
        """Write these plans from now on, with the generators that the first plans had."""
        self.plans = tuple(new._replace(seed=old.seed) for old, new in zip(self.plans, plans, strict=True))

    @property
    def is_due(self) -> bool:
        """True if the interval since the last writing is over."""
        return time.perf_counter() - self.written >= self.every

    def write(self, results: Sequence[Result | None]) -> None:
        """Write the plans, and the results of the chains so far, to the file."""
        now = time.perf_counter()
        run = Unfinished(self.plans, tuple(results), self.every, self.seconds + now - self.start_time)
        write_unfinished(run, self.model, self.path)
        self.written = now


def write_unfinished(run: Unfinished, model: TreeModel, path: Path) -> None:
    """Write an unfinished run to a file, with one copy of the model for all plans."""
    plans = tuple(plan._replace(model=None) for plan in run.plans)
    write_parts({"model": model.parts_in_file, "run": run._replace(plans=plans)}, path)


def read_interval(every: Any) -> float:
    """Return the argument ``every`` of `sample`, the seconds between two checkpoints, after checking it."""
    return check_number("every", every, "seconds between checkpoints, > 0", 5e-324)


def read_checkpoint_path(path: Any) -> Path:
    """Return the path of a new checkpoint. Raise ValueError if the file exists."""
    path = check_output_path(path)
    if path.exists():
        raise ValueError(
            f"checkpoint={str(path)!r} exists already; pt.resume({str(path)!r}) goes on from it, or remove it."
        )
    return path
