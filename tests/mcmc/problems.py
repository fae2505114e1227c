"""Small problems, each in the words of the naive enumerator and as a model of the library."""

import math
from functools import partial

import numpy as np
from own_leaves import own_poisson
from own_splits import WEIGHED, own_splits
from reference.enumeration import LEAF, Problem, child_cells, missing_last, root_cell

from pactree_mcmc.table.coding import LARGEST


def build_model(package, problem):
    """The TreeModel of ``package`` (compiled or plain) that says what the naive ``problem`` says."""
    columns = [np.array([row[k] for row in problem.X], dtype=object) for k in range(problem.n_features)]
    with np.errstate(over="ignore"):  # hashing rows wraps around, which plain NumPy scalars report
        return package.TreeModel(
            np.stack(columns, axis=1),
            problem.y,
            tree_prior=_tree_prior(package, problem.tree_prior),
            split_prior=_questions(package, problem),
            leaf=_leaf(package, problem.leaf),
            nominal=sorted(problem.nominal),
            missing="branch" if any(None in row for row in problem.X) else "error",
            sample_weight=None if set(problem.weights) == {1.0} else problem.weights,
            estimation=None if problem.estimation is None else np.array(problem.estimation, dtype=bool),
        )


def _tree_prior(package, prior):
    kind, rest = prior["kind"], {name: value for name, value in prior.items() if name != "kind"}
    if kind in ("stopped", "conditioned"):
        return package.BranchingProcess(**rest, conditioned=kind == "conditioned")
    return {"chipman": package.ChipmanPrior, "penalty": package.LeafPenalty}[kind](**rest)


def _questions(package, problem):
    given = dict(problem.split_prior)
    kind, weights = given.pop("kind"), given.pop("weights", None)
    own = {name: given.pop(name) for name in ("weigh", "params", "over", "by_depth") if name in given}
    if own:
        geometry = {"local": package.LocalCuts, "grid": package.GridCuts}[kind](**given, feature_weights=weights)
        return own_splits(geometry, own, package)
    if kind == "fixed":
        return package.FixedTree(library_tree(package, problem, given["tree"]))
    return {"local": package.LocalCuts, "grid": package.GridCuts, "dyadic": package.DyadicCuts}[kind](
        **given, feature_weights=weights
    )


def _leaf(package, leaf):
    kind, rest = leaf["kind"], {name: value for name, value in leaf.items() if name != "kind"}
    models = {
        "dirichlet": package.DirichletMultinomial,
        "laplace": package.FrozenLaplace,
        "nig": package.NormalInverseGamma,
        "known": package.NormalKnownVariance,
        "shared": package.NormalSharedVariance,
        "poisson": package.PoissonGamma,
        "loss": package.PacBayesLoss,
        "own": partial(own_poisson, package=package),
    }
    return models[kind](**rest)


def library_tree(package, problem, tree):
    """A nested tuple as a Tree; bits follow the sorted categories."""
    nodes = []

    def add(subtree):
        here = len(nodes)
        if subtree == LEAF:
            nodes.append([-1, 0.0, 0, 0, -1, False])
            return
        _, k, rule, left, right = subtree
        nodes.append(None)
        add(left)
        behind = len(nodes)
        add(right)
        threshold, bits, missing_left = rule, -1, False
        if k in problem.nominal:
            threshold, bits = 0.0, _bits(problem, k, rule)
        elif k in problem.gaps:
            threshold, missing_left = min(max(rule[0], -LARGEST), LARGEST), rule[1] == "left"
        nodes[here] = [k, threshold, here + 1, behind, bits, missing_left]

    add(tree)
    return package.Tree(*zip(*nodes, strict=True))


def _bits(problem, k, labels):
    return sum(1 << j for j, label in enumerate(sorted(problem.categories[k], key=missing_last)) if label in labels)


def nested_tree(problem, tree):
    """A drawn Tree as the nested tuple the enumerator makes of it."""

    def walk(node, cell):
        k = int(tree.feature[node])
        if k == -1:
            return LEAF
        rule = float(tree.threshold[node])
        if k in problem.gaps:
            cut = rule if abs(rule) < LARGEST else math.copysign(math.inf, rule)
            rule = (cut, "left" if tree.default_left[node] else "right")
        elif k in problem.nominal:
            going_left = {c for c in problem.categories[k] if _bits(problem, k, {c}) & int(tree.categories[node])}
            rule = _part(problem, cell, k, going_left)
        left, right = child_cells(problem, cell, k, rule)
        return ("split", k, rule, walk(int(tree.left[node]), left), walk(int(tree.right[node]), right))

    return walk(0, root_cell(problem))


