"""Numbers, names and the facts about a posterior as short texts, for the report."""

from __future__ import annotations

import math
import re
from typing import Any

from ...model import TreeModel
from ...table.words import Kind, kind_words
from ..draws import Draws

MAX_NAME_LENGTH = 100
"""Largest number of characters of the name of a feature, a class or a category."""
MAX_LISTED = 10
"""Largest number of features or classes named in a line."""
NOT_KNOWN_TEXT = "-"
"""Text of a number that is not known."""
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Control characters, marks that change the direction of text, and code points that are not characters."""


def truncate(text: object, most: int) -> str:
    """Return the text, or if it has more than ``most`` characters, the first ``most - 1`` and an ellipsis."""
    text = str(text)
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


def unit_words(kind: Kind, value: float) -> str:
    """Return what a number in a field for a duration or a period means, by the example of ``value``; else ""."""
    if kind.name == "period":
        return f"{math.floor(value)} is {kind_words(value, kind, math.nan, math.nan)}"
    return "in days" if kind.name == "duration" else ""


def with_signs(text: str) -> str:
    """Return a condition with the mathematical sign for "less or equal"."""
    return text.replace(" <= ", " ≤ ")


def target_name(model: TreeModel) -> str:
    """Return the name of y, or "y" if it has none; of times and events that of the time."""
    return _list_of_names(list(model.target.names[:1])) or "y"


def probability_text(p: float | None) -> str:
    """Return a probability with two digits, as 0 or 1 only if it is so (up to 1e-12), or a dash for None."""
    if p is None:
        return NOT_KNOWN_TEXT
    if p <= 0.0 or p >= 1.0 - 1e-12:
        return "0" if p <= 0.0 else "1"
    return "<0.01" if p < 0.005 else ">0.99" if p > 0.995 else f"{p:.2f}"


def significant_digits(x: float | None, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, from 1,000 on rounded, or a dash if it is unknown."""
    if x is None or not math.isfinite(x):
        return NOT_KNOWN_TEXT
    return f"{x:,.0f}" if abs(x) >= 1000.0 else f"{x:.{digits}g}"


def count_with_noun(n: int, noun: str) -> str:
    """Return a number and a noun, which gets an s unless the number is 1."""
    return f"{n} {noun}{'s' * (n != 1)}"


def data_line(model: TreeModel) -> str:
    """Return one line about the data: the numbers of rows and features, the nominal features, and the classes."""
    columns, classes = model.columns, model.classes_
    names = [name for name, is_nominal in zip(columns.names, columns.is_nominal, strict=True) if is_nominal]
    nominal = f", nominal: {_list_of_names(names)}" if names else ""
    kind = "regression" if classes is None else f"classes: {_list_of_names(classes.tolist())}"
    rows, features = count_with_noun(model.n_rows, "row"), count_with_noun(len(columns.names), "feature")
    return f"{rows}, {features}{nominal}; {kind}"


def run_line(sampled: Draws) -> str:
    """Return one line with the numbers of chains, draws and distinct trees."""
    draws, trees = count_with_noun(sampled.n_draws, "draw"), count_with_noun(sampled.n_distinct_trees, "distinct tree")
    return f"{count_with_noun(sampled.n_chains, 'chain')} x {draws}, {trees}"


def evidence_text(post: Any) -> str:
    """Return the log evidence with its standard error, or an empty text if it is not known."""
    if post.log_evidence is None:
        return ""
    error = "" if post.log_evidence_se is None else f" (standard error {post.log_evidence_se:.2g})"
    return f"{post.log_evidence:.3f}{error}"


def _list_of_names(names: list[Any]) -> str:
    """Return up to MAX_LISTED names, each truncated, as one text, and how many there are if some are left out."""
    text = ", ".join(truncate(name, MAX_NAME_LENGTH) for name in names[:MAX_LISTED])
    return text + (f", ... ({len(names)} in all)" if len(names) > MAX_LISTED else "")
