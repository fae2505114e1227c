"""The exact transition matrix of a kernel: its plain code run on every outcome of every random choice.

Kernels choose through ``rng.random()`` and ``rng.integers(0, n)`` alone. The generator below answers with prescribed
outcomes; replaying a step with every possible sequence of outcomes, depth first, gives the law of its next tree.
"""

from typing import NamedTuple

import numpy as np
import pytest
from plain import plain_package

from pactree_mcmc.mcmc.state.records import CHANGED

from .records import Records, with_records

KERNELS = {
    "grow-prune": ("mcmc.moves.grow_prune", "grow_prune_step"),
    "blanchard": ("mcmc.moves.blanchard", "blanchard_step"),
    "collapsed": ("mcmc.moves.collapsed", "collapsed_step"),
    "regrow-1": ("mcmc.moves.regrow", "regrow_step", 1),
    "regrow-2": ("mcmc.moves.regrow", "regrow_step", 2),
    "learned": ("mcmc.moves.learned", "learned_step"),
    "subgraph": ("mcmc.moves.subgraph", "subgraph_step"),
}
"""Steps that reach every tree by themselves: module, function, further arguments."""
MOVES = {
    "redraw": ("mcmc.moves.redraw", "redraw_step"),
    "change": ("mcmc.moves.change", "change_step"),
    "shift": ("mcmc.moves.change", "shift_step"),
    "swap": ("mcmc.moves.swap", "swap_step"),
    "rotate": ("mcmc.moves.rotate", "rotate_step"),
    "restructure": ("mcmc.moves.restructure", "restructure_step"),
    "reshape": ("mcmc.moves.reshape", "reshape_step"),
    "regrow-line": ("mcmc.moves.regrow_line", "regrow_line_step"),
}
"""Steps that need grow and prune beside them."""
STEPS = KERNELS | MOVES
MOST_TREES = 500
FEW = {"CELL_BYTES": 1 << 17, "MOST_WAYS": 256}
"""Room for what is kept of about a thousand cells, so that some take the place of others, and for few questions."""
ANCHORED = (2, 1, 2, 1)
"""Anchors of a cell at even steps, by depth class: so few that other questions lie between them."""
EXPECTED = (1.2, 0.6, 0.4)
"""Splits expected in the samples of a random subgraph: fewer than in a run, as every outcome is followed."""


class Outcomes:
    """A generator that follows prescribed outcomes and takes the first one where none is prescribed."""

    def __init__(self, prescribed):
        self.prescribed = prescribed
        self.trail = []
        self.probability = 1.0

    def choose(self, probabilities):
        """Number of the outcome taken among those with the given probabilities."""
        at = len(self.trail)
        taken = self.prescribed[at] if at < len(self.prescribed) else 0
        self.trail.append((taken, len(probabilities)))
        self.probability *= probabilities[taken]
        return taken

    def integers(self, low, high):
        """Each of low, ..., high - 1 with equal probability."""
        assert high > low, f"nothing to choose from in [{low}, {high})"
        return int(low) + self.choose([1.0 / (high - low)] * int(high - low))

    def random(self):
        """A uniform number that is known only as far as it was compared."""
        return Uniform(self, [0.0, 1.0], 1.0, 0.0)

    def next_prescription(self):
        """The outcomes to prescribe next, in depth-first order; None when all were seen."""
        trail = list(self.trail)
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        return [taken for taken, _ in trail[:-1]] + [trail[-1][0] + 1] if trail else None


class Uniform:
    """``scale * U + shift`` with U uniform; ``interval`` is what is known of U, shared by all that derives from it."""

    def __init__(self, outcomes, interval, scale, shift):
        self.outcomes, self.interval, self.scale, self.shift = outcomes, interval, scale, shift

    def __lt__(self, other):
        low, high = self.interval
        threshold = (float(other) - self.shift) / self.scale
        if threshold <= low or threshold >= high:
            return threshold >= high
        below = (threshold - low) / (high - low)
        if self.outcomes.choose([below, 1.0 - below]) == 0:
            self.interval[1] = threshold
            return True
        self.interval[0] = threshold
        return False

    def __mul__(self, factor):
        return Uniform(self.outcomes, self.interval, self.scale * float(factor), self.shift * float(factor))

    def __sub__(self, other):
        return Uniform(self.outcomes, self.interval, self.scale, self.shift - float(other))


def all_outcomes(run):
    """Pairs (probability, result of ``run(generator)``) over all outcomes of the generator."""
    prescribed = []
    while prescribed is not None:
        outcomes = Outcomes(prescribed)
        result = run(outcomes)
        yield outcomes.probability, result
        prescribed = outcomes.next_prescription()


class Space(NamedTuple):
    """All trees a kernel reaches from the stump, and its transition matrix."""

    keys: list
    trees: list
    transition: np.ndarray
    after_pruning: dict
    """Tree number -> snapshot of the chain when last it came there from a larger tree."""


def new_chain(model, beta=1.0, room=64):
    """A plain chain at the stump, with what every step needs and ``room`` nodes at least."""
    plain = plain_package()
    kernels, states = plain.module("mcmc.kernel"), plain.module("mcmc.state.arrays")
    kernel = kernels.read_kernel(dict.fromkeys(kernels.STEPS, 1.0))
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        for name, value in FEW.items():
            patch.setattr(states, name, value)
        chain = plain.module("mcmc.chain.chain").Chain(model.lowered, kernel, np.random.default_rng(0))
    while len(chain.state.node) < room:
        chain.enlarge()
    chain.state, chain.model = with_records(chain.state), with_records(chain.model)
    chain.packed = states.pack_state(chain.state)
    chain.state.beta[0] = beta
    chain.state.density[...] += np.random.default_rng(1).normal(0.0, 0.3, chain.state.density.shape)
    q = len(chain.lowered.split_prior.feature)
    chain.state.density[-1, -q:] = 1 + np.arange(q) % 3
    chain.state.density[-1, : len(ANCHORED)] = ANCHORED
    return chain


