"""Make one random call by its number, and judge its outcome."""

from __future__ import annotations

import contextlib
import io
import linecache
import random
import reprlib
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .hostile import HOSTILE
from .targets import TARGETS, Target
from .world import VALID, World

ANSWERED, REFUSED, WRONG = "answered", "refused", "wrong"
LIBRARY = ("pactree_mcmc", "exact")
ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = {"prices", "penalty", "size penalty"}
"""Kinds of arguments that are functions of the caller, whose errors are passed on. No hostile ones are given there."""


class Call(NamedTuple):
    """Target of a call, and the kind and the index of the value of each argument."""

    target: Target
    chosen: dict[str, tuple[str, int]]

    def arguments(self, world: World) -> dict[str, Any]:
        """Return new arguments by name."""
        return {
            name: HOSTILE[i]() if kind == "hostile" else VALID[kind][i](world)
            for name, (kind, i) in self.chosen.items()
        }


class Outcome(NamedTuple):
    """Outcome of a call."""

    kind: str
    what: str
    """The answer's type, or the error and where it was raised."""


def targets_called(only: str | None) -> list[Target]:
    """Return all targets, or those with a name such as "TreeModel", "Posterior.predict" or "predict"."""
    targets = [t for t in TARGETS if only is None or t.name == only or t.name.endswith(f".{only}")]
    if not targets:
        raise SystemExit(f"no target is called {only!r}; there are: {', '.join(t.name for t in TARGETS)}")
    return targets


def call_of(seed: int, number: int, only: str | None = None) -> Call:
    """Return call ``number``, which the seed and the number alone determine. ``only`` restricts the targets."""
    rng = random.Random(f"{seed} {number}")
    targets = targets_called(only)
    target = rng.choices(targets, [t.weight for t in targets])[0]
    fraction = rng.choice([0.0, 0.15, 0.3, 0.3, 0.6])
    chosen: dict[str, tuple[str, int]] = {}
    first = rng.choice([None, *target.kinds])
    for name, kind in target.kinds.items():
        known, hostile = kind.removeprefix("?"), name == first or rng.random() < fraction
        if hostile and name not in ("self", "prunings"):
            chosen[name] = ("hostile", rng.randrange(len(HOSTILE)))
        elif not kind.startswith("?") or rng.random() < 0.4:
            chosen[name] = (known, rng.randrange(len(VALID[known])))
    return Call(target, chosen)


def make(call: Call, world: World) -> Outcome:
    """Make a call, and return its outcome."""
    try:
        arguments = call.arguments(world)
    except Exception as error:  # an odd object that cannot even be made says nothing of the library
        return Outcome(REFUSED, f"argument: {error!r}")
    if any(callable(arguments[name]) and call.chosen[name][0] == "hostile" for name in _functions_of(call)):
        return Outcome(REFUSED, "a function of the caller's")
    try:
        with _watched():
            answer = call.target.call(**arguments)
            call.target.valid(answer, arguments)
    except AssertionError as error:
        return Outcome(WRONG, f"answer: {error}")
    except BaseException as error:
        return judged(error)
    return Outcome(ANSWERED, type(answer).__name__)


def _functions_of(call: Call) -> list[str]:
    """Return the names of the arguments of a call that are of FUNCTIONS."""
    kinds = call.target.kinds.items()
    return [name for name, kind in kinds if kind.removeprefix("?") in FUNCTIONS and name in call.chosen]


@contextlib.contextmanager
def _watched() -> Any:
    """Turn warnings into errors, except documented ones, and print nothing."""
    import pactree_mcmc as pt

    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        warnings.filterwarnings("ignore", module=r"arviz|sklearn|xarray|polars")
        warnings.filterwarnings(
            "ignore", message=r"pkg_resources|.*is on its way|.*cannot be continued|.*nothing was checked"
        )
        with np.errstate(divide="warn", over="warn", invalid="warn"):
            yield


def judged(error: BaseException) -> Outcome:
    """Return the outcome of an error: a refusal if the library raised it on purpose, in words, else a fault."""
    what = f"{type(error).__name__}: {_short(str(error))} [{_place(error)}]"
    frames = traceback.extract_tb(error.__traceback__)
    if frames[-1].filename.endswith("hostile.py") and any("/sklearn/" in frame.filename for frame in frames):
        return Outcome(REFUSED, what)  # it passes on what an object raises that is no array
    if isinstance(error, ValueError | TypeError) and not isinstance(error, UnicodeError):
        if any("/sklearn/" in frame.filename for frame in frames):  # its own checks of what an estimator is given
            return Outcome(REFUSED, what)
        frame = frames[-1]
        package = next((p for p in LIBRARY if f"/{p}/" in frame.filename), None)
        on_purpose = linecache.getline(frame.filename, frame.lineno).strip().startswith("raise ")
        if package is not None and on_purpose and len(str(error)) > 15:
            return Outcome(REFUSED, what)
        if Path(frame.filename).parent.name == "fuzzing" and "argument" in str(error):
            return Outcome(REFUSED, what)
    return Outcome(WRONG, what)


def _short(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()[:200]


def _place(error: BaseException) -> str:
    """Return the innermost line of the library through which the error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if any(f"/{p}/" in f.filename for p in LIBRARY) and "site-packages" not in f.filename]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"


def described(call: Call, world: World) -> str:
    """Return a call as text."""
    try:
        arguments = call.arguments(world)
    except Exception as error:
        return f"{call.target.name}: {error!r}"
    return f"{call.target.name}({', '.join(f'{name}={_words(value)}' for name, value in arguments.items())})"


def _words(value: Any) -> str:
    try:
        return _short(reprlib.repr(value))
    except Exception:
        return f"a {type(value).__name__}"


def shown(call: Call, world: World) -> str:
    """Make a call and return its answer, or its whole traceback, as text."""
    try:
        return repr(call.target.call(**call.arguments(world)))[:2000]
    except BaseException:
        return traceback.format_exc()
