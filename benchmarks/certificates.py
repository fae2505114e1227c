"""Print certificates on real tables, and Shah's Table 1; needs the data folder (beside the checkout, or PACTREE_DATA).

Run: python benchmarks/certificates.py [--splits 5]. The first run compiles the sampler for a few minutes.
"""

import argparse
import time
import warnings

import numpy as np
from data import read_table
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt
from pactree_mcmc.certificates import compression, compression_tree_bound, occam_discrete

TABLE_1 = (  # table, attributes as counted there, size of the tree, bound
    ("vote", 17, 11, 0.36),
    ("pima_diabetes", 9, 39, 0.78),
    ("breast_w", 10, 27, 0.49),
    ("ionosphere", 35, 35, 0.81),
    ("mushroom", 23, 30, 0.05),
    ("credit_a", 15, 42, 0.72),
    ("kr_vs_kp", 34, 59, 0.25),
    ("heart_statlog", 14, 35, 0.90),
    ("sick", 29, 61, 0.25),
)
N_VALUES = {"vote": 2, "breast_w": 10, "kr_vs_kp": 2}
"""Number of values of a column of the tables for which the paper has Theorem 3."""


def known_to(X, E, nominal):
    """Return X with each category that rows ``E`` (a mask) lack replaced by the commonest one in these rows."""
    X = X.copy()
    for k in nominal:
        known, counts = np.unique(X[E, k], return_counts=True)
        X[~np.isin(X[:, k], known), k] = known[np.argmax(counts)]
    return X


def grid_model(X, y, E, nominal, lambda1):
    """Return the model of all sets of categories and all cuts between values in E, with loss factor lambda1."""
    cuts = pt.GridCuts.from_table(X[E], 32, nominal=nominal)
    leaf, prior = pt.PacBayesLoss(lambda1), pt.ChipmanPrior(0.5, 1.0)
    return pt.TreeModel(X, y, split_prior=cuts, leaf=leaf, tree_prior=prior, nominal=nominal, estimation=E)


def pruning_model(X, y, E, lambda1):
    """Return the model of the prunings of a CART tree grown on E, with categories taken as numbers."""
    grown = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X[E], y[E])
    split_prior, leaf = pt.FixedTree.from_sklearn(grown), pt.PacBayesLoss(lambda1)
    return pt.TreeModel(X, y, split_prior=split_prior, leaf=leaf, tree_prior=pt.BranchingProcess(0.5, 20), estimation=E)


def posteriors(X, y, E, nominal, lambda1, seed):
    """Yield the name and the posterior of each kind: grid sampled, prunings sampled, prunings exact."""
    yield "grid, sampled", pt.sample(grid_model(X, y, E, nominal, lambda1), 1000, tune=300, rng=seed, progress=False)
    model = pruning_model(X, y, E, lambda1)
    yield "prunings, sampled", pt.sample(model, 1000, tune=300, rng=seed, progress=False)
    yield "prunings, exact", exact.solve(model)


