"""Codes in a cell, and what is kept of its features, against plain definitions."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.transitions import grow_at_random, new_chain

codes, splits = (plain_package().module(f"mcmc.state.{name}") for name in ("codes", "splits"))


@pytest.fixture(scope="module")
def cells():
    """A chain whose leaves have from one to all of 40 rows, with two features of few values and one of many."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 3, 40), rng.integers(0, 9, 40), rng.permutation(40)]).astype(float)
    model = pt.TreeModel(X, rng.integers(0, 2, 40), tree_prior=pt.ChipmanPrior(0.95, 0.3))
    chain = new_chain(model)
    return chain, grow_at_random(chain, rng, 25)


def codes_of(chain, node, k):
    here = chain.state.node[node]
    return chain.model.units.codes[k, chain.state.order[here.start : here.stop]].astype(int)


def check_codes(chain, node):
    state = chain.packed_state
    for k in range(3):
        values = codes_of(chain, node, k)
        distinct = np.unique(values)
        assert codes.collect_codes(chain.model, state, node, k) == len(distinct)
        assert np.array_equal(chain.state.scratch.codes.distinct[: len(distinct)], distinct)
        assert codes.count_codes(chain.model, state, node, k) == len(distinct)
        assert codes.has_two_codes(chain.model, state, node, k) == (len(distinct) > 1)
        n_codes = int(chain.model.split_prior.feature[k].n_codes)
        for cut in range(-1, n_codes):
            low, high = codes.neighbouring_codes(chain.model, state, node, k, cut)
            assert low == max(values[values <= cut], default=-1) and high == min(values[values > cut], default=n_codes)
            between = distinct[(distinct > cut) & (distinct < cut + 4)]
            n = codes.collect_codes_between(chain.model, state, node, k, cut, cut + 4)
            assert np.array_equal(chain.state.scratch.codes.distinct[:n], between)
        assert not chain.state.scratch.codes.rows.any() and not chain.state.scratch.codes.is_present.any()


def check_masses(chain, node):
    """Only the numbers of splits that were needed are stored."""
    with np.errstate(over="ignore"):
        chain.state.stored.cell.hash[:] = -1
        numbers = [len(np.unique(codes_of(chain, node, k))) - 1 for k in range(3)]
        place = splits.store_masses(chain.model, chain.packed_state, node)
        assert [splits.UNCOUNTED_MASS if n else 0.0 for n in numbers] == chain.state.stored.mass[place].tolist()
        assert chain.state.stored.cell[place].weight == sum(n > 0 for n in numbers)
        assert (
            splits.split_mass(chain.model, chain.packed_state, node, 1)
            == numbers[1]
            == chain.state.stored.mass[place, 1]
        )
        assert [splits.split_mass(chain.model, chain.packed_state, node, k) for k in range(3)] == numbers


def test_codes_are_those_of_the_rows(cells):
    chain, nodes = cells
    sizes = {int(chain.state.node[node].stop - chain.state.node[node].start) for node in nodes}
    assert {1, 40} <= sizes and len(sizes) > 5
    for node in nodes:
        check_codes(chain, node)


def test_splits_are_counted_when_asked_for(cells):
    chain, nodes = cells
    assert splits.stores_masses(chain.model, chain.packed_state)
    for node in nodes:
        check_masses(chain, node)


@pytest.mark.planted
def test_a_wrong_number_of_codes_is_noticed(cells, monkeypatch):
    chain, nodes = cells
    for module in (codes, splits):
        monkeypatch.setattr(module, "count_codes", lambda *cell: codes.collect_codes(*cell) + 1)
    for check in (check_codes, check_masses):
        with pytest.raises(AssertionError):
            check(chain, nodes[0])