def new_ladder(model, betas, adapts=False):
    """A plain ladder of such chains, first level first."""
    plain = plain_package()
    kernel, rng = plain.module("mcmc.kernel").read_kernel("default"), np.random.default_rng(0)
    with np.errstate(over="ignore"):
        ladder = plain.module("mcmc.chain.tempering").Ladder(model.lowered, kernel, rng, (np.array(betas), adapts))
    ladder.replicas = [new_chain(model) for _ in betas]
    ladder._number_levels()
    return ladder


def load(model, chain, tree):
    """Grow a plain chain, a stump, into a tree."""
    with np.errstate(over="ignore"):  # hashes wrap around
        plain_package().module("mcmc.chain.start").load_tree(model, chain, tree)


def tree_key(state):
    """The present tree as a tuple, node by node in preorder."""
    key, todo = [], [0]
    while todo:
        here = state.node[todo.pop()]
        if here.left < 0:
            key.append(-1)
        else:
            key.append((here.feature, here.cut if here.categories < 0 else -1, here.categories))
            todo += [here.right, here.left]
    return tuple(key)


def saved_trees(model, chain):
    """The trees of the chain's draws."""
    saving, posterior = plain_package().module("mcmc.chain.draw_store"), plain_package().module("posterior.sampled")
    drawn = posterior.SampledPosterior.from_chains(model, [saving.trimmed(chain.saved)], (), 0.0)
    return [drawn.distinct_tree(number) for number in drawn.tree_of_draw[0].tolist()]


def present_tree(model, chain):
    """The chain's tree as it would be saved."""
    chain.reserve(1)
    chain.save()
    return saved_trees(model, chain)[0]


class Snapshot:
    """The arrays of a chain that make up its state, to be put back.

    Scratch arrays are left out, and so is what is kept of cells: it holds for every tree, however the chain came there.
    """

    KEPT = ("order", "node", "stats", "box", "count", "beta", "moves")

    def __init__(self, state):
        kept = {name: getattr(state, name) for name in self.KEPT}
        self.records = {name: value.copies() for name, value in kept.items() if isinstance(value, Records)}
        self.arrays = {name: value.copy() for name, value in kept.items() if not isinstance(value, Records)}

    def restore(self, state):
        """Put the arrays back."""
        for name, kept in self.records.items():
            getattr(state, name).put_back(kept)
        for name, kept in self.arrays.items():
            getattr(state, name)[...] = kept


def transition_row(chain, snapshot, kernel, seen):
    """Law of the next tree, {key: probability}; ``seen(key)`` is called at each outcome, with the chain there."""
    module, name, *rest = STEPS[kernel]
    step = getattr(plain_package().module(module), name)

    def run(rng):
        snapshot.restore(chain.state)
        step(rng, chain.model, chain.packed, *rest)
        key = tree_key(chain.state)
        seen(key)
        return key

    row = {}
    with pytest.MonkeyPatch.context() as patch, np.errstate(over="ignore"):
        patch.setattr(plain_package().module("mcmc.moves.subgraph"), "EXPECTED", EXPECTED)
        for probability, key in all_outcomes(run):
            row[key] = row.get(key, 0.0) + probability
    return row


def explore(model, kernel, beta=1.0, walker=None, chain=None):
    """The space of trees reached from the stump and the transition matrix.

    ``walker`` explores it: the kernel itself if it reaches every tree, else grow-prune. A ``chain`` given is at the
    stump, and keeps its beta.
    """
    walker = walker or (kernel if kernel in KERNELS else "grow-prune")
    chain = chain or new_chain(model, beta)
    chain.reserve(MOST_TREES)
    keys, number, waiting, rows, after_pruning = [], {}, [], [], {}

    def seen(key):
        if key not in number:
            number[key] = len(number)
            keys.append(key)
            waiting.append(Snapshot(chain.state))
            chain.state.count[CHANGED] = 1
            chain.save()
        elif len(key) < len(keys[len(rows)]):
            after_pruning[number[key]] = Snapshot(chain.state)

    seen(tree_key(chain.state))
    while len(rows) < len(waiting):
        rows.append(transition_row(chain, waiting[len(rows)], walker, seen))
    if kernel != walker:
        rows = [transition_row(chain, snapshot, kernel, number.__getitem__) for snapshot in waiting]
    transition = np.array([row_of_numbers(row, number) for row in rows])
    return Space(keys, saved_trees(model, chain), transition, after_pruning)


def row_of_numbers(row, number):
    """A law over keys as an array over tree numbers."""
    out = np.zeros(len(number))
    for key, probability in row.items():
        out[number[key]] = probability
    return out


def posterior_of(model, trees, beta=1.0):
    """Posterior probabilities (m,) of all trees, the score tempered, by the model's plain formula."""
    log_joint = np.array([model.log_prior(tree) + beta * model.log_score(tree) for tree in trees])
    weight = np.exp(log_joint - log_joint.max())
    return weight / weight.sum()


def imbalance(transition, law, least=0.0):
    """Largest breach of detailed balance, relative to the larger of the two flows, above ``least``."""
    flow = law[:, None] * transition
    apart, larger = np.abs(flow - flow.T), np.maximum(flow, flow.T)
    return float((apart[larger > least] / larger[larger > least]).max())
