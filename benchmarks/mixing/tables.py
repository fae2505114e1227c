"""The tables of the problems: generated ones, those of the other folders, files of the data folder."""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "examples")]
from chipman_1998 import chipman_data  # noqa: E402, F401
from data import DATA, four_levels, friedman, friedman_binary  # noqa: E402, F401


class MissingTable(Exception):
    """A file of the data folder is not there."""


def read_table(name):
    """Features (n, p) and classes (n,) of a file of the data folder; missing values are NaN."""
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        raise MissingTable(f"{path.name} is not in the data folder (beside the checkout, or PACTREE_DATA)")
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1].astype(int)


def wu_tjelmeland_west(seed=0):
    """Three groups of 100 whose partition two trees make alike, one with x1 at its root, one with x3."""
    rng = np.random.default_rng(seed)
    low, high, wide = (0.1, 0.4), (0.6, 0.9), (0.1, 0.9)
    groups = [((low, low, high), 1.0), ((low, high, high), 3.0), ((high, wide, low), 5.0)]
    X = np.concatenate([np.column_stack([rng.uniform(*ends, 100) for ends in box]) for box, _ in groups])
    return X, np.repeat([mean for _, mean in groups], 100) + rng.normal(0.0, 0.25, 300)


def xor_twins(rows_a_cell=6, seed=0):
    """XOR of the halves of an 8 x 8 grid, a tenth of the labels flipped; the third column repeats the first."""
    rng = np.random.default_rng(seed)
    cell = np.repeat(np.arange(64), rows_a_cell)
    first, second = cell // 8, cell % 8
    y = (first > 3) ^ (second > 3) ^ (rng.random(len(cell)) < 0.1)
    return np.column_stack([first, second, first]).astype(float), y


def real(name):
    """A real table without missing values, and its nominal columns."""
    X, y = read_table(name)
    missing = np.isnan(X)
    if name == "vote":  # neither yea nor nay is an answer of its own
        return np.where(missing, 2.0, X), y, range(X.shape[1])
    whole = ~missing.any(axis=1)
    return X[whole], y[whole], None
