"""The estimators with their defaults against tuned CART; with --context also bagged trees, forests and boosting.

Run: python benchmarks/estimators.py [--held-out] [--tables iris diabetes ...] [--context] [--ours-only] [--out FILE]

Tables. Without --held-out those of `TABLES`, which the authors know: the defaults were chosen on other data, but with
their figures in sight. With --held-out those of `held_out.TABLES`, by which nothing was chosen; they come with R.

Protocol. Up to 4,000 rows: 5-fold cross-validation (shuffled, seed 0; by class for classes), means over folds; with
--folds fewer of these folds, or more, which are of the shuffles with seeds 1, 2, .... More rows: one split with 2,000
rows to test (by class where each has ten rows). Missing cells are the median of the column's training rows, nominal
columns category codes as numbers, for all; columns that hold published splits are left out.

Figures. Loss: held-out log loss of classes (nats), RMSE of the predictive mean of regressions, y as it is in the table.
Score: accuracy, R squared. Calibration, over the held-out rows of all folds: of classes the expected calibration error
of the likeliest class, 15 bins of equal width; of regressions the mean gap between 50, 80, 90 and 95 % and the fraction
of rows in central intervals of that probability. Seconds are processor time of a fit on one thread, the median over
folds, all tuning included but for what no user spends (pseudo votes of forests, intervals of CART and of forests).

Learners. CART: `rivals.Cart`, the price of a leaf and the pseudo rows of the leaves by 5-fold (large tables: 3-fold)
cross-validation on the training rows; intervals cross-conformal. 16 bagged unpruned trees, a random forest of 500,
gradient boosting, with scikit-learn's defaults; pseudo votes, and residuals for intervals, out of bag; boosting has no
intervals.

Each measurement is a line of --out; what is there already is not measured again, so a run that was cut is called again.
To measure anew, give another file, or --again: of several lines the last counts. At the end, and with --summary alone,
the file is printed as rows of Markdown.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import datetime
import json
import time
import warnings
from itertools import chain, islice
from pathlib import Path

import held_out
import numpy as np
from data import GENERATED, has_table, load
from estimator_summary import key_of, number, read, summary
from rivals import CONTEXT, COVERAGES, Cart, calibration_error, loss, mean_leaves, score
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import pactree_mcmc as pt

TABLES = {
    "classification": (
        "iris", "wine", "breast_cancer", "digits", "spambase", "eeg_eye_state", "epileptic_seizure",
        "crowdsourced_mapping_train", "wine_quality", "optdigits", "letter_recognition", "vote", "pima_diabetes",
        "breast_w", "ionosphere", "mushroom", "credit_a", "kr_vs_kp", "heart_statlog", "sick", "dtgfn_raisin",
    ),
    "regression": (
        "diabetes", "abalone", "concrete", "cpu_small", "autoprice", "pbc", "dtgfn_energy", *GENERATED,
    ),
}  # fmt: skip
LEARNERS = ("ours", "ours, stated", "CART", *CONTEXT)
MANY_ROWS, N_TEST, FEW_ROWS, FOLDS = 4000, 2000, 300, 5
WARM_ROWS = 700
"""Number of rows fitted once before anything is timed: more than 256 cuts of a feature, so codes of both sizes."""


def splits(y, regression, n_folds=FOLDS):
    """Yield the training and the test rows of each split: one of a large table, ``n_folds`` of a small one."""
    if len(y) > MANY_ROWS:
        by_class = not regression and np.unique(y, return_counts=True)[1].min() >= 10
        rows = np.arange(len(y))
        yield train_test_split(rows, test_size=N_TEST, random_state=0, stratify=y if by_class else None)
        return
    kind = KFold if regression else StratifiedKFold
    shuffles = (kind(FOLDS, shuffle=True, random_state=seed).split(y, y) for seed in range(-(-n_folds // FOLDS)))
    yield from islice(chain.from_iterable(shuffles), n_folds)


class Ours:
    """An estimator of this library, with the methods of the rivals."""

    def __init__(self, regression, **how):
        self.regression = regression
        kind = pt.BayesianTreeRegressor if regression else pt.BayesianTreeClassifier
        self.estimator = kind(random_state=0, **how)

    def fit(self, X, y):
        self.estimator.fit(X, y)
        self.n_leaves = mean_leaves(self.estimator.posterior_)
        if self.regression:
            self.predict_interval = self.estimator.predict_interval
        return self

    def predict(self, X):
        return self.estimator.predict(X) if self.regression else self.estimator.predict_proba(X)


def learner_of(who, regression, n_rows):
    """Return a learner that is not fitted yet, by its name ``who``."""
    if who == "CART":
        return Cart(regression, 3 if n_rows > MANY_ROWS else 5, conformal=regression)
    if who in CONTEXT:
        return CONTEXT[who](regression)
    return Ours(regression, **({"prior": "stated"} if who == "ours, stated" else {}))


def fold(learner, rows, y, classes):
    """Fit a learner and return its figures on one split (loss, score, seconds), and what calibration is counted from.

    ``rows`` and ``y`` are pairs (training, test), ``classes`` are None for a regression. The second result (m, n) has
    two lines for classes, the largest probability and whether it is right, else one for each of COVERAGES: y is in the
    interval.
    """
    (here, there), (train, test) = rows, y
    began = time.process_time()
    learner.fit(here, train)
    spent = time.process_time() - began - getattr(learner, "seconds_apart", 0.0)
    said = learner.predict(there)
    if classes is not None:
        best = np.argmax(said, axis=1)
        counted = said[np.arange(len(test)), best], classes[best] == test
    else:
        ends = [learner.predict_interval(there, c) for c in COVERAGES] if hasattr(learner, "predict_interval") else []
        counted = [(end[:, 0] <= test) & (test <= end[:, 1]) for end in ends]
    figures = loss(said, test, classes), score(said, test, classes), getattr(learner, "seconds", spent)
    return figures, np.array(counted, dtype=float).reshape(-1, len(test))


def measure(task, name, who, few_rows, n_folds=FOLDS):
    """Return the figures of a learner ``who`` on a table, as a line of the file."""
    X, y = load(name)
    regression, n_rows = task == "regression", len(y)
    y = y if regression else y.astype(int)
    if few_rows:
        rows = np.random.default_rng(0).permutation(n_rows)[:FEW_ROWS]
        X, y = X[rows], y[rows]
    found, counted, leaves = [], [], []
    for train, test in splits(y, regression, n_folds):
        impute = SimpleImputer(strategy="median", keep_empty_features=True).fit(X[train])
        here, there = impute.transform(X[train]), impute.transform(X[test])
        if not found and who.startswith(("ours", "CART")):
            first = np.random.default_rng(0).permutation(len(train))[:WARM_ROWS]
            learner_of(who, regression, n_rows).fit(here[first], y[train][first]).predict(there[:5])
        learner = learner_of(who, regression, n_rows)
        figures, rows = fold(learner, (here, there), (y[train], y[test]), None if regression else np.unique(y[train]))
        found.append(figures)
        counted.append(rows)
        leaves.append(getattr(learner, "n_leaves", None))
    counted, (losses, scores, seconds) = np.concatenate(counted, axis=1), np.transpose(found)
    line = {"task": task, "table": name, "learner": who, "few_rows": few_rows, "rows": len(y), "splits": len(found)}
    line |= {"loss": losses.mean(), "score": scores.mean(), "seconds": float(np.median(seconds))}
    line["calibration"] = calibration(counted, regression)
    line["leaves"] = None if leaves[0] is None else float(np.mean(leaves))
    if regression and len(counted):
        line["coverage"] = dict(zip(map(str, COVERAGES), counted.mean(axis=1).tolist(), strict=True))
    return line | {"day": datetime.date.today().isoformat()}


def calibration(counted, regression):
    """Return the calibration error from all second results of `fold` side by side; None if there are no intervals."""
    if not regression:
        return calibration_error(*counted)
    return float(np.mean(np.abs(counted.mean(axis=1) - COVERAGES))) if len(counted) else None


def asked_for(options):
    """Return the names of the learners that the command line asks for."""
    ours = "ours, stated" if options.stated else "ours"
    if options.ours_only:
        return [ours]
    return [ours, "CART", *(CONTEXT if options.context else ())]


def run(options, names):
    """Measure what the file lacks, of ``names`` (task, table), and append a line for each measurement."""
    found, learners = read(options.out), asked_for(options)
    for task, name in names:
        for who in learners if has_table(name) else ():
            if not options.again and (task, name, who, options.few_rows) in found:
                continue
            line = measure(task, name, who, options.few_rows, options.folds)
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            found[key_of(line)] = line
            words = [f"{figure} {number(line[figure])}" for figure in ("loss", "score", "calibration", "seconds")]
            print(f"{name}, {who}: {', '.join(words)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[], help="default all")
    parser.add_argument("--held-out", action="store_true", help="tables by which no default was chosen; needs R")
    parser.add_argument("--only", choices=list(TABLES), help="one of the two tasks")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--context", action="store_true", help="all learners, not ours and CART alone")
    who.add_argument("--ours-only", action="store_true", help="ours alone, beside what the file has")
    parser.add_argument("--stated", action="store_true", help="ours with the stated prior, not one by evidence")
    parser.add_argument("--few-rows", action="store_true", help=f"{FEW_ROWS} rows of each table: a trial")
    parser.add_argument("--folds", type=int, default=FOLDS, help="folds to measure, five of each shuffle; default 5")
    parser.add_argument("--out", type=Path, default=Path("estimators.jsonl"), help="default estimators.jsonl")
    parser.add_argument("--again", action="store_true", help="measure also what the file has")
    parser.add_argument("--summary", action="store_true", help="measure nothing, print what the file has")
    options = parser.parse_args()
    tables = held_out.TABLES if options.held_out else TABLES
    names = [(task, name) for task in tables for name in tables[task] if options.only in (None, task)]
    unknown = set(options.tables) - {name for _, name in names}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; give some of {', '.join(name for _, name in names)}")
    names = [(task, name) for task, name in names if name in (options.tables or (name,))]
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    if not options.summary:
        run(options, names)
    chosen = {task: [name for kind, name in names if kind == task] for task in TABLES}
    for line in summary(read(options.out), chosen, LEARNERS, options.few_rows):
        print(line)


if __name__ == "__main__":
    main()
