"""Interface to ArviZ, with draws as InferenceData (ArviZ 0.x) or a DataTree (1.x), and the summary table of a run."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.checks import Seed, check_choice, check_flag, read_generator
from ..core.texts import require_package, warn
from ..files.calls import Call, library_version
from ..files.store import AnyPath, check_output_path, write_parts
from ..model import TreeModel
from ..tree.coded import route_into
from .convergence import feature_indicators, verdict
from .distribution import HasDraws, TreeDistribution, draws_of
from .draws import Draws
from .ess import ess, rhat
from .rows.left_out import log_densities, log_likelihoods
from .rows.predictions import draw_new_y, draw_predictions, refuse_loss, refuse_no_expectation
from .trees.distances import distances_from, draw_label, focal_draws, tree_ess
from .trees.support import asdsf, frequency_by_chain, most_probable_nodes, words_of_node

if TYPE_CHECKING:
    import pandas as pd


MAX_ATTRIBUTE_LENGTH = 8000
"""Largest number of characters of an attribute; HDF5 files do not accept longer texts."""
MAX_TRACED_CELLS, MAX_FOCAL_TREES = 20, 12
"""Largest numbers of cells, and of focal trees, whose indicators and distances are exported."""
MIN_CELL_FREQUENCY = 0.1
"""Smallest frequency, in some chain, of the cells whose frequencies `summary_table` compares between chains (ASDSF)."""
VARIABLES_BY_DIM = {
    "cell": ("support",),
    "focal": ("tree_distance",),
    "feature": ("split_counts",),
    "move": ("acceptance_rate", "proposals"),
    "row": ("y", "event", "uncensored_y", "class_number", "sample_weight", "estimation"),
}
DIMS_BY_VARIABLE = {name: [dim] for dim, names in VARIABLES_BY_DIM.items() for name in names}
"""Names of the dimensions of each variable behind chain and draw."""


def load_arviz() -> Any:
    """Return the module ArviZ, imported without the notice that its last 0.x release prints."""
    require_package("arviz", "to_arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    return arviz


def to_arviz(
    post: TreeDistribution,
    *,
    log_likelihood: bool | Literal["exact"] = False,
    posterior_predictive: bool = False,
    expectation: Any = False,
    draws: int = 1000,
    rng: Seed = 0,
) -> Any:
    """Return the draws for ArviZ: InferenceData (ArviZ 0.x) or a DataTree (1.x).

    Parameters
    ----------
    log_likelihood : bool or "exact", default False
        Add the log density of each row given all other rows, for leave-one-out cross-validation; chains * draws * n
        numbers. If True they are smoothed for ``arviz.loo``, see the notes; if "exact" they are not.
    posterior_predictive : bool, default False
        Add a new y of each training row from each draw, for ``arviz.plot_ppc``; chains * draws * n numbers.
    expectation : bool or table of shape (n, p), default False
        Add E(y | x), or P(y | x), given the tree of each draw and leaf parameters drawn: of every training row if
        True, or of these rows; chains * draws * n numbers, times K for classes.
    draws : int, default 1000
        Number of trees drawn from a posterior that does not consist of draws.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness of those draws, of the new y and of the leaf parameters.

    Returns
    -------
    InferenceData (ArviZ 0.x) or DataTree (ArviZ 1.x)
        ``posterior``, by chain and draw: n_leaves, depth, log_prior, log_score; split_counts (feature);
        noise_variance under NormalSharedVariance; support (cell), 0 or 1, of up to 20 cells whose probability is
        nearest to one half; tree_distance (focal), the number of cells in which the tree differs from each of up to
        12 trees drawn;
        expectation (row, or new_row for rows that were given; class).
        ``sample_stats``: lp, the unnormalised log posterior in nats; of chains also acceptance_rate, in [0, 1], and
        proposals (move), since the previous draw. ``observed_data``: y (row); of times also event (row), False if
        censored. ``constant_data``: sample_weight and estimation (row), if given. ``log_likelihood``: y (row) of
        the rows that enter the score: not those of weight zero, nor under FrozenLaplace those of E.
        ``posterior_predictive``: y (row), of weight 1 and the row's exposure, and event (row) if a leaf of one's own
        draws it; if times are censored, and the draws are not, uncensored_y instead, which has no observed y beside
        it. Labels that are not numbers appear here, and beside y in ``observed_data``, as class_number, their position
        among the sorted classes.

    Raises
    ------
    ValueError
        If one of these is asked for and the leaf is a loss, ``expectation`` does not fit the model's columns, or
        ``log_likelihood`` of a progressive mixture.

    Notes
    -----
    The log likelihood is ``log p(y_i | y_-i, T)`` for the tree T of the draw, with parameters integrated out given
    the other rows. So ``1 / p(y_i | y_-i)`` is the mean over draws of ``1 / p(y_i | y_-i, T)``, which ``arviz.loo``
    estimates. These densities take few values, to which ``arviz.loo`` cannot fit a tail. With True they are
    therefore multiplied by log-normal noise that leaves that mean as it is. The noise is large if the weights of
    the draws are uneven or the row determines its leaf, so that ArviZ warns of these rows and not of others. It
    makes ArviZ's ``p_loo`` too large. With fewer than 400 draws only ties are broken. Cost O(distinct trees *
    (units * depth + n * statistics)).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> post.to_arviz()["posterior"]["split_counts"].shape
    (2, 200, 1)
    """
    generator = read_generator(rng)
    sampled, az = draws_of(post, draws, generator), load_arviz()
    more: dict[str, Any] = {"posterior_predictive": posterior_predictive, "expectation": expectation, "rng": generator}
    groups = datasets(sampled, log_likelihood=log_likelihood, **more)
    if not az.__version__.startswith("0."):
        import xarray as xr

        return xr.DataTree.from_dict(groups)
    return az.InferenceData(attrs=groups.pop("/").attrs, **groups)


def save(post: TreeDistribution, path: AnyPath, *, log_likelihood: bool = False) -> None:
    """Write the posterior to one netCDF file (.nc, .nc4 or .netcdf).

    The file has the groups of `to_arviz`, for ArviZ and xarray, and in a group ``pactree_mcmc`` the model with its
    coded data, the trees, and the end of each chain, so that `load` gives a posterior that predicts the same to the
    last bit and that `resume` can continue. No pickle: JSON text and arrays of numbers.

    Parameters
    ----------
    path : path-like
        A file is replaced, after the new one is safely on the disk. Its permissions stay, and so does a symbolic
        link.
    log_likelihood : bool, default False
        Add the log density of each row given all other rows to the groups for ArviZ.

    Raises
    ------
    ValueError
        If the posterior does not consist of draws (the message says what to save), the suffix is unknown, the folder
        does not exist, or the posterior holds what no file can hold, such as a leaf that is neither one of the library
        nor a CustomLeaf. Of a leaf, a split prior or a move of your own the file holds a name and some values and no
        code: `load` asks for it.
    OSError
        If it cannot be written, such as on a full disk; a file that was at ``path`` is unchanged.

    Notes
    -----
    Size: the coded data, 29 bytes and the statistics a node of the distinct trees, and the chains: 4 bytes a unit,
    and in kernel "whole" up to 40 MB of graphs.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     post.save(pathlib.Path(folder) / "run.nc")
    ...     again = pt.load(pathlib.Path(folder) / "run.nc")
    >>> bool((again.predict_proba([[3.0]]) == post.predict_proba([[3.0]])).all())
    True
    """
    if post.draws is None:
        refuse_to_save(post)
    else:
        path = check_output_path(path)
        parts: dict[str, Any] = {"model": post.model.parts_in_file, "draws": post.draws.record()}
        parts["course"] = getattr(post, "course", None)
        write_parts(parts, path, datasets(post.draws, log_likelihood=log_likelihood))


def refuse_to_save(post: TreeDistribution) -> None:
    """Raise a ValueError that says what to save instead of a posterior that no file can hold."""
    kind = type(post).__name__
    article = "an" if kind[0] in "AEIOU" else "a"
    raise ValueError(
        f"{article} {kind} cannot be saved: save its model, post.model.save(path), and compute the posterior of "
        "pt.load(path) again; or, for an exact posterior, save draws: post.sample(1000, rng=1).save(path)."
    )


def datasets(
    sampled: Draws,
    *,
    log_likelihood: bool | Literal["exact"] = False,
    posterior_predictive: bool = False,
    expectation: Any = False,
    rng: Seed = 0,
) -> dict[str, Any]:
    """Return the groups of `to_arviz` as datasets of xarray, by name; "/" has the common attributes."""
    import xarray as xr

    if isinstance(log_likelihood, str):
        check_choice("log_likelihood", log_likelihood, ["exact"])
    else:
        check_flag("log_likelihood", log_likelihood)
    check_flag("posterior_predictive", posterior_predictive)
    rng, model = read_generator(rng), sampled.model
    rows = None
    if not isinstance(expectation, bool):
        rows = model.columns.numbers(expectation)
    elif expectation:
        rows = model.row_numbers(np.arange(model.n_rows))
    if rows is not None:
        refuse_no_expectation(model)
    traces, labels = tree_traces(sampled)
    groups = _arrays_by_group(sampled, traces)
    if posterior_predictive:
        name, new_y, observed = predictive_draws(sampled, rng)
        groups["posterior_predictive"] = {name: new_y}
        if has_events(model) and new_y.ndim == 4:
            # a leaf of one's own draws times and events
            groups["posterior_predictive"] = {name: new_y[..., 0], "event": new_y[..., 1] == 1.0}
        if observed is not None:
            groups["observed_data"][name] = observed
    coords = {"feature": list(model.columns.names), "move": list(sampled.moves), "row": np.arange(model.n_rows)}
    coords |= labels
    if model.target.values.ndim == 2 and model.target.names:
        # the name that ArviZ gives to the second dimension of y
        coords["y_dim_1"] = list(model.target.names)
    dims = dict(DIMS_BY_VARIABLE)
    if rows is not None:
        # E(y | x), or P(y | x), from each draw: (chains, draws, n), or (chains, draws, n, K)
        expectations = draw_predictions(sampled, sampled.tree_of_draw.ravel(), rows, rng)
        expectations = expectations.reshape(*sampled.tree_of_draw.shape, *expectations.shape[1:])
        groups["posterior"]["expectation"] = expectations[..., 0] if sampled.model.classes_ is None else expectations
        dims["expectation"] = ["row" if isinstance(expectation, bool) else "new_row"]
        coords["new_row"] = np.arange(len(rows))
        if model.classes_ is not None:
            dims["expectation"].append("class")
            coords["class"] = model.classes_.tolist()
    attrs = {
        "inference_library": "pactree_mcmc",
        "inference_library_version": library_version(),
        "sampling_time": float(sampled.seconds),
        "model": repr(model),
        **_attrs_of_calls(sampled.calls),
    }
    out = {"/": xr.Dataset(attrs=attrs)}
    out |= {name: _dataset(name, variables, coords, attrs, dims) for name, variables in groups.items()}
    if log_likelihood:
        by_row = log_densities(sampled)[0] if isinstance(log_likelihood, str) else log_likelihoods(sampled)
        counted = {"row": model.counted_rows}
        out["log_likelihood"] = _dataset("log_likelihood", {"y": by_row}, counted, attrs, DIMS_BY_VARIABLE)
    return out


def _attrs_of_calls(calls: tuple[Call, ...]) -> dict[str, str]:
    """Return attributes "calls" (lines of Python that repeat a run), "seed" and "versions" (of packages), if any."""
    if not calls:
        return {}
    versions = ", ".join(f"{name} {number}" for name, number in calls[-1].versions.items())
    attrs = {"calls": "\n".join(call.line for call in calls), "seed": str(calls[0].seed), "versions": versions}
    return {name: text[:MAX_ATTRIBUTE_LENGTH] for name, text in attrs.items()}


def _dataset(
    group: str,
    variables: dict[str, np.ndarray],
    coords: dict[str, Any],
    attrs: dict[str, Any],
    dims: dict[str, list[str]],
) -> Any:
    """Return the xarray dataset of a group with ``variables`` by name, and ``coords``, the labels by dimension."""
    import xarray as xr

    of_draws = [] if group.endswith("_data") else ["chain", "draw"]
    content: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    for name, values in variables.items():
        dim_names = [*of_draws, *dims.get(name, [])][: np.ndim(values)]
        n_unnamed = np.ndim(values) - len(dim_names)
        n_named = len(dims.get(name, []))
        dim_names += [f"{name}_dim_{i}" for i in range(n_named, n_named + n_unnamed)]
        content[name] = (dim_names, values)
        labels |= {dim: coords.get(dim, np.arange(size)) for dim, size in zip(dim_names, np.shape(values), strict=True)}
    return xr.Dataset(content, coords=labels, attrs=attrs)


def tree_traces(sampled: Draws) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Return the traces "support" and "tree_distance" (chains, draws, m), and the labels of "cell" and "focal"."""
    # the first are 0/1 indicators of up to 20 cells (sets of training rows of a node) with a probability near one
    # half, the second the numbers of cells in which a draw differs from each of up to 12 focal trees, draws evenly
    # spaced. Without cells between probability 0 and 1 there is no "support".
    cells = sampled.cells
    probability = frequency_by_chain(sampled).mean(axis=0)
    order = np.argsort(np.abs(probability - 0.5), kind="stable")
    order = order[(probability[order] > 0.0) & (probability[order] < 1.0)]
    indicators: list[np.ndarray] = []
    traced_cells: list[int] = []
    for cell in order.tolist():
        has_cell = cells.trees_with(np.array([cell]))[0]
        # the other side of a split has the same trace
        if not any(np.array_equal(has_cell, other) for other in indicators):
            indicators.append(has_cell)
            traced_cells.append(cell)
        if len(traced_cells) == MAX_TRACED_CELLS:
            break
    draws = focal_draws(sampled, MAX_FOCAL_TREES)
    distances = distances_from(sampled, sampled.tree_of_draw.ravel()[draws])
    traces: dict[str, Any] = {"tree_distance": np.moveaxis(distances.astype(np.int32)[:, sampled.tree_of_draw], 0, -1)}
    labels = {"focal": [draw_label(sampled, draw) for draw in draws.tolist()]}
    if traced_cells:
        nodes = most_probable_nodes(sampled, cells.of_node)[traced_cells].tolist()
        labels["cell"] = unique_labels([words_of_node(sampled, node) for node in nodes])
        traces["support"] = np.moveaxis(np.array(indicators, dtype=np.int8)[:, sampled.tree_of_draw], 0, -1)
    return traces, labels


