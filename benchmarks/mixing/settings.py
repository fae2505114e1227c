"""Every number that can be tuned: time limits, chains, priors, cuts, draws."""

from typing import NamedTuple


class Limit(NamedTuple):
    """Limits of a run, and its number of chains."""

    seconds: float
    """Wall time of sampling, tuning included."""
    chains: int
    cores: int

    def within(self, seconds):
        """Return the same limits with other ``seconds``, unless these are None."""
        return self if seconds is None else self._replace(seconds=seconds)


TUNE_FRACTION = 0.2  # of a time-limited run
MAX_PILOT_FRACTION = 0.08  # of the time limit: how long the run lasts that finds the number of draws
MOST_DRAWS = 50_000  # a chain; beyond, draws are thinned

LIMITS = {
    "chipman_1998": Limit(2.0, chains=1, cores=1),  # each chain; the long run takes LONGER times as much
    "chipman_1998, evidence": Limit(60.0, chains=4, cores=2),
    "one_dimension": Limit(2.0, chains=4, cores=1),
    "maptree_medium": Limit(30.0, chains=4, cores=2),
    "wu_tjelmeland_west": Limit(10.0, chains=4, cores=2),
    "xor_twins": Limit(10.0, chains=4, cores=2),
    "table": Limit(4.0, chains=4, cores=2),
}

CHIPMAN_PROPOSALS = 25  # a draw
ONE_DIMENSION_PROPOSALS = 2
CHIPMAN_CHAINS = 8  # one after the other
LONGER = 5.0
LEVELS = 12

REAL_SECONDS = dict.fromkeys(
    (
        "breast_cancer", "breast_cancer_example", "heart_statlog", "pima_diabetes", "breast_w", "vote", "iris", "wine",
        "credit_a", "ionosphere", "diabetes",
    ),
    30.0,
) | dict.fromkeys(("kr_vs_kp", "sick", "low_noise", "friedman_1000"), 180.0)  # fmt: skip
REAL_CORES = 2
REAL_SEEDS = 3  # runs of each table
GIVEN_LENGTH = {"tune": 1000, "draws": 1000, "proposals": 100}  # of kernels other than "default", in `real`

KERNELS = ("local", "cgm", "grow-prune", "blanchard")  # of the table
