"""Run numbered tasks in processes of their own, which may crash or hang without stopping the others."""

from __future__ import annotations

import json
import os
import resource
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HANG = 120.0
"""Seconds after which a task counts as hanging; the little compilation that there is takes less."""
MEMORY = 6 << 30
"""Bytes of address space of a worker, in addition to those of a new process."""


class Report(NamedTuple):
    """Outcome of a task: its number, the kind of outcome, and a text."""

    number: int
    kind: str
    what: str
    resident: int
    """Bytes of memory of the worker after it."""


def run(command: list[str], numbers: Iterator[int] | range) -> Iterator[Report]:
    """Yield the report of the task of each number, done by one worker after another."""
    left = iter(numbers)
    number = next(left, None)
    while number is not None:
        with _Worker(command) as worker:
            while number is not None:
                report = worker.do(number)
                yield report
                number = next(left, None)
                if report.kind in ("crash", "hang"):
                    break


class _Worker:
    """A process that does tasks, as a context manager."""

    def __init__(self, command: list[str]) -> None:
        self.command = command

    def __enter__(self) -> _Worker:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        os.set_blocking(self.process.stderr.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""
        ready = self._line(600.0)
        if ready is None:
            raise SystemExit(f"a worker did not start: {self._errors()}")
        return self

    def __exit__(self, *ignored: Any) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def do(self, number: int) -> Report:
        """Do one task and return its report."""
        self.process.stdin.write(f"{number}\n".encode())
        line = self._line(HANG)
        if line is not None:
            return Report(number, *json.loads(line), _memory(self.process.pid)[1])
        if self.process.poll() is None:
            return Report(number, "hang", f"no answer in {HANG:g} s", 0)
        return Report(number, "crash", f"exit {self.process.returncode}: {self._errors()[-600:]}", 0)

    def _line(self, wait: float) -> bytes | None:
        """Return the next line of the worker's output, or None if it has ended or ``wait`` seconds are over."""
        end = time.perf_counter() + wait
        while b"\n" not in self.rest:
            if not self.selector.select(max(end - time.perf_counter(), 0.0)):
                return None
            got = os.read(self.process.stdout.fileno(), 1 << 16)
            if not got:
                self.process.wait()
                return None
            self.rest += got
            self._errors()
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def _errors(self) -> str:
        try:
            got = os.read(self.process.stderr.fileno(), 1 << 16)
        except (BlockingIOError, OSError):
            return ""
        return got.decode(errors="replace")


def _memory(pid: int | str) -> tuple[int, int]:
    """Return the bytes of address space and of memory of a process; zeros on systems other than Linux."""
    try:
        whole, resident = Path(f"/proc/{pid}/statm").read_text().split()[:2]
    except OSError:
        return 0, 0
    return int(whole) * resource.getpagesize(), int(resident) * resource.getpagesize()


def serve(task: Callable[[int], tuple[str, str]], restricted: bool = True) -> None:
    """Be a worker, with limited memory if ``restricted``: answer each number on the input with ``task(number)``."""
    import faulthandler

    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if restricted:
        resource.setrlimit(resource.RLIMIT_AS, (_memory("self")[0] + MEMORY, resource.RLIM_INFINITY))
    answers.write("ready\n")
    for line in sys.stdin:
        answers.write(json.dumps(task(int(line))) + "\n")
