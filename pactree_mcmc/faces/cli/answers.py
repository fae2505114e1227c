"""Reports as text and, with --json, as JSON; plots."""

from __future__ import annotations

import argparse
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pactree_mcmc as pt

from ...table.words import digits_of_range, figure
from ..report.words import best_log_posterior, data_line, describe_model, evidence_text, run_line

MOST_ROWS = 20
"""Predictions shown on the screen; features and sizes listed."""
LEAST_PROBABILITY = 0.001
DPI = 120


def tell_run(args: argparse.Namespace, post: pt.SampledPosterior, notes: list[str], written: dict[str, Any]) -> None:
    """Report a run: convergence, distribution of the number of leaves, inclusion, best tree."""
    model, best = post.model, post.map_tree()
    inclusion = dict(zip(model.columns.names, post.feature_inclusion().tolist(), strict=True))
    pmf, table = post.n_leaves_pmf(), post.summary()
    if args.json:
        rows = table.to_dict(orient="index")
        distribution = {str(m): p for m, p in enumerate(pmf.tolist()) if p > 0.0}
        tree: dict[str, Any] = {
            "n_leaves": best.n_leaves,
            "depth": best.depth,
            "log_posterior": best_log_posterior(post),
        }
        tree["text"] = best.format()
        answer = {
            **described(post),
            "seconds": post.seconds,
            "summary": rows,
            "acceptance": table.attrs["acceptance"],
            "n_leaves_pmf": distribution,
        }
        answer["verdict"] = table.attrs["verdict"]
        _print_json({**answer, "feature_inclusion": inclusion, "best_tree": tree, "notes": notes, **written})
        return
    print(_headline(post), end="\n\n")
    print(table.round(3).to_string(), end="\n\n")
    print(table.attrs["verdict"], end="\n\n")
    sizes = [(str(m), p) for m, p in enumerate(pmf.tolist()) if p >= LEAST_PROBABILITY]
    print(_listed("leaves", sizes), end="\n\n")
    print(_listed("feature", sorted(inclusion.items(), key=lambda item: -item[1])), end="\n\n")
    print(f"best tree drawn, log posterior {best_log_posterior(post):.3f} (unnormalised):")
    print(best.format())
    for path in (written["saved"], *written["pictures"]):
        if path:
            print(f"written: {path}")


def check_interval(model: pt.TreeModel) -> None:
    """Refuse --interval where labels are predicted."""
    if model.classes_ is not None:
        raise ValueError(
            "--interval is for numbers, but the target is a class, which is predicted with the probability of "
            "each label: leave --interval out, or sample with --regression if the classes are quantities"
        )


def predictions(post: pt.SampledPosterior, X: pd.DataFrame, interval: float | None = None) -> pd.DataFrame:
    """Table of the predictions: labels and their probabilities; or means, their spread over trees, and an interval."""
    classes = post.model.classes_
    if classes is None:
        table = pd.DataFrame({"prediction": post.predict(X), "sd_over_trees": post.predict_std_over_trees(X)})
        return table if interval is None else table.assign(**_ends(post.predict_interval(X, interval)))
    proba = post.predict_proba(X)
    columns = {f"p({label})": proba[:, j] for j, label in enumerate(classes.tolist())}
    return pd.DataFrame({"prediction": classes[np.argmax(proba, axis=1)], **columns})


def _ends(interval: np.ndarray) -> dict[str, np.ndarray]:
    return {"lower": interval[:, 0], "upper": interval[:, 1]}


def tell_predictions(
    args: argparse.Namespace, post: pt.SampledPosterior, table: pd.DataFrame, notes: list[str]
) -> None:
    """Report predictions, on the screen the first ones."""
    if args.json:
        rows = table.to_dict(orient="records")
        _print_json(
            {**described(post), "seconds": post.seconds, "predictions": rows, "notes": notes, "saved": args.out}
        )
        return
    print(_as_text(table.head(MOST_ROWS)))
    if args.out:
        print(f"written: {args.out} ({len(table)} rows)")
    elif len(table) > MOST_ROWS:
        print(f"... {len(table) - MOST_ROWS} more rows; --out FILE.csv writes all, --json prints all")


def _as_text(table: pd.DataFrame) -> str:
    """Return a table as text, numbers of each column with so many digits that their differences show."""
    formats = {
        name: partial(figure, digits=digits_of_range(column[np.isfinite(column)].to_numpy(), 4))
        for name, column in table.items()
        if column.dtype.kind == "f"
    }
    return table.to_string(formatters=formats)


def tell_comparison(args: argparse.Namespace, comparison: Any, truth: Any, notes: list[str]) -> None:
    """Report exact against sampled."""
    if args.json:
        rows = comparison.to_frame().reset_index().to_dict(orient="records")
        cells = {"n_cells": truth.graph.n_cells, "n_splits": truth.graph.n_edges}
        _print_json({**cells, "max_abs_z": comparison.max_abs_z, "rows": rows, "notes": notes})
        return
    print(comparison)
    print(f"\nlargest |z| {comparison.max_abs_z:.2f}; exact sum over {truth.graph.n_cells} cells")


def tell_page(args: argparse.Namespace, post: pt.SampledPosterior, path: Path, notes: list[str]) -> None:
    """Report a page that was written."""
    if args.json:
        _print_json({**described(post), "page": str(path), "bytes": path.stat().st_size, "notes": notes})
        return
    print(_headline(post))
    print(f"written: {path}")


def draw(post: pt.SampledPosterior, folder: str) -> list[str]:
    """Write the pictures; return their paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from ..plots import plot_posterior, plot_tree

    trees = {"best_tree": post.map_tree(), "typical_tree": pt.typical_tree(post)}
    figures: dict[str, Any] = {"posterior": plot_posterior(post)}
    figures |= {name: plot_tree(tree).get_figure() for name, tree in trees.items()}
    paths = []
    for name, picture in figures.items():
        paths.append(str(Path(folder) / f"{name}.png"))
        picture.savefig(paths[-1], dpi=DPI)
        plt.close(picture)
    return paths


def described(post):
    return {**describe_model(post.model), "chains": post.n_chains, "draws": post.n_draws, "n_trees": post.n_distinct_trees, "log_evidence": post.log_evidence, "log_evidence_se": post.log_evidence_se}


def _headline(post: pt.SampledPosterior) -> str:
    evidence = evidence_text(post)
    lines = [data_line(post.model), f"{run_line(post)}, {post.seconds:.1f} s"]
    return "\n".join([*lines, f"log evidence {evidence}"] if evidence else lines)


def _listed(what: str, rows: list[tuple[str, float]]) -> str:
    """Two columns, the first ``MOST_ROWS`` of them."""
    width = max(len(what), *(len(name) for name, _ in rows[:MOST_ROWS]))
    lines = [f"{what:<{width}}  probability", *(f"{name:<{width}}  {p:11.3f}" for name, p in rows[:MOST_ROWS])]
    return "\n".join([*lines, *([f"... {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else [])])


def _print_json(answer: dict[str, Any]) -> None:
    print(json.dumps(_plain(answer), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """What JSON can say: NaN and infinity are null, NumPy's scalars Python's."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
