"""Predictive intervals of the regressor with its defaults: fraction of held-out rows inside, and width beside CART's.

5-fold cross-validation, 1,000 rows (diabetes: all 442), fractions pooled over folds. CART's interval: its mean plus and
minus the quantile of the size of its cross-validated residuals on the training rows (cross-conformal, one width for all
rows), its price chosen as in `estimators.py`. Width: mean width of ours over that of CART's. Prints rows of Markdown.
Run: python benchmarks/intervals.py [--rows 1000]
"""

import argparse
import warnings

import numpy as np
from data import friedman, uneven_smooth, uneven_steps
from rivals import COVERAGES, Cart
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold

import pactree_mcmc as pt


def tables(n):
    yield "diabetes", [column[:n] for column in load_diabetes(return_X_y=True)]
    X, _, y = friedman(n)
    yield "Friedman's function", (X, y)
    yield "steps, uneven noise", uneven_steps(n)
    yield "smooth, t noise", uneven_smooth(n)


def measure(X, y, leaf):
    """Fractions inside, ours and CART's (2, coverages), and the ratio of widths."""
    fractions, widths = np.zeros((2, len(COVERAGES))), np.zeros((2, len(COVERAGES)))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        fitted = pt.BayesianTreeRegressor(leaf=leaf, random_state=0).fit(X[train], y[train])
        cart = Cart(True, conformal=True).fit(X[train], y[train])
        for i, coverage in enumerate(COVERAGES):
            for k, learner in enumerate((fitted, cart)):
                ends = learner.predict_interval(X[test], coverage).T
                fractions[k, i] += np.sum((ends[0] <= y[test]) & (y[test] <= ends[1]))
                widths[k, i] += np.sum(ends[1] - ends[0])
    return fractions / len(y), widths[0] / widths[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1000)
    n = parser.parse_args().rows
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    head = ["table", "leaf", *(f"{c:.0%}: ours, CART's, width" for c in COVERAGES)]
    print(f"| {' | '.join(head)} |\n|" + " --- |" * len(head), flush=True)
    for name, (X, y) in tables(n):
        for leaf in (pt.NormalInverseGamma(), pt.NormalSharedVariance()):
            (ours, cart), width = measure(X, y, leaf)
            cells = [f"{a:.3f}, {b:.3f}, {w:.2f}" for a, b, w in zip(ours, cart, width, strict=True)]
            print(f"| {' | '.join([name, type(leaf).__name__, *cells])} |", flush=True)


if __name__ == "__main__":
    main()
