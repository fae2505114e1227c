"""Comparison of models of the same rows by evidence, leave-one-out density, size of the trees, and predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import Seed, check_count, check_flag, read_generator, repr_of
from ..core.special import logsumexp
from ..core.texts import warn
from ..mcmc.sampling import sample
from ..model import TreeModel
from ..posterior.convergence import caveat_of
from ..posterior.distribution import draws_of
from ..posterior.ess import ConvergenceWarning
from ..posterior.evidence import prior_mass
from ..posterior.posterior import Posterior
from ..posterior.rows.left_out import leave_one_out
from ..posterior.sampled import SampledPosterior

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_MAX_CELLS = 200_000
"""Default largest number of cells for which a model is solved exactly, which takes about two seconds.

Cells are the distinct nodes of all trees: sets of rows in a box.
"""


def compare_models(
    models: Mapping[str, TreeModel | Posterior],
    X: Any = None,
    *,
    draws: int = 1000,
    work: float | None = None,
    max_cells: int = DEFAULT_MAX_CELLS,
    rng: Seed = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Compare models of the same y: evidence, leave-one-out, number of leaves, predictions.

    Parameters
    ----------
    models : mapping of names to TreeModel or Posterior
        A model is solved exactly if its sum has at most ``max_cells`` cells, and otherwise sampled. A posterior, exact
        or sampled, is used as it is. All have the same y and sample weights. They may differ in tree prior, split
        prior, leaf, and columns of X.
    X : table of shape (n, p), optional
        A few rows whose predictions are shown side by side.
    draws : int, default 1000
        Number of draws per chain of a model that is sampled, and of trees drawn from an exact posterior for
        leave-one-out.
    work : float, optional
        As for `sample`.
    max_cells : int, default 200,000
        Limit of the exact sums; 0 samples all models.
    rng : int, SeedSequence, Generator or None
        Source of randomness; every model gets a source of its own.
    progress : bool, default True
        Show the progress of the runs.

    Returns
    -------
    DataFrame
        One row per model, the most probable first. ``log_evidence``, in nats, of the normalised prior, and
        ``log_evidence_se``, 0 if exact. ``probability``: posterior probability among the models that have an evidence,
        if all have the same prior probability. ``elpd_loo``: sum over the rows of the log density of the row given all
        other rows, and its standard error ``elpd_loo_se``; ``loo_ess``: smallest effective number of draws of a row.
        ``n_leaves``: posterior mean. ``engine``: "exact" or "sampled". With ``X`` columns such as "E(y) at row 0" or
        "P(y = yes) at row 0".

    Raises
    ------
    TypeError
        If ``models`` is not a mapping of models and posteriors.
    ValueError
        If it is empty, the models differ in their y, weights or rows that count, no row counts, a leaf is a loss, an
        argument is out of range, or X does not have the columns of a model.

    Warns
    -----
    ConvergenceWarning
        One line for each model whose draws have not converged, which says what can be used.
    UserWarning
        One line for each model without evidence, which says why.

    Notes
    -----
    Models without evidence have the probability NaN. A run estimates its evidence unless it has a fixed length, or its
    table is too large for the default kernel; for these models give a
    posterior of ``sample(model, betas=16)``. Evidences of draws under ``LeafPenalty`` are missing, as draws do not
    determine the constant of the prior. A prior whose parameters are set from the data sees y twice, a little.
    Leave-one-out is estimated by importance from the draws, without refits. Below a ``loo_ess`` of some 100, some
    row's density rests on few draws. A difference in ``elpd_loo`` of less than some twice its standard error says
    little. The evidence asks how well the prior predicted all rows, leave-one-out how well the posterior predicts a
    new one; a vague prior lowers the first much more than the second.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(20.0)
    >>> models = {f"beta {beta}": pt.TreeModel(x[:, None], x > 9, tree_prior=pt.ChipmanPrior(0.9, beta, 2))
    ...           for beta in (1, 2)}
    >>> print(pt.compare_models(models, rng=1)[["log_evidence", "probability", "engine"]].round(3))
            log_evidence  probability engine
    beta 2        -7.780        0.537  exact
    beta 1        -7.927        0.463  exact
    """
    import pandas as pd

    check_count("draws", draws)
    check_count("max_cells", max_cells, 0)
    check_flag("progress", progress)
    generator = read_generator(rng)
    parts = _read_models(models)
    rows = {}
    for (name, part), source in zip(parts.items(), generator.spawn(len(parts)), strict=True):
        post = part
        if isinstance(part, TreeModel):
            if X is not None:
                part.columns.numbers(X)
            exact_post = solve_if_small(part, int(max_cells))
            post = _sample_quietly(part, draws, work, source, progress) if exact_post is None else exact_post
        if isinstance(post, SampledPosterior) and caveat_of(post):
            warn(f"model {name!r}: {caveat_of(post)}", ConvergenceWarning)
        rows[name] = _table_row(post, draws, source) | _predictions_by_column(post, X)
        if math.isnan(rows[name]["log_evidence"]):
            warn(f"model {name!r} has no log evidence, so it has no probability: {_evidence_obstacle(post)}.")
    table = pd.DataFrame.from_dict(rows, orient="index")
    evidence = table["log_evidence"].to_numpy()
    is_known = ~np.isnan(evidence)
    probability = np.full(len(evidence), np.nan)
    if is_known.any():
        probability[is_known] = np.exp(evidence[is_known] - logsumexp(evidence[is_known]))
    table.insert(2, "probability", probability)
    return table.sort_values(["log_evidence", "elpd_loo"], ascending=False, kind="stable")


