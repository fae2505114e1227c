"""Reading of a file of this library: a model, a posterior, or the checkpoint of an unfinished run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.checks import check_type
from ..core.texts import warn
from ..files.encoding import CODEC, Encoded, NotStorable
from ..files.store import AnyPath, read_content
from ..model import CustomLeaf, CustomSplits, TreeModel
from ..model.leaf.custom import LeafOutline
from ..model.split_prior.base import SplitsOutline
from ..posterior.draws import Course, Draws, DrawsInFile
from ..posterior.sampled import SampledPosterior
from .validate import InvalidFile, check_course, check_draws, check_outline, check_parts, check_splits_outline


def load(
    path: AnyPath, *, leaf: CustomLeaf | None = None, split_prior: CustomSplits | None = None
) -> SampledPosterior | TreeModel:
    """Read a posterior or a model that the method ``save`` has written.

    Parameters
    ----------
    path : path-like
        A netCDF file.
    leaf : CustomLeaf, optional
        The leaf of your own that the file was written with. A file contains no code. Of such a leaf it contains the
        name, the parameters and the scores of some cells, with which the given leaf must agree.
    split_prior : CustomSplits, optional
        The split prior of your own that the file was written with, by the same rule. The file contains its name, the
        split prior that it weighs, its parameters and the weights of some cuts.

    Returns
    -------
    SampledPosterior or TreeModel
        If the file is the checkpoint of an unfinished run, the draws that every chain has, with a warning.
        ``resume(path)`` finishes the run.

    Raises
    ------
    ValueError
        If the file does not exist, is of another kind or format, is damaged or altered, or is a checkpoint from before
        every chain had a draw. The message names the file and says what is wrong. Also if ``leaf`` or ``split_prior``
        is missing, not needed, or not the one that the file was written with.
    """
    model, post, course = load_run(path, leaf, split_prior)
    if course is not None and course.draws_by_chain:
        return _posterior_so_far(post, course, path)
    return model if post is None else post


def load_run(
    path: Any, leaf: CustomLeaf | None = None, split_prior: CustomSplits | None = None
) -> tuple[TreeModel, SampledPosterior | None, Course | None]:
    """Return the model of a file, its posterior, and the course of its run, None if it has none."""
    # ``leaf`` and ``split_prior`` are those of the user, as for `load`. In a checkpoint, whose course has
    # ``draws_by_chain``, a chain may have fewer draws than the posterior
    parts = _read_parts(path)
    content = _decode_part(parts["model"], path)
    content = _with_user_part(content, "leaf", leaf, path)
    content = _with_user_part(content, "split_prior", split_prior, path)
    _run_check(path, check_parts, content)
    model = TreeModel.from_parts(content)
    record: DrawsInFile | None = _decode_part(parts["draws"], path) if "draws" in parts else None
    if record is not None:
        _run_check(path, check_draws, record, model)
    course = None
    try:
        course = CODEC.decode(parts["course"]) if "course" in parts else None
    except NotStorable as error:
        if record is None:
            raise ValueError(f"{path} cannot be used: {error}.") from error
        warn(f"the chains of {path} cannot be continued by this release: {error}.")
    if course is not None:
        _run_check(path, check_course, course, record, model)
        course = course._replace(request=course.request._replace(model=model))
    if record is None:
        return model, None, course
    # a file may have trees that no draw has
    draws = Draws(model, **record._asdict()).without_undrawn_trees()
    return model, SampledPosterior(draws, None if course is None or course.draws_by_chain else course), course


USER_PARTS: dict[str, tuple[Any, Any, str]] = {
    "leaf": (LeafOutline, CustomLeaf, "leaf"),
    "split_prior": (SplitsOutline, CustomSplits, "split prior"),
}
"""For each part of a model that a user may write: class of its description in a file, class of the part, its name in
messages."""


def _with_user_part(content: Any, name: str, user_part: Any, path: Any) -> Any:
    """Return the parts of a model with ``user_part``, the user's leaf or split prior, in place of its description."""
    # ``name`` is "leaf" or "split_prior". Return the parts as they are if the file contains the whole part. Raise a
    # ValueError if ``user_part`` is missing, not needed, or differs from the description
    outline_class, user_class, words = USER_PARTS[name]
    outline = getattr(content, name, None)
    if not isinstance(outline, outline_class):
        if user_part is not None:
            noun = "leaf model" if name == "leaf" else words
            raise ValueError(f"{path} says all of its {noun}, {outline!r}; leave {name}= out.")
        return content
    if user_part is None:
        raise ValueError(
            f"{path} was written with a {words} of one's own, {outline.name!r}, and a file holds no code: give the "
            f"{words}, as {name}=."
        )
    check_type(name, user_part, user_class, f"the {user_class.__name__} that the file was written with")
    if name == "leaf":
        _run_check(path, check_outline, outline, content.target)
        mismatch = _run_check(path, user_part.mismatch, outline, content.target)
    else:
        _run_check(path, check_splits_outline, outline, content.scales, content.columns)
        mismatch = _run_check(path, user_part.mismatch, outline, content.scales)
    if mismatch is not None:
        raise ValueError(f"{path} was written with another {words} than {user_part!r}: {mismatch}.")
    return content._replace(**{name: user_part})


def _run_check(path: Any, check: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``check(*arguments)``. Any exception in it becomes a ValueError that names the file ``path``."""
    try:
        with np.errstate(all="ignore"):
            return check(*arguments)
    except Exception as error:
        message = str(error) if isinstance(error, InvalidFile) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} cannot be used: {message}.") from error


def _read_parts(path: Any) -> dict[str, Encoded]:
    """Return the parts of a file by name, such as "model" and "draws", still encoded. There must be a "model"."""
    try:
        parts = CODEC.parts(read_content(path))
    except NotStorable as error:
        raise ValueError(f"{path} cannot be used: {error}.") from error
    if "model" not in parts:
        raise ValueError(f"{path} cannot be used: it holds no model.")
    return parts


def _decode_part(encoded: Encoded, path: Any) -> Any:
    """Return the value of an encoded part of a file. A ValueError names the file if it cannot be decoded."""
    try:
        return CODEC.decode(encoded)
    except NotStorable as error:
        raise ValueError(f"{path} cannot be used: {error}.") from error


def _posterior_so_far(post: SampledPosterior | None, course: Course, path: Any) -> SampledPosterior:
    """Return as many draws of each chain of a checkpoint as all chains have, and warn."""
    # raise a ValueError that names the file ``path`` if a chain has no draw
    n_draws = min(course.draws_by_chain)
    if n_draws == 0 or post is None:
        raise ValueError(f"{path} is a checkpoint from before every chain had a draw; pt.resume(path) goes on from it.")
    warn(
        f"{path} is a checkpoint of a run on its way: {n_draws} of {course.stretch.goal} draws a chain; "
        "pt.resume(path) finishes it."
    )
    names = ("tree_of_draw", "proposed", "accepted", "noise_variance")
    by_draw = {name: getattr(post.draws, name)[:, :n_draws] for name in names}
    calls = tuple(call.with_outcome(None) for call in post.draws.calls)
    return SampledPosterior(post.draws.replace(**by_draw, tempering=None, calls=calls).without_undrawn_trees())
