"""Which proposals a kernel makes when: fractions of blocks, against a loop that makes one at a time."""

import numpy as np
import pytest

from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import KERNEL_WEIGHTS, LIBRARY_MOVES, PROPOSAL_ROWS, Kernel, read_kernel
from tests.problems.runs import MODELS

MIXTURES = {
    **KERNEL_WEIGHTS,
    "one step of many weights": {"change": 7.0},
    "two alike": {"change": 1.0, "swap": 1.0},
    "thirds": {"change": 1.0, "swap": 1.0, "rotate": 1.0},
    "all alike": dict.fromkeys(LIBRARY_MOVES, 1.0),
    "small parts": {name: 2.0**-i for i, name in enumerate(list(LIBRARY_MOVES)[:12])},
    "rare": {"collapsed": 1.0, "rotate": 0.3, "learned": 3e-4, "informed-change": 1e-4},
}


REPEATS = 10_000
"""Proposals before which no order repeats."""


def naive(weights, n):
    """(n + 1, steps) how often each step was made: at each proposal the one whose next is due first."""
    made = np.zeros((n + 1, len(weights)), dtype=int)
    for i in range(n):
        due = [(count + 0.5) / weight for count, weight in zip(made[i], weights, strict=True)]
        made[i + 1] = made[i]
        made[i + 1, due.index(min(due))] += 1
    return made


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("mixture", list(MIXTURES))
def test_blocks_are_cut_from_one_order(mixture):
    """As a loop makes them, whatever the size of blocks; none negative, each with all its proposals."""
    whole = naive(read_kernel(MIXTURES[mixture]).weights, 3000)
    for block in (1, 7, 10, 30, 100, 333):
        kernel = read_kernel(MIXTURES[mixture], block)
        ends = np.arange(0, 3000 - block, block)
        proposals_of_block = [kernel.proposals_of_block(b) for b in range(len(ends))]
        assert np.array_equal(proposals_of_block, whole[ends + block] - whole[ends])
        assert all(sum(fraction) == block and min(fraction) >= 0 for fraction in proposals_of_block)
    assert kernel.next_proposals(17, 1000) == (whole[1017] - whole[17]).tolist()


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_parts_follow_the_weights_at_every_proposal(mixture):
    """Never further off than rounding takes them, and the order where it repeats."""
    kernel, n = read_kernel(MIXTURES[mixture], 1), 4 * REPEATS
    made = np.cumsum([kernel.proposals_of_block(b) for b in range(n)], axis=0)
    weights = np.array(kernel.weights)
    off = np.abs(made - np.arange(1, n + 1)[:, None] * weights)
    assert (off <= 0.5 + 0.5 * weights * len(weights) + 1e-6 + (np.arange(1, n + 1) // REPEATS)[:, None]).all()


@pytest.mark.parametrize("mixture", list(MIXTURES))
@pytest.mark.parametrize("block", [1, 30, 9_999, 10_000, 25_001])
def test_blocks_go_on_where_the_period_ends(mixture, block):
    """One after another they are what is made of all at once; far out as well, and where a block is longer."""
    kernel = read_kernel(MIXTURES[mixture], block)
    first = max(REPEATS // block - 2, 0)
    for start in (first, first + 10**9):
        proposals_of_block = np.array([kernel.proposals_of_block(b) for b in range(start, start + 5)])
        assert proposals_of_block.min() >= 0 and (proposals_of_block.sum(axis=1) == block).all()
        assert proposals_of_block.sum(axis=0).tolist() == kernel.next_proposals(start * block, 5 * block)
    assert sum(kernel.next_proposals(first * block, 0)) == 0


@pytest.mark.parametrize(
    "weight",
    [
        0.002,
        5e-4,
        2.4e-4,
        7e-7,
        4e-7,
    ],
)
def test_over_many_blocks_a_rare_step_makes_its_part(weight):
    """Within a tenth, and some in any case: it may be the one that makes the chain reach all trees."""
    kernel = read_kernel({"change": 1.0 - weight, "grow-prune": weight}, 100)
    made = kernel.next_proposals(0, 10**9)
    assert made[1] == pytest.approx(weight * 10**9, rel=0.1)


@pytest.mark.parametrize("blocks", [0, 331])
def test_a_chain_makes_the_shares_of_its_blocks(blocks):
    """From the block it stands at, in one go or in several; 333 blocks of 30 end just before a period does."""
    kernel = read_kernel({"grow-prune": 0.6, "change": 0.3, "swap": 0.0997, "rotate": 3e-4}, 30)
    ends = []
    for parts in ([6], [1, 2, 3], [4, 2]):
        chain = Chain(MODELS["numbers"].lowered, kernel, np.random.default_rng(3))
        chain.blocks = blocks
        for part in parts:
            chain.run_blocks(part)
        assert chain.blocks == blocks + 6
        assert chain.cost[0].tolist() == kernel.next_proposals(30 * blocks, 180)
        ends.append((chain.state.order.tolist(), chain.rng.bit_generator.state, chain.cost.tolist()))
    assert ends[0] == ends[1] == ends[2]


def test_a_proposal_costs_the_same_however_long_ago_it_was_made():
    """Both the number of proposals and their rows are multiplied by 0.7 after each of six rounds."""
    kernel = read_kernel("whole", 30, adapts=True)
    cost = np.array([[50.0, 2.0, 500.0, 200.0, 80.0, 30.0, 70.0], [5e5, 1e5, 5e4, 2e4, 8e3, 3e3, 7e3]])
    then = cost.copy()
    then[:, 1] *= 0.7**6
    assert kernel.rows_per_block(then) == pytest.approx(kernel.rows_per_block(cost))
    assert kernel.with_weights_by_cost(then, 1e5).weights == pytest.approx(
        kernel.with_weights_by_cost(cost, 1e5).weights
    )


def test_a_step_that_made_no_proposals_is_as_dear_as_the_dearest():
    kernel = read_kernel({"learned": 0.5, "collapsed": 0.3, "swap": 0.2}, 10)
    cost = np.array([[4.0, 0.0, 10.0], [400.0, 0.0, 50.0]])
    assert kernel.rows_per_block(cost) == pytest.approx(10 * (0.8 * 100.0 + 0.2 * 5.0 + PROPOSAL_ROWS))


def rounded(kernel, done, n):
    """Ends of the steps' parts rounded each by itself, as blocks were once shared out."""
    before, after = (np.round(np.cumsum(kernel.weights) * made).astype(int) for made in (done, done + n))
    return np.diff(after - before, prepend=0).tolist()


def made_anew(kernel, done, n, right=Kernel.next_proposals):
    """Every block begins the order afresh."""
    return right(kernel, 0, n)


@pytest.mark.more
@pytest.mark.planted
@pytest.mark.parametrize("wrong", [rounded, made_anew])
def test_wrong_shares_are_noticed(wrong, monkeypatch):
    monkeypatch.setattr(Kernel, "next_proposals", wrong)
    with pytest.raises(AssertionError):
        test_blocks_are_cut_from_one_order("whole")
    with pytest.raises(AssertionError):
        test_parts_follow_the_weights_at_every_proposal("rare")


def test_kernels_of_equal_weights_share_one_order():
    """Steps are named by the kernel, their order is by weights alone."""
    one, other = Kernel(("change", "swap"), (0.75, 0.25), 10), Kernel(("swap", "rotate"), (0.75, 0.25), 10)
    assert [one.proposals_of_block(b) for b in range(9)] == [other.proposals_of_block(b) for b in range(9)]
