"""Errors planted in the plain copy of the package."""

import builtins
from typing import NamedTuple

from pactree_mcmc.testing.spaces import imbalance, plain_package, posterior_of
from tests.mcmc.transitions import explore
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

BREACH = 1e-3
"""Imbalance that a planted error must cause at least."""
BALANCED = 1e-12
REMEMBERED = {}
"""Values that one planted function leaves to another."""


class Bug(NamedTuple):
    """An error of a step, and the space that shows it."""

    step: str
    case: str
    changes: tuple
    """Triples (module, function, replacement)."""
    settings: tuple = ()
    """Triples (module, name, value) of valid settings under which the space shows the error."""
    prior: str = "chipman"
    leaf: str = "nig"


def plant(patch, bug, right=False):
    """Put the changes of a bug in place; if ``right``, functions that change nothing."""
    for module, name, value in bug.settings:
        patch.setattr(plain_package().module(module), name, value)
    for module, name, wrong in bug.changes:
        where = plain_package().module(module)
        function = getattr(where, name, None) or getattr(builtins, name)
        patch.setattr(where, name, standing_in(function, pass_on if right else wrong), raising=False)


def standing_in(right, wrong):
    return lambda *args: wrong(right, *args)


def pass_on(right, *args):
    return right(*args)


def breach(bug):
    model = build_model(plain_package().package, case_problem(bug.case, bug.prior, bug.leaf))
    space = explore(model, bug.step, walker="grow-prune")
    return imbalance(space.transition, posterior_of(model, space.trees))


def zero(right, *args):
    right(*args)
    return 0.0


def never(right, *args):
    return False


def always(right, *args):
    return True


def one_more(right, *args):
    return right(*args) + 1


def one_less(right, *args):
    return right(*args) - 1


def only_within(module, outer, name, wrong, of=None):
    """Changes: ``wrong`` stands in for function ``name`` while ``outer`` runs, of that module or of ``of``."""

    def enter(right, *args):
        REMEMBERED[outer] = True
        out = right(*args)
        REMEMBERED[outer] = False
        return out

    def inside(right, *args):
        return wrong(right, *args) if REMEMBERED.get(outer) else right(*args)

    return (of or module, outer, enter), (module, name, inside)


def in_proposal(error):
    """``replacement`` with a log proposal ratio that is wrong by ``error(state, old, new)``."""

    def wrong(right, model, state, which, node, top, log_proposal_ratio):
        return right(model, state, which, node, top, log_proposal_ratio + error(state, node, top))

    return wrong
