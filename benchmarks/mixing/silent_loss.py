"""Count default runs without a ConvergenceWarning that have nevertheless lost a part of the posterior.

Run: python benchmarks/mixing/silent_loss.py --out FILE [--tables a b] [--seeds 20] [--processes 2]
Then: python benchmarks/mixing/silent_loss.py --summary FILE

Every run is ``pt.sample(model, rng=seed, progress=False)``. FILE gets one line of JSON for each run. Runs
that FILE contains are not made again, except those that ended with an exception, so a long measurement can be stopped
and continued. Use one FILE for one version of the library.

Three verdicts come from FILE. *Symmetry*: quantities that a symmetry of the table exchanges (`silent_tables.py`) have
the same posterior, so a run in which they differ by far more than their error has lost something. *Evidence*: a run
that has lost something finds too little evidence, compared with the other runs of the table. *Errors*: two runs differ
in each quantity by about the Monte-Carlo error that both state. `silent_summary.py` explains how each is judged.
``--reference N`` adds N runs of ten times the work to the estimate of the evidence; they are not judged.
"""

import argparse
import itertools
import json
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import tables
from clock import timed
from silent_summary import read, summary
from silent_tables import SAME_POSTERIOR, TABLES, check_symmetries, column_pairs, row_images

import pactree_mcmc as pt

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next release
    import arviz as az

SEEDS, PROCESSES = 20, 2
REFERENCE_SEED, REFERENCE_WORK = 1000, 1e11
"""First seed of reference runs, and their work, ten times the default."""
PREDICTED_ROWS = 50
MOST_ROW_PAIRS = 300
ROW_SEED = 0
WARNING_LENGTH = 200
LEAST_DIFFERENCE = 0.05
"""Difference of two probabilities below which a symmetry is not called broken."""


def main(arguments=None):
    args = _arguments(arguments)
    if args.summary is not None:
        print(*summary(read(args.summary), list(TABLES), SAME_POSTERIOR), sep="\n")
        return
    done = {key for key, line in read(args.out).items() if "error" not in line}
    names = [name for name in args.tables if _is_usable(name)]
    seeds = [(seed, False) for seed in range(args.seeds)]
    seeds += [(REFERENCE_SEED + k, True) for k in range(args.reference)]
    tasks = [(name, seed, is_reference) for (seed, is_reference), name in itertools.product(seeds, names)]
    for line in lines_of([task for task in tasks if task not in done], args.processes):
        with args.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        said = line.get("error") or f"{line['cpu']:.1f} CPU s{', warned' if line['warned'] else ''}"
        print(f"{line['table']}, seed {line['seed']}: {said}", flush=True)


def _is_usable(name):
    """Return True if the table is available. Otherwise print the reason. Raise NotSymmetric if a symmetry is wrong."""
    try:
        check_symmetries(TABLES[name]())
    except tables.MissingTable as missing:
        print(f"{name} skipped: {missing}", flush=True)
        return False
    return True


