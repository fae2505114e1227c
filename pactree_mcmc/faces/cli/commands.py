"""The commands of the command line, which read a table or a saved run, compute, and print text or JSON.

The argument ``args`` of all functions has the options as attributes, see `arguments`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pactree_mcmc as pt

from ...core.extras import require_package
from ...files.store import check_output_path
from ...posterior.rows.predictive import refuse_no_expectation
from ...table.columns import for_each_column
from ..report import check_page_path, words
from .arguments import OPTIONS_OF_TREE_PRIOR, UsageError, with_options
from .scores import score_of, score_text, target_to_compare
from .tables import BadTable, CsvTable, class_warning, identifier_columns, read_csv, read_features, target_values
from .warm_up import warm_up

FIRST_BYTES_OF_RUNS = (b"\x89HDF\r\n\x1a\n", b"CDF")
"""First bytes of netCDF files. A folder is a Zarr store."""
RUN_SUFFIXES = (".nc", ".zarr")
"""Suffixes of files that are read as runs even if their first bytes are those of no run, as in damaged files."""
MAX_PRINTED_ROWS = 20
"""Largest number of lines of a table of predictions, features or numbers of leaves that are printed."""
MIN_PRINTED_PROBABILITY = 0.001
"""Smallest probability of a number of leaves that is printed."""
DECIMALS, MAX_DECIMALS = 3, 12
"""Number of decimals in tables, and largest number of decimals in a column of predictions that hardly differ."""
DPI = 120
"""Resolution of pictures, in dots per inch."""
ARGUMENTS_OF_SAMPLE = (
    *("draws", "tune", "chains", "thin", "kernel", "proposals"),
    *("steps", "seconds", "betas", "checkpoint", "every"),
)
"""Arguments of `pt.sample` that have the same names as options."""


def run_fit(args: argparse.Namespace) -> None:
    """Run the command fit: sample the model of a CSV file, save the run, write pictures and print a report."""
    _run_and_report(args, lambda: _sample(args, _read_model(args)), args.out)


def run_resume(args: argparse.Namespace) -> None:
    """Run the command resume: continue a run or finish a checkpoint, save it, write pictures and print a report."""
    options = {"progress": not args.quiet, "checkpoint": args.checkpoint, "every": args.every}
    _run_and_report(args, lambda: pt.resume(args.source, args.draws, **options), args.out)


def run_summary(args: argparse.Namespace) -> None:
    """Run the command summary: write pictures and print a report of a saved run, or of a new one."""
    _run_and_report(args, lambda: _load_or_sample(args), None)


def run_predict(args: argparse.Namespace) -> None:
    """Run the command predict: predict the rows of a second file. Errors in the files are found before sampling."""
    _check_output_folder(args.out)
    with _collected_notes() as notes:
        loaded = _load_run(args, may_score=True) if _is_saved(args.source) else None
        model = _read_model(args) if loaded is None else loaded.model
        if args.interval is not None:
            refuse_no_expectation(model)
        new = read_csv(args.new, args.separator, args.decimal, args.dates, least="one row")
        new.check_names(args.id, "--id")
        if loaded is not None and args.target is not None:
            new.check_names([args.target], "--target")
        X, y = _features_of_new_rows(new, model), target_to_compare(new, args.target, model)
        post = _sample(args, model) if loaded is None else loaded
    table = _prediction_table(post, X, args.interval)
    score = {} if y is None else score_of(post, X, y)
    for name in reversed(args.id):
        table.insert(0, name, new.text(name), allow_duplicates=True)
    if args.out:
        table.to_csv(args.out, index=False)
    if args.json:
        rows = table.to_dict(orient="records")
        scored = {"score": score} if score else {}
        _print_json({**_run_description(post), "predictions": rows, **scored, "notes": notes, "saved": args.out})
        return
    decimals = {name: _n_decimals(column) for name, column in table.items() if column.dtype.kind == "f"}
    formatters: dict[Any, Any] = {name: f"{{:.{n}f}}".format for name, n in decimals.items()}
    print(table.head(MAX_PRINTED_ROWS).to_string(formatters=formatters))
    if score:
        print(score_text(score))
    if args.out:
        print(f"written: {args.out} ({words.count_with_noun(len(table), 'row')})")
    elif len(table) > MAX_PRINTED_ROWS:
        print(f"... {len(table) - MAX_PRINTED_ROWS} more rows; --out FILE.csv writes all, --json prints all")


def run_report(args: argparse.Namespace) -> None:
    """Run the command report: write a run as one HTML page."""
    check_page_path(args.out)
    with _collected_notes() as notes:
        post = _load_or_sample(args)
        truth = _exact_posterior(post.model, args.max_cells) if args.exact else None
    title = Path(args.source).name if args.title is None else args.title
    path = post.report(args.out, truth=truth, title=title, command=args.line)
    if args.json:
        _print_json({**_run_description(post), "page": str(path), "bytes": path.stat().st_size, "notes": notes})
        return
    _print_headline(post)
    print(f"written: {path}")


def _exact_posterior(model: pt.TreeModel, max_cells: int) -> Any:
    """Return the exact posterior of a model, or None, after a warning, if there is none.

    That is so if its sum needs more than ``max_cells`` cells, or its leaves or its prior allow no exact sum.
    """
    import exact

    try:
        return exact.solve(model, max_cells=max_cells)
    except exact.Intractable as error:
        advice = f"The limit is --max-cells {max_cells}: raise it, or leave out --exact."
        warnings.warn(f"the page has no exact values: {error} {advice}", stacklevel=2)
    except ValueError as error:  # the leaves or the prior of the model allow no exact sum
        warnings.warn(f"the page has no exact values: {error} Leave out --exact.", stacklevel=2)
    return None


def run_compare(args: argparse.Namespace) -> None:
    """Run the command compare: print a table that compares the exact posterior with a sampled one."""
    import exact

    with _collected_notes() as notes:
        loaded = _load_run(args) if _is_saved(args.source) else None
        model = _read_model(args) if loaded is None else loaded.model
        truth = exact.solve(model, max_cells=args.max_cells)
        post = _sample(args, model) if loaded is None else loaded
    comparison = exact.compare(truth, post)
    table = comparison.to_frame()
    if args.json:
        rows = table.reset_index().to_dict(orient="records")
        sizes = {"n_cells": truth.graph.n_cells, "n_splits": truth.graph.n_edges}
        _print_json({**sizes, "max_abs_z": comparison.max_abs_z, "rows": rows, "notes": notes})
        return
    print(_table_text(table))
    print(f"\nlargest |z| {comparison.max_abs_z:.2f}; exact sum over {truth.graph.n_cells} cells")


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": run_fit,
    "predict": run_predict,
    "resume": run_resume,
    "summary": run_summary,
    "report": run_report,
    "compare": run_compare,
    "warm-up": warm_up,
}


def _load_or_sample(args: argparse.Namespace) -> pt.SampledPosterior:
    """Return the saved run that ``args.source`` names, or a new run of the model of this CSV file."""
    return _load_run(args) if _is_saved(args.source) else _sample(args, _read_model(args))


def _is_saved(path: str) -> bool:
    """Return True if ``path`` is a saved run: a folder, or a file with the first bytes or the suffix of one."""
    if Path(path).is_dir():
        return True
    with open(path, "rb") as file:
        return file.read(8).startswith(FIRST_BYTES_OF_RUNS) or Path(path).suffix in RUN_SUFFIXES


def _load_run(args: argparse.Namespace, *, may_score: bool = False) -> pt.SampledPosterior:
    """Load the saved run that ``args.source`` names.

    Raise an error if it is a model without draws. Raise one if --target is given, unless ``may_score``: then it is the
    column of the new rows with which predictions are compared.
    """
    if args.target is not None and not may_score:
        raise UsageError(f"--target is of a CSV file; {args.source} is a saved run, which has its own")
    post = pt.load(args.source)
    if not isinstance(post, pt.SampledPosterior):
        raise UsageError(f"{args.source} is a saved model, which has no draws; give a saved run, or the CSV file")
    return post


def _read_model(args: argparse.Namespace) -> pt.TreeModel:
    """Return the model of the CSV file that ``args.source`` names.

    Warn of columns that look like row names, and of a target that seems to be numbers rather than classes.
    """
    if args.target is None:
        raise UsageError(f"{args.source} is not a saved run; name the column to predict, --target COLUMN")
    table = read_csv(args.source, args.separator, args.decimal, args.dates)
    columns = {"target": [args.target], "nominal": args.nominal, "ignore": args.ignore, "dates": args.dates}
    for option, names in columns.items():
        table.check_names(names, f"--{option}")
    if args.target in (*args.dates, *args.ignore):
        raise UsageError(f"--target {args.target} is named in --ignore or --dates too; leave it out there")
    names = [n for n in table.frame.columns if n != args.target and n not in args.ignore]
    if not names:
        raise BadTable(f"{args.source} has no column beside the target {args.target!r}; give at least one feature")
    table = _rows_to_fit(args, table, [*names, args.target])
    regression, is_nominal = args.regression or args.leaf not in (None, "dirichlet"), args.target in args.nominal
    if regression and is_nominal:
        raise UsageError(f"--target {args.target} is in --nominal, but this is a regression; leave it out there")
    X = read_features(table, names, args.nominal)
    y = target_values(table, args.target, regression=regression, nominal=is_nominal)
    for name in identifier_columns(X):
        warnings.warn(f"{name} has a value of its own in every row: --ignore {name}?", stacklevel=2)
    if doubt := class_warning(y):
        warnings.warn(doubt, stacklevel=2)
    return pt.TreeModel(
        X,
        pd.Series(y, name=args.target),
        nominal=[name for name in args.nominal if name in names],
        missing="branch" if args.missing == "branch" else "error",
        tree_prior=_tree_prior(args),
        split_prior=pt.LocalCuts(min_leaf=args.min_leaf, max_cuts=args.max_cuts),
        leaf=LEAF_MODELS[args.leaf or ("normal" if y.dtype.kind == "f" else "dirichlet")](),
    )


LEAF_MODELS: dict[str, Callable[[], Any]] = {
    "dirichlet": pt.DirichletMultinomial,
    "normal": pt.NormalInverseGamma,
    "shared-variance": pt.NormalSharedVariance,
    "poisson": pt.PoissonGamma,
}
"""Leaf model by the name that --leaf takes."""


def _tree_prior(args: argparse.Namespace) -> Any:
    """Return the tree prior that the options describe."""
    kinds = {"chipman": pt.ChipmanPrior, "branching": pt.BranchingProcess, "penalty": pt.LeafPenalty}
    options = {name: getattr(args, name) for name in (*OPTIONS_OF_TREE_PRIOR[args.tree_prior], "max_depth")}
    return kinds[args.tree_prior](**{name: value for name, value in options.items() if value is not None})


def _rows_to_fit(args: argparse.Namespace, table: CsvTable, names: list[str]) -> CsvTable:
    """Return the rows to fit, without rows that have missing values if --missing is "drop".

    Missing values in the columns ``names`` are an error if it is "error", and are kept, except in y, if it is "branch".
    """
    if args.missing != "drop":
        drop = "leave such lines out with --missing drop"
        table.refuse_missing([args.target], f"fill it in, or {drop}")
        if args.missing == "error":
            table.refuse_missing(names, f"fill it in, {drop}, or keep them: --missing branch")
        return table
    complete = table.without_missing(names)
    n_dropped = len(table.line) - len(complete.line)
    if len(complete.line) < 2:
        raise BadTable(f"{table.path}: {len(complete.line)} lines without missing values; give at least two")
    if n_dropped:
        warnings.warn(f"{n_dropped} lines with missing values are left out.", stacklevel=2)
    return complete


def _features_of_new_rows(table: CsvTable, model: pt.TreeModel) -> pd.DataFrame:
    """Return the columns of the model, with values of the same kind, from the file with the rows to predict.

    Missing values are an error unless the model was fitted with --missing branch. A field of a nominal column that is
    not one of its categories stays text.
    """
    columns, names = model.columns, list(model.columns.names)
    table.check_names(names, "a column of the model")
    if not model.columns.branches:
        table.refuse_missing(names, "fill it in")

    def read(k: int) -> Any:
        categories = columns.categories[k]
        if categories is None:
            return table.of_kind(names[k], columns.kind(k))
        label = {str(category): category for category in categories.tolist()}
        return np.array([label.get(field, field) for field in table.text(names[k])], dtype=object)

    values = for_each_column([partial(read, k) for k in range(len(names))])
    return pd.DataFrame(dict(zip(names, values, strict=True)))


def _sample(args: argparse.Namespace, model: pt.TreeModel) -> pt.SampledPosterior:
    """Sample the model with the options of the run."""
    options = {name: getattr(args, name) for name in ARGUMENTS_OF_SAMPLE}
    return pt.sample(model, rng=args.seed, progress=not args.quiet, **options)


@contextmanager
def _collected_notes() -> Iterator[list[str]]:
    """Collect the warnings of the body that users should see (UserWarning), and print them on stderr at its end.

    Yields the list that contains them afterwards, with arguments of functions replaced by options.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    notes += [with_options(str(one.message)) for one in caught if issubclass(one.category, UserWarning)]
    for note in notes:
        print("note:", note, file=sys.stderr)


