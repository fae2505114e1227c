"""Run programs of other libraries in processes of their own; arrays and results are exchanged in files.

The interpreter is this one if it has the library, else that of ``--rivals``, or of the variable PACTREE_RIVALS.
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
    """Error of a program in another process, which ended without its result."""


def add_option(parser):
    """Add the option ``--rivals`` to the parser of a benchmark."""
    parser.add_argument(
        "--rivals",
        default=os.environ.get("PACTREE_RIVALS"),
        metavar="PYTHON",
        help="interpreter that has the rivals this one lacks; default PACTREE_RIVALS",
    )


@cache
def interpreter_with(module, rivals):
    """Return the path of an interpreter that imports ``module``, this one first, or None if neither does.

    ``rivals`` is the path of the other interpreter, or None.
    """
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    ended = rivals and subprocess.run([rivals, "-c", f"import {module}"], capture_output=True, check=False)
    return rivals if ended and ended.returncode == 0 else None


def run(command, arrays, options):
    """Run a program and return the arrays that it writes, by name. ``arrays`` (by name) and ``options`` are its input.

    ``command`` is the interpreter and the script, to which the paths of both files are added. Raises Failed with the
    end of the program's standard error if it fails.
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
    """Return the arrays by name, and the options, that `run` has given to this process."""
    with np.load(path) as given:
        arrays = dict(given)
    return arrays, json.loads(str(arrays.pop("options")))
