"""Random tiny problems, each in the two forms in which the reference enumerator and the library take it."""

import numpy as np
import pandas as pd
import polars as pl
from own_leaves import own_poisson
from own_splits import WEIGHED, own_splits
from reference.enumeration import LEAF, Problem, admissible_questions, child_cells, count_nodes, log_split, root_cell

import pactree_mcmc as pt
from pactree_mcmc.table.coding import LARGEST

SPLIT_PRIORS = ("local", "grid", "dyadic", "fixed")
TREE_PRIORS = ("stopped", "conditioned", "chipman", "penalty")
LEAVES = ("dirichlet", "laplace", "nig", "known", "poisson", "loss", "own")
OWN_SPLITS = ("own local", "own grid")
"""Split priors of one's own, tried where they are asked for: among all kinds they would change what others draw."""
CLASS_LEAVES = ("dirichlet", "laplace", "loss")


def random_problem(rng, *, split_prior=None, tree_prior=None, leaf=None, max_trees=20_000, gaps=False):
    """A random Problem with at most ``max_trees`` trees and the TreeModel that says the same.

    The kinds of questions, tree prior and leaf are random where they are not given. Problems of few trees are rare.
    With ``gaps`` some values are missing.
    """
    while True:
        kinds = [
            str(rng.choice(all_kinds)) if kind is None else kind
            for kind, all_kinds in ((split_prior, SPLIT_PRIORS), (tree_prior, TREE_PRIORS), (leaf, LEAVES))
        ]
        problem = _random_reference(rng, *kinds, gaps)
        n = number_of_trees(problem, max_trees)
        if n is not None and rng.random() < n / 20:
            return problem, model_of(problem, rng, unit_weights=rng.random() < 0.2)


def to_tree(nested, mask_of, **more):
    """The Tree of a nested tuple of the reference; ``mask_of(feature, labels)`` gives the bits of categories."""
    nodes = []

    def add(node):
        here = len(nodes)
        nodes.append([-1, 0.0, 0, 0, -1, False])
        if node != LEAF:
            _, k, rule, left, right = node
            add(left)
            threshold, bits, missing_left = 0.0, -1, False
            if isinstance(rule, frozenset):
                bits = mask_of(k, rule)
            elif isinstance(rule, tuple):
                threshold, missing_left = float(np.clip(rule[0], -LARGEST, LARGEST)), rule[1] == "left"
            else:
                threshold = rule
            nodes[here] = [k, threshold, here + 1, len(nodes), bits, missing_left]
            add(right)

    add(nested)
    return pt.Tree(*zip(*nodes, strict=True), **more)


def model_of(problem, rng, *, unit_weights=False):
    """The TreeModel of a Problem, its table in one of the forms the library reads.

    Weights that are all 1 are passed when ``unit_weights``.
    """
    table, nominal = _table(problem, rng)
    weighted = unit_weights or set(problem.weights) != {1.0}
    return pt.TreeModel(
        table,
        np.array(problem.y),
        tree_prior=_library_tree_prior(problem),
        split_prior=_library_questions(problem),
        leaf=_library_leaf(problem),
        nominal=nominal,
        missing="branch" if any(None in row for row in problem.X) else "error",
        sample_weight=np.array(problem.weights) if weighted else None,
        estimation=None if problem.estimation is None else np.array(problem.estimation),
    )


class _TooManyError(Exception):
    pass


def number_of_trees(problem, limit):
    """How many trees have positive prior; None when they are more than ``limit``."""
    known = {}

    def count(cell):
        key = (tuple(cell.rows), *cell.box.values(), *cell.n_splits.values(), cell.depth, cell.number)
        if key not in known:
            total = 1
            for k, rule, _ in admissible_questions(problem, cell):
                if log_split(problem, cell) == -np.inf:
                    break
                left, right = child_cells(problem, cell, k, rule)
                total += count(left) * count(right)
                if total > limit:
                    raise _TooManyError
            known[key] = total
        return known[key]

    try:
        return count(root_cell(problem))
    except _TooManyError:
        return None


def _random_reference(rng, split_prior, tree_prior, leaf, gaps):
    p = int(rng.integers(1, 4))
    X, nominal = _random_rows(rng, int(rng.integers(2, 8)), p, allow_nominal=split_prior != "dyadic", gaps=gaps)
    n = len(X)
    estimation = None
    if leaf == "laplace" or (leaf == "loss" and rng.random() < 0.5):
        estimation = (rng.random(n) < 0.5).tolist()
        estimation[int(rng.integers(n))] = True
    weights = rng.choice([0.0, 0.5, 1.0, 1.7, 2.0], n).tolist() if rng.random() < 0.4 else None
    design = _random_questions(rng, split_prior, X, nominal)
    if gaps and split_prior == "local":
        design["trivial"] = False
    return Problem(
        X=X,
        y=_random_y(rng, leaf, n),
        nominal=nominal,
        weights=weights,
        estimation=estimation,
        tree_prior=_random_tree_prior(rng, tree_prior, design),
        split_prior=design,
        leaf=_random_leaf(rng, leaf, n),
    )


