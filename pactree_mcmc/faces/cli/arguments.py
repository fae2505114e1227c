"""The arguments of the command line: parsers of all commands, and names of options in messages."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ... import __version__
from ...core.compile.folders import SHARED_VARIABLE

OPTIONS_OF_TREE_PRIOR = {"chipman": ("alpha", "beta"), "branching": ("rho",), "penalty": ("cost",)}
"""Names of the options of each tree prior."""
LEAF_NAMES = ("dirichlet", "normal", "shared-variance", "poisson")
"""Names of leaf models that --leaf takes."""
KERNEL_NAMES = ("default", "whole", "local", "cgm", "grow-prune", "blanchard")
"""Names of kernels that --kernel takes."""
MIN_PROBABILITY = 1e-15
"""Smallest probability of an interval, and smallest probability outside an interval."""
ARGUMENTS_WITH_OPTIONS = (
    *("draws", "tune", "chains", "thin", "proposals", "steps", "seconds", "kernel", "betas", "checkpoint", "every"),
    *("missing", "nominal", "leaf", "max_cuts", "min_leaf", "max_depth", "max_cells"),
)
"""Arguments of the library's functions that are also options of the command line."""
HELP_EPILOG = (
    "What did not come compiled is compiled once: 15 to 60 seconds of one core for a first run, "
    "two to six minutes of processor time for everything (the command warm-up)."
)


class UsageError(Exception):
    """Invalid arguments of the command line."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises a `UsageError` with a message of one line instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError with this message."""
        raise UsageError(f"{message}; see {self.prog} --help")


def read_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments ``argv``, and return them as attributes of a namespace.

    ``command`` is the name of the command, and ``line`` the whole command line as text.

    Raises
    ------
    UsageError
        If the arguments are invalid.
    SystemExit
        After the help or the version was printed.
    """
    args = _parser().parse_args(list(argv))
    for prior, names in OPTIONS_OF_TREE_PRIOR.items():
        for name in names:
            if getattr(args, name, None) is not None and args.tree_prior != prior:
                raise UsageError(
                    f"--{name} is of --tree-prior {prior}, not of {args.tree_prior}; give one or the other"
                )
    args.line = shlex.join(["python", "-m", "pactree_mcmc", *argv])
    return args


def with_options(message: str) -> str:
    """Return a message of the library with arguments of functions replaced by options of the command line.

    Examples
    --------
    >>> with_options("try betas=8; or draws=4000, missing='branch'.")
    'try --betas 8; or --draws 4000, --missing branch.'
    """
    message = re.sub(r"pt\.resume\((?:'([^']*)'|path)\)", r"python -m pactree_mcmc resume \1", message)
    message = re.sub(r"pt\.resume\(post, (\d+)\)", r"python -m pactree_mcmc resume RUN.nc --draws \1", message)
    message = re.sub(r"LocalCuts\((max_cuts=\w+)\)", r"\1", message)
    names, quoted = "|".join(ARGUMENTS_WITH_OPTIONS), r"""'[^']*'|"[^"]*\""""
    return re.sub(rf"\b({names})=({quoted}|\[[^\]]*\]|\w+(?:\.\d+)?)?", _option_text, message)


def _option_text(match: re.Match[str]) -> str:
    """Return the option for a match of ``name=value``, such as "--max-cuts 9" for "max_cuts=9"."""
    value = (match[2] or "").strip("'\"")
    return f"--{match[1].replace('_', '-')} {value}".rstrip()


