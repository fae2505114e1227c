"""Feature weights that are drawn: given them every move keeps the posterior, and they are drawn given the tree."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import beta

from pactree_mcmc.mcmc.state import weights as compiled
from pactree_mcmc.mcmc.state.records import N_INTERNAL
from pactree_mcmc.model.split_prior.base import N_CONCENTRATIONS
from pactree_mcmc.testing.plain import plain_package
from tests.mcmc.balance import check_balance, moving
from tests.mcmc.planting import BALANCED, BREACH, Bug, least_flow, plant
from tests.mcmc.transitions import STEPS, Stepper, explore, imbalance, new_chain, posterior_of
from tests.problems.models import build_model
from tests.problems.spaces import case_problem

KNOWN_WEIGHTS = (0.85, 0.1, 0.05)
"""Weights of the features, as many as there are, not normalised."""
SPACES = {
    "learned": ("ties", "box", "min_leaf_mixed", "grid_box"),
    "regrow-line": ("line_below", "min_leaf_mixed", "dyadic_one"),
    "regrow-1": ("shallow_ties", "box", "min_leaf_mixed"),
    "restructure": ("five_corners", "min_leaf_mixed", "grid_one"),
    "rotate": ("ties", "five_corners", "grid_box"),
    "reshape": ("ties", "line_below", "grid_box"),
    "subgraph": ("mirrored", "box"),
}
USUAL = ("ties", "min_leaf_mixed", "gaps_local", "grid_box", "dyadic_one")
STILL = {(step, case) for step in ("shift", "regrow-line") for case in ("min_leaf_mixed", "dyadic_one")}
"""Moves and spaces in which a step changes nothing."""


def unknown(naive):
    """The problem with weights that are drawn, and with the given ones."""
    p = len(naive.X[0])
    with_drawn = replace(naive, split_prior={**naive.split_prior, "weights": "dirichlet"})
    return with_drawn, replace(naive, split_prior={**naive.split_prior, "weights": list(KNOWN_WEIGHTS[:p])})


def weighed_chain(naive):
    """A chain at the stump with the given weights."""
    chain = new_chain(build_model(plain_package().package, naive))
    p = len(naive.X[0])
    chain.state.weights[:p] = np.log(np.array(KNOWN_WEIGHTS[:p]) / sum(KNOWN_WEIGHTS[:p]))
    return chain


STEPS_AND_CASES = [(step, case) for step in STEPS for case in SPACES.get(step, USUAL)]


@pytest.mark.more(
    everyday=[
        "grow-prune-ties",
        "blanchard-ties",
        "collapsed-min_leaf_mixed",
        "learned-box",
        "change-gaps_local",
        "shift-grid_box",
    ]
)
@pytest.mark.parametrize(("step", "case"), STEPS_AND_CASES)
def test_balance_given_the_weights(step, case):
    with_drawn, with_known = unknown(case_problem(case, "chipman", "nig"))
    space = check_balance(with_known, step, chain=weighed_chain(with_drawn))
    assert (moving(space).max() > 1e-12) == ((step, case) not in STILL)


def breach(step, case):
    with_drawn, with_known = unknown(case_problem(case, "chipman", "nig"))
    model = build_model(plain_package().package, with_known)
    space = explore(model, step, walker="grow-prune", chain=weighed_chain(with_drawn))
    return imbalance(space.transition, posterior_of(model, space.trees), least_flow(step))


def none(right, *args):
    return 0.0


BASE, RESHAPE = "mcmc.moves.base", "mcmc.moves.reshape"
WRONG = {step: Bug(step, "ties", ((BASE, "log_tilt_ratio", none),)) for step in ("grow-prune", "collapsed", "change")}
WRONG |= {
    "learned": Bug("learned", "box", ((BASE, "log_tilt_ratio", none),)),
    "subgraph": Bug("subgraph", "box", ((BASE, "log_tilt_ratio", none),)),
    "rotate, turned": Bug("rotate", "ties", ((BASE, "split_tilt", none),)),
    "change, old tree": Bug("change", "ties", ((BASE, "stored_tilt", none),)),
    "change, new tree": Bug("change", "ties", ((BASE, "update_tilts", none),)),
    "grow-prune, grown": Bug("grow-prune", "ties", ((BASE, "split_tilt", none),)),
    "reshape": Bug("reshape", "line_below", ((RESHAPE, "has_drawn_weights", none),)),
}


@pytest.mark.more(everyday=["change, old tree"])
@pytest.mark.planted
@pytest.mark.parametrize("name", WRONG)
def test_a_prior_by_equal_weights_is_noticed(name, monkeypatch):
    plant(monkeypatch, WRONG[name])
    assert breach(*WRONG[name][:2]) > BREACH


@pytest.mark.more
def test_planting_changes_nothing_by_itself(monkeypatch):
    for bug in WRONG.values():
        plant(monkeypatch, bug, right=True)
    for step, case in {bug[:2] for bug in WRONG.values()}:
        assert breach(step, case) < BALANCED


NODES = (
    np.array([0, 1, 1, 2, 0]),
    np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0], [1.0, 0.0, 0.0]]),
)
"""Features on which five nodes split, and the parts of the three features that they admit."""
MIDDLES = (np.arange(400) + 0.5) / 400


def simplex(alpha):
    """Points (m, 3) that are equally likely under Dirichlet(alpha, alpha, alpha)."""
    x, y = np.meshgrid(beta.ppf(MIDDLES, alpha, 2.0 * alpha), beta.ppf(MIDDLES, alpha, alpha))
    return np.stack([x.ravel(), ((1.0 - x) * y).ravel(), ((1.0 - x) * (1.0 - y)).ravel()], axis=1)


def prior_points(n):
    """Logs of weights (n, 3) from the prior whose concentration is unknown, with rho = 3, and the concentrations."""
    rng = np.random.default_rng(7)
    below = ((rng.integers(N_CONCENTRATIONS, size=n) + 0.5) / N_CONCENTRATIONS) ** 2
    a = 3.0 * below / (1.0 - below)
    log_g = np.log(rng.gamma(a[:, None] / 3.0 + 1.0, size=(n, 3))) + 3.0 * np.log(rng.random((n, 3))) / a[:, None]
    return log_g - logsumexp(log_g, axis=1, keepdims=True), a


def likelihood(log_points, split_on, admitted):
    """Probability (m,) of what nodes split on by the logs of weights (m, p)."""
    out = np.zeros(len(log_points))
    for k, part in zip(split_on, admitted, strict=True):
        out += log_points[:, k] - logsumexp(log_points, axis=1, b=part)
    return np.exp(out)


def answers(weights, a):
    """Return functions of weights (m, 3) and concentrations (m,) whose means are compared."""
    a = np.broadcast_to(a, len(weights))
    return np.column_stack([weights, weights**2, weights[:, 0] > 0.5, a / (a + 3.0)])


def expected_answers(concentration):
    """The mean over weights by quadrature; over half a million prior draws where the concentration is drawn too."""
    if concentration == 0.0:
        log_points, a = prior_points(500_000)
    else:
        log_points, a = np.log(simplex(concentration / 3.0)), concentration
    weight = likelihood(log_points, *NODES)
    return weight @ answers(np.exp(log_points), a) / weight.sum()


def chain_of_weights(steps, concentration, n, nodes=NODES, seed=1):
    """Means and errors of `answers` over ``n`` rounds of the steps."""
    rng, dirichlet, p = np.random.default_rng(seed), np.array([concentration, 3.0]), nodes[1].shape[1]
    weights = np.append(np.full(p, -log(p)), concentration or 1.0)
    points = np.empty((n, p + 1))
    for i in range(n):
        for step in steps:
            step(rng, weights, dirichlet, *nodes)
        points[i] = np.append(np.exp(weights[:p]), weights[p])
    return points


def scaled_errors(points, expected):
    """Return the errors of the means, in standard errors by blocks."""
    blocks = points.reshape(50, -1, points.shape[1]).mean(axis=1)
    error = blocks.std(axis=0, ddof=1) / 50**0.5
    return np.abs(blocks.mean(axis=0) - expected) / np.maximum(error, 1e-12)


def draw_step(rng, weights, dirichlet, split_on, admitted):
    compiled.draw_weights(rng, weights, dirichlet, split_on, admitted)


def metropolis_step(rng, weights, dirichlet, split_on, admitted):
    compiled.metropolis_step(rng, weights, split_on, admitted)


def counts_alone(rng, weights, dirichlet, split_on, admitted):
    """The well-known slip: Dirichlet(a/p + counts), as if all cells admitted all features."""
    compiled.draw_weights(rng, weights, dirichlet, split_on, np.ones(admitted.shape))


BOTH_STEPS = (draw_step, metropolis_step)


@pytest.mark.more
@pytest.mark.parametrize(
    ("steps", "concentration"), [((draw_step,), 1.2), ((metropolis_step,), 1.2), (BOTH_STEPS, 4.0), (BOTH_STEPS, 0.0)]
)
def test_weights_given_a_tree_against_quadrature(steps, concentration):
    points = chain_of_weights(steps, concentration, 20_000)
    assert scaled_errors(answers(points[:, :-1], points[:, -1]), expected_answers(concentration)).max() < 4.0


@pytest.mark.more
@pytest.mark.planted
@pytest.mark.parametrize("concentration", [1.2, 0.0])
def test_counts_alone_are_noticed(concentration):
    points = chain_of_weights((counts_alone,), concentration, 20_000)
    assert scaled_errors(answers(points[:, :-1], points[:, -1]), expected_answers(concentration)).max() > 10.0


@pytest.mark.more
def test_weights_far_below_all_floats():
    """A node that admits two of three features, with weights 200 nats apart, determines only their ratio."""
    alpha, nodes = 0.005, (np.array([0]), np.array([[1.0, 1.0, 0.0]]))
    points = chain_of_weights(BOTH_STEPS, 3.0 * alpha, 20_000, nodes)
    assert np.isfinite(points).all()
    assert points[:, :3].sum(axis=1) == pytest.approx(1.0)
    assert scaled_errors(points[:, 2:3], np.array([1.0 / 3.0])).max() < 4.0
    two_admitted = points[points[:, 2] < 0.5][:10_000]
    ratio = two_admitted[:, :1] / two_admitted[:, :2].sum(axis=1, keepdims=True)
    assert scaled_errors(ratio, np.array([(alpha + 1.0) / (2.0 * alpha + 1.0)])).max() < 4.0


@pytest.mark.more
def test_a_feature_alone_tells_nothing():
    """A cell that admits one feature splits on it whatever its weight."""
    nodes = np.array([2, 2, 2]), np.array([[0.0, 0.0, 1.0]] * 3)
    points = chain_of_weights(BOTH_STEPS, 1.5, 20_000, nodes)[:, :3]
    assert scaled_errors(points, np.full(3, 1.0 / 3.0)).max() < 4.0


def test_a_change_made_by_equal_weights_is_refused():
    """It cannot be weighed any more by the weights drawn."""
    proposals, base = (plain_package().module(f"mcmc.{name}") for name in ("edits.proposal", "moves.base"))
    for drawn_weights in (False, True):
        naive = case_problem("ties", "chipman", "nig")
        chain = (
            weighed_chain(unknown(naive)[0])
            if drawn_weights
            else new_chain(build_model(plain_package().package, naive))
        )
        arguments = np.random.default_rng(1), chain.model, chain.packed_state, 0
        base.decide_proposal(*arguments, proposals.made_at(0, 0))
        if drawn_weights:
            with pytest.raises(ValueError, match=r"returned moves\.made: .*give feature_weights as numbers"):
                base.decide_proposal(*arguments, proposals.made(0))
        else:
            base.decide_proposal(*arguments, proposals.made(0))


@pytest.mark.more(everyday=["ties"])
@pytest.mark.parametrize("case", ["ties", "line_below", "grid_box"])
def test_tilts_are_those_of_the_tree_after_every_step(case):
    """Proposals refused leave them as they were, those accepted bring their own."""
    chain = weighed_chain(unknown(case_problem(case, "chipman", "nig"))[0])
    weights, rng = plain_package().module("mcmc.state.weights"), np.random.default_rng(4)
    steppers, changes = [Stepper(step) for step in STEPS], 0
    with np.errstate(over="ignore"):
        for i in range(600):
            steppers[i % len(steppers)].make(rng, chain)
            nodes = inner_nodes(chain.state)
            stored = [float(chain.state.tilt[node]) for node in nodes]
            weights.update_tilts(chain.model, chain.packed_state, 0)
            assert stored == pytest.approx([float(chain.state.tilt[node]) for node in nodes], abs=1e-12)
            changes += len(nodes) > 1
    assert changes > 100


def inner_nodes(state):
    """Internal nodes of the present tree."""
    return [int(state.node[i].internal) for i in range(int(state.count[N_INTERNAL]))]
