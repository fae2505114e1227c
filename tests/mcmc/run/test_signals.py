"""SIGINT at each stage of a run: it ends within seconds, and what was drawn is returned."""

import signal
import subprocess
import time

import pytest

from tests import ROOT
from tests.programs import command

NOTHING = "nothing to return"
AT = {
    # moment: rows of the table, what is said
    "rounds": (2000, f"KeyboardInterrupt: interrupted before every chain had a draw; {NOTHING}"),
    "rounds on an executor": (2000, f"KeyboardInterrupt: interrupted before a chain had finished; {NOTHING}"),
    "pilot": (100_000, f"KeyboardInterrupt: interrupted before every chain had a draw; {NOTHING}"),
    "tuning": (2000, f"KeyboardInterrupt: interrupted before every chain had a draw; {NOTHING}"),
    "drawing": (2000, "returned "),
    "judging": (200, "returned 300 draws of 4 chains"),
    "warning": (200, "returned 30 draws of 4 chains"),
    "resuming": (200, "returned "),
}
WAIT, AGAIN, MOST = 0.3, 5.0, 4.0
"""Seconds from the moment to the signal, to another one if nothing comes of it, and to the end of the run."""


def interrupted(moment, rows):
    """What a run says that SIGINT meets a moment after it has come to a moment, and the seconds to its end."""
    # the standard error would fill its pipe
    process = subprocess.Popen(
        command("interrupted_at", moment, rows), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout.readline() == "there\n"
        time.sleep(WAIT)
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=AGAIN)[0]
        except subprocess.TimeoutExpired:
            # Python drops a signal that meets it clearing a weak reference
            began = time.perf_counter()
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[0]
        return [line for line in said.splitlines() if line != "there"], time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.more(everyday=["rounds"])
@pytest.mark.parametrize("moment", list(AT))
def test_a_run_ends_at_once(moment):
    rows, expected = AT[moment]
    said, seconds = interrupted(moment, rows)
    assert said[0].startswith(expected), said
    assert seconds < MOST
    if expected.startswith("returned"):
        assert int(said[0].split()[1]) > 0 and any(line.startswith("interrupted") for line in said[1:]), said
