"""A file for the command line to read."""

import pytest

from tests.faces.cli.calls import shop


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "shop.csv"
    shop().to_csv(path, index=False)
    return str(path)
