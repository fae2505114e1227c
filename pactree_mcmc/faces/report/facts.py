"""What a posterior is of: its data, model and run, as the command line and the report say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .text import LONGEST_NAME, cut

if TYPE_CHECKING:
    from ...posterior.sampled import SampledPosterior

MOST_NAMED = 10
"""Features and classes named in a line."""


def described(post: SampledPosterior) -> dict[str, Any]:
    """The data and the run."""
    model = post.model
    return {
        **described_model(model),
        **described_run(post),
        "log_evidence": post.log_evidence,
        "log_evidence_se": post.log_evidence_se,
    }


def described_run(post: SampledPosterior) -> dict[str, Any]:
    """Chains and draws."""
    return {"chains": post.n_chains, "draws": post.n_draws, "n_trees": post.n_distinct_trees}


def described_model(model: Any) -> dict[str, Any]:
    """The data."""
    return {
        "n_rows": model.n_rows,
        "features": list(model.columns.names),
        "nominal": [n for n, yes in zip(model.columns.names, model.columns.is_nominal, strict=True) if yes],
        "classes": None if model.classes_ is None else model.classes_.tolist(),
        "model": repr(model),
    }


def data_words(told: dict[str, Any]) -> str:
    """The data in a line."""
    nominal = f", nominal: {few(told['nominal'])}" if told["nominal"] else ""
    kind = "regression" if told["classes"] is None else f"classes: {few(told['classes'])}"
    return f"{told['n_rows']} rows, {len(told['features'])} features{nominal}; {kind}"


def run_words(told: dict[str, Any]) -> str:
    """Chains and draws in a line."""
    several = "s" * (told["chains"] != 1)
    return f"{told['chains']} chain{several} x {told['draws']} draws, {told['n_trees']} distinct trees"


def evidence_words(told: dict[str, Any]) -> str:
    """The log evidence with its standard error; empty where it is not known."""
    if told["log_evidence"] is None:
        return ""
    error = "" if told["log_evidence_se"] is None else f" (standard error {told['log_evidence_se']:.2g})"
    return f"{told['log_evidence']:.3f}{error}"


def best_log_posterior(post: SampledPosterior) -> float:
    """Log posterior of the best tree drawn, nats, unnormalised."""
    return float(np.max(post.log_prior_of_tree + post.log_score_of_tree))


def few(names: list[Any]) -> str:
    """The first names, and how many there are."""
    shown = ", ".join(cut(str(name), LONGEST_NAME) for name in names[:MOST_NAMED])
    return shown + (f", ... ({len(names)} in all)" if len(names) > MOST_NAMED else "")


def calls_of(post: SampledPosterior) -> list[str]:
    """Lines of Python that make the draws again, and what is to be known of them; empty where that is not known."""
    lines = [call.line for call in post.calls]
    if not all(call.repeatable for call in post.calls):
        lines.append("# not the same draws again: a call was interrupted, or given what a line cannot say")
    return lines


def versions_words(numbers: dict[str, str]) -> str:
    """Releases in a line."""
    return ", ".join(f"{name} {number}" for name, number in numbers.items())
