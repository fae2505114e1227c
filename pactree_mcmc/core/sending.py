"""What executors are sent: the model with each task, or, on a Dask cluster, once for all tasks of a run."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


def sending(executor: Executor | None, model: Any) -> Executor | None:
    """The executor, where it is one of Dask so that tasks with this model are sent without it, and it once."""
    client = _client_of(executor)
    return executor if client is None else ModelOnce(executor, client, model)


class ModelOnce(Executor):
    """Runs tasks on an executor of a Dask client, whose workers have the model before the first of them.

    Parameters
    ----------
    executor : Executor
        Of the client.
    client : distributed.Client
        What the model is sent with.
    model : Any
        That of all plans.
    """

    def __init__(self, executor: Executor, client: Any, model: Any) -> None:
        self.executor, self.client, self.model = executor, client, model
        self._sent: Any = None

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Run ``task``; what of its arguments is a plan of the model, or has one, goes without the model."""
        light = [_with_model(given, None) for given in args]
        # pure tasks are named by a hash of all that they are given
        return self.executor.submit(run_with, self._reference(), task, *light, pure=False, **kwargs)

    def _reference(self) -> Any:
        """The model where the workers keep it.

        It is what a task makes of bytes, which the scheduler keeps: if every worker that had it is gone, Dask makes it
        again, as it does not with data that were scattered.
        """
        if self._sent is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")
                self._sent = self.client.submit(pickle.loads, pickle.dumps(self.model, 5), pure=False)
            # tasks go to workers that have what they need
            self.client.replicate(self._sent)
        return self._sent


def run_with(model: Any, task: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a task that was sent without its model; a plain function, for workers."""
    return task(*(_with_model(given, model) for given in args), **kwargs)


def _with_model(given: Any, model: Any) -> Any:
    """A plan, or what has one, with another model; anything else as it is."""
    fields = getattr(given, "_fields", ())
    if "model" in fields:
        return given._replace(model=model)
    return given._replace(plan=_with_model(given.plan, model)) if "plan" in fields else given


def _client_of(executor: Any) -> Any:
    """The client of an executor of Dask; None for any other."""
    # the module of the executor has been imported, or it is none of Dask
    module = sys.modules.get("distributed.cfexecutor")
    return executor._client if module is not None and isinstance(executor, module.ClientExecutor) else None
