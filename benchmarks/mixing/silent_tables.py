"""Tables of `silent_loss.py`: real ones, and made ones whose exact symmetries are declared and verified.

A symmetry is a permutation of the columns, with a relabelling of categories if needed, that maps the table to the same
table with its rows in another order. The posterior then has the same symmetry. So columns that a symmetry exchanges
have the same probabilities, and rows that it exchanges have the same predictions.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tables

PERMUTATION_SEED = 20
SUBSET_SEED = 21
MADE_SEED = 22
SUBSET_ROWS = 300
CATEGORIES = 6
FLIPPED = 0.05
"""Fraction of the labels of made tables that are flipped."""


class NotSymmetric(ValueError):
    """Error of a declared symmetry that does not map its table to itself."""


class Symmetry(NamedTuple):
    """Map of a table: column k of the image is column ``columns[k]``, with its categories relabelled."""

    columns: tuple[int, ...]
    relabelled: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Pairs (column of the image, new code of each category 0, 1, ...)."""


class Table(NamedTuple):
    """Features, target, nominal columns and declared symmetries of a table."""

    X: pd.DataFrame
    y: Any
    nominal: list[str]
    symmetries: tuple[Symmetry, ...] = ()


def image(X, symmetry):
    """Return the features (n, p) after the map of a symmetry."""
    out = X[:, symmetry.columns]
    for column, codes in symmetry.relabelled:
        out[:, column] = np.asarray(codes, dtype=float)[out[:, column].astype(int)]
    return out


def check_symmetries(table):
    """Raise NotSymmetric if a declared symmetry does not map the rows of the table, as a multiset, to themselves."""
    X, y = table.X.to_numpy(dtype=float), np.unique(np.asarray(table.y), return_inverse=True)[1]
    is_nominal = np.isin(table.X.columns, table.nominal)
    for symmetry in table.symmetries:
        if sorted(symmetry.columns) != list(range(X.shape[1])):
            raise NotSymmetric(f"{symmetry} is no permutation of {X.shape[1]} columns")
        if not np.array_equal(is_nominal[list(symmetry.columns)], is_nominal):
            raise NotSymmetric(f"{symmetry} exchanges nominal columns with others")
        if not np.array_equal(_sorted_rows(X, y), _sorted_rows(image(X, symmetry), y), equal_nan=True):
            raise NotSymmetric(f"{symmetry} does not map the table to itself")


def _sorted_rows(X, y):
    rows = np.column_stack([X, y])
    return rows[np.lexsort(rows.T)]


def row_images(X, symmetry):
    """Return for each row (n,) a row whose features are those of its image."""
    place = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(X) + 0.0)}
    return np.array([place[row.tobytes()] for row in np.ascontiguousarray(image(X, symmetry)) + 0.0])


def column_pairs(n_columns, symmetries):
    """Return the pairs (a, b), a < b, of columns in the same orbit of the group that the symmetries generate."""
    orbit = list(range(n_columns))
    for symmetry in symmetries:
        for k, source in enumerate(symmetry.columns):
            orbit = [min(orbit[k], orbit[source]) if o in (orbit[k], orbit[source]) else o for o in orbit]
    return [(a, b) for a in range(n_columns) for b in range(a + 1, n_columns) if orbit[a] == orbit[b]]


def from_array(X, y, nominal=(), symmetries=()):
    """Return a table with columns x0, x1, ..., of which ``nominal`` has the numbers of the nominal ones."""
    names = [f"x{k}" for k in range(X.shape[1])]
    frame = pd.DataFrame(np.asarray(X, dtype=float), columns=names)
    return Table(frame, np.asarray(y), [names[k] for k in nominal], tuple(symmetries))


def joined(X, y, generators):
    """Return the table of X, y and their images, doubled by each generator in turn, with the same targets."""
    for symmetry in generators:
        X, y = np.concatenate([X, image(X, symmetry)]), np.concatenate([y, y])
    return from_array(X, y, symmetries=generators)


def exchange(n_columns, *pairs):
    """Return the symmetry that exchanges the columns of each pair."""
    columns = list(range(n_columns))
    for a, b in pairs:
        columns[a], columns[b] = b, a
    return Symmetry(tuple(columns))


def board_symmetries():
    """Return the seven rotations and reflections of a board of three by three that are not the identity."""
    board = np.arange(9).reshape(3, 3)
    turned = [np.rot90(side, k) for side in (board, board.T) for k in range(4)]
    return tuple(Symmetry(tuple(cells.ravel().tolist())) for cells in turned[1:])


LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def tic_tac_toe():
    """Return the 958 boards at which a game may end, nine nominal columns, and whether x has won (1 or 0)."""
    ends, todo = {}, {((0,) * 9, 1)}
    while todo:
        board, turn = todo.pop()
        won = [who for who in (1, 2) if any(all(board[i] == who for i in line) for line in LINES)]
        if won or 0 not in board:
            ends[board] = won == [1]
            continue
        todo |= {((*board[:i], turn, *board[i + 1 :]), 3 - turn) for i in range(9) if board[i] == 0}
    boards = sorted(ends)
    return from_array(np.array(boards), np.array([int(ends[b]) for b in boards]), range(9), board_symmetries())


