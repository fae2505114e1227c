"""Count default runs without a ConvergenceWarning that have nevertheless lost a part of the posterior.

Run: python benchmarks/mixing/silent_loss.py --out FILE [--tables a b] [--seeds 20] [--processes 2]
Then: python benchmarks/mixing/silent_loss.py --summary FILE

Every run is ``pt.sample(model, rng=seed, progress=False)``. FILE gets one line of JSON for each run. Runs
that FILE contains are not made again, except those that ended with an exception, so a long measurement can be stopped
and continued. Use one FILE for one version of the library.

A run is *silent* if it gave no ConvergenceWarning. It is *wrong by symmetry* if two quantities that a symmetry of the
table exchanges (`silent_tables.py`), and which therefore have the same posterior, differ by more than .05 and by more
z than chance explains: five, or the two-sided .001 quantile of the largest of that many z (Bonferroni). It is *wrong by
evidence* if its log evidence is below that of the other runs of the table by more than .1 nats and five standard errors
of the difference. *RMS z* is that of the differences of two runs in all quantities: 1 if the stated errors are honest.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import statistics
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import tables
from clock import timed
from estimator_summary import markdown
from scipy.stats import beta, norm
from silent_tables import SAME_POSTERIOR, TABLES, check_symmetries, column_pairs, row_images

import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import ess_of_chains, split_chains

PREDICTED_ROWS, MOST_ROW_PAIRS, ROW_SEED = 50, 300, 0
LEAST_DIFFERENCE = 0.05
"""Difference of two probabilities below which a symmetry is not called broken."""
LEAST_Z, FALSE_ALARMS = 5.0, 0.001
LEAST_DEFICIT = 0.1
"""Nats of evidence below which a run is not called wrong."""
AGREEING = 3.0
"""Standard errors of the difference within which two log evidences agree."""
LEAST_SE = 0.01
"""Nats, the smallest standard error that is believed."""
CLUSTER_PART = 0.2
"""Fraction of the runs of a table, and at least two runs, that a cluster needs to be the reference."""
JUDGED = (0.02, 0.98)
"""Probabilities between which the indicator of a feature is judged."""
MOST_Z = 100.0
"""Bound of a single z, so that two runs that contradict each other without any error do not make the mean infinite."""
HEADER = ("table", "n x p", "runs", "errors", "warned", "silent and wrong (evidence, symmetry)")
HEADER += ("largest deficit, nats", "RMS z", "RMS z of the evidence", "median CPU s")


def lines_of(tasks, processes):
    """Yield the line of each task of `run_or_error`, from other processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=prepare) as pool:
        for future in as_completed([pool.submit(run_or_error, *task) for task in tasks]):
            yield future.result()


