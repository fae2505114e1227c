"""Tables of the problems: generated ones, those of the other folders, files of the data folder."""

import sys
from pathlib import Path

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
