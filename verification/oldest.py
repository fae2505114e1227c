"""Install exactly the lower bounds of pyproject.toml, and run a part of the tests with them.

    python verification/oldest.py [FOLDER]        a folder for the environment; by default a temporary one

It needs Python 3.11, the oldest one supported, and the package registry.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = [
    "tests/model",
    "tests/files",
    "tests/mcmc/test_sample.py",
    "tests/mcmc/chain/test_compiled_is_plain.py",
    "tests/whole/test_faults.py",
    "tests/whole/test_pinned_draws.py",
    "tests/posterior/test_inference_data.py",
]
TESTS += ["tests/exact/recursion/test_enumeration.py", "tests/faces/sklearn/test_estimators.py"]
NEEDED_TO_TEST = ("pytest", "pytest-xdist", "polars", "hypothesis", "mpmath")


def oldest() -> list[str]:
    """Return the requirements of the library, and of those tests, with each lower bound as the only version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tests = [r for r in extras["test"] if re.split(r"[^\w-]", r)[0] in NEEDED_TO_TEST]
    needed = (*project["dependencies"], *extras["plots"], *extras["sklearn"], *extras["arviz"], *tests)
    return [requirement.replace(">=", "==") for requirement in needed]


def main(folder: Path) -> int:
    """Make the environment in ``folder``, run the tests, and return their exit status."""
    if sys.version_info[:2] != (3, 11):
        raise SystemExit(f"Python {sys.version.split()[0]} runs this; the oldest versions are for Python 3.11.")
    python = folder / "bin" / "python"
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *oldest()],
        [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--editable", str(ROOT)],
        [str(python), "-m", "pip", "check"],
    ):
        subprocess.run(command, check=True)
    # old packages warn about those they need, which are not old
    tests = [str(python), "-m", "pytest", "-n0", "-W", "ignore::DeprecationWarning", *TESTS]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1]).resolve()))
    with tempfile.TemporaryDirectory() as made:
        sys.exit(main(Path(made)))
