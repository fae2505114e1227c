"""The exact engine equals plain enumeration of all trees on random tiny problems."""

import math

import numpy as np
import pytest

import exact
from tests.problems.drawn import EVERYDAY, LEAVES, SPLIT_PRIORS, TREE_PRIORS, random_problem
from tests.reference.enumeration import Reference

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}


def _key(key):
    """A root split with its threshold rounded, so that equal sums in another order stay equal."""
    if key is None or isinstance(key[1], frozenset):
        return key
    k, cut, *side = key
    if isinstance(cut, tuple):
        cut, side = cut[0] if math.isfinite(cut[0]) else None, [f"missing {cut[1]}"]
    return (k, None if cut is None else round(float(cut), 9), *side)


def _rounded(distribution):
    out = {}
    for key, probability in distribution.items():
        out[_key(key)] = out.get(_key(key), 0.0) + probability
    return out


def _new_rows(problem, rng):
    """Training rows, rows between them, and rows with a category never seen; values are missing where some were."""
    rows = [problem.X[i] for i in rng.integers(len(problem.X), size=3)]
    for _ in range(3):
        mixed = []
        for k in range(len(problem.X[0])):
            values = [row[k] for row in problem.X if row[k] is not None]
            if k in problem.nominal:
                values = [row[k] for row in problem.X]
                mixed.append(values[int(rng.integers(len(values)))])
            elif any(None in row for row in problem.X) and rng.random() < 0.4:
                mixed.append(None)
            else:
                mixed.append(float(rng.uniform(min(values) - 1.0, max(values) + 1.0)))
        rows.append(tuple(mixed))
    return rows


def _as_table(model, rows):
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for k, value in enumerate(row):
            table[i, k] = value
    if not model.columns.named:
        return table
    import pandas as pd

    frame = pd.DataFrame(table, columns=list(model.columns.names))
    for k, name in enumerate(model.columns.names):
        if model.columns.categories[k] is None:
            frame[name] = frame[name].astype(float)
    return frame


@pytest.mark.more(everyday=EVERYDAY)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("tree_prior", TREE_PRIORS)
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
def test_equals_enumeration(split_prior, tree_prior, leaf, seed):
    kinds = [SPLIT_PRIORS.index(split_prior), TREE_PRIORS.index(tree_prior), LEAVES.index(leaf), seed, 1]
    rng = np.random.default_rng(kinds)
    most = 4_000 if seed == 0 else 600
    problem, model = random_problem(rng, split_prior=split_prior, tree_prior=tree_prior, leaf=leaf, max_trees=most)
    check(problem, model, rng, seed)


@pytest.mark.more(everyday=["local-0", "local-3", "local-6", "grid-1", "grid-4", "dyadic-2", "dyadic-5"])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("split_prior", ["local", "grid", "dyadic"])
def test_equals_enumeration_with_missing_values(split_prior, seed):
    rng = np.random.default_rng([SPLIT_PRIORS.index(split_prior), seed, 2])
    problem, model = random_problem(rng, split_prior=split_prior, max_trees=600, gaps=True)
    check(problem, model, rng, seed)


def check(problem, model, rng, seed):
    """All answers of the exact engine are those of the enumeration."""
    reference, truth = Reference(problem), exact.solve(model)

    assert truth.log_evidence == pytest.approx(reference.log_evidence, **TOLERANCE)
    assert truth.map_log_joint == pytest.approx(reference.best_log_joint, **TOLERANCE)
    best = truth.map_tree()
    assert model.log_posterior(best) == pytest.approx(truth.map_log_joint, **TOLERANCE)
    leaves = truth.n_leaves_pmf()
    distribution = reference.n_leaves()
    assert leaves.sum() == pytest.approx(1.0, abs=1e-9)
    for m in set(distribution) | set(range(len(leaves))):
        assert (leaves[m] if m < len(leaves) else 0.0) == pytest.approx(distribution.get(m, 0.0), **TOLERANCE), m
    assert truth._feature_inclusion() == pytest.approx(np.array(reference.inclusion()), **TOLERANCE)
    root, expected = _rounded(truth._root_split_pmf()), _rounded(reference.root())
    for key in set(root) | set(expected):
        assert root.get(key, 0.0) == pytest.approx(expected.get(key, 0.0), **TOLERANCE), key
    rows = _new_rows(problem, rng)
    table = _as_table(model, rows)
    values = truth.predict_proba(table) if model.classes_ is not None else truth.predict(table)[:, None]
    assert values == pytest.approx(np.array([reference.predict(row) for row in rows]), **TOLERANCE)
    draws = truth.sample(40, rng=seed)
    for t in range(min(draws.draws.n_distinct_trees, 5)):
        tree = draws.draws.distinct_tree(t)
        assert model.log_prior(tree) == pytest.approx(draws.draws.log_prior_of_tree[t], **TOLERANCE)
        assert model.log_score(tree) == pytest.approx(draws.draws.log_score_of_tree[t], **TOLERANCE)
        assert math.isfinite(draws.draws.log_prior_of_tree[t])
