"""Priors over splits and trees: random ones, and what the library calls them; functions that weigh splits."""

import math

import numpy as np

import pactree_mcmc as pt
from tests.problems.trees import library_tree
from tests.reference.enumeration import LEAF, count_nodes

KINDS = ("local", "grid", "dyadic", "fixed")
"""Kinds in random problems, in the order in which they are drawn."""
OWN_SPLITS = ("own local", "own grid")
"""Split priors of one's own, tried where they are asked for: among all kinds they would change what others draw."""
LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1}
TRIVIAL = {"kind": "local", "trivial": True, "min_leaf": 1}
GRID = {"kind": "grid", "cuts": [None, [0.5, 1.5, 5.0]], "weights": [2.0, 1.0]}
DYADIC = {"kind": "dyadic", "levels": 2, "cyclic": False, "bounds": [(0.0, 4.0), (0.0, 2.0)], "weights": [1.0, 2.5]}
CYCLIC = {"kind": "dyadic", "levels": 2, "cyclic": True, "bounds": [(0.0, 4.0), (0.0, 2.0)]}
DESIGN = (
    "split",
    1,
    0.5,
    ("split", 0, frozenset("ac"), LEAF, ("split", 1, 0.25, LEAF, LEAF)),
    ("split", 1, 1.5, ("split", 0, frozenset("b"), LEAF, LEAF), LEAF),
)
FIXED = {"kind": "fixed", "tree": DESIGN}
TWO_ROWS = {**LOCAL, "min_leaf": 2}
THREE_CUTS = {"kind": "grid", "cuts": [[0.5, 1.5, 2.5]]}
KINDS_OF_TREE_PRIORS = ("stopped", "conditioned", "chipman", "penalty")
"""Kinds in random problems, in the order in which they are drawn."""
PRIORS = {
    "chipman": {"kind": "chipman", "alpha": 0.95, "beta": 1.0},
    "stopped": {"kind": "stopped", "rho": 0.6},
    "stopped_by_depth": {"kind": "stopped", "rho": [0.7, 0.2, 0.45]},
    "stopped_with_zero": {"kind": "stopped", "rho": [0.6, 0.4, 0.0]},
    "conditioned": {"kind": "conditioned", "rho": 0.45},
    "conditioned_by_depth": {"kind": "conditioned", "rho": [0.3, 0.8, 0.4, 0.2]},
    "penalty": {"kind": "penalty", "cost": 0.6},
    "penalty_empty_cheap": {"kind": "penalty", "cost": 0.6, "empty_cost": 0.1},
}
"""Tree priors; each case adds its depth limit, 3 at most."""
RHO_BY_NODE = [0.6, 0.3, 0.9, 0.5, 0.2, 0.8, 0.7, 0.4, 0.15, 0.35, 0.55]
"""For fixed trees, whose probabilities may be by node."""


def library_split_prior(package, problem):
    given = dict(problem.split_prior)
    kind, weights, are_given = given.pop("kind"), given.pop("weights", None), given.pop("given", True)
    own = {name: given.pop(name) for name in ("weigh", "params", "over", "by_depth") if name in given}
    if kind == "fixed":
        tree, joint = library_tree(package, problem, given["tree"]), given.get("joint", ())
        return package.FixedTree(tree, np.isin(np.arange(tree.n_nodes), list(joint)))
    if not are_given:
        given["bounds"] = None
    kinds = {"local": package.LocalCuts, "grid": package.GridCuts, "dyadic": package.DyadicCuts}
    geometry = kinds[kind](**given, feature_weights=weights)
    return own_splits(geometry, own, package) if own else geometry


def random_split_prior(rng, kind, X, nominal):
    """A split prior of that kind for a table; with ``given`` its bounds are told to the library, too."""
    p = len(X[0])
    weights = (rng.choice([0.0, 0.5, 1.0, 3.0], p) if rng.random() < 0.4 else np.ones(p)).tolist()
    design = {"kind": kind, "weights": weights if any(weights) else None}
    if kind in OWN_SPLITS:
        design = random_split_prior(rng, kind.split()[1], X, nominal)
        weighed = WEIGHED[str(rng.choice([name for name in WEIGHED if kind == "own local" or name != "even"]))]
        return {**design, **weighed, **({"trivial": False} if kind == "own local" else {})}
    if kind == "local":
        trivial = bool(rng.random() < 0.4)
        return {**design, "trivial": trivial, "min_leaf": 1 if trivial else int(rng.integers(1, 4))}
    if kind == "grid":
        points = np.arange(-1.25, 2.25, 0.25 if rng.random() < 0.5 else 0.375)
        cuts = [np.sort(rng.choice(points, int(rng.integers(4)), replace=False)).tolist() for _ in range(p)]
        return {**design, "cuts": [None if k in nominal else cuts[k] for k in range(p)]}
    if kind == "dyadic":
        given = bool(rng.random() < 0.5)
        bounds = [_random_bounds(rng) if given else _range(column) for column in zip(*X, strict=True)]
        cyclic = bool(rng.random() < 0.5)
        weights = None if cyclic else design["weights"]
        levels = int(rng.integers(1, 4))
        return {**design, "weights": weights, "levels": levels, "cyclic": cyclic, "bounds": bounds, "given": given}
    categories = {k: sorted({x[k] for x in X}) for k in nominal}
    return {"kind": kind, "tree": _random_design(rng, p, categories, depth=int(rng.integers(1, 4)))}


