"""Counts of a fixed design computed by Dask workers on a local cluster, merged, and turned into an exact posterior.

Needs the extra ``dask``. Run: python examples/dask_counts.py [rows]
"""

import sys

import numpy as np
from dask.distributed import Client, LocalCluster

import exact
import pactree_mcmc as pt

PIECES, LEVELS = 8, 5
DESIGN = pt.DyadicCuts(LEVELS, cyclic=True, bounds=[[0.0, 1.0]] * 2)
PRIOR = pt.BranchingProcess(0.5, 2 * LEVELS)


def piece(number, rows):
    """The rows of one piece: a noisy chessboard of four fields."""
    rng = np.random.default_rng([1, number])
    X = rng.random((rows, 2))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    return X, np.where(rng.random(rows) < 0.1, ~y, y)


def count(number, rows):
    """What a worker does: read its piece, keep the counts."""
    return exact.DesignCounts(DESIGN).update(*piece(number, rows))


def add(a, b):
    """Merge the counts of two workers."""
    return a + b


def counted_by(client, rows):
    """Counts of all pieces, added in a tree of tasks."""
    counts = client.map(count, range(PIECES), rows=rows)
    while len(counts) > 1:
        counts = [client.submit(add, *counts[i : i + 2]) for i in range(0, len(counts), 2)]
    return counts[0].result()


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        counts = counted_by(client, rows)
    truth = counts.solve(tree_prior=PRIOR)
    X, y = (np.concatenate(columns) for columns in zip(*(piece(i, rows) for i in range(PIECES)), strict=True))
    batch = exact.solve(pt.TreeModel(X, y, split_prior=DESIGN, tree_prior=PRIOR))
    print(f"{counts.n_rows:,} rows in {PIECES} pieces, {counts.n_cells:,} cells and classes kept")
    print(f"log evidence: {truth.log_evidence:.6f} from the counts, {batch.log_evidence:.6f} from all rows at once")
    print(truth.map_tree().format())


if __name__ == "__main__":
    main()
