"""Changed files of saved posteriors.

Bytes are flipped, cut or moved. Or words and arrays are changed, with a checksum that fits. The library trusts what
such a forged file says of the states of chains. Therefore chains are resumed only if bytes were changed.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.files.encoding import Encoded
from pactree_mcmc.files.store import read_content, write_file
from pactree_mcmc.loading import load as _content

from .answers import probabilities, rows, sampled
from .calls import REFUSED, WRONG, judged

NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, True, None, "", "x", [], {}, [1], {"dict": {}}]


class Files:
    """Two saved posteriors and a model, with the judgement of changed copies of them."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        X = np.column_stack([rng.integers(0, 6, 30), rng.integers(0, 3, 30)]).astype(float)
        y, prior = X[:, 0] + rng.standard_normal(30), pt.ChipmanPrior(0.9, 1.0, max_depth=4)
        settings = {"tune": 5, "chains": 2, "rng": 3, "kernel": "cgm", "progress": False}
        models = [pt.TreeModel(X, y, nominal=[1], tree_prior=prior), pt.TreeModel(X, y > 2, tree_prior=prior)]
        self.rows, self.path = X, folder / "changed.nc"
        self.contents, self.bytes = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number, model in enumerate(models):
                path = folder / f"run{number}.nc"
                pt.sample(model, 8, betas=[None, 3][number], **settings).save(path)
                self.contents.append(read_content(path))
                self.bytes.append(path.read_bytes())
            models[0].save(folder / "model.nc")
            self.contents.append(read_content(folder / "model.nc"))
            self.bytes.append((folder / "model.nc").read_bytes())

    def judge(self, seed: int, number: int) -> tuple[str, str]:
        """Change a file, load it and query what was loaded. The seed and ``number`` determine the change."""
        rng = random.Random(f"files {seed} {number}")
        which = rng.randrange(3)
        if rng.random() < 0.4:
            how = rng.choice(BYTES)
            self.path.write_bytes(how(rng, bytearray(self.bytes[which])))
        else:
            how = rng.choice(CONTENT)
            try:
                changed = how(rng, self.contents[which])
            except (ValueError, TypeError, OverflowError):
                return REFUSED, f"{how.__name__}: no such array"
            if rng.random() < 0.1:
                write_file(self.path, changed, {})
            else:  # as if it had been written and read: both take longer than all that follows
                kind, what = self._loaded(changed)
                return kind, f"{how.__name__}: {what}"
        kind, what = self._loaded(None, resume=how in BYTES)
        return kind, f"{how.__name__}: {what}"

    def _loaded(self, changed: Encoded | None, resume: bool = False) -> tuple[str, str]:
        """Load the file, or the ``changed`` content, and query the result. Return the kind of outcome and a text."""
        reading = read_content if changed is None else lambda path: changed
        try:
            with warnings.catch_warnings(), mock.patch.object(_content, "read_content", reading):
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", pt.ConvergenceWarning)
                warnings.filterwarnings("ignore", message=".*cannot be continued|.*run on its way")
                found = pt.load(self.path)
                if isinstance(found, pt.TreeModel):
                    pt.sample(found, 2, tune=1, chains=1, rng=1, kernel="cgm", progress=False)
                else:
                    self._asked(found)
            if resume and isinstance(found, pt.SampledPosterior) and found.course is not None:
                return self._resumed(found)
        except AssertionError as error:
            return WRONG, f"answer: {error}"
        except BaseException as error:
            outcome = judged(error)
            if outcome.kind == REFUSED and self.path.name not in str(error):
                return WRONG, f"the file is not named: {outcome.what}"
            return outcome
        return "answered", type(found).__name__

    def _resumed(self, post: Any) -> tuple[str, str]:
        """Resume the chains of a posterior. Return the kind of outcome and a text."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", pt.ConvergenceWarning)
            try:
                sampled(pt.resume(post, 2, progress=False), {})
            except ValueError as error:  # the draws are there, the chains cannot go on
                return judged(error)
        return "answered", "resumed"

    def _asked(self, post: Any) -> None:
        """Query a posterior."""
        sampled(post, {})
        given = {"X": self.rows}
        if post.model.classes_ is None:
            rows(post.predict(self.rows), given)
        else:
            probabilities(post.predict_proba(self.rows), given)
        post.map_tree().format()


def flipped(rng: random.Random, content: bytearray) -> bytes:
    """Flip some bits."""
    for _ in range(rng.choice([1, 1, 3, 40])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def overwritten(rng: random.Random, content: bytearray) -> bytes:
    """Replace a stretch of bytes by zeros, ones or noise."""
    start, size = rng.randrange(len(content)), rng.choice([1, 8, 64, 4096])
    size = min(size, len(content) - start)
    content[start : start + size] = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
    return bytes(content)


def moved(rng: random.Random, content: bytearray) -> bytes:
    """Exchange two stretches of bytes."""
    size = rng.choice([8, 64, 512])
    a, b = (rng.randrange(len(content) - size) for _ in range(2))
    content[a : a + size], content[b : b + size] = content[b : b + size], content[a : a + size]
    return bytes(content)


def cut(rng: random.Random, content: bytearray) -> bytes:
    """Remove the end, or a stretch from the middle."""
    start = rng.randrange(len(content))
    return bytes(content[:start] if rng.random() < 0.7 else content[:start] + content[start + rng.randrange(1, 999) :])


BYTES: list[Callable[[random.Random, bytearray], bytes]] = [*[flipped] * 5, *[overwritten] * 3, moved, moved, cut]


def word_changed(rng: random.Random, content: Encoded) -> Encoded:
    """Change one value of the description."""
    form = json.loads(content.text)
    places: list[tuple[Any, Any]] = []
    _collect(form, places)
    holder, key = rng.choice(places)
    other = rng.choice(places)
    holder[key] = rng.choice([*NUMBERS, other[0][other[1]] if _depth(other[0][other[1]]) < 30 else 0])
    return content._replace(text=json.dumps(form))


def entry_lost(rng: random.Random, content: Encoded) -> Encoded:
    """Remove or rename one entry of the description."""
    form = json.loads(content.text)
    places: list[tuple[Any, Any]] = []
    _collect(form, places)
    holder, key = rng.choice(places)
    value = holder.pop(key)
    if isinstance(holder, dict) and rng.random() < 0.5:
        holder[rng.choice(["class", "dict", "array", "records", "labels", "x"])] = value
    return content._replace(text=json.dumps(form))


def text_cut(rng: random.Random, content: Encoded) -> Encoded:
    """Remove a stretch of the description."""
    start = rng.randrange(len(content.text))
    return content._replace(text=content.text[:start] + content.text[start + rng.choice([1, 5, 100, 10**6]) :])


def numbers_changed(rng: random.Random, content: Encoded) -> Encoded:
    """Change some numbers of one array."""
    name, array = _chosen(rng, content)
    flat = array.reshape(-1)
    for _ in range(rng.choice([1, 1, 5])):
        value = rng.choice([0, -1, 1, 2**31 - 1, -(2**31), 255, float("nan"), float("inf"), 1e308, 0.5])
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.float64(value).astype(array.dtype)
    return content._replace(arrays=content.arrays | {name: array})


def array_reshaped(rng: random.Random, content: Encoded) -> Encoded:
    """Shorten, extend, convert, reshape, reverse or remove one array."""
    name, array = _chosen(rng, content)
    how = rng.randrange(6)
    if how == 5:
        return content._replace(arrays={key: a for key, a in content.arrays.items() if key != name})
    with np.errstate(all="ignore"):
        made = [
            lambda: array[: len(array) // 2],
            lambda: np.concatenate([array, array]),
            lambda: array.astype(rng.choice(["f8", "i2", "u1", "i8"])),
            lambda: array[None],
            lambda: array[::-1].copy(),
        ][how]()
    return content._replace(arrays=content.arrays | {name: made})


def arrays_swapped(rng: random.Random, content: Encoded) -> Encoded:
    """Exchange the names of two arrays."""
    a, b = (rng.choice(sorted(content.arrays)) for _ in range(2))
    return content._replace(arrays=content.arrays | {a: content.arrays[b], b: content.arrays[a]})


CONTENT = [*[word_changed] * 3, entry_lost, text_cut, *[numbers_changed] * 4, array_reshaped, arrays_swapped]


def _chosen(rng: random.Random, content: Encoded) -> tuple[str, np.ndarray]:
    """Return the name of a random array, and a copy of the array."""
    name = rng.choice(sorted(content.arrays))
    return name, content.arrays[name].copy()


def _collect(form: Any, places: list[tuple[Any, Any]]) -> None:
    """Append the container and key of every value of a description to ``places``."""
    for key in form if isinstance(form, dict) else range(len(form)):
        places.append((form, key))
        if isinstance(form[key], dict | list):
            _collect(form[key], places)


def _depth(form: Any) -> int:
    """Return the depth to which a description is nested."""
    inner = form.values() if isinstance(form, dict) else form if isinstance(form, list) else ()
    return 1 + max((_depth(x) for x in inner), default=0)
