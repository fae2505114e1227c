"""Judge the runs of `silent_loss.py`, and print tables of them.

A run is *wrong by evidence* if its log evidence is below the reference of its table by more than .1 nats and by more
than five standard errors of the difference. It is *wrong by symmetry* if two quantities that have the same posterior
by symmetry differ by more than .05 and by more z than chance explains: more than five, and more than the two-sided
.001 quantile of the largest of that many z (Bonferroni). It is *silent* if `pt.sample` gave no ConvergenceWarning.
"""

import json
import math
import statistics
from collections import defaultdict
from itertools import pairwise

import numpy as np
from estimator_summary import markdown
from scipy.stats import beta, norm

LEAST_Z = 5.0
FALSE_ALARMS = 0.001
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
KINDS = {
    "scalars": ("log posterior", "leaves", "depth"),
    "root": ("root",),
    "in the tree": ("in",),
    "predictions": ("row",),
    "evidence": ("log evidence",),
}
HEADER = (
    *("table", "n x p", "runs", "errors", "warned", "silent and wrong (evidence / symmetry)"),
    *("largest deficit, nats", "RMS z", "median CPU s"),
)


def read(path):
    """Return the runs of a file by (table, seed, reference), the last line of each; none if there is no file."""
    found = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        found[line["table"], line["seed"], line["reference"]] = line
    return found


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
    if found is None or line.get("log_evidence_se") is None:
        return None
    return found[0] - line["log_evidence"]


def is_wrong_by_evidence(line, found):
    """Return True if the evidence of the run is too far below the reference."""
    below = deficit(line, found)
    return below is not None and below > max(LEAST_DEFICIT, LEAST_Z * math.hypot(line["log_evidence_se"], found[1]))


def is_wrong_by_symmetry(line):
    """Return True if quantities of the run that are equal by symmetry differ by more than chance explains."""
    compared = line.get("symmetry")
    if not compared or compared["worst"] is None:
        return False
    return compared["worst"][1] > max(LEAST_Z, float(norm.isf(FALSE_ALARMS / 2.0 / compared["pairs"])))


def kind_of(name):
    """Return the kind of a quantity, a key of KINDS."""
    return next(kind for kind, starts in KINDS.items() if name in starts or name.split()[0] in starts)


def z_of_pair(first, second):
    """Return pairs (kind, z) of all quantities that are judged in two runs of a table, given by their lines."""
    found = []
    one, two = first["quantities"], second["quantities"]
    for name in dict.fromkeys([*one, *two]):
        (m1, s1, n1), (m2, s2, n2) = (q.get(name, (0.0, 0.0, 1.0)) for q in (one, two))
        if name.startswith(("root", "in")) and not JUDGED[0] <= (m1 + m2) / 2.0 <= JUDGED[1]:
            continue
        found.append((kind_of(name), _z(m1 - m2, math.hypot(s1 / math.sqrt(n1), s2 / math.sqrt(n2)))))
    if first["log_evidence_se"] is not None and second["log_evidence_se"] is not None:
        difference = first["log_evidence"] - second["log_evidence"]
        found.append(("evidence", _z(difference, math.hypot(first["log_evidence_se"], second["log_evidence_se"]))))
    return [(kind, z) for kind, z in found if z is not None]


def _z(difference, error):
    """Return a bounded z, or None if the quantity is the same constant in both runs."""
    if error == 0.0:
        return None if difference == 0.0 else MOST_Z
    return min(abs(difference) / error, MOST_Z)


def z_of_runs(runs):
    """Return pairs (kind, z) of disjoint pairs of runs without a warning, which are neighbours by seed."""
    silent = sorted((line for line in runs if not line["warned"]), key=lambda line: line["seed"])
    pairs = list(pairwise(silent))[::2]
    return [one for first, second in pairs for one in z_of_pair(first, second)]


def root_mean_square(z):
    """Return the root mean square of some z, written with two decimals, or a dash."""
    return f"{math.sqrt(np.mean(np.square(z))):.2f}" if len(z) else "-"


