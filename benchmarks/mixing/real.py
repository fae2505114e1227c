"""Run real tables, and two generated ones, with the defaults, and count the runs that pass.

Run: python benchmarks/mixing/real.py [--tables iris wine ...] [--seeds 3]

A run passes if it gives no ConvergenceWarning; it ends itself. Prints a line for each run, then a table in Markdown.
Compilation is excluded. Tables in files are looked for beside the checkout, in shared/data, or in the folder
PACTREE_DATA.
"""

import argparse
import statistics
import warnings

import tables
from clock import timed
from estimator_summary import markdown

import pactree_mcmc as pt

TABLES = (
    "breast_cancer",
    "breast_cancer_example",
    "heart_statlog",
    "pima_diabetes",
    "breast_w",
    "vote",
    "iris",
    "wine",
)
TABLES += ("credit_a", "ionosphere", "diabetes", "kr_vs_kp", "sick", "low_noise", "friedman_1000")
HEADER = ("table", "n x p", "median s", "median CPU s", "steps", "most quantities that fail", "worst R-hat", "passed")


def model_of_table(name):
    """Return the default model of a table; for ``breast_cancer_example`` one of fewer cuts."""
    if name == "breast_cancer_example":
        X, y = tables.breast_cancer_example()
        return pt.TreeModel(X, y, split_prior=pt.LocalCuts(max_cuts=32, min_leaf=5))
    X, y, nominal = tables.real(name)
    missing = "branch" if X.isna().any(axis=None) else "error"
    return pt.TreeModel(X, y, nominal=nominal, missing=missing)


def run(model, seed):
    """Return wall and CPU seconds of a run, its steps, the number of failures, the worst R-hat, and if it passed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post, seconds, cpu = timed(lambda: pt.sample(model, rng=seed, progress=False), repeats=1)
    found = post.diagnosis
    passed = not any(issubclass(one.category, pt.ConvergenceWarning) for one in caught)
    return seconds, cpu, post.course.steps, int(found["fails"].sum()), float(found["rhat"].max()), passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES, help="default: all")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each table, from seed 0 on")
    options = parser.parse_args()
    rows = []
    for name in options.tables:
        try:
            model = model_of_table(name)
        except tables.MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pt.ConvergenceWarning)
            _ = pt.sample(model, 2, rng=0, progress=False).diagnosis  # compiles
        runs = []
        for seed in range(options.seeds):
            runs.append(run(model, seed))
            seconds, cpu, steps, n_failed, rhat, passed = runs[-1]
            verdict = "passes" if passed else f"{n_failed} quantities fail"
            print(
                f"{name}, seed {seed}: {seconds:.1f} s, {cpu:.1f} CPU s, {steps:,} steps, R-hat {rhat:.4f}, {verdict}"
            )
        seconds, cpu, steps, n_failed, rhat, passed = zip(*runs, strict=True)
        medians = f"{statistics.median(seconds):.1f}", f"{statistics.median(cpu):.1f}"
        shown = ", ".join(f"{n:,}" for n in steps), str(max(n_failed)), f"{max(rhat):.4f}"
        rows.append(
            (name, f"{model.n_rows:,} x {model.n_features}", *medians, *shown, f"{sum(passed)} of {len(passed)}")
        )
    print(*markdown(HEADER, rows), sep="\n")


if __name__ == "__main__":
    main()
