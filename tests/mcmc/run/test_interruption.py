"""Ctrl-C returns what was drawn so far, with a warning, and is raised when nothing was."""

from collections import Counter
from concurrent.futures import Executor, Future

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.run import loop as _loop
from tests.mcmc.test_sample import MODEL, assert_same_draws, chain_trees


@pytest.fixture
def interrupt_after(monkeypatch):
    """Make the main thread see Ctrl-C once all three chains have finished n blocks, each of which is one draw long."""
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    real, blocks_of_chain, raised = _loop.wait, Counter(), []

    def arm(n):
        for kernel in ("default", "grow-prune", "blanchard"):
            pt.sample(MODEL, 1, tune=1, chains=3, rng=1, kernel=kernel, progress=False)

        def wait(chain_of_task, **kwargs):
            done, pending = real(chain_of_task, **kwargs)
            blocks_of_chain.update(chain_of_task[task] for task in done)
            if len(blocks_of_chain) == 3 and min(blocks_of_chain.values()) >= n and not raised:
                raised.append(True)
                raise KeyboardInterrupt
            return done, pending

        monkeypatch.setattr(_loop, "wait", wait)

    return arm


def sample(draws, **rest):
    return pt.sample(MODEL, draws, chains=3, rng=1, start="stump", progress=False, **rest)


@pytest.mark.parametrize(("kernel", "tune"), [("grow-prune", 0), ("blanchard", 2)])
def test_draws_so_far_are_returned(kernel, tune, interrupt_after):
    """Every chain keeps equally many draws, the first ones of an uninterrupted run, and no other trees."""
    interrupt_after(8)
    with pytest.warns(UserWarning, match=r"interrupted: \d+ of 100000 draws a chain"):
        cut = sample(100_000, tune=tune, kernel=kernel)
    assert 1 <= cut.n_draws < 100_000
    assert cut.n_chains == 3
    assert_same_draws(cut, sample(cut.n_draws, tune=tune, kernel=kernel))
    assert set(np.unique(cut.draws.tree_of_draw)) == set(range(cut.draws.n_distinct_trees))
    best = int(np.argmax(cut.draws.log_prior_of_tree + cut.draws.log_score_of_tree))
    assert cut.map_tree() == cut.draws.distinct_tree(best)


def test_nothing_drawn_is_raised(interrupt_after):
    interrupt_after(2)
    with pytest.raises(KeyboardInterrupt, match="nothing to return"):
        sample(10, tune=10**7)
    assert sample(10, tune=1).n_draws == 10


class HangingExecutor(Executor):
    """Runs the first ``n_done`` tasks. The result of the next one meets Ctrl-C, and further ones never end."""

    def __init__(self, n_done):
        self.n_done, self.futures = n_done, []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if len(self.futures) < self.n_done:
            future.set_result(fn(*args, **kwargs))
        elif len(self.futures) == self.n_done:
            future.set_result(None)
            future.result = self.interrupted
        self.futures.append(future)
        return future

    @staticmethod
    def interrupted(timeout=None):
        raise KeyboardInterrupt


def test_finished_chains_of_an_executor_are_returned():
    """Each chain has a task for its tuning, and one for its draws."""
    executor = HangingExecutor(4)
    with pytest.warns(UserWarning, match="1 of 3 chains had finished"):
        cut = sample(10, tune=1, executor=executor)
    assert cut.n_chains == 1
    assert chain_trees(cut, 0) == chain_trees(sample(10, tune=1), 0)
    assert executor.futures[5].cancelled()


def test_no_finished_chain_is_raised():
    with pytest.raises(KeyboardInterrupt):
        sample(10, tune=1, executor=HangingExecutor(0))
