"""Choice of the cases that run today, of functions marked ``tenth_a_day``."""

import hashlib

DAYS = 10
"""Number of days within which every case runs."""


def day_of(name):
    """Return the day, from 0 to 9, on which the case of this node id runs. The same on every machine."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % DAYS


def cases_of_day(names, day):
    """Return the set of the node ids that run on ``day``.

    Of every function these are the cases whose day it is. If there is none, the case whose day comes next runs.
    """
    functions = {}
    for name in names:
        functions.setdefault(name.partition("[")[0], []).append(name)
    chosen = set()
    for cases in functions.values():
        first = min(cases, key=lambda name: ((day_of(name) - day) % DAYS, name))
        chosen |= {first, *(name for name in cases if day_of(name) == day % DAYS)}
    return chosen
