"""If trees are large, the log posterior is judged before all of them are joined."""

import numpy as np
import pytest

from pactree_mcmc.mcmc import schedule as _schedule
from tests.mcmc.test_schedule import found


@pytest.mark.parametrize("name", ["classes", "unknown weights"])
def test_the_log_posterior_of_large_trees_is_judged_first(name, monkeypatch):
    """Nothing but the time changes by this. If feature weights are drawn it is not judged."""
    seen, agrees = [], _schedule.agrees

    def noted(log_posterior):
        seen.append(agrees(log_posterior))
        return seen[-1]

    plain = found(name, steps=1000, work=1e15)
    monkeypatch.setattr(_schedule, "agrees", noted)
    monkeypatch.setattr(_schedule, "MANY_NODES", 0)
    first = found(name, steps=1000, work=1e15)
    assert np.array_equal(plain.tree_of_draw, first.tree_of_draw) and plain.course.steps == first.course.steps
    assert (len(seen) > 0) == (name == "classes")


def test_a_log_posterior_that_does_not_agree_is_enough_if_trees_are_large(monkeypatch):
    monkeypatch.setattr(_schedule, "MANY_NODES", 0)
    monkeypatch.setattr(_schedule, "agrees", lambda log_posterior: False)
    monkeypatch.setattr(_schedule, "converged", lambda post: pytest.fail("trees were joined"))
    assert found(steps=500).course.steps == 500