def _part(problem, cell, k, going_left):
    """The categories going left that matter in the cell; a trivial part in the enumerator's words."""
    inside = cell.box[k] if problem.split_prior["kind"] in ("grid", "fixed") else {problem.X[i][k] for i in cell.rows}
    if problem.split_prior.get("trivial") and inside <= going_left:
        return problem.categories[k]
    return frozenset(inside & going_left)


DIRICHLET = {"kind": "dirichlet", "alpha": 0.7}
LAPLACE = {"kind": "laplace", "pseudocount": 1.0}
LOSS = {"kind": "loss", "lambda1": 0.8, "lambda2": 0.3}
NORMAL = {"kind": "nig", "m0": 0.4, "k0": 0.5, "a0": 2.0, "b0": 0.3}
KNOWN = {"kind": "known", "sigma2": 0.4, "m0": 0.4, "k0": 0.5}
POISSON = {"kind": "poisson", "shape": 1.5, "rate": 1.2}
OWN = {"kind": "own", "shape": 1.5, "rate": 1.2}
"""A leaf of one's own, the same as POISSON."""
LEAVES = {"dirichlet": DIRICHLET, "laplace": LAPLACE, "loss": LOSS, "nig": NORMAL, "known": KNOWN, "poisson": POISSON}

ORDERED = {
    "X": [(0.0, 1.0), (0.0, 2.0), (1.0, 1.0), (1.0, 1.0), (3.0, 2.0)],
    "y": [0, 1, 1, 0, 1],
}
"""Two ordered features with ties; the third and fourth row are equal, so that a leaf with both cannot be split."""

WIDE = {
    "X": [(0.0, 5.0), (1.0, 3.0), (2.0, 4.0), (3.0, 1.0), (3.0, 2.0), (3.0, 2.0)],
    "y": [0, 0, 1, 1, 1, 0],
    "weights": [1.0, 0.5, 2.0, 1.0, 0.0, 1.5],
}
"""Two ordered features, weighted rows, equal rows."""

NOMINAL = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 0.0), ("d", 1.0), ("b", 0.0), ("c", 1.0)],
    "y": [0, 1, 2, 1, 0, 2],
    "nominal": {0},
}
"""Four categories beside a binary feature."""

THREE = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 2.0), ("a", 2.0), ("c", 2.0)],
    "y": [0, 1, 1, 0, 0],
    "nominal": {0},
}
"""Three categories, an ordered feature, two equal rows."""

TWO = {"X": [("a", 0.0), ("b", 0.0), ("b", 1.0)], "y": [0, 1, 1], "nominal": {0}}
"""Small enough for trivial splits down to depth 2."""

CROWDED = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 0.0), ("c", 2.0), ("d", 1.0), ("d", 1.0), ("d", 3.0), ("e", 2.0)],
    "y": [0, 1, 1, 0, 1, 0, 1, 1],
    "nominal": {0},
}
"""Five categories with one to three rows each, and an ordered feature with ties, for leaves of at least two rows."""

LONG = {
    "X": [(0.0, 1.0), (1.0, 1.0), (1.0, 2.0), (2.0, 0.0), (3.0, 2.0), (3.0, 2.0), (4.0, 0.0), (5.0, 1.0)],
    "y": [0, 0, 1, 1, 0, 1, 1, 0],
}
"""Eight rows of two ordered features with ties."""

UNEVEN = {"X": [(0.0,), (1.0,), (1.0,), (2.0,), (2.0,), (3.0,), (3.0,), (4.0,)], "y": [0, 0, 1, 1, 1, 0, 1, 0]}
"""Single rows at both ends of pairs: of cuts that leave two rows, the first is not the first of all."""

BINARY = {
    "X": [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0)],
    "y": [0, 1, 1, 0],
}
"""Three binary features."""

LINE = {"X": [(0.0,), (2.0,), (2.0,)], "y": [0, 1, 1]}
"""One ordered feature, two equal rows."""

