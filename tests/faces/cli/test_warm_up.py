"""After `pactree warm-up --to FOLDER` nothing is compiled, not even by users who can write nowhere."""

import os
import subprocess
import sys

import numba
import pytest

from pactree_mcmc.faces.cli import main
from tests.code_folders import write_code_to
from tests.programs import run
from tests.strangers import readable_folder, stranger

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@pytest.mark.slow
def test_everything_is_compiled_once_for_everybody():
    options = stranger()
    with readable_folder() as folder:
        command = [sys.executable, "-m", "pactree_mcmc", "warm-up", "--to", str(folder / "code")]
        env = os.environ | {"PYTHONWARNINGS": "ignore"}
        process = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert "compiled 1 of " in process.stderr
        assert f"everything is compiled, in {folder / 'code'}; users who set PACTREE_SHARED_CACHE" in process.stdout
        options["env"]["PACTREE_SHARED_CACHE"] = str(folder / "code")
        after = run("compiled_after_warm_up", **options)
        assert after.returncode == 0, after.stderr
        assert after.stdout.split() == []


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "below"
    assert main(["warm-up", "--to", str(folder)]) == 1
    assert str(folder) in capsys.readouterr().err
    write_code_to(folder, monkeypatch)
    assert main(["warm-up"]) == 1
    assert str(folder) in capsys.readouterr().err
