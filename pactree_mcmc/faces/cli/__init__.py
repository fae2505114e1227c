"""The command line of both engines: fit, resume, predict, summary, report, compare, warm-up.

Exit codes: 0 done; 1 invalid data or files, or a missing package; 2 invalid arguments; 130 interrupted. Results go to
standard output, everything else to standard error. An error is one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .arguments import UsageError, read_arguments, with_options

EXIT_SUCCESS, EXIT_BAD_DATA, EXIT_BAD_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130


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
        # imported here, since pandas and compiled code take long to import, and --help does not need them
        from .commands import COMMANDS

        COMMANDS[args.command](args)
    except SystemExit as end:  # --help and --version
        return int(end.code or 0)
    except UsageError as error:
        return _print_error(str(error), EXIT_BAD_USAGE)
    except BrokenPipeError:
        # the reader of the output has closed it, so the rest of the output must not be flushed at exit
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    except OSError as error:
        return _print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error), EXIT_BAD_DATA)
    except (ValueError, ImportError) as error:
        return _print_error(with_options(str(error)), EXIT_BAD_DATA)
    except KeyboardInterrupt as error:
        return _print_error(str(error) or "interrupted", EXIT_INTERRUPTED)
    return EXIT_SUCCESS


def _print_error(message: str, code: int) -> int:
    """Print an error as one line on standard error, and return the exit code ``code``."""
    print("error:", " ".join(message.split()), file=sys.stderr)
    return code
