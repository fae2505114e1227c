"""SECURITY.md names files, variables and options that exist."""

import re

import pytest

from pactree_mcmc.faces.cli.arguments import read_arguments
from tests import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()
VARIABLES = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", PAGE))


def test_files_exist():
    names = re.findall(r"`(?:python )?((?:pactree_mcmc|exact|docs|tests|verification)/[\w/]+\.\w+)", PAGE)
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_command_line_has_the_options(capsys):
    for command, option in re.findall(r"`pactree ([\w-]+) (--[\w-]+)", PAGE):
        with pytest.raises(SystemExit):
            read_arguments([command, "--help"])
        assert option in capsys.readouterr().out
    # options of no command are those of a tool whose file is named beside them
    tools = "".join((ROOT / name).read_text() for name in re.findall(r"`python (verification/\w+\.py)", PAGE))
    for option in re.findall(r"(?<!pactree warm-up )(--[a-z][\w-]*)", PAGE):
        assert f'"{option}"' in tools, option


def test_variables_are_read():
    assert {"NUMBA_CACHE_DIR", "PACTREE_SHARED_CACHE"} == VARIABLES
