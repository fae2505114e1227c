"""After `pactree warm-up` nothing is compiled."""

import os
import subprocess
import sys

import numba
import pytest

from tests.programs import run


@pytest.mark.slow
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_everything_is_compiled_once(tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "pactree_mcmc", "warm-up"], env=env, capture_output=True, text=True, check=True
    )
    assert "compiled 1 of " in done.stderr
    after = run("compiled_after_warm_up", env=env)
    assert after.returncode == 0, after.stderr
    assert after.stdout.split() == []
