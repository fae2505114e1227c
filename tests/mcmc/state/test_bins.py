"""Statistics of a cell by code, the sides of its splits and what the density sees of these, against plain sums."""

import numpy as np
import pytest

from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.transitions import grow_at_random, new_chain

plain = plain_package()
sums, terms, splits = (
    plain.module(f"mcmc.{name}") for name in ("sums.split_sums", "whole.density.terms", "state.splits")
)
leaf_score = plain.module("model.leaf.compiled").leaf_score
LEAVES = {
    "two classes": lambda package: package.DirichletMultinomial(0.5),
    "four classes": lambda package: package.DirichletMultinomial(0.5),
    "half weights": lambda package: package.DirichletMultinomial(0.5),
    "numbers": lambda package: package.NormalInverseGamma(0.0, 0.5, 2.0, 0.5),
    "known variance": lambda package: package.NormalKnownVariance(sigma2=0.5),
    "counts": lambda package: package.PoissonGamma(1.0, 1.0),
}


def with_leaf(leaf, *, grid=False, n=60, seed=5):
    """A chain whose leaves have few of 60 rows: features of few and of many values, with gaps, and a nominal one."""
    package, rng = plain.package, np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 4, n), rng.permutation(n), rng.integers(0, 9, n)]).astype(float)
    X[rng.random(n) < 0.3, 1] = np.nan
    y = {"two classes": 2, "four classes": 4, "half weights": 2, "counts": 5}.get(leaf)
    y = rng.standard_normal(n) if y is None else rng.integers(0, y, n)
    priors = {True: lambda: package.GridCuts([[0.5, 1.5], np.arange(-0.5, n, 7.0).tolist(), None])}
    more = {"sample_weight": rng.integers(1, 4, n) / 2.0} if leaf == "half weights" else {}
    with np.errstate(over="ignore"):
        model = package.TreeModel(
            X,
            y,
            tree_prior=package.ChipmanPrior(0.95, 0.3, max_depth=5),
            split_prior=priors[grid]() if grid else package.LocalCuts(),
            leaf=LEAVES[leaf](package),
            nominal=[2],
            missing="branch",
            **more,
        )
        chain = new_chain(model)
    return chain, grow_at_random(chain, rng, 21)


def stats_of(chain, merged_rows):
    """Statistics of some units, one by one."""
    out, table = np.zeros(chain.state.stats.shape[1]), chain.model.units
    for u in merged_rows:
        weight = table.weight[u & table.weight_all]
        if table.counts:
            out[table.label[u]] += weight
        else:
            out += [weight, *table.moments[:, u]]
    return out


def check_node(chain, node):
    """Bins hold each unit once, by its code; the sides of every way are sums of bins."""
    state, rule, n_checked = chain.state, chain.model.split_prior, 0
    record = state.node[node]
    merged_rows = state.order[record.start : record.stop]
    for k in range(len(rule.feature)):
        codes = chain.model.units.codes[k, merged_rows].astype(int)
        if state.box.shape[1] and not rule.feature[k].nominal:
            low, high = splits.box_range(chain.model, chain.packed_state, node, k)
            codes = np.clip(codes, low, high - 1)
        n = sums.fill_bins(chain.model, chain.packed_state, node, k)
        codes_in_bins = state.scratch.codes.distinct[:n].copy()
        assert np.array_equal(codes_in_bins, np.unique(codes_in_bins)) and set(codes) <= set(codes_in_bins.tolist())
        for j, code in enumerate(codes_in_bins):
            of_code = merged_rows[codes == code]
            rows = sum(int(chain.model.units.rows[u & chain.model.units.rows_all]) for u in of_code)
            assert state.scratch.scan.rows[j] == rows
            assert np.allclose(state.scratch.scan.stats[j], stats_of(chain, of_code), rtol=1e-12, atol=1e-12)
        clean = state.scratch.codes.rows, state.scratch.codes.is_present, state.scratch.scan.by_code
        assert not any(array.any() for array in clean)
        n_splits = terms.evaluate_splits(chain.model, chain.packed_state, node, k, n)
        for i in range(n_splits):
            sums.write_split(chain.model, chain.packed_state, node, k, n, i)
            cut, bits = int(state.scratch.scan.drawn_split[0].cut), int(state.scratch.scan.drawn_split[0].categories)
            left = (codes <= cut) if bits < 0 else ((bits >> codes) & 1 == 1)
            check_split(chain, node, k, i, merged_rows[left], merged_rows[~left])
            n_checked += 1
    return n_checked


def check_split(chain, node, k, i, left, right):
    """The statistics of both sides, and the terms that follow from them."""
    state, logs = chain.state, chain.state.scratch.density.logs
    table, sides = chain.model.units, [left, right]
    # of the two names of one partition of categories either may have been summed as the left one
    is_left = np.allclose(state.scratch.scan.left[i], stats_of(chain, left))
    if chain.model.split_prior.feature[k].nominal and not is_left:
        sides.reverse()
    expected = [stats_of(chain, merged_rows) for merged_rows in sides]
    assert np.allclose([state.scratch.scan.left[i], state.scratch.scan.right[i]], expected, rtol=1e-12, atol=1e-9)
    one, other = (terms.impurity(chain.model, logs, np.array([stats]), 0) for stats in expected)
    scores = (leaf_score(chain.model.proposal_leaf, np.array([stats]), 0) for stats in expected)
    assert np.isclose(state.scratch.scan.gain[i], sum(scores) - state.node[node].guess, rtol=1e-9, atol=1e-9)
    f = state.scratch.density.split_terms[:, i + 2]
    least = [one.nats + other.nats, max(one.nats, other.nats), np.sqrt(one.nats) + np.sqrt(other.nats)]
    assert np.allclose(f[1:5], [*least, np.log1p(one.minority) + np.log1p(other.minority)], rtol=1e-9, atol=1e-6)
    rows, n_left = int(state.node[node].rows), int(state.scratch.scan.rows_left[i])
    if not chain.model.split_prior.feature[k].nominal:
        assert n_left == sum(int(table.rows[u & table.rows_all]) for u in left)
    assert np.isclose(f[5], np.log1p(n_left) + np.log1p(rows - n_left) - 2.0 * np.log(rows + 2.0))
    row = terms.depth_class(state, node)
    b = state.density[row, terms.N_CELL_TERMS :]
    assert np.isclose(state.scratch.density.exponent[terms.LEARNED, i + 2], b @ f)


@pytest.mark.more(everyday=["two classes-local"])
@pytest.mark.parametrize("grid", [False, True], ids=["local", "grid"])
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_cell_by_code(leaf, grid):
    chain, nodes = with_leaf(leaf, grid=grid, seed=len(leaf))
    chain.state.density[:-1] = np.random.default_rng(1).standard_normal(chain.state.density[:-1].shape)
    with np.errstate(over="ignore"):
        assert sum(check_node(chain, node) for node in nodes if chain.state.node[node].splittable) > 100


def test_few_rows_with_codes_far_apart():
    """Codes are sorted if the cell lacks most codes between its smallest and its largest one."""
    chain, _ = with_leaf("numbers", n=400)
    state, collect = chain.state, plain.module("mcmc.state.splits").collect_codes
    chain.packed_state.node[0].stop = 7
    codes_of_rows = chain.model.units.codes[1, state.order[:7]].astype(int)
    assert np.ptp(codes_of_rows) > 16 * 7
    assert np.array_equal(
        state.scratch.codes.distinct[: collect(chain.model, chain.packed_state, 0, 1)], np.unique(codes_of_rows)
    )
    assert not state.scratch.codes.is_present.any()
