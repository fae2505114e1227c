"""Implementation of `exact.compare`: compare quantities of the exact posterior with those of a sampled posterior."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pactree_mcmc.core.texts import require_package
from pactree_mcmc.posterior.ess import ess
from pactree_mcmc.posterior.rows.predictions import std_over_trees
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.table.words import rounded_text
from pactree_mcmc.tree.coded import key_words, root_key

from .posterior import ExactPosterior

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MIN_EVENT_PROBABILITY = 0.001
"""Probability below which an event is left out."""
N_POINTS, N_ROOTS = 8, 12
"""Largest number of rows whose predictions are compared, and largest number of root splits."""
MAX_TABLE_LINES = 24
"""Largest number of quantities in the printed table, as many as fit a screen."""


class Row(NamedTuple):
    """The exact and the sampled value of one quantity."""

    quantity: str  # Name, such as "leaves = 3"
    exact: float  # Exact value
    sampled: float  # Estimate from the draws; NaN if the run did not estimate the quantity
    mc_error: float  # Monte-Carlo standard error of ``sampled``
    z: float  # (sampled - exact) / mc_error


class Comparison:
    """A table that compares exact and sampled values.

    Attributes
    ----------
    rows : list of Row
        Quantity, exact, sampled, Monte-Carlo standard error, z.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    @property
    def max_abs_z(self) -> float:
        """Largest absolute z; 0 if nothing could be compared."""
        return max((abs(row.z) for row in self.rows if math.isfinite(row.z)), default=0.0)

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame indexed by quantity."""
        import pandas as pd

        return pd.DataFrame(self.rows).set_index("quantity")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot sampled against exact probabilities with two standard errors, and return the matplotlib axes.

        Predictive means of a regression, which are not probabilities, are only in the table.
        """
        if ax is None:
            require_package("matplotlib", "plot")
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(5.5, 5.5), layout="constrained")
        kinds = {"leaves": "o", "root": "s", "inclusion": "^", "predictive P": "x"}
        for kind, marker in kinds.items():
            rows = [row for row in self.rows if row.quantity.startswith(kind) and not math.isnan(row.sampled)]
            if rows:
                x, y, error = ([getattr(r, name) for r in rows] for name in ("exact", "sampled", "mc_error"))
                ax.errorbar(x, y, yerr=[2 * e for e in error], fmt=marker, ms=5, lw=1, label=kind, alpha=0.8)
        low, high = ax.get_xlim()
        ax.plot([low, high], [low, high], color="0.6", lw=1, zorder=0)
        ax.set(xlabel="exact", ylabel="sampled, 2 standard errors", xlim=(low, high))
        ax.legend(frameon=False)
        return ax

    def __str__(self) -> str:
        by_size = sorted((abs(row.z) for row in self.rows[1:] if not math.isnan(row.z)), reverse=True)
        min_abs_z = 0.0 if len(self.rows) <= MAX_TABLE_LINES else by_size[MAX_TABLE_LINES - 2]
        rows = [row for row in self.rows if math.isnan(row.z) or abs(row.z) >= min_abs_z]
        width = max(len(row.quantity) for row in rows)
        lines = [f"{'quantity':<{width}}  {'exact':>12} {'sampled':>12} {'mc error':>10} {'z':>7}"]
        for row in rows:
            cells = [
                "-" if math.isnan(v) else rounded_text(v) if f is None else format(v, f)
                for v, f in zip(row[1:], (None, None, ".2g", ".2f"), strict=True)
            ]
            lines.append(f"{row.quantity:<{width}}  {cells[0]:>12} {cells[1]:>12} {cells[2]:>10} {cells[3]:>7}")
        if len(rows) < len(self.rows):
            lines.append(f"... and {len(self.rows) - len(rows)} with |z| below {min_abs_z:.2f}; to_frame() has all")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} quantities, largest |z| {self.max_abs_z:.2f})"


def compare(truth: ExactPosterior, sampled: SampledPosterior, *, X: Any = None) -> Comparison:
    """Compare an exact with a sampled posterior: evidence, leaves, root split, feature inclusion, predictions.

    Parameters
    ----------
    truth : ExactPosterior
        From `solve`.
    sampled : SampledPosterior
        A sampled posterior of the same model, or of one made from the same model by adding the same rows.
    X : table of shape (n, p), optional
        Rows whose predictions are compared. Default: up to 8 rows spread over the training data.

    Returns
    -------
    Comparison
        Events of exact probability below 0.001 are left out. The Monte-Carlo standard error is ``sqrt(variance / ESS)``
        with the exact variance: ``p (1 - p)`` for an event of exact probability p, and the variance over trees for a
        prediction. ESS is the smallest effective sample size of three quantities over all chains: the number of leaves,
        the log posterior, and the quantity itself. An event that occurs in no draw or in all has the first two only.

    Notes
    -----
    The variance of the draws is not used, because it depends on the error itself: a run with too few occurrences of a
    rare event would report too small an error. The z of a rare event is still not normal. In 1,000 effective draws an
    event of probability 0.001 occurs once on average, and at least five times in 1 of 270 runs (z = 4).

    Raises
    ------
    TypeError
        If the arguments are not an exact and a sampled posterior.
    ValueError
        If they are of different models, or of one model under different priors.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> model = pt.TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> table = compare(exact.solve(model), exact.solve(model).sample(2000, rng=1))
    >>> bool(table.max_abs_z < 5)
    True
    """
    if not isinstance(truth, ExactPosterior) or not isinstance(sampled, SampledPosterior):
        raise TypeError(
            f"got {type(truth).__name__} and {type(sampled).__name__}; give an ExactPosterior, then a SampledPosterior"
            f"{_advice_on_types(truth, sampled)}."
        )
    if truth.model is not sampled.model:
        raise ValueError("the two posteriors are of different models; give both engines one model: sampled.model.")

    if not sampled.draws.sees_all_rows or sampled.draws.has_model_prior != truth._odds_by_model:
        raise ValueError("one posterior is of stages or has the global splitting prior; give two of one kind.")
    return Comparison(list(_comparison_rows(truth, sampled, X)))


