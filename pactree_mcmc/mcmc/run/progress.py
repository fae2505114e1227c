"""What people see of a run on its way, on the standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from threading import Lock
from typing import Any, Self

from ...core.compile.cache import CodeCache, watchers
from ..kernel import Kernel
from .entries import entries

SECONDS = 30.0
"""Between two lines where there is no terminal."""


class Progress:
    """A bar, or lines, while its block runs; says so when code has to be compiled first.

    Parameters
    ----------
    total : int
        Number of draws to be made, of all chains.
    shown : bool
        Whether anything is to be seen.
    kernel : Kernel
        Of the chains.
    grown : bool
        True if chains start from grown trees.
    tune : int, default 0
        Number of steps of tuning before the draws, of all chains.
    """

    def __init__(self, total: int, shown: bool, kernel: Kernel, grown: bool, *, tune: int = 0) -> None:
        from tqdm.auto import tqdm

        terminal = sys.stderr.isatty()
        self.total, self.tune, self.shown, self.lines = total, tune, shown, shown and not terminal
        self.bar = tqdm(
            total=tune or total,
            unit=" steps" if tune else " draws",
            disable=not (shown and terminal),
            dynamic_ncols=True,
            mininterval=0.2,
        )
        self.began = self.told = time.monotonic()
        self.entries = entries(kernel, grown)
        self.n_compiled, self.n_to_compile = 0, 0
        self.compiling, self._lock = "", Lock()

    def __enter__(self) -> Self:
        if self.shown:
            watchers.append(self._compile)
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            watchers.remove(self._compile)
        self.bar.close()

    def update(self, n_done: int, text: str = "") -> None:
        """Show how far the chains are, if it is time to: the steps of tuning, and after them the draws."""
        if n_done > 0:
            self.compiling = ""
        is_tuning = n_done < self.tune or self.total == 0
        n, total, unit = (n_done, self.tune, "steps") if is_tuning else (n_done - self.tune, self.total, "draws")
        if not self.bar.disable:
            if self.bar.total != total or self.bar.unit != f" {unit}":
                self.bar.unit = f" {unit}"
                self.bar.reset(total)
            self.bar.n = n
            self.bar.set_description_str(self.compiling or ("tuning" if is_tuning else "draws"), refresh=False)
            self.bar.set_postfix_str(text, refresh=True)
        now = time.monotonic()
        if self.lines and now - self.told >= SECONDS:
            self.told = now
            what = "tuning, " if is_tuning else ""
            parts = [self.compiling, f"{what}{n} of {total} {unit} after {now - self.began:.0f} s", text]
            print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    def _compile(self, cache: CodeCache) -> None:
        """Say that a function is about to be compiled."""
        with self._lock:
            if self.n_compiled == 0:
                self.n_to_compile = n_missing(self.entries, cache)
            self.n_compiled += 1
            self.n_to_compile = max(self.n_to_compile, self.n_compiled)
            self.compiling = f"compiling {self.n_compiled} of {self.n_to_compile}"
            if not self.bar.disable:
                self.bar.set_description_str(self.compiling)
            elif self.n_compiled == 1:
                print(f"{self.compiling}, once; later runs find it on disk", file=sys.stderr, flush=True)


def n_missing(functions: list[Any], first: CodeCache) -> int:
    """How many of the ``functions`` are still to be compiled when the code of one is found neither here nor on disk.

    Functions that have no code at all; where the ``first`` has some, it is for another kind of table, and the functions
    called after it lack theirs too.
    """
    functions = [function for function in functions if not function.overloads]
    caches = [getattr(function, "_cache", None) for function in functions]
    if first in caches and first.has_code:
        return len(caches) - caches.index(first)
    return sum(1 for cache in caches if cache is not None and not cache.has_code)
