"""Limits on the size of graphs, by the number of cells allowed and by memory, and the error if they are exceeded."""

from __future__ import annotations

import os
from typing import Any

from pactree_mcmc.core.checks import check_count

EDGES_PER_CELL = 32
"""Number of splits allowed for each cell allowed, since splits take memory too."""

MAX_CELLS_CEILING = 1 << 56
"""Largest ``max_cells`` that is accepted."""

DEFAULT_ADVICE = "sample"
"""Default advice in the message of `Intractable`, in place of the exact sum."""

MIN_BYTES_PER_CELL = 128
"""Least memory of one more cell: the cell, its slot, one split, and the sums computed for them."""


class Intractable(ValueError):
    """The sum over trees needs more cells than allowed.

    Attributes
    ----------
    needed, allowed : int
        Number of cells needed, or a lower bound on it; ``max_cells``, or the number that fits into memory. In some
        messages they count splits, bytes or coefficients instead.
    estimate : str or None
        Estimated cells, memory and processor time, in words; None if they were not estimated.
    fits : dict of str to int
        Settings each of which, changed alone, is enough, according to bounds: ``max_cuts``, ``GridCuts``,
        ``DyadicCuts``, ``max_depth``, ``levels``; and a ``max_cells`` that is enough. Empty if none is known.
    """

    def __init__(
        self,
        needed: int,
        allowed: int,
        what: str = "cells",
        fits: dict[str, int] | None = None,
        instead: str = DEFAULT_ADVICE,
        advice: str | None = None,
        estimate: str | None = None,
    ) -> None:
        self.needed, self.allowed, self.what, self.instead = int(needed), int(allowed), what, instead
        self.fits, self.advice, self.estimate = {} if fits is None else fits, advice, estimate
        advice = advice or (
            "Give fewer or coarser splits (max_cuts, GridCuts, a smaller max_depth), raise max_cells as far as "
            f"memory allows, or {instead}."
        )
        if self.fits:
            prior = " of the tree prior" if instead == DEFAULT_ADVICE else ""
            settings = [_setting(name, value, prior) for name, value in self.fits.items()]
            advice = f"Any one of these fits: {', '.join(settings)}; or {instead}."
        about = "" if estimate is None else f" It has {estimate}."
        limit = _number_text(self.allowed)
        super().__init__(f"the exact sum needs more than the {limit} {what} allowed.{about} {advice}")

    def __reduce__(self) -> tuple:
        return Intractable, (self.needed, self.allowed, self.what, self.fits, self.instead, self.advice, self.estimate)

    def in_terms_of(self, names: dict[str, str], instead: str) -> Intractable:
        """Return the same error for a caller whose arguments have other names.

        ``names`` maps the settings of ``fits`` to the caller's names. Other settings are left out of the message, which
        ends with ``instead``, the advice in place of the exact sum.
        """
        fits = {names[name]: value for name, value in self.fits.items() if name in names}
        return Intractable(self.needed, self.allowed, self.what, fits, instead, estimate=self.estimate)


def _setting(name: str, value: int, prior: str) -> str:
    """Return a setting of `Intractable.fits` as the user would write it, followed by ``prior`` if it is a depth.

    ``prior`` is a text such as " of the tree prior", or "".
    """
    if name == "max_cuts":
        return f"LocalCuts(max_cuts={value})"
    if name == "max_depth":
        return f"max_depth={value}{prior}"
    return f"{name}({value})" if name.endswith("Cuts") else f"{name}={value:,}".replace(",", "_")


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
