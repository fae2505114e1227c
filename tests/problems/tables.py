"""Tables: named ones, random ones, and the forms in which the library takes them."""

import numpy as np
import pandas as pd
import polars as pl

ORDERED = {"X": [(0.0, 1.0), (0.0, 2.0), (1.0, 1.0), (1.0, 1.0), (3.0, 2.0)], "y": [0, 1, 1, 0, 1]}
"""Two ordered features with ties; the third and fourth row are equal, so that a leaf with both cannot be split."""
WIDE = {
    "X": [(0.0, 5.0), (1.0, 3.0), (2.0, 4.0), (3.0, 1.0), (3.0, 2.0), (3.0, 2.0)],
    "y": [0, 0, 1, 1, 1, 0],
    "weights": [1.0, 0.5, 2.0, 1.0, 0.0, 1.5],
}
"""Two ordered features, weighted rows, equal rows."""
NOMINAL = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 0.0), ("d", 1.0), ("b", 0.0), ("c", 1.0)],
    "y": [0, 1, 2, 1, 0, 2],
    "nominal": {0},
}
"""Four categories beside a binary feature."""
THREE = {"X": [("a", 0.0), ("b", 1.0), ("c", 2.0), ("a", 2.0), ("c", 2.0)], "y": [0, 1, 1, 0, 0], "nominal": {0}}
"""Three categories, an ordered feature, two equal rows."""
TWO = {"X": [("a", 0.0), ("b", 0.0), ("b", 1.0)], "y": [0, 1, 1], "nominal": {0}}
"""Small enough for trivial splits down to depth 2."""
CROWDED = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 0.0), ("c", 2.0), ("d", 1.0), ("d", 1.0), ("d", 3.0), ("e", 2.0)],
    "y": [0, 1, 1, 0, 1, 0, 1, 1],
    "nominal": {0},
}
"""Five categories with one to three rows each, and an ordered feature with ties, for leaves of at least two rows."""
LONG = {
    "X": [(0.0, 1.0), (1.0, 1.0), (1.0, 2.0), (2.0, 0.0), (3.0, 2.0), (3.0, 2.0), (4.0, 0.0), (5.0, 1.0)],
    "y": [0, 0, 1, 1, 0, 1, 1, 0],
}
"""Eight rows of two ordered features with ties."""
UNEVEN = {"X": [(0.0,), (1.0,), (1.0,), (2.0,), (2.0,), (3.0,), (3.0,), (4.0,)], "y": [0, 0, 1, 1, 1, 0, 1, 0]}
"""Single rows at both ends of pairs: of cuts that leave two rows, the first is not the first of all."""
BINARY = {"X": [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0)], "y": [0, 1, 1, 0]}
"""Three binary features."""
LINE = {"X": [(0.0,), (2.0,), (2.0,)], "y": [0, 1, 1]}
"""One ordered feature, two equal rows."""
PAIR = {"X": [("a",), ("b",), ("b",)], "y": [0, 1, 1], "nominal": {0}}
"""Two categories, two equal rows."""
BOX = {"X": [("a", 0.0), ("b", 2.0), ("b", 0.0)], "y": [0, 1, 1], "nominal": {0}}
"""Two categories and two values."""
MIXED = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 0.0), ("c", 1.0), ("a", 1.0), ("b", 2.0)],
    "y": [0, 1, 1, 0, 1, 0],
    "nominal": {0},
}
"""Three categories with two rows each, for leaves of at least two rows."""
CORNERS = {
    "X": [(0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)],
    "y": [0, 1, 1, 0, 1, 0],
}
"""Six corners of a cube: the same split can stand on both sides of another."""
FIVE_CORNERS = {
    "X": [(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0)],
    "y": [0, 1, 1, 0, 1],
}
"""Five of them, among which one split can part another's cell as a third does."""
PRISM = {
    "X": [(a, 0.0, c) for a in "ab" for c in (0.0, 1.0)] + [("a", 1.0, 0.0), ("b", 1.0, 1.0)],
    "y": [0, 1, 1, 0, 1, 0],
    "nominal": {0},
}
"""The same corners, the first feature nominal."""
THREE_LETTERS = {"X": [("a",), ("b",), ("c",)], "y": [0, 1, 1], "nominal": {0}}
FOUR_LETTERS = {"X": [("a",), ("b",), ("c",), ("d",)], "y": [0, 1, 1, 0], "nominal": {0}}


def random_rows(rng, n, p, allow_nominal, gaps):
    """Rows of quarters and letters, with ties, constant columns and duplicate rows; with ``gaps`` some are missing."""
    nominal, columns = set(), []
    for k in range(p):
        n_values = int(rng.integers(1, 5))
        if allow_nominal and rng.random() < 0.4:
            nominal.add(k)
            columns.append(rng.choice(list("abcd")[:n_values], n).tolist())
        elif rng.random() < 0.6:
            columns.append(rng.choice(np.arange(-1.0, 2.0, 0.25)[: 3 * n_values], n).tolist())
        else:
            columns.append(rng.permutation(np.arange(n) * 0.5 - 1.0).tolist())
    if gaps:
        columns = [_with_gaps(rng, column) for column in columns]
    X = list(zip(*columns, strict=True))
    if rng.random() < 0.4 and not gaps:
        X = [X[i] for i in rng.integers(n, size=n)]
    return X, nominal


def _with_gaps(rng, column):
    """Some of the values of a column missing, but not all."""
    lacks = rng.random(len(column)) < rng.choice([0.0, 0.3, 0.6])
    lacks[int(rng.integers(len(column)))] = False
    return [None if lack else value for lack, value in zip(lacks, column, strict=True)]


def table_in_some_form(problem, rng):
    """X as an array, a pandas or a polars frame, and what to pass as ``nominal``."""
    X, nominal = problem.X, sorted(problem.nominal)
    form = str(rng.choice(["array", "fortran", "pandas", "polars"]))
    if form in ("array", "fortran"):
        array = np.array(X, dtype=object if nominal else np.float64)
        return np.asarray(array, order="C" if form == "array" else "F"), nominal or None
    columns = {f"f{k}": list(column) for k, column in enumerate(zip(*X, strict=True))}
    if form == "pandas":
        frame = pd.DataFrame(columns)
        return frame.astype({f"f{k}": "category" for k in nominal}), None
    types = {f"f{k}": pl.Categorical if k in nominal else pl.Float64 for k in range(len(columns))}
    return pl.DataFrame(columns, schema=types), None