PAIR = {"X": [("a",), ("b",), ("b",)], "y": [0, 1, 1], "nominal": {0}}
"""Two categories, two equal rows."""

BOX = {"X": [("a", 0.0), ("b", 2.0), ("b", 0.0)], "y": [0, 1, 1], "nominal": {0}}
"""Two categories and two values."""

MIXED = {
    "X": [("a", 0.0), ("b", 1.0), ("c", 0.0), ("c", 1.0), ("a", 1.0), ("b", 2.0)],
    "y": [0, 1, 1, 0, 1, 0],
    "nominal": {0},
}
"""Three categories with two rows each, for leaves of at least two rows."""

CORNERS = {
    "X": [(0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)],
    "y": [0, 1, 1, 0, 1, 0],
}
"""Six corners of a cube: the same question can stand on both sides of another."""

FIVE_CORNERS = {
    "X": [(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 0.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0)],
    "y": [0, 1, 1, 0, 1],
}
"""Five of them, among which one question can part another's cell as a third does."""

PRISM = {
    "X": [(a, 0.0, c) for a in "ab" for c in (0.0, 1.0)] + [("a", 1.0, 0.0), ("b", 1.0, 1.0)],
    "y": [0, 1, 1, 0, 1, 0],
    "nominal": {0},
}
"""The same corners, the first feature nominal."""

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
RHO_BY_NODE = [0.6, 0.3, 0.9, 0.5, 0.2, 0.8, 0.7, 0.4, 0.15, 0.35, 0.55]

CASES = {
    "ties": (ORDERED, LOCAL, 3),
    "weighted_rows": (WIDE, LOCAL, 2),
    "depth_1": (WIDE, LOCAL, 1),
    "four_categories": (NOMINAL, LOCAL, 2),
    "three_categories": (THREE, LOCAL, 3),
    "feature_weights": (THREE, {**LOCAL, "weights": [3.0, 0.5]}, 3),
    "three_feature_weights": (BINARY, {**LOCAL, "weights": [1.0, 2.0, 4.0]}, 2),
    "feature_without_weight": (WIDE, {**LOCAL, "weights": [1.0, 0.0]}, 3),
    "trivial": (TWO, TRIVIAL, 2),
    "trivial_weights": (TWO, {**TRIVIAL, "weights": [1.0, 4.0]}, 2),
    "min_leaf_2": (LONG, {**LOCAL, "min_leaf": 2}, 3),
    "min_leaf_3": (LONG, {**LOCAL, "min_leaf": 3, "weights": [1.0, 3.0]}, 3),
    "min_leaf_2_nominal": (CROWDED, {**LOCAL, "min_leaf": 2}, 2),
    "min_leaf_3_nominal": (CROWDED, {**LOCAL, "min_leaf": 3, "weights": [1.0, 2.0]}, 3),
    "grid": (THREE, GRID, 2),
    "grid_deep": (THREE, {**GRID, "cuts": [None, [1.5]]}, 3),
    "dyadic": (WIDE, DYADIC, 2),
    "cyclic": (WIDE, CYCLIC, 3),
}
"""Data, questions and depth limit of each small space."""

TWO_ROWS = {**LOCAL, "min_leaf": 2}
THREE_CUTS = {"kind": "grid", "cuts": [[0.5, 1.5, 2.5]]}
GAPS = {
    "gaps_line": ({"X": [(None,), (0.0,), (2.0,)], "y": [1, 0, 1]}, LOCAL, 3),
    "gaps_local": ({"X": [(None, 0.0), (0.0, 1.0), (2.0, None), (2.0, 0.0)], "y": [0, 1, 1, 0]}, LOCAL, 2),
    "gaps_nominal": ({"X": [("a", None), (None, 0.0), ("b", 1.0)], "y": [0, 1, 1], "nominal": {0}}, LOCAL, 2),
    "gaps_min_leaf": ({"X": [(None,), (0.0,), (2.0,), (3.0,), (None,)], "y": [0, 1, 1, 0, 0]}, TWO_ROWS, 3),
    "gaps_grid_line": ({"X": [(None,), (0.0,), (3.0,)], "y": [1, 0, 1]}, THREE_CUTS, 3),
    "gaps_grid": (
        {"X": [(None, 0.0), (0.0, 1.0), (3.0, None)], "y": [0, 1, 1]},
        {"kind": "grid", "cuts": [[1.5], [0.5]], "weights": [2.0, 1.0]},
        2,
    ),
    "gaps_dyadic": ({"X": [(None, 0.0), (0.0, 1.0), (3.0, 1.0)], "y": [0, 1, 1]}, DYADIC, 2),
    "gaps_cyclic": ({"X": [(None, 0.0), (0.0, None), (3.0, 1.0)], "y": [0, 1, 1]}, CYCLIC, 2),
}
"""Spaces over rows with missing values."""

