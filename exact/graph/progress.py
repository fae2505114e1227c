"""Running of long computations in pieces, with a progress bar, so that Ctrl-C takes effect between two pieces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SECONDS_PER_PIECE = 0.2  # seconds that a piece should take. Ctrl-C takes effect at the end of a piece.
# items of the first piece, and largest factor from the size of one piece to that of the next
FIRST_PIECE, MAX_GROWTH = 1 << 12, 8
DELAY = 1.0  # seconds before a bar appears, and between two updates of the bar


class Bar:
    """Progress of one stage of a computation: a wrapper of a progress bar, or of None if no bar is shown."""

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
def stage(is_shown: bool, name: str, total: int | None, unit: str) -> Iterator[Bar]:
    """Yield a `Bar`, shown on the standard error if ``is_shown`` and the ``with`` block runs for more than a second."""
    if not is_shown:
        yield Bar()
        return
    from tqdm.auto import tqdm

    options = {"delay": DELAY, "mininterval": DELAY, "dynamic_ncols": True, "unit_scale": True}
    with tqdm(total=total, desc=name, unit=f" {unit}", **options) as bar:
        yield Bar(bar)


def run_in_pieces(n: int, step: Callable[[int, int], None], bar: Bar | None = None, size: int = FIRST_PIECE) -> None:
    """Call ``step(first, last)`` for consecutive ranges of 0 to `n - 1` that take `SECONDS_PER_PIECE` seconds each."""
    first = 0
    while first < n:
        start, last = time.monotonic(), min(n, first + size)
        step(first, last)
        if bar is not None:
            bar.add(last - first)
        size = next_size(size, time.monotonic() - start)
        first = last


def next_size(size: int, seconds: float) -> int:
    """Return how many items should take 0.2 s, at most 8 times ``size``, given that ``size`` took ``seconds``."""
    return max(1, min(MAX_GROWTH * size, int(size * SECONDS_PER_PIECE / max(seconds, 1e-6))))
