"""Compare the mixture of all prunings of a CART tree with its best pruning: held-out log loss, nine tables, ten folds.

The best one is `rivals.Cart`: once with leaves smoothed like those of the mixture, by half a row of each of two
classes, once with the pseudo rows chosen by the same cross-validation as the penalty per leaf.
Run: python benchmarks/pruning_mixture.py [table ...]; needs the data folder (beside the checkout, or PACTREE_DATA).
"""

import argparse
from functools import partial

import numpy as np
from data import has_table, read_table
from rivals import PSEUDO_ROWS, Cart
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt

TABLES = (
    "vote", "pima_diabetes", "breast_w", "ionosphere", "mushroom", "credit_a", "kr_vs_kp", "heart_statlog", "sick"
)  # fmt: skip
FOLDS, INNER_FOLDS = 10, 5
LEAF, ALIKE = pt.DirichletMultinomial(0.5), (1.0,)


def best_pruning(X, y, new, pseudo_rows):
    """Return class probabilities at ``new`` of the pruning with the least cross-validated log loss."""
    return Cart(False, INNER_FOLDS, pseudo_rows).fit(X, y).predict(new)


def mixture(X, y, new):
    """Return class probabilities at ``new``, the posterior mean over all prunings of the full tree fitted to X and y.

    P(split) of a node is the design's `split_probabilities`, which charge for the choice of the split.
    """
    full = DecisionTreeClassifier(random_state=0).fit(X, y)
    design = pt.FixedTree.from_sklearn(full)
    prior = pt.BranchingProcess(design.split_probabilities(X), max_depth=None)
    model = pt.TreeModel(X, y, split_prior=design, tree_prior=prior, leaf=LEAF)
    return exact.solve(model).predict_proba(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="default all nine")
    options = parser.parse_args()
    methods = (mixture, partial(best_pruning, pseudo_rows=ALIKE), partial(best_pruning, pseudo_rows=PSEUDO_ROWS))
    print("| table | mixture | best pruning, smoothed alike | ratio | pseudo rows by cross-validation | ratio |")
    print("|" + " --- |" * 6)
    ratios = []
    there = [name for name in options.tables or TABLES if has_table(name)]
    if not there:
        return
    for name in there:
        X, y, _ = read_table(name)
        losses = np.zeros((FOLDS, len(methods)))
        for i, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)):
            for j, predict in enumerate(methods):
                losses[i, j] = log_loss(y[test], predict(X[train], y[train], X[test]), labels=np.unique(y))
        ours, alike, tuned = losses.mean(axis=0)
        ratios.append((ours / alike, ours / tuned))
        print(
            f"| {name} | {ours:.4f} | {alike:.4f} | {ratios[-1][0]:.3f} | {tuned:.4f} | {ratios[-1][1]:.3f} |",
            flush=True,
        )
    for what, column in zip(("smoothed alike", "pseudo rows chosen"), np.transpose(ratios), strict=True):
        mean, lower = np.exp(np.mean(np.log(column))), np.sum(column < 1.0)
        print(f"{what}: mixture lower on {lower} of {len(column)} (asked: 6), geometric mean {mean:.3f}")


if __name__ == "__main__":
    main()
