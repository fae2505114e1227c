"""The exact engine equals plain enumeration."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import exact
import pactree_mcmc as pt
from exact.recursion.rows import is_fixed_design
from exact.solving import VisitedPosterior
from pactree_mcmc.model.split_prior.base import call_uncompiled, parts_rows
from tests.problems.drawn import EVERYDAY, LEAVES, SPLIT_PRIORS, TREE_PRIORS, random_problem
from tests.reference.enumeration import Reference

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}
SPLITTABLE = {
    "rows that are alike": {},
    "a feature without weight": {"split_prior": pt.LocalCuts(feature_weights=[1.0, 0.0])},
    "leaves of several rows": {"split_prior": pt.LocalCuts(min_leaf=3)},
}


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


def pieces(model, tree):
    local, out = call_uncompiled(parts_rows, model.split_prior), set()
    visits = {visit.number: visit for visit in model.visit(tree)}

    def name(cell):
        if local:
            return frozenset(cell.index.tolist())
        spans = [cell.span(k) for k in range(len(cell.low))]
        if not len(cell.index):
            return tuple(high - low for low, high in spans)
        twin_of = model.columns.other_coordinate
        lacks = [cell.low[k] == 0 and cell.high[c] == model.n_codes[c] for k, c in enumerate(twin_of.tolist()) if c > k]
        return tuple(spans), tuple(lacks)

    for number, visit in visits.items():
        if visit.split is None:
            continue
        k = visit.split.feature
        sides = [visits[int(child)].cell for child in (tree.left[number], tree.right[number])]
        parts = tuple(name(side) for side in sides)
        if visit.split.categories >= 0 and all(len(side.index) for side in sides):
            parts = frozenset(parts)
        out.add((name(visit.cell), k, parts))
    return out


def problem_of(rng, split_prior, gaps):
    """A random problem whose cells have names: empty boxes of categories have none."""
    while True:
        model = random_problem(rng, split_prior=split_prior, max_trees=500, gaps=gaps)[1]
        free = not is_fixed_design(model)
        if free and (call_uncompiled(parts_rows, model.split_prior) or not model.columns.is_nominal.any()):
            truth = exact.solve(model)
            if truth.n_trees >= 8:
                return model, truth


def check_pieces(model, truth, rng):
    """The sum over all trees made of the pieces of some of them, and that it bounds the whole at every level."""
    every = truth.best_trees(truth.n_trees).trees
    trees = [every[i] for i in rng.integers(len(every), size=max(2, len(every) // 8))]
    drawn_pieces = set().union(*(pieces(model, tree) for tree in trees))
    composed = [tree for tree in every if pieces(model, tree) <= drawn_pieces]
    log_joints = [model.log_posterior(tree) for tree in composed]
    levels = [exact.visited(pt.posterior_from_trees(model, trees), grow) for grow in (0, 1, 2)]
    assert levels[0].n_trees == len(composed)
    assert levels[0].log_evidence == pytest.approx(logsumexp(log_joints), abs=1e-9)
    best = max(composed, key=model.log_posterior)
    assert levels[0].map_log_joint == pytest.approx(model.log_posterior(best), abs=1e-9)
    check_bounds(truth, levels)
    return len(composed) > len(set(trees))


def check_bounds(truth, levels):
    sums = [level.log_evidence for level in levels]
    assert sums == sorted(sums) or np.allclose(sums, sorted(sums), atol=1e-9)
    assert all(total <= truth.log_evidence + 1e-9 for total in sums)


@pytest.mark.more
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("split_prior", ["local", "grid", "dyadic"])
def test_all_trees_made_of_drawn_pieces(split_prior, gaps):
    rng = np.random.default_rng([len(split_prior), gaps])
    more = [check_pieces(*problem_of(rng, split_prior, gaps), rng) for _ in range(8)]
    assert any(more)


@pytest.mark.more
@pytest.mark.parametrize("split_prior", ["local", "grid", "dyadic", "fixed", "own local", "own grid"])
def test_all_trees_drawn_are_all_there_is(split_prior):
    """Empty cells, categories and missing values too: with every tree drawn nothing is missing, and nothing is new."""
    rng = np.random.default_rng(len(split_prior))
    for gaps in (False,) if split_prior.startswith("own") else (False, True):
        model = random_problem(rng, split_prior=split_prior, max_trees=300, gaps=gaps)[1]
        truth = exact.solve(model)
        every = pt.posterior_from_trees(model, truth.best_trees(truth.n_trees).trees)
        for grow in (0, 1, 2):
            complete = exact.visited(every, grow)
            assert complete.n_trees == truth.n_trees
            assert complete.log_evidence == pytest.approx(truth.log_evidence, abs=1e-9)
            assert complete.n_leaves_pmf() == pytest.approx(truth.n_leaves_pmf(), abs=1e-9)
            assert complete._feature_inclusion() == pytest.approx(truth._feature_inclusion(), abs=1e-9)


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("block", range(4))
def test_never_more_than_the_evidence(block):
    rng = np.random.default_rng([7, block])
    for _ in range(50):
        model = random_problem(rng, split_prior=str(rng.choice(["local", "grid", "dyadic"])), max_trees=2000)[1]
        truth = exact.solve(model)
        draws = truth.sample(int(rng.integers(1, 12)), rng)
        check_bounds(truth, [exact.visited(draws, grow) for grow in (0, 1, 2)])


def beside_a_single_leaf(model):
    """The graph of all splits of the root, and the sum over trees of at most two leaves from their definition."""
    truth = exact.solve(model)
    single = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    few = [tree for tree in truth.best_trees(truth.n_trees).trees if tree.n_leaves <= 2]
    return exact.visited(single, 2).graph, logsumexp([model.log_posterior(tree) for tree in few])


@pytest.mark.parametrize("name", SPLITTABLE)
def test_which_new_cells_the_prior_can_split(name):
    """Their factor as leaves depends on it, though none of their splits is listed."""
    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 2.0], [2.0, 2.0]])[[0, 0, 1, 1, 1, 2, 3, 3]]
    model = pt.TreeModel(
        X, [0, 1, 1, 0, 1, 1, 0, 0], **({"tree_prior": pt.ChipmanPrior(max_depth=3)} | SPLITTABLE[name])
    )
    graph, expected = beside_a_single_leaf(model)
    assert VisitedPosterior(model, graph).log_evidence == pytest.approx(expected, abs=1e-9)


def test_what_a_posterior_of_pieces_answers():
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    y = (X[:, 0] > 0.5) ^ (rng.random(60) < 0.1)
    model = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3), split_prior=pt.LocalCuts(max_cuts=8))
    truth = exact.solve(model)
    post = pt.sample(model, 500, tune=300, chains=2, rng=1, kernel="local", progress=False)
    posterior = exact.visited(post, 1)
    gap = truth.log_evidence - posterior.log_evidence
    assert 0.0 <= gap < 0.3
    most_wrong = 1.0 - math.exp(-gap) + 1e-9
    assert np.abs(posterior.predict_proba(X) - truth.predict_proba(X)).max() <= most_wrong
    assert np.abs(posterior._feature_inclusion() - truth._feature_inclusion()).max() <= most_wrong
    assert posterior.map_log_joint == pytest.approx(truth.map_log_joint, abs=1e-9) and posterior.coverage is None
    assert VisitedPosterior(model, posterior.graph, truth.log_evidence).coverage == pytest.approx(math.exp(-gap))
    assert posterior.kl_to_prior() > 0.0 and "VisitedPosterior(log_evidence>=" in repr(posterior)
