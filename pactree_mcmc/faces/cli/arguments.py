"""The arguments of the command line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from ... import __version__
from ...core.compile.folders import SHARED

TREE_PRIORS = {"chipman": ("alpha", "beta"), "branching": ("rho",), "penalty": ("cost",)}
"""Tree priors and their options."""
LEAVES = ("dirichlet", "normal", "shared-variance", "poisson")
KERNELS = ("default", "whole", "local", "cgm", "grow-prune", "blanchard")
LEAST_COVERAGE = 1e-15
"""Of an interval, and what it leaves out at least."""
EPILOG = (
    "What did not come compiled is compiled once: half a minute to two minutes of one core for a first run, "
    "four to six minutes of processor time for everything (the command warm-up)."
)


class UsageError(Exception):
    """Invalid arguments."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises errors as exceptions of one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def read_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Arguments as attributes; ``command`` is the name of the command, ``line`` all that was typed.

    Raises
    ------
    UsageError
        If they cannot be used.
    SystemExit
        After the help or the version was printed.
    """
    args = _with_prior_checked(_parser().parse_args(list(argv)))
    args.line = shlex.join(["python", "-m", "pactree_mcmc", *argv])
    return args


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m pactree_mcmc", description="Posteriors over decision trees of a CSV file.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, what: str, source: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=what, description=what, epilog=EPILOG)
        sub.add_argument("source", help=source)
        return sub

    table = "a CSV file with a header line"
    either = f"{table}, or a run saved by fit --out"
    fit = command("fit", "Sample the posterior over trees and report it.", table)
    predict = command("predict", "Predict the rows of another CSV file.", either)
    summary = command("summary", "Report a saved run, or sample and report.", either)
    report = command("report", "Write a saved run, or sample and write it, as one HTML page.", either)
    compare = command("compare", "Compare a run with the exact posterior, where it is tractable.", either)
    warm_up = commands.add_parser(
        "warm-up",
        help="Compile everything once, for images and clusters.",
        description="Compile everything that is not on disk yet, each part in a process of its own: four to six "
        "minutes of processor time.",
        epilog=f"Users read --to FOLDER after they have set the environment variable {SHARED} to it. Everybody who can "
        "write there can run code as these users.",
    )
    resume = command("resume", "Continue a run, or finish a checkpoint, and report it.", "a saved run, or a checkpoint")
    _add_new_rows(predict)
    _add_page(report)
    warm_up.add_argument(
        "--to",
        metavar="FOLDER",
        help="write everything there, for other users; a new folder is made (default: what is missing, to your own)",
    )
    warm_up.add_argument("--jobs", type=_count(1), metavar="N", help="processes at once (as many as cores)")
    warm_up.add_argument("--quiet", action="store_true", help="print nothing")
    resume.add_argument("--draws", type=_count(1), metavar="N", help="further draws a chain; none for a checkpoint")
    for sub in (fit, resume):
        sub.add_argument("--out", metavar="RUN.nc", help="save the run")
    for sub in (fit, summary, resume):
        sub.add_argument("--plot", metavar="FOLDER", help="write pictures (PNG)")
    for sub in (compare, report):
        _add_most_cells(sub)
    for sub in (fit, predict, summary, report, compare):
        _add_model(sub, required=sub is fit)
        _add_run(sub)
    _add_checkpoint(resume)
    for sub in (fit, predict, summary, report, compare, resume):
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def _add_new_rows(predict: argparse.ArgumentParser) -> None:
    predict.add_argument("new", help="a CSV file with the same columns, in any order")
    predict.add_argument("--out", metavar="FILE.csv", help="write the predictions of all rows")
    predict.add_argument(
        "--interval",
        type=_probability,
        metavar="P",
        help="add columns lower and upper, which contain a new value with probability P, such as 0.9 (not for classes)",
    )


def _add_page(report: argparse.ArgumentParser) -> None:
    report.add_argument("-o", "--out", metavar="PAGE.html", required=True, help="the page; a file is replaced")
    report.add_argument("--title", metavar="TEXT", help="its heading (the name of the source)")
    report.add_argument(
        "--exact", action="store_true", help="tick exact values, where the posterior is tractable (see compare)"
    )


def _add_most_cells(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-cells",
        type=_count(1),
        default=2_000_000,
        metavar="N",
        help="cells the exact sum may need (%(default)s)",
    )


def _with_prior_checked(args: argparse.Namespace) -> argparse.Namespace:
    """Refuse a parameter of a tree prior that is not the chosen one."""
    for prior, names in TREE_PRIORS.items():
        for name in names:
            if getattr(args, name, None) is not None and args.tree_prior != prior:
                raise UsageError(
                    f"--{name} is of --tree-prior {prior}, not of {args.tree_prior}; give one or the other"
                )
    return args


def _add_model(parser: argparse.ArgumentParser, *, required: bool) -> None:
    model = parser.add_argument_group("the model (of a CSV file)")
    model.add_argument("--target", metavar="COLUMN", required=required, help="the column to predict")
    model.add_argument(
        "--nominal",
        type=_names,
        default=[],
        metavar="A,B",
        help="columns without order, in addition to those with text; a target is then a class",
    )
    model.add_argument("--ignore", type=_names, default=[], metavar="A,B", help="columns to leave out")
    model.add_argument(
        "--regression",
        action="store_true",
        help="the target is a number; by default text and integers are classes, and fractions make a regression",
    )
    model.add_argument(
        "--missing",
        choices=("error", "drop", "branch"),
        default="error",
        help="lines of the CSV file with missing values: an error, left out, or kept: splits then say which side "
        "missing values go (%(default)s)",
    )
    model.add_argument("--max-cuts", type=_count(1), metavar="N", help="at most N cuts a feature, at quantiles")
    model.add_argument("--min-leaf", type=_count(1), default=1, metavar="N", help="rows in a leaf (%(default)s)")
    model.add_argument(
        "--tree-prior",
        choices=tuple(TREE_PRIORS),
        default="chipman",
        help="prior on the size of trees (%(default)s): a split at depth d has probability alpha (1 + d)^-beta; "
        "or rho; or each leaf costs so many nats",
    )
    for name, what in (
        ("alpha", "of chipman (0.95)"),
        ("beta", "of chipman (2)"),
        ("rho", "of branching (0.5)"),
        ("cost", "of penalty (1)"),
    ):
        model.add_argument(f"--{name}", type=_number, metavar="X", help=what)
    model.add_argument("--max-depth", type=_count(0), metavar="N", help="splits on the way to a leaf, at most")
    model.add_argument(
        "--leaf",
        choices=LEAVES,
        help="model of the rows of a leaf: class probabilities (default for classes); a mean and a variance "
        "(default for a regression); a mean, with one variance for all leaves; a rate of counts",
    )
    _add_file(parser)


def _add_file(parser: argparse.ArgumentParser) -> None:
    file = parser.add_argument_group("how CSV files are read")
    file.add_argument(
        "--separator", type=_separator, metavar="C", help=r"between fields, such as ';' or '\t' (',', in .tsv a tab)"
    )
    file.add_argument(
        "--decimal", choices=(".", ","), default=".", help="sign before the decimals of a number (%(default)s)"
    )
    file.add_argument(
        "--dates",
        type=_dates,
        default={},
        metavar="A,B=FORMAT",
        help="columns of dates: year-month-day or day.month.year, or in a format such as %%m/%%d/%%Y",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("the run")
    for name, default, least, what in (
        ("--draws", 1000, 1, "draws a chain"),
        ("--chains", 4, 1, "independent chains"),
    ):
        run.add_argument(name, type=_count(least), default=default, metavar="N", help=f"{what} (%(default)s)")
    run.add_argument("--seed", type=_count(0), metavar="S", help="same seed, same draws")
    run.add_argument("--kernel", choices=KERNELS, default="default", help="mixture of moves (%(default)s)")
    run.add_argument(
        "--betas",
        type=_betas,
        metavar="N|1,B,..",
        help="temper the score, for chains that stay in different modes: how many inverse temperatures, or a list",
    )
    run.add_argument("--steps", type=_count(1), metavar="N", help="end after at most this many steps a chain")
    run.add_argument("--seconds", type=_number, metavar="S", help="end after about this time, tuning included")
    for name, least, what in (
        ("--tune", 0, "steps dropped first"),
        ("--thin", 1, "keep every N-th step"),
        ("--proposals", 1, "proposals a step"),
    ):
        text = f"{what}; makes a run of fixed length; otherwise it continues until the chains agree"
        run.add_argument(name, type=_count(least), metavar="N", help=text)
    _add_checkpoint(run)


def _add_checkpoint(group: Any) -> None:
    group.add_argument(
        "--checkpoint", metavar="RUN.nc", help="write checkpoints of the run there; the command resume continues it"
    )
    group.add_argument("--every", type=_number, default=60.0, metavar="S", help="seconds between that (%(default)s)")
    group.add_argument("--quiet", action="store_true", help="no progress")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _probability(text: str) -> float:
    value = _number(text)
    if not LEAST_COVERAGE <= value <= 1.0 - LEAST_COVERAGE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability between 0 and 1, such as 0.9")
    return value


def _betas(text: str) -> Any:
    return [_number(part) for part in text.split(",")] if "," in text else _count(2)(text)


def _count(least: int) -> Any:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= {least}")
        return value

    return read


def _separator(text: str) -> str:
    return "\t" if text == "\\t" else text


def _dates(text: str) -> dict[str, str]:
    """Return columns of dates and their formats, "" for a column without one."""
    return {name.strip(): form for name, _, form in (part.partition("=") for part in text.split(",")) if name.strip()}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
