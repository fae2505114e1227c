"""Checks of your own moves and leaves, and of split priors.

They correspond to scikit-learn's ``check_estimator``: each tests its subject on small problems against its definition,
returns a report if everything is correct, and otherwise raises an AssertionError that says what is wrong and where.

A copy of the library that runs as plain Python, without compilation, is made when first needed, which takes seconds.
"""

from .balance import BalanceError, check_balance
from .leaf import LeafError, check_leaf
from .split_prior import SplitPriorError, check_split_prior

__all__ = ["BalanceError", "LeafError", "SplitPriorError", "check_balance", "check_leaf", "check_split_prior"]
