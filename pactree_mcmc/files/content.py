"""What a file of this library says: a model, a posterior with its draws, or a run on its way."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..mcmc.chain.snapshot import Cells, Replica, Rungs, Snapshot
from ..mcmc.chain.start import Dispersed
from ..mcmc.chain.tempering import LadderReport
from ..mcmc.kernel import Kernel
from ..mcmc.run.task import Length, Plan, Result
from ..mcmc.state.arrays import CELL, GUIDE, LINK, NODE, PIECE, Graph
from ..model import (
    BranchingProcess,
    ChipmanPrior,
    DirichletMultinomial,
    DyadicCuts,
    FixedTree,
    FrozenLaplace,
    GridCuts,
    LeafPenalty,
    LocalCuts,
    NormalInverseGamma,
    NormalKnownVariance,
    NormalSharedVariance,
    PacBayesLoss,
    PoissonGamma,
    TreeModel,
)
from ..model.data import Units
from ..model.leaf.classes import Target
from ..model.model import ModelParts
from ..posterior.evidence import Tempering
from ..posterior.sampled import SampledPosterior
from ..table.coding import DyadicScale, Scale
from ..table.columns import Columns
from ..tree.arrays import CODED_NODE, TreeArrays
from ..tree.drawn import SAVED_TREE, Course, Saved
from ..tree.tree import Tree
from .encoding import Codec, Encoded, Unknown
from .require import Nonsense
from .store import check_target, read, write
from .validate import check_course, check_draws, check_parts, check_run


class Draws(NamedTuple):
    """A sampled posterior apart from its model and what continuing it needs."""

    trees: TreeArrays
    stats: np.ndarray
    tree_of_draw: np.ndarray
    log_prior: np.ndarray
    log_score: np.ndarray
    proposed: np.ndarray
    accepted: np.ndarray
    moves: tuple[str, ...]
    seconds: float
    noise_variance: np.ndarray
    tempering: Tempering | None


BY_TREE = {name: f"{name}_of_tree" for name in ("log_prior", "log_score")}
BY_TREE |= {"trees": "distinct_trees", "stats": "node_stats"}
"""Fields of `Draws` that a posterior has under another name."""


class Unfinished(NamedTuple):
    """A run on its way: plans without model, and what each chain has done; None: nothing yet."""

    plans: tuple[Plan, ...]
    results: tuple[Result | None, ...]
    every: float
    """Seconds between checkpoints."""
    seconds: float
    """Wall time spent."""


MODEL_CLASSES = (
    *(BranchingProcess, ChipmanPrior, LeafPenalty),
    *(LocalCuts, GridCuts, DyadicCuts, FixedTree),
    *(DirichletMultinomial, FrozenLaplace, NormalInverseGamma, NormalKnownVariance, NormalSharedVariance),
    *(PacBayesLoss, PoissonGamma),
    *(ModelParts, Columns, Target, Scale, DyadicScale, Units, Tree),
)
RUN_CLASSES = (
    Plan,
    Length,
    Dispersed,
    Result,
    Kernel,
    Saved,
    LadderReport,
    Snapshot,
    Replica,
    Cells,
    Rungs,
    Graph,
    Unfinished,
)
CODEC = Codec(
    (*MODEL_CLASSES, *RUN_CLASSES, Draws, TreeArrays, Tempering, Course),
    {"NODE": NODE, "CELL": CELL, "GUIDE": GUIDE, "PIECE": PIECE, "LINK": LINK}
    | {"CODED_NODE": CODED_NODE, "SAVED_TREE": SAVED_TREE},
    ("draws.trees", "draws.stats", "draws.tree_of_draw"),
)


def save(posterior: Any, path: Any, *, log_likelihood: bool = False) -> None:
    """Write a sampled posterior to one file: netCDF (.nc, .nc4, .netcdf), or a Zarr store (.zarr).

    The file holds the groups of `SampledPosterior.to_arviz`, for ArviZ and xarray, and in a group ``pactree_mcmc`` the
    model with its coded data, the trees, and where each chain stopped, so that `load` gives a posterior that predicts
    the same to the last bit and that `resume` can continue. It is written beside ``path`` first and put in its place
    when it is safely on the disk. No pickle: JSON text and arrays of numbers.

    Parameters
    ----------
    posterior : SampledPosterior
        From `sample`, `resume`, or the ``sample`` of an exact posterior.
    path : path-like
        A file is replaced.
    log_likelihood : bool, default False
        Add the log density of each row given all other rows to the groups for ArviZ.

    Raises
    ------
    ValueError
        If the suffix is unknown, the folder does not exist, or the posterior holds what no file can hold, such as a
        leaf model of your own or a posterior that is no SampledPosterior.
    OSError
        If it cannot be written, such as on a full disk; what was at ``path`` is still there.

    Notes
    -----
    Size: the coded data, 29 bytes and the statistics a node of the distinct trees, and the chains: 4 bytes a unit, and
    with fractional statistics up to 16 MB of scores a chain and level. Zarr needs the package ``zarr``; a folder is
    replaced by renaming twice, so a crash in between leaves the old one as ``.NAME.old``.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(post, pathlib.Path(folder) / "run.nc")
    ...     again = load(pathlib.Path(folder) / "run.nc")
    >>> bool((again.predict_proba([[3.0]]) == post.predict_proba([[3.0]])).all())
    True
    """
    if type(posterior) is not SampledPosterior:
        raise ValueError(
            f"a {type(posterior).__name__} is not saved: save its model, post.model.save(path), and find the posterior "
            "of pt.load(path) again; or, of an exact posterior, save draws: post.sample(1000, rng=1).save(path)."
        )
    path = check_target(path)
    content = _encoded(
        {"model": posterior.model.parts, "draws": _draws_of(posterior), "course": posterior.course}, path
    )
    write(path, content, _datasets(posterior.to_arviz(log_likelihood=log_likelihood)))


def _draws_of(posterior: SampledPosterior) -> Draws:
    return Draws(**{name: getattr(posterior, BY_TREE.get(name, name)) for name in Draws._fields})


def save_model(model: TreeModel, path: Any) -> None:
    """Write a model to one file; `load` gives it back. Suffixes, errors and cost as for `save`."""
    path = check_target(path)
    write(path, _encoded({"model": model.parts}, path), {})


def save_unfinished(run: Unfinished, model: TreeModel, path: Path) -> None:
    """Write a run on its way, for `load_unfinished`."""
    plans = tuple(plan._replace(model=None) for plan in run.plans)
    write(path, _encoded({"model": model.parts, "run": run._replace(plans=plans)}, path), {})


def load(path: Any) -> Any:
    """Read what `save` has written: a posterior, or a model.

    Parameters
    ----------
    path : path-like
        A file or Zarr store.

    Returns
    -------
    SampledPosterior or TreeModel
        Of a run on its way, a checkpoint, the draws that every chain has, with a warning; ``resume(path)`` finishes it.

    Raises
    ------
    ValueError
        If the file does not exist, is of another kind, of a later format, damaged or altered, or a checkpoint from
        before every chain had a draw; the message names the file and says what is wrong.
    """
    parts = _parts(path)
    model = _model(parts, path)
    if "run" in parts:
        return _draws_so_far(model, _run(parts, model, path), path)
    if "draws" not in parts:
        return model
    draws, course = _decoded(parts["draws"], path), None
    _sensible(path, check_draws, draws, model)
    try:
        course = CODEC.decode(parts["course"]) if "course" in parts else None
    except Unknown as error:
        warnings.warn(f"the chains of {path} cannot be continued by this release: {error}.", stacklevel=2)
    if course is not None:
        _sensible(path, check_course, course, draws, model)
    return SampledPosterior(model, *draws, course=course)


def load_unfinished(path: Any) -> Unfinished | None:
    """The run on its way in a checkpoint; None if the file holds something finished."""
    parts = _parts(path)
    if "run" not in parts:
        return None
    model = _model(parts, path)
    run = _run(parts, model, path)
    return run._replace(plans=tuple(plan._replace(model=model) for plan in run.plans))


def _model(parts: dict[str, Encoded], path: Any) -> TreeModel:
    content = _decoded(parts["model"], path)
    _sensible(path, check_parts, content)
    return TreeModel.from_parts(content)


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


def _encoded(value: dict, path: Path) -> Encoded:
    try:
        return CODEC.encode(value)
    except Unknown as error:
        raise ValueError(f"{path} is not written: {error}.") from error


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


def _datasets(inference_data: Any) -> dict[str, Any]:
    """Groups of InferenceData (ArviZ 0.x) or of a DataTree (1.x) as datasets; "/" has the attributes of the whole."""
    import xarray as xr

    out = {"/": xr.Dataset(attrs=dict(inference_data.attrs))}
    if hasattr(inference_data, "to_dataset"):
        return out | {name: node.to_dataset() for name, node in inference_data.children.items()}
    return out | {name: inference_data[name] for name in inference_data.groups()}


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
        saved = [result.shortened(least).saved for result in run.results]
        found.append(SampledPosterior.from_chains(model, saved, run.plans[0].kernel.moves, run.seconds))
        check_draws(_draws_of(found[0]), model)

    _sensible(path, join)
    return found[0]