def tic_tac_toe_permuted():
    """Return the same table with columns and rows in another order."""
    table, rng = tic_tac_toe(), np.random.default_rng(PERMUTATION_SEED)
    columns, rows = rng.permutation(9), rng.permutation(len(table.y))
    back = np.argsort(columns)
    symmetries = [Symmetry(tuple(back[np.array(s.columns)[columns]].tolist())) for s in table.symmetries]
    return from_array(table.X.to_numpy()[rows][:, columns], table.y[rows], range(9), symmetries)


def real(name):
    """Return a table of the data folder without the columns that hold published splits."""
    X, y, nominal = tables.real(name)
    return Table(X.drop(columns=[c for c in X if c.startswith("split_")]), np.asarray(y), list(nominal))


def some_rows(name):
    """Return a fixed random subset of the rows of a table of the data folder, without columns that are constant."""
    table = real(name)
    rows = np.random.default_rng(SUBSET_SEED).permutation(len(table.y))[:SUBSET_ROWS]
    X = table.X.iloc[rows].reset_index(drop=True)
    X = X.loc[:, X.nunique(dropna=False) > 1]
    return Table(X, table.y[rows], [c for c in table.nominal if c in X])


def abalone_ages():
    """Return some rows of abalone with the usual three classes of ages: up to 8 rings, 9 or 10, and more."""
    table = some_rows("abalone")
    return table._replace(y=np.digitize(table.y, [8.5, 10.5]))


def flipped(y, rng, fraction=FLIPPED):
    """Return the labels 0 and 1 with a fraction of them flipped at random."""
    return (np.asarray(y, dtype=bool) ^ (rng.random(len(y)) < fraction)).astype(int)


def swapped_copy():
    """Return heart_statlog and a copy in which columns are exchanged in pairs: 540 rows, twelve columns."""
    X, y, _ = tables.real("heart_statlog")
    ranks = X.iloc[:, :12].rank(pct=True).to_numpy()
    return joined(ranks, np.asarray(y), [exchange(12, *((k, k + 1) for k in range(0, 12, 2)))])


def xor_below_root():
    """Return labels that are an exclusive-or of x1, x2 or of x3, x4, as x0 says: 400 rows, six columns."""
    rng = np.random.default_rng(MADE_SEED)
    X = rng.random((100, 6))
    high = X > 0.5
    y = flipped(np.where(high[:, 0], high[:, 1] ^ high[:, 2], high[:, 3] ^ high[:, 4]), rng)
    return joined(X, y, [exchange(6, (1, 2)), exchange(6, (3, 4))])


def near_duplicates():
    """Return three features, each in two columns that differ in a tenth of the rows: 400 rows, six columns."""
    rng = np.random.default_rng(MADE_SEED)
    X = np.repeat(rng.random((200, 3)), 2, axis=1)
    changed = rng.random(X.shape) < 0.05
    X[changed] = rng.random(changed.sum())
    y = flipped(np.where(X[:, 0] > 0.6, X[:, 2] > 0.5, X[:, 4] > 0.3), rng)
    return joined(X, y, [exchange(6, (0, 1), (2, 3), (4, 5))])


def cyclic_categories():
    """Return labels that depend on (g + h) mod 6: 360 rows, nominal columns g and h of six categories, and a coin."""
    m = CATEGORIES
    g, h, coin, row = (a.ravel() for a in np.indices((m, m, 2, 5)))
    y = np.where((g + h) % m < m // 2, row < 4, row < 1).astype(int)
    codes = np.arange(m)
    maps = [(codes + 1) % m, (codes - 1) % m, -codes % m, (m // 2 - 1 - codes) % m]
    up, down, mirrored, turned = (tuple(codes.tolist()) for codes in maps)
    same = (0, 1, 2)
    symmetries = [
        Symmetry((1, 0, 2)),
        Symmetry(same, ((0, up), (1, down))),
        Symmetry(same, ((0, mirrored), (1, turned))),
        Symmetry(same, ((2, (1, 0)),)),
    ]
    return from_array(np.column_stack([g, h, coin]), y, same, symmetries)


def two_trees():
    """Return labels that are both an exclusive-or of x0, x1 and one of x2, x3: 400 rows, five columns."""
    rng = np.random.default_rng(MADE_SEED)
    label, side, other = rng.integers(0, 2, (3, 50))
    high = np.column_stack([side, side ^ label, other, other ^ label, rng.integers(0, 2, 50)])
    X = (high + rng.random(high.shape)) / 2.0
    generators = [exchange(5, (0, 1)), exchange(5, (2, 3)), exchange(5, (0, 2), (1, 3))]
    return joined(X, flipped(label, rng), generators)


MADE = {
    "swapped_copy": swapped_copy,
    "xor_below_root": xor_below_root,
    "near_duplicates": near_duplicates,
    "cyclic_categories": cyclic_categories,
    "two_trees": two_trees,
}
TABLES = {
    "tic_tac_toe": tic_tac_toe,
    "tic_tac_toe_permuted": tic_tac_toe_permuted,
    **{name: partial(real, name) for name in ("vote", "heart_statlog", "credit_a", "wine", "breast_w")},
    "dtgfn_energy": partial(real, "dtgfn_energy"),
    **{f"{name}_{SUBSET_ROWS}": partial(some_rows, name) for name in ("mushroom", "dtgfn_raisin")},
    "abalone_ages": abalone_ages,
    **MADE,
}
"""Functions that make the tables. Of the real ones those of the third line are listed in `real.py`."""
SAME_POSTERIOR = {"tic_tac_toe_permuted": "tic_tac_toe"}
"""Tables that are another table in another order, so that both have the same evidence."""
