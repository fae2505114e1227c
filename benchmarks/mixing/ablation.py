"""Measure if every move of the default kernel earns its place, and if another would: kernels that differ by one move.

Run: python benchmarks/mixing/ablation.py [--tables breast_w pima_diabetes ...] [--moves rotate change ...] [--seed 0]
     [--seconds 8] [--repeats 3] [--kernel local]

Chains are tuned once, as by default, with two rounds of 1,000 draws added to the graph. From there every kernel runs
for the same processor time with the same density, a few times, each with generators of its own. Of the quantities that
`run.py real` judges, the smallest number of effective draws per processor second is compared with that of the base, as
a ratio of medians: below 1, the base is better. If a move of the base is left out, its weight goes to the others;
another move is added with its weight in ADDED. Of the base the smallest and the largest are printed, which shows the
noise. A star marks each repeat in which R-hat exceeds 1.01; effective draws mean little there.

``--kernel local`` does the same for the kernel of runs of fixed length. Its chains drop 1,000 draws first.
"""

import argparse
import statistics
import time
import warnings

import numpy as np
import problems
import settings
import tables
from real import model_of_table

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.snapshot import generator_state
from pactree_mcmc.mcmc.kernel import KERNEL_WEIGHTS, LIBRARY_MOVES, read_kernel
from pactree_mcmc.mcmc.run.task import Plan, run_chain
from pactree_mcmc.mcmc.schedule import even_indices
from pactree_mcmc.posterior.convergence import MAX_RHAT, _compute_diagnostics
from pactree_mcmc.posterior.joining import join_chains

ADDED = {"restructure": 0.02, "regrow-1": 0.02, "shift": 0.06, "swap": 0.05, "grow-prune": 0.2}
"""Weights of the moves that are added to the base."""
ABSENT = 1e-12
"""Weight of a move that is never made, so that chains keep the moves they were tuned with."""
TABLES = ("breast_w", "pima_diabetes", "credit_a", "diabetes", "ionosphere", "breast_cancer_example")
DRAWS, MOST_DRAWS, JUDGED = 1000, 200_000, 1500


def main():
    args = _arguments()
    print("| table | base | " + " | ".join(args.moves) + " |\n|" + " --- |" * (2 + len(args.moves)), flush=True)
    for name in args.tables:
        try:
            model = problems.model_of(name) if name in problems.MAKERS else model_of_table(name)
        except tables.MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        learned = _learned(model, args.seed, args.kernel, [move for move in args.moves if move not in args.base])
        given = learned.course.kernel
        weights = dict(zip(given.names, given.weights, strict=True))
        kernels = {"base": weights} | {
            move: _without(weights, move) if move in args.base else _with(weights, move) for move in args.moves
        }
        _rate(learned, weights, args.seconds / 8, 0)
        # kernels in turns, since the load of the machine changes
        rounds = [
            {move: _rate(learned, kernel, args.seconds, 1 + repeat) for move, kernel in kernels.items()}
            for repeat in range(args.repeats)
        ]
        base = [rates["base"] for rates in rounds]
        middle, cells = statistics.median(rate for rate, _ in base), []
        for move in args.moves:
            what, rates = "without" if move in args.base else "with", [found[move] for found in rounds]
            cells.append(f"{what} {statistics.median(rate for rate, _ in rates) / middle:.2f}{_mark(rates)}")
        least, most = min(base)[0] / middle, max(base)[0] / middle
        spread = f"{middle:.3g} a second, {least:.2f} to {most:.2f}{_mark(base)}"
        print(f"| {name} | {spread} | {' | '.join(cells)} |", flush=True)


def _learned(model, seed, base, added):
    """Return a tuned run of the base kernel, in which the moves ``added`` are present with the weight ABSENT."""
    kernel = {base: 1.0} | dict.fromkeys(added, ABSENT)
    length = {"steps": 3 * DRAWS} if base == "whole" else {"tune": DRAWS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        return pt.sample(model, DRAWS, kernel=kernel, rng=seed, progress=False, **length)


def _rate(learned, weights, seconds, repeat):
    """Return the smallest effective draws per processor second, and the largest R-hat, of the kernel ``weights``.

    The chains go on from the end of the run ``learned`` for ``seconds`` in all; ``repeat`` chooses their generators.
    """
    model, kernel = learned.model, read_kernel(weights, learned.course.kernel.block)
    plan, began = Plan(model, MOST_DRAWS, 0, 1, kernel, 0, "stump"), time.process_time()
    ends = [end._replace(generator=_generator(repeat, c)) for c, end in enumerate(learned.course.ends)]
    results = [run_chain(plan, end, seconds / len(ends)) for end in ends]
    spent, n = time.process_time() - began, min(result.n_draws for result in results)
    saved = [result.select(even_indices(n, min(n, JUDGED))).saved for result in results]
    figures = _compute_diagnostics(join_chains(model, saved, kernel.count_names, 0.0), 50)
    return float(figures.ess.min()) / spent, float(figures.rhat.max())


def _generator(repeat, chain):
    return generator_state(np.random.default_rng([repeat, chain]))


def _mark(found):
    return "*" * sum(rhat > MAX_RHAT for _, rhat in found)


def _without(weights, move):
    return weights | {move: ABSENT}


def _with(weights, move):
    return {name: weight * (1.0 - ADDED[move]) for name, weight in weights.items()} | {move: ADDED[move]}


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=[*settings.REAL_SECONDS, *problems.MAKERS])
    parser.add_argument("--kernel", default="whole", choices=["whole", "local"])
    parser.add_argument(
        "--moves", nargs="+", choices=LIBRARY_MOVES, help="all of the kernel, and those of ADDED, if not given"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    args.base = KERNEL_WEIGHTS[args.kernel]
    args.moves = args.moves or list(dict.fromkeys([*args.base, *ADDED]))
    return args


if __name__ == "__main__":
    main()