SMALL = {
    "ties": CASES["ties"],
    "three_categories": CASES["three_categories"],
    "depth_1": CASES["depth_1"],
    "feature_without_weight": CASES["feature_without_weight"],
    "min_leaf_2": CASES["min_leaf_2"],
    "min_leaf_mixed": (MIXED, {**LOCAL, "min_leaf": 2, "weights": [1.0, 2.0]}, 3),
    "trivial_line": (LINE, TRIVIAL, 2),
    "trivial_pair": (PAIR, TRIVIAL, 2),
    "trivial_diagonal": ({"X": [("a", 0.0), ("b", 1.0)], "y": [0, 1], "nominal": {0}}, TRIVIAL, 1),
    "grid_line": (LINE, {"kind": "grid", "cuts": [[0.5, 1.5, 5.0]]}, 3),
    "grid_box": (BOX, {"kind": "grid", "cuts": [None, [0.5, 1.5]], "weights": [2.0, 1.0]}, 2),
    "dyadic": CASES["dyadic"],
    "cyclic": (WIDE, CYCLIC, 2),
    "fixed": (THREE, FIXED, 3),
    "min_leaf_uneven": (UNEVEN, TWO_ROWS, 3),
}
"""Spaces so small that most steps can be followed through all their outcomes."""

TINY = {
    "shallow_ties": (ORDERED, LOCAL, 2),
    "min_leaf_mixed": SMALL["min_leaf_mixed"],
    "box": (BOX, {**LOCAL, "weights": [3.0, 0.5]}, 2),
    "depth_1": CASES["depth_1"],
    "trivial_one": ({"X": [("a",), ("a",)], "y": [0, 1], "nominal": {0}}, TRIVIAL, 2),
    "grid_one": (BOX, {"kind": "grid", "cuts": [None, [1.0]]}, 2),
    "grid_line": SMALL["grid_line"],
    "dyadic_one": (WIDE, {**DYADIC, "levels": 1}, 2),
    "cyclic": SMALL["cyclic"],
    "fixed": SMALL["fixed"],
    "min_leaf_uneven": SMALL["min_leaf_uneven"],
}
"""Spaces for the step with the most outcomes."""

