"""The result of every bound, the texts that docstrings of bounds share, and checks of their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.checks import check_count, check_number
from ..core.names import with_texts

SMALLEST_DELTA = 1e-300
"""Smallest allowed ``delta``. Below it the terms of a bound overflow."""
LARGEST_KL = 1e300
"""Largest allowed divergence. Above it the terms of a bound overflow."""
LEAST_PART = 1e-3
"""Smallest part of an allowed ``delta`` that one of several bounds may use."""

_DELTA = """\
delta : float, default 0.05
    Probability that the bound fails, in (0, 1)."""
_RAISES = """\
Raises
------
ValueError
    If an argument is out of range."""
_N_CLASSES = """\
n_classes : int, default 2
    Number of possible labels, fixed before the rows were seen: the code must not depend on them."""

documented = with_texts(
    {
        "delta": _DELTA,
        "raises": _RAISES,
        "bound": f"Returns\n-------\nBound\n\n{_RAISES}",
        "n_classes": _N_CLASSES,
        "risk": "risk : float, in [0, 1]\n    Empirical risk of Q: mean loss of a tree drawn from Q.",
        "tandem": """\
tandem : float, in [0, 1]
    Empirical tandem loss: the mean over rows of the squared mean loss of a tree drawn from Q.""",
        "kl_n_delta": f"""\
kl : float
    Divergence of Q from the prior, nats, >= 0.
n : int
    Counted rows, >= 1.
{_DELTA}""",
        "counted_rows": """\
tree : Tree
    A classification tree with leaf values, as posteriors return it.
X : table of shape (n, p)
    The counted rows; the tree may depend on them.
y : array-like of shape (n,)
    Their labels.""",
        "bound_of_tree": """\
Returns
-------
Bound

Raises
------
ValueError
    If the tree has no classes or more than ``n_classes``, X and y do not fit, or an argument is out of range.""",
        "split_bits": """\
split_bits : float, or array of shape (n_nodes,)
    Code length of the splits, bits, >= 0; entries of leaves are ignored.""",
        "n_nodes_n_features": """\
n_nodes, n_features : int
    Nodes of the tree, leaves included; features.""",
        "n_errors_delta": f"""\
n : int
    Rows.
errors : int
    Training errors.
{_DELTA}""",
        "compression_set": f"""\
n_nodes, n_features, n : int
    Nodes of the tree, leaves included; features; rows. ``n_nodes < n``.
errors : int
    Training errors on the ``n - n_nodes`` rows outside the compression set, which has a row for each node.
{_DELTA}""",
        "coded_tree": """\
tree : Tree
    A classification tree with leaf values and ordered splits, each of which sends counted rows both ways.
X : table of shape (n, p)
    The counted rows, without missing values; the tree may depend on them.
y : array-like of shape (n,)
    Their labels.""",
        "coded_options": f"""\
parents : {{"string", "number"}}, default "string"
    Code of a node's parent: one of k + 1 strings, or a number among k (footnote 3).
{_N_CLASSES}
{_DELTA}""",
        "cyclic": """\
cyclic : bool, default False
    Whether the depth determines the coordinate.""",
    }
)
"""Decorator that puts these texts into the docstring of a bound."""


@dataclass(frozen=True)
class Bound:
    """An upper bound on a risk, with the terms of its formula.

    Attributes
    ----------
    name : str
    raw : float
        The bound as the formula gives it; above 1 it is vacuous.
    delta : float
        Probability, over the counted rows, that the bound fails.
    terms : dict of str to float
        The parts of the formula, by name.
    """

    name: str
    raw: float
    delta: float
    terms: dict[str, float]

    @property
    def value(self) -> float:
        """The bound, at most 1."""
        return min(self.raw, 1.0)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        head = f"{self.name}: {self.value:.4f} with probability {1.0 - self.delta:g}"
        return "\n".join([head, *(f"    {name}: {value:.6g}" for name, value in self.terms.items())])


def check_delta(delta: float) -> float:
    """Refuse a ``delta`` outside (0, 1), or so near its ends that it cannot be halved or counted."""
    allowed = f"{SMALLEST_DELTA:g} <= delta < 1, the probability that the bound fails"
    return check_number("delta", delta, allowed, SMALLEST_DELTA * LEAST_PART, 1.0 - 2.0**-53)


def check_fraction(name: str, value: float) -> float:
    """Refuse a mean loss outside [0, 1]."""
    return check_number(name, value, "the mean of losses in [0, 1]", 0.0, 1.0)


def check_kl(kl: float) -> float:
    """Refuse a divergence that is negative or not a number."""
    return check_number("kl", kl, "a finite divergence >= 0, in nats", 0.0, LARGEST_KL)


def check_errors(errors: Any, n: Any) -> None:
    """Refuse ``errors`` that are not between 0 and ``n``."""
    check_count("n", n, 1)
    check_count("errors", errors, 0)
    if errors > n:
        raise ValueError(f"errors={errors} is out of range; there are n={n} rows: give 0 <= errors <= n.")
