"""Every test of this folder begins without a figure, and leaves none."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _close_figures():
    before = plt.get_fignums()
    yield
    assert before == []
    plt.close("all")
