"""Negative controls: what is kept of a cell and taken for another cell, or another beta, breaks detailed balance."""

import pytest

from pactree_mcmc.mcmc.state import records
from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.planting import BALANCED, BREACH, Bug, breach, plant
from tests.mcmc.transitions import StateSnapshot, explore, imbalance, new_ladder, posterior_of
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

CHAIN, GROWTH, ROTATION = "mcmc.chain.chain", "mcmc.edits.grow", "mcmc.edits.rotate_in_place"
SCAN, SPLITS = "mcmc.sums.split_sums", "mcmc.state.splits"
LAST_ROW = 3


def upper_end_by_twos(right, state, node, k):
    """A box hashes as one that ends a code later."""
    hash_integer = plain_package().module("core.bits").hash_integer
    return hash_integer(hash_integer(hash_integer(k) + state.box[node, k, 0]) + state.box[node, k, 1] // 2)


def lower_end_ignored(right, state, node, k):
    """A box hashes as one that begins elsewhere."""
    hash_integer = plain_package().module("core.bits").hash_integer
    return hash_integer(hash_integer(k) + state.box[node, k, 1])


def last_row_ignored(right, x):
    """A set of rows hashes as the same without the last row."""
    return 0 if x == LAST_ROW else right(x)


def one_place(model, state, node):
    """`claim_cell_entry` with room for one cell."""
    cell = state.stored.cell[0]
    if cell.hash != state.node[node].hash:
        cell.hash, cell.weight = state.node[node].hash, -1.0
        cell.scan = -1
    return 0


def not_emptied(right, model, state, node):
    """The place is taken for the node's whichever cell it holds."""
    return 0


BOX_HASH = tuple((module, "box_hash_term", upper_end_by_twos) for module in (CHAIN, GROWTH, ROTATION))
LOWER_HASH = tuple((module, "box_hash_term", lower_end_ignored) for module, _, _ in BOX_HASH)
ROW_HASH = tuple((module, "hash_integer", last_row_ignored) for module in (CHAIN, GROWTH))
ONE_PLACE = tuple((module, "claim_cell_entry", one_place) for module in (SPLITS, SCAN))
BUGS = {
    "end of the box": Bug("collapsed", "grid_line", BOX_HASH),
    "beginning of the box": Bug("collapsed", "grid_line", LOWER_HASH),
    "a row": Bug("collapsed", "short_line", ROW_HASH),
    "another cell's table": Bug("collapsed", "grid_line", ((SCAN, "claim_cell_entry", not_emptied),), ONE_PLACE),
}


@pytest.mark.more(everyday=["another cell's table"])
@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_the_table_of_another_cell_is_noticed(name, monkeypatch):
    plant(monkeypatch, BUGS[name])
    assert breach(BUGS[name]) > BREACH


@pytest.mark.more(everyday=["end of the box"])
@pytest.mark.parametrize("name", BUGS)
def test_room_for_one_cell_is_enough(name, monkeypatch):
    """With the right functions planted at the same places, the same spaces are in balance."""
    plant(monkeypatch, BUGS[name], right=True)
    assert breach(BUGS[name]) < BALANCED


def go_down(ladder):
    """The first replica changes places with the second."""
    ladder._swap(0)


def adapt(ladder):
    """The level in the middle moves."""
    ladder.n_proposed[:], ladder.acceptance[:] = 10, [9.0, 2.0]
    ladder._adapt_betas()


def breaches_on_a_ladder(step, level, *changes):
    """Imbalance of the replica first at a level of the ladder, at once and after each change of its beta."""
    model = build_model(plain_package().package, case_problem("short_line", "chipman", "nig"))
    ladder = new_ladder(model, [1.0, 0.4, 0.0], adapts=True)
    chain = ladder.replicas[level]
    stump, imbalances = StateSnapshot(chain.state), []
    for change in (None, *changes):
        before = float(chain.state.beta[0])
        if change:
            stump.restore(chain.state)
            change(ladder)
            assert chain.state.beta[0] != before
        space = explore(model, step, walker="grow-prune", chain=chain)
        distribution = posterior_of(model, space.trees, float(chain.state.beta[0]))
        imbalances.append(imbalance(space.transition, distribution))
    return imbalances


@pytest.mark.more(everyday=["collapsed"])
@pytest.mark.parametrize("step", ["collapsed", "learned"])
def test_tables_follow_beta(step):
    assert max(breaches_on_a_ladder(step, 0, go_down, adapt)) < BALANCED


def levels_fraction_tables(ladder, i):
    """The number of tables tells ladders apart, not levels."""
    state = ladder.replicas[i].state
    state.beta[0], state.count[records.STORED_VERSION] = ladder.betas[i], ladder.generation


def ladders_fraction_tables(ladder, i):
    """The number of tables tells levels apart, not ladders."""
    state = ladder.replicas[i].state
    state.beta[0], state.count[records.STORED_VERSION] = ladder.betas[i], i


@pytest.mark.more(everyday=["levels_fraction_tables-0-go_down-collapsed"])
@pytest.mark.planted
@pytest.mark.parametrize("step", ["collapsed", "learned"])
@pytest.mark.parametrize(
    ("wrong", "level", "change"), [(levels_fraction_tables, 0, go_down), (ladders_fraction_tables, 1, adapt)]
)
def test_tables_of_another_beta_are_noticed(step, wrong, level, change, monkeypatch):
    monkeypatch.setattr(plain_package().module("mcmc.chain.tempering").Ladder, "_set_level", wrong)
    before, after = breaches_on_a_ladder(step, level, change)
    assert before < BALANCED
    assert after > BREACH
