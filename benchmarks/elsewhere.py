"""Programs in processes of their own, of an interpreter that has them: arrays go there and come back in files.

The interpreter is this one where it has the module, else that of ``--rivals``, or of the variable PACTREE_RIVALS.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np


class Failed(Exception):
    """A program in another process did not do what it was asked to."""


def add_option(parser):
    """Option ``--rivals`` of a benchmark."""
    parser.add_argument(
        "--rivals",
        default=os.environ.get("PACTREE_RIVALS"),
        metavar="PYTHON",
        help="interpreter that has the rivals this one lacks; default PACTREE_RIVALS",
    )


@cache
def interpreter_with(module, rivals):
    """Path of an interpreter that imports the module, ours first; None where neither has it."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    ended = rivals and subprocess.run([rivals, "-c", f"import {module}"], capture_output=True, check=False)
    return rivals if ended and ended.returncode == 0 else None


def run(command, arrays, options):
    """Arrays that a program writes, given arrays and options; ``command`` is followed by the two files.

    Raises Failed with the end of what it said where it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, options=json.dumps(options), **arrays)
        here = Path(__file__).resolve().parent
        path = os.pathsep.join([str(here.parent), str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
        ended = subprocess.run(
            [*command, given, found],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode != 0 or not found.exists():
            raise Failed(f"{command[-1]} failed ({ended.returncode}): {ended.stderr[-2000:]}")
        with np.load(found) as written:
            return dict(written)


def read_given(path):
    """In the other process: the arrays, and the options."""
    with np.load(path) as given:
        arrays = dict(given)
    return arrays, json.loads(str(arrays.pop("options")))
