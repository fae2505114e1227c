"""Limits on the size of graphs, by the number of cells allowed and by memory, and the error if they are exceeded.

Long computations run in pieces, with a progress bar, so that Ctrl-C takes effect between two pieces.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pactree_mcmc.core.checks import check_count

EDGES_PER_CELL = 32
"""Number of splits allowed for each cell allowed, since splits take memory too."""

MAX_CELLS_CEILING = 1 << 56
"""Largest ``max_cells`` that is accepted."""

MIN_BYTES_PER_CELL = 128
"""Least memory of one more cell: the cell, its slot, one split, and the sums computed for them."""

CELL_BYTES, STAT_BYTES, SPLIT_BYTES = 240, 18, 90
"""Bytes of a cell, of each of its statistics and of a split while a graph is built with a hash table.

The arrays have spare room and are copied once. `tests/exact/test_limits.py` compares with measured peaks.
"""

DEFAULT_ADVICE = (
    "Give fewer or coarser splits (max_cuts, GridCuts, a smaller max_depth), raise max_cells as far as memory allows, "
    "or sample."
)


class Intractable(ValueError):
    """The sum over trees needs more cells than allowed.

    Attributes
    ----------
    needed, allowed : int
        Number of cells counted, or a lower bound on it; ``max_cells``, or the number that fits into memory. In some
        messages they count splits, bytes or coefficients instead.
    """

    def __init__(self, needed: int, allowed: int, what: str = "cells", advice: str = DEFAULT_ADVICE) -> None:
        self.needed, self.allowed, self.what, self.advice = int(needed), int(allowed), what, advice
        super().__init__(f"the exact sum needs more than the {_number_text(self.allowed)} {what} allowed. {advice}")

    def __reduce__(self) -> tuple:
        return Intractable, (self.needed, self.allowed, self.what, self.advice)

    def with_advice(self, advice: str) -> Intractable:
        """Return the same error with other advice."""
        return Intractable(self.needed, self.allowed, self.what, advice)


def check_cells(max_cells: Any) -> int:
    """Return ``max_cells`` as an int, and raise an error if it is not an integer from 1 to `MAX_CELLS_CEILING`."""
    return check_count("max_cells", max_cells, 1, MAX_CELLS_CEILING)


class Limit:
    """Limit on a graph: ``max_cells`` cells, or fewer if the memory of the machine holds fewer."""

    def __init__(self, max_cells: int) -> None:
        self.cells = min(max_cells, memory_bytes() // MIN_BYTES_PER_CELL)
        self.n_bytes = available_bytes()

    def refuse_above(self, n_cells: int, n_edges: int = 0) -> None:
        """Raise Intractable if ``n_cells`` exceed the limit, or ``n_edges`` splits exceed 32 times the limit."""
        if n_cells > self.cells:
            raise Intractable(n_cells, self.cells)
        if n_edges > EDGES_PER_CELL * self.cells:
            raise Intractable(n_edges, EDGES_PER_CELL * self.cells, "splits (32 a cell)")

    def refuse_memory(self, n_cells: int, n_edges: int, n_stats: int) -> None:
        """Raise Intractable if a graph of this size does not fit into the memory that was available at first."""
        n_bytes = (CELL_BYTES + STAT_BYTES * n_stats) * n_cells + SPLIT_BYTES * n_edges
        if n_bytes > self.n_bytes:
            raise Intractable(n_bytes, self.n_bytes, "bytes of available memory")


def _number_text(n: int) -> str:
    """Return a number for a message: exact below a million, otherwise to three digits."""
    if n < 10**6:
        return f"{n:,}"
    return f"{n:.3g}" if n < 10**300 else f"1e{len(str(n)) - 1}" if n < 10**4000 else "1e4000"


def refuse_bytes(n_bytes: int, what: str) -> None:
    """Raise Intractable if ``n_bytes`` exceed half of the memory of the machine. ``what`` names the array."""
    if n_bytes > memory_bytes() // 2:
        raise Intractable(n_bytes, memory_bytes() // 2, f"bytes for {what}")


def memory_bytes() -> int:
    """Return the memory of the machine in bytes, or a huge number if the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1 << 62


def available_bytes() -> int:
    """Return the memory in bytes that is available, or that of the machine if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return min(1024 * int(line.split()[1]), memory_bytes())
    except (OSError, ValueError, IndexError):
        pass
    return memory_bytes()


SECONDS_PER_PIECE = 0.2  # seconds that a piece should take. Ctrl-C takes effect at the end of a piece.
# items of the first piece, and largest factor from the size of one piece to that of the next
FIRST_PIECE, MAX_GROWTH = 1 << 12, 8
DELAY = 1.0  # seconds before a bar appears, and between two updates of the bar


class Bar:
    """Progress of one stage of a computation: a wrapper of a progress bar, or of None if no bar is shown."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def add(self, n: int) -> None:
        if self._bar is not None:
            self._bar.update(n)

    def show(self, total: int, text: str) -> None:
        """Set the total and the text behind the bar."""
        if self._bar is not None:
            self._bar.total = total
            self._bar.set_postfix_str(text, refresh=False)


@contextmanager
def stage(is_shown: bool, name: str, total: int | None) -> Iterator[Bar]:
    """Yield a `Bar` of cells, on a terminal if ``is_shown`` and the ``with`` block runs for more than a second."""
    if not (is_shown and sys.stderr.isatty()):
        yield Bar()
        return
    from tqdm.auto import tqdm

    options = {"delay": DELAY, "mininterval": DELAY, "dynamic_ncols": True}
    counts = "{n_fmt} cells" if total is None else "{n_fmt} of {total_fmt} cells"
    with tqdm(total=total, desc=name, bar_format="{desc}: {bar} " + counts + ", {elapsed}{postfix}", **options) as bar:
        yield Bar(bar)


def run_in_pieces(n: int, step: Callable[[int, int], None], bar: Bar | None = None) -> None:
    """Call ``step(first, last)`` for consecutive ranges of 0 to `n - 1` that take `SECONDS_PER_PIECE` seconds each."""
    first, size = 0, FIRST_PIECE
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
