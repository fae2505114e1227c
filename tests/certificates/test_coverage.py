"""No bound fails in more than a delta fraction of 1,000 samples of a known distribution; without its price it does."""

import math

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc import certificates as pc
from pactree_mcmc.tree.arrays import LEAF

SAMPLES, N, DELTA = 1_000, 60, 0.1
POINTS = np.arange(8.0)
DISTRIBUTION = np.array([3.0, 1.0, 2.0, 2.0, 1.0, 3.0, 2.0, 2.0]) / 16.0
P_ONE = np.array([0.1, 0.2, 0.8, 0.7, 0.9, 0.4, 0.3, 0.2])


def all_trees():
    """Trees of depth two over the cuts 1.5, 3.5, 5.5 with every labelling, and their prior."""

    def shapes(low, high, depth):
        yield None, 0.0
        cuts_in_cell = [c for c in (1.5, 3.5, 5.5) if low < c < high]
        for cut in cuts_in_cell if depth < 2 else []:
            for left, a in shapes(low, cut, depth + 1):
                for right, b in shapes(cut, high, depth + 1):
                    yield (cut, left, right), a + b - math.log(len(cuts_in_cell)) + math.log(0.5)

    for shape, log_prior in shapes(-1.0, 8.0, 0):
        leaves = _leaves(shape)
        for labels in np.ndindex(*(2,) * leaves):
            yield _tree(shape, labels), log_prior + leaves * math.log(0.25)


def _leaves(shape):
    return 1 if shape is None else _leaves(shape[1]) + _leaves(shape[2])


def _tree(shape, labels):
    nodes, left_over = [], list(labels)

    def add(part):
        here = len(nodes)
        nodes.append([LEAF, 0.0, 0, 0, left_over.pop(0) if part is None else 0])
        if part is not None:
            left, right = add(part[1]), add(part[2])
            nodes[here][:4] = [0, part[0], left, right]
        return here

    add(shape)
    *arrays, label = zip(*nodes)
    return pt.Tree(*arrays, value=np.eye(2)[list(label)], classes=np.array([0, 1]))


@pytest.fixture(scope="module")
def world():
    trees, log_prior = zip(*all_trees())
    wrong = np.array([tree.predict(POINTS[:, None]) for tree in trees])[:, :, None] != np.arange(2)
    rng = np.random.default_rng(20_261_120)
    distribution = np.stack([DISTRIBUTION * (1.0 - P_ONE), DISTRIBUTION * P_ONE], axis=1)
    counts = rng.multinomial(N, distribution.ravel(), size=SAMPLES).reshape(SAMPLES, 8, 2)
    mass = np.exp(log_prior)
    assert 0.3 < mass.sum() <= 1.0
    return trees, mass / mass.sum(), wrong.astype(float), distribution, counts


def _posteriors(world, price=1.0):
    """Gibbs posteriors of every sample: empirical and true risk and tandem loss, risk of the vote, divergence."""
    _, prior, wrong, distribution, counts = world
    errors = np.einsum("tpc,spc->st", wrong, counts)
    log_q = np.log(prior) - price * errors
    q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    mean = np.einsum("st,tpc->spc", q, wrong)
    with np.errstate(divide="ignore", invalid="ignore"):
        kl = np.where(q > 0.0, q * np.log(q / prior), 0.0).sum(axis=1)
    empirical = [np.einsum("spc,spc->s", counts, mean**power) / N for power in (1, 2)]
    true = [np.einsum("pc,spc->s", distribution, mean**power) for power in (1, 2)]
    vote = np.einsum("pc,spc->s", distribution, mean >= 0.5)
    return empirical, true, vote, np.maximum(kl, 0.0)


@pytest.mark.parametrize("price", [0.3, 3.0])
def test_pac_bayes(world, price):
    (risk, tandem), (true_risk, true_tandem), vote, kl = _posteriors(world, price)
    failed = np.zeros(5)
    for s in range(SAMPLES):
        arguments = float(kl[s]), N, DELTA
        failed += [
            pc.pac_bayes_kl(risk[s], *arguments).raw < true_risk[s],
            pc.pac_bayes_lambda(risk[s], *arguments).raw < true_risk[s],
            pc.vote_factor_two(risk[s], *arguments).raw < vote[s],
            pc.vote_tandem(tandem[s], *arguments).raw < vote[s],
            pc.vote_tandem(tandem[s], *arguments).terms["bound on T(Q)"] < true_tandem[s],
        ]
    assert np.all(failed <= DELTA * SAMPLES), failed


@pytest.mark.more
def test_one_tree(world):
    """The worst tree of each sample, in the eyes of the bound."""
    trees, _, wrong, distribution, counts = world
    true = np.einsum("tpc,pc->t", wrong, distribution)
    bits = math.log2(3.0)
    length = np.array([pc.tree_bits(tree, bits)[0] for tree in trees])
    errors = np.einsum("tpc,spc->st", wrong, counts)
    best_tree = np.argmin(errors / N + np.sqrt(length / N), axis=1)
    failed = np.zeros(7)
    for s in range(SAMPLES):
        t, e = best_tree[s], int(errors[s, best_tree[s]])
        x = np.repeat(POINTS.repeat(2), counts[s].ravel())[:, None]
        y = np.repeat(np.tile([0, 1], 8), counts[s].ravel())
        tree = trees[t]
        arguments = {"split_bits": bits, "delta": DELTA}
        has_rows = set(range(tree.n_nodes)) <= _nodes_met(tree, x)
        failed += [
            pc.naive_occam(tree, x, y, **arguments).raw < true[t],
            has_rows and pc.root_fragment(tree, x, y, **arguments).raw < true[t],
            tree.threshold[0] in (0.0, 3.5) and pc.dyadic_tree_bound(tree, x, y, delta=DELTA).raw < true[t],
            pc.occam_discrete(tree.n_nodes, 2, 3, N, e, DELTA).raw < true[t],
            pc.occam_continuous(tree.n_nodes, 2, [2] * (tree.n_leaves - 1), N, e, DELTA).raw < true[t],
            pc.compression(tree.n_nodes, 2, N, min(e, N - tree.n_nodes), DELTA).raw < true[t],
            pc.compression_tail(tree.n_nodes, 2, N, min(e, N - tree.n_nodes), DELTA).raw < true[t],
        ]
    assert np.all(failed <= DELTA * SAMPLES), failed


def _nodes_met(tree, x):
    met = set(tree.apply(x).tolist())
    for i in range(tree.n_nodes - 1, -1, -1):
        if tree.feature[i] != LEAF and (int(tree.left[i]) in met or int(tree.right[i]) in met):
            met.add(i)
    return met
