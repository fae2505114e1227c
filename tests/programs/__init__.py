"""Programs that tests run in interpreters of their own: files that linters read, not strings."""

import subprocess
import sys

from tests import ROOT


def command(name, *words):
    return [sys.executable, "-W", "ignore", "-m", f"tests.programs.{name}", *map(str, words)]


def run(name, *words, **more):
    return subprocess.run(command(name, *words), cwd=ROOT, capture_output=True, text=True, check=False, **more)
