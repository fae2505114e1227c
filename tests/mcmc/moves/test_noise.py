"""A shared noise variance: given it, every move keeps the posterior, by whichever guess of it tables are kept."""

from dataclasses import replace
from math import log

import numpy as np
import pytest

from pactree_mcmc.mcmc.state.records import STORED_VERSION
from pactree_mcmc.testing.spaces import StateSnapshot, imbalance, new_chain, plain_package, posterior_of
from tests.mcmc.planting import BALANCED, BREACH, Bug, plant
from tests.mcmc.transitions import STEPS, check_balance, explore, new_ladder
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

SIGMA2, SIGMA2_GUESS = 0.4, 1.2
SHARED = {"kind": "shared", "m0": 0.4, "k0": 0.5, "a0": 2.0, "b0": 1.0}
KNOWN_LEAF = {"kind": "known", "m0": 0.4, "k0": 0.5, "sigma2": SIGMA2}
GROW, SUBTREE = "mcmc.edits.grow", "mcmc.edits.replace_subtree"
COLLAPSED = "mcmc.moves.collapsed"
BOTH = [(step, case) for step in STEPS for case in ("ties", "five_corners" if step == "rotate" else "min_leaf_mixed")]


def noise():
    return plain_package().module("mcmc.state.terms")


def given_variance(case, prior="chipman"):
    return replace(case_problem(case, prior, "known"), leaf=KNOWN_LEAF)


def shared_model(naive):
    return build_model(plain_package().package, replace(naive, leaf=SHARED))


def put_variance(chain, sigma2):
    noise().set_variance(chain.model.leaf.params, sigma2)
    noise().rescore_nodes(chain.model, chain.packed_state)


def noisy_chain(naive):
    """A chain at the stump with the variance SIGMA2 and tables by the guess SIGMA2_GUESS."""
    chain = new_chain(shared_model(naive))
    put_variance(chain, SIGMA2)
    noise().set_noise_guess(chain.model, chain.packed_state, SIGMA2_GUESS)
    return chain


@pytest.mark.more(everyday=["grow-prune-ties", "blanchard-min_leaf_mixed", "rotate-five_corners"])
@pytest.mark.parametrize(("step", "case"), BOTH)
def test_balance_given_the_variance(step, case):
    naive = given_variance(case)
    chain = noisy_chain(naive)
    assert chain.state.node[0].guess != pytest.approx(chain.state.node[0].score, rel=0.01)
    check_balance(naive, step, chain=chain)
    assert chain.model.proposal_leaf.params[noise().SIGMA2] == SIGMA2_GUESS


def breach(step):
    naive = given_variance("shallow_ties")
    model = build_model(plain_package().package, naive)
    space = explore(model, step, walker="grow-prune", chain=noisy_chain(naive))
    return imbalance(space.transition, posterior_of(model, space.trees))


def by_variance(right, state, node):
    return plain_package().module("mcmc.edits.grow").log_growth_score_ratio(state, node)


def by_guess(right, state, node):
    return plain_package().module("mcmc.edits.grow").split_gain(state, node)


def guessed_sum(right, state, root):
    total, todo = 0.0, [root]
    while todo:
        record = state.node[todo.pop()]
        total += record.guess if record.left < 0 else 0.0
        todo += [] if record.left < 0 else [record.left, record.right]
    return total


WRONG = {
    "grow-prune: score by the guess": Bug("grow-prune", "", ((GROW, "log_growth_score_ratio", by_guess),)),
    "collapsed: score by the guess": Bug("collapsed", "", ((GROW, "log_growth_score_ratio", by_guess),)),
    "collapsed: guess not corrected": Bug("collapsed", "", ((COLLAPSED, "split_gain", by_variance),)),
}
WRONG |= {
    f"{step}: score by the guess": Bug(step, "", ((SUBTREE, "subtree_log_score", guessed_sum),))
    for step in ("change", "informed-change", "rotate", "learned")
}


@pytest.mark.more(everyday=["collapsed: guess not corrected", "learned: score by the guess"])
@pytest.mark.planted
@pytest.mark.parametrize("name", WRONG)
def test_a_score_by_the_wrong_variance_is_noticed(name, monkeypatch):
    plant(monkeypatch, WRONG[name])
    assert breach(WRONG[name].step) > BREACH


@pytest.mark.more
def test_planting_changes_nothing_by_itself(monkeypatch):
    for bug in WRONG.values():
        plant(monkeypatch, bug, right=True)
    for step in ("grow-prune", "collapsed", "change", "informed-change", "learned"):
        assert breach(step) < BALANCED


def tables_kept(right, model, state, sigma2):
    """The guess changes and the tables stay."""
    right(model, state, sigma2)
    state.count[STORED_VERSION] -= 1


