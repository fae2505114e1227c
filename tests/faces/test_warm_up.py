"""After `pt.warm_up()` default runs and exact sums compile nothing, not even those of users who can write nowhere."""

import os
import subprocess
import sys

import numba
import pytest

import pactree_mcmc as pt
from tests import ROOT
from tests.code_folders import write_code_to
from tests.programs import run
from tests.strangers import readable_folder, stranger

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.more
def test_everything_is_compiled_once_for_everybody():
    options = stranger()
    with readable_folder() as folder:
        code = {"NUMBA_CACHE_DIR": str(folder / "code"), "PYTHONWARNINGS": "ignore"}
        program = [sys.executable, "-c", "import pactree_mcmc; pactree_mcmc.warm_up()"]
        process = subprocess.run(program, cwd=ROOT, env=os.environ | code, capture_output=True, text=True, check=True)
        assert process.stdout == process.stderr == ""
        options["env"] |= code
        after = run("compiled_after_warm_up", **options)
        assert after.returncode == 0, after.stderr
        assert after.stdout.split() == []


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "below"
    write_code_to(folder, monkeypatch)
    with pytest.raises(OSError, match=str(folder)):
        pt.warm_up()
