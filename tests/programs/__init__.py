"""Programs that tests run in interpreters of their own: files that linters read, not strings."""

import subprocess
import sys

from tests import ROOT


def command(name, *words):
    """The command line of a program of this folder."""
    return [sys.executable, "-W", "ignore", "-m", f"tests.programs.{name}", *map(str, words)]


def run(name, *words, **more):
    """Run a program of this folder and return its output and exit code."""
    return subprocess.run(command(name, *words), cwd=ROOT, capture_output=True, text=True, check=False, **more)
