"""The exact engine on designs: seconds, cells and memory, with a scikit-learn tree of the same depth as rival.

Both are the best of two runs, by processor time, which other work on the machine lengthens less than wall time; ours is
coding, graph, inside, outside, and making the KD tree. The rival fits a greedy tree to the same rows, another answer to
another split: its time is a yardstick. Rows of Markdown come last. Memory is what the run adds to the process; ask
for one problem alone to have it clean.
Run: python benchmarks/exact_design.py [cyclic kd free predict slope] [--rows 1000000] [--no-rival]
"""

import argparse
import resource
import time

import numpy as np
from clock import timed

import exact
import pactree_mcmc as pt
from exact.posterior import ExactPosterior

FEATURES = 10
DEPTHS = {"cyclic": 20, "kd": 15}
FREE = {"p=2, 10 levels": (2, 10, 10_000), "p=4, 4 levels": (4, 4, 10_000), "p=6, 3 levels": (6, 3, 2_000)}


def table(n, p=FEATURES):
    rng = np.random.default_rng(0)
    X = rng.random((n, p))
    noise = 0.3 * rng.standard_normal(n)
    return X, (X[:, 0] + X[:, 1] * X[:, -1] + noise > 0.75).astype(np.int64)


def reset_peak():
    """Forget the largest resident size so far, where the system allows it; bytes held now."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    return peak()


def peak():
    """Largest resident size, bytes."""
    try:
        with open("/proc/self/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(X, y, split_prior, prior):
    """Processor seconds of coding, graph, inside, outside; the posterior; bytes beside what was held before."""
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


def best_of(times, X, y, split_prior, prior):
    """The fastest of several runs."""
    runs = [run(X, y, split_prior, prior) for _ in range(times)]
    return min(runs, key=lambda r: r[0].sum())


def rival_seconds(X, y, depth):
    """Processor seconds of a fit, the better of two."""
    from sklearn.tree import DecisionTreeClassifier

    return timed(lambda: DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, y), 2)[2]


def report(name, seconds, truth, memory, X):
    g = truth.graph
    coding, graph, inside, outside = seconds
    line = f"{name}: {seconds.sum():.2f} s (coding {coding:.2f}, graph {graph:.2f}, inside {inside:.2f}, outside "
    line += f"{outside:.2f}), {g.n_cells:,} cells, {g.n_edges:,} splits, inside and outside "
    line += f"{g.n_edges / (inside + outside) / 1e6:.1f} million splits/s, {g.n_cells / seconds[:3].sum() / 1e6:.2f} "
    line += f"million cells/s with building, memory {memory / 1e6:.0f} MB = {memory / X.nbytes:.1f} X"
    print(line, flush=True)
    return f"| {name} | {g.n_cells:,} | {g.n_edges:,} | {seconds.sum():.2f} | {memory / 1e6:.0f} MB |"


def design(kind, X):
    """Splits and prior of a fixed design, and the processor seconds it takes to make them."""
    began, depth = time.process_time(), DEPTHS[kind]
    split_prior = pt.DyadicCuts(depth // FEATURES, cyclic=True) if kind == "cyclic" else pt.kd_tree(X, depth)
    return split_prior, pt.BranchingProcess(0.5, depth), time.process_time() - began


def fixed(kind, n, with_rival):
    X, y = table(n)
    run(X[:2000], y[:2000], *design(kind, X[:2000])[:2])
    split_prior, prior, made = design(kind, X)
    seconds, truth, memory = best_of(2, X, y, split_prior, prior)
    depth, ours = DEPTHS[kind], seconds.sum() + made
    print(report(f"{kind}, n = {n:,}, p = {FEATURES}, depth {depth}", seconds, truth, memory, X), flush=True)
    line = f"| {kind}, n = {n:,}, p = {FEATURES}, depth {depth} | `python benchmarks/exact_design.py {kind}` |"
    if with_rival:
        theirs = rival_seconds(X, y, depth)
        line += f" scikit-learn `DecisionTreeClassifier(max_depth={depth})`: {theirs:.1f} s |"
    line += f" {ours:.2f} s, {made:.2f} of them making the design; {memory / 1e6:.0f} MB |"
    line += f" {theirs / ours:.0f} times;" if with_rival else ""
    print(f"{line} {memory / X.nbytes:.1f} times X |", flush=True)


def slope(kind, sizes=(10_000, 100_000, 1_000_000)):
    seconds = []
    for n in sizes:
        X, y = table(n)
        split_prior, prior, _ = design(kind, X)
        best_of(1, X[:2000], y[:2000], split_prior, prior)
        seconds.append(best_of(3, X, y, split_prior, prior)[0].sum())
    fitted = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"{kind}, rows {sizes}: {np.round(seconds, 3).tolist()} s, log-log slope {fitted:.2f}", flush=True)


def free():
    for name, (p, levels, n) in FREE.items():
        X, y = table(n, p)
        split_prior, prior = pt.DyadicCuts(levels), pt.ChipmanPrior()
        run(X[:200], y[:200], split_prior, prior)
        seconds, truth, memory = best_of(2, X, y, split_prior, prior)
        print(report(f"free dyadic, n = {n:,}, {name}", seconds, truth, memory, X), flush=True)


def predict(n):
    """Million rows a second of wall time, the best of five calls."""
    X, y = table(n)
    new = np.random.default_rng(1).random((n, FEATURES))
    split_prior, prior, _ = design("cyclic", X)
    truth = run(X, y, split_prior, prior)[1]
    truth.predict_proba(new[:10])
    rows = {
        "cyclic, depth 20, numbers to probabilities": lambda: truth._paths(new),
        "cyclic, depth 20, predict_proba": lambda: truth.predict_proba(new),
    }
    tree = run(X, y, pt.kd_tree(X, 20), pt.BranchingProcess(0.5, 20))[1]
    tree.predict_proba(new[:10])
    rows["KD tree, depth 20, numbers to probabilities"] = lambda: tree._paths(new)
    rows["KD tree, depth 20, predict_proba"] = lambda: tree.predict_proba(new)
    for name, call in rows.items():
        seconds = []
        for _ in range(5):
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
        print(f"{name}, {n:,} rows: {n / min(seconds) / 1e6:.1f} million rows/s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["cyclic", "kd", "free", "predict", "slope"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--no-rival", action="store_true")
    options = parser.parse_args()
    for what in options.what:
        if what in ("cyclic", "kd"):
            fixed(what, options.rows, not options.no_rival)
        elif what == "slope":
            slope("cyclic")
            slope("kd")
        else:
            free() if what == "free" else predict(options.rows)


if __name__ == "__main__":
    main()
