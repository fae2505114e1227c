"""Worth of each mechanism of the default run: runs without one of them, or with another constant.

Run: python benchmarks/mixing/occam.py [--variants whole tempering ...] [--tables wine ...] [--seeds 4]

Every run makes 1,000 steps after tuning. Its cost to the verdict is estimated as the processor time of tuning, plus
that of the draws times the factor by which the run would have to be longer until R-hat and effective sample size
satisfy the criterion (at most 15, since larger factors are known badly). A row shows, relative to the whole run, the
geometric means over tables and seeds of the time of tuning and of this cost; and how many of the teams' log evidences
at the end of these steps are too small by more than .1 nats and three standard errors, against the upper quartile of
those of the whole run. Constants in compiled code are not varied here, as they would be compiled anew.
"""

import argparse
import math
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager

import numpy as np
from real import compile_for, model_of_table
from silent_tables import TABLES
from tables import MissingTable

import pactree_mcmc as pt
from pactree_mcmc.mcmc import kernel, sampling
from pactree_mcmc.mcmc.whole import rounds
from pactree_mcmc.posterior.convergence import MOST_POINTS, _figures

STEPS = 1000
MOST_TIMES = 15.0
NAMES = ("wine", "credit_a", "breast_w", "tic_tac_toe", "pima_diabetes", "xor_below_root", "near_duplicates")


def constant(name, value) -> Callable[[], tuple]:
    """Return a variant with another constant of `rounds`."""
    return lambda: ((rounds, name, value),)


def without(move) -> Callable[[], tuple]:
    """Return a variant without a move."""
    return lambda: ((kernel.WEIGHTS, "whole", {m: w for m, w in kernel.WHOLE.items() if m != move}),)


VARIANTS = {
    "whole": lambda: (),
    "one team": constant("MOST_TEAMS", 1),
    "four teams": constant("MOST_TEAMS", 4),
    "tempering": constant("BETAS", (1.0,) * len(rounds.BETAS)),
    "five rounds": constant("BETAS", (0.3, 0.5, 0.85, 1.0, 1.0)),
    "rounds of 15 steps": constant("STEPS", 15),
    "one growth round": constant("GROWTH_ROUNDS", 1),
    "three growth rounds": constant("GROWTH_ROUNDS", 3),
    "half of the trees": constant("TREES", rounds.TREES // 2),
    "twice the trees": constant("TREES", 2 * rounds.TREES),
    **{f"without {move}": without(move) for move in ("subgraph", "collapsed", "rotate", "change", "reshape", "swap")},
}


@contextmanager
def patched(variant):
    """Run the block with the attributes or entries of a variant."""
    before = []
    for owner, name, value in variant():
        entries = owner if isinstance(owner, dict) else vars(owner)
        before.append((entries, name, entries[name]))
        entries[name] = value
    try:
        yield
    finally:
        for entries, name, value in before:
            entries[name] = value


def measured(model, seed):
    """Return the processor time of tuning, the estimated cost to the verdict, and the evidences of the teams."""
    spent, tune = [], sampling.tune_teams

    def timed(work):
        began = time.process_time()
        out = tune(work)
        spent.append(time.process_time() - began)
        return out

    sampling.tune_teams, began = timed, time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pt.ConvergenceWarning)
            post = pt.sample(model, STEPS, steps=STEPS, rng=seed, progress=False)
    finally:
        sampling.tune_teams = tune
    drawing = time.process_time() - began - spent[0]
    found = _figures(post, MOST_POINTS)
    times = np.where(found.by_chance, np.minimum(found.times_longer, 1.0), found.times_longer)
    cost = spent[0] + drawing * min(max(float(times.max()), 1.0), MOST_TIMES)
    return spent[0], cost, post.course.evidences


def model_of(name):
    """Return the default model of a table."""
    if name in TABLES:
        table = TABLES[name]()
        return pt.TreeModel(table.X, table.y, nominal=table.nominal)
    return model_of_table(name)


def too_small(evidences, truth):
    """Return how many evidences (teams, 2) are too small, and how many there are."""
    if evidences is None:
        return np.zeros(2, dtype=int)
    values, errors = evidences.T
    return np.array([(values - truth < -0.1 - 3.0 * np.nan_to_num(errors, nan=0.1)).sum(), len(values)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--tables", nargs="+", default=NAMES)
    parser.add_argument("--seeds", type=int, default=4)
    args = parser.parse_args()
    models = {}
    for name in args.tables:
        try:
            models[name] = model_of(name)
        except MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
    for model in models.values():
        compile_for(model)
    results = {}
    print("| run | tuning | cost to the verdict | evidences too small |", "| --- | --- | --- | --- |", sep="\n")
    for variant in dict.fromkeys(["whole", *args.variants]):
        with patched(VARIANTS[variant]):
            runs = {(n, seed): measured(model, seed) for n, model in models.items() for seed in range(args.seeds)}
        results[variant] = runs
        whole = results["whole"]
        truth = {
            n: np.quantile([e for (m, _), run in whole.items() if m == n for e in run[2][:, 0]], 0.75) for n in models
        }
        ratios = [math.exp(np.mean([math.log(runs[key][i] / whole[key][i]) for key in runs])) for i in range(2)]
        lost = sum(too_small(run[2], truth[n]) for (n, _), run in runs.items())
        print(f"| {variant} | {ratios[0]:.2f} | {ratios[1]:.2f} | {lost[0]} of {lost[1]} |", flush=True)


if __name__ == "__main__":
    main()
