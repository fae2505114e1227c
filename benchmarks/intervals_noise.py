"""Why intervals are too wide where the noise is low: coverage and width by what the leaf expects of the noise.

Leaves expect the tree to leave the fraction r of the variance of y unexplained: ``b0 = a0 r var(y)`` and ``k0 = r``, so
that means still lie about one standard deviation of y around theirs; the default is r = 1/4. Here beside it: r as a
cross-validated CART leaves it on the training rows, and that r in b0 alone; first, what the estimator's
``prior="auto"`` chooses. The first table has a mean of eight levels
and 300 training rows, by the ratio of the noise to the standard deviation of the mean; the width is that of the
interval over the one that knows mean and noise. The second has real tables of at most 800 rows, five folds; the width
is that over the default's.
Run: python benchmarks/intervals_noise.py [--seeds 3]
"""

import argparse
import gzip
import warnings

import numpy as np
from data import DATA, has_table
from rivals import mean_leaves
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.tree import DecisionTreeRegressor

import pactree_mcmc as pt

COVERAGES = (0.5, 0.9)
RATIOS = (0.5, 0.2, 0.1, 0.05, 0.02)
TABLES = ("diabetes", "abalone", "concrete", "autoprice", "cpu_small", "dtgfn_energy")
MOST_ROWS = 800


def levels(n, ratio, rng):
    """A mean of eight levels by three of five uniform features, and noise; their standard deviation's ratio."""
    X = rng.random((n, 5))
    high = X[:, :3] > np.array([0.4, 0.5, 0.6])
    mean = high @ np.array([4.0, 2.0, 1.0])
    return X, mean + ratio * mean.std() * rng.normal(size=n), ratio * mean.std()


def fraction_left(X, y):
    """Return the fraction of the variance that a cross-validated CART leaves, with the best of a few leaf sizes."""
    folds = KFold(5, shuffle=True, random_state=0)
    misfits = [
        np.mean((cross_val_predict(DecisionTreeRegressor(min_samples_leaf=m, random_state=0), X, y, cv=folds) - y) ** 2)
        for m in (2, 5, 10, 20)
    ]
    return float(np.clip(min(misfits) / np.var(y), 1e-6, 1.0))


def leaves(X, y):
    """Name and leaf of each way to choose the scale."""
    r, spread = fraction_left(X, y), np.var(y)
    yield "chosen by evidence", None
    yield "own variance, default", pt.NormalInverseGamma()
    yield "own variance, b0 by r", pt.NormalInverseGamma(b0=1.5 * r * spread)
    yield "own variance, b0 and k0 by r", pt.NormalInverseGamma(b0=1.5 * r * spread, k0=r)
    yield "shared variance, default", pt.NormalSharedVariance()
    yield "shared variance, b0 and k0 by r", pt.NormalSharedVariance(b0=1.5 * r * spread, k0=r)


def measure(X, y, test_X, test_y):
    """Yield each leaf's name with fractions inside, widths, leaves of the trees, RMSE."""
    for name, leaf in leaves(X, y):
        fitted = pt.BayesianTreeRegressor(leaf=leaf, random_state=0).fit(X, y)
        ends = fitted.predict_quantiles(test_X, [q for c in COVERAGES for q in ((1 - c) / 2, (1 + c) / 2)])
        low, high = ends[:, ::2], ends[:, 1::2]
        inside = ((low <= test_y[:, None]) & (test_y[:, None] <= high)).mean(axis=0)
        rmse = np.sqrt(np.mean((fitted.predict(test_X) - test_y) ** 2))
        yield name, np.array([*inside, *(high - low).mean(axis=0), mean_leaves(fitted.posterior_), rmse])


def generated(seeds):
    print("| noise / mean's sd | leaf | inside, 50 % | inside, 90 % | width, 50 % | width, 90 % | leaves |")
    print("|" + " --- |" * 7, flush=True)
    for ratio in RATIOS:
        sums = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            X, y, noise = levels(2300, ratio, rng)
            known = np.array([2.0 * noise * norm.ppf((1 + c) / 2) for c in COVERAGES])
            for name, found in measure(X[:300], y[:300], X[300:], y[300:]):
                found[2:4] /= known
                sums[name] = sums.get(name, 0.0) + found / seeds
        for name, found in sums.items():
            cells = [f"{v:.3f}" for v in found[:2]] + [f"{v:.2f}" for v in found[2:4]] + [f"{found[4]:.1f}"]
            print(f"| {ratio} | {name} | {' | '.join(cells)} |", flush=True)


def table(name):
    """Features and y of at most MOST_ROWS shuffled rows without missing values."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        file.readline()
        rows = np.genfromtxt(file, delimiter=",")
    rows = np.random.default_rng(0).permutation(rows[~np.isnan(rows).any(axis=1)])[:MOST_ROWS]
    return rows[:, :-1], rows[:, -1]


def real():
    print("\n| table, r | leaf | inside, 50 % | inside, 90 % | width, 50 % | width, 90 % | leaves | RMSE |")
    print("|" + " --- |" * 8, flush=True)
    for name in TABLES:
        if name != "diabetes" and not has_table(name):
            continue
        X, y = table(name)
        sums = {}
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            for leaf, found in measure(X[train], y[train], X[test], y[test]):
                sums[leaf] = sums.get(leaf, 0.0) + found / 5
        first = next(iter(sums.values()))[[2, 3, 5]].copy()
        for leaf, found in sums.items():
            found[[2, 3, 5]] /= first
            cells = [f"{v:.3f}" for v in found[:2]] + [f"{v:.2f}" for v in found[2:4]] + [f"{found[4]:.1f}"]
            print(f"| {name}, {fraction_left(X, y):.3f} | {leaf} | {' | '.join(cells)} | {found[5]:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    generated(parser.parse_args().seeds)
    real()


if __name__ == "__main__":
    main()