def _read_models(models: Any) -> dict[str, Any]:
    """Return ``models`` as a dictionary, or raise a TypeError or ValueError if `compare_models` cannot compare them."""
    from exact import ExactPosterior
    from exact.solving import VisitedPosterior

    if not isinstance(models, Mapping):
        raise TypeError(f"models is a {type(models).__name__}; give a dict of names and models or posteriors.")
    if not models:
        raise ValueError("models is empty; give one model or more, as {name: model}.")
    for name, part in models.items():
        if isinstance(part, VisitedPosterior) or not isinstance(part, TreeModel | ExactPosterior | SampledPosterior):
            raise TypeError(f"models[{repr_of(name)}] is a {type(part).__name__}; give a TreeModel or its posterior.")
    model_of_name = {name: part if isinstance(part, TreeModel) else part.model for name, part in models.items()}
    first_name, first = next(iter(model_of_name.items()))
    for name, model in model_of_name.items():
        if not model.leaf.has_likelihood:
            raise ValueError(f"models[{repr_of(name)}] has no evidence: its leaf is a loss; compare predictions.")
        if not len(model.counted_rows):
            raise ValueError(f"models[{repr_of(name)}] has no row that counts; leave some out of the estimation mask.")
        difference = _data_difference(first, model)
        if difference:
            raise ValueError(
                f"models[{repr_of(first_name)}] and models[{repr_of(name)}] differ in {difference}; evidences can be "
                "compared for the same data only."
            )
    return dict(models)


def _data_difference(first_model: TreeModel, second_model: TreeModel) -> str:
    """Return the name of the first data other than X in which two models differ; "" if there are none."""
    parts = (
        ("their classes", first_model.classes_, second_model.classes_),
        ("y", first_model.target.values, second_model.target.values),
        ("sample_weight", first_model.target.weights, second_model.target.weights),
        ("the rows that count", first_model.counted_rows, second_model.counted_rows),
    )
    for name, a, b in parts:
        if a is None or b is None:
            if a is not b:
                return name
        elif not np.array_equal(a, b):
            return name
    return ""


def solve_if_small(model: TreeModel, max_cells: int) -> Any:
    """Return the exact posterior, or None if it needs more than ``max_cells`` cells, or leaves share a parameter."""
    import exact

    if max_cells == 0 or not model.leaf.has_additive_score:
        return None
    try:
        return exact.solve(model, max_cells=max_cells, progress=False)
    except exact.Intractable:
        return None


def _sample_quietly(model: TreeModel, draws: int, work: Any, source: Any, progress: bool) -> SampledPosterior:
    """Sample a model without the warning of a run that has not converged. ``source`` is its rng."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sample(model, draws, work=work, rng=source, progress=progress)


def _table_row(post: Any, draws: int, source: np.random.Generator) -> dict[str, Any]:
    """Return the row of the table of `compare_models` for one posterior, by column, without predictions."""
    # for leave-one-out, ``draws`` trees of an exact posterior are drawn from ``source``; a sampled one has its draws
    is_sampled = isinstance(post, SampledPosterior)
    evidence, error = _sampled_evidence(post) if is_sampled else (_exact_evidence(post), 0.0)
    loo, pmf = leave_one_out(draws_of(post, draws, source)), post.n_leaves_pmf()
    return {
        "log_evidence": evidence,
        "log_evidence_se": error,
        "elpd_loo": loo.elpd,
        "elpd_loo_se": loo.se,
        "loo_ess": loo.ess,
        "n_leaves": float(pmf @ np.arange(len(pmf))),
        "engine": "sampled" if is_sampled else "exact",
    }


def _sampled_evidence(post: SampledPosterior) -> tuple[float, float]:
    """Return the log evidence of a sampled posterior and its standard error; NaN for each that is unknown."""
    # unknown if the run did not estimate it, or the constant of the prior is unknown, as for LeafPenalty
    if post.log_evidence is None or prior_mass(post.model).log_mass is None:
        return math.nan, math.nan
    return post.log_evidence, math.nan if post.log_evidence_se is None else post.log_evidence_se


def _evidence_obstacle(post: SampledPosterior) -> str:
    """Return a text that says why the log evidence of a sampled posterior is unknown, and what to do."""
    if prior_mass(post.model).log_mass is None:
        return f"draws do not determine the sum over trees of {post.model.tree_prior!r}; give exact.solve(model)"
    leaf = post.model.leaf
    if not leaf.has_additive_score:
        return (
            f"the leaves of {type(leaf).__name__} share a parameter, and a run estimates no evidence then without a "
            "ladder of temperatures; give pt.sample(model, betas=16)"
        )
    return "its run did not estimate it; give pt.sample(model, betas=16)"


def _exact_evidence(post: Any) -> float:
    """Return the log evidence minus the log of the prior's sum over trees, which is not 1 under `LeafPenalty`."""
    import exact

    return float(post.log_inside[0] - exact.log_sum(post.prior_graph))


def _predictions_by_column(post: Posterior, X: Any) -> dict[str, float]:
    """Return the predictions at the rows of X by name of the column of the table, such as "E(y) at row 0"."""
    # class probabilities, or means; empty if X is None
    if X is None:
        return {}
    model = post.model
    values = post._rows.values(model.columns.numbers(X))
    d = values.shape[1]
    if model.classes_ is not None:
        names = [f"P(y = {label})" for label in model.classes_]
    else:
        names = ["E(y)"] if d == 1 else [f"E(y{j})" for j in range(d)]
    return {f"{names[j]} at row {i}": float(values[i, j]) for i in range(len(values)) for j in range(d)}
