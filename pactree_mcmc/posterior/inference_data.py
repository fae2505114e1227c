"""Interface to ArviZ, with draws as InferenceData (ArviZ 0.x) or a DataTree (1.x), and the summary table of a run."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.checks import Seed, check_choice, check_flag, read_generator
from ..core.texts import require_package, warn
from ..files.calls import Call, library_version
from ..model.leaf.positive import SurvivalLeaf
from ..tree.coded import route_into
from .convergence import feature_indicators, verdict
from .draws import DrawnTrees
from .ess import ess, rhat
from .rows.left_out import log_densities, log_likelihoods
from .rows.predictive import draw_new_y, draw_predictions, refuse_loss, refuse_no_expectation
from .trees.distances import distances_from, draw_label, focal_draws, tree_ess_of
from .trees.support import frequency_by_chain, most_probable_nodes, split_frequencies, words_of_node

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
    posterior: DrawnTrees,
    *,
    log_likelihood: bool | Literal["exact"] = False,
    posterior_predictive: bool = False,
    expectation: Any = False,
    rng: Seed = 0,
) -> Any:
    """Return the draws in the form of the installed ArviZ; see `SampledPosterior.to_arviz`."""
    az = load_arviz()
    groups = datasets(
        posterior,
        log_likelihood=log_likelihood,
        posterior_predictive=posterior_predictive,
        expectation=expectation,
        rng=rng,
    )
    if not az.__version__.startswith("0."):
        import xarray as xr

        return xr.DataTree.from_dict(groups)
    return az.InferenceData(attrs=groups.pop("/").attrs, **groups)


def datasets(
    posterior: DrawnTrees,
    *,
    log_likelihood: bool | Literal["exact"] = False,
    posterior_predictive: bool = False,
    expectation: Any = False,
    rng: Seed = 0,
) -> dict[str, Any]:
    """Return the groups of `to_arviz` as datasets of xarray, by name; "/" has the common attributes.

    ArviZ is not needed, so that files are written without it.
    """
    import xarray as xr

    if isinstance(log_likelihood, str):
        check_choice("log_likelihood", log_likelihood, ["exact"])
    else:
        check_flag("log_likelihood", log_likelihood)
    check_flag("posterior_predictive", posterior_predictive)
    rng, model = read_generator(rng), posterior.model
    rows = None
    if not isinstance(expectation, bool):
        rows = model.columns.numbers(expectation)
    elif expectation:
        rows = model.row_numbers(np.arange(model.n_rows))
    if rows is not None:
        refuse_no_expectation(model)
    traces, labels = tree_traces(posterior)
    groups = _arrays_by_group(posterior, traces)
    if posterior_predictive:
        name, new_y, observed = predictive_draws(posterior, rng)
        groups["posterior_predictive"] = {name: new_y}
        if observed is not None:
            groups["observed_data"][name] = observed
    coords = {"feature": list(model.columns.names), "move": list(posterior.moves), "row": np.arange(model.n_rows)}
    coords |= labels
    if model.target.values.ndim == 2 and model.target.names:
        # the name that ArviZ gives to the second dimension of y
        coords["y_dim_1"] = list(model.target.names)
    dims = dict(DIMS_BY_VARIABLE)
    if rows is not None:
        groups["posterior"]["expectation"] = expectation_draws(posterior, rows, rng)
        dims["expectation"] = ["row" if isinstance(expectation, bool) else "new_row"]
        coords["new_row"] = np.arange(len(rows))
        if model.classes_ is not None:
            dims["expectation"].append("class")
            coords["class"] = model.classes_.tolist()
    attrs = {
        "inference_library": "pactree_mcmc",
        "inference_library_version": library_version(),
        "sampling_time": float(posterior.seconds),
        "model": repr(model),
        **_attrs_of_calls(posterior.calls),
    }
    out = {"/": xr.Dataset(attrs=attrs)}
    out |= {name: _dataset(name, variables, coords, attrs, dims) for name, variables in groups.items()}
    if log_likelihood:
        by_row = log_densities(posterior)[0] if isinstance(log_likelihood, str) else log_likelihoods(posterior)
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
    """Return the xarray dataset of a group with ``variables`` by name, and ``coords``, the labels by dimension.

    The first dimensions are chain and draw, except in a ``group`` whose name ends in "_data". ``dims`` has the names of
    those behind them. Other dimensions get a name from the variable, as in ArviZ.
    """
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


def tree_traces(posterior: DrawnTrees) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Return the traces "support" and "tree_distance", (chains, draws, m) each, and labels of their last axes, "cell"
    and "focal".

    The first are 0/1 indicators of up to 20 cells (sets of training rows of a node) with a probability near one half,
    the second the numbers of cells in which a draw differs from each of up to 12 focal trees, draws evenly spaced.
    Without cells between probability 0 and 1 there is no "support".
    """
    cells = posterior.cells
    probability = frequency_by_chain(posterior).mean(axis=0)
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
    draws = focal_draws(posterior, MAX_FOCAL_TREES)
    distances = distances_from(posterior, posterior.tree_of_draw.ravel()[draws])
    traces: dict[str, np.ndarray] = {
        "tree_distance": np.moveaxis(distances.astype(np.int32)[:, posterior.tree_of_draw], 0, -1)
    }
    labels = {"focal": [draw_label(posterior, draw) for draw in draws.tolist()]}
    if traced_cells:
        nodes = most_probable_nodes(posterior, cells.of_node)[traced_cells].tolist()
        labels["cell"] = unique_labels([words_of_node(posterior, node) for node in nodes])
        traces["support"] = np.moveaxis(np.array(indicators, dtype=np.int8)[:, posterior.tree_of_draw], 0, -1)
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


