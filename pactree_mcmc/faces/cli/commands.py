"""What the commands do: read, sample or load, answer."""

from __future__ import annotations

import argparse
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

from ...table.columns import for_each_column
from ..report import check_page_path
from . import answers as _answers
from .arguments import TREE_PRIORS, UsageError
from .tables import BadTable, CsvTable, class_warning, features, read_csv, target
from .warm_up import warm_up
from .words import in_options

SAVED_RUNS = (b"\x89HDF\r\n\x1a\n", b"CDF")
"""How netCDF files begin; a folder is a Zarr store."""
RUN_SUFFIXES = (".nc", ".zarr")
"""Of files that are meant to be runs, even if they are damaged."""


def fit(args: argparse.Namespace) -> None:
    """Sample, report, save, draw."""
    _check_folder(args.out)
    _check_plot(args.plot)
    with _noted() as notes:
        post = _sample(args, _read_model(args, notes), notes)
    if args.out:
        post.save(args.out)
    pictures = _answers.draw(post, args.plot) if args.plot else []
    _answers.tell_run(args, post, notes, {"saved": args.out, "pictures": pictures})


def resume(args: argparse.Namespace) -> None:
    """Go on with a run, or finish a checkpoint; report, save, draw."""
    _check_folder(args.out)
    _check_plot(args.plot)
    with _noted() as notes, _caught(notes):
        post = pt.resume(args.source, args.draws, progress=not args.quiet, checkpoint=args.checkpoint, every=args.every)
    if args.out:
        post.save(args.out)
    pictures = _answers.draw(post, args.plot) if args.plot else []
    _answers.tell_run(args, post, notes, {"saved": args.out, "pictures": pictures})


def summary(args: argparse.Namespace) -> None:
    """Report a run."""
    _check_plot(args.plot)
    with _noted() as notes:
        post = _run(args, notes)
    pictures = _answers.draw(post, args.plot) if args.plot else []
    _answers.tell_run(args, post, notes, {"saved": None, "pictures": pictures})


def predict(args: argparse.Namespace) -> None:
    """Predict the rows of a second file."""
    _check_folder(args.out)
    with _noted() as notes:
        # bad files are found before the run
        loaded = _load(args) if _is_saved(args.source) else None
        model = _read_model(args, notes) if loaded is None else loaded.model
        if args.interval is not None:
            _answers.check_interval(model)
        X = _new_rows(args, model)
        post = _sample(args, model, notes) if loaded is None else loaded
    table = _answers.predictions(post, X, args.interval)
    if args.out:
        table.to_csv(args.out, index=False)
    _answers.tell_predictions(args, post, table, notes)


def report(args: argparse.Namespace) -> None:
    """Write a run as one HTML page."""
    check_page_path(args.out)
    with _noted() as notes:
        post = _run(args, notes)
        truth = None
        if args.exact:
            import exact

            truth = exact.solve(post.model, max_cells=args.max_cells)
    title = Path(args.source).name if args.title is None else args.title
    path = post.report(args.out, truth=truth, title=title, command=args.line)
    _answers.tell_page(args, post, path, notes)


def compare(args: argparse.Namespace) -> None:
    """Exact against sampled."""
    import exact

    with _noted() as notes:
        loaded = _load(args) if _is_saved(args.source) else None
        model = _read_model(args, notes) if loaded is None else loaded.model
        truth = exact.solve(model, max_cells=args.max_cells)
        post = _sample(args, model, notes) if loaded is None else loaded
    _answers.tell_comparison(args, exact.compare(truth, post), truth, notes)


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": fit,
    "predict": predict,
    "resume": resume,
    "summary": summary,
    "report": report,
    "compare": compare,
    "warm-up": warm_up,
}


def _run(args: argparse.Namespace, notes: list[str]) -> pt.SampledPosterior:
    """The saved run, or a new one."""
    return _load(args) if _is_saved(args.source) else _sample(args, _read_model(args, notes), notes)


def _is_saved(path: str) -> bool:
    if Path(path).is_dir():
        return True
    with open(path, "rb") as file:
        return file.read(8).startswith(SAVED_RUNS) or Path(path).suffix in RUN_SUFFIXES


def _load(args: argparse.Namespace) -> pt.SampledPosterior:
    if args.target is not None:
        raise UsageError(f"--target is of a CSV file; {args.source} is a saved run, which has its own")
    post = pt.load(args.source)
    if not isinstance(post, pt.SampledPosterior):
        raise UsageError(f"{args.source} is a saved model, which has no draws; give a saved run, or the CSV file")
    return post