def _random_bounds(rng):
    lower = float(rng.choice([-1.0, -0.25, 0.5]))
    return lower, lower + float(rng.choice([0.5, 1.0, 3.0]))


def _range(values):
    """Ends of the values; a constant is given room above."""
    known = [value for value in values if value is not None]
    lower, upper = min(known), max(known)
    return (lower, upper) if lower < upper else (lower, lower + max(1.0, abs(lower)))


def _random_design(rng, p, categories, depth):
    if depth == 0 or rng.random() < 0.15:
        return LEAF
    k = int(rng.integers(p))
    if k in categories:
        rule = frozenset(c for c in categories[k] if rng.random() < 0.5)
    else:
        rule = float(rng.choice([-np.inf, np.inf]) if rng.random() < 0.1 else rng.choice(np.arange(-1.0, 2.0, 0.25)))
    return ("split", k, rule, *(_random_design(rng, p, categories, depth - 1) for _ in range(2)))


def even(cut):
    """Those that part the rows evenly are likelier."""
    return cut.left * cut.right


def near(cut, params):
    """Those near a place are likelier."""
    return math.exp(-0.5 * ((cut.at - params[0]) / params[1]) ** 2)


def wide(cut):
    """Uniform in the values between the ends of a cell; on a grid by their number, as ends may be open."""
    if cut.nominal:
        return 0.7
    return cut.above - cut.below if cut.above > cut.below else 1.0 + cut.number


def late(cut):
    """None below 1, and none that cuts off the highest value of three or more."""
    if cut.nominal:
        return 0.4
    if cut.at < 1.0 or (cut.n_splits > 1.5 and cut.number > cut.n_splits - 1.5):
        return 0.0
    return 1.0 + 0.5 * cut.number / cut.n_splits


def deep(cut):
    """The second feature gets dearer with the depth, and the first may not be asked at depth 1 with both ends open."""
    if cut.feature == 1:
        return 0.3**cut.depth if cut.nominal else 0.3**cut.depth / cut.n_splits
    if not cut.nominal and cut.depth == 1 and cut.at < cut.low + 0.8:
        return 0.0
    return 1.0 if cut.nominal else 1.0 + cut.number * cut.depth


WEIGHED = {
    "even": {"weigh": even},
    "near": {"weigh": near, "params": [1.2, 1.6]},
    "wide": {"weigh": wide, "over": "cell"},
    "late": {"weigh": late},
    "late of all": {"weigh": late, "over": "cell"},
    "deep": {"weigh": deep, "over": "cell", "by_depth": True},
    "deep by feature": {"weigh": deep, "by_depth": True},
}
"""Entries of a naive split prior beside its geometry."""


def own_splits(of, given, package=pt):
    return package.CustomSplits(given["weigh"], of, **{name: given[name] for name in given if name != "weigh"})


def library_tree_prior(package, prior):
    kind, rest = prior["kind"], {name: value for name, value in prior.items() if name != "kind"}
    if kind in ("stopped", "conditioned"):
        return package.BranchingProcess(**rest, conditioned=kind == "conditioned")
    return {"chipman": package.ChipmanPrior, "penalty": package.LeafPenalty}[kind](**rest)


def random_tree_prior(rng, kind, design):
    limited = kind == "conditioned" or design.get("trivial") or rng.random() < 0.6
    max_depth = int(rng.integers(1, 4)) if limited else None
    if kind == "chipman":
        return {
            "kind": kind,
            "alpha": float(rng.uniform(0.3, 0.99)),
            "beta": float(rng.uniform(0, 2)),
            "max_depth": max_depth,
        }
    if kind == "penalty":
        prior = {"kind": kind, "cost": float(rng.uniform(0, 2)), "max_depth": max_depth}
        return {**prior, "empty_cost": float(rng.uniform(0, 1))} if rng.random() < 0.5 else prior
    rho = rng.uniform(0.05, 0.95, 20) * (rng.random(20) < 0.95)
    if rng.random() < 0.5:
        return {"kind": kind, "rho": float(rho[0]), "max_depth": max_depth}
    if design["kind"] == "fixed":
        return {"kind": kind, "rho": rho[: count_nodes(design["tree"])].tolist(), "max_depth": max_depth}
    max_depth = int(rng.integers(1, 4)) if max_depth is None else max_depth
    return {"kind": kind, "rho": rho[: max_depth + 1].tolist(), "max_depth": max_depth}