def _arrays_by_group(posterior: DrawnTrees, traces: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Return the arrays of `to_arviz` by group, such as "sample_stats", and name, but not those made on request only.

    Those of "posterior" and "sample_stats" are (chains, draws, ...). Those of "observed_data" and, if there are weights
    or estimation rows, "constant_data" have one entry or line per training row. The group "posterior" includes
    ``traces``: the indicators of cells and the distances between trees that `tree_traces` returns.
    """
    target = posterior.model.target
    y = target.values if target.classes is None else target.classes[target.values]
    event = None
    if isinstance(posterior.model.leaf, SurvivalLeaf):
        y, event = y[:, 0], y[:, 1] == 1.0
    groups = {
        "posterior": scalars_by_draw(posterior) | {"split_counts": posterior.split_counts} | traces,
        "sample_stats": {"lp": posterior.log_prior + posterior.log_score},
        "observed_data": {"y": y if y.dtype.kind in "fiubU" else y.astype(str)},
    }
    if event is not None:
        groups["observed_data"]["event"] = event
    if not posterior.model.leaf.has_additive_score:
        groups["posterior"]["noise_variance"] = posterior.noise_variance
    if posterior.moves:
        groups["sample_stats"]["acceptance_rate"] = posterior.accepted / np.maximum(posterior.proposed, 1)
        groups["sample_stats"]["proposals"] = posterior.proposed
    optional = {"sample_weight": target.weight, "estimation": target.estimation}
    constant = {name: values for name, values in optional.items() if values is not None}
    return groups | ({"constant_data": constant} if constant else {})


def predictive_draws(posterior: DrawnTrees, rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray | None]:
    """Draw a new y of every training row from each draw.

    Returns the name of the variable, the new values (chains, draws, n) and the observed ones (n,), with one more axis
    if y has columns. The name is "y", or "class_number" if class labels are not numbers; then values are positions
    among the sorted classes. If times are censored it is "uncensored_y", and observed values are None: when a row with
    an event would have been censored is unknown.
    """
    model = posterior.model
    refuse_loss(model)
    merged_row = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    leaf = np.empty(len(merged_row), dtype=np.int64)

    def leaves_in(t: int) -> np.ndarray:
        """Return the leaf (n,) of distinct tree ``t`` that each training row reaches, a number over all trees."""
        route_into(leaf, posterior.coded_trees, t, model.units.codes, merged_row)
        return leaf

    y = draw_new_y(posterior, posterior.tree_of_draw.ravel(), leaves_in, rng, np.arange(model.n_rows))
    y = y.reshape(*posterior.tree_of_draw.shape, *y.shape[1:])
    if isinstance(model.leaf, SurvivalLeaf):
        time, event = model.target.values.T
        if event.all():
            return "y", y, time
        warn(
            "some times are censored, and the new times are not, so these are named uncensored_y and have no observed "
            "times beside them; survival_calibration compares both."
        )
        return "uncensored_y", y, None
    if model.classes_ is None:
        return "y", y, model.target.values
    if model.classes_.dtype.kind in "fiu":
        return "y", model.classes_[y], model.classes_[model.target.values]
    return "class_number", y, model.target.values


def expectation_draws(posterior: DrawnTrees, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw E(y | x), or P(y | x), at ``rows`` (n, p) from each draw: (chains, draws, n), or (chains, draws, n, K).

    The tree is that of the draw, and the leaf parameters are drawn.
    """
    expectations = draw_predictions(posterior, posterior.tree_of_draw.ravel(), rows, rng)
    expectations = expectations.reshape(*posterior.tree_of_draw.shape, *expectations.shape[1:])
    return expectations[..., 0] if posterior.model.classes_ is None else expectations


def scalars_by_draw(posterior: DrawnTrees) -> dict[str, np.ndarray]:
    """Return the scalars n_leaves, depth, log_prior, log_score of each draw, each (chains, draws)."""
    names = ("n_leaves", "depth", "log_prior", "log_score")
    return {name: getattr(posterior, name) for name in names}


def summary_table(posterior: DrawnTrees) -> pd.DataFrame:
    """Return the table of the scalars, features and trees; see `SampledPosterior.summary`."""
    import pandas as pd

    scalars = scalars_by_draw(posterior)
    scalars["lp"] = scalars["log_prior"] + scalars["log_score"]
    features = feature_indicators(posterior)
    for name, by_tree in zip(features.names, features.by_tree, strict=True):
        scalars[name] = by_tree[posterior.tree_of_draw]
    rows = {
        name: (np.mean(values), np.std(values, ddof=1) if values.size > 1 else math.nan, ess(values), rhat(values))
        for name, values in scalars.items()
    }
    trees, frequencies = tree_ess_of(posterior), split_frequencies(posterior, MIN_CELL_FREQUENCY)
    rows["tree distance"] = trees.mean_distance, trees.sd_distance, trees.frechet, trees.rhat
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "ess_bulk", "rhat"], dtype=np.float64)
    proposed, accepted = posterior.proposed.sum(axis=(0, 1)), posterior.accepted.sum(axis=(0, 1))
    rates = accepted / np.maximum(proposed, 1)
    table.attrs["acceptance"] = dict(zip(posterior.moves, rates.tolist(), strict=True))
    table.attrs["verdict"] = verdict(posterior)
    table.attrs["asdsf"], table.attrs["tree_ess"] = frequencies._asdict(), trees._asdict()
    return table