def certify(name, lambda1, splits, wanted):
    """Print a line for each kind of posterior: means over ``splits`` divisions in test (20 %), E (24 %), S (56 %)."""
    X, y, nominal = read_table(name)
    found = {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        test, rows = np.split(order, [len(y) // 5])
        E = np.arange(len(rows)) < 0.3 * len(rows)
        merged = known_to(X, np.isin(np.arange(len(y)), rows[E]), nominal)
        for kind, post in posteriors(merged[rows], y[rows], E, nominal, lambda1, seed):
            began = time.perf_counter()
            c = post.certificate(0.05)
            seconds = time.perf_counter() - began
            error = np.mean(post.predict(merged[test]) != y[test])
            fresh = post.holdout_certificate(merged[test], y[test], 0.05).vote.value
            terms = (c.risk, c.kl, c.gibbs.value, c.tandem.value, c.vote.value, error, fresh, seconds)
            found.setdefault(kind, []).append((c.n, *terms))
    for kind, lines in found.items():
        mean, most = np.mean(lines, axis=0), np.max(np.array(lines)[:, 5])
        print(
            f"{name:9} {kind:18} S {mean[0]:5.0f}  risk {mean[1]:.4f}  KL {mean[2]:5.1f}  Gibbs {mean[3]:.3f}  "
            f"tandem {mean[4]:.3f}  vote {mean[5]:.4f} (at most {most:.4f}; wanted {wanted})  "
            f"test error {mean[6]:.4f}  hold-out bound {mean[7]:.4f}  {mean[8]:.2f} s"
        )


def tree_of_size(X, y, size):
    """Return the least pruned entropy tree of at most ``size`` + 1 nodes (always odd), two rows or more in a leaf."""
    grow = {"criterion": "entropy", "min_samples_leaf": 2, "random_state": 0}
    alphas = np.maximum(DecisionTreeClassifier(**grow).cost_complexity_pruning_path(X, y).ccp_alphas, 0.0)
    low, high = 0, len(alphas) - 1
    while low < high:
        middle = (low + high) // 2
        tree = DecisionTreeClassifier(ccp_alpha=alphas[middle], **grow).fit(X, y)
        low, high = (low, middle) if tree.tree_.node_count <= size + 1 else (middle + 1, high)
    return DecisionTreeClassifier(ccp_alpha=alphas[low], **grow).fit(X, y)


def table_1_row(name, attributes, size):
    """Return means over ten folds for a line of Shah's Table 1, with the number of ``attributes`` counted there.

    They are: test error; Corollary 2 (delta .05) at the published ``size`` and the training errors of that tree;
    Theorem 3, NaN unless columns have few values; the bound of the tree itself, and the number of rows that store its
    thresholds.
    """
    X, y, _ = read_table(name)
    found = []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y):
        fitted = tree_of_size(X[train], y[train], size)
        wrong, n = int(np.sum(fitted.predict(X[train]) != y[train])), len(train)
        listed = N_VALUES.get(name)
        third = occam_discrete(size, attributes, listed, n, wrong).value if listed else np.nan
        own = compression_tree_bound(pt.Tree.from_sklearn(fitted), X[train], y[train])
        error = np.mean(fitted.predict(X[test]) != y[test])
        found.append((error, compression(size, attributes, n, wrong).value, third, own.value, len(own.rows)))
    return np.mean(found, axis=0)


def forward_row(name, attributes, ranges, **how):
    """Return means over ten folds for Shah's forward algorithm: bound, Corollary 2, nodes, test error, rounds.

    With ``ranges`` it knows the range of each column. ``how`` are arguments of `exact.forward_tree`.
    """
    X, y, _ = read_table(name)
    ends = np.column_stack([X.min(axis=0), X.max(axis=0) + (X.min(axis=0) == X.max(axis=0))])
    found = []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y):
        grown = exact.forward_tree(X[train], y[train], ranges=ends if ranges else None, **how)
        errors, k = int(np.sum(grown.tree.predict(X[train]) != y[train])), grown.tree.n_nodes
        closed = compression(k, attributes, len(train), min(errors, len(train) - k)).value
        error = np.mean(grown.tree.predict(X[test]) != y[test])
        found.append((grown.bound.value, closed, k, error, grown.rounds))
    return np.mean(found, axis=0)


FORWARD = {
    "rows, stops at once": {"ranges": False},
    "rows": {"ranges": False, "patience": 20},
    "rows, by the bound": {"ranges": False, "patience": 20, "criterion": "bound"},
    "ranges": {"ranges": True, "patience": 20},
    "ranges, by the bound": {"ranges": True, "patience": 20, "criterion": "bound"},
}
"""Arguments of `forward_row` by name. The ranges are those of the whole table, as its description would give them."""


def table_1_forward():
    for name, attributes, size, published in TABLE_1:
        print(f"Shah, Table 1, forward: {name} (published: {size} nodes, {published:.2f})")
        for way, how in FORWARD.items():
            began = time.process_time()
            bound, closed, nodes, error, rounds = forward_row(name, attributes, **how)
            seconds = (time.process_time() - began) / 10
            print(
                f"    {way:22} bound {bound:.3f}  Corollary 2 {closed:.3f}  {nodes:4.1f} nodes  error {error:.3f}  "
                f"{rounds:.1f} rounds  {seconds:.2f} CPU s",
                flush=True,
            )


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--forward", action="store_true", help="only Table 1 by the forward algorithm")
    splits, forward = vars(options.parse_args()).values()
    if forward:
        return table_1_forward()
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    for row in TABLE_1:
        error, second, third, own, rows = table_1_row(*row[:3])
        print(
            f"Shah, Table 1: {row[0]:14} size {row[2]:2}  error {error:.3f}  Corollary 2 {second:.3f} (published "
            f"{row[3]:.2f})  Theorem 3 {third:.3f}  of the tree {own:.3f}, {rows:.1f} rows",
            flush=True,
        )
    certify("vote", 1.0, splits, 0.35)
    certify("mushroom", 0.5, splits, 0.05)
    return None


if __name__ == "__main__":
    main()
