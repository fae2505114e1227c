"""Objects by name that are made when they are first asked for, so that importing a file of tests computes nothing."""

from collections.abc import Mapping


class MadeWhenUsed(Mapping):
    """Mapping from names to objects, from functions that make them."""

    def __init__(self, makers):
        self._makers, self._made = dict(makers), {}

    def __getitem__(self, name):
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self):
        return iter(self._makers)

    def __len__(self):
        return len(self._makers)
