"""False alarms and misses on spambase at three levels: cyclic Neyman-Pearson trees beside scikit-learn's CART.

Half of the rows train, five random halves. Columns are the eight with the largest mutual information with the label, on
the training rows, spread to [0, 1] by their quantiles there. CART's threshold is moved until its false alarms on the
training rows, out of fold, are at most alpha; the Neyman-Pearson tree is held to alpha, or to a part of it, on the rows
themselves. "Trees averaged" is the mean over all cyclic dyadic trees (`exact.solve`), its threshold moved as CART's is,
at a part of alpha. "Adaptive" has the spatially adaptive penalty. Sizes and that part are chosen by the same 3-fold
cross-validation of Scott's score ``max(false alarms - alpha, 0) / alpha + misses``.
Run: python benchmarks/neyman_pearson.py
"""

import time

import numpy as np
from data import has_table, read_table
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_selection import mutual_info_classif
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import QuantileTransformer
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt

ALPHAS = (0.05, 0.1, 0.2)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


class Threshold:
    """A classifier whose threshold keeps out-of-fold false alarms of the training rows at most alpha."""

    def __init__(self, alpha, tree):
        self.alpha, self.tree = alpha, tree

    def fit(self, X, y):
        score = cross_val_predict(clone(self.tree), X, y, cv=FOLDS, method="predict_proba")[:, 1]
        levels = np.append(np.unique(score), 2.0)
        alarms = np.array([np.mean(score[y == 0] >= level) for level in levels])
        self.threshold = levels[np.argmax(alarms <= self.alpha)]
        self.tree.fit(X, y)
        return self

    def predict(self, X):
        return (self.tree.predict_proba(X)[:, 1] >= self.threshold).astype(int)


class AveragedTrees(ClassifierMixin, BaseEstimator):
    """The mean over all cyclic dyadic trees under the prior of Chipman, George and McCulloch."""

    def __init__(self, levels=3, beta=0.3):
        self.levels, self.beta = levels, beta

    def fit(self, X, y):
        splits = pt.DyadicCuts(self.levels, cyclic=True, bounds=[[0.0, 1.0]] * X.shape[1])
        prior = pt.ChipmanPrior(0.99, self.beta)
        self.posterior_ = exact.solve(pt.TreeModel(X, y, split_prior=splits, tree_prior=prior))
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return self.posterior_.predict_proba(X)

    def predict(self, X):
        return self.posterior_.predict(X)


def threshold_tree(alpha, leaves):
    return Threshold(alpha, DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0))


def averaged(alpha, size):
    part, levels, beta = size
    return Threshold(part * alpha, AveragedTrees(levels, beta))


def neyman_pearson(alpha, size):
    part, strength = size
    return exact.NeymanPearsonTreeClassifier(part * alpha, strength=strength, levels=3, bounds=[[0.0, 1.0]] * 8)


def adaptive(alpha, size):
    part, strength, levels = size
    how = {"strength": strength, "levels": levels, "bounds": [[0.0, 1.0]] * 8}
    return exact.NeymanPearsonTreeClassifier(part * alpha, method="adaptive", **how)


def rates(called, y):
    """Fractions of false alarms and of misses."""
    return np.mean(called[y == 0] == 1), np.mean(called[y == 1] == 0)


def score(called, y, alpha):
    alarms, misses = rates(called, y)
    return max(alarms - alpha, 0.0) / alpha + misses


def chosen(make, sizes, X, y, alpha):
    """Fitted with the size of the best cross-validated score."""
    total = dict.fromkeys(sizes, 0.0)
    for size in sizes:
        for train, test in FOLDS.split(X, y):
            total[size] += score(make(alpha, size).fit(X[train], y[train]).predict(X[test]), y[test], alpha)
    return make(alpha, min(total, key=total.get)).fit(X, y)


def halves(n_splits=5):
    """Training and test tables of eight columns."""
    X, y, _ = read_table("spambase")
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: len(y) // 2], order[len(y) // 2 :]
        useful = np.argsort(-mutual_info_classif(X[train], y[train], random_state=0))[:8]
        spread = QuantileTransformer(n_quantiles=200, random_state=0).fit(X[train][:, useful])
        yield spread.transform(X[train][:, useful]), y[train], spread.transform(X[test][:, useful]), y[test]


def main():
    if not has_table("spambase"):
        return
    methods = {
        "Neyman-Pearson tree": (
            neyman_pearson,
            [(part, strength) for part in (1.0, 0.8, 0.6) for strength in (1.0, 0.5)],
        ),
        "Neyman-Pearson tree, adaptive": (
            adaptive,
            [(part, s, levels) for part in (1.0, 0.8, 0.6) for s in (0.02, 0.01, 0.005, 0.002) for levels in (3, 4, 5)],
        ),
        "Trees averaged": (
            averaged,
            [(part, levels, b) for part in (1, 0.9, 0.8) for levels in (3, 4) for b in (0.1, 0.3)],
        ),
        "CART, threshold moved": (threshold_tree, (8, 16, 32, 64, 128)),
    }
    found = {(name, alpha): [] for name in methods for alpha in ALPHAS}
    for X, y, X_test, y_test in halves():
        for name, (make, sizes) in methods.items():
            for alpha in ALPHAS:
                began = time.perf_counter()
                fitted = chosen(make, sizes, X, y, alpha)
                seconds = time.perf_counter() - began
                test = rates(fitted.predict(X_test), y_test)
                found[name, alpha].append([*test, score(fitted.predict(X_test), y_test, alpha), seconds])
    print("mean (standard deviation) over five halves, on the other half")
    for (name, alpha), rows in found.items():
        mean, sd = np.mean(rows, axis=0), np.std(rows, axis=0)
        told = zip(("false alarms", "misses", "score"), mean, sd, strict=False)
        print(f"alpha {alpha:g}, {name}:", ", ".join(f"{what} {m:.3f} ({s:.3f})" for what, m, s in told), end=", ")
        print(f"{mean[3]:.1f} s with its cross-validation")


if __name__ == "__main__":
    main()
