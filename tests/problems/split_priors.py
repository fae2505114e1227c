"""Split priors: named ones, random ones, and what the library calls them; a new split prior enters here."""

import numpy as np

from tests.problems.own_splits import WEIGHED, own_splits
from tests.problems.trees import library_tree
from tests.reference.enumeration import LEAF

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


def library_split_prior(package, problem):
    """The split prior of a problem in the classes of ``package``."""
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
