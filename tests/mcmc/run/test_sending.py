"""The model goes to a Dask cluster once, whatever chains and tasks there are; the draws are those of threads."""

import pickle
from concurrent.futures import Executor, Future

import pytest

from pactree_mcmc import TreeModel
from pactree_mcmc.mcmc.run import loop as module
from tests.problems.runs import assert_same, draw


class Reference:
    """Reference that a client returns for data on its workers."""

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


RUNS = {
    "of given length": {},
    "in legs": {"every": 1e-9, "draws": 4},
    "learning": {"kernel": "whole", "tune": 35},
    "tempered": {"betas": 2},
    "of its own length": {"draws": 6, "tune": None, "work": 2e6},
}


@pytest.mark.more(everyday=["of given length"])
@pytest.mark.parametrize("name", RUNS)
def test_model_is_sent_once(cluster, pickled, tmp_path, name):
    rest = RUNS[name] | ({"checkpoint": tmp_path / "run.nc"} if name == "in legs" else {})
    assert_same(draw("classes", executor=cluster, **rest), draw("classes", **RUNS[name]))
    assert pickled == [len(cluster.held)] == [1]
    assert cluster.n_tasks >= 2


def count_pickles():
    """Count how often models are pickled in this process from now on."""
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
