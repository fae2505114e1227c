"""Other draws for the same seeds. What then fails, and is not a test of seeds, compares sampled numbers with digits.

OTHER_DRAWS=1 python -m pytest -p tests.other_draws tests/whole
"""

import contextlib
import os
import sys

import pytest

NUMBER = 0
"""Number that changes the draws of every seed; 0 for today's draws."""


def _change_generators(read_generator):
    """Return `read_generator` with `NUMBER` beside a seed. Generators stay as they are, since data come from them."""

    def changed(rng):
        generator = read_generator(rng)
        if NUMBER == 0 or rng is None or hasattr(rng, "spawn") or hasattr(rng, "seed_seq"):
            return generator
        seeds = generator.bit_generator.seed_seq.entropy
        return read_generator([*(seeds if isinstance(seeds, list) else [seeds]), NUMBER])

    return changed


def _change_chains(chain_seeds):
    """Return `chain_seeds` that spawns more sources and takes the last. A source for each chain stays as it is."""

    def changed(rng, chains):
        if NUMBER == 0 or isinstance(rng, list | tuple) or not isinstance(chains, int):
            return chain_seeds(rng, chains)
        return chain_seeds(rng, (NUMBER + 1) * chains)[-chains:]

    return changed


def _install():
    """Replace the two functions in every module that has imported them."""
    import pactree_mcmc.core.checks as checks
    import pactree_mcmc.mcmc.sampling as sampling

    for home, name, change in (
        (checks, "read_generator", _change_generators),
        (sampling, "chain_seeds", _change_chains),
    ):
        today = getattr(home, name)
        if today.__name__ == name:
            changed = change(today)
            for module in list(sys.modules.values()):
                if getattr(module, "__dict__", {}).get(name) is today:
                    setattr(module, name, changed)


@contextlib.contextmanager
def other_draws(number):
    """Let the library draw other numbers for the same seeds: others for each ``number``, today's for 0."""
    global NUMBER
    if number:
        _install()
    before, NUMBER = NUMBER, number
    try:
        yield
    finally:
        NUMBER = before


@pytest.fixture(scope="session", autouse=True)
def draws_of_the_environment():
    with other_draws(int(os.environ.get("OTHER_DRAWS", "0"))):
        yield
