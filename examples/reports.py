"""Sample the posteriors of six tables, and write the report of each as one HTML page.

Run: python examples/reports.py [folder [name ...]]     writes NAME.html (default: all, to docs/gallery/reports)
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from chipman_1998 import chipman_data
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import exact
import pactree_mcmc as pt

RUN = {"draws": 1000, "chains": 4, "rng": 1, "progress": False}
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "gallery" / "reports"


def classes(load, name):
    """Return the features of a table of scikit-learn, and the names of its classes as a column ``name``."""
    table = load(as_frame=True)
    return table.data, pd.Series(table.target_names[table.target], name=name)


def breast_cancer():
    """Wisconsin diagnostic breast cancer: 30 numbers, many of which are alike, so trees differ."""
    return "Breast cancer (Wisconsin)", pt.TreeModel(*classes(load_breast_cancer, "diagnosis")), False


def iris():
    """Fisher's iris: three classes, two features that matter."""
    return "Iris", pt.TreeModel(*classes(load_iris, "species")), False


def wine():
    """Wines of three growers."""
    return "Wine", pt.TreeModel(*classes(load_wine, "grower")), False


def diabetes():
    """Progression of diabetes in a year: a regression with much noise."""
    table = load_diabetes(as_frame=True, scaled=False)
    return "Diabetes", pt.TreeModel(table.data, table.target.rename("progression")), False


def chipman():
    """The example of Chipman, George and McCulloch (1998): one ordered, one nominal feature, five regions."""
    X, y = chipman_data()
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    return (
        "Chipman, George, McCulloch 1998",
        pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0), leaf=leaf),
        False,
    )


def shop():
    """A shop's customers, with text, dates and missing values; small enough that exact values are ticked."""
    rng, n = np.random.default_rng(3), 200
    since = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 6, n) * 30, unit="D")
    X = pd.DataFrame({"income": rng.integers(1, 9, n) * 1000.0, "since": since, "town": rng.choice(list("ABC"), n)})
    chance = np.where(X["income"] > 4000.0, 0.8, 0.2) + np.where(X["town"] == "C", 0.15, 0.0)
    y = pd.Series(np.where(rng.random(n) < chance, "bought", "left"), name="outcome")
    X.loc[::7, "income"] = np.nan
    return "A shop", pt.TreeModel(X, y, missing="branch", tree_prior=pt.ChipmanPrior(max_depth=3)), True


TABLES = {make.__name__: make for make in (breast_cancer, iris, wine, diabetes, chipman, shop)}


def write(name, folder):
    """Sample the model of a table, write its page, and return the path."""
    title, model, solved = TABLES[name]()
    with warnings.catch_warnings():
        # the page says it
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        post = pt.sample(model, **RUN)
    truth = exact.solve(model) if solved else None
    return post.report(folder / f"{name}.html", truth=truth, title=title)


def main(folder=FOLDER, *names):
    """Write the reports of the tables ``names``, by default of all."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or TABLES:
        page = write(name, folder)
        print(f"{page}: {page.stat().st_size / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
