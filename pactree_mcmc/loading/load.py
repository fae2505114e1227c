"""Reading a file of this library: a model, a posterior with its draws, or a run on its way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.checks import check_type
from ..files.encoding import CODEC, Encoded, Unknown
from ..files.store import AnyPath, read
from ..mcmc.run.checkpoint import Unfinished
from ..model import CustomLeaf, CustomSplits, TreeModel
from ..model.leaf.custom import LeafOutline
from ..model.model import ModelParts
from ..model.split_prior.custom_splits import SplitsOutline
from ..posterior.draws import Draws, draws_of
from ..posterior.joining import join_chains
from ..posterior.sampled import SampledPosterior
from .require import Nonsense
from .validate import check_draws
from .validate_chains import check_course, check_run
from .validate_model import check_outline, check_parts, check_splits_outline


def load(
    path: AnyPath, *, leaf: CustomLeaf | None = None, split_prior: CustomSplits | None = None
) -> SampledPosterior | TreeModel:
    """Read what the method ``save`` has written: a posterior, or a model.

    Parameters
    ----------
    path : path-like
        A file or Zarr store.
    leaf : CustomLeaf, optional
        The leaf of your own that the file was written with. A file holds no code: of such a leaf it says the name, the
        parameters, and the scores of some cells, with which the one given must agree.
    split_prior : CustomSplits, optional
        The split prior of your own that the file was written with, by the same rule: it says its name, what it weighs,
        its parameters, and the weights of some cuts.

    Returns
    -------
    SampledPosterior or TreeModel
        Of a run on its way, a checkpoint, the draws that every chain has, with a warning; ``resume(path)`` finishes it.

    Raises
    ------
    ValueError
        If the file does not exist, is of another kind, of a later format, damaged or altered, or a checkpoint from
        before every chain had a draw; the message names the file and says what is wrong. If ``leaf`` or ``split_prior``
        is missing, not wanted, or another one than the file was written with.
    """
    parts = _parts(path)
    model = _model(parts, path, leaf, split_prior)
    if "run" in parts:
        return _draws_so_far(model, _run(parts, model, path), path)
    if "draws" not in parts:
        return model
    draws: Draws = _decoded(parts["draws"], path)
    course = None
    _sensible(path, check_draws, draws, model)
    try:
        course = CODEC.decode(parts["course"]) if "course" in parts else None
    except Unknown as error:
        warnings.warn(f"the chains of {path} cannot be continued by this release: {error}.", stacklevel=2)
    if course is not None:
        _sensible(path, check_course, course, draws, model)
    return SampledPosterior(model, **draws._asdict(), course=course)


def load_unfinished(
    path: Any, leaf: CustomLeaf | None = None, split_prior: CustomSplits | None = None
) -> Unfinished | None:
    """The run on its way in a checkpoint; None if the file holds something finished."""
    parts = _parts(path)
    if "run" not in parts:
        return None
    model = _model(parts, path, leaf, split_prior)
    run = _run(parts, model, path)
    return run._replace(plans=tuple(plan._replace(model=model) for plan in run.plans))


def _model(
    parts: dict[str, Encoded], path: Any, leaf: CustomLeaf | None, split_prior: CustomSplits | None
) -> TreeModel:
    content = _decoded(parts["model"], path)
    if isinstance(getattr(content, "leaf", None), LeafOutline):
        content = _with_leaf(content, leaf, path)
    elif leaf is not None:
        raise ValueError(f"{path} says all of its leaf model, {content.leaf!r}; leave leaf= out.")
    if isinstance(getattr(content, "split_prior", None), SplitsOutline):
        content = _with_splits(content, split_prior, path)
    elif split_prior is not None:
        raise ValueError(f"{path} says all of its split prior, {content.split_prior!r}; leave split_prior= out.")
    _sensible(path, check_parts, content)
    return TreeModel.from_parts(content)


def _with_leaf(content: ModelParts, leaf: Any, path: Any) -> ModelParts:
    """The parts of a model with the leaf that the caller gives, if it is the one that the file was written with."""
    outline: Any = content.leaf
    if leaf is None:
        raise ValueError(
            f"{path} was written with a leaf of one's own, {outline.name!r}, and a file holds no code: give the leaf, "
            "as leaf=."
        )
    check_type("leaf", leaf, CustomLeaf, "the CustomLeaf that the file was written with")
    found: list[str | None] = []
    _sensible(path, check_outline, outline, content.target)
    _sensible(path, lambda: found.append(leaf.mismatch(outline, content.target)))
    if found[0] is not None:
        raise ValueError(f"{path} was written with another leaf than {leaf!r}: {found[0]}.")
    return content._replace(leaf=leaf)


def _with_splits(content: ModelParts, splits: Any, path: Any) -> ModelParts:
    """The parts of a model with the split prior that the caller gives, if the file was written with it."""
    outline: Any = content.split_prior
    if splits is None:
        raise ValueError(
            f"{path} was written with a split prior of one's own, {outline.name!r}, and a file holds no code: give the "
            "split prior, as split_prior=."
        )
    check_type("split_prior", splits, CustomSplits, "the CustomSplits that the file was written with")
    found: list[str | None] = []
    _sensible(path, check_splits_outline, outline, content.scales, content.columns)
    _sensible(path, lambda: found.append(splits.mismatch(outline, content.scales)))
    if found[0] is not None:
        raise ValueError(f"{path} was written with another split prior than {splits!r}: {found[0]}.")
    return content._replace(split_prior=splits)


def _run(parts: dict[str, Encoded], model: TreeModel, path: Any) -> Unfinished:
    run = _decoded(parts["run"], path)
    _sensible(path, check_run, run, model)
    return run


def _sensible(path: Any, check: Callable[..., None], *what: Any) -> None:
    """Refuse content that could not be used, in whatever way it is broken."""
    try:
        with np.errstate(all="ignore"):
            check(*what)
    except Exception as error:
        said = str(error) if isinstance(error, Nonsense) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} cannot be used: {said}.") from error


def _parts(path: Any) -> dict[str, Encoded]:
    try:
        parts = CODEC.parts(read(path))
    except Unknown as error:
        raise ValueError(f"{path} cannot be used: {error}.") from error
    if "model" not in parts:
        raise ValueError(f"{path} cannot be used: it holds no model.")
    return parts


def _decoded(encoded: Encoded, path: Any) -> Any:
    try:
        return CODEC.decode(encoded)
    except Unknown as error:
        raise ValueError(f"{path} cannot be used: {error}.") from error


def _draws_so_far(model: TreeModel, run: Unfinished, path: Any) -> SampledPosterior:
    done = [0 if result is None else len(result.saved.tree_of_draw) for result in run.results]
    least, planned = min(done), run.plans[0].draws
    if least == 0:
        raise ValueError(f"{path} is a checkpoint from before every chain had a draw; pt.resume(path) goes on from it.")
    warnings.warn(
        f"{path} is a checkpoint of a run on its way: {least} of {planned} draws a chain; pt.resume(path) finishes it.",
        stacklevel=3,
    )
    found: list[SampledPosterior] = []

    def join() -> None:
        saved = [result.shortened(least).saved for result in run.results if result is not None]
        found.append(join_chains(model, saved, run.plans[0].kernel.moves, run.seconds))
        found[0].calls = tuple(call.ended(None) for call in run.plans[0].calls)
        check_draws(draws_of(found[0]), model)

    _sensible(path, join)
    return found[0]
