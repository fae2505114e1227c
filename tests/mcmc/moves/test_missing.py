"""Every move leaves the posterior in balance where values are missing."""

import pytest

from tests.mcmc.balance import check_balance, moving
from tests.mcmc.transitions import STEPS
from tests.problems.leaves import LEAVES
from tests.problems.spaces import GAPS, case_problem
from tests.problems.tree_priors import PRIORS

TOO_MANY_OUTCOMES = {
    "regrow-1": {"gaps_local", "gaps_grid_line", "gaps_dyadic", "gaps_grid"},
    "regrow-2": {"gaps_line", "gaps_local", "gaps_nominal", "gaps_grid_line", "gaps_grid", "gaps_dyadic"},
    "restructure": {"gaps_local"},
    "subgraph": {"gaps_local", "gaps_nominal"},
}
MOST = "gaps_cyclic gaps_dyadic gaps_grid gaps_line gaps_min_leaf"
FEW = "gaps_cyclic gaps_line gaps_min_leaf"
OFF = {
    "shift": {"gaps_grid", "gaps_dyadic", "gaps_cyclic"},
    "swap": {"gaps_min_leaf", "gaps_grid_line", "gaps_cyclic"},
    "rotate": {"gaps_min_leaf", "gaps_cyclic"},
    "restructure": {"gaps_dyadic", "gaps_cyclic"},
    "reshape": {"gaps_min_leaf", "gaps_grid", "gaps_dyadic", "gaps_cyclic"},
    "regrow-line": {*GAPS},
}
"""Where a move changes nothing."""


def rotated():
    """Every move with every case, priors and leaf models in turn."""
    steps = [step for step in STEPS if step != "blanchard"]
    return [
        (step, case, list(PRIORS)[(3 * i + s) % len(PRIORS)], list(LEAVES)[(i + s) % len(LEAVES)])
        for s, step in enumerate(steps)
        for i, case in enumerate(GAPS)
        if case not in TOO_MANY_OUTCOMES.get(step, ())
    ]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(("step", "case", "prior", "leaf"), rotated())
def test_balance_with_missing_values(step, case, prior, leaf):
    space = check_balance(case_problem(case, prior, leaf), step)
    assert (moving(space).max() > 1e-12) == (case not in OFF.get(step, ()))
