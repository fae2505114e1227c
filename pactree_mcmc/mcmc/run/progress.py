"""Progress of a run on the standard error: a bar on a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any, Self

import numpy as np

from ...core.compile.cache import CodeCache, watch_compilation
from .run_chain import RunChain

SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines if there is no terminal."""


class Progress:
    """Progress bar on a terminal, or lines, while the ``with`` block runs. It also announces compilation."""

    def __init__(self, is_shown: bool) -> None:
        from tqdm.auto import tqdm

        terminal = sys.stderr.isatty()
        self.is_shown, self.lines = is_shown, is_shown and not terminal
        self.bar = tqdm(
            total=1, unit=" steps", disable=not (is_shown and terminal), dynamic_ncols=True, mininterval=0.2
        )
        self.start_time = self.last_line = time.monotonic()
        self.n_compiled, self.compiling, self._watching = 0, "", ExitStack()
        self.first_steps: tuple[float, float] | None = None  # when draws were seen first, and the steps of a chain then

    def __enter__(self) -> Self:
        if self.is_shown:
            self._watching.enter_context(watch_compilation(self._compile))
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.close()
        self.bar.close()

    def show(self, run: Any) -> None:
        """Show the number of tuning steps or draws that all chains of a run have made."""
        # on a terminal every call redraws the bar. Otherwise a call prints a line, unless the last line was printed
        # less than ``SECONDS_BETWEEN_LINES`` ago.
        if not self.is_shown:
            return
        chains, is_tuning = [run.chains[c] for c in run.up], run.tuned.tune < 0
        if is_tuning:
            n, total, unit = sum(chain.tuned for chain in chains), len(chains) * run.n_tune, "steps"
            text = run.phase
        else:
            n = sum(run.n_draws_of(chain.number) + chain.n_saved for chain in chains)
            total, unit = len(chains) * run.stretch.goal, "draws"
            parts = _words_of_trees(chains), run.failure, self._time_left(run, n / len(chains))
            text = ", ".join(part for part in parts if part)
        if n > 0:
            self.compiling = ""
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

    def _time_left(self, run: Any, n_draws: float) -> str:
        """Return when a run ends at the latest, by its speed so far, given the draws of a chain in its stretch."""
        now, stretch = time.monotonic(), run.stretch
        steps = stretch.before + n_draws * stretch.thin
        since, first = self.first_steps = self.first_steps or (now, steps)
        if steps <= first:
            return ""
        n_left = (run.limit if run.request.is_adaptive else stretch.goal * stretch.thin) - steps
        seconds = min((now - since) / (steps - first) * max(n_left, 0), run.stop.until - time.perf_counter())
        return f"ends within {seconds:.0f} s" if seconds < 120.0 else f"ends within {seconds / 60.0:.0f} min"

    def _compile(self, _: CodeCache) -> None:
        """Announce that a function is about to be compiled."""
        self.n_compiled += 1
        self.compiling = f"compiling function {self.n_compiled}"
        if not self.bar.disable:
            self.bar.set_description_str(self.compiling)
        elif self.n_compiled == 1:
            print("compiling, once; later runs find the code on disk", file=sys.stderr, flush=True)


def _words_of_trees(chains: list[RunChain]) -> str:
    """Return the acceptance and the mean number of leaves of chains in this process, else nothing."""
    if any(chain.awake is None for chain in chains):
        return ""
    n_accepted, n_proposed = np.sum([chain.acceptance for chain in chains], axis=0)
    leaves = np.mean([chain.n_leaves for chain in chains])
    return f"acceptance {n_accepted / max(n_proposed, 1):.3f}, leaves {leaves:.1f}"
