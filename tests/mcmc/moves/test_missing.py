"""Every move leaves the posterior in balance where values are missing."""

import pytest

from tests.mcmc.balance import check_balance, moving
from tests.mcmc.transitions import STEPS
from tests.problems.everyday import everyday
from tests.problems.leaves import LEAVES
from tests.problems.spaces import COSTLY, GAPS, case_problem, kind_of
from tests.problems.tree_priors import PRIORS

TOO_MANY_OUTCOMES = {
    "regrow-1": {"gaps_local", "gaps_grid_line", "gaps_dyadic", "gaps_grid"},
    "regrow-2": {"gaps_line", "gaps_local", "gaps_nominal", "gaps_grid_line", "gaps_grid", "gaps_dyadic"},
    "restructure": {"gaps_local"},
    "subgraph": {"gaps_local", "gaps_nominal"},
}
LONG = ("gaps_grid_line", "gaps_grid", "gaps_dyadic")
"""What takes the random subgraph longer than a test of every day may."""
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


def shown(step, case, prior, leaf):
    """Every step with every kind of question, every prior and leaf model with some; without gaps each step has all."""
    return (step, kind_of(case)), (case, step in ("change", "swap", "collapsed")), prior, leaf


def chosen():
    """Those of every day; the long ones are slow."""
    params = everyday(rotated(), shown, COSTLY)
    long = [param.values[0] == "subgraph" and param.values[1] in LONG for param in params]
    return [pytest.param(*p.values, marks=pytest.mark.slow) if slow else p for p, slow in zip(params, long)]


@pytest.mark.parametrize(("step", "case", "prior", "leaf"), chosen())
def test_balance_with_missing_values(step, case, prior, leaf):
    space = check_balance(case_problem(case, prior, leaf), step)
    assert (moving(space).max() > 1e-12) == (case not in OFF.get(step, ()))
