"""Which of many combinations are tried every day; the others wait for the slow tests."""

import pytest


def everyday(entries, facts, first_out=()):
    """The entries as parameters, marked slow where the rest shows all their ``facts(*entry)`` too.

    Entries are left out from the last to the first, those that hold one of ``first_out`` before all others.
    """
    entries = [tuple(entry) for entry in entries]
    left = {entry: set(facts(*entry)) for entry in entries}

    def rank(entry):
        return next((r for r, name in enumerate(first_out) if name in entry), len(first_out))

    for entry in sorted(entries, key=lambda entry: (rank(entry), -entries.index(entry))):
        others = set().union(*(shown for other, shown in left.items() if other != entry))
        if left[entry] <= others:
            del left[entry]
    return [pytest.param(*entry, marks=[] if entry in left else pytest.mark.slow) for entry in entries]


def few_of(few, n):
    """The numbers below ``n``, all but the first few marked slow."""
    return [pytest.param(i, marks=[] if i < few else pytest.mark.slow) for i in range(n)]
