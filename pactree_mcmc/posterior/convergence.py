"""Convergence of chains: split R-hat and bulk effective sample size, and advice if they are not good enough.

After Vehtari, Gelman, Simpson, Carpenter, Bürkner, *Rank-normalization, folding, and localization: an improved R-hat
for assessing convergence of MCMC*, Bayesian Analysis 16 (2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.checks import check_count
from ..core.warn import warn
from ..tree.coded import leaves_of_units
from .ess import (
    FEWEST_PER_CHAIN,
    ConvergenceWarning,
    chains_apart,
    chains_drift,
    explained_by_chance,
    rhat_and_ess,
    rhat_and_ess_by_tree,
)
from .evidence import evidences_differ
from .space.tree_ess import distances_from, draw_words, focal_draws

if TYPE_CHECKING:
    from ..model import TreeModel
    from .sampled import SampledPosterior

MOST_RHAT = 1.01
LARGEST_RHAT = 1.03
"""Largest R-hat of a prediction that passes, however well chance explains it."""
FALSE_ALARMS = 0.01
"""Level of the test of all predictions together: the probability of a false alarm, about."""
MOST_POINTS, FEWEST_POINTS = 500, 50
"""Largest number of training rows whose predictions are checked, and the number that ``MOST_VALUES`` leaves."""
MOST_VALUES = 20_000_000
"""Number of predictions, rows times classes times distinct trees, beyond which fewer rows are checked: 160 MB."""
LEAST_ESS = 400.0
FEWEST_DRAWS = 100
"""With fewer draws in all nothing is diagnosed."""
N_CLASSES = 3
"""Classes whose probability is checked, at most."""
PREDICTIONS = "predictions"
SCALARS = ("log posterior", "number of leaves", "depth")
"""Quantities that come first."""
N_FOCAL = 12
"""Trees from which distances are checked, at most."""
RARE = 0.02
"""Features at the root, or in the tree, with a probability below this or above one minus this are not checked."""
N_LISTED = 3
"""Of the root features, the inclusions, the distances and the predictions, the worst that a warning lists."""
SLOW = 20.0
"""If the run would have to be this many times longer, tempering is advised instead."""
LENGTHS = ("tune", "thin", "proposals")
"""Arguments of `sample` that make a run of given length."""


HEADER = (
    "the draws may not represent the posterior; "
    f"wanted: R-hat at most {MOST_RHAT}, effective sample size (ESS) at least {LEAST_ESS:.0f}."
)


NO_PROOF = (
    "No proof of convergence: chains that are all in the same wrong mode look the same. Compare with another rng=, "
    "with betas=8, or with exact.solve of a smaller model."
)
NO_WITNESS = "All that is compared tuned together, so that no other chain confirms it independently: give chains=4."
"""Remark on a run with one team of chains."""


def warn_if_unconverged(post: SampledPosterior, *, max_points: int = MOST_POINTS, levels: int = 1) -> None:
    """Give one ConvergenceWarning that lists all that `check_convergence` finds.

    Parameters
    ----------
    post : SampledPosterior
        Draws of chains.
    max_points, levels : int
        As for `check_convergence`.

    Raises
    ------
    ValueError
        If ``max_points`` is below 1.

    Examples
    --------
    >>> import warnings, pactree_mcmc as pt
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ConvergenceWarning)
    ...     post = pt.sample(pt.TreeModel([[0.0], [1.0]], [0, 1]), 30, tune=0, chains=2, rng=1)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_unconverged(post)
    >>> print(caught[0].message)
    too few draws to judge convergence: 60 in all; give at least 400, better draws=1000.
    """
    lines = check_convergence(post, max_points, levels=levels)
    if lines:
        warn("\n  ".join(lines), ConvergenceWarning)


def check_convergence(post: SampledPosterior, max_points: int = MOST_POINTS, *, levels: int = 1) -> list[str]:
    """Returns the convergence criteria that the draws of chains fail, and what to try.

    Checked are the log posterior, the number of leaves, the depth, the feature at the root and the features in the tree
    (each as an indicator, if in some chain its probability exceeds 0.02 and in some it is below 0.98), the distances
    from up to 12 trees drawn (in cells that only one of the two trees has, if in some chain more than 0.02 of the draws
    are not at the commonest distance), the predictions at training rows, and where feature weights are drawn their
    concentration and the weights of the features in the tree: R-hat must not exceed 1.01, the bulk effective sample
    size must reach 400 (Vehtari et al. 2021). Of hundreds of predictions some exceed 1.01 by chance. Therefore an R-hat
    of a prediction between 1.01 and 1.03 fails only if the means of the halves of the chains differ by more than their
    Monte-Carlo errors explain, at the level 0.01 for all distinct predictions together (Bonferroni). With one chain,
    R-hat compares its halves. Chains most rarely move between trees of similar posterior probability with different
    features at the root, and neither the log posterior nor the number of leaves shows this. If the chains tuned in two
    teams, the log evidences that the teams find must agree: a difference of more than four standard errors and 0.1
    nats fails.

    Parameters
    ----------
    post : SampledPosterior
        Draws of chains; independent draws need no check.
    max_points : int, default 500
        Largest number of training rows whose predictions are checked, >= 1: all distinct rows, each at its first
        occurrence, or if there are more, that many of them at even steps (fewer, at least 50, if there are more than
        2e7 predictions of all distinct trees). For a classifier the probabilities of the classes that vary most at the
        row, at most 3 and never all.
    levels : int, default 1
        Number of levels of the run's ladder, for the advice.

    Returns
    -------
    list of str
        Empty if no criterion fails, which proves nothing: chains that are all in the same wrong mode agree. Otherwise
        the lines of a warning: the criteria, the quantities that fail with their values (the worst three of the root
        features, of the features in the tree, of the distances, of the predictions), evidences that differ, and
        advice. One line if there are fewer than 100 draws in all, or than 4 a chain.

    Raises
    ------
    ValueError
        If ``max_points`` is below 1.

    Notes
    -----
    O(distinct trees * (max_points + rows) * depth + quantities * draws * log(draws)), with up to 2,000 distinct rows;
    some .4 s for 4 x 1000 draws and 500 rows.
    For 4 x 1000 independent draws a warning has a probability below one in a hundred
    (tests/posterior/test_convergence.py). Predictions that differ by a 1e-9th of their range count as equal, as such
    differences are rounding.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt, warnings
    >>> x = np.arange(40.0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ConvergenceWarning)
    ...     post = pt.sample(pt.TreeModel(x[:, None], x > 19), 40, tune=50, chains=2, rng=1)
    >>> check_convergence(post)
    ['too few draws to judge convergence: 80 in all; give at least 400, better draws=1000.']
    """
    check_count("max_points", max_points)
    total = post.tree_of_draw.size
    if _are_too_few(post):
        return [f"too few draws to judge convergence: {total} in all; give at least 400, better draws=1000."]
    found, differ = _figures(post, max_points), _disagreement(post)
    if not (found.failed.any() or differ):
        return []
    return [HEADER, *_listed(found), *differ, *(_advice(post, found, levels) if found.failed.any() else [])]


def objections(post: SampledPosterior) -> list[str]:
    """Returns what `check_convergence` finds, without the advice."""
    if _are_too_few(post):
        return [f"too few draws to judge convergence: {post.tree_of_draw.size} in all."]
    found, differ = _figures(post, MOST_POINTS), _disagreement(post)
    return [HEADER, *_listed(found), *differ] if found.failed.any() or differ else []


def _disagreement(post: SampledPosterior) -> list[str]:
    """Return a line of a warning if teams of chains find different evidence."""
    return evidences_differ(None if post.course is None else post.course.evidences)


def _are_too_few(post: SampledPosterior) -> bool:
    return post.tree_of_draw.size < FEWEST_DRAWS or post.n_draws < FEWEST_PER_CHAIN


def verdict(post: SampledPosterior) -> str:
    """Returns what `check_convergence` finds as one text, or that it finds nothing and that this is no proof."""
    found = check_convergence(post)
    if found:
        return "\n  ".join(found)
    chains = "The halves of the chain agree" if post.n_chains == 1 else f"The {post.n_chains} chains agree"
    witness = ""
    if post.course is not None and post.course.kernel.is_guided and len(post.course.teams) == 1:
        witness = f" {NO_WITNESS}"
    return f"{chains} within what is wanted.{witness} {NO_PROOF}"


class Quantities(NamedTuple):
    """The quantities by which convergence is diagnosed, for each distinct tree."""

    names: list[str]
    group: list[str]
    """What each quantity is one of: "scalar", or the plural by which a warning counts it."""
    by_tree: np.ndarray
    """(quantities, n_distinct_trees)."""


class Figures(NamedTuple):
    """The quantities checked, with their R-hat and effective sample size; `SCALARS` come first."""

    names: list[str]
    group: np.ndarray
    by_tree: np.ndarray
    """(quantities, n_distinct_trees); those behind are by draw."""
    by_draw: np.ndarray
    """(further quantities, chains, draws)."""
    rhat: np.ndarray
    ess: np.ndarray
    by_chance: np.ndarray
    """(quantities,) bool: predictions with an R-hat above ``MOST_RHAT`` that chance explains."""

    def traces(self, which: np.ndarray, tree_of_draw: np.ndarray) -> np.ndarray:
        """The draws (m, chains, draws) of the quantities ``which`` (m,)."""
        n = len(self.by_tree)
        return np.array([self.by_tree[i][tree_of_draw] if i < n else self.by_draw[i - n] for i in which.tolist()])

    @property
    def failed(self) -> np.ndarray:
        """(quantities,) bool; a quantity fails if its R-hat or ESS is unknown."""
        return ~(((self.rhat <= MOST_RHAT) | self.by_chance) & (self.ess >= LEAST_ESS))

    @property
    def times_longer(self) -> np.ndarray:
        """(quantities,) how many times longer the run must be; R-hat - 1 falls as one over the draws."""
        times = np.maximum((self.rhat - 1.0) / (MOST_RHAT - 1.0), LEAST_ESS / self.ess)
        return np.where(np.isnan(times), np.inf, times)


def _figures(post: SampledPosterior, max_points: int) -> Figures:
    parts = [Quantities(list(SCALARS), ["scalar"] * len(SCALARS), _scalars(post)), features_judged(post)]
    parts += [trees_judged(post), _predictions(post, max_points)]
    by_tree = np.vstack([part.by_tree for part in parts])
    weights = weights_judged(post)
    by_draw = np.array([*weights.values()]).reshape(-1, *post.tree_of_draw.shape)
    found = [rhat_and_ess_by_tree(by_tree, post.tree_of_draw), *(rhat_and_ess(trace[None]) for trace in by_draw)]
    rhat, ess = (np.concatenate(part) for part in zip(*found, strict=True))
    names, group = ([x for part in parts for x in getattr(part, field)] for field in ("names", "group"))
    names, groups = [*names, *weights], np.array([*group, *["feature weights"] * len(weights)])
    by_chance = (groups == PREDICTIONS) & (rhat > MOST_RHAT) & (rhat <= LARGEST_RHAT) & (ess >= LEAST_ESS)
    doubtful = np.flatnonzero(by_chance) - (len(by_tree) - len(parts[-1].by_tree))
    by_chance[by_chance] = explained_by_chance(parts[-1].by_tree, post.tree_of_draw, doubtful, FALSE_ALARMS)
    return Figures(names, groups, by_tree, by_draw, rhat, ess, by_chance)


def _scalars(post: SampledPosterior) -> np.ndarray:
    """`SCALARS` (3, n_distinct_trees) of the trees."""
    log_posterior = _rounded((post.log_prior_of_tree + post.log_score_of_tree)[None])
    return np.vstack([log_posterior, post.n_leaves_of_tree[None], post.depth_of_tree[None]])


def agrees(log_posterior: np.ndarray) -> bool:
    """Whether the log posterior (chains, draws) alone satisfies the criterion."""
    rhat, ess = rhat_and_ess(_rounded(log_posterior)[None])
    return bool(rhat[0] <= MOST_RHAT and ess[0] >= LEAST_ESS)


def converged(post: SampledPosterior) -> bool:
    """Return True if `check_convergence` finds nothing; what takes long is looked at only if nothing else fails."""
    if _are_too_few(post):
        return False
    for judged in (_scalars, lambda post: features_judged(post).by_tree, lambda post: trees_judged(post).by_tree):
        rhat, ess = rhat_and_ess_by_tree(judged(post), post.tree_of_draw)
        if not np.all((rhat <= MOST_RHAT) & (ess >= LEAST_ESS)):
            return False
    return not (_figures(post, MOST_POINTS).failed.any() or _disagreement(post))


def weights_judged(post: SampledPosterior) -> dict[str, np.ndarray]:
    """Traces (chains, draws) of the concentration, if it is drawn, and of the weights of features that some chain has
    in more than 0.02 of its trees; none where feature weights are given.
    """
    drawn, weights, concentration = post.model.split_prior.drawn_weights, post.feature_weights, post.concentration
    if drawn is None or weights is None or concentration is None:
        return {}
    out = {"concentration": concentration} if drawn.concentration is None else {}
    asked = (post.split_counts > 0).mean(axis=1).max(axis=0)
    for k in np.flatnonzero(asked > RARE).tolist():
        out[f"weight of feature {post.model.columns.names[k]!r}"] = weights[..., k]
    return out


def features_judged(post: SampledPosterior) -> Quantities:
    """Whether a feature is at the root, and whether the tree splits on it, unless rarely, or mostly, in all chains.

    A feature that is rare in one chain and not in another is one about which the chains disagree.
    """
    p, names, group, rows = post.model.n_features, [], [], []
    by_chain = [np.bincount(chain, minlength=post.n_distinct_trees) for chain in post.tree_of_draw]
    # numbers of draws are added without rounding, so that what is exactly as rare is not judged
    counts = np.array(by_chain, dtype=np.float64).T
    root = post.root_feature_of_tree == np.arange(p)[:, None]
    for what, plural, holds in (
        ("root feature", "root features", root),
        ("inclusion of feature", "features", (post.split_counts_of_tree > 0).T),
    ):
        of_chain = holds @ counts / post.n_draws
        judged = np.flatnonzero((of_chain.max(axis=1) > RARE) & (of_chain.min(axis=1) < 1.0 - RARE))
        names += [f"{what} {post.model.columns.names[k]!r}" for k in judged.tolist()]
        group += [plural] * len(judged)
        rows.append(holds[judged].astype(np.float64))
    return Quantities(names, group, np.vstack(rows))


def trees_judged(post: SampledPosterior) -> Quantities:
    """Distances from a few trees drawn, unless nearly all draws of all chains lie equally far from it."""
    draws = focal_draws(post, N_FOCAL)
    by_tree = distances_from(post, post.tree_of_draw.ravel()[draws])
    judged = []
    for i, distance in enumerate(by_tree.astype(np.int64)[:, post.tree_of_draw]):
        commonest = [np.bincount(chain).max() for chain in distance]
        if min(commonest) < (1.0 - RARE) * post.n_draws:
            judged.append(i)
    names = [f"distance from the tree of {draw_words(post, draw)}" for draw in draws[judged].tolist()]
    return Quantities(names, ["distances between trees"] * len(names), by_tree[judged])


def _rounded(values: np.ndarray) -> np.ndarray:
    """Values in steps that hide rounding errors, which would break ties between trees."""
    finite = values[np.isfinite(values)]
    step = 1e-9 * np.ptp(finite) + 1e-14 * np.abs(finite).max() if len(finite) else 0.0
    return np.round(values / step) if step > 0.0 else values


def _predictions(post: SampledPosterior, max_points: int) -> Quantities:
    """Predictions at training rows: means, or the probabilities that vary most over the draws."""
    model = post.model
    if not model.leaf.predicts:
        return Quantities([], [], np.empty((0, post.n_distinct_trees)))
    n_classes = model.target.n_classes
    n_judged = 1 if model.classes_ is None else min(max(n_classes - 1, 1), N_CLASSES)
    most = max(MOST_VALUES // (n_judged * post.n_distinct_trees), FEWEST_POINTS)
    rows, units = distinct_rows(model, min(max_points, most))
    names, values = [], np.empty((len(rows), n_judged, post.n_distinct_trees))
    for i, (row, value) in enumerate(zip(rows.tolist(), _values_by_tree(post, rows, units), strict=True)):
        mean = post.weight_of_tree @ value
        # rounding must not choose between the classes, so that equal runs are judged alike
        variance = np.round(post.weight_of_tree @ (value - mean) ** 2, 12)
        judged = np.sort(np.argsort(-variance, kind="stable")[:n_judged])
        values[i] = value[:, judged].T
        for k in judged.tolist():
            label = f" P(y = {model.classes_[k]})" if model.classes_ is not None and n_classes > 2 else ""
            names.append(f"prediction{label} at row {row}")
    by_tree = _rounded(values.reshape(-1, post.n_distinct_trees))
    return Quantities(names, [PREDICTIONS] * len(names), by_tree)


def _values_by_tree(post: SampledPosterior, rows: np.ndarray, units: np.ndarray) -> Iterator[np.ndarray]:
    """Yield for each row, of the given unit, what the distinct trees predict there (n_distinct_trees, k)."""
    model, regressors = post.model, post.model.target.regressors
    for start in range(0, len(rows), FEWEST_POINTS):
        part = slice(start, start + FEWEST_POINTS)
        reached = leaves_of_units(post.coded_trees, model.units.codes, units[part])
        if regressors is not None:
            for row, nodes in zip(rows[part].tolist(), reached, strict=True):
                own = np.tile(regressors[row], (len(nodes), 1))
                yield model.leaf.value(post.node_stats[nodes], model.target, own)
            continue
        # a leaf that several rows reach is evaluated once
        is_reached = np.zeros(len(post.node_stats), dtype=bool)
        is_reached[reached.ravel()] = True
        number = np.cumsum(is_reached) - 1
        of_leaf = model.leaf.value(post.node_stats[is_reached], model.target)
        for nodes in reached:
            yield of_leaf[number[nodes]]


def distinct_rows(model: TreeModel, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers and units (m,) of at most ``most`` rows that the model does not treat alike.

    Rows are alike if no split separates them and the leaf uses no values of theirs that differ. Of these the first
    counts. If more than ``most`` are left, those at even steps are taken, the first and the last one among them.
    """
    units = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    regressors = model.target.regressors
    if regressors is None:
        some, more = np.sort(np.unique(units, return_index=True)[1]), []
    else:
        some, more = np.arange(model.n_rows), [*regressors.T]
    keys, number = [*model.units.codes[:, units[some]], *more], np.zeros(len(some), dtype=np.int64)
    for key in keys:
        if number.max() + 1 == len(number):
            break
        # of pairs of what was seen before and the next column
        codes = np.unique(key, return_inverse=True)[1]
        number = np.unique(number * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    rows = some[np.sort(np.unique(number, return_index=True)[1])]
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
    return rows, units[rows]


def training_points(model: TreeModel, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (m,) and numbers (m, p) that every tree of the model routes as it routes these training rows.

    At most ``max_points`` rows, evenly spaced; of rows with equal codes the first. The numbers are one for each code:
    its smallest value under local cuts, else the cut above it.
    """
    rows, units = _training_units(model, max_points)
    return rows, model.unit_numbers(units)


def _training_units(model: TreeModel, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers and units (m,) of at most ``max_points`` rows, evenly spaced; of rows with equal codes the first."""
    rows = np.unique(np.linspace(0, model.n_rows - 1, min(max_points, model.n_rows)).astype(np.int64))
    units = rows if model.unit_of_row is None else model.unit_of_row[rows]
    first = np.sort(np.unique(model.units.codes[:, units], axis=1, return_index=True)[1])
    return rows[first], units[first]


def _listed(found: Figures) -> list[str]:
    """The quantities that fail with their figures, of each group but the scalars the worst only."""
    lines = []
    for group in dict.fromkeys(found.group.tolist()):
        failed = np.flatnonzero(found.failed & (found.group == group))
        if group == "scalar":
            lines += [_line(found, i) for i in failed.tolist()]
            continue
        worst = failed[np.argsort(-found.times_longer[failed], kind="stable")]
        lines += [_line(found, i) for i in worst[:N_LISTED].tolist()]
        if len(worst) > N_LISTED:
            lines.append(f"and {len(worst) - N_LISTED} more of {(found.group == group).sum()} {group}")
    return lines


def _line(found: Figures, i: int) -> str:
    rhat, ess = float(found.rhat[i]), float(found.ess[i])
    # rounded away from the bounds, so that what fails looks it
    shown = f"{math.ceil(rhat * 1000) / 1000:.3f}" if rhat < 1.1 else f"{rhat:.2f}"
    return f"{found.names[i]}: R-hat {shown}, ESS {ess if math.isnan(ess) else math.floor(ess)}"


def _advice(post: SampledPosterior, found: Figures, levels: int) -> list[str]:
    """What to try, in the order of what helps most."""
    worst = np.argsort(-found.times_longer, kind="stable")[:N_LISTED]
    apart = post.n_chains > 1 and chains_apart(found.traces(worst, post.tree_of_draw))
    drifts = chains_drift(found.by_tree[: len(SCALARS)][:, post.tree_of_draw])
    times = float(found.times_longer.max())
    found_length = _found_length(post)
    remedy = _remedy(found_length, levels)
    out = []
    if apart:
        out.append(f"The chains are in different modes and stay there: try {remedy}.")
    if drifts and not found_length:
        halves = "half of the chain differs" if post.n_chains == 1 else "halves of the chains differ"
        out.append(f"The second {halves} from the first: raise tune by {post.n_draws} or more.")
    if not apart and times > SLOW:
        out.append(f"The chains move slowly, {_more(post, found_length, times)} would be needed: try {remedy} first.")
    elif not apart and (found_length or not drifts):
        out.append(f"Try {_more(post, found_length, times)}.")
    if post.n_chains == 1:
        out.append("One chain cannot show what others would find: give chains=4; here R-hat compares its halves.")
    if post.tree_of_draw.size < LEAST_ESS:
        out.append(f"With {post.tree_of_draw.size} draws in all the ESS cannot be expected to reach {LEAST_ESS:.0f}.")
    return out


def _found_length(post: SampledPosterior) -> bool:
    """Whether the default run made the draws, with kernel "whole" or, where learning does not pay, with "local"."""
    if post.calls:
        given = post.calls[0].arguments
        if given.get("kernel") == repr("default") and not any(name in given for name in LENGTHS):
            return True
    return post.course is not None and bool(post.course.kernel.adapts)


def _remedy(found_length: bool, levels: int) -> str:
    """Advice for chains that hardly move."""
    if levels > 1:
        return f"betas={2 * levels}"
    if found_length:
        return "more chains=, or betas=8"
    return "a run without kernel=, tune=, thin= and proposals=, which draws whole trees until the chains agree"


def _more(post: SampledPosterior, found_length: bool, times: float) -> str:
    """The advice to make this many times as many draws, or steps of a run that finds its own length."""
    what, done = ("steps", post.course.steps) if found_length and post.course else ("draws", post.n_draws)
    if times > 1000.0:
        return f"more than 1000 times as many {what}"
    unit = 10 ** max(math.floor(math.log10(done * times)) - 1, 0)
    shown = f"{math.ceil(10.0 * times) / 10.0:.1f}" if times < 3.0 else f"{math.ceil(times)}"
    return f"about {shown} times as many {what} ({what}={math.ceil(done * times / unit) * unit})"
