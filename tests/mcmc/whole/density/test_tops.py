"""How many depths there are to draw the top of what is redrawn from: the density says it, and the chain stays in
balance whatever it says.
"""

import numpy as np
import pytest

from pactree_mcmc.mcmc.state.records import MIN_TOP_DEPTHS, N_INTERNAL, initial_density
from pactree_mcmc.mcmc.whole.density.fit import fit_density, mean_depth
from pactree_mcmc.mcmc.whole.density.terms import ROWS_TERM
from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.balance import check_balance
from tests.mcmc.whole.density.test_fit import simulated
from tests.mcmc.whole.density.test_graph import grown
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

SPACE = ("ties", "chipman", "dirichlet")


def with_tops(tops):
    """The problem, and a chain whose density says that so many depths are drawn from."""
    naive = case_problem(*SPACE)
    chain = grown(build_model(plain_package().package, naive), 1)
    chain.state.density[-1, 0] = tops
    return naive, chain


@pytest.mark.more
@pytest.mark.parametrize("tops", [1.0, 4.0])
def test_balance_with_other_numbers_of_depths(tops):
    naive, chain = with_tops(tops)
    check_balance(naive, "learned", chain=chain)


def test_as_many_depths_as_the_leaf_of_a_row_is_deep_on_average():
    """A tree of 100 rows: 60 of them part again, and all of these once more and once more."""
    decisions, rows = simulated(6), np.array([100.0, 60.0, 40.0, 60.0, 60.0, 60.0])
    terms = decisions.cell_terms.copy()
    terms[:, ROWS_TERM] = np.log1p(rows)
    split = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    deep = decisions._replace(level=np.array([0, 1, 1, 2, 3, 3]), is_split=split, cell_terms=terms)
    assert mean_depth(deep) == pytest.approx(3.4)
    assert mean_depth(deep._replace(is_split=0.0 * split)) == 0.0
    assert fit_density(deep)[-1, 0] == MIN_TOP_DEPTHS == initial_density()[-1, 0]
    terms[:, ROWS_TERM] = np.log1p([100.0, 100.0, 0.0, 100.0, 100.0, 90.0])
    assert fit_density(deep)[-1, 0] == 5.0


@pytest.mark.more
@pytest.mark.planted
def test_depths_by_the_size_of_the_tree_are_noticed(monkeypatch):
    naive, chain = with_tops(2.0)
    learned = plain_package().module("mcmc.moves.learned")
    right = learned.pick_cell

    def by_size(rng, model, state):
        state.density[-1, 0] = 3.0 + state.count[N_INTERNAL]
        return right(rng, model, state)

    monkeypatch.setattr(learned, "pick_cell", by_size)
    with pytest.raises(AssertionError):
        check_balance(naive, "learned", chain=chain)
