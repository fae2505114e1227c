"""Which of many combinations are tried every day: those that are named. The others wait for ``-m slow``."""

import pytest


def everyday(entries, named):
    """The entries as parameters, marked slow where they are not ``named``.

    An entry is a tuple; its name is its parts with blanks between them. Names of no entry are errors.
    """
    by_name = {" ".join(map(str, entry)): entry for entry in entries}
    strange = [name for name in named if name not in by_name]
    if strange:
        raise ValueError(f"no such combination: {strange}; there are {list(by_name)}")
    return [
        pytest.param(*entry, marks=[] if name in named else pytest.mark.slow) for name, entry in by_name.items()
    ]


def few_of(few, n):
    """The numbers below ``n``, all but the first few marked slow."""
    return [pytest.param(i, marks=[] if i < few else pytest.mark.slow) for i in range(n)]
