"""A file for the command line to read."""

import pytest

from tests.faces.cli.calls import shop


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "shop.csv"
    shop().to_csv(path, index=False)
    return str(path)
