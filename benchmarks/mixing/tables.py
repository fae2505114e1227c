"""Tables of the problems: generated ones, those of the other folders, files of the data folder."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn.datasets
from sklearn.model_selection import train_test_split

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "examples")]
from data import DATA, friedman, stepped  # noqa: E402


class MissingTable(Exception):
    """Error of a file that is not in the data folder."""


def _path(name):
    """Return the path of a table, or raise MissingTable."""
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        raise MissingTable(f"{path.name} is not in the data folder (beside the checkout, or PACTREE_DATA)")
    return path


def wu_tjelmeland_west(seed=0):
    """Return three groups of 100 rows, and y. Two trees make this partition, one with x1 at the root, one with x3."""
    rng = np.random.default_rng(seed)
    low, high, wide = (0.1, 0.4), (0.6, 0.9), (0.1, 0.9)
    groups = [((low, low, high), 1.0), ((low, high, high), 3.0), ((high, wide, low), 5.0)]
    X = np.concatenate([np.column_stack([rng.uniform(*ends, 100) for ends in box]) for box, _ in groups])
    return X, np.repeat([mean for _, mean in groups], 100) + rng.normal(0.0, 0.25, 300)


def real(name):
    """Return features as a frame, with NaN for missing values, the target, and the names of the nominal columns."""
    if name in ("breast_cancer", "diabetes", "iris", "wine"):
        data = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
        return data.data, data.target, []
    if name in ("low_noise", "friedman_1000"):
        X, y = stepped() if name == "low_noise" else friedman(1000)[::2]
        return pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])]), y, []
    X = pd.read_csv(_path(name)).dropna(axis=1, how="all")
    y = X.pop("target")
    return X, y, [column for column in X if column.endswith("__cat")]


def breast_cancer_example():
    """Return all 30 features and the classes of the training rows of examples/breast_cancer.py."""
    data = sklearn.datasets.load_breast_cancer(as_frame=True)
    labels = data.target_names[data.target]
    X, _, y, _ = train_test_split(data.data, labels, test_size=0.3, random_state=0, stratify=labels)
    return X, y