def lines_of(tasks, processes):
    """Yield the line of each task of `run_or_error`, from other processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=prepare) as pool:
        for future in as_completed([pool.submit(run_or_error, *task) for task in tasks]):
            yield future.result()


def prepare():
    """Compile the functions that default runs call."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    X[:, 2] = rng.integers(0, 3, 60)
    y = X[:, 0] + X[:, 1] > 1.0
    X[::7, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in (y, X[:, 0] + rng.normal(size=60)):
            model = pt.TreeModel(X, target, nominal=[2], missing="branch")
            _ = pt.sample(model, 2, rng=0, progress=False).log_evidence


def run_or_error(name, seed, is_reference=False):
    """Return the line of a run of a table, by name, or of the exception that ended it."""
    key = {"table": name, "seed": seed, "reference": is_reference}
    try:
        return {**key, **one_run(TABLES[name](), seed, is_reference)}
    except Exception as error:  # the measurement goes on
        return {**key, "error": f"{type(error).__name__}: {error}"[:WARNING_LENGTH]}


def model_of(table):
    """Return the default model of a table."""
    missing = "branch" if table.X.isna().any(axis=None) else "error"
    return pt.TreeModel(table.X, table.y, nominal=table.nominal, missing=missing)


def one_run(table, seed, is_reference=False):
    """Return the figures of a run of a table: cost, warnings, evidence, quantities, comparison of symmetric ones."""
    model = model_of(table)
    how = {"work": REFERENCE_WORK} if is_reference else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post, wall, cpu = timed(lambda: pt.sample(model, rng=seed, progress=False, **how), repeats=1)
    with warnings.catch_warnings(record=True) as caught_by_evidence:
        warnings.simplefilter("always")
        evidence, error = post.log_evidence, post.log_evidence_se
    warning = _first(caught, pt.ConvergenceWarning)
    return {
        "rows": model.n_rows,
        "features": model.n_features,
        "wall": round(wall, 2),
        "cpu": round(cpu, 2),
        "warned": warning is not None,
        "warning": warning,
        "evidence_warning": _first(caught_by_evidence, pt.ConvergenceWarning),
        "steps": post.course.steps,
        "log_evidence": _finite(evidence),
        "log_evidence_se": _finite(error),
        "quantities": quantities(post, table),
        "symmetry": compare_symmetric(post, table),
    }


def _first(caught, category):
    """Return the beginning of the first warning of a category, or None."""
    return next((str(w.message)[:WARNING_LENGTH] for w in caught if issubclass(w.category, category)), None)


def _finite(value):
    return float(value) if value is not None and np.isfinite(value) else None


def mean_and_error(values):
    """Return mean, standard deviation and effective number of draws of a quantity (chains, draws)."""
    values = np.asarray(values, dtype=float)
    if np.ptp(values) == 0.0:
        return float(values.flat[0]), 0.0, float(values.size)
    return float(values.mean()), float(values.std()), float(az.ess(values, method="mean"))


def quantities(post, table):
    """Return mean, standard deviation and effective draws of each judged quantity, by name, with six digits."""
    log_posterior = post.log_prior + post.log_score
    found = {"log posterior": log_posterior, "leaves": post.n_leaves, "depth": post.depth}
    in_tree = post.draws.split_counts_of_tree[post.draws.tree_of_draw] > 0
    for k in range(in_tree.shape[2]):
        found |= {f"root {k}": post.root_feature == k, f"in {k}": in_tree[:, :, k]}
    rows = np.random.default_rng(ROW_SEED).permutation(len(table.y))[:PREDICTED_ROWS]
    predictions = predictions_by_draw(post, table, rows, rows)
    found |= {f"row {i}": predictions[:, :, k] for k, i in enumerate(rows.tolist())}
    figures = {name: mean_and_error(values) for name, values in found.items()}
    absent = [name for name, (mean, *_) in figures.items() if mean == 0.0 and name.startswith(("root", "in"))]
    return {name: [float(f"{x:.6g}") for x in one] for name, one in figures.items() if name not in absent}


def predictions_by_draw(post, table, rows, classes_of):
    """Return predictions (chains, draws, rows): means, or probabilities of the classes of the rows ``classes_of``."""
    values = post.values_by_draw(table.X.iloc[rows])
    classes = post.model.classes_
    if classes is None:
        return values[..., 0]
    return values[:, :, np.arange(len(rows)), np.searchsorted(classes, np.asarray(table.y)[classes_of])]


def symmetric_pairs(post, table):
    """Yield name and both traces (chains, draws) of quantities that have the same posterior by symmetry."""
    root, in_tree = post.root_feature, post.draws.split_counts_of_tree[post.draws.tree_of_draw] > 0
    for a, b in column_pairs(table.X.shape[1], table.symmetries):
        yield f"root {a}, {b}", root == a, root == b
        yield f"in {a}, {b}", in_tree[:, :, a], in_tree[:, :, b]
    X = table.X.to_numpy(dtype=float)
    images = np.array([row_images(X, symmetry) for symmetry in table.symmetries])
    pairs = {(i, int(j)) for one in images for i, j in enumerate(one) if not np.array_equal(X[i], X[j], equal_nan=True)}
    if not pairs:
        return
    pairs = np.random.default_rng(ROW_SEED).permutation(sorted(pairs))[:MOST_ROW_PAIRS]
    first, second = (predictions_by_draw(post, table, pairs[:, side], pairs[:, 0]) for side in (0, 1))
    for k, (i, j) in enumerate(pairs.tolist()):
        yield f"row {i}, {j}", first[:, :, k], second[:, :, k]


def compare_symmetric(post, table):
    """Return how far symmetric quantities differ, or None if the table has no symmetry.

    z is the mean difference over its Monte-Carlo error, from the effective draws of the differences draw by draw. Of
    pairs that differ by more than `LEAST_DIFFERENCE` the one with the largest z is named as (pair, z, difference).
    """
    if not table.symmetries:
        return None
    n, largest, worst = 0, 0.0, None
    for name, first, second in symmetric_pairs(post, table):
        difference, sd, effective = mean_and_error(first.astype(float) - second)
        z = abs(difference) / max(sd / np.sqrt(effective), 1e-9)
        n, largest = n + 1, max(largest, z)
        if abs(difference) > LEAST_DIFFERENCE and (worst is None or z > worst[1]):
            worst = [name, round(z, 2), round(difference, 4)]
    return {"pairs": n, "largest": round(largest, 2), "worst": worst}


def _arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="file to which runs are appended")
    what.add_argument("--summary", type=Path, metavar="FILE", help="print the tables of a file instead")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="runs of each table, from seed 0 on")
    parser.add_argument("--reference", type=int, default=0, help="runs of each table with ten times the work")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="runs side by side")
    args = parser.parse_args(arguments)
    if min(args.seeds, args.processes) < 1 or args.reference < 0:
        parser.error("--seeds and --processes must be 1 or more, --reference 0 or more")
    return args


if __name__ == "__main__":
    main()
