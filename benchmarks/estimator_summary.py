"""Summary of the file of `estimators.py` as Markdown: figures by table, ratios, counts."""

import json

import numpy as np

LEAST = 1e-15
WORSE = 1.1
"""Ratio of losses above which a table is named."""
FIGURES = {
    "classification": {"loss": "log loss", "score": "accuracy", "calibration": "expected calibration error"},
    "regression": {"loss": "RMSE", "score": "R squared", "calibration": "mean gap of coverage"},
}
SECONDS = "CPU seconds of a fit"


def read(path):
    """Measurements by key (task, table, learner, few rows): the last of each."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {key_of(line): line for line in lines}


def key_of(line):
    return line["task"], line["table"], line["learner"], line["few_rows"]


def number(value):
    """Four digits, or four decimals if that is fewer; two digits of what would vanish; a dash for nothing."""
    if value is None:
        return "-"
    if abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def markdown(head, rows):
    """Lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def summary(found, order, learners, few_rows):
    """Lines of all tables of both tasks; ``order`` has the names of the tables of each task."""
    for task, figures in FIGURES.items():
        here = {(t, who): line for (kind, t, who, few), line in found.items() if (kind, few) == (task, few_rows)}
        tables = [t for t in order[task] if any(name == t for name, _ in here)]
        named = [who for who in learners if any(other == who for _, other in here)]
        if not tables:
            continue
        for figure, called in {**figures, "seconds": SECONDS}.items():
            rows = [[t, *(number(here.get((t, who), {}).get(figure)) for who in named)] for t in tables]
            if figure == "loss":
                rows = [[*row, *_leaves(here, row[0], named)] for row in rows]
                head = [*named, *(f"leaves, {who}" for who in named if who in WITH_LEAVES)]
            else:
                head = named
            if figure in ("calibration", "seconds"):
                rows.append(
                    [
                        f"{'mean' if figure == 'calibration' else 'sum'} where all are",
                        *_totals(here, tables, named, figure),
                    ]
                )
            yield from markdown([f"{task}, {called}", *head], rows)
            yield ""
        yield from _ratios(here, tables, named, f"{task}, {figures['loss']}")


WITH_LEAVES = ("ours", "ours, stated", "CART")


def _leaves(here, table, named):
    for who in named:
        if who in WITH_LEAVES:
            leaves = here.get((table, who), {}).get("leaves")
            yield "-" if leaves is None else f"{leaves:.0f}"


def _totals(here, tables, named, figure):
    """Yield the mean or sum of each learner over the tables that all learners with the figure have."""
    values = {who: [here.get((t, who), {}).get(figure) for t in tables] for who in named}
    shared = [i for i in range(len(tables)) if all(v[i] is not None for v in values.values() if any(_known(v)))]
    for who in named:
        each = [values[who][i] for i in shared if values[who][i] is not None]
        yield number(float(np.mean(each) if figure == "calibration" else np.sum(each)) if each else None)


def _positive(line):
    """The loss, of which a ratio is taken: that of a table split without error may be 0."""
    return max(line["loss"], LEAST)


def _known(values):
    return [value is not None for value in values]


def _ratios(here, tables, named, title):
    """Each learner's losses over those of CART, then those of ours over each learner's, on the tables both have."""
    ours = [who for who in named if who.startswith("ours")]
    pairs = [(who, "CART") for who in named if who != "CART" and "CART" in named]
    pairs += [(who, rival) for who in ours for rival in named if rival != "CART" and rival not in ours]
    rows = []
    for who, rival in pairs:
        both = [t for t in tables if (t, who) in here and (t, rival) in here]
        if both:
            ratio = np.array([_positive(here[t, who]) / _positive(here[t, rival]) for t in both])
            worse = [f"{t} {r:.3g}" for t, r in zip(both, ratio, strict=True) if r > WORSE]
            cells = [f"{np.exp(np.mean(np.log(ratio))):.3f}", f"{np.median(ratio):.3f}"]
            cells += [f"{np.sum(ratio < 1.0)} of {len(both)}", ", ".join(worse) or "none"]
            rows.append([f"{who} over {rival}", *cells])
    head = [f"{title}: ratio", "geometric mean", "median", "lower on", f"above {WORSE}"]
    if rows:
        yield from markdown(head, rows)
        yield ""
