"""The exact posterior of a Parquet file of any length: Dask workers count a fixed design, the counts are summed.

A local cluster reads the file by its row groups; a worker keeps the counts of the finest cells and forgets the rows.
Needs: pip install 'pactree-mcmc[dask]' pandas pyarrow
Run: python examples/many_rows_dask.py [--rows 1000000] [--file rows.parquet] [--workers 4]
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

try:
    import dask.dataframe
    import pyarrow
    import pyarrow.parquet
    from dask.distributed import Client, LocalCluster
except ImportError as missing:
    sys.exit(f"{missing}; this example needs: pip install 'pactree-mcmc[dask]' pandas pyarrow")

import exact
import pactree_mcmc as pt

FEATURES = ["a", "b", "c"]
DESIGN = pt.DyadicCuts(4, bounds=[[0.0, 1.0]] * len(FEATURES))
PRIOR = pt.BranchingProcess(0.5, 5)
ROW_GROUP = 250_000
COMPARED = 2_000_000
"""Largest number of rows whose posterior is also computed from the whole table."""


def group_of_rows(number, rows):
    """Return a group of rows: a noisy chessboard of four fields, and a feature without influence."""
    rng = np.random.default_rng([1, number])
    X = rng.random((rows, len(FEATURES)))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    return X, np.where(rng.random(rows) < 0.1, ~y, y).astype(np.int64)


def write_file(path, rows, row_group=ROW_GROUP):
    """Write a file group by group, so that the rows are never all in memory."""
    columns = [*((name, pyarrow.float64()) for name in FEATURES), ("y", pyarrow.int64())]
    with pyarrow.parquet.ParquetWriter(path, pyarrow.schema(columns)) as writer:
        for number, first in enumerate(range(0, rows, row_group)):
            X, y = group_of_rows(number, min(row_group, rows - first))
            writer.write_table(pyarrow.table([*X.T, y], names=[*FEATURES, "y"]))


def count(frame):
    """Return the counts of a partition, a frame; a worker runs this."""
    return exact.DesignCounts(DESIGN).update(frame[FEATURES].to_numpy(), frame["y"].to_numpy())


def add(*counts):
    """Return the sum of the counts of some partitions."""
    return sum(counts[1:], counts[0])


def count_file(client, path, n_merged=8):
    """Return the counts of all partitions of a file. A tree of tasks merges them, ``n_merged`` at a time."""
    partitions = dask.dataframe.read_parquet(path, split_row_groups=True).to_delayed()
    counts = [dask.delayed(count)(partition) for partition in partitions]
    while len(counts) > 1:
        counts = [dask.delayed(add)(*counts[i : i + n_merged]) for i in range(0, len(counts), n_merged)]
    return client.compute(counts[0]).result()


def posterior_of_table(path):
    """Return the posterior that is computed from the whole table in memory."""
    table = pyarrow.parquet.read_table(path)
    X, y = table.select(FEATURES).to_pandas().to_numpy(), table["y"].to_numpy()
    return exact.solve(pt.TreeModel(X, y, split_prior=DESIGN, tree_prior=PRIOR))


def report(client, path, rows):
    """Count a file and print its posterior. If it is small enough, compare with the posterior of the whole table."""
    began = time.perf_counter()
    counts = count_file(client, path)
    print(f"{counts.n_rows:,} rows counted in {time.perf_counter() - began:.1f} s, {counts.n_cells:,} kept")
    truth = counts.solve(tree_prior=PRIOR)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print(f"log evidence {truth.log_evidence:.6f}; the most probable tree:\n{truth.map_tree().format()}")
    if rows <= COMPARED:
        assert truth.log_evidence == posterior_of_table(path).log_evidence
        print("the posterior computed from the whole table has the same evidence, to the last bit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="written if it does not exist; left out: a temporary one")
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet" if args.file is None else args.file
        if not path.exists():
            write_file(path, args.rows)
        rows = pyarrow.parquet.read_metadata(path).num_rows
        print(f"{path.name}: {rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        options = {"n_workers": args.workers, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            report(client, path, rows)


if __name__ == "__main__":
    main()