def _advice_on_types(truth: Any, sampled: Any) -> str:
    """Return advice to append to the error message for two posteriors that are not an exact, then a sampled one."""
    exact_ones = [isinstance(one, ExactPosterior) for one in (truth, sampled)]
    sampled_ones = [isinstance(one, SampledPosterior) for one in (truth, sampled)]
    if all(sampled_ones):
        return (
            ": both are Monte Carlo, so neither shows the other's error. Give exact.solve(model) first if it is "
            "tractable; otherwise run more chains and read R-hat in summary(), which compares them"
        )
    if all(exact_ones):
        return ": both are exact, and .sample(draws, rng) of one gives draws to compare"
    return ": swap them" if exact_ones[1] and sampled_ones[0] else ""


def _comparison_rows(truth: ExactPosterior, sampled: SampledPosterior, X: Any) -> Iterator[Row]:
    """Yield the rows of the comparison: evidence, numbers of leaves, root splits, feature inclusion, predictions."""
    nan = math.nan
    estimate = sampled.log_evidence
    yield Row("log evidence", truth.log_evidence, nan if estimate is None else estimate, nan, nan)
    draws, names = sampled.draws, sampled.model.columns.names
    max_ess = min(ess(sampled.n_leaves.astype(float)), ess(sampled.log_prior + sampled.log_score))
    for leaves, probability in enumerate(truth.n_leaves_pmf()):
        if probability >= MIN_EVENT_PROBABILITY:
            yield _event_row(f"leaves = {leaves}", probability, sampled.n_leaves == leaves, max_ess)
    roots = [root_key(sampled.model, draws.distinct_trees, int(i)) for i in draws.distinct_trees.offset[:-1]]
    likely = sorted(truth._root_split_pmf().items(), key=lambda item: -item[1])[:N_ROOTS]
    for key, probability in likely:
        if probability >= MIN_EVENT_PROBABILITY:
            hit = np.array([root == key for root in roots])
            yield _event_row(f"root: {key_words(sampled.model, key)}", probability, hit[draws.tree_of_draw], max_ess)
    for k, probability in enumerate(truth._feature_inclusion()):
        hit = draws.split_counts_of_tree[draws.tree_of_draw, k] > 0
        yield _event_row(f"inclusion: {names[k]}", probability, hit, max_ess)
    yield from _prediction_rows(truth, sampled, X, max_ess)


def _prediction_rows(truth: ExactPosterior, sampled: SampledPosterior, X: Any, max_ess: float) -> Iterator[Row]:
    """Yield a table row for each predictive mean, or probability of a class, of the rows ``X``."""
    model, draws = sampled.model, sampled.draws
    spread = np.linspace(0, model.units.n_units - 1, min(N_POINTS, model.units.n_units)).astype(int)
    table = model.row_numbers(model.first_row_of_unit[np.unique(spread)]) if X is None else model.columns.numbers(X)
    exact, by_draw = truth._rows.values(table), draws.values_of_trees(table)[draws.tree_of_draw]
    std = std_over_trees(truth._rows, table).reshape(exact.shape)
    names = ["mean"]
    if model.classes_ is not None:
        names = [f"P(y = {label})" for label in model.classes_[: max(len(model.classes_) - 1, 1)]]
    for i in range(len(table)):
        for j, name in enumerate(names):
            quantity, variance = f"predictive {name}, row {i}", std[i, j] ** 2
            yield _comparison_row(quantity, exact[i, j], by_draw[:, :, i, j], variance, max_ess)


def _event_row(quantity: str, probability: float, hit: np.ndarray, max_ess: float) -> Row:
    """Return the table row of an event of exact ``probability``. ``hit`` (chains, draws) is True where it occurred."""
    return _comparison_row(quantity, probability, hit.astype(float), probability * (1.0 - probability), max_ess)


def _comparison_row(quantity: str, exact: float, draws: np.ndarray, variance: float, max_ess: float) -> Row:
    """Return the table row of a ``quantity`` (name) with values ``draws`` (chains, draws) and exact mean ``exact``."""
    # its z is 0 or infinite if the error is 0. ``variance`` is the exact posterior variance of one draw. The
    # effective sample size is at most ``max_ess``, since an estimate from rare visits is often far too large.
    sampled = float(draws.mean())
    difference, error = sampled - exact, math.sqrt(max(variance, 0.0) / max(min(ess(draws), max_ess), 1.0))
    if error > 1e-12:
        z = difference / error
    else:
        z = 0.0 if abs(difference) < 1e-9 else math.copysign(math.inf, difference)
    return Row(quantity, float(exact), sampled, error, z)
