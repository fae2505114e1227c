"""The bar of the exact engine: words on a terminal, and nothing in a file or a pipe."""

import io
import sys

import pytest

from exact import limits


class Terminal(io.StringIO):
    """A text file that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "words"), [(io.StringIO, None), (Terminal, "3,000 of 5,000 cells")])
def test_the_bar(stream, words, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(limits, "DELAY", 0.0)
    with limits.stage(True, "summing", 5000) as bar:
        bar.add(3000)
    text = sys.stderr.getvalue()
    assert (text == "") if words is None else ("summing" in text and "of 5" in text and "cells" in text)
    assert "1.47s" not in text and "splits]" not in text
