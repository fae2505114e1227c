"""Your own move: another cut of the same feature, drawn from all that its cell admits.

The library's *shift* moves a cut by a few places; *change* draws another feature most of the time. In a table with
long ordered columns it pays to redraw the cut alone. The move is written with public helpers, proved on small models
by its whole transition matrix, and put into the default mixture.

    python examples/own_move.py
"""

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc import moves


def draw_another_cut(rng, model, state):
    """Redraw the split of an internal node, picked uniformly, among those of its feature; the rest stays."""
    if moves.n_internal(state) == 0:
        return moves.nothing()
    node = moves.internal(state, moves.pick(rng, moves.n_internal(state)))
    new = moves.draw_split_of(rng, model, state, node, state.node[node].feature)
    # the way back picks the same node, as there are as many internal nodes, and draws the old cut as the new one was
    # drawn, from the split prior: replace_split adds that ratio, and that of the forms of the splits below
    return moves.replace_split(rng, model, state, node, new.feature, new.cut, new.categories, True)


another_cut = pt.Move("another cut", draw_another_cut, scans=False)


def small_models():
    """Yield models of few trees: ordered and nominal features, equal rows, two rows or more in a leaf."""
    X = [[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [1.0, 1.0], [3.0, 2.0]]
    y = [0, 1, 1, 0, 1]
    prior = pt.ChipmanPrior(0.95, 1.0, max_depth=2)
    yield pt.TreeModel(X, y, tree_prior=prior)
    yield pt.TreeModel(X, y, tree_prior=prior, split_prior=pt.LocalCuts(min_leaf=2))
    yield pt.TreeModel(X, y, tree_prior=prior, split_prior=pt.GridCuts([[0.5, 1.5], [1.5]]))
    yield pt.TreeModel(X, y, tree_prior=prior, split_prior=pt.CustomSplits(lambda cut: cut.left * cut.right))
    letters = [[0.0, 1.0], [1.0, 2.0], [2.0, 1.0], [0.0, 2.0]]
    yield pt.TreeModel(letters, [0, 1, 1, 0], nominal=[0], tree_prior=prior)


def main():
    for model in small_models():
        report = pt.testing.check_balance(another_cut, model)
        print(f"{report.n_trees} trees, imbalance {report.imbalance:.1e}, moving {report.moving:.2f}")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    model = pt.TreeModel(X, (X[:, 0] > 0.3) ^ (rng.random(300) < 0.1))
    kernel = {"default": 0.9, another_cut: 0.1}
    post = pt.sample(model, 500, tune=200, chains=2, rng=1, kernel=kernel, progress=False)
    made, kept = post.draws.proposed.sum((0, 1)), post.draws.accepted.sum((0, 1))
    for name, n, k in zip(post.draws.moves, made, kept, strict=True):
        print(f"{name:16s} {n:6d} proposed, {k / max(n, 1):.3f} accepted")


if __name__ == "__main__":
    main()
