"""Weights of splits of a user's own, in the words of a user, and the priors made of them."""

import math

import pactree_mcmc as pt


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
    """The split prior that weighs ``of``."""
    return package.CustomSplits(given["weigh"], of, **{name: given[name] for name in given if name != "weigh"})
