"""Tables the benchmarks share: generated ones, and real ones from the data folder."""

import gzip
import os
from pathlib import Path

import numpy as np

DATA = Path(os.environ.get("PACTREE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
MISSING = -1.0


def friedman(n, seed=0):
    """Friedman's first function of ten uniform features, and its noisy version, standard deviation 1."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 10))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, f, f + rng.normal(size=n)


def friedman_binary(n, seed=0):
    """The same table with the noisy function above its median as label."""
    X, _, y = friedman(n, seed)
    return X, y > np.median(y)


def four_levels(n=200, seed=0):
    """One uniform feature; P(y = 1) jumps between .9, .2, .75, .35 at .3, .55, .8."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], rng.random(n) < np.select([x < 0.3, x < 0.55, x < 0.8], [0.9, 0.2, 0.75], 0.35)


def has_table(name):
    """Whether the data folder has the table; says so where not."""
    found = (DATA / f"{name}.csv.gz").exists()
    if not found:
        print(f"{name} skipped: it is not in the data folder (beside the checkout, or PACTREE_DATA)")
    return found


def read_table(name):
    """Features (n, p), missing ones -1; classes (n,); the nominal columns, those with missing values too."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        header = file.readline().strip().split(",")
        table = np.nan_to_num(np.genfromtxt(file, delimiter=","), nan=MISSING)
    X, y = table[:, :-1], table[:, -1].astype(int)
    return X, y, [k for k in range(X.shape[1]) if header[k].endswith("__cat") or np.any(X[:, k] == MISSING)]
