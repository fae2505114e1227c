"""The command line of both engines: fit, resume, predict, summary, report, compare, warm-up.

Exit codes: 0 done; 1 invalid data or files; 2 invalid arguments; 130 interrupted. Results go to standard output,
everything else to standard error; an error is one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import UsageError, read_arguments
from .words import in_options

DONE, BAD_DATA, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments after the name of the program. Default: those of the process.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> main(["summary", "--version"])
    2
    """
    try:
        args = read_arguments(sys.argv[1:] if argv is None else argv)
        # pandas and the compiled code load only when there is work to do
        from . import commands as _commands

        _commands.COMMANDS[args.command](args)
    except SystemExit as end:  # --help and --version
        return int(end.code or 0)
    except UsageError as err:
        return _failed(err, BAD_USAGE)
    except OSError as err:
        if isinstance(err, BrokenPipeError):
            # the reader has seen enough; what is left must not be flushed at exit
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115
            return DONE
        where = f"{err.filename}: " if err.filename else ""
        return _failed(f"{where}{err.strerror or err}", BAD_DATA)
    except ValueError as err:
        return _failed(in_options(str(err)), BAD_DATA)
    except KeyboardInterrupt as err:
        return _failed(str(err) or "interrupted", INTERRUPTED)
    return DONE


def _failed(what: object, code: int) -> int:
    print("error:", " ".join(str(what).split()), file=sys.stderr)
    return code
