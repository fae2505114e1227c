"""Tree priors: named ones, random ones, and what the library calls them; a new tree prior enters here."""

from tests.reference.enumeration import count_nodes

KINDS = ("stopped", "conditioned", "chipman", "penalty")
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


def library_tree_prior(package, prior):
    """The tree prior in the classes of ``package``."""
    kind, rest = prior["kind"], {name: value for name, value in prior.items() if name != "kind"}
    if kind in ("stopped", "conditioned"):
        return package.BranchingProcess(**rest, conditioned=kind == "conditioned")
    return {"chipman": package.ChipmanPrior, "penalty": package.LeafPenalty}[kind](**rest)


def random_tree_prior(rng, kind, design):
    """A tree prior of that kind for trees with such splits."""
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