def summary(found, order, same_posterior=None):
    """Yield the lines of the table, the totals, and every run that is silent and wrong."""
    group_of = {name: (same_posterior or {}).get(name, name) for name in order}
    runs_of_group = defaultdict(list)
    for (name, *_), line in sorted(found.items()):
        if name in group_of and "error" not in line:
            runs_of_group[group_of[name]].append(line)
    rows, silent, wrong, all_z = [], 0, [], []
    for name in order:
        lines = [line for (table, *_), line in sorted(found.items()) if table == name]
        if not lines:
            continue
        judged = [line for line in lines if "error" not in line and not line["reference"]]
        table_reference, z = reference(runs_of_group[group_of[name]]), z_of_runs(judged)
        verdicts = [_verdict(line, table_reference) for line in judged if not line["warned"]]
        rows.append(_row(name, lines, judged, verdicts, z))
        silent += len(verdicts)
        wrong += [one for one in verdicts if one["evidence"] or one["symmetry"]]
        all_z += z
    yield from markdown(HEADER, rows)
    yield ""
    yield _totals(silent, wrong)
    by_kind = [f"{kind} {root_mean_square([z for other, z in all_z if other == kind])}" for kind in KINDS]
    yield f"root mean square of z: {root_mean_square([z for _, z in all_z])} ({', '.join(by_kind)})"
    yield from (_words(one) for one in wrong)


def _verdict(line, table_reference):
    """Return the verdict on a run: its line, its deficit, and True if it is wrong by evidence, and by symmetry."""
    return {
        "line": line,
        "deficit": deficit(line, table_reference),
        "evidence": is_wrong_by_evidence(line, table_reference),
        "symmetry": is_wrong_by_symmetry(line),
    }


def _row(name, lines, judged, verdicts, z):
    """Return the cells of a row from all ``lines``, those that are ``judged``, and the ``verdicts`` on silent ones."""
    evidence, symmetry = (sum(one[why] for one in verdicts) for why in ("evidence", "symmetry"))
    either = sum(one["evidence"] or one["symmetry"] for one in verdicts)
    deficits = [one["deficit"] for one in verdicts if one["deficit"] is not None]
    has_symmetry = any(line["symmetry"] for line in judged)
    return (
        name,
        f"{judged[0]['rows']:,} x {judged[0]['features']}" if judged else "-",
        str(len(judged)),
        str(sum("error" in line for line in lines)),
        str(len(judged) - len(verdicts)),
        f"{either} ({evidence if deficits else '-'} / {symmetry if has_symmetry else '-'})",
        f"{max(deficits):.2f}" if deficits else "-",
        root_mean_square([one for _, one in z]),
        f"{statistics.median(line['cpu'] for line in judged):.1f}" if judged else "-",
    )


def _totals(silent, wrong):
    """Return the sentence on all ``silent`` runs (a number) and the ``wrong`` ones, with an upper bound at 95 %."""
    upper = float(beta.ppf(0.95, len(wrong) + 1, silent - len(wrong))) if silent > len(wrong) else 1.0
    kinds = [sum(one[why] for one in wrong) for why in ("evidence", "symmetry")]
    return (
        f"{len(wrong)} of {silent} runs without a warning are wrong ({kinds[0]} by evidence, {kinds[1]} by symmetry); "
        f"fraction below {upper:.3f} with 95 % confidence"
    )


def _words(verdict):
    """Return what is wrong with a run, in words."""
    line, said = verdict["line"], []
    if verdict["evidence"]:
        said.append(f"evidence {verdict['deficit']:.2f} nats too small (standard error {line['log_evidence_se']:.2f})")
    if verdict["symmetry"]:
        pair, z, difference = line["symmetry"]["worst"]
        said.append(f"{pair} differ by {difference:+.3f}, z {z:.1f}")
    if line["evidence_warning"]:
        said.append("asking for the evidence warns")
    return f"{line['table']}, seed {line['seed']}: {'; '.join(said)}"
