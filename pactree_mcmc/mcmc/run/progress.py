"""Progress of a run on the standard error: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Self

from ...core.compile.cache import CodeCache, watch_compilation

SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines if there is no terminal."""


class Progress:
    """Progress bar on a terminal, or lines, while the ``with`` block runs. It also announces compilation.

    ``total`` is the number of draws of all chains, and ``tune`` the number of tuning steps of all chains before them.
    """

    def __init__(self, total: int, is_shown: bool, *, tune: int = 0) -> None:
        from tqdm.auto import tqdm

        terminal = sys.stderr.isatty()
        self.total, self.tune, self.is_shown, self.lines = total, tune, is_shown, is_shown and not terminal
        self.bar = tqdm(
            total=tune or total,
            unit=" steps" if tune else " draws",
            disable=not (is_shown and terminal),
            dynamic_ncols=True,
            mininterval=0.2,
        )
        self.start_time = self.last_line = time.monotonic()
        self.n_compiled, self.compiling, self._watching = 0, "", ExitStack()

    def __enter__(self) -> Self:
        if self.is_shown:
            self._watching.enter_context(watch_compilation(self._compile))
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.close()
        self.bar.close()

    def update(self, n_done: int, text: str = "") -> None:
        """Show that ``n_done`` tuning steps and draws, in this order, are made by all chains together, and ``text``.

        On a terminal every call redraws the bar. Otherwise a call prints a line, unless the last line was printed less
        than ``SECONDS_BETWEEN_LINES`` ago.
        """
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
        if self.lines and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            what = "tuning, " if is_tuning else ""
            parts = [self.compiling, f"{what}{n} of {total} {unit} after {now - self.start_time:.0f} s", text]
            print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    def _compile(self, _: CodeCache) -> None:
        """Announce that a function is about to be compiled."""
        self.n_compiled += 1
        self.compiling = f"compiling function {self.n_compiled}"
        if not self.bar.disable:
            self.bar.set_description_str(self.compiling)
        elif self.n_compiled == 1:
            print("compiling, once; later runs find the code on disk", file=sys.stderr, flush=True)