def _parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    description = "Posteriors over decision trees of a CSV file."
    parser = _Parser(prog="python -m pactree_mcmc", description=description, epilog=HELP_EPILOG)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, what: str, source: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=what, description=what, epilog=HELP_EPILOG)
        sub.add_argument("source", help=source)
        return sub

    table = "a CSV file with a header line"
    either = f"{table}, or a run saved by fit --out"
    fit = command("fit", "Sample the posterior over trees and report it.", table)
    predict = command("predict", "Predict the rows of another CSV file.", either)
    summary = command("summary", "Report a saved run, or sample and report.", either)
    report = command("report", "Write a saved run, or sample and write it, as one HTML page.", either)
    compare = command("compare", "Compare a run with the exact posterior, if it is tractable.", either)
    _add_warm_up(commands)
    resume = command("resume", "Continue a run, or finish a checkpoint, and report it.", "a saved run, or a checkpoint")
    _add_new_rows(predict.add_argument)
    _add_page(report.add_argument)
    resume.add_argument(
        "--draws", type=_integer_reader(1), metavar="N", help="further draws a chain; not for a checkpoint"
    )
    for sub in (fit, resume):
        sub.add_argument("--out", metavar="RUN.nc", help="save the run")
    for sub in (fit, summary, resume):
        sub.add_argument("--plot", metavar="FOLDER", help="write pictures (PNG)")
    most_cells: dict[str, Any] = {"type": _integer_reader(1), "default": 2_000_000, "metavar": "N"}
    for sub in (compare, report):
        sub.add_argument("--max-cells", help="cells the exact sum may need (%(default)s)", **most_cells)
    for sub in (fit, predict, summary, report, compare):
        _add_model(sub.add_argument_group("the model (of a CSV file)").add_argument, required=sub is fit)
        _add_file(sub.add_argument_group("how CSV files are read").add_argument)
        _add_run(sub.add_argument_group("the run").add_argument)
    _add_checkpoint(resume.add_argument)
    for sub in (fit, predict, summary, report, compare, resume):
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return parser


def _add_warm_up(commands: Any) -> None:
    """Add the command warm-up and its options."""
    add = commands.add_parser(
        "warm-up",
        help="Compile everything once, for images and clusters.",
        description="Compile everything that is not on disk yet, each part in a process of its own: two to six "
        "minutes of processor time.",
        epilog=f"Users read --to FOLDER after they have set the environment variable {SHARED_VARIABLE} to it. "
        "Everybody who can write there can run code as these users.",
    ).add_argument
    to = "write everything there, for other users; a new folder is made (default: what is missing, to your own)"
    add("--to", metavar="FOLDER", help=to)
    add("--jobs", type=_integer_reader(1), metavar="N", help="processes at the same time (as many as cores)")
    add("--quiet", action="store_true", help="print nothing")


AddArgument = Callable[..., Any]
"""The method ``add_argument`` of a parser or of a group of arguments."""


def _add_new_rows(add: AddArgument) -> None:
    """Add the arguments of the command predict that other commands do not have."""
    keep = "columns of the file to keep beside the predictions, such as names of the rows"
    interval = (
        "add intervals with probability P, such as 0.9: of numbers lower and upper, which contain a new value, and "
        "mean_lower and mean_upper, which contain its mean; of classes lower and upper for each, which contain its "
        "probability"
    )
    add("new", help="a CSV file with the same columns, in any order")
    add("--out", metavar="FILE.csv", help="write the predictions of all rows")
    add("--id", type=_read_names, default=[], metavar="A,B", help=keep)
    add("--interval", type=_read_probability, metavar="P", help=interval)


def _add_page(add: AddArgument) -> None:
    """Add the options of the command report that other commands do not have."""
    add("-o", "--out", metavar="PAGE.html", required=True, help="the page; a file is replaced")
    add("--title", metavar="TEXT", help="its heading (the name of the source)")
    add("--exact", action="store_true", help="tick exact values, if the posterior is tractable (see compare)")


def _add_model(add: AddArgument, *, required: bool) -> None:
    """Add the options that describe the model of a CSV file; ``required`` is True if --target must be given."""
    nominal = "columns without order, in addition to those with text; a target is then a class"
    regression = "the target is a number; by default text and integers are classes, and fractions make a regression"
    missing = (
        "lines of the CSV file with missing values: an error, left out, or kept: splits then say which side "
        "missing values go (%(default)s)"
    )
    tree_prior = (
        "prior on the size of trees (%(default)s): a split at depth d has probability alpha (1 + d)^-beta; "
        "or rho; or each leaf costs so many nats"
    )
    leaf = (
        "model of the rows of a leaf: class probabilities (default for classes); a mean and a variance "
        "(default for a regression); a mean, with one variance for all leaves; a rate of counts"
    )
    add("--target", metavar="COLUMN", required=required, help="the column to predict")
    add("--nominal", type=_read_names, default=[], metavar="A,B", help=nominal)
    add("--ignore", type=_read_names, default=[], metavar="A,B", help="columns to leave out")
    add("--regression", action="store_true", help=regression)
    add("--missing", choices=("error", "drop", "branch"), default="error", help=missing)
    add("--max-cuts", type=_integer_reader(1), metavar="N", help="at most N cuts a feature, at quantiles")
    add("--min-leaf", type=_integer_reader(1), default=1, metavar="N", help="rows in a leaf (%(default)s)")
    add("--tree-prior", choices=tuple(OPTIONS_OF_TREE_PRIOR), default="chipman", help=tree_prior)
    add("--alpha", type=_read_number, metavar="X", help="of chipman (0.95)")
    add("--beta", type=_read_number, metavar="X", help="of chipman (2)")
    add("--rho", type=_read_number, metavar="X", help="of branching (0.5)")
    add("--cost", type=_read_number, metavar="X", help="of penalty (1)")
    add("--max-depth", type=_integer_reader(0), metavar="N", help="splits on the way to a leaf, at most")
    add("--leaf", choices=LEAF_NAMES, help=leaf)


