"""Does every move of the default kernel earn its place, and would another? Kernels that differ by one move.

Run: python benchmarks/mixing/ablation.py [--tables heart_statlog breast_w ...] [--moves rotate restructure ...]
     [--seeds 1] [--draws 4000]

Every kernel makes a run of given length, tuning as the default does, with the same number of proposals a draw. Of the
quantities that `run.py real` judges the least effective draws a processor second of the whole run are set beside those
of the base, as a ratio: below 1, the base is better. Base: the shares that the default finds on tables of a few hundred
rows, in round figures. A move that is in it is left out, its share going to the others; one that is not is added with
the share below, taken from the local moves. R-hat above 1.01 is marked: there effective draws mean little.
"""

import argparse
import statistics
import warnings

import settings
import tables
from clock import timed
from real import model_of_table
from settings import REAL_CORES
from timing import cores

import pactree_mcmc as pt
from pactree_mcmc.convergence import MOST_RHAT, _figures

BASE = {"learned": 0.3, "subgraph": 0.002, "collapsed": 0.44, "rotate": 0.18, "change": 0.078}
ADDED = {"restructure": 0.02, "reshape": 0.03, "regrow-1": 0.02, "regrow-2": 0.01, "redraw": 0.08, "shift": 0.06}
ADDED |= {"swap": 0.08, "grow-prune": 0.2}
LENGTH = {"tune": 330, "proposals": 5}
TABLES = ("heart_statlog", "breast_w", "credit_a")


def main():
    args = _arguments()
    print("| table | " + " | ".join(args.moves) + " |\n|" + " --- |" * (1 + len(args.moves)), flush=True)
    for name in args.tables:
        try:
            model = model_of_table(name)
        except tables.MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        base = [_rate(model, BASE, seed, args.draws) for seed in range(args.seeds)]
        cells = []
        for move in args.moves:
            kernel = _without(move) if move in BASE else _with(move)
            found = [_rate(model, kernel, seed, args.draws) for seed in range(args.seeds)]
            ratio = statistics.median(one[0] / other[0] for one, other in zip(found, base, strict=True))
            mark = "*" if max(one[1] for one in found) > MOST_RHAT else ""
            cells.append(f"{'without' if move in BASE else 'with'} {ratio:.2f}{mark}")
        mark = "*" if max(one[1] for one in base) > MOST_RHAT else ""
        rate = statistics.median(one[0] for one in base)
        print(f"| {name}: {rate:.3g} a second{mark} | {' | '.join(cells)} |", flush=True)


def _rate(model, kernel, seed, draws):
    """The least effective draws a processor second, and the largest R-hat."""
    how = {"kernel": kernel, "rng": seed, "progress": False, **LENGTH}
    with cores(REAL_CORES), warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        pt.sample(model, 2, **(how | {"tune": 2}))
        post, _, cpu = timed(lambda: pt.sample(model, draws, **how), repeats=1)
    figures = _figures(post, 50)
    return float(figures.ess.min()) / cpu, float(figures.rhat.max())


def _without(move):
    return {name: share for name, share in BASE.items() if name != move}


def _with(move):
    left = 1.0 - ADDED[move] / sum(BASE[name] for name in ("collapsed", "rotate", "change"))
    base = {name: share * (left if name in ("collapsed", "rotate", "change") else 1.0) for name, share in BASE.items()}
    return base | {move: ADDED[move]}


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=settings.REAL_SECONDS)
    parser.add_argument("--moves", nargs="+", default=[*BASE, *ADDED], choices=[*BASE, *ADDED])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=4000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