def _check_output_folder(path: str | None) -> None:
    """Raise a BadTable if the folder of an output file does not exist or is not writable; do nothing for None."""
    folder = None if path is None else Path(path).resolve().parent
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise BadTable(f"--out {path}: the folder {folder} does not exist or cannot be written to; make it first")


def _prediction_table(post: pt.SampledPosterior, X: pd.DataFrame, interval: float | None) -> pd.DataFrame:
    """Return a table of labels and class probabilities, or of means and their standard deviations over trees.

    It has a line for each row of X, and columns such as "prediction" and "p(yes)". If ``interval`` is a probability,
    the ends of intervals are added: credible intervals of the class probabilities, or intervals of a new y and of its
    mean.
    """
    classes, ends = post.model.classes_, None if interval is None else post.credible_interval(X, interval)
    if classes is None:
        table = pd.DataFrame({"prediction": post.predict(X), "sd_over_trees": post.predict_std_over_trees(X)})
        if interval is not None:
            table[["lower", "upper"]] = post.predict_interval(X, interval)
        if ends is not None:
            table[["mean_lower", "mean_upper"]] = ends
        return table
    proba = post.predict_proba(X)
    columns: dict[str, np.ndarray] = {"prediction": classes[np.argmax(proba, axis=1)]}
    for j, label in enumerate(classes.tolist()):
        columns[f"p({label})"] = proba[:, j]
        if ends is not None:
            columns[f"lower({label})"], columns[f"upper({label})"] = ends[:, j].T
    return pd.DataFrame(columns)


