"""Interface to ArviZ: draws as InferenceData (ArviZ 0.x) or a DataTree (1.x), effective sample size, R-hat, summary."""

from __future__ import annotations

import math
import warnings
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.checks import Seed, check_choice, check_flag, read_generator
from ..files.calls import Call
from ..tree.coded import route_into
from .convergence import features_judged, verdict, weights_judged
from .left_out import log_densities, log_likelihoods
from .predictive import draw_new_y, refuse_loss
from .space.support import frequency_by_chain, most_probable_nodes, words_of_node
from .space.tree_ess import distances_from, draw_words, focal_draws

if TYPE_CHECKING:
    import pandas as pd

    from .sampled import SampledPosterior

FEWEST_DRAWS = 4
LONGEST_ATTR = 8000
"""Characters of an attribute: files refuse long ones."""
MOST_CELLS, MOST_FOCAL = 20, 12
"""Cells, and focal trees, of which there are traces."""
DIMS = {"support": ["cell"], "tree_distance": ["focal"]}
DIMS |= {
    "split_counts": ["feature"],
    "feature_weights": ["feature"],
    "acceptance_rate": ["move"],
    "proposals": ["move"],
}
DIMS |= {"y": ["row"], "class_number": ["row"], "sample_weight": ["row"], "estimation": ["row"]}