def _add_file(add: AddArgument) -> None:
    """Add the options that say how CSV files are read."""
    separator = r"between fields, such as ';' or '\t' (',', in .tsv a tab)"
    dates = "columns of dates: year-month-day or day.month.year, or in a format such as %%m/%%d/%%Y"
    add("--separator", type=lambda sign: "\t" if sign == "\\t" else sign, metavar="C", help=separator)
    add("--decimal", choices=(".", ","), default=".", help="sign before the decimals of a number (%(default)s)")
    add("--dates", type=_read_dates, default={}, metavar="A,B=FORMAT", help=dates)


def _add_run(add: AddArgument) -> None:
    """Add the options of a run: its length, chains, kernel and seed."""
    betas = "temper the score, for chains that stay in different modes: how many inverse temperatures, or a list"
    fixed = "makes a run of fixed length; otherwise it continues until the chains agree"
    add("--draws", type=_integer_reader(1), default=1000, metavar="N", help="draws a chain (%(default)s)")
    add("--chains", type=_integer_reader(1), default=4, metavar="N", help="independent chains (%(default)s)")
    add("--seed", type=_integer_reader(0), metavar="S", help="same seed, same draws")
    add("--kernel", choices=KERNEL_NAMES, default="default", help="mixture of moves (%(default)s)")
    add("--betas", type=_read_betas, metavar="N|1,B,..", help=betas)
    add("--steps", type=_integer_reader(1), metavar="N", help="end after at most this many steps a chain")
    add("--seconds", type=_read_number, metavar="S", help="end after about this time, tuning included")
    add("--tune", type=_integer_reader(0), metavar="N", help=f"steps dropped first; {fixed}")
    add("--thin", type=_integer_reader(1), metavar="N", help=f"keep every N-th step; {fixed}")
    add("--proposals", type=_integer_reader(1), metavar="N", help=f"proposals a step; {fixed}")
    _add_checkpoint(add)


def _add_checkpoint(add: AddArgument) -> None:
    """Add the options of checkpoints, and --quiet."""
    checkpoint = "write checkpoints of the run there; the command resume continues it"
    add("--checkpoint", metavar="RUN.nc", help=checkpoint)
    add("--every", type=_read_number, default=60.0, metavar="S", help="seconds between two checkpoints (%(default)s)")
    add("--quiet", action="store_true", help="no progress")


def _read_number(text: str) -> float:
    """Return the text of an option as a float, or raise an error."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _read_probability(text: str) -> float:
    """Return the text of an option as a probability in (0, 1), or raise an error."""
    value = _read_number(text)
    if not MIN_PROBABILITY <= value <= 1.0 - MIN_PROBABILITY:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability between 0 and 1, such as 0.9")
    return value


def _integer_reader(least: int) -> Callable[[str], int]:
    """Return a function that reads the text of an option as an integer >= ``least``, or raises an error."""

    def read(text: str) -> int:
        try:
            integer = int(text)
        except ValueError:
            integer = least - 1
        if integer < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer >= {least}")
        return integer

    return read


def _read_betas(text: str) -> list[float] | int:
    """Return the inverse temperatures in a text such as "1,0.5,0", or their number for a text such as "8"."""
    return [_read_number(part) for part in text.split(",")] if "," in text else _integer_reader(2)(text)


def _read_dates(text: str) -> dict[str, str]:
    """Return the format of each column in a text such as "A,B=%m/%d/%Y"; "" for a column without a format."""
    return {name.strip(): form for name, _, form in (part.partition("=") for part in text.split(",")) if name.strip()}


def _read_names(text: str) -> list[str]:
    """Return the names in a text such as "A,B", each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