def _read_model(args: argparse.Namespace, notes: list[str]) -> pt.TreeModel:
    """Return the model of a CSV file: text and ``--nominal`` columns are nominal."""
    if args.target is None:
        raise UsageError(f"{args.source} is not a saved run; name the column to predict, --target COLUMN")
    table = read_csv(args.source, args.separator, args.decimal, args.dates)
    given = {"target": [args.target], "nominal": args.nominal, "ignore": args.ignore, "dates": args.dates}
    for option, columns in given.items():
        table.check_names(columns, f"--{option}")
    if args.target in (*args.dates, *args.ignore):
        raise UsageError(f"--target {args.target} is named in --ignore or --dates too; leave it out there")
    names = [n for n in table.frame.columns if n != args.target and n not in args.ignore]
    if not names:
        raise BadTable(f"{args.source} has no column beside the target {args.target!r}; give at least one feature")
    table = _whole_rows(args, table, [*names, args.target], notes)
    regression, is_nominal = args.regression or args.leaf not in (None, "dirichlet"), args.target in args.nominal
    if regression and is_nominal:
        raise UsageError(f"--target {args.target} is in --nominal, but this is a regression; leave it out there")
    X = features(table, names, args.nominal)
    y = target(table, args.target, regression=regression, nominal=is_nominal)
    doubt = class_warning(y)
    notes += [doubt] if doubt else []
    missing = "branch" if args.missing == "branch" else "error"
    split_prior = pt.LocalCuts(min_leaf=args.min_leaf, max_cuts=args.max_cuts)
    prior, leaf = _tree_prior(args), LEAVES[args.leaf or ("normal" if y.dtype.kind == "f" else "dirichlet")]()
    nominal = [name for name in args.nominal if name in names]
    return pt.TreeModel(X, y, nominal=nominal, missing=missing, tree_prior=prior, split_prior=split_prior, leaf=leaf)


LEAVES: dict[str, Callable[[], Any]] = {
    "dirichlet": pt.DirichletMultinomial,
    "normal": pt.NormalInverseGamma,
    "shared-variance": pt.NormalSharedVariance,
    "poisson": pt.PoissonGamma,
}


def _tree_prior(args: argparse.Namespace) -> Any:
    kinds = {"chipman": pt.ChipmanPrior, "branching": pt.BranchingProcess, "penalty": pt.LeafPenalty}
    given = {name: getattr(args, name) for name in (*TREE_PRIORS[args.tree_prior], "max_depth")}
    return kinds[args.tree_prior](**{name: value for name, value in given.items() if value is not None})


def _whole_rows(args: argparse.Namespace, table: CsvTable, names: list[str], notes: list[str]) -> CsvTable:
    """The rows with a target and without missing values; as ``--missing`` says, others are left out or refused."""
    if args.missing == "branch":
        table.check_whole([args.target], "fill it in, or leave such lines out with --missing drop")
        return table
    if args.missing == "error":
        table.check_whole(names, "fill it in, leave such lines out with --missing drop, or keep them: --missing branch")
        return table
    kept = table.without_missing(names)
    left_out = len(table.line) - len(kept.line)
    if len(kept.line) < 2:
        raise BadTable(f"{table.path}: {len(kept.line)} lines without missing values; give at least two")
    notes += [f"{left_out} lines with missing values are left out."] if left_out else []
    return kept


def _new_rows(args: argparse.Namespace, model: pt.TreeModel) -> pd.DataFrame:
    """Return the columns of the model from the file to predict."""
    columns, names = model.columns, list(model.columns.names)
    table = read_csv(args.new, args.separator, args.decimal, args.dates)
    table.check_names(names, "a column of the model")
    if not model.columns.branches:
        table.check_whole(names, "fill it in")

    def read(k: int) -> Any:
        categories = columns.categories[k]
        if categories is None:
            return table.of_kind(names[k], columns.kind(k))
        label = {str(category): category for category in categories.tolist()}
        return np.array([label.get(field, field) for field in table.text(names[k])], dtype=object)

    read_all = for_each_column([partial(read, k) for k in range(len(names))])
    return pd.DataFrame(dict(zip(names, read_all, strict=True)))


def _sample(args: argparse.Namespace, model: pt.TreeModel, notes: list[str]) -> pt.SampledPosterior:
    """Draws; what the sampler warns of goes to the notes."""
    with _caught(notes):
        return pt.sample(
            model,
            draws=args.draws,
            tune=args.tune,
            chains=args.chains,
            rng=args.seed,
            kernel=args.kernel,
            thin=args.thin,
            proposals=args.proposals,
            steps=args.steps,
            seconds=args.seconds,
            betas=args.betas,
            progress=not args.quiet,
            checkpoint=args.checkpoint,
            every=args.every,
        )


@contextmanager
def _caught(notes: list[str]) -> Iterator[None]:
    """Warnings become notes, whose advice names options."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    notes += [in_options(str(one.message)) for one in caught if issubclass(one.category, UserWarning)]


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Remarks, printed on the standard error when the work is done."""
    notes: list[str] = []
    yield notes
    for note in notes:
        print("note:", note, file=sys.stderr)


def _check_folder(path: str | None) -> None:
    """Refuse, before the run, a file that cannot be written after it."""
    folder = None if path is None else Path(path).resolve().parent
    if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise BadTable(f"--out {path}: the folder {folder} does not exist or cannot be written to; make it first")


def _check_plot(path: str | None) -> None:
    if path is not None:
        Path(path).mkdir(parents=True, exist_ok=True)
