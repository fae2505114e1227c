"""What a look at the draws asks where trees are large: the log posterior, before all of them are joined."""

import numpy as np
import pytest

from pactree_mcmc.mcmc.run import length as _length
from tests.mcmc.run.test_length import found


@pytest.mark.parametrize("name", ["classes", "unknown weights"])
def test_where_trees_are_large_the_log_posterior_is_looked_at_first(name, monkeypatch):
    """Which changes nothing but the time it takes; where feature weights are drawn it is not looked at."""
    seen, agrees = [], _length.agrees

    def noted(log_posterior):
        seen.append(agrees(log_posterior))
        return seen[-1]

    plain = found(name, steps=1000, work=1e15)
    monkeypatch.setattr(_length, "agrees", noted)
    monkeypatch.setattr(_length, "MANY_NODES", 0)
    first = found(name, steps=1000, work=1e15)
    assert np.array_equal(plain.tree_of_draw, first.tree_of_draw) and plain.course.steps == first.course.steps
    assert (len(seen) > 0) == (name == "classes")


def test_a_log_posterior_that_does_not_agree_is_enough_where_trees_are_large(monkeypatch):
    monkeypatch.setattr(_length, "MANY_NODES", 0)
    monkeypatch.setattr(_length, "agrees", lambda log_posterior: False)
    monkeypatch.setattr(_length, "converged", lambda post: pytest.fail("trees were joined"))
    assert found(steps=500).course.steps == 500