def _n_decimals(column: pd.Series) -> int:
    """Return the number of decimals of a column of predictions: more than usual if its values hardly differ."""
    values = column[np.isfinite(column)]
    spread = float(values.max() - values.min()) if len(values) else 0.0
    more = -math.floor(math.log10(spread)) - 1 if spread > 0.0 else 0
    return min(DECIMALS + max(more, 0), MAX_DECIMALS)


def _table_text(table: pd.DataFrame) -> str:
    """Return a table as text, with three decimals."""
    return table.to_string(float_format=f"{{:.{DECIMALS}f}}".format)


def _run_and_report(
    args: argparse.Namespace, make_posterior: Callable[[], pt.SampledPosterior], out: str | None
) -> None:
    """Make a posterior, save it to ``out`` unless that is None, write pictures, and print a report.

    The report has the convergence, the number of leaves, the features and the best tree; it is JSON with --json.
    """
    _check_output_folder(out)
    if out is not None:
        check_output_path(out)
    if args.plot is not None:
        require_package("matplotlib", "--plot")
        Path(args.plot).mkdir(parents=True, exist_ok=True)
    with _collected_notes() as notes:
        post = make_posterior()
    if out:
        post.save(out)
    pictures = _write_pictures(post, args.plot) if args.plot else []
    table, best, best_log_posterior = post.summary(), post.map_tree(), words.best_log_posterior(post)
    pmf = pd.Series(post.n_leaves_pmf(), name="probability").rename(str)
    if args.json:
        best_tree = {"n_leaves": best.n_leaves, "depth": best.depth, "log_posterior": best_log_posterior}
        _print_json(
            {
                **_run_description(post),
                "summary": table.to_dict(orient="index"),
                "acceptance": table.attrs["acceptance"],
                "n_leaves_pmf": pmf[pmf > 0.0].to_dict(),
                "verdict": table.attrs["verdict"],
                "feature_inclusion": post.feature_inclusion()[list(post.model.columns.names)].to_dict(),
                "best_tree": {**best_tree, "text": best.format()},
                "notes": notes,
                "saved": out,
                "pictures": pictures,
            }
        )
        return
    _print_headline(post)
    print(f"\n{_table_text(table)}\n\n{table.attrs['verdict']}\n")
    _print_probabilities("leaves", pmf[pmf >= MIN_PRINTED_PROBABILITY])
    _print_probabilities("feature", post.feature_inclusion())
    print(f"best tree drawn, log posterior {best_log_posterior:.{DECIMALS}f} (unnormalised):")
    print(best.format())
    for path in [out, *pictures] if out else pictures:
        print(f"written: {path}")


