"""Long computations in pieces: a progress bar for them, and an answer to Ctrl-C between two pieces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PIECE = 0.2
"""Seconds that a piece should take: Ctrl-C waits for the end of one."""
FIRST_PIECE, GROWTH = 1 << 12, 8
"""Items of the first piece, and the largest factor from one piece to the next."""
DELAY = 1.0
"""Seconds before a bar appears, and between two states of it."""


class Bar:
    """Progress of one stage, which may be shown."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def add(self, n: int) -> None:
        """Add ``n`` finished items."""
        if self._bar is not None:
            self._bar.update(n)

    def show(self, total: int, text: str) -> None:
        """Set the total and the text behind the bar."""
        if self._bar is not None:
            self._bar.total = total
            self._bar.set_postfix_str(text, refresh=False)


@contextmanager
def stage(shown: bool, name: str, total: int | None, unit: str) -> Iterator[Bar]:
    """Show a bar on the standard error while the block runs, if ``shown`` and the block takes more than a second."""
    if not shown:
        yield Bar()
        return
    from tqdm.auto import tqdm

    how = {"delay": DELAY, "mininterval": DELAY, "dynamic_ncols": True, "unit_scale": True}
    with tqdm(total=total, desc=name, unit=f" {unit}", **how) as bar:
        yield Bar(bar)


def in_pieces(n: int, step: Callable[[int, int], None], bar: Bar | None = None, size: int = FIRST_PIECE) -> None:
    """Call ``step(first, last)`` for consecutive ranges from 0 to ``n`` that take about `PIECE` seconds each, the first
    of them of ``size`` items.
    """
    first = 0
    while first < n:
        began, last = time.monotonic(), min(n, first + size)
        step(first, last)
        if bar is not None:
            bar.add(last - first)
        size = next_size(size, time.monotonic() - began)
        first = last


def next_size(size: int, seconds: float) -> int:
    """Return the size of the next piece, after one of this size that took ``seconds``."""
    return max(1, min(GROWTH * size, int(size * PIECE / max(seconds, 1e-6))))