@pytest.mark.more(everyday=["False-collapsed"])
@pytest.mark.parametrize("step", ["collapsed", "learned"])
@pytest.mark.parametrize("wrong", [False, pytest.param(True, marks=pytest.mark.planted)])
def test_tables_follow_the_guess(step, wrong, monkeypatch):
    """While a chain tunes, the guess follows the variance; tables by the old one are stale."""
    naive = given_variance("short_line")
    model, chain = build_model(plain_package().package, naive), noisy_chain(naive)
    stump = StateSnapshot(chain.state)
    explore(model, step, walker="grow-prune", chain=chain)
    stump.restore(chain.state)
    plant(monkeypatch, Bug(step, "", (("mcmc.state.terms", "set_noise_guess", tables_kept),)), right=not wrong)
    noise().update_noise_guess(chain.model, chain.packed_state)
    assert chain.model.proposal_leaf.params[noise().SIGMA2] == SIGMA2
    space = explore(model, step, walker="grow-prune", chain=chain)
    largest_breach = imbalance(space.transition, posterior_of(model, space.trees))
    assert largest_breach > BREACH if wrong else largest_breach < BALANCED


def some_numbers():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 5, (30, 2)).astype(float)
    package = plain_package().package
    with np.errstate(over="ignore"):
        return package.TreeModel(X, X[:, 0] + rng.normal(size=30), leaf=package.NormalSharedVariance())


def plain_kernel():
    return plain_package().module("mcmc.kernel").read_kernel({"collapsed": 0.1, "grow-prune": 0.9})


def variances(chain):
    return tuple(float(rule.params[noise().SIGMA2]) for rule in (chain.lowered.leaf, chain.lowered.proposal_leaf))


def check_guesses(chain):
    kernels = plain_package().module("model.leaf.compiled")
    for node in [0, int(chain.state.node[0].left), int(chain.state.node[0].right)]:
        if node >= 0:
            expected = kernels.leaf_score(chain.lowered.proposal_leaf, chain.state.stats, node)
            assert chain.state.node[node].guess == pytest.approx(expected, rel=1e-12)


def test_the_guess_moves_while_a_chain_tunes_only():
    chains = plain_package().module("mcmc.chain.chain")
    with np.errstate(over="ignore"):
        chain = chains.Chain(some_numbers().lowered, plain_kernel(), np.random.default_rng(1))
        noise().set_noise_guess(chain.model, chain.packed_state, 50.0)
        chain.tune(1, 1)
        variance, sigma2_guess = variances(chain)
        assert abs(log(variance / sigma2_guess)) < noise().MAX_LOG_GUESS_ERROR
        scan, met = int(chain.state.count[STORED_VERSION]), {variance}
        for _ in range(3):
            chain.run_blocks(1)
            met.add(variances(chain)[0])
            assert variances(chain)[1] == sigma2_guess
            check_guesses(chain)
    assert len(met) == 4 and scan == int(chain.state.count[STORED_VERSION])


def shared_ladder(n_blocks):
    """A ladder of three levels after some blocks of tuning."""
    tempering, betas = plain_package().module("mcmc.chain.tempering"), np.array([1.0, 0.3, 0.05])
    ladder = tempering.Ladder(some_numbers().lowered, plain_kernel(), np.random.default_rng(2), (betas, False))
    ladder.tune(n_blocks, n_blocks)
    return ladder


@pytest.mark.parametrize("exchanged", [True, False])
def test_guesses_stay_with_their_levels(exchanged, monkeypatch):
    """Replicas change places, their variances with them; the guesses stay, unless they are not exchanged."""
    if not exchanged:
        monkeypatch.setattr(plain_package().module("mcmc.chain.tempering"), "exchange_guesses", lambda a, b: None)
    with np.errstate(over="ignore"):
        ladder = shared_ladder(1)
        for i, chain in enumerate(ladder.replicas):
            noise().set_noise_guess(chain.model, chain.packed_state, 1.0 + i)
        replicas, before = list(ladder.replicas), [variances(chain)[0] for chain in ladder.replicas]
        ladder._swap(0)
        ladder._swap(1)
        assert [replicas.index(chain) for chain in ladder.replicas] == [1, 2, 0]
        assert [variances(chain)[0] for chain in ladder.replicas] == [before[1], before[2], before[0]]
        if not exchanged:
            assert [variances(chain)[1] for chain in ladder.replicas] == [2.0, 3.0, 1.0]
            return
        ladder.run_blocks(2)
        assert [variances(chain)[1] for chain in ladder.replicas] == [1.0, 2.0, 3.0]
        for chain in ladder.replicas:
            check_guesses(chain)


@pytest.mark.more
def test_balance_after_an_exchange():
    """A replica that comes to another level with another guess has that level's distribution there."""
    naive = given_variance("short_line")
    chains = [noisy_chain(naive) for _ in range(2)]
    ladder = new_ladder(shared_model(naive), [1.0, 0.4])
    ladder.replicas = chains[:]
    ladder._set_levels()
    noise().set_noise_guess(chains[1].model, chains[1].packed_state, 2.0)
    stump = StateSnapshot(chains[0].state)
    check_balance(naive, "collapsed", chain=chains[0])
    stump.restore(chains[0].state)
    ladder._swap(0)
    assert chains[0].model.proposal_leaf.params[noise().SIGMA2] == 2.0
    check_balance(naive, "collapsed", 0.4, chain=chains[0])
