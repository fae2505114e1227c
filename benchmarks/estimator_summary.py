"""Print the file of `estimators.py` as tables in Markdown: figures by table, ratios of losses, counts."""

import json

import numpy as np
import pandas as pd

WORSE = 1.1
"""Ratio of losses above which a table is listed by name."""
FIGURES = {
    "classification": {"loss": "log loss", "score": "accuracy", "calibration": "expected calibration error"},
    "regression": {"loss": "RMSE", "score": "R squared", "calibration": "mean gap of coverage"},
}
SECONDS = "CPU seconds of a fit"
LEAST = 1e-15
"""Smallest loss in a ratio, since the loss of a table that is split without error may be 0."""


def read(path):
    """Return the last line of the file for each key (task, table, learner, few rows); nothing if there is no file."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {key_of(line): line for line in lines}


def key_of(line):
    """Return the key of a line of the file: task, table, learner, few rows."""
    return line["task"], line["table"], line["learner"], line["few_rows"]


def number(value):
    """Return a number as text with four digits or decimals, two digits below .001, and "-" for NaN or None."""
    if pd.isna(value):
        return "-"
    if abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def markdown(head, rows):
    """Yield the lines of a table in Markdown with the column names ``head`` and the ``rows`` of texts."""
    yield f"| {' | '.join(head)} |"
    yield "|" + " --- |" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def summary(found, order, learners, few_rows):
    """Yield the lines of a table of each figure of both tasks, and of the ratios of losses."""
    lines = pd.DataFrame([line for line in found.values() if line["few_rows"] == few_rows])
    for task, figures in FIGURES.items():
        here = lines[lines["task"] == task] if len(lines) else lines
        if here.empty:
            continue
        for figure, title in {**figures, "seconds": SECONDS, "leaves": "leaves"}.items():
            values = here.pivot(index="table", columns="learner", values=figure)
            tables = [t for t in order[task] if t in values.index]
            values = values.reindex(index=tables, columns=[who for who in learners if who in values]).astype(float)
            yield from markdown([f"{task}, {title}", *values], [[t, *map(number, values.loc[t])] for t in tables])
            yield ""
            if figure == "loss":
                losses = values.clip(lower=LEAST)
        yield from _ratios(losses, f"{task}, {figures['loss']}")


def _ratios(losses, title):
    """Yield a table of ratios of ``losses`` (tables, learners): each over CART, then ours over each, if both exist."""
    ours = [who for who in losses if who.startswith("ours")]
    pairs = [(who, "CART") for who in losses if who != "CART" and "CART" in losses]
    pairs += [(who, rival) for who in ours for rival in losses if rival != "CART" and rival not in ours]
    rows = []
    for who, rival in pairs:
        ratio = (losses[who] / losses[rival]).dropna()
        if len(ratio):
            worse = [f"{t} {r:.3g}" for t, r in ratio.items() if r > WORSE]
            cells = [f"{np.exp(np.log(ratio).mean()):.3f}", f"{ratio.median():.3f}"]
            cells += [f"{(ratio < 1.0).sum()} of {len(ratio)}", ", ".join(worse) or "none"]
            rows.append([f"{who} over {rival}", *cells])
    if rows:
        yield from markdown([f"{title}: ratio", "geometric mean", "median", "lower on", f"above {WORSE}"], rows)
        yield ""