def _run_description(post: pt.SampledPosterior) -> dict[str, Any]:
    """Return the part of every JSON answer that describes the run: one dictionary without inner ones.

    Its entries are those of `describe_model` (``n_rows``, ``features``, ``nominal``, ``classes``, and ``model`` as
    text), ``chains``, ``draws`` (per chain), ``n_trees`` (distinct ones), ``log_evidence`` and ``log_evidence_se``, its
    standard error (both None if unknown), and ``seconds``.
    """
    return {
        **words.describe_model(post.model),
        "chains": post.n_chains,
        "draws": post.n_draws,
        "n_trees": post.n_distinct_trees,
        "log_evidence": post.log_evidence,
        "log_evidence_se": post.log_evidence_se,
        "seconds": post.seconds,
    }


def _print_headline(post: pt.SampledPosterior) -> None:
    """Print the data, the size and time of the run, and the log evidence if it was estimated."""
    print(words.data_line(post.model))
    print(f"{words.run_line(post)}, {post.seconds:.1f} s")
    if evidence := words.evidence_text(post):
        print(f"log evidence {evidence}")


def _print_probabilities(name: str, column: pd.Series) -> None:
    """Print the first 20 probabilities of a column, with ``name`` as the heading of the index, and how many remain."""
    print(_table_text(column.head(MAX_PRINTED_ROWS).to_frame().rename_axis(columns=name)))
    print(f"... {len(column) - MAX_PRINTED_ROWS} more\n" if len(column) > MAX_PRINTED_ROWS else "")


def _print_json(answer: dict[str, Any]) -> None:
    """Print an answer as JSON."""
    print(json.dumps(_for_json(answer), indent=2, ensure_ascii=False))


def _for_json(value: Any) -> Any:
    """Return a value for JSON: None for numbers that are not finite, and Python numbers instead of those of NumPy."""
    if isinstance(value, dict):
        return {str(key): _for_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_pictures(post: pt.SampledPosterior, folder: str) -> list[str]:
    """Write PNG pictures of the posterior, the best and the typical tree into ``folder``, and return their paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from ..plots import plot_posterior, plot_tree

    figures: dict[str, Any] = {"posterior": plot_posterior(post)}
    for name, tree in {"best_tree": post.map_tree(), "typical_tree": pt.typical_tree(post)}.items():
        figures[name] = plot_tree(tree).get_figure()
    paths = []
    for name, picture in figures.items():
        paths.append(str(Path(folder) / f"{name}.png"))
        picture.savefig(paths[-1], dpi=DPI)
        plt.close(picture)
    return paths
