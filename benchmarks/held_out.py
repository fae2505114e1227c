"""Load held-out tables, real tables by which no default was chosen, from packages of R.

Needs R and the packages named in `TABLES`, from a Linux distribution (Debian: `apt-get install r-base-core
r-cran-mlbench r-cran-mass r-cran-th.data r-cran-kernlab r-cran-modeldata r-cran-cardata`) or by R's `install.packages`.
"""

import io
import shutil
import subprocess
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

TO_CSV = """
given <- commandArgs(TRUE); place <- new.env()
data(list = given[2], package = given[1], envir = place)
table <- get(given[2], place)
for (name in names(table)) if (!is.numeric(table[[name]])) table[[name]] <- as.integer(factor(table[[name]])) - 1
write.csv(table, row.names = FALSE, na = "")
"""
"""Program in R that writes a table of a package; labels and categories become 0, 1, ... in the order of the levels."""


class Source(NamedTuple):
    """Package and name of a table in R, its target, and the columns that are not features."""

    package: str
    item: str
    target: str
    left_out: tuple[str, ...] = ()


TABLES = {
    "classification": {
        "glass": Source("mlbench", "Glass", "Type"),
        "sonar": Source("mlbench", "Sonar", "Class"),
        "vehicle": Source("mlbench", "Vehicle", "Class"),
        "vowel": Source("mlbench", "Vowel", "Class"),
        "zoo": Source("mlbench", "Zoo", "type"),
        "soybean": Source("mlbench", "Soybean", "Class"),
        "dna": Source("mlbench", "DNA", "Class"),
        "satellite": Source("mlbench", "Satellite", "classes"),
        "glaucoma": Source("TH.data", "GlaucomaM", "Class"),
        "prognosis": Source("TH.data", "wpbc", "status", ("time",)),
        "musk": Source("kernlab", "musk", "Class"),
        "cells": Source("modeldata", "cells", "class", ("case",)),
        "attrition": Source("modeldata", "attrition", "Attrition"),
    },
    "regression": {
        "housing": Source("mlbench", "BostonHousing", "medv"),
        "ozone": Source("mlbench", "Ozone", "V4"),
        "servo": Source("mlbench", "Servo", "Class"),
        "cpus": Source("MASS", "cpus", "perf", ("name", "estperf")),
        "birthweight": Source("MASS", "birthwt", "bwt", ("low",)),
        "sacramento": Source("modeldata", "Sacramento", "price"),
        "biomass": Source("modeldata", "biomass", "HHV", ("sample", "dataset")),
        "meats": Source("modeldata", "meats", "fat", ("water", "protein")),
        "car_prices": Source("modeldata", "car_prices", "Price"),
        "salaries": Source("carData", "Salaries", "salary"),
    },
}
"""All tables of mlbench, without those of `estimators.TABLES` or of over 20,000 rows, then those of other packages."""
SERVO_TIMES = np.array([
    *(0.13125, 0.20625, 0.243751, 0.281251, 0.318751, 0.356251, 0.393752, 0.431252, 0.468752, 0.5, 0.506252, 0.543753),
    *(0.581253, 0.618753, 0.656254, 0.693754, 0.700001, 0.731254, 0.768754, 0.806255, 0.843755, 0.881255, 0.900001),
    *(0.918755, 0.956256, 0.993756, 1.03125, 1.06875, 1.1, 1.10625, 1.14375, 1.18124, 1.21874, 1.3, 1.49999, 1.69999),
    *(1.89999, 2.49998, 2.69998, 3.69997, 3.89996, 4.09997, 4.29998, 4.49999, 4.7, 5.10001, 5.30002, 5.50003, 5.70004),
    *(6.9001, 7.10011),
])  # fmt: skip
"""Rise times of servo (UCI; Ulrich 1986, Quinlan 1993). mlbench has their ranks 1, 2, ... instead."""


def source_of(name):
    """Return the source of a held-out table, or None if there is no such table."""
    return next((tables[name] for tables in TABLES.values() if name in tables), None)


@cache
def read(package, item):
    """Return a table of a package of R as (frame, None), or (None, reason) if it is not available."""
    program = shutil.which("Rscript")
    if program is None:
        return None, "R is not installed (Debian: r-base-core)"
    ended = subprocess.run(
        [program, "--vanilla", "-e", TO_CSV, package, item], capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()
        return None, f"R cannot read {item} of its package {package} ({said[-1] if said else ended.returncode})"
    return pd.read_csv(io.StringIO(ended.stdout)), None


def missing_reason(name):
    """Return why a held-out table is not available, or None if it is."""
    source = source_of(name)
    return read(source.package, source.item)[1]


def load(name):
    """Return features (n, p), missing cells NaN, and target (n,), both as numbers; rows without target are left out."""
    source = source_of(name)
    frame, reason = read(source.package, source.item)
    if frame is None:
        raise FileNotFoundError(f"{name}: {reason}")
    frame = frame.dropna(subset=[source.target])
    X, y = frame.drop(columns=[source.target, *source.left_out]), frame[source.target].to_numpy()
    if name == "servo":
        y = SERVO_TIMES[y.astype(int) - 1]
    return X.to_numpy(dtype=float), y.astype(float)
