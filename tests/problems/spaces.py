"""Small problems by name: a table, a split prior and a depth limit, to be had with any tree prior and any leaf."""

from tests.problems.leaves import NAMED
from tests.problems.priors import (
    CYCLIC,
    DYADIC,
    FIXED,
    GRID,
    LOCAL,
    PRIORS,
    RHO_BY_NODE,
    THREE_CUTS,
    TRIVIAL,
    TWO_ROWS,
    WEIGHED,
)
from tests.problems.tables import (
    BINARY,
    BOX,
    CORNERS,
    CROWDED,
    FIVE_CORNERS,
    FOUR_LETTERS,
    LINE,
    LONG,
    MIXED,
    NOMINAL,
    ORDERED,
    PAIR,
    PRISM,
    THREE,
    THREE_LETTERS,
    TWO,
    UNEVEN,
    WIDE,
)
from tests.reference.enumeration import Problem

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
"""Data, splits and depth limit of each small space."""
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
SPECIAL = {
    "shallow_ties": (ORDERED, LOCAL, 2),
    "box": (BOX, {**LOCAL, "weights": [3.0, 0.5]}, 2),
    "trivial_one": ({"X": [("a",), ("a",)], "y": [0, 1], "nominal": {0}}, TRIVIAL, 2),
    "grid_three": (THREE, {"kind": "grid", "cuts": [None, [1.5]]}, 2),
    "three_letters": (THREE_LETTERS, LOCAL, 3),
    "four_letters": (FOUR_LETTERS, LOCAL, 2),
    "corners": (CORNERS, LOCAL, 3),
    "prism": (PRISM, LOCAL, 3),
    "five_corners": (FIVE_CORNERS, LOCAL, 3),
    "pure_below": ({"X": [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0), (3.0, 2.0)], "y": [0, 0, 0, 1]}, LOCAL, 2),
    "short_line": ({"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}, LOCAL, 2),
    "pairs_on_a_line": ({"X": [row[:1] for row in LONG["X"]], "y": LONG["y"]}, {**LOCAL, "min_leaf": 2}, 3),
    "weighted_line": ({**WIDE, "X": [row[:1] for row in WIDE["X"]]}, LOCAL, 2),
    "line_below": ({"X": [(0.0, 0.0), (1.0, 0.0), (3.0, 0.0), (4.0, 1.0)], "y": [0, 1, 1, 0]}, LOCAL, 3),
    "mirrored": ({"X": [(0.0, 2.0), (1.0, 1.0), (2.0, 0.0), (2.0, 0.0)], "y": [0, 1, 1, 0]}, LOCAL, 2),
    "line_of_four": ({"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}, LOCAL, 3),
}
"""More than two categories in a cell; subtrees that rotations cut and merge; one feature alone."""
EDGE = {"X": [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (2.0, 0.0), (4.0, 0.0)], "y": [0, 1, 1, 0, 1]}
"""Below an edge that turns lies a cell with splits of two features."""
FOUR_ON_A_LINE = {"X": [(0.0,), (1.0,), (3.0,), (4.0,)], "y": [0, 1, 1, 0]}
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
    "own_line": (FOUR_ON_A_LINE, {**LOCAL, **WEIGHED["wide"]}, 3),
    "own_late_line": (FOUR_ON_A_LINE, {**LOCAL, **WEIGHED["late"]}, 3),
}
"""Spaces in which a function of one's own weighs the splits."""
SPACES = CASES | SMALL | SPECIAL | GAPS | OWN_SPLITS


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
    data, split_prior, depth = SPACES[case]
    tree_prior = {**PRIORS[prior], "max_depth": depth}
    if split_prior["kind"] == "fixed" and isinstance(tree_prior.get("rho"), list):
        tree_prior["rho"] = RHO_BY_NODE
    return problem(data, split_prior, tree_prior, NAMED[leaf], **changes)


def kinds_of(case):
    """Return the sort of splits of a case, in words."""
    split_prior = SPACES[case][1]
    words = {"trivial": split_prior.get("trivial"), "cyclic": split_prior.get("cyclic")}
    words |= {"few": split_prior.get("min_leaf", 1) > 1, "nominal": bool(SPACES[case][0].get("nominal"))}
    return {split_prior["kind"]} | {word for word, is_so in words.items() if is_so}
