"""Load tables for the benchmarks: generated ones, real ones from the data folder, and held-out ones (`held_out.py`)."""

import gzip
import os
from pathlib import Path

import held_out
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

DATA = Path(os.environ.get("PACTREE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
MISSING = -1.0


def friedman(n, seed=0, noise=1.0):
    """Return ten uniform features, Friedman's first function of them, and that plus normal noise of this deviation."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + noise * rng.normal(size=n)


def four_levels(n=200, seed=0):
    """Return one uniform feature and a label; P(y = 1) is .9, .2, .75 and .35, with jumps at .3, .55 and .8."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], rng.random(n) < np.select([x < 0.3, x < 0.55, x < 0.8], [0.9, 0.2, 0.75], 0.35)


def stepped(n=1000, p=8, cells=50, seed=0, noise=0.1):
    """Return normal features (n, p) and y, whose mean is constant on each of ``cells`` cells."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    rows = [np.arange(n)]
    while len(rows) < cells:
        largest = rows.pop(max(range(len(rows)), key=lambda c: len(rows[c])))
        x = X[largest, rng.integers(p)]
        left = x <= np.quantile(x, rng.uniform(0.3, 0.7))
        rows += [largest[left], largest[~left]]
    y = rng.normal(scale=noise, size=n)
    for here in rows:
        y[here] += 3.0 * rng.normal()
    return X, y


def uneven_steps(n, seed=0):
    """Return five uniform features and y, with four levels of the mean and two of the noise by cuts of two of them."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 5))
    noise = np.where(X[:, 0] > 0.6, 2.0, 0.5)
    return X, 4.0 * (X[:, 0] > 0.3) + 3.0 * (X[:, 1] > 0.5) + noise * rng.normal(size=n)


def uneven_smooth(n, seed=0):
    """Return two uniform features and y with a smooth mean and heavy-tailed noise that grows along the first."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(6.0 * X[:, 0]) + (0.1 + X[:, 0]) * rng.standard_t(4, size=n)


GENERATED = {
    "stepped_low": stepped,
    "stepped_high": lambda: stepped(noise=3.0),
    "smooth_low": lambda: friedman(1000, noise=0.1)[::2],
    "smooth_high": lambda: friedman(1000, noise=5.0)[::2],
    "few_rows": lambda: friedman(60)[::2],
    "many_rows": lambda: friedman(20_000)[::2],
    "uneven_steps": lambda: uneven_steps(1000),
    "uneven_smooth": lambda: uneven_smooth(1000),
}
"""Functions that return X and y of regressions. Means of ``stepped`` spread by 3, Friedman's function by 4.9."""
BUNDLED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "diabetes": load_diabetes,
}
"""Tables that come with scikit-learn."""


def load(name):
    """Return features (n, p), missing cells NaN, and target (n,) of any of the tables, as numbers."""
    if name in GENERATED:
        return GENERATED[name]()
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
        return X, y.astype(float)
    if held_out.source_of(name) is not None:
        return held_out.load(name)
    whole = _filed(name)
    features = [column for column in whole.dtype.names[:-1] if not column.startswith("split_")]
    return np.column_stack([whole[column] for column in features]), whole[whole.dtype.names[-1]]


def _filed(name):
    return np.genfromtxt(DATA / f"{name}.csv.gz", delimiter=",", names=True, deletechars="")


def has_table(name):
    """Return True if a table is available. Otherwise print the reason."""
    if name in GENERATED or name in BUNDLED:
        return True
    if held_out.source_of(name) is not None:
        reason = held_out.missing_reason(name)
    else:
        filed = (DATA / f"{name}.csv.gz").exists()
        reason = None if filed else "it is not in the data folder (beside the checkout, or PACTREE_DATA)"
    if reason is not None:
        print(f"{name} skipped: {reason}", flush=True)
    return reason is None


def read_table(name):
    """Return features (n, p), -1 if missing; classes (n,); and nominal columns, also those with missing cells."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        header = file.readline().strip().split(",")
        table = np.nan_to_num(np.genfromtxt(file, delimiter=","), nan=MISSING)
    X, y = table[:, :-1], table[:, -1].astype(int)
    return X, y, [k for k in range(X.shape[1]) if header[k].endswith("__cat") or np.any(X[:, k] == MISSING)]