def prepare():
    """Compile the functions that default runs call."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((60, 2)), rng.integers(0, 3, 60)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for y in (X[:, 0] + X[:, 1] > 1.0, X[:, 0] + rng.normal(size=60)):
            _ = pt.sample(pt.TreeModel(X, y, nominal=[2]), 2, rng=0, progress=False).log_evidence


def run_or_error(name, seed):
    """Return the line of a run of a table, by name, or of the exception that ended it."""
    try:
        return {"table": name, "seed": seed, **one_run(TABLES[name](), seed)}
    except Exception as error:  # the measurement goes on
        return {"table": name, "seed": seed, "error": f"{type(error).__name__}: {error}"[:200]}


def one_run(table, seed):
    """Return the figures of a run of a table: cost, warnings, evidence, quantities, comparison of symmetric ones."""
    missing = "branch" if table.X.isna().any(axis=None) else "error"
    model = pt.TreeModel(table.X, table.y, nominal=table.nominal, missing=missing)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post, _, cpu = timed(lambda: pt.sample(model, rng=seed, progress=False), repeats=1)
    said = [str(one.message)[:200] for one in caught if issubclass(one.category, pt.ConvergenceWarning)]
    return {
        "rows": model.n_rows,
        "features": model.n_features,
        "cpu": round(cpu, 2),
        "warned": bool(said),
        "warning": said[0] if said else None,
        "steps": post.course.steps,
        "log_evidence": post.log_evidence,
        "log_evidence_se": post.log_evidence_se,
        "quantities": quantities(post, table),
        "symmetry": compare_symmetric(post, table),
    }


def mean_and_error(values):
    """Return mean, standard deviation and effective number of draws of a quantity (chains, draws)."""
    values = np.asarray(values, dtype=float)
    if np.ptp(values) == 0.0:
        return float(values.flat[0]), 0.0, float(values.size)
    return float(values.mean()), float(values.std()), float(ess_of_chains(split_chains(values[None]))[0])


def quantities(post, table):
    """Return mean, standard deviation and effective draws of each judged quantity, by name, with six digits."""
    found = {"log posterior": post.log_prior + post.log_score, "leaves": post.n_leaves, "depth": post.depth}
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
    n, worst = 0, None
    for name, first, second in symmetric_pairs(post, table):
        difference, sd, effective = mean_and_error(first.astype(float) - second)
        z = abs(difference) / max(sd / np.sqrt(effective), 1e-9)
        n += 1
        if abs(difference) > LEAST_DIFFERENCE and (worst is None or z > worst[1]):
            worst = [name, round(z, 2), round(difference, 4)]
    return {"pairs": n, "worst": worst}


def read(path):
    """Return the runs of a file by (table, seed), the last line of each; none if there is no file."""
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    return {(line["table"], line["seed"]): line for line in lines}


def reference(runs):
    """Return the log evidence of a table and its standard error from all its runs, or None if none has any.

    A run that has lost a part of the posterior has too little evidence, so the reference is high, but no single run
    makes it. Each run in turn is the first centre of a cluster: the runs that agree with the centre within three
    standard errors. The precision-weighted mean of the cluster is the next centre, until the cluster stays the same. Of
    the clusters with a fifth of the runs or more, and at least two, the one with the highest mean counts. So a fifth of
    the runs that agree on more evidence outvote the others. If there is no such cluster, the run with the most evidence
    counts. The error is widened by the spread within the cluster if that exceeds the stated errors.
    """
    usable = [line for line in runs if line.get("log_evidence_se") is not None]
    if not usable:
        return None
    evidence = np.array([line["log_evidence"] for line in usable])
    error = np.maximum([line["log_evidence_se"] for line in usable], LEAST_SE)
    clusters = [_cluster(evidence, error, k) for k in range(len(usable))]
    needed = max(2, math.ceil(CLUSTER_PART * len(usable)))
    means = [_weighted(evidence[members], error[members]) for members in clusters if members.sum() >= needed]
    if not means:
        top = int(np.argmax(evidence))
        return float(evidence[top]), float(error[top])
    return max(means)


def _cluster(evidence, error, first):
    """Return which runs (n,) belong to the cluster that is found from the run ``first``."""
    centre, centre_error = evidence[first], error[first]
    members = np.zeros(len(evidence), dtype=bool)
    for _ in range(len(evidence)):
        found = np.abs(evidence - centre) <= AGREEING * np.hypot(error, centre_error)
        if not found.any() or np.array_equal(found, members):
            break
        members = found
        centre, centre_error = _weighted(evidence[members], error[members])
    return members


def _weighted(evidence, error):
    """Return the precision-weighted mean and its standard error, widened if the values spread by more."""
    weight = error**-2.0
    mean = float(weight @ evidence / weight.sum())
    excess = float(weight @ (evidence - mean) ** 2) / max(len(evidence) - 1, 1)
    return mean, math.sqrt(max(excess, 1.0) / weight.sum())


def deficit(line, found):
    """Return by how many nats the evidence of a run is below ``found``, its `reference`; None if that is unknown."""
    return None if found is None or line["log_evidence_se"] is None else found[0] - line["log_evidence"]


def is_wrong_by_evidence(line, found):
    """Return True if the evidence of the run is too far below the reference."""
    below = deficit(line, found)
    return below is not None and below > max(LEAST_DEFICIT, LEAST_Z * math.hypot(line["log_evidence_se"], found[1]))


def is_wrong_by_symmetry(line):
    """Return True if quantities of the run that are equal by symmetry differ by more than chance explains."""
    compared = line["symmetry"]
    if not compared or compared["worst"] is None:
        return False
    return compared["worst"][1] > max(LEAST_Z, float(norm.isf(FALSE_ALARMS / 2.0 / compared["pairs"])))


def z_of_pair(first, second):
    """Return the z of all quantities that are judged in two runs of a table, by name."""
    found, one, two = {}, first["quantities"], second["quantities"]
    for name in dict.fromkeys([*one, *two]):
        (m1, s1, n1), (m2, s2, n2) = (q.get(name, (0.0, 0.0, 1.0)) for q in (one, two))
        if not name.startswith(("root", "in")) or JUDGED[0] <= (m1 + m2) / 2.0 <= JUDGED[1]:
            found[name] = m1 - m2, math.hypot(s1 / math.sqrt(n1), s2 / math.sqrt(n2))
    errors = [line["log_evidence_se"] for line in (first, second)]
    if None not in errors:
        found["evidence"] = first["log_evidence"] - second["log_evidence"], math.hypot(*errors)
    # without any error the quantity is a constant in both runs: the same one, or they contradict each other
    return {
        name: min(abs(difference) / error, MOST_Z) if error else MOST_Z
        for name, (difference, error) in found.items()
        if difference or error
    }


def root_mean_square(z):
    """Return the root mean square of some z, written with two decimals, or a dash."""
    return f"{math.sqrt(np.mean(np.square(z))):.2f}" if len(z) else "-"


def summary(found):
    """Yield the lines of the table, the totals, and every run that is silent and wrong."""
    good = [line for line in found.values() if "error" not in line]
    rows, n_silent, wrong, all_z = [], 0, [], []
    for name in TABLES:
        runs = sorted((line for line in good if line["table"] == name), key=lambda line: line["seed"])
        if not runs:
            continue
        same = SAME_POSTERIOR.get(name, name)
        silent = [line for line in runs if not line["warned"]]
        of_table = reference([line for line in good if SAME_POSTERIOR.get(line["table"], line["table"]) == same])
        by_evidence = [line for line in silent if is_wrong_by_evidence(line, of_table)]
        by_symmetry = [line for line in silent if is_wrong_by_symmetry(line)]
        deficits = [below for line in silent if (below := deficit(line, of_table)) is not None]
        # disjoint pairs, neighbours by seed
        z = [z_of_pair(*pair) for pair in zip(silent[::2], silent[1::2], strict=False)]
        values = [value for one in z for value in one.values()]
        wrong += [line for line in silent if line in by_evidence or line in by_symmetry]
        n_silent, all_z = n_silent + len(silent), all_z + values
        rows.append(
            (
                *(name, f"{runs[0]['rows']:,} x {runs[0]['features']}", str(len(runs))),
                str(sum(line["table"] == name and "error" in line for line in found.values())),
                str(len(runs) - len(silent)),
                f"{len(by_evidence)}, {len(by_symmetry) if runs[0]['symmetry'] else '-'}",
                f"{max(deficits):.2f}" if deficits else "-",
                *(root_mean_square(values), root_mean_square([one["evidence"] for one in z if "evidence" in one])),
                f"{statistics.median(line['cpu'] for line in runs):.1f}",
            )
        )
    yield from markdown(HEADER, rows)
    upper = float(beta.ppf(0.95, len(wrong) + 1, n_silent - len(wrong))) if n_silent > len(wrong) else 1.0
    yield f"\n{len(wrong)} of {n_silent} silent runs are wrong; fraction below {upper:.3f} with 95 % confidence"
    yield f"root mean square of z: {root_mean_square(all_z)}"
    for line in wrong:
        evidence, worst = (line["log_evidence"], line["log_evidence_se"]), (line["symmetry"] or {}).get("worst")
        yield f"{line['table']}, seed {line['seed']}: log evidence {evidence}, worst symmetric pair {worst}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="file to which runs are appended")
    what.add_argument("--summary", type=Path, metavar="FILE", help="print the tables of a file instead")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each table, from seed 0 on")
    parser.add_argument("--processes", type=int, default=2, help="runs side by side")
    args = parser.parse_args()
    if args.summary is not None:
        print(*summary(read(args.summary)), sep="\n")
        return
    done, names = {key for key, line in read(args.out).items() if "error" not in line}, []
    for name in args.tables:
        try:
            check_symmetries(TABLES[name]())
            names.append(name)
        except tables.MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
    tasks = [(name, seed) for seed, name in itertools.product(range(args.seeds), names) if (name, seed) not in done]
    for line in lines_of(tasks, args.processes):
        with args.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        said = line.get("error") or f"{line['cpu']:.1f} CPU s{', warned' if line['warned'] else ''}"
        print(f"{line['table']}, seed {line['seed']}: {said}", flush=True)


if __name__ == "__main__":
    main()
