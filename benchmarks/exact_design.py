"""Measure the exact engine on fixed designs: seconds, cells and memory, beside a scikit-learn tree of the same depth.

Both are the best of two runs, by processor time, which other work on the machine lengthens less than wall time. Ours
consists of coding, graph, inside, outside, and making the KD tree. The rival fits a greedy tree to the same rows: a
different answer, so its time is only a yardstick. Rows of Markdown come last. Memory is what the run adds to the
process; run one problem alone to measure it well.
Run: python benchmarks/exact_design.py [cyclic kd free known] [--rows 1000000] [--no-rival]
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np
from clock import timed
from data import four_levels, has_table, read_table
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt
from exact.posterior import ExactPosterior

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from chipman_1998 import chipman_data

FEATURES = 10
DEPTHS = {"cyclic": 20, "kd": 15}
FREE = {"p=2, 10 levels": (2, 10, 10_000), "p=4, 4 levels": (4, 4, 10_000), "p=6, 3 levels": (6, 3, 2_000)}


def table(n, p=FEATURES):
    """Return uniform features (n, p) and noisy classes (n,) that depend on three of them."""
    rng = np.random.default_rng(0)
    X = rng.random((n, p))
    noise = 0.3 * rng.standard_normal(n)
    return X, (X[:, 0] + X[:, 1] * X[:, -1] + noise > 0.75).astype(np.int64)


def reset_peak():
    """Reset the record of the largest resident size, if the system allows it, and return the size now in bytes."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    return peak()


def peak():
    """Return the largest resident size of this process in bytes."""
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(X, y, split_prior, prior):
    """Return processor seconds (4,) of coding, graph, inside, outside; the posterior; the bytes that the run added."""
    before = reset_peak()
    marks = [time.process_time()]
    model = pt.TreeModel(X, y, split_prior=split_prior, tree_prior=prior)
    marks.append(time.process_time())
    graph = exact.build_graph(model, 200_000_000)
    marks.append(time.process_time())
    truth = ExactPosterior(model, graph)
    marks.append(time.process_time())
    truth.cell_probabilities()
    marks.append(time.process_time())
    return np.diff(marks), truth, peak() - before


def report(name, seconds, truth, memory, X):
    """Print a line about a result of `run`, and return it as a row of Markdown."""
    g = truth.graph
    coding, graph, inside, outside = seconds
    line = f"{name}: {seconds.sum():.2f} s (coding {coding:.2f}, graph {graph:.2f}, inside {inside:.2f}, outside "
    line += f"{outside:.2f}), {g.n_cells:,} cells, {g.n_edges:,} splits, inside and outside "
    line += f"{g.n_edges / (inside + outside) / 1e6:.1f} million splits/s, {g.n_cells / seconds[:3].sum() / 1e6:.2f} "
    line += f"million cells/s with building, memory {memory / 1e6:.0f} MB = {memory / X.nbytes:.1f} X"
    print(line, flush=True)
    return f"| {name} | {g.n_cells:,} | {g.n_edges:,} | {seconds.sum():.2f} | {memory / 1e6:.0f} MB |"


def design(kind, X):
    """Return split prior and tree prior of a fixed design, "cyclic" or "kd", and the processor seconds to make them."""
    began, depth = time.process_time(), DEPTHS[kind]
    split_prior = pt.DyadicCuts(depth // FEATURES, cyclic=True) if kind == "cyclic" else pt.kd_tree(X, depth)
    return split_prior, pt.BranchingProcess(0.5, depth), time.process_time() - began


def fixed(kind, n, with_rival):
    """Print the results of one fixed design on n rows, and of the rival if ``with_rival``."""
    X, y = table(n)
    run(X[:2000], y[:2000], *design(kind, X[:2000])[:2])
    split_prior, prior, made = design(kind, X)
    seconds, truth, memory = min((run(X, y, split_prior, prior) for _ in range(2)), key=lambda one: one[0].sum())
    depth, ours = DEPTHS[kind], seconds.sum() + made
    print(report(f"{kind}, n = {n:,}, p = {FEATURES}, depth {depth}", seconds, truth, memory, X), flush=True)
    line = f"| {kind}, n = {n:,}, p = {FEATURES}, depth {depth} | `python benchmarks/exact_design.py {kind}` |"
    if with_rival:
        rival = DecisionTreeClassifier(max_depth=depth, random_state=0)
        theirs = timed(lambda: rival.fit(X, y), 2)[2]
        line += f" scikit-learn `DecisionTreeClassifier(max_depth={depth})`: {theirs:.1f} s |"
    line += f" {ours:.2f} s, {made:.2f} of them making the design; {memory / 1e6:.0f} MB |"
    line += f" {theirs / ours:.0f} times;" if with_rival else ""
    print(f"{line} {memory / X.nbytes:.1f} times X |", flush=True)


def known():
    """Print a first and a second solve of the problems with known answers. The first may find cached compiled code."""
    exact.solve(pt.TreeModel(*four_levels(30)))
    print("| problem | cells | (cell, depth) pairs | first solve | second | log evidence | peak of the process |")
    print("|" + " --- |" * 7)
    for name, model in problems():
        truth, *first = timed(lambda model=model: exact.solve(model), 1)
        _, *second = timed(lambda model=model: exact.solve(model), 1)
        cells = [name, f"{truth.graph.n_cells:,}", f"{truth.graph.n_slots:,}"]
        cells += [f"{wall:.3f} s ({cpu:.3f} of CPU)" for wall, cpu in (first, second)]
        print(f"| {' | '.join([*cells, f'{truth.log_evidence:.6f}', f'{peak() / 1e9:.2f} GB'])} |", flush=True)


def problems():
    """Yield the names and models of the problems with known answers."""
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    yield "Chipman et al. 1998", pt.TreeModel(*chipman_data(), tree_prior=pt.ChipmanPrior(0.95, 1.0), leaf=leaf)
    yield "one dimension, n = 200", pt.TreeModel(*four_levels(), tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=10))
    if has_table("maptree_medium"):
        X, y, _ = read_table("maptree_medium")
        prior, leaf = pt.ChipmanPrior(0.95, 0.5), pt.DirichletMultinomial(2.5)
        yield "maptree_medium", pt.TreeModel(X, y, tree_prior=prior, leaf=leaf)


def free():
    for name, (p, levels, n) in FREE.items():
        X, y = table(n, p)
        split_prior, prior = pt.DyadicCuts(levels), pt.ChipmanPrior()
        run(X[:200], y[:200], split_prior, prior)
        seconds, truth, memory = min((run(X, y, split_prior, prior) for _ in range(2)), key=lambda one: one[0].sum())
        print(report(f"free dyadic, n = {n:,}, {name}", seconds, truth, memory, X), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["cyclic", "kd", "free", "known"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--no-rival", action="store_true")
    options = parser.parse_args()
    for what in options.what:
        if what in ("cyclic", "kd"):
            fixed(what, options.rows, not options.no_rival)
        else:
            {"free": free, "known": known}[what]()


if __name__ == "__main__":
    main()