def unique_labels(labels: list[str]) -> list[str]:
    """Return the labels made unique: the second "a" becomes "a (2)", or "a (3)" if another label is "a (2)"."""
    unique: dict[str, None] = {}
    all_labels = set(labels)
    for label in labels:
        number, name = 1, label
        while name in unique or (number > 1 and name in all_labels):
            number += 1
            name = f"{label} ({number})"
        unique[name] = None
    return list(unique)


def _arrays_by_group(sampled: Draws, traces: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Return the arrays of `to_arviz` by group and name, but not those made on request only."""
    target = sampled.model.target
    y = target.values if target.classes is None else target.classes[target.values]
    event = None
    if has_events(sampled.model):
        y, event = sampled.model.leaf.times_and_events(y)
    groups = {
        "posterior": scalars_by_draw(sampled)
        | {"split_counts": sampled.split_counts_of_tree[sampled.tree_of_draw]}
        | traces,
        "sample_stats": {"lp": (sampled.log_prior_of_tree + sampled.log_score_of_tree)[sampled.tree_of_draw]},
        "observed_data": {"y": y if y.dtype.kind in "fiubU" else y.astype(str)},
    }
    if event is not None:
        groups["observed_data"]["event"] = event
    if not sampled.model.leaf.has_additive_score:
        groups["posterior"]["noise_variance"] = sampled.noise_variance
    if sampled.moves:
        groups["sample_stats"]["acceptance_rate"] = sampled.accepted / np.maximum(sampled.proposed, 1)
        groups["sample_stats"]["proposals"] = sampled.proposed
    optional = {"sample_weight": target.weight, "estimation": target.estimation}
    constant = {name: values for name, values in optional.items() if values is not None}
    return groups | ({"constant_data": constant} if constant else {})


def has_events(model: TreeModel) -> bool:
    """Return True if y has two columns, times and events."""
    return model.leaf.has_survival and model.target.values.ndim == 2


def predictive_draws(sampled: Draws, rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Draw a new y of every training row from each draw."""
    # returns the name of the variable, the new values (chains, draws, n), with one more axis if y has columns, and the
    # observed ones, of times without their flags. The name is "y", or "class_number" if class labels are not numbers;
    # then values are positions among the sorted classes. If times are censored, and the new ones are not, it is
    # "uncensored_y", and observed values are None: when a row with an event would have been censored is unknown.
    model = sampled.model
    refuse_loss(model)
    merged_row = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    leaf = np.empty(len(merged_row), dtype=np.int64)

    def leaves_in(t: int) -> np.ndarray:
        """Return the leaf (n,) of distinct tree ``t`` that each training row reaches, a number over all trees."""
        route_into(leaf, sampled.coded_trees, t, model.units.codes, merged_row)
        return leaf

    y = draw_new_y(sampled, sampled.tree_of_draw.ravel(), leaves_in, rng, np.arange(model.n_rows))
    y = y.reshape(*sampled.tree_of_draw.shape, *y.shape[1:])
    if has_events(model):
        time, event = model.target.values.T
        if event.all() or (y.ndim == 4 and not np.all(y[..., 1])):
            return "y", y, time
        warn(
            "some times are censored, and the new times are not, so these are named uncensored_y and have no observed "
            "times beside them; calibration compares both."
        )
        return "uncensored_y", y, None
    if model.classes_ is None:
        return "y", y, model.target.values
    if model.classes_.dtype.kind in "fiu":
        return "y", model.classes_[y], model.classes_[model.target.values]
    return "class_number", y, model.target.values


def scalars_by_draw(sampled: Draws) -> dict[str, np.ndarray]:
    """Return the scalars n_leaves, depth, log_prior, log_score of each draw, each (chains, draws)."""
    names = ("n_leaves", "depth", "log_prior", "log_score")
    return {name: getattr(sampled, f"{name}_of_tree")[sampled.tree_of_draw] for name in names}


def summary(post: HasDraws) -> pd.DataFrame:
    """Return a table of the scalars, features and trees of the draws, with effective sample size and R-hat.

    Returns
    -------
    DataFrame
        Rows n_leaves, depth, log_prior, log_score, lp (the sum of the last two, nats); "root feature 'x'" and
        "inclusion of feature 'x'", as indicators, of the features whose probability lies between 0.02 and 0.98;
        "tree distance", the number of cells in which two draws differ, with ``tree_ess().frechet`` and the largest
        R-hat of the distances from focal trees. Columns mean, sd, ess_bulk, and rhat, which is infinite if each chain
        is constant and not all are equal, and NaN for one chain. ``attrs`` has "acceptance", the accepted fraction of
        the proposals of each move; "verdict", the text of the convergence criteria that fail, or that none fails, which
        proves nothing; "asdsf" and "tree_ess", the results of these methods as dicts.
    """
    import pandas as pd

    scalars = scalars_by_draw(post.draws)
    scalars["lp"] = scalars["log_prior"] + scalars["log_score"]
    features = feature_indicators(post)
    for name, by_tree in zip(features.names, features.by_tree, strict=True):
        scalars[name] = by_tree[post.draws.tree_of_draw]
    rows = {
        name: (np.mean(values), np.std(values, ddof=1) if values.size > 1 else math.nan, ess(values), rhat(values))
        for name, values in scalars.items()
    }
    of_trees, frequencies = tree_ess(post), asdsf(post, MIN_CELL_FREQUENCY)
    rows["tree distance"] = of_trees.mean_distance, of_trees.sd_distance, of_trees.frechet, of_trees.rhat
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "ess_bulk", "rhat"], dtype=np.float64)
    proposed, accepted = post.draws.proposed.sum(axis=(0, 1)), post.draws.accepted.sum(axis=(0, 1))
    table.attrs["acceptance"] = dict(zip(post.draws.moves, (accepted / np.maximum(proposed, 1)).tolist(), strict=True))
    table.attrs["verdict"] = verdict(post)
    table.attrs["asdsf"], table.attrs["tree_ess"] = frequencies._asdict(), of_trees._asdict()
    return table