def _random_rows(rng, n, p, allow_nominal, gaps):
    """Rows of quarters and letters, with ties, constant columns and duplicate rows; with ``gaps`` some are missing."""
    nominal, columns = set(), []
    for k in range(p):
        n_values = int(rng.integers(1, 5))
        if allow_nominal and rng.random() < 0.4:
            nominal.add(k)
            columns.append(rng.choice(list("abcd")[:n_values], n).tolist())
        elif rng.random() < 0.6:
            columns.append(rng.choice(np.arange(-1.0, 2.0, 0.25)[: 3 * n_values], n).tolist())
        else:
            columns.append(rng.permutation(np.arange(n) * 0.5 - 1.0).tolist())
    if gaps:
        columns = [_with_gaps(rng, column) for column in columns]
    X = list(zip(*columns, strict=True))
    if rng.random() < 0.4 and not gaps:
        X = [X[i] for i in rng.integers(n, size=n)]
    return X, nominal


def _with_gaps(rng, column):
    """Some of the values of a column missing, but not all."""
    lacks = rng.random(len(column)) < rng.choice([0.0, 0.3, 0.6])
    lacks[int(rng.integers(len(column)))] = False
    return [None if lack else value for lack, value in zip(lacks, column, strict=True)]


def _random_y(rng, leaf, n):
    if leaf in CLASS_LEAVES:
        labels = [[0, 1, 2], ["no", "yes", "maybe"], [False, True], [-3, 10, 7]][int(rng.integers(4))]
        return [labels[i] for i in rng.integers(int(rng.integers(1, len(labels) + 1)), size=n)]
    if leaf in ("poisson", "own"):
        return rng.poisson(float(rng.choice([0.5, 4.0])), n).tolist()
    return (float(rng.choice([0.0, 30.0])) + rng.normal(size=n).round(int(rng.integers(4)))).tolist()


def _random_questions(rng, kind, X, nominal):
    p = len(X[0])
    weights = (rng.choice([0.0, 0.5, 1.0, 3.0], p) if rng.random() < 0.4 else np.ones(p)).tolist()
    design = {"kind": kind, "weights": weights if any(weights) else None}
    if kind in OWN_SPLITS:
        design = _random_questions(rng, kind.split()[1], X, nominal)
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


def _random_tree_prior(rng, kind, design):
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


def _random_leaf(rng, kind, n):
    names = {
        "dirichlet": ("alpha",),
        "laplace": ("pseudocount",),
        "nig": ("m0", "k0", "a0", "b0"),
        "known": ("sigma2", "m0", "k0"),
        "poisson": ("shape", "rate"),
        "loss": ("lambda1", "lambda2"),
        "own": ("shape", "rate"),
    }
    leaf = {"kind": kind, **{name: float(rng.uniform(0.2, 3.0)) for name in names[kind]}}
    if kind == "poisson" and rng.random() < 0.5:
        leaf["exposure"] = rng.uniform(0.5, 2.0, n).tolist()
    if kind == "loss" and rng.random() < 0.3:
        leaf["lambda2"] = 0.0
    return leaf


def _table(problem, rng):
    """X as an array, a pandas or a polars frame, and what to pass as ``nominal``."""
    X, nominal = problem.X, sorted(problem.nominal)
    form = str(rng.choice(["array", "fortran", "pandas", "polars"]))
    if form in ("array", "fortran"):
        array = np.array(X, dtype=object if nominal else np.float64)
        return np.asarray(array, order="C" if form == "array" else "F"), nominal or None
    columns = {f"f{k}": list(column) for k, column in enumerate(zip(*X, strict=True))}
    if form == "pandas":
        frame = pd.DataFrame(columns)
        return frame.astype({f"f{k}": "category" for k in nominal}), None
    types = {f"f{k}": pl.Categorical if k in nominal else pl.Float64 for k in range(len(columns))}
    return pl.DataFrame(columns, schema=types), None


def _library_tree_prior(problem):
    prior = problem.tree_prior
    depth = {"max_depth": prior["max_depth"]}
    if prior["kind"] == "chipman":
        return pt.ChipmanPrior(prior["alpha"], prior["beta"], **depth)
    if prior["kind"] == "penalty":
        return pt.LeafPenalty(prior["cost"], empty_cost=prior.get("empty_cost"), **depth)
    return pt.BranchingProcess(prior["rho"], conditioned=prior["kind"] == "conditioned", **depth)


def _library_questions(problem):
    design = problem.split_prior
    geometry = _geometry(problem)
    own = {name: design[name] for name in ("weigh", "params", "over", "by_depth") if name in design}
    return own_splits(geometry, own) if own else geometry


def _geometry(problem):
    design = problem.split_prior
    if design["kind"] == "local":
        return pt.LocalCuts(design["trivial"], design["min_leaf"], feature_weights=design.get("weights"))
    if design["kind"] == "grid":
        return pt.GridCuts(design["cuts"], feature_weights=design.get("weights"))
    if design["kind"] == "dyadic":
        bounds = design["bounds"] if design["given"] else None
        return pt.DyadicCuts(design["levels"], design["cyclic"], bounds, feature_weights=design.get("weights"))

    def mask_of(k, labels):
        return sum(1 << j for j, c in enumerate(sorted(problem.categories[k])) if c in labels)

    tree = to_tree(design["tree"], mask_of)
    return pt.FixedTree(tree, np.isin(np.arange(tree.n_nodes), list(design.get("joint", ()))))


def _library_leaf(problem):
    parts = {name: value for name, value in problem.leaf.items() if name != "kind"}
    return {
        "dirichlet": pt.DirichletMultinomial,
        "laplace": pt.FrozenLaplace,
        "nig": pt.NormalInverseGamma,
        "known": pt.NormalKnownVariance,
        "poisson": pt.PoissonGamma,
        "loss": pt.PacBayesLoss,
        "own": own_poisson,
    }[problem.leaf["kind"]](**parts)