EDGE = {"X": [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (2.0, 0.0), (4.0, 0.0)], "y": [0, 1, 1, 0, 1]}
"""Below an edge that turns lies a cell with splits of two features."""
OWN_SPLITS = {
    "own_even": (ORDERED, {**LOCAL, **WEIGHED["even"]}, 3),
    "own_near": (WIDE, {**LOCAL, **WEIGHED["near"], "weights": [1.0, 2.5]}, 2),
    "own_wide": (THREE, {**LOCAL, **WEIGHED["wide"]}, 2),
    "own_late": (WIDE, {**LOCAL, **WEIGHED["late"]}, 2),
    "own_deep": (ORDERED, {**LOCAL, **WEIGHED["deep"]}, 3),
    "own_deep_letters": (THREE, {**LOCAL, **WEIGHED["deep by feature"]}, 2),
    "own_few_rows": (UNEVEN, {**LOCAL, "min_leaf": 2, **WEIGHED["even"]}, 3),
    "own_grid": (BOX, {"kind": "grid", "cuts": [None, [0.5, 1.5]], "weights": [2.0, 1.0], **WEIGHED["wide"]}, 2),
    "own_grid_line": (LINE, {"kind": "grid", "cuts": [[0.5, 1.5, 5.0]], **WEIGHED["late of all"]}, 3),
    "own_grid_deep": (LINE, {"kind": "grid", "cuts": [[0.5, 1.5, 5.0]], **WEIGHED["deep"]}, 3),
    "own_deep_edge": (EDGE, {**LOCAL, **WEIGHED["deep"]}, 3),
    "own_line": ({"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}, {**LOCAL, **WEIGHED["wide"]}, 3),
    "own_late_line": ({"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}, {**LOCAL, **WEIGHED["late"]}, 3),
}
"""Spaces in which a function of one's own weighs the splits."""

THREE_LETTERS = {"X": [("a",), ("b",), ("c",)], "y": [0, 1, 1], "nominal": {0}}
FOUR_LETTERS = {"X": [("a",), ("b",), ("c",), ("d",)], "y": [0, 1, 1, 0], "nominal": {0}}
SPECIAL = {
    "grid_three": (THREE, {"kind": "grid", "cuts": [None, [1.5]]}, 2),
    "three_letters": (THREE_LETTERS, LOCAL, 3),
    "four_letters": (FOUR_LETTERS, LOCAL, 2),
    "corners": (CORNERS, LOCAL, 3),
    "prism": (PRISM, LOCAL, 3),
    "five_corners": (FIVE_CORNERS, LOCAL, 3),
    "short_line": ({"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}, LOCAL, 2),
    "pairs_on_a_line": ({"X": [row[:1] for row in LONG["X"]], "y": LONG["y"]}, {**LOCAL, "min_leaf": 2}, 3),
    "weighted_line": ({**WIDE, "X": [row[:1] for row in WIDE["X"]]}, LOCAL, 2),
    "line_below": ({"X": [(0.0, 0.0), (1.0, 0.0), (3.0, 0.0), (4.0, 1.0)], "y": [0, 1, 1, 0]}, LOCAL, 3),
    "mirrored": ({"X": [(0.0, 2.0), (1.0, 1.0), (2.0, 0.0), (2.0, 0.0)], "y": [0, 1, 1, 0]}, LOCAL, 2),
    "line_of_four": ({"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}, LOCAL, 3),
}
"""More than two categories in a cell; subtrees that rotations cut and merge; one feature alone."""


def kind_of(case):
    """What sort of questions a case asks."""
    _, split_prior, _ = (CASES | SMALL | TINY | SPECIAL | GAPS | OWN_SPLITS)[case]
    few = split_prior.get("min_leaf", 1) > 1
    uneven = case == "min_leaf_uneven"
    own = tuple(sorted(name for name in ("weigh", "over", "by_depth") if name in split_prior))
    return (split_prior["kind"], *(name for name in ("trivial", "cyclic") if split_prior.get(name)), few, uneven, *own)


def shown_by(step, case, prior, leaf):
    """What is tried of a step by a combination: questions, a prior, a leaf model, nominal or not; and the case."""
    data = (CASES | SMALL | TINY | SPECIAL | GAPS | OWN_SPLITS)[case][0]
    return (step, kind_of(case)), (step, prior), (step, leaf), (step, bool(data.get("nominal"))), case


COSTLY = (
    *("three_categories", "trivial", "min_leaf_2_nominal", "grid", "trivial_weights", "trivial_line", "trivial_pair"),
    *("gaps_nominal", "gaps_local", "gaps_grid_line", "grid_line", "grid_box", "ties", "min_leaf_2", "gaps_cyclic"),
)
"""Cases whose matrices take longest."""


def problem(data, split_prior, prior, leaf, *, estimation=None, **changes):
    """A naive problem from its parts; for the Laplace score the rows of E are every other one by default."""
    y, n = data["y"], len(data["X"])
    if leaf["kind"] in ("nig", "known"):
        y = [label + 0.1 * i for i, label in enumerate(y)]
    if leaf["kind"] == "laplace" and estimation is None:
        estimation = [i % 2 == 0 for i in range(n)]
    parts = {**data, "y": y, **changes}
    return Problem(**parts, split_prior=split_prior, tree_prior=prior, leaf=leaf, estimation=estimation)


def case_problem(case, prior, leaf, **changes):
    """The problem of a case, a prior of PRIORS and a leaf of LEAVES, by name."""
    data, split_prior, depth = (CASES | SMALL | TINY | SPECIAL | GAPS | OWN_SPLITS)[case]
    tree_prior = {**PRIORS[prior], "max_depth": depth}
    if split_prior["kind"] == "fixed" and isinstance(tree_prior.get("rho"), list):
        tree_prior["rho"] = RHO_BY_NODE
    return problem(data, split_prior, tree_prior, {**LEAVES, "own": OWN}[leaf], **changes)
