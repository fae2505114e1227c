"""All prunings of a CART tree, weighted, against its best one: held-out log loss on nine real tables.

Run: python benchmarks/pruning_mixture.py; needs the data folder (beside the checkout, or PACTREE_DATA).
"""

import sys

import numpy as np
from data import DATA, read_table
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt

TABLES = (
    "vote", "pima_diabetes", "breast_w", "ionosphere", "mushroom", "credit_a", "kr_vs_kp", "heart_statlog", "sick"
)  # fmt: skip
FOLDS, INNER_FOLDS, MOST_ALPHAS = 10, 5, 30
LEAF = pt.DirichletMultinomial(0.5)


def prunings(X, y):
    """Cost-complexity parameters of the prunings of the full tree, at most ``MOST_ALPHAS`` of them."""
    path = np.unique(DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(X, y).ccp_alphas.clip(0.0))
    middles = np.sqrt(path * np.append(path[1:], path[-1]))
    return np.unique(middles[np.linspace(0, len(middles) - 1, min(MOST_ALPHAS, len(middles))).astype(int)])


def smoothed(tree, X, y, new):
    """Leaf probabilities with half a row of each class added, as the mixture's leaves have them."""
    leaf, classes = tree.apply(X), tree.classes_
    counts = np.zeros((tree.tree_.node_count, len(classes)))
    np.add.at(counts, (leaf, np.searchsorted(classes, y)), 1.0)
    value = (counts + 0.5) / (counts + 0.5).sum(axis=1, keepdims=True)
    return value[tree.apply(new)]


def best_pruning(X, y, new):
    """Predictions of the pruning whose cross-validated log loss is least."""
    alphas = prunings(X, y)
    loss = np.zeros(len(alphas))
    for train, test in StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=1).split(X, y):
        for i, alpha in enumerate(alphas):
            tree = DecisionTreeClassifier(random_state=0, ccp_alpha=alpha).fit(X[train], y[train])
            loss[i] += log_loss(y[test], smoothed(tree, X[train], y[train], X[test]), labels=tree.classes_)
    tree = DecisionTreeClassifier(random_state=0, ccp_alpha=alphas[np.argmin(loss)]).fit(X, y)
    return smoothed(tree, X, y, new)


def mixture(X, y, new):
    """Predictions of the posterior mean over all prunings of the full tree; splits pay for the choice of question."""
    full = DecisionTreeClassifier(random_state=0).fit(X, y)
    design = pt.FixedTree.from_sklearn(full)
    prior = pt.BranchingProcess(design.split_probabilities(X), max_depth=None)
    model = pt.TreeModel(X, y, questions=design, tree_prior=prior, leaf=LEAF)
    return exact.solve(model).predict_proba(new)


def main():
    if not DATA.is_dir():
        sys.exit("skipped: the data folder is absent")
    wins = 0
    print("| table | mixture of all prunings | best pruning | ratio |\n| --- | --- | --- | --- |")
    for name in TABLES:
        X, y, _ = read_table(name)
        losses = np.zeros((FOLDS, 2))
        for i, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y)):
            for j, predict in enumerate((mixture, best_pruning)):
                losses[i, j] = log_loss(y[test], predict(X[train], y[train], X[test]), labels=np.unique(y))
        ours, rival = losses.mean(axis=0)
        wins += ours < rival
        print(f"| {name} | {ours:.4f} | {rival:.4f} | {ours / rival:.3f} |", flush=True)
    print(f"\nlower log loss on {wins} of {len(TABLES)} tables (asked: 6)")


if __name__ == "__main__":
    main()
