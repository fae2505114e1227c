"""Checks of answers against the documentation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import exact
import pactree_mcmc as pt
from exact.systems.progressive.mixture import ProgressiveMixture


def anything(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that no number in the answer is NaN."""
    _no_nan(answer)


def scratch(answer: Any, arguments: dict[str, Any]) -> None:
    """Check nothing: the arrays are filled only in part."""


def number(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the answer is a number, not NaN."""
    assert isinstance(answer, float | int | np.number), f"{type(answer).__name__} is no number"
    assert not math.isnan(answer), "NaN"


def support(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that probabilities are in (0, 1] and each has its words; R-hat of few draws may be unknown."""
    assert len(answer.words) == len(answer.probability), "words are missing"
    assert np.all((answer.probability > 0.0) & (answer.probability <= 1.0)), "no probability"


def rows(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that there is one entry per row, all finite."""
    n = _n_rows(arguments)
    assert isinstance(answer, np.ndarray), f"{type(answer).__name__} is no array"
    assert n is None or len(answer) == n, f"{len(answer)} entries for {n} rows"
    assert answer.dtype.kind not in "fc" or np.isfinite(answer).all(), "not finite"


def probabilities(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that there is one distribution per row."""
    rows(answer, arguments)
    assert answer.ndim == 2, f"{answer.ndim} dimensions"
    assert (answer >= 0.0).all(), "negative"
    assert np.allclose(answer.sum(axis=1), 1.0), "rows do not add up to one"


def model(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the stump has a finite score and a prior that is not NaN."""
    stump = pt.Tree([-1], [0], [0], [0])
    assert math.isfinite(answer.log_score(stump)), f"score {answer.log_score(stump)}"
    assert not math.isnan(answer.log_prior(stump)), "prior NaN"


def simulated(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the answer is a tree, and one y per row."""
    tree(answer[0], arguments)
    assert answer[1].shape == (arguments["model"].n_rows,), f"shape {answer[1].shape}"


def tree(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the answer is a legal tree."""
    assert isinstance(answer, pt.Tree), f"{type(answer).__name__} is no Tree"
    pt.check_tree(answer)


def trees(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that there are ``n`` legal trees."""
    assert len(answer) == arguments["n"], f"{len(answer)} trees for {arguments['n']}"
    for one in answer:
        tree(one, arguments)


def design(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the answer has a legal tree."""
    tree(answer.tree, arguments)


def truth(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the evidence is unknown or a number, and that distributions add up to one."""
    assert answer.log_evidence is None or not math.isnan(answer.log_evidence), "evidence NaN"
    _distributions(answer)


def sampled(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that there are as many chains as asked for, finite scores, and distributions that add up to one."""
    assert np.isfinite(answer.draws.log_score_of_tree).all(), "score not finite"
    assert np.isfinite(answer.draws.log_prior_of_tree).all(), "prior not finite"
    assert np.allclose(answer.draws.weight_of_tree.sum(), 1.0), "draws do not add up"
    chains = arguments.get("chains")
    assert chains is None or answer.n_chains == chains, f"{answer.n_chains} chains for {chains}"
    _distributions(answer)


def comparison(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the comparison has rows."""
    assert len(answer.rows) > 0, "no rows"


def bound(answer: Any, arguments: dict[str, Any]) -> None:
    """Check that the value is in [0, 1], and that no term is NaN."""
    assert 0.0 <= answer.value <= 1.0, f"value {answer.value}"
    assert not any(math.isnan(term) for term in answer.terms.values()), "a term is NaN"


def certificate(answer: Any, arguments: dict[str, Any]) -> None:
    """Check every bound of a certificate with `bound`."""
    for part in vars(answer).values():
        if hasattr(part, "raw"):
            bound(part, arguments)


def _distributions(answer: Any) -> None:
    """Check that the distributions of the number of leaves and of the root split add up to one."""
    if not isinstance(answer, pt.SampledPosterior | exact.ExactPosterior | ProgressiveMixture):
        return
    for distribution in (answer.n_leaves_pmf(), np.array(list(answer._root_split_pmf().values()))):
        assert (distribution >= 0.0).all(), "a probability is negative"
        assert np.isclose(distribution.sum(), 1.0), f"probabilities add up to {distribution.sum()}"


def _n_rows(arguments: dict[str, Any]) -> int | None:
    """Return the number of rows of the table among the arguments, or None if it has no clear one."""
    X = next((arguments[name] for name in ("rows", "X") if arguments.get(name) is not None), None)
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) == 2:
        return int(shape[0])
    return len(X) if type(X) in (list, tuple) else None


def _no_nan(answer: Any) -> None:
    """Check that a number, an array, or any part of a tuple or a list, has no NaN."""
    if isinstance(answer, float | np.floating):
        assert not math.isnan(answer), "NaN"
    elif isinstance(answer, np.ndarray) and answer.dtype.kind == "f":
        assert not np.isnan(answer).any(), "NaN in an array"
    elif isinstance(answer, tuple | list):
        for part in answer:
            _no_nan(part)
