"""Users who can write nowhere: they have no home directory, and the library was installed by somebody else."""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import ROOT

NOBODY = 65534
"""Number of the user without rights on most systems."""
UNWRITABLE = "/dev/null/home"
"""A home that not even root can make."""


def stranger(home=UNWRITABLE):
    """Return the arguments of `subprocess.run` for such a user: nobody, if we may start processes for others."""
    if sys.platform == "win32":
        pytest.skip("Windows has no such users")
    names = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    env = {name: value for name, value in os.environ.items() if name not in names}
    env |= {} if home is None else {"HOME": home}
    nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "env": env}
    if _can_import(**nobody):
        return nobody
    if home is None:
        pytest.skip("we cannot be nobody here, and the password database knows our own home")
    return {"env": env}


def _can_import(**options):
    """Return True if such a user may start this Python and read the library."""
    try:
        subprocess.run(
            [sys.executable, "-c", "import pactree_mcmc"], cwd=ROOT, check=True, capture_output=True, **options
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@contextmanager
def readable_folder():
    """Make a folder that everybody can read; that of pytest is closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
