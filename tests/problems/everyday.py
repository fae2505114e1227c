"""Which of many combinations are tried every day: those that are named. The others wait for ``-m slow``."""

import pytest


def everyday(entries, named):
    """The entries as parameters, marked slow where they are not ``named``.

    An entry is a tuple, or one value; it is called by its parts with blanks between them, or by the first of these.
    Names of no entry are errors.
    """
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in entries]
    calls = [" ".join(map(str, entry)) + " " for entry in entries]
    strange = [name for name in named if not any(call.startswith(f"{name} ") for call in calls)]
    if strange:
        raise ValueError(f"no such combination: {strange}; there are {calls}")
    return [
        pytest.param(*entry, marks=[] if any(call.startswith(f"{name} ") for name in named) else pytest.mark.slow)
        for entry, call in zip(entries, calls)
    ]


def pairs(named):
    """Names of the pairs of a dict of words."""
    return [f"{first} {second}" for first, words in named.items() for second in words.split()]


def few_of(few, n):
    """Seeds below ``n``, all but the first few marked slow."""
    return [pytest.param(i, marks=[] if i < few else pytest.mark.slow) for i in range(n)]
