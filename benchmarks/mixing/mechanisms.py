"""Cost of a default run to its verdict if one mechanism or constant is another.

Run: python benchmarks/mixing/mechanisms.py OUT.jsonl [--seeds 0 1 2] [--tables vote wine] [--variants base no_swap]

Every table and seed is run with each variant in turn, and a line with CPU seconds, steps and failures is written.
`--summary OUT.jsonl` prints the geometric mean of the CPU seconds over those of "base" on the same table and seed.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import silent_tables
import tables

import pactree_mcmc as pt
from pactree_mcmc.mcmc import course, kernel
from pactree_mcmc.mcmc.whole import rounds, tasks


def without(move):
    """Return the named kernels, with "whole" without a move."""
    weights = {name: weight for name, weight in kernel.KERNEL_WEIGHTS["whole"].items() if name != move}
    return {**kernel.KERNEL_WEIGHTS, "whole": weights}


def fractions(learned, informed_change):
    """Return fractions of the work of the two moves that have them."""
    return {"learned": learned, "informed-change": informed_change}


def no_scouts(chain, features):
    """Look for no roots."""
    return None
    yield


VARIANTS = {
    "base": None,
    "no_swap": (kernel, "KERNEL_WEIGHTS", without("swap")),
    "cold_4": (rounds, "ROUND_BETAS", (1.0,) * 4),
    "cold_7": (rounds, "ROUND_BETAS", (1.0,) * 7),
    "one_growth_round": (rounds, "N_GROWTH_ROUNDS", 1),
    "no_scouts": (tasks, "scout_roots", no_scouts),
    "equal_stretches": (course, "thin_of_stretch", lambda number: 1),
    "learned_.45_informed_.05": (kernel, "WORK_FRACTIONS", fractions(0.45, 0.05)),
    "learned_.30_informed_.15": (kernel, "WORK_FRACTIONS", fractions(0.30, 0.15)),
    "learned_.30_informed_.25": (kernel, "WORK_FRACTIONS", fractions(0.30, 0.25)),
    "learned_.60_informed_.15": (kernel, "WORK_FRACTIONS", fractions(0.60, 0.15)),
    "many_learned_a_step": (kernel, "MAX_LEARNED_PROPOSALS", 1e9),
}
TABLES = ("vote", "heart_statlog", "wine", "tic_tac_toe", "dtgfn_energy", "dtgfn_raisin_300", "abalone_ages")
TABLES += ("near_duplicates", "credit_a", "breast_cancer_example")


def model_of(name):
    """Return the default model of a table."""
    if name == "breast_cancer_example":
        X, y = tables.breast_cancer_example()
        return pt.TreeModel(X, y, split_prior=pt.LocalCuts(max_cuts=32, min_leaf=5))
    table = silent_tables.TABLES[name]()
    missing = "branch" if table.X.isna().any(axis=None) else "error"
    return pt.TreeModel(table.X, table.y, nominal=table.nominal, missing=missing)


def run(model, seed, variant):
    """Return CPU seconds, steps and the number of failures of a run, and its log evidence with standard error."""
    change = VARIANTS[variant]
    old = change and getattr(*change[:2])
    try:
        if change:
            setattr(*change)
        start = time.process_time()
        post = pt.sample(model, rng=seed, progress=False)
        cpu = time.process_time() - start
    finally:
        if change:
            setattr(*change[:2], old)
    fails = int(post.diagnosis["fails"].sum())
    return {"cpu": cpu, "steps": post.course.steps, "fails": fails, "evidence": post.log_evidence}


def summary(paths):
    """Print the cost of each variant over that of base."""
    lines = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines()]
    base = {(one["table"], one["seed"]): one["cpu"] for one in lines if one["variant"] == "base"}
    for variant in dict.fromkeys(one["variant"] for one in lines):
        of_variant = [one for one in lines if one["variant"] == variant and (one["table"], one["seed"]) in base]
        ratio = np.log([one["cpu"] / base[one["table"], one["seed"]] for one in of_variant])
        n_failed = sum(one["fails"] > 0 for one in of_variant)
        error = ratio.std() / max(len(ratio) - 1, 1) ** 0.5
        print(f"{variant}: {len(ratio)} runs, {n_failed} fail, cost {np.exp(ratio.mean()):.2f} (log +- {error:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--variants", nargs="+", default=tuple(VARIANTS), choices=VARIANTS)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.summary:
        summary(options.out)
        return
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    for seed in options.seeds:
        for name in options.tables:
            model = model_of(name)
            _ = pt.sample(model, 2, rng=0, progress=False).diagnosis  # compiles
            for variant in options.variants:
                line = {"table": name, "seed": seed, "variant": variant, **run(model, seed, variant)}
                with open(options.out[0], "a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
