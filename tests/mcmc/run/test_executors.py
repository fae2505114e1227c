"""The same draws from threads, processes, Ray, MPI and Dask; a worker that dies takes only its own chain."""

import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc import TreeModel
from pactree_mcmc.mcmc.run import loop as module
from tests import ROOT
from tests.problems.runs import assert_same, draw, made_in

SPAWN = multiprocessing.get_context("spawn")
RUNS = {
    "of given length": {},
    "in legs": {"every": 1e-9, "draws": 4},
    "learning": {"kernel": "whole", "tune": 35},
    "tempered": {"betas": 2},
    "of its own length": {"draws": 6, "tune": None, "work": 2e6},
}


class Deadly(Executor):
    """Runs tasks on a pool, and ends the process that gets the second task of chain 1, when chain 0 is done."""

    def __init__(self, pool):
        self.pool, self.numbers = pool, []

    def submit(self, task, request, tuned, chain, *args):
        self.numbers.append(chain.number)
        if self.numbers.count(1) == 2 and chain.number == 1:
            return self.pool.submit(os._exit, 1)
        return self.pool.submit(task, request, tuned, chain, *args)


class AtOnce(Executor):
    """Runs tasks at once; those named in ``dying``, counted from 0, fail as if their worker had died."""

    def __init__(self, *dying):
        self.dying, self.count = dying, 0

    def submit(self, task, /, *args):
        future, number = Future(), self.count
        self.count += 1
        if number in self.dying:
            future.set_exception(RuntimeError("worker lost"))
        else:
            future.set_result(task(*args))
        return future


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        yield pool


@pytest.mark.more
def test_processes(processes, tmp_path):
    """Whole chains, chains resumed, and chains in legs between checkpoints."""
    whole, half = draw(executor=processes), draw(draws=8)
    assert_same(whole, draw())
    assert_same(pt.resume(half, 12, executor=processes), whole)
    assert_same(draw(executor=processes, checkpoint=tmp_path / "run.nc", every=0.2), whole)


class RayExecutor(Executor):
    """The executor of docs/clusters.md."""

    def submit(self, task, /, *args, **kwargs):
        ray = pytest.importorskip("ray")
        return ray.remote(task).remote(*args, **kwargs).future()


@pytest.mark.more
@pytest.mark.filterwarnings("ignore")
def test_ray():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        assert_same(draw("classes", executor=RayExecutor()), draw("classes"))
    finally:
        ray.shutdown()


@pytest.mark.more
def test_mpi():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        pytest.skip("mpiexec is not installed")
    words = [mpiexec, "-n", "3", sys.executable, "-m", "mpi4py.futures", "-m", "tests.programs.drawn_through_mpi"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert "the same draws" in done.stdout, done.stderr


@pytest.mark.more
def test_process_that_dies():
    """Its chain is named, and so is the one that the broken pool can no longer run; the first one is returned."""
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN) as pool,
        pytest.warns(UserWarning, match=r"2 of 3 chains were lost \(chain 1: BrokenProcessPool.*chain 2: Broken"),
    ):
        post = draw(rng=[5, 6, 7], chains=3, executor=Deadly(pool))
    assert post.n_chains == 1
    alone = draw(rng=[5], chains=1)
    assert_same(post, alone)
    assert_same(pt.resume(post, 3, progress=False), pt.resume(alone, 3, progress=False))


@pytest.mark.more
def test_lost_chain_among_others():
    with pytest.warns(UserWarning, match=r"1 of 3 chains were lost \(chain 1: RuntimeError: worker lost\)"):
        post = draw(chains=3, executor=AtOnce(1))
    whole = draw(chains=3)
    for mine, c in enumerate([0, 2]):
        pairs = zip(post.draws.tree_of_draw[mine].tolist(), whole.draws.tree_of_draw[c].tolist(), strict=True)
        assert all(post.draws.distinct_tree(a) == whole.draws.distinct_tree(b) for a, b in pairs)
        for field in ("log_prior", "log_score"):
            # of a tree that several chains drew the figures are those of the first, whose rows lie in another order
            np.testing.assert_allclose(getattr(post, field)[mine], getattr(whole, field)[c], rtol=1e-12)


