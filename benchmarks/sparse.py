"""Unknown feature weights against equal ones where few of many features matter: inclusion and prediction.

y is a smooth function of three of p features plus normal noise of variance 1; ``datasets`` tables are drawn. Shown are
means over the tables: the probability that a tree splits on an active feature (each of the three), how many of the
others a tree splits on, and the error of the posterior mean at new rows, RMSE about the function itself.
Run: python benchmarks/sparse.py [--features 100] [--rows 300] [--datasets 4] [--draws 500]
"""

import argparse
import warnings

import numpy as np

import pactree_mcmc as pt

ACTIVE, NOISE, NEW = 3, 1.0, 2000
PRIORS = {
    "equal": None,
    "Dirichlet, a = 1": pt.DirichletWeights(concentration=1.0),
    "Dirichlet, a drawn": "dirichlet",
}


def smooth(X):
    """The function: of the first three columns, each to be cut more than once."""
    return 3.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 3.0 * X[:, 2]


def measured(weights, seed, given):
    """Inclusion of the three active features, others in a tree, RMSE, leaves, effective draws of the log posterior."""
    rng = np.random.default_rng(seed)
    X, new = rng.random((given.rows, given.features)), rng.random((NEW, given.features))
    y = smooth(X) + NOISE * rng.normal(size=given.rows)
    model = pt.TreeModel(
        X, y, split_prior=pt.LocalCuts(min_leaf=5, feature_weights=weights), tree_prior=pt.ChipmanPrior(0.95, 1.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        post = pt.sample(model, given.draws, tune=given.draws // 2, kernel="local", rng=seed, progress=False)
    asked = (post.split_counts > 0).mean(axis=(0, 1))
    error = float(np.sqrt(np.mean((post.predict(new) - smooth(new)) ** 2)))
    table = post.summary()
    return [*asked[:ACTIVE], asked[ACTIVE:].sum(), error, post.n_leaves.mean(), table.loc["lp", "ess_bulk"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("features", 100), ("rows", 300), ("datasets", 4), ("draws", 500)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    print(f"p = {given.features}, n = {given.rows}, {given.datasets} tables, 4 x {given.draws} draws")
    print("| weights | active 1 | active 2 | active 3 | others in a tree | RMSE | leaves | ESS of lp |")
    print("|" + " --- |" * 8)
    for name, weights in PRIORS.items():
        found = np.mean([measured(weights, seed, given) for seed in range(given.datasets)], axis=0)
        first, second, third, others, error, leaves, ess = found
        print(
            f"| {name} | {first:.3f} | {second:.3f} | {third:.3f} | {others:.2f} | {error:.3f} | {leaves:.2f} "
            f"| {ess:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
