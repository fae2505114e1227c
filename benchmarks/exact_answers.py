"""Speed of the recursions and of each answer of the exact engine.

Edges a second of inside, outside and the best tree, beside a loop that only calls exp as often; the best tree of each
size of a design of 2,000 leaves; maptree_medium with everything asked for at once (needs the shared tables).
Run: python benchmarks/exact_answers.py
"""

from functools import partial

import numpy as np
from clock import timed
from data import four_levels, has_table, read_table
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt
from exact.answers import best_sums, log_sums


def recursions(name, graph):
    """Edges a second; a split counts once for each depth at which its cell can be split."""
    per_cell = np.add.reduceat(graph.log_split > -np.inf, graph.first_slot[:-1])
    n = int((np.diff(graph.first_edge) * per_cell).sum())
    inner, up, up_cpu = timed(lambda: log_sums(graph))
    _, down, down_cpu = timed(lambda: exact.occurrences(graph, inner))
    _, best, _ = timed(lambda: best_sums(graph))
    _, rival, _ = timed(lambda: np.exp(np.full(n, -1.5)))
    print(f"{name}: {n:,} edges; inside {up:.3f} s, outside {down:.3f} s, best tree {best:.3f} s")
    speed, by_cpu = n / (up + down) / 1e6, n / (up_cpu + down_cpu) / 1e6
    print(f"  inside + outside {speed:.1f} million edges/s, {by_cpu:.1f} by CPU time;", end=" ")
    print(f"{(up + down) / rival:.1f} times as long as numpy.exp of as many numbers")


def sizes(n_leaves=2_000):
    """Best tree of each size below a random design."""
    rng = np.random.default_rng(0)
    X = rng.random((20 * n_leaves, 2))
    y = rng.random(len(X)) < X[:, 0]
    fitted = DecisionTreeClassifier(max_leaf_nodes=n_leaves, random_state=0).fit(X, y)
    model = pt.TreeModel(X, y, tree_prior=pt.LeafPenalty(1.0), split_prior=pt.FixedTree.from_sklearn(fitted))
    truth, _, solving = timed(lambda: exact.solve(model), 2)

    def ask():
        truth._largest_sizes = None
        return truth.best_log_joint_by_size(n_leaves)

    path, _, seconds = timed(ask)
    _, _, grown = timed(lambda: truth.best_tree_of_size(n_leaves // 2))
    print(
        f"best tree of each size, {fitted.get_n_leaves()} leaves, {np.isfinite(path).sum()} sizes; processor seconds:"
    )
    print(f"  {seconds:.4f} of a solved model, solving {solving:.3f}, one of the trees {grown:.3f};", end=" ")
    _, _, rival = timed(lambda: fitted.cost_complexity_pruning_path(X, y))
    _, _, fit = timed(lambda: fitted.fit(X, y))
    print(f"scikit-learn's pruning path with its fit {rival:.3f}, the fit alone {fit:.3f}")


def everything():
    """Evidence, best tree, distribution of leaves and of the root, 10,000 draws; and what can be asked beyond."""
    if not has_table("maptree_medium"):
        return
    X, y, _ = read_table("maptree_medium")
    prior, leaf = pt.ChipmanPrior(0.95, 0.5), pt.DirichletMultinomial(2.5)
    model = pt.TreeModel(X, y, tree_prior=prior, leaf=leaf)
    for run in ("cold", "warm"):
        truth, *seconds = timed(lambda: exact.solve(model), 1)
        asked = {
            "map_tree": truth.map_tree,
            "n_leaves_pmf": truth.n_leaves_pmf,
            "root_split_pmf": truth.root_split_pmf,
            "10,000 draws": partial(truth.sample, 10_000, rng=0),
        }
        took = {"solve": seconds} | {name: timed(ask, 1)[1:] for name, ask in asked.items()}
        wall, cpu = (sum(column) for column in zip(*took.values(), strict=True))
        each = {name: round(seconds[1], 2) for name, seconds in took.items()}
        print(f"maptree_medium, {run}: {wall:.1f} s, {cpu:.1f} s of CPU: {each}")
    beyond = {
        "feature_inclusion": truth.feature_inclusion,
        "n_trees": lambda: truth.n_trees,
        "best_trees(1000)": lambda: truth.best_trees(1000),
        "mean_and_variance": lambda: truth.mean_and_variance(np.ones(truth.graph.n_cells)),
        "best_log_joint_by_size(20)": lambda: truth.best_log_joint_by_size(20),
    }
    print("beyond:", {name: round(timed(ask, 1)[1], 2) for name, ask in beyond.items()})
    recursions("maptree_medium", truth.graph)


def main():
    flat = pt.TreeModel(*four_levels(400), tree_prior=pt.LeafPenalty(1.0))
    recursions("one dimension, n = 400, flat", exact.solve(flat).graph)
    deep = pt.TreeModel(*four_levels(200), tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=10))
    recursions("one dimension, n = 200, depth 10", exact.solve(deep).graph)
    X = np.random.default_rng(0).random((10_000, 2))
    free = pt.TreeModel(X, X[:, 0] > X[:, 1], tree_prior=pt.LeafPenalty(1.0), split_prior=pt.DyadicCuts(8))
    recursions("free dyadic, p = 2, 8 levels, n = 10,000", exact.solve(free).graph)
    sizes()
    everything()


if __name__ == "__main__":
    main()
