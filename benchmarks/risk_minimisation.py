"""Time and memory of dyadic risk minimisation, prunings and Neyman-Pearson trees, beside scikit-learn's CART.

Each problem runs in a process of its own, so that the peak of memory is its own.
Run: python benchmarks/risk_minimisation.py [free | prunings | neyman_pearson]
"""

import resource
import subprocess
import sys
import time

import numpy as np
from clock import timed
from sklearn.tree import DecisionTreeClassifier

import exact


def memory():
    return f"peak of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"


def checkerboard(n, p, seed=0):
    """Two classes, P(y = 1) .9 or .1 by which side of .5 the first two features lie on."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, p))
    high = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    return X, (rng.random(n) < np.where(high, 0.9, 0.1)).astype(int)


def free():
    """Free dyadic trees over six features, three levels, 2,000 rows."""
    X, y = checkerboard(2_000, 6)
    bounds = [[0.0, 1.0]] * 6
    exact.minimise_risk(X[:50], y[:50], levels=3, bounds=bounds)
    _, rival, _ = timed(lambda: DecisionTreeClassifier(random_state=0).fit(X, y), 2)
    for penalty in ("adaptive", "square-root"):
        exact.minimise_risk(X[:50], y[:50], levels=1, bounds=bounds, penalty=penalty)
        how = {"penalty": penalty, "strength": 0.1, "levels": 3, "bounds": bounds}
        found, seconds, cpu = timed(lambda how=how: exact.minimise_risk(X, y, **how), 2)
        print(
            f"free, p = 6, 3 levels, n = 2,000, {penalty}: {seconds:.2f} s ({cpu:.2f} s of CPU), {memory()};", end=" "
        )
        print(f"{found.n_cells:,} cells, {found.tree.n_leaves} leaves, objective {found.objective:.4f};", end=" ")
        print(f"{seconds / rival:.0f} times scikit-learn's greedy tree ({rival:.3f} s)")


def prunings(n_leaves=2_000):
    """Minimum cost trees of every size, and families, of a fitted tree of 2,000 leaves."""
    rng = np.random.default_rng(0)
    X = rng.random((20 * n_leaves, 2))
    y = (rng.random(len(X)) < X[:, 0]).astype(int)
    grown = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0).fit(X, y)
    _, seconds, _ = timed(lambda: exact.Prunings(grown, X, y), 2)
    print(f"prunings of {grown.get_n_leaves()} leaves, n = {len(X):,}: nodes and costs {seconds:.3f} s", end="; ")
    asked = {
        "minimum cost trees of every size": lambda made: made.minimum_cost[1:],
        "weakest link": lambda made: made.weakest_link(),
        "square root, Theorem 18": lambda made: made.family(np.sqrt),
        "k^2, all sizes": lambda made: made.family(np.square),
    }
    for name, ask in asked.items():
        fresh = [exact.Prunings(grown, X, y) for _ in range(3)]
        found, seconds, _ = timed(lambda ask=ask, fresh=fresh: ask(fresh.pop()), 3)
        print(f"{name} {seconds:.4f} s ({len(found)} trees)", end="; ")
    began = time.perf_counter()
    path = grown.cost_complexity_pruning_path(X, y)
    fit = time.perf_counter() - began
    print(f"scikit-learn's pruning path {fit:.3f} s with its fit ({len(path.ccp_alphas)} prunings)")
    gini = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0)
    _, alone, _ = timed(lambda: gini.fit(X, y), 2)
    print(f"  (its fit alone {alone:.3f} s)")


def neyman_pearson():
    """NP-SRM with cyclic trees, 500 rows: the theory's constants, and those one would use."""
    for p, levels in ((2, None), (8, None), (8, 2)):
        X, y = checkerboard(500, p)
        for tolerance, strength in ((1.0, 1.0), (0.0, 0.5), (0.0, 0.02)):
            how = {"alpha": 0.1, "levels": levels, "cyclic": True, "tolerance": tolerance, "strength": strength}
            exact.neyman_pearson_tree(X[:60], y[:60], **how)
            found, seconds, cpu = timed(lambda X=X, y=y, how=how: exact.neyman_pearson_tree(X, y, **how), 2)
            print(f"NP-SRM, cyclic, n = 500, p = {p}, {found.levels} levels, tolerance {tolerance:g},", end=" ")
            print(f"strength {strength:g}: {seconds:.2f} s ({cpu:.2f} s of CPU), {memory()};", end=" ")
            print(f"{found.n_leaves} leaves, false alarms {found.false_alarm:.3f}, misses {found.miss:.3f}")


PARTS = {part.__name__: part for part in (free, prunings, neyman_pearson)}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PARTS[sys.argv[1]]()
    else:
        for name in PARTS:
            subprocess.run([sys.executable, __file__, name], check=True)
