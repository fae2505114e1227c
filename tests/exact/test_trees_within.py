"""All trees near the best one, from the graph, against all trees of small tables."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

RNG = np.random.default_rng(3)
NUMBERS = RNG.integers(0, 3, (16, 3)).astype(float)
X = pd.DataFrame(
    {"a": NUMBERS[:, 0], "b": pd.Categorical.from_codes(NUMBERS[:, 1].astype(int), list("pqr")), "c": NUMBERS[:, 2]}
)
Y = RNG.integers(0, 2, 16)
SHALLOW = pt.ChipmanPrior(0.9, 1.0, max_depth=2)
MODELS = {
    "classes": lambda: pt.TreeModel(X, Y, tree_prior=SHALLOW),
    "leaf penalty": lambda: pt.TreeModel(NUMBERS, Y, tree_prior=pt.LeafPenalty(1.5, max_depth=2)),
    "numbers": lambda: pt.TreeModel(NUMBERS[:, :2], NUMBERS[:, 2], tree_prior=SHALLOW),
    "grid": lambda: pt.TreeModel(NUMBERS, Y, split_prior=pt.GridCuts(2), tree_prior=SHALLOW),
    "two rows": lambda: pt.TreeModel([[0.0], [1.0]], [0, 1]),
}


@pytest.mark.parametrize("name", MODELS)
def test_exactly_the_trees_near_the_best(name):
    model = MODELS[name]()
    truth = exact.solve(model)
    every = truth.best_trees(truth.n_trees).trees
    log_joint = np.array([model.log_posterior(tree) for tree in every])
    for epsilon in (0.0, 1.0, 3.0):
        near = truth.trees_within(epsilon)
        is_near = log_joint >= log_joint.max() - epsilon - 1e-9
        assert near.complete and set(near.trees) == {tree for tree, here in zip(every, is_near, strict=True) if here}
        assert near.log_joint == pytest.approx(np.sort(log_joint[is_near])[::-1], abs=1e-9)
    few = truth.trees_within(1e6, most=2)
    assert len(few.trees) == min(2, len(every)) and few.complete == (len(every) <= 2)


def test_ambiguity_and_importance_against_predictions():
    near = exact.solve(MODELS["classes"]()).trees_within(3.0)
    labels = np.array([tree.predict(X) for tree in near.trees])
    assert near.ambiguity(X) == pytest.approx((labels != labels[0]).any(axis=0).mean())
    permuted, generator = X.copy(), np.random.default_rng(5)
    for column in X:
        permuted[column] = generator.permutation(X[column])
    importance = near.importance(X, Y, rng=5)
    assert importance.shape == (3, 2)
    for k, column in enumerate(X):
        changed = X.assign(**{column: pd.Series(permuted[column], dtype=X[column].dtype)})
        increase = [np.mean(tree.predict(changed) != Y) - np.mean(tree.predict(X) != Y) for tree in near.trees]
        assert importance[k] == pytest.approx([min(increase), max(increase)])
    with pytest.raises(ValueError, match="do not predict classes"):
        exact.solve(MODELS["numbers"]()).trees_within(0.0).ambiguity(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"y has shape \(2,\)"):
        near.importance(X, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"epsilon": -1.0}, "epsilon=-1.0 is out of range"), ({"epsilon": 1.0, "most": 0}, "most=0")],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact.solve(MODELS["two rows"]()).trees_within(**arguments)
