"""Sending of tasks to executors. The model is sent with each task, on a Dask cluster once for all tasks of a run."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


def with_model_sent_once(executor: Executor | None, model: Any) -> Executor | None:
    """Return a `ModelOnceExecutor` if the executor is one of Dask, otherwise the executor itself (None stays None)."""
    client = _client_of(executor)
    return executor if client is None else ModelOnceExecutor(executor, client, model)


class ModelOnceExecutor(Executor):
    """Executor of a Dask client that sends the model to the workers before the first task, and then not again."""

    # every argument that has the model, a NamedTuple with the field ``model``, is sent without it
    def __init__(self, executor: Executor, client: Any, model: Any) -> None:
        self.executor, self.client, self.model = executor, client, model
        self._sent: Any = None

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submit ``task`` and return its future. Arguments that have the model are sent without it."""
        light = [_replace_model(arg, None) for arg in args]
        # Dask names pure tasks by a hash of their arguments
        return self.executor.submit(run_with_model, self._sent_model(), task, *light, pure=False, **kwargs)

    def _sent_model(self) -> Any:
        """Return the reference to the model on the workers, and send the model at the first call."""
        # the model is the result of a task, whose argument the scheduler keeps: Dask can make it again if all workers
        # that had it are gone, which it cannot do with scattered data
        if self._sent is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")
                self._sent = self.client.submit(pickle.loads, pickle.dumps(self.model, 5), pure=False)
            # Dask runs tasks on workers that have their arguments
            self.client.replicate(self._sent)
        return self._sent


def run_with_model(model: Any, task: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return task(*(_replace_model(arg, model) for arg in args), **kwargs)


def _replace_model(argument: Any, model: Any) -> Any:
    """Return a NamedTuple with ``model`` in its field of that name. Return others as they are."""
    return argument._replace(model=model) if "model" in getattr(argument, "_fields", ()) else argument


def _client_of(executor: Any) -> Any:
    """Return the client of an executor of Dask, or None for any other executor."""
    # an executor of Dask exists only if its module has been imported
    module = sys.modules.get("distributed.cfexecutor")
    return executor._client if module is not None and isinstance(executor, module.ClientExecutor) else None