def load_arviz() -> Any:
    """The ArviZ package, imported without the notice that its last 0.x release prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz
    return arviz


def to_arviz(
    posterior: SampledPosterior,
    *,
    log_likelihood: bool | Literal["exact"] = False,
    posterior_predictive: bool = False,
    rng: Seed = 0,
) -> Any:
    """The draws for ArviZ.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.
    log_likelihood : bool or "exact", default False
        Add the log density of each row given all other rows, for leave-one-out cross-validation; chains * draws * n
        numbers. If True they are smoothed for ``arviz.loo``, as the notes say. If "exact" they are not.
    posterior_predictive : bool, default False
        Add a new y of each training row from each draw, for ``arviz.plot_ppc``; chains * draws * n numbers.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness of the new y.

    Returns
    -------
    InferenceData (ArviZ 0.x) or DataTree (ArviZ 1.x)
        ``posterior``: n_leaves, depth, log_prior, log_score (chain, draw), split_counts (chain, draw, feature), and
        noise_variance (chain, draw) under NormalSharedVariance; feature_weights (chain, draw, feature) and
        concentration (chain, draw) under DirichletWeights, and log_prior given them; support (chain, draw, cell), 0 or
        1, whether the tree has each of up to 20 cells whose probability is nearest to one half, and tree_distance
        (chain, draw, focal), in how many cells the tree differs from each of up to 12 trees drawn.
        ``sample_stats``: lp, the unnormalised log posterior in nats (chain, draw); acceptance_rate, in [0, 1], and
        proposals (chain, draw, move), since the previous draw; the rate is 0 if nothing was proposed. Independent draws
        have neither.
        ``observed_data``: y (row), labels as given. ``constant_data``: sample_weight, estimation (row), those given.
        ``log_likelihood``: y (chain, draw, row), on request, of the rows that enter the score: not those of weight
        zero, nor under FrozenLaplace those of E, which determine the leaves; ``row`` says which rows they are.
        ``posterior_predictive``: y (chain, draw, row), on request: for the tree of each draw the parameters of its
        leaves are drawn given their rows, then a y for every training row, of weight 1 and the row's exposure. Labels
        that are not numbers appear here, and beside y in ``observed_data``, as class_number, their position among the
        sorted classes.

    Raises
    ------
    ValueError
        If either is asked for and the leaf is a loss, or ``log_likelihood`` and the draws are of a progressive
        mixture.

    Notes
    -----
    The log likelihood is ``log p(y_i | y_-i, T)`` for the tree T of the draw: the difference that row i makes to the
    score of the tree, with parameters integrated out given the other rows (or frozen on E). So ``1 / p(y_i | y_-i)`` is
    the mean over draws of ``1 / p(y_i | y_-i, T)``, which ``arviz.loo`` estimates. A row of weight w counts w times:
    its density is that of y_i observed w times. A variance common to all leaves is integrated out given the other rows
    of the whole tree. These densities take few values, to which ``arviz.loo`` cannot fit a tail. With True they are
    therefore multiplied by log-normal noise that leaves the mean over draws of ``1 / p(y_i | y_-i, T)`` as it is. The
    noise is large if the weights of the draws are uneven or the row determines its leaf, so that ArviZ warns of these
    rows and not of others. The noise is part of ArviZ's ``p_loo``, which is therefore too large. With fewer than 400
    draws, ties are broken by differences of 1e-11 and no more.

    Cost O(distinct trees * (units * depth + n * statistics)).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> to_arviz(post)["posterior"]["split_counts"].shape
    (2, 200, 1)
    """
    if isinstance(log_likelihood, str):
        check_choice("log_likelihood", log_likelihood, ["exact"])
    else:
        check_flag("log_likelihood", log_likelihood)
    check_flag("posterior_predictive", posterior_predictive)
    rng = read_generator(rng)
    traces, labels = tree_traces(posterior)
    model, groups = posterior.model, _groups(posterior, traces)
    if posterior_predictive:
        name, found_y, observed = predictive_draws(posterior, rng)
        groups["posterior_predictive"] = {name: found_y}
        groups["observed_data"][name] = observed
    found = None
    if log_likelihood:
        by_row = log_densities(posterior)[0] if isinstance(log_likelihood, str) else log_likelihoods(posterior)
        found = {"log_likelihood": {"y": by_row}}
    coords = {"feature": list(model.columns.names), "move": list(posterior.moves), "row": np.arange(model.n_rows)}
    coords |= labels
    attrs = {
        "inference_library": "pactree_mcmc",
        "inference_library_version": metadata.version("pactree-mcmc"),
        "sampling_time": float(posterior.seconds),
        "model": repr(model),
        **_attrs_of_calls(posterior.calls),
    }
    data = _as_arviz(groups, coords, attrs)
    if found is not None:
        more = _as_arviz(found, {"row": model.counted_rows}, attrs)
        if hasattr(data, "extend"):
            data.extend(more)
        else:
            data["log_likelihood"] = more["log_likelihood"]
    return data


def _attrs_of_calls(calls: tuple[Call, ...]) -> dict[str, str]:
    """The lines that make the draws again, their seed, and the releases that made them; short enough for a file."""
    if not calls:
        return {}
    versions = ", ".join(f"{name} {number}" for name, number in calls[-1].versions.items())
    found = {"calls": "\n".join(call.line for call in calls), "seed": str(calls[0].seed), "versions": versions}
    return {name: text[:LONGEST_ATTR] for name, text in found.items()}


def _as_arviz(groups: dict[str, dict[str, np.ndarray]], coords: dict[str, Any], attrs: dict[str, Any]) -> Any:
    """Groups as the installed ArviZ holds them, each with all attributes."""
    az = load_arviz()
    with warnings.catch_warnings():
        # fewer draws than chains are not an error here
        warnings.filterwarnings("ignore", message="(More chains|Found chain dimension)", category=UserWarning)
        if az.__version__.startswith("0."):
            sampled = {f"{name}_attrs": attrs for name in groups if not name.endswith("_data")}
            return az.from_dict(**groups, coords=coords, dims=DIMS, attrs=dict(attrs), **sampled)
        return az.from_dict(groups, coords=coords, dims=DIMS, attrs={name: dict(attrs) for name in ("/", *groups)})


def tree_traces(posterior: SampledPosterior) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Traces by which chains of trees can be looked at, each (chains, draws, m), and the labels of what they are of."""
    if posterior.tree_of_draw.size == 0:
        return {}, {}
    cells = posterior.cells
    probability = frequency_by_chain(posterior).mean(axis=0)
    order = np.argsort(np.abs(probability - 0.5), kind="stable")
    order = order[(probability[order] > 0.0) & (probability[order] < 1.0)]
    held: list[np.ndarray] = []
    chosen: list[int] = []
    for cell in order.tolist():
        here = cells.holders(np.array([cell]))[0]
        # the other side of a split says nothing new
        if not any(np.array_equal(here, other) for other in held):
            held.append(here)
            chosen.append(cell)
        if len(chosen) == MOST_CELLS:
            break
    draws = focal_draws(posterior, MOST_FOCAL)
    distance = distances_from(posterior, posterior.tree_of_draw.ravel()[draws])
    traces: dict[str, np.ndarray] = {
        "tree_distance": np.moveaxis(distance.astype(np.int32)[:, posterior.tree_of_draw], 0, -1)
    }
    labels = {"focal": [draw_words(posterior, draw) for draw in draws.tolist()]}
    if chosen:
        nodes = most_probable_nodes(posterior)[chosen].tolist()
        labels["cell"] = told_apart([words_of_node(posterior, node) for node in nodes])
        traces["support"] = np.moveaxis(np.array(held, dtype=np.int8)[:, posterior.tree_of_draw], 0, -1)
    return traces, labels


