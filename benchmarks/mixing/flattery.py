"""Does a run that ends when it looks good look too good? The stated errors of the default against a longer run.

Run: python benchmarks/mixing/flattery.py [--tables heart_statlog vote ...] [--seeds 5]

A run that finds its own length ends when R-hat and effective draws satisfy its criterion, so it may end where chance
flatters it. Each such run is gone on with for ten times as many draws, thinned as before, with the same kernel. Of
every quantity that is judged over both together, z is the difference between the mean of the first run and that of the
draws behind it, over the Monte-Carlo error that both state (standard deviation over the root of the effective draws).
Honest errors give z a root mean square near 1 and |z| > 2 in about .05; the quantities of a run depend on each other,
so it takes several seeds to tell. In brackets the same of as many draws right after the run, which nothing chose,
beside those behind them: what of the excess is due to stopping, and what to the errors themselves. Runs that ended
because their work was used up are named and not counted.
"""

import argparse
import warnings

import numpy as np
from real import POINTS, compile_for, model_of_table, sampled
from settings import FLATTERY_SEEDS, FLATTERY_TABLES, FLATTERY_TIMES, REAL_CORES, REAL_SECONDS
from tables import MissingTable
from timing import cores

import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import _figures
from pactree_mcmc.posterior.ess import rhat_and_ess

HEADER = ("table", "runs that ended by the criterion", "quantities", "fraction of abs(z) > 2", "root mean square of z")
KINDS = ("scalar", "root features", "features", "distances between trees", "predictions")


def main():
    args = _arguments()
    counted, rows = [], []
    for name in args.tables:
        try:
            model = model_of_table(name)
        except MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        compile_for(model)
        found = [one for seed in range(args.seeds) if (one := _one(name, model, seed)) is not None]
        rows.append(_row(name, found, args.seeds))
        counted += found
    asked = args.seeds * len(rows)
    by_kind = [(kind, [tuple(each[one[-1] == kind] for each in one) for one in counted]) for kind in KINDS]
    rows += [_row(f"all, {kind}", found, asked) for kind, found in by_kind]
    rows.append(_row("all", counted, asked))
    print(f"| {' | '.join(HEADER)} |", "|" + " --- |" * len(HEADER), *rows, sep="\n")


def _one(name, model, seed):
    """The z of every quantity, those right after the run, the kinds; None where it did not end by the criterion."""
    run = sampled(model, seed)
    if run.warned:
        print(f"{name}, seed {seed}: not counted, {run.post.course.steps:,} steps did not do", flush=True)
        return None
    draws = run.post.n_draws
    with cores(REAL_CORES), warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        both = pt.resume(run.post, FLATTERY_TIMES * draws, progress=False)
    figures = _figures(both, POINTS)
    z = z_scores(figures.by_tree, both.tree_of_draw, draws)
    after = z_scores(figures.by_tree, both.tree_of_draw[:, draws:], draws)
    told = ~np.isnan(z) & ~np.isnan(after)
    where = int(np.argmax(np.where(told, np.abs(z), -1.0)))
    print(
        f"{name}, seed {seed}: {run.post.course.steps:,} steps, then {FLATTERY_TIMES} times as many; "
        f"{_summary(z[told])}; right after it {_rms(after[told]):.2f}; largest {z[where]:+.2f}, {figures.names[where]}",
        flush=True,
    )
    return z[told], after[told], figures.group[told]


def z_scores(by_tree, tree_of_draw, draws):
    """Of each quantity, the mean of the first ``draws`` of all chains less that of the others, over the stated errors.

    NaN for a constant.
    """
    mean, error = zip(*(_mean(by_tree[:, part]) for part in np.split(tree_of_draw, [draws], axis=1)), strict=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (mean[0] - mean[1]) / np.hypot(*error)


def _mean(values):
    """Mean of each quantity (quantities, chains, draws), and its Monte-Carlo error."""
    return values.mean(axis=(1, 2)), values.std(axis=(1, 2)) / np.sqrt(rhat_and_ess(values)[1])


def _summary(z):
    return f"{len(z)} quantities, |z| > 2 in {_often(z):.3f}, root mean square {_rms(z):.2f}"


def _often(z):
    return np.mean(np.abs(z) > 2.0)


def _rms(z):
    return np.sqrt(np.mean(z**2))


def _row(name, found, seeds):
    z, after = (np.concatenate([one[i] for one in found]) if found else np.empty(0) for i in range(2))
    cells = [name, f"{len(found)} of {seeds}", f"{len(z):,}"]
    cells += [f"{_often(z):.3f} ({_often(after):.3f})", f"{_rms(z):.2f} ({_rms(after):.2f})"] if len(z) else ["-", "-"]
    return f"| {' | '.join(cells)} |"


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=FLATTERY_TABLES, choices=REAL_SECONDS)
    parser.add_argument("--seeds", type=int, default=FLATTERY_SEEDS, help="runs of each table, from seed 0 on")
    args = parser.parse_args()
    if args.seeds < 1:
        parser.error(f"--seeds {args.seeds} is out of range; give 1 or more")
    return args


if __name__ == "__main__":
    main()
