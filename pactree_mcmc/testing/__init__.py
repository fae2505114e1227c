"""Checks for what others bring: moves, leaves and split priors that are not the library's.

They are to this library what ``check_estimator`` is to scikit-learn: each tries its subject on small problems against
what it must be by definition, returns a report where all is well, and raises an error, an AssertionError, that names
what is wrong and where.

A copy of the library that runs as plain Python, without compilation, is made when first needed; it takes seconds.
"""

from .balance import BalanceError, BalanceReport, check_balance
from .leaf import LeafError, LeafReport, check_leaf
from .split_prior import SplitPriorError, SplitPriorReport, check_split_prior

__all__ = [
    "BalanceError",
    "BalanceReport",
    "LeafError",
    "LeafReport",
    "SplitPriorError",
    "SplitPriorReport",
    "check_balance",
    "check_leaf",
    "check_split_prior",
]
