"""The README's two commands in one folder: afterwards the library is imported from anywhere, and pip removes all of it.

`.ci/run` does the same in every run, with all tests in the second command.
"""

import os
import re
import shutil
import subprocess

import pytest

from tests import ROOT

COMMANDS = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
LEFT_OUT = (".*", "build", "dist", "*.egg-info", "__pycache__", "*.nb[ic]", "archives", "_build", "output")
USE = "import exact, pactree_mcmc; exact.solve, pactree_mcmc.TreeModel; print(pactree_mcmc.__file__)"


def test_the_readme_has_two_commands():
    example, tests = COMMANDS
    assert "pip install --no-compile '.[plots,sklearn]' &&" in example
    assert "pip install -e '.[test]' &&" in tests
    assert tests.endswith("-m pytest")


def shell(command, folder):
    """Run a command as somebody does who has set nothing, and return what it prints."""
    env = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.more
@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a Unix shell")
def test_both_commands_in_one_folder(tmp_path):
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_OUT))
    elsewhere.mkdir()
    shell(COMMANDS[0], clone)
    (packages,) = (clone / ".venv" / "lib").glob("python*/site-packages")
    python = f"{clone}/.venv/bin/python"
    assert shell(f'{python} -c "{USE}"', elsewhere).startswith(str(packages))
    # one file of tests, since this is one of them
    shell(f"{COMMANDS[1]} -n 0 tests/core/test_logsum.py", clone)
    assert shell(f'{python} -c "{USE}"', elsewhere).strip() == f"{clone}/pactree_mcmc/__init__.py"
    shell(f"{python} -m pip uninstall --yes pactree-mcmc", clone)
    assert [path.name for path in packages.iterdir() if re.match(r".*pactree|exact", path.name)] == []
