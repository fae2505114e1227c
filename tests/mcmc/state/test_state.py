"""The state of a chain stays valid, step by step."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import draw_store as _saving
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import LIBRARY_MOVES, read_kernel
from pactree_mcmc.mcmc.state.records import N_NODES, TREE_CHANGED
from pactree_mcmc.posterior.draws import Draws
from tests.mcmc.state.invariants import PlainValues, check_contents, check_places, check_untouched_ranges
from tests.mcmc.transitions import tree_key
from tests.problems.leaves import LEAVES
from tests.problems.models import build_model
from tests.problems.spaces import case_problem, problem

MIXTURE = {name: 1.0 for name in LIBRARY_MOVES if name != "blanchard"}
KERNELS = {"grow-prune": "grow-prune", "blanchard": "blanchard", "all moves": MIXTURE}
LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1}


def table(seed, n):
    """Rows (category, number with ties, number), some of them equal, with labels that depend on them."""
    rng = np.random.default_rng(seed)
    category, ties, real = rng.choice(list("abcdef"), n), rng.integers(0, 7, n), rng.random(n).round(2)
    y = (ties + 3 * (category < "c") + 4 * rng.random(n) > 5).astype(int)
    rows = [(str(c), float(t), float(x)) for c, t, x in zip(category, ties, real, strict=True)]
    return {"X": rows + rows[: n // 5], "y": [*y.tolist(), *y[: n // 5].tolist()], "nominal": {0}}


def new_chain(model, kernel, seed):
    return Chain(model.lowered, read_kernel(kernel), np.random.default_rng(seed))


def run_and_check(model, kernel, seed, n_steps, every=1):
    """Step by step, the moves in turn: places always, contents if the tree has changed; returns the largest tree."""
    chain, plain_values, largest = new_chain(model, kernel, seed), PlainValues(model), 1
    for step in range(n_steps // every):
        chain.state.count[TREE_CHANGED] = 0
        chain.propose(step % len(chain.kernel.names), every)
        check_places(chain)
        check_untouched_ranges(model, chain)
        if chain.state.count[TREE_CHANGED]:
            check_contents(model, chain, plain_values)
        largest = max(largest, int(chain.state.count[N_NODES]))
    return largest


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("split_prior", ["local", "trivial", "min_leaf", "grid"])
def test_every_step_with_63_categories(split_prior):
    """As many categories as a mask has bits for."""
    rng = np.random.default_rng(63)
    X = np.column_stack([np.append(np.arange(63), rng.integers(0, 63, 67)), rng.integers(0, 3, 130)])
    rules = {
        "local": pt.LocalCuts(),
        "trivial": pt.LocalCuts(trivial=True),
        "min_leaf": pt.LocalCuts(min_leaf=5),
        "grid": pt.GridCuts([None, [0.5, 1.5]]),
    }
    prior = pt.LeafPenalty(cost=0.3, max_depth=4)
    model = pt.TreeModel(
        X,
        rng.random(130),
        nominal=[0],
        split_prior=rules[split_prior],
        tree_prior=prior,
        sample_weight=np.full(130, 1e-300),
    )
    assert run_and_check(model, "grow-prune", 63, 50) >= 9


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_saved_draw_is_the_tree_at_that_step(kernel):
    model = build_model(pt, case_problem("weighted_rows", "penalty", "dirichlet"))
    chain, keys = new_chain(model, KERNELS[kernel], 9), []
    chain.reserve(300)
    for step in range(300):
        chain.propose(step % len(chain.kernel.names), 1)
        chain.save()
        keys.append(tree_key(chain.state))
    draws = Draws.join(model, [_saving.trim_draws(chain.saved)])
    key_of_tree = {}
    for t, key in zip(draws.tree_of_draw[0].tolist(), keys, strict=True):
        assert key_of_tree.setdefault(t, key) == key
    assert len(set(key_of_tree.values())) == draws.n_distinct_trees > 5


@pytest.mark.more
def test_draws_that_outgrow_the_first_arrays():
    """More saved nodes than there is room for at first: no draw is lost or changed."""
    data = {**table(8, 200), "weights": [1.0] + [0.0] * 239}
    naive = problem(data, LOCAL, {"kind": "penalty", "cost": 0.0, "max_depth": None}, LEAVES["dirichlet"])
    model = build_model(pt, naive)
    chain = new_chain(model, "grow-prune", 1)
    chain.reserve(200)
    keys = []
    for _ in range(200):
        chain.propose(0, 20)
        chain.save()
        keys.append(tree_key(chain.state))
    saved = _saving.trim_draws(chain.saved)
    assert saved.used[_saving.NODE_COUNT] > 5000
    assert len(saved.node) == saved.used[_saving.NODE_COUNT]
    starts = saved.tree.start[saved.tree_of_draw]
    assert [int(saved.node.feature[start]) for start in starts] == [key_root(key) for key in keys]
    assert (saved.moves[:, 0].sum(axis=1) == 20).all()
    assert (saved.moves[:, 1] <= saved.moves[:, 0]).all()


def key_root(key):
    """Feature the root of a tree splits on, -1 for a single leaf."""
    return key[0] if len(key) == 1 else key[0][0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_model_with_one_tree(kernel):
    """Constant features leave the stump alone; no step moves or fails."""
    model = pt.TreeModel([[1.0, 2.0]] * 5, [0, 1, 0, 1, 1])
    chain = new_chain(model, KERNELS[kernel], 1)
    chain.run_blocks(10)
    assert chain.state.count[N_NODES] == 1
    check_places(chain)
    check_contents(model, chain)


def test_the_checks_see_a_broken_state():
    """Each breach of one field fails a check."""
    model = build_model(pt, case_problem("weighted_rows", "penalty", "dirichlet"))
    chain = new_chain(model, "grow-prune", 2)
    while chain.state.count[N_NODES] < 5:
        chain.propose(0, 1)
    for name in ("depth", "start", "stop", "rows", "score", "splittable", "growable_at", "prunable_at", "parent"):
        leaf = int(chain.state.node.left[0])
        right_value = chain.state.node[name][leaf]
        chain.state.node[name][leaf] = not right_value if name == "splittable" else right_value + 1
        with pytest.raises(AssertionError):
            check_everything(model, chain)
        chain.state.node[name][leaf] = right_value
    chain.state.stats[0, 0] += 1.0
    with pytest.raises(AssertionError):
        check_everything(model, chain)
    chain.state.stats[0, 0] -= 1.0
    check_everything(model, chain)


def check_everything(model, chain):
    check_places(chain)
    check_contents(model, chain)
    check_untouched_ranges(model, chain)
