"""A user without a home directory loads what the administrator compiled; without it, one warning says what to do."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import numba
import pytest

from pactree_mcmc.core.compile.cache import ARCHIVE
from tests import ROOT
from tests.programs import run
from tests.strangers import UNWRITABLE, readable_folder, stranger

pytestmark = [
    pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled"),
    pytest.mark.skipif(ARCHIVE.exists(), reason="the sources have an archive of compiled code"),
]
COMPILED = ["_apply_into", "_find_disorder", "group_rows_into"]
"""Functions that the program compiles."""


def report_of(**options):
    """Return what a program that calls two compiled functions says."""
    process = run("compiled_for_a_table", **options)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return json.loads(process.stdout)


@pytest.mark.more
def test_code_of_an_administrator_is_loaded_in_every_process():
    options = stranger()
    with readable_folder() as folder:
        filled = report_of(env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "code")})
        assert sorted(filled["compiled"]) == COMPILED
        options["env"]["NUMBA_CACHE_DIR"] = str(folder / "code")
        for _ in range(2):
            assert report_of(**options) == {"compiled": [], "told": [], "finite": True}


@pytest.mark.more
@pytest.mark.parametrize("home", [UNWRITABLE, None])
def test_without_it_one_warning_says_what_to_do(home):
    report = report_of(**stranger(home))
    assert sorted(report["compiled"]) == COMPILED and report["finite"]
    (text,) = report["told"]
    assert "compiled code is not kept" in text and "NUMBA_CACHE_DIR" in text and "pt.warm_up()" in text
    assert not (ROOT / "~").exists()


@pytest.mark.more
def test_two_processes_that_start_together_compile_and_keep(tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    with ThreadPoolExecutor(2) as pool:
        for report in pool.map(lambda _: report_of(env=env), range(2)):
            assert report["told"] == [] and report["finite"]
    assert report_of(env=env)["compiled"] == []
