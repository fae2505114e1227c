"""Trees chosen by the bound of Mansour and McAllester, beside CART and other certificates, on real tables.

A fifth of the rows is held out; CART is grown on 30 % of the others (E) and pruned, or certified, by the rest (S).
Run: python benchmarks/root_fragments.py [--splits 5] [table ...]
"""

import argparse
import time

import numpy as np
from data import has_table, read_table
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates as pc

TABLES = ("mushroom", "kr_vs_kp", "sick", "spambase", "eeg_eye_state", "pima_diabetes")
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
ALPHAS = {"ccp_alpha": [0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]}


def rivals(X, y, E, S, ranges):
    """Names with a function that predicts, the bound on its risk (NaN: none), and its number of leaves."""
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), ALPHAS, cv=FOLDS)
    search.fit(X[E | S], y[E | S])
    yield "CART, pruned by cross-validation", search.predict, np.nan, search.best_estimator_.get_n_leaves()
    grown = pt.Tree.from_sklearn(DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X[E], y[E]))
    fresh = pc.holdout(int(np.sum(grown.predict(X[S]) != y[S])), int(S.sum())).value
    yield "CART of E, S held out", grown.predict, fresh, grown.n_leaves
    prunings = pt.FixedTree(grown)
    errors = exact.minimise_root_fragment(X[S], y[S], split_prior=prunings, strength=0.0).tree
    bound = pc.root_fragment(errors, X[S], y[S], split_bits=0.0).value
    yield "   pruned by the errors on S", errors.predict, bound, errors.n_leaves
    naive = pc.naive_occam(errors, X[S], y[S], split_bits=0.0).value
    yield "      by the naive bound", errors.predict, naive, errors.n_leaves
    for strength in (1.0, 0.1, 0.01):
        found = exact.minimise_root_fragment(X[S], y[S], split_prior=prunings, strength=strength)
        name = f"   pruned by the bound, strength {strength:g}"
        yield name, found.tree.predict, found.bound.value, found.tree.n_leaves
    leaf, prior = pt.PacBayesLoss(1.0), pt.BranchingProcess(0.5, 20)
    rows = E | S
    model = pt.TreeModel(X[rows], y[rows], split_prior=prunings, leaf=leaf, tree_prior=prior, estimation=E[rows])
    post = exact.solve(model)
    yield "   all prunings, PAC-Bayes vote", post.predict, post.certificate().vote.value, np.nan
    for strength in (1.0, 0.1, 0.01):
        learner = exact.RootFragmentClassifier(bounds=ranges, cyclic=True, strength=strength).fit(X[rows], y[rows])
        bound = learner.risk_bound(X[rows], y[rows]).value
        yield f"dyadic by the bound, strength {strength:g}", learner.predict, bound, learner.tree_.n_leaves


def compare(name, splits):
    X, y, _ = read_table(name)
    X = X.astype(np.float32).astype(np.float64)  # as scikit-learn compares
    ranges = np.column_stack([X.min(axis=0), X.max(axis=0) + (X.min(axis=0) == X.max(axis=0))])
    found, began = {}, time.process_time()
    for seed in range(splits):
        part = np.random.default_rng(seed).permutation(len(y)) / len(y)
        test, E = part < 0.2, (part >= 0.2) & (part < 0.44)
        for rival, predict, bound, leaves in rivals(X, y, E, ~test & ~E, ranges):
            found.setdefault(rival, []).append((np.mean(predict(X[test]) != y[test]), bound, leaves))
    seconds = (time.process_time() - began) / splits
    print(f"{name}, {len(y)} rows, {X.shape[1]} columns; {seconds:.1f} CPU s a split")
    for rival, lines in found.items():
        error, bound, leaves = np.mean(lines, axis=0)
        print(f"    {rival:38} error {error:.4f}  bound {bound:.3f}  {leaves:.0f} leaves", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("tables", nargs="*", default=TABLES)
    given = options.parse_args()
    for name in filter(has_table, given.tables):
        compare(name, given.splits)


if __name__ == "__main__":
    main()
