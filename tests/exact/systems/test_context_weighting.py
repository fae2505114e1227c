"""Context-tree weighting equals the plain recursion, enumeration, and the exact engine, in any order it is fed."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.reference.context_trees import log_joint, log_weighted, sources


def random_pairs(rng, n, depth, m):
    """Contexts and symbols whose last-but-one symbol matters."""
    contexts = rng.integers(m, size=(n, depth))
    symbols = np.where(rng.random(n) < 0.7, contexts[:, depth - 1], rng.integers(m, size=n))
    return contexts, symbols


def fed(depth, m, contexts, symbols, **parts):
    ctw = exact.ContextTreeWeighting(depth, m, **parts)
    ctw.add(contexts, symbols)
    return ctw


@pytest.mark.parametrize(("depth", "m"), [(1, 2), (2, 2), (3, 2), (2, 3), (1, 5)])
def test_equals_the_plain_recursion_and_enumeration(depth, m):
    rng = np.random.default_rng([depth, m])
    rho, alpha = rng.uniform(0.1, 0.9, depth), 0.7
    contexts, symbols = random_pairs(rng, 12, depth, m)
    ctw = fed(depth, m, contexts, symbols, rho=rho, alpha=alpha)
    pairs = list(zip(contexts.tolist(), symbols.tolist(), strict=True))
    assert ctw.log_evidence == pytest.approx(log_weighted(pairs, depth, m, alpha, rho), abs=1e-12)
    by_source = [(log_joint(pairs, s, depth, m, alpha, rho), s) for s in sources(depth, m)]
    total = math.fsum(math.exp(value) for value, _ in by_source)
    assert ctw.log_evidence == pytest.approx(math.log(total), abs=1e-12)
    distribution = np.zeros(depth + 1)
    for value, source in by_source:
        distribution[max(map(len, source))] += math.exp(value) / total
    assert ctw.depth_pmf() == pytest.approx(distribution, abs=1e-12)
    best = ctw.best_source()
    assert best.log_probability == pytest.approx(max(by_source)[0] - math.log(total), abs=1e-12)
    likeliest = [s for value, s in by_source if value > max(by_source)[0] - 1e-9]
    occurring = [[c for c in s if any(tuple(row[: len(c)]) == c for row in contexts.tolist())] for s in likeliest]
    assert sorted(best.contexts) in [sorted(s) for s in occurring]
    assert best.probability.sum(axis=1) == pytest.approx(1.0)


def test_any_order_and_the_batch_evidence():
    sequence = np.random.default_rng(0).integers(0, 2, 5_000)
    ctw = exact.context_tree_weighting(sequence, 6, 2)
    rows = np.arange(6, len(sequence))
    contexts = sequence[rows[:, None] - np.arange(1, 7)]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        other = fed(6, 2, contexts[order], sequence[rows[order]])
        assert other.log_evidence == pytest.approx(ctw.log_evidence, rel=0, abs=1e-9)
    batch = exact.log_sum(ctw.graph()[0])
    assert batch == pytest.approx(ctw.log_evidence, rel=0, abs=1e-9)


@pytest.mark.more(everyday=["2"])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_equals_the_exact_engine_on_a_context_tree(m):
    rng = np.random.default_rng(m)
    sequence = np.where(rng.random(150) < 0.5, np.arange(150) % m, rng.integers(m, size=150))
    design, (X, y) = pt.context_tree(3, m), pt.contexts(sequence, 3, m)
    model = pt.TreeModel(
        X, y, tree_prior=pt.BranchingProcess(0.5, max_depth=None), split_prior=design, leaf=pt.DirichletMultinomial(0.5)
    )
    ctw = exact.ContextTreeWeighting(3, m)
    steps = ctw.update(sequence)
    truth, online = exact.solve(model), exact.progressive_mixture(model)
    assert ctw.log_evidence == pytest.approx(truth.log_evidence, rel=0, abs=1e-9)
    assert np.diff(online.stage_log_evidence[0]) == pytest.approx(steps, abs=1e-9)
    assert ctw.predict_proba(X[:9]) == pytest.approx(truth.predict_proba(X[:9]), abs=1e-12)
    assert ctw.best_source().log_probability == pytest.approx(truth.map_log_joint - truth.log_evidence, abs=1e-9)
    ctw.graph()[0].check()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact.ContextTreeWeighting(-1, 2), "depth=-1"),
        (lambda: exact.ContextTreeWeighting(2, 1), "n_symbols=1"),
        (lambda: exact.ContextTreeWeighting(2.5, 2), r"depth=2\.5"),
        (lambda: exact.ContextTreeWeighting(2, 2, alpha=0.0), r"alpha=0\.0"),
        (lambda: exact.ContextTreeWeighting(2, 2, rho=1.0), r"rho=1\.0"),
        (lambda: exact.ContextTreeWeighting(2, 2, rho=[0.5]), "rho has shape"),
        (lambda: exact.context_tree_weighting([0, 1], 2, 2), "2 symbols has none with 2 before"),
        (lambda: exact.context_tree_weighting([0, 1, 2, 0], 2, 2), r"sequence holds 2 at 2; symbols are 0\.\.1"),
        (lambda: exact.context_tree_weighting([0, -1, 1, 0], 2, 2), "holds -1 at 1"),
        (lambda: exact.context_tree_weighting("0101", 2, 2), "give integers"),
        (lambda: exact.context_tree_weighting([0.0, 1.0, 0.5], 2, 2), "dtype float64"),
        (lambda: exact.ContextTreeWeighting(2, 2).add([[0]], [1]), r"shape \(1, 1\)"),
        (lambda: exact.ContextTreeWeighting(2, 2).add([[0, 1]], [1, 0]), "1 contexts and 2 symbols"),
        (lambda: exact.ContextTreeWeighting(2, 2).predict_proba([[0, 2]]), r"holds 2 at \(0, 1\)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