def told_apart(labels: list[str]) -> list[str]:
    """The labels, each that occurs before with a number behind it."""
    seen: dict[str, int] = {}
    out = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        out.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return out


def _groups(posterior: SampledPosterior, traces: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """All groups but the log likelihood."""
    target = posterior.model.target
    y = target.values if target.classes is None else target.classes[target.values]
    groups = {
        "posterior": by_draw(posterior) | {"split_counts": posterior.split_counts} | traces,
        "sample_stats": {"lp": posterior.log_prior + posterior.log_score},
        "observed_data": {"y": y if y.dtype.kind in "fiubU" else y.astype(str)},
    }
    if not posterior.model.leaf.separates:
        groups["posterior"]["noise_variance"] = posterior.noise_variance
    if posterior.weights_of_draw is not None:
        groups["posterior"]["feature_weights"] = posterior.feature_weights
        groups["posterior"]["concentration"] = posterior.concentration
    if posterior.moves:
        groups["sample_stats"]["acceptance_rate"] = posterior.accepted / np.maximum(posterior.proposed, 1)
        groups["sample_stats"]["proposals"] = posterior.proposed
    given = {"sample_weight": target.weight, "estimation": target.estimation}
    constant = {name: values for name, values in given.items() if values is not None}
    return groups | ({"constant_data": constant} if constant else {})


def predictive_draws(posterior: SampledPosterior, rng: np.random.Generator) -> tuple[str, np.ndarray, np.ndarray]:
    """A new y of every training row by each draw: its name, it (chains, draws, n), and what was observed (n,)."""
    model = posterior.model
    refuse_loss(model)
    units = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    leaf = np.empty(len(units), dtype=np.int64)

    def leaves_in(t: int) -> np.ndarray:
        route_into(leaf, posterior.coded_trees, t, model.units.codes, units)
        return leaf

    y = draw_new_y(posterior, posterior.tree_of_draw.ravel(), leaves_in, rng, np.arange(model.n_rows))
    y = y.reshape(*posterior.tree_of_draw.shape, *y.shape[1:])
    if model.classes_ is None:
        return "y", y, model.target.values
    if model.classes_.dtype.kind in "fiu":
        return "y", model.classes_[y], model.classes_[model.target.values]
    return "class_number", y, model.target.values


def by_draw(posterior: SampledPosterior) -> dict[str, np.ndarray]:
    """The scalars n_leaves, depth, log_prior, log_score of each draw, each (chains, draws)."""
    names = ("n_leaves", "depth", "log_prior", "log_score")
    return {name: getattr(posterior, name) for name in names}


def ess(values: Any) -> float:
    """Bulk effective sample size of a number drawn by chains (Vehtari et al. 2021).

    Parameters
    ----------
    values : array-like of shape (chains, draws)
        Numbers, or conditions.

    Returns
    -------
    float
        The number of draws when all are equal; NaN with fewer than 4 draws a chain or a value that is not finite.

    Raises
    ------
    ValueError
        If ``values`` has not two dimensions.

    Examples
    --------
    >>> ess([[7, 7, 7, 7, 7], [7, 7, 7, 7, 7]])
    10.0
    """
    values = _chains(values)
    return float(values.size) if values.size and np.ptp(values) == 0.0 else _diagnose("ess", values)


def rhat(values: Any) -> float:
    """Rank-normalised split R-hat of a number drawn by chains (Vehtari et al. 2021).

    As for ``ess``; 1 if all draws are equal, infinite if each chain is constant and not all are equal, NaN with one
    chain.

    Examples
    --------
    >>> rhat([[7, 7, 7, 7, 7], [7, 7, 7, 7, 7]])
    1.0
    """
    values = _chains(values)
    if values.size and not np.ptp(values, axis=1).any():
        return 1.0 if np.ptp(values) == 0.0 else math.inf
    return _diagnose("rhat", values) if len(values) > 1 else math.nan


def _chains(values: Any) -> np.ndarray:
    """The draws as floats; NaN throughout where nothing can be said."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"values has shape {array.shape}; give (chains, draws).")
    return array if array.shape[1] >= FEWEST_DRAWS and np.isfinite(array).all() else np.full_like(array, np.nan)


def _diagnose(name: str, values: np.ndarray) -> float:
    if not values.size or np.isnan(values).any():
        return math.nan
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(getattr(load_arviz(), name)(values))


def summary(posterior: SampledPosterior) -> pd.DataFrame:
    """Returns a table of the scalars and features of the draws, with effective sample size and R-hat.

    Parameters
    ----------
    posterior : SampledPosterior
        Draws of chains, or independent ones.

    Returns
    -------
    DataFrame
        Rows n_leaves, depth, log_prior, log_score, lp (the sum of the last two, nats), then "root feature 'x'" and
        "inclusion of feature 'x'", as indicators, of the features whose probability lies between 0.02 and 0.98, then
        "tree distance", in how many cells two draws differ, with the tree effective sample size
        (``SampledPosterior.tree_ess().frechet``) and the largest R-hat of the distances from focal trees, and where
        feature weights are drawn "concentration", if it is, and "weight of feature 'x'" of features on which more than
        0.02 of the trees of some chain split; columns mean, sd, ess_bulk, and rhat, which is infinite if each chain is
        constant and not all are equal.
        ``attrs["acceptance"]`` is the accepted fraction of the proposals of each move, 0 if there were none.
        ``attrs["verdict"]`` is what `check_convergence` finds, as one text, or that it finds nothing, which is no
        proof. ``attrs["asdsf"]`` and ``attrs["tree_ess"]`` hold what the methods of that name find, as dicts.
    """
    import pandas as pd

    scalars = by_draw(posterior)
    scalars["lp"] = scalars["log_prior"] + scalars["log_score"]
    judged = features_judged(posterior)
    for name, by_tree in zip(judged.names, judged.by_tree, strict=True):
        scalars[name] = by_tree[posterior.tree_of_draw]
    scalars |= weights_judged(posterior)
    rows = {
        name: (np.mean(values), np.std(values, ddof=1) if values.size > 1 else math.nan, ess(values), rhat(values))
        for name, values in scalars.items()
    }
    trees, frequencies = posterior.tree_ess(), posterior.asdsf()
    rows["tree distance"] = trees.mean_distance, trees.sd_distance, trees.frechet, trees.rhat
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "ess_bulk", "rhat"], dtype=np.float64)
    made, kept = posterior.proposed.sum(axis=(0, 1)), posterior.accepted.sum(axis=(0, 1))
    table.attrs["acceptance"] = dict(zip(posterior.moves, (kept / np.maximum(made, 1)).tolist(), strict=True))
    table.attrs["verdict"] = verdict(posterior)
    table.attrs["asdsf"], table.attrs["tree_ess"] = frequencies._asdict(), trees._asdict()
    return table


def as_datasets(inference_data: Any) -> dict[str, Any]:
    """Groups of InferenceData (ArviZ 0.x) or of a DataTree (1.x) as datasets; "/" has the attributes of the whole."""
    import xarray as xr

    out = {"/": xr.Dataset(attrs=dict(inference_data.attrs))}
    if hasattr(inference_data, "to_dataset"):
        return out | {name: node.to_dataset() for name, node in inference_data.children.items()}
    return out | {name: inference_data[name] for name in inference_data.groups()}
