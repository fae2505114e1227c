"""The estimators with their defaults against tuned CART on real tables; sums and averages of trees beside.

Run: python benchmarks/estimators.py [table ...] [--only classification] [--deep] [--few-rows] [--no-context]

Protocol. Up to 4,000 rows: 5-fold cross-validation (shuffled, seed 0; by class for classes), means over folds. More
rows: one split with 2,000 rows to test (by class where each has ten rows). Classes are judged by held-out log loss
(nats), regressions by the RMSE of the predictive mean, y as it is in the table. Missing cells are the median of the
column's training rows, nominal columns category codes as numbers, for all. Columns that hold published splits are left
out. CART: `rivals.Cart`, the price of a leaf and the pseudo rows of the leaves by 5-fold (large tables: 3-fold)
cross-validation on the training rows. Context, `rivals.CONTEXT`: a random forest of 500, 16 bagged unpruned trees,
gradient boosting, with scikit-learn's defaults; pseudo votes out of bag. Seconds are processor time of a fit on one
thread, all tuning included but for the pseudo votes. The tables asked for are printed as rows of Markdown, then
geometric means and counts.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import time
import warnings

import numpy as np
from data import DATA, has_table
from rivals import CONTEXT, Cart, loss
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import pactree_mcmc as pt

BUNDLED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
}
TABLES = {
    "classification": (
        "iris", "wine", "breast_cancer", "digits", "spambase", "eeg_eye_state", "epileptic_seizure",
        "crowdsourced_mapping_train", "wine_quality", "optdigits", "letter_recognition", "vote", "pima_diabetes",
        "breast_w", "ionosphere", "mushroom", "credit_a", "kr_vs_kp", "heart_statlog", "sick", "dtgfn_raisin",
    ),
    "regression": ("diabetes", "abalone", "concrete", "cpu_small", "autoprice", "pbc", "dtgfn_energy"),
}  # fmt: skip
LOSS = {"classification": "log loss", "regression": "RMSE"}
MANY_ROWS, N_TEST, FEW_ROWS = 4000, 2000, 300


def table(name):
    """Features, missing cells NaN, and target: floats for a regression, else classes."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    else:
        whole = np.genfromtxt(DATA / f"{name}.csv.gz", delimiter=",", names=True, deletechars="")
        features = [column for column in whole.dtype.names[:-1] if not column.startswith("split_")]
        X, y = np.column_stack([whole[column] for column in features]), whole[whole.dtype.names[-1]]
    return X, y.astype(float) if name in TABLES["regression"] else y.astype(int)


def splits(y, regression):
    """Training and test rows, both lists of one array a split."""
    if len(y) > MANY_ROWS:
        by_class = not regression and np.unique(y, return_counts=True)[1].min() >= 10
        rows = np.arange(len(y))
        yield train_test_split(rows, test_size=N_TEST, random_state=0, stratify=y if by_class else None)
        return
    yield from (KFold if regression else StratifiedKFold)(5, shuffle=True, random_state=0).split(y, y)


def learners(regression, n_rows, with_context, deep):
    """Ours, CART, and the context, by name."""
    ours = pt.BayesianTreeRegressor if regression else pt.BayesianTreeClassifier
    yield "ours", ours(tree_prior=pt.ChipmanPrior(0.99, 0.0) if deep else None, random_state=0)
    yield "CART", Cart(regression, 3 if n_rows > MANY_ROWS else 5)
    if with_context:
        yield from ((name, make(regression)) for name, make in CONTEXT.items())


def fitted(learner, X, y):
    """The learner fitted, and the processor seconds of that."""
    began = time.process_time()
    learner.fit(X, y)
    spent = time.process_time() - began
    return learner, spent - getattr(learner, "seconds_apart", 0.0)


def compare(name, regression, given):
    """Mean losses and seconds of each learner (2, learners), and leaves of ours and of CART, over splits."""
    X, y = table(name)
    n_rows = len(y)
    if given.few_rows:
        rows = np.random.default_rng(0).permutation(n_rows)[:FEW_ROWS]
        X, y = X[rows], y[rows]
    found, leaves = [], []
    for train, test in splits(y, regression):
        impute = SimpleImputer(strategy="median", keep_empty_features=True).fit(X[train])
        here, there = impute.transform(X[train]), impute.transform(X[test])
        each = {}
        for who, learner in learners(regression, n_rows, not given.no_context, given.deep):
            learner, seconds = fitted(learner, here, y[train])
            said = learner.predict(there) if regression or who != "ours" else learner.predict_proba(there)
            each[who] = learner, loss(said, y[test], np.unique(y[train])), seconds
        post = each["ours"][0].posterior_
        leaves.append((post.n_leaves.mean(), each["CART"][0].n_leaves))
        found.append([numbers[1:] for numbers in each.values()])
    return np.mean(found, axis=0).T, np.mean(leaves, axis=0)


def number(value):
    """Four digits, or four decimals if that is fewer; two digits of what would vanish."""
    if value < 0.001:
        return f"{value:.1e}"
    return f"{value:.4f}" if value < 10 else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def task_rows(task, given):
    """Print the rows of one task, then geometric means of ours over each rival, and how often ours is lower."""
    X = np.random.default_rng(0).random((40, 2))
    next(learners(task == "regression", 40, False, given.deep))[1].fit(
        X, X[:, 0] if task == "regression" else X[:, 0] > 0.5
    )
    names = ["ours", "CART", *([] if given.no_context else CONTEXT)]
    head = [f"{task}, {LOSS[task]}", "ours", "CART", "ratio", *names[2:], "leaves, ours and CART"]
    head += [] if given.no_seconds else [f"seconds: {', '.join(names)}"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    ratios = []
    asked = [name for name in TABLES[task] if name in (given.tables or TABLES[task])]
    for name in [name for name in asked if name in BUNDLED or has_table(name)]:
        (losses, seconds), leaves = compare(name, task == "regression", given)
        ratios.append(losses[0] / losses[1:])
        cells = [name, number(losses[0]), number(losses[1]), f"{ratios[-1][0]:.3f}", *map(number, losses[2:])]
        cells += [f"{leaves[0]:.0f}, {leaves[1]:.0f}"]
        cells += [] if given.no_seconds else [", ".join(f"{s:.2f}" for s in seconds)]
        print(f"| {' | '.join(cells)} |", flush=True)
    for rival, column in zip(names[1:] if ratios else (), np.transpose(ratios), strict=True):
        mean, better = np.exp(np.mean(np.log(column))), int(np.sum(column < 1.0))
        told = f"geometric mean {mean:.3f}, median {np.median(column):.3f}, worst {column.max():.3g}"
        print(f"{task}: ours over {rival}, {told}; lower on {better} of {len(column)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="default all")
    parser.add_argument("--only", choices=list(TABLES), help="one of the two tasks")
    parser.add_argument("--few-rows", action="store_true", help=f"{FEW_ROWS} rows of each table: a trial")
    parser.add_argument("--deep", action="store_true", help="ours with ChipmanPrior(0.99, 0), not with its defaults")
    parser.add_argument("--no-context", action="store_true", help="ours and CART alone")
    parser.add_argument("--no-seconds", action="store_true", help="on a machine with other work")
    given = parser.parse_args()
    unknown = set(given.tables) - {name for names in TABLES.values() for name in names}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; give some of {', '.join(sum(TABLES.values(), ()))}")
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    for task in [given.only] if given.only else TABLES:
        if not given.tables or set(given.tables) & set(TABLES[task]):
            task_rows(task, given)
            print(flush=True)


if __name__ == "__main__":
    main()
