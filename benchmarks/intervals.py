"""Predictive intervals of the regressor with its defaults: share of held-out rows inside, and width beside CART's.

Run: python benchmarks/intervals.py. 5-fold cross-validation, 1,000 rows (diabetes: all 442), the shares pooled over
folds. CART's interval: its mean plus and minus the normal quantile times the standard deviation of its cross-validated
residuals on the training rows, pruned as in `estimators.py`. Width: mean width of ours over that of CART's.
"""

import warnings

import numpy as np
from data import friedman
from estimators import Cart
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

import pactree_mcmc as pt

COVERAGES = (0.5, 0.8, 0.9, 0.95)


def steps(n=1000, seed=0):
    """Four levels of the mean and two of the noise, by cuts of two uniform features of five."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    noise = np.where(X[:, 0] > 0.6, 2.0, 0.5)
    return X, 4.0 * (X[:, 0] > 0.3) + 3.0 * (X[:, 1] > 0.5) + noise * rng.normal(size=n)


def uneven(n=1000, seed=0):
    """A smooth mean, noise that grows along the feature, with heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(6.0 * X[:, 0]) + (0.1 + X[:, 0]) * rng.standard_t(4, size=n)


def tables():
    yield "diabetes", load_diabetes(return_X_y=True)
    X, _, y = friedman(1000)
    yield "Friedman", (X, y)
    yield "steps, uneven noise", steps()
    yield "smooth, t noise", uneven()


def spread(X, y):
    """Standard deviation of CART's cross-validated residuals."""
    folds = KFold(5, shuffle=True, random_state=2).split(X)
    return np.sqrt(np.mean([np.mean((Cart(True, len(y)).fit(X[a], y[a])(X[b]) - y[b]) ** 2) for a, b in folds]))


def measure(X, y, leaf):
    """Shares inside, ours and CART's, and widths, each by coverage."""
    shares, widths = np.zeros((2, len(COVERAGES))), np.zeros((2, len(COVERAGES)))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        fitted = pt.BayesianTreeRegressor(leaf=leaf, random_state=0).fit(X[train], y[train])
        mean, sd = Cart(True, len(y)).fit(X[train], y[train])(X[test]), spread(X[train], y[train])
        for i, coverage in enumerate(COVERAGES):
            half = norm.ppf((1.0 + coverage) / 2.0) * sd
            for k, ends in enumerate((fitted.predict_interval(X[test], coverage).T, (mean - half, mean + half))):
                shares[k, i] += np.sum((ends[0] <= y[test]) & (y[test] <= ends[1]))
                widths[k, i] += np.sum(ends[1] - ends[0])
    return shares / len(y), widths[0] / widths[1]


def main():
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    print(f"{'table, leaf':44s}" + "".join(f"{f'{c:.0%}: ours CART width':>24s}" for c in COVERAGES))
    for name, (X, y) in tables():
        for leaf in (pt.NormalInverseGamma(), pt.NormalSharedVariance()):
            (ours, cart), width = measure(X, y, leaf)
            cells = [f"{a:12.3f} {b:.3f} {w:5.2f}" for a, b, w in zip(ours, cart, width, strict=True)]
            print(f"{f'{name}, {type(leaf).__name__}':44s}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
