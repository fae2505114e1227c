"""A chain that stopped without a density does not go on."""

import numpy as np
import pytest

import pactree_mcmc as pt
from tests.mcmc.whole.test_rounds import learned, with_density


def test_a_chain_without_a_density_does_not_go_on(tmp_path):
    """One of a kernel that draws from none has the shape (1, 1)."""
    post = learned(draws=5)
    with_density(post, 0, np.zeros((1, 1)))
    with pytest.raises(ValueError, match="density has shape"):
        pt.resume(post, 3, progress=False)