@pytest.mark.more
def test_all_chains_lost():
    """The first error is raised as it is, with a note on every chain."""
    with pytest.raises(RuntimeError, match="worker lost") as caught:
        draw(chains=2, executor=AtOnce(0, 1))
    each = "; ".join(f"chain {c}: RuntimeError: worker lost" for c in range(2))
    assert caught.value.args == ("worker lost",) and caught.value.__notes__ == [f"every chain was lost: {each}"]


@pytest.mark.more
def test_lost_chain_is_finished_from_the_checkpoint(tmp_path, monkeypatch):
    """What it had in the last file but one is there; the others are finished there already."""
    path = tmp_path / "run.nc"
    with pytest.warns(UserWarning, match=r"1 of 2 chains were lost.*and pt\.resume\(.*run\.nc'\) finishes the lost"):
        post = draw(draws=8, executor=AtOnce(9), checkpoint=path, every=1e-9)
    made = made_in(path)
    assert made[0] == 8 and 0 < made[1] < 8 and post.n_chains == 1
    assert_same(pt.resume(path, progress=False), draw(draws=8))


class Reference:
    def __init__(self, data):
        self.data = data


class Cluster(Executor):
    """A client and its executor in one: runs tasks at once, all that is sent going through bytes."""

    def __init__(self):
        self.held, self.n_tasks = [], 0

    def replicate(self, reference):
        assert isinstance(reference.data, TreeModel)
        self.held.append(reference)

    def submit(self, task, /, *args, pure=True):
        assert not pure
        if task is pickle.loads:
            return Reference(task(*args))
        self.n_tasks += 1
        args = [arg.data if isinstance(arg, Reference) else pickle.loads(pickle.dumps(arg)) for arg in args]
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(task(*args))))
        return future


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(module, "_client_of", lambda executor: executor)
    return Cluster()


@pytest.fixture
def pickled(monkeypatch):
    """Counts how often a model is pickled in this process."""
    count, state = [0], TreeModel.__getstate__

    def counted(self):
        count[0] += 1
        return state(self)

    monkeypatch.setattr(TreeModel, "__getstate__", counted)
    return count


@pytest.mark.more(everyday=["of given length"])
@pytest.mark.parametrize("name", RUNS)
def test_model_is_sent_once(cluster, pickled, tmp_path, name):
    rest = RUNS[name] | ({"checkpoint": tmp_path / "run.nc"} if name == "in legs" else {})
    assert_same(draw("classes", executor=cluster, **rest), draw("classes", **RUNS[name]))
    assert pickled == [len(cluster.held)] == [1] and cluster.n_tasks >= 2


def count_pickles():
    state = TreeModel.__getstate__

    def counted(self):
        TreeModel.n_pickled += 1
        return state(self)

    TreeModel.n_pickled, TreeModel.__getstate__ = 0, counted


def n_pickled():
    return TreeModel.n_pickled


@pytest.mark.more
@pytest.mark.filterwarnings("ignore")
def test_dask_cluster(pickled):
    """The client pickles the model once, for all chains and rounds, and of two workers one, for the other."""
    distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    dask = pytest.importorskip("dask", reason="dask is not installed")
    # which drops copies that no task waits for at the moment
    without = {"distributed.scheduler.active-memory-manager.start": False}
    rest = {"kernel": "whole", "tune": 35, "chains": 3}
    with (
        dask.config.set(without),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(count_pickles)
        assert_same(draw("classes", executor=client.get_executor(), **rest), draw("classes", **rest))
        assert sum(client.run(n_pickled).values()) == 1
    assert pickled == [1]
