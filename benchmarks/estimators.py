"""The estimators with their defaults against CART with cross-validated pruning, on 21 real tables.

Run: python benchmarks/estimators.py [table ...]. Loss is held-out log loss (nats), or RMSE for diabetes; both methods
see the same rows. Protocol: up to 4,000 rows 5-fold cross-validation (stratified, shuffled, seed 0); above, one
stratified split with 2,000 rows to test. CART: the cost-complexity path of the training rows thinned to 12 values,
the price with the least loss in 5-fold cross-validation on the training rows (3-fold on the large tables). Its leaves
predict ``(n_i + 1) / (n + K)``, as plain shares of a pure leaf would lose infinitely; the price is chosen for these.
Missing cells are the median of the column's training rows; nominal columns are category codes as numbers, for both.
"""

import argparse
import time
import warnings

import numpy as np
from data import DATA, has_table
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import pactree_mcmc as pt

BUNDLED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
}
GROUP_A = ["spambase", "eeg_eye_state", "epileptic_seizure", "crowdsourced_mapping_train", "wine_quality"]
GROUP_A += ["optdigits", "letter_recognition"]
GROUP_B = [
    "vote",
    "pima_diabetes",
    "breast_w",
    "ionosphere",
    "mushroom",
    "credit_a",
    "kr_vs_kp",
    "heart_statlog",
    "sick",
]
MANY_ROWS, N_TEST = 4000, 2000


def table(name):
    """Features, missing cells NaN, and target: floats for a regression, else classes."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        return X, y.astype(float) if name == "diabetes" else y
    whole = np.genfromtxt(DATA / f"{name}.csv.gz", delimiter=",", skip_header=1)
    return whole[:, :-1], whole[:, -1].astype(int)


def splits(X, y):
    """Training and test rows, both lists of one array a split."""
    if len(y) > MANY_ROWS:
        yield train_test_split(np.arange(len(y)), test_size=N_TEST, random_state=0, stratify=strata(y))
        return
    folds = KFold if y.dtype.kind == "f" else StratifiedKFold
    yield from folds(5, shuffle=True, random_state=0).split(X, y)


def strata(y):
    return None if np.bincount(y).min() < 10 else y


class Cart:
    """CART with the price of a leaf by cross-validation, its leaves smoothed."""

    def __init__(self, regression, n_rows):
        self.kind = DecisionTreeRegressor if regression else DecisionTreeClassifier
        self.n_folds = 3 if n_rows > MANY_ROWS else 5

    def fit(self, X, y):
        price = self.kind(random_state=0).cost_complexity_pruning_path(X, y).ccp_alphas.clip(0.0)
        prices = np.unique(np.quantile(price, np.linspace(0.0, 1.0, 12) ** 0.5, method="nearest"))
        folds = KFold(self.n_folds, shuffle=True, random_state=1)
        lost = np.zeros(len(prices))
        self.classes = np.unique(y)
        for train, test in folds.split(X):
            for i, value in enumerate(prices):
                lost[i] += loss(self.grown(X[train], y[train], value), X[test], y[test], self.classes)
        self.tree = self.grown(X, y, prices[int(np.argmin(lost))])
        return self

    def grown(self, X, y, price):
        tree = self.kind(random_state=0, ccp_alpha=price).fit(X, y)
        if self.kind is DecisionTreeRegressor:
            return tree.predict
        leaf, which = tree.apply(X), np.searchsorted(self.classes, y)
        counts = np.ones((tree.tree_.node_count, len(self.classes)))
        np.add.at(counts, (leaf, which), 1.0)
        return lambda rows: (counts / counts.sum(axis=1, keepdims=True))[tree.apply(rows)]

    def __call__(self, X):
        return self.tree(X)


def loss(predict, X, y, classes):
    """Log loss, or RMSE."""
    said = predict(X)
    if said.ndim == 1:
        return float(np.sqrt(np.mean((said - y) ** 2)))
    place = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    return float(-np.log(np.maximum(said[np.arange(len(y)), place], 1e-15)).mean())


def compare(name):
    """Mean losses of ours and CART's, seconds of a fit of each, leaves of ours."""
    X, y = table(name)
    regression = y.dtype.kind == "f"
    found, n_rows = [], len(y)
    for train, test in splits(X, y):
        impute = SimpleImputer(strategy="median", keep_empty_features=True).fit(X[train])
        here, there = impute.transform(X[train]), impute.transform(X[test])
        began = time.process_time()
        kind = pt.BayesianTreeRegressor if regression else pt.BayesianTreeClassifier
        fitted = kind(random_state=0).fit(here, y[train])
        middle = time.process_time()
        cart = Cart(regression, n_rows).fit(here, y[train])
        ended = time.process_time()
        predict = fitted.predict if regression else fitted.predict_proba
        post = fitted.posterior_
        found.append(
            (
                loss(predict, there, y[test], np.unique(y[train])),
                loss(cart, there, y[test], cart.classes),
                middle - began,
                ended - middle,
                post.n_leaves.mean(),
            )
        )
    return np.mean(found, axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=[*BUNDLED, *GROUP_A, *GROUP_B])
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    better, shown = 0, 0
    print(f"{'table':28s} {'ours':>9s} {'CART':>9s} {'ratio':>7s} {'leaves':>7s} {'CPU s':>7s} {'CART s':>7s}")
    for name in parser.parse_args().tables:
        if name not in BUNDLED and not has_table(name):
            continue
        mine, theirs, seconds, theirs_s, leaves = compare(name)
        better, shown = better + (mine < theirs), shown + 1
        print(
            f"{name:28s} {mine:9.4f} {theirs:9.4f} {mine / theirs:7.3f} {leaves:7.1f} {seconds:7.2f} {theirs_s:7.2f}",
            flush=True,
        )
    print(f"better on {better} of {shown}")


if __name__ == "__main__":
    main()
