"""The convergence criteria of chains, and advice if some fail. R-hat and effective sample size come from `ess`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.checks import check_count
from ..core.warn import warn
from ..model.words import names_of_outputs
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
from .trees.cells import distinct_rows
from .trees.distances import distances_from, draw_words, focal_draws

if TYPE_CHECKING:
    import pandas as pd

    from .draws import DrawnTrees

MOST_RHAT = 1.01
"""Largest R-hat that passes, from Vehtari et al. (2021)."""
LARGEST_RHAT = 1.03
"""Largest R-hat of a prediction that passes if chance explains why it exceeds ``MOST_RHAT``."""
FALSE_ALARMS = 0.01
"""Level of the test of all predictions together: about the probability of a false alarm."""
MOST_POINTS, FEWEST_POINTS = 500, 50
"""Default number of training rows whose predictions are checked, and that to which ``MOST_VALUES`` may lower it."""
MOST_VALUES = 20_000_000
"""Number of predictions, rows times classes times distinct trees, beyond which fewer rows are checked: 160 MB."""
LEAST_ESS = 400.0
"""Smallest effective sample size that passes, from Vehtari et al. (2021)."""
FEWEST_DRAWS = 100
"""Number of draws of all chains below which the criteria are not evaluated."""
N_CLASSES = 3
"""Largest number of classes whose probability is checked at a row."""
PREDICTIONS = "predictions"
"""Name of the group of quantities that are predictions."""
SCALARS = ("log posterior", "number of leaves", "depth")
"""Names of the quantities that are one number of a tree; they come first in every list of quantities."""
N_FOCAL = 12
"""Largest number of trees from which distances are checked."""
RARE = 0.02
"""Smallest probability of an indicator that is checked; the largest one is 1 - RARE."""
N_LISTED = 3
"""Largest number of failing quantities of each kind, the worst first, that a warning lists."""
SLOW = 20.0
"""Factor by which the run would have to be longer, above which another kind of run is advised instead."""
RESUMED = 1.5
"""Largest factor by which the run would have to be longer at which the advice is to resume it."""
LENGTHS = ("tune", "thin", "proposals")
"""Arguments of `sample` that fix the length of a run."""
HEADER = (
    "the draws may not represent the posterior; "
    f"wanted: R-hat at most {MOST_RHAT}, effective sample size (ESS) at least {LEAST_ESS:.0f}."
)
READ_ON = "All quantities: post.diagnosis. What they mean: docs/howto_disagree.md, When chains disagree."
"""Last line of a warning."""
NO_PROOF = (
    "No proof of convergence: chains that are all in the same wrong mode look the same. Compare with another rng=, "
    "with betas=8, or with exact.solve of a smaller model."
)
NO_WITNESS = "All that is compared tuned together, so that no other chain confirms it independently: give chains=4."
"""Remark on a run whose chains all tuned together, as one team."""


def warn_if_unconverged(post: DrawnTrees, *, max_points: int = MOST_POINTS, levels: int = 1) -> None:
    """Give one ConvergenceWarning with the lines of `short_diagnosis`, or none if no criterion fails."""
    lines = short_diagnosis(post, max_points, levels=levels)
    if lines:
        warn("\n  ".join(lines), ConvergenceWarning)


def short_diagnosis(
    post: DrawnTrees, max_points: int = MOST_POINTS, *, levels: int = 1, figures: Figures | None = None
) -> list[str]:
    """Return the criteria of `check_convergence` that fail in at most five lines; an empty list if none fails.

    The lines are the verdict, the worst quantity of each kind, the log evidences of the teams of chains if these
    differ, the advice, and where to read on. ``levels`` is the number of inverse temperatures of the run, for the
    advice. ``figures`` are computed if they are None.
    """
    if _are_too_few(post):
        return [_too_few(post)]
    figures = _figures(post, max_points) if figures is None else figures
    differences = [f"{line[:1].upper()}{line[1:]}." for line in _disagreement(post)]
    if not figures.failed.any():
        return [HEADER, *differences, READ_ON] if differences else []
    worst = [failed[0] for _, failed in figures.failed_by_group()]
    listed = ", ".join(f"{figures.names[i]} ({', '.join(_shown(figures, i))})" for i in worst)
    head = [f"{HEADER} {_count_words(figures)}", f"Worst of each kind (R-hat, ESS): {listed}."]
    return [*head, *differences, " ".join(_advice(post, figures, levels)), READ_ON]


def one_line(post: DrawnTrees) -> str:
    """Return a phrase on the worst quantity that fails the criteria, without advice; an empty text if none fails."""
    if _are_too_few(post):
        return _too_few(post).partition(";")[0]
    figures = _figures(post, MOST_POINTS)
    if not figures.failed.any():
        return next(iter(_disagreement(post)), "")
    worst = int(np.argmax(figures.times_longer))
    name, (rhat, ess) = figures.names[worst], _shown(figures, worst)
    return f"{_count_words(figures)} Worst: {name}, R-hat {rhat} (at most {MOST_RHAT}), ESS {ess} ({LEAST_ESS:.0f})"


def diagnosis_of(post: DrawnTrees) -> pd.DataFrame:
    """Return the table of all quantities checked; see `SampledPosterior.diagnosis`."""
    import pandas as pd

    if _are_too_few(post):
        table = pd.DataFrame({"kind": [], "rhat": [], "ess": [], "fails": []}, index=pd.Index([], name="quantity"))
        table.attrs["warning"] = _too_few(post)
        return table
    figures = _figures(post, MOST_POINTS)
    columns = {"kind": figures.group, "rhat": figures.rhat, "ess": figures.ess, "fails": figures.failed}
    table = pd.DataFrame(columns, index=pd.Index(figures.names, name="quantity"))
    table = table.iloc[np.lexsort((-figures.times_longer, ~figures.failed))]
    table.attrs["warning"] = "\n".join(short_diagnosis(post, figures=figures))
    return table


def check_convergence(post: DrawnTrees, max_points: int = MOST_POINTS, *, levels: int = 1) -> list[str]:
    """Return the convergence criteria that the draws of chains fail, and advice, as the lines of a warning.

    These quantities are checked:

    * the log posterior, the number of leaves and the depth;
    * the indicators of each feature at the root, and of each feature in the tree, unless an indicator is rare or nearly
      always 1 in all chains;
    * the distances from up to 12 trees drawn;
    * the predictions at up to ``max_points`` distinct training rows, of a classifier the up to 3 probabilities that
      vary most at the row;
    * feature weights and their concentration, if they are drawn;
    * the log evidences of two teams of chains that tuned separately.

    R-hat must not exceed 1.01, and the bulk effective sample size must reach 400 (Vehtari et al. 2021). Of hundreds of
    predictions some exceed 1.01 by chance. Therefore an R-hat of a prediction between 1.01 and 1.03 fails only if the
    means of the halves of the chains differ by more than their Monte-Carlo errors explain, at the level 0.01 for all
    distinct predictions together (Bonferroni). Predictions that differ by 1e-9 of their range count as equal, because
    such differences are rounding errors. With one chain, R-hat compares its halves.

    The list is empty if no criterion fails. This proves nothing, since chains that are all in the same wrong mode
    agree. The list has one line if there are fewer than 100 draws in all, or fewer than 4 per chain. ``levels`` is the
    number of inverse temperatures of the run, for the advice. For 4 x 1000 independent draws a warning has a
    probability below one in a hundred.
    """
    check_count("max_points", max_points)
    if _are_too_few(post):
        return [_too_few(post)]
    figures, differences = _figures(post, max_points), _disagreement(post)
    if not figures.failed.any():
        return [HEADER, *differences] if differences else []
    return [HEADER, *_listed(figures), *differences, *_advice(post, figures, levels)]


def _disagreement(post: DrawnTrees) -> list[str]:
    """Return a list with a line of a warning if teams of chains find different evidence, otherwise an empty list."""
    return evidences_differ(None if post.course is None else post.course.evidences)


def _are_too_few(post: DrawnTrees) -> bool:
    """Return True if there are too few draws to judge convergence, in all or per chain."""
    return post.tree_of_draw.size < FEWEST_DRAWS or post.n_draws < FEWEST_PER_CHAIN


def _too_few(post: DrawnTrees) -> str:
    """Return the line of a warning on too few draws."""
    total = post.tree_of_draw.size
    return f"too few draws to judge convergence: {total} in all; give at least 400, better draws=1000."


def verdict(post: DrawnTrees) -> str:
    """Return the lines of `short_diagnosis` as one text, or that no criterion fails and that this proves nothing."""
    lines = short_diagnosis(post)
    if lines:
        return "\n  ".join(lines)
    chains = "The halves of the chain agree" if post.n_chains == 1 else f"The {post.n_chains} chains agree"
    witness = ""
    if post.course is not None and post.course.kernel.is_guided and len(post.course.teams) == 1:
        witness = f" {NO_WITNESS}"
    return f"{chains} within what is wanted.{witness} {NO_PROOF}"


class Quantities(NamedTuple):
    """Some quantities by which convergence is diagnosed, with their values for each distinct tree."""

    names: list[str]
    """Name of each quantity, such as "depth" or "prediction at row 3"."""
    group: list[str]
    """Kind of each quantity, as a plural noun such as "predictions"."""
    by_tree: np.ndarray
    """(quantities, n_distinct_trees): value of each quantity for each tree."""


class Figures(NamedTuple):
    """The quantities checked, with their R-hat and effective sample size; `SCALARS` come first."""

    names: list[str]
    """Names of all quantities, first those of ``by_tree``, then those of ``by_draw``."""
    group: np.ndarray
    """(quantities,) kind of each quantity, as a plural noun."""
    by_tree: np.ndarray
    """(first quantities, n_distinct_trees): values of the quantities that depend on the tree alone."""
    by_draw: np.ndarray
    """(further quantities, chains, draws): values of the quantities that also vary between draws of one tree."""
    rhat: np.ndarray
    """(quantities,) rank-normalised split R-hat."""
    ess: np.ndarray
    """(quantities,) bulk effective sample size."""
    by_chance: np.ndarray
    """(quantities,) bool: True for predictions whose R-hat exceeds ``MOST_RHAT`` and is explained by chance."""

    def traces(self, which: np.ndarray, tree_of_draw: np.ndarray) -> np.ndarray:
        """Return the traces (m, chains, draws) of the quantities numbered ``which`` (m,)."""
        n = len(self.by_tree)
        return np.array([self.by_tree[i][tree_of_draw] if i < n else self.by_draw[i - n] for i in which.tolist()])

    @property
    def failed(self) -> np.ndarray:
        """(quantities,) bool: True if R-hat or ESS misses its bound or is NaN."""
        return ~(((self.rhat <= MOST_RHAT) | self.by_chance) & (self.ess >= LEAST_ESS))

    def failed_by_group(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each group in which quantities fail, with the numbers of these quantities, the worst first."""
        for group in dict.fromkeys(self.group.tolist()):
            failed = np.flatnonzero(self.failed & (self.group == group))
            if len(failed):
                yield group, failed[np.argsort(-self.times_longer[failed], kind="stable")].tolist()

    @property
    def times_longer(self) -> np.ndarray:
        """(quantities,) factor by which the run must be longer for the quantity to pass; infinite if R-hat is NaN.

        R-hat - 1 is taken to fall as one over the number of draws.
        """
        times = np.maximum((self.rhat - 1.0) / (MOST_RHAT - 1.0), LEAST_ESS / self.ess)
        return np.where(np.isnan(times), np.inf, times)


def _figures(post: DrawnTrees, max_points: int) -> Figures:
    """Compute all quantities, with predictions at up to ``max_points`` rows, their R-hat and effective sample size.

    Predictions whose R-hat is too large are marked if chance explains it.
    """
    parts = [Quantities(list(SCALARS), ["scalars"] * len(SCALARS), _scalars(post)), feature_indicators(post)]
    parts += [tree_distances(post), _predictions(post, max_points)]
    by_tree = np.vstack([part.by_tree for part in parts])
    weights = feature_weights(post)
    by_draw = np.array([*weights.values()]).reshape(-1, *post.tree_of_draw.shape)
    of_part = [rhat_and_ess_by_tree(by_tree, post.tree_of_draw), rhat_and_ess(by_draw)]
    rhat, ess = (np.concatenate(part) for part in zip(*of_part, strict=True))
    names, group = ([x for part in parts for x in getattr(part, field)] for field in ("names", "group"))
    names, groups = [*names, *weights], np.array([*group, *["feature weights"] * len(weights)])
    by_chance = (groups == PREDICTIONS) & (rhat > MOST_RHAT) & (rhat <= LARGEST_RHAT) & (ess >= LEAST_ESS)
    doubtful = np.flatnonzero(by_chance) - (len(by_tree) - len(parts[-1].by_tree))
    by_chance[by_chance] = explained_by_chance(parts[-1].by_tree, post.tree_of_draw, doubtful, FALSE_ALARMS)
    return Figures(names, groups, by_tree, by_draw, rhat, ess, by_chance)


def _scalars(post: DrawnTrees) -> np.ndarray:
    """Return log posterior, number of leaves and depth of each distinct tree, (3, n_distinct_trees)."""
    log_posterior = _rounded((post.log_prior_of_tree + post.log_score_of_tree)[None])
    return np.vstack([log_posterior, post.n_leaves_of_tree[None], post.depth_of_tree[None]])


def agrees(log_posterior: np.ndarray) -> bool:
    """Return True if R-hat and effective sample size of ``log_posterior`` (chains, draws) satisfy the criteria."""
    rhat, ess = rhat_and_ess(_rounded(log_posterior)[None])
    return bool(rhat[0] <= MOST_RHAT and ess[0] >= LEAST_ESS)


def converged(post: DrawnTrees) -> bool:
    """Return True if no criterion of `check_convergence` fails; predictions are computed only if no other one fails."""
    if _are_too_few(post):
        return False
    for quantities in (_scalars, lambda p: feature_indicators(p).by_tree, lambda p: tree_distances(p).by_tree):
        rhat, ess = rhat_and_ess_by_tree(quantities(post), post.tree_of_draw)
        if not np.all((rhat <= MOST_RHAT) & (ess >= LEAST_ESS)):
            return False
    return not (_figures(post, MOST_POINTS).failed.any() or _disagreement(post))


def feature_weights(post: DrawnTrees) -> dict[str, np.ndarray]:
    """Return by name the traces (chains, draws) of drawn feature weights, and of their concentration if it is drawn.

    The weights are those of features that some chain has in more than 0.02 of its trees. The dictionary is empty if
    feature weights are not drawn.
    """
    drawn, weights, concentration = post.model.split_prior.drawn_weights, post.feature_weights, post.concentration
    if drawn is None or weights is None or concentration is None:
        return {}
    out = {"concentration": concentration} if drawn.concentration is None else {}
    inclusion = (post.split_counts > 0).mean(axis=1).max(axis=0)
    for k in np.flatnonzero(inclusion > RARE).tolist():
        out[f"weight of feature {post.model.columns.names[k]!r}"] = weights[..., k]
    return out


def feature_indicators(post: DrawnTrees) -> Quantities:
    """Return the indicators of the feature at the root, and of the features that the tree splits on.

    Indicators that are rare, or almost always 1, in all chains are omitted. If a feature is rare in one chain and not
    in another, the chains disagree about it.
    """
    p, names, group, rows = post.model.n_features, [], [], []
    by_chain = [np.bincount(chain, minlength=post.n_distinct_trees) for chain in post.tree_of_draw]
    # counts are added without rounding, so that a fraction of exactly RARE is omitted
    counts = np.array(by_chain, dtype=np.float64).T
    root = post.root_feature_of_tree == np.arange(p)[:, None]
    for singular, plural, indicator in (
        ("root feature", "root features", root),
        ("inclusion of feature", "features", (post.split_counts_of_tree > 0).T),
    ):
        of_chain = indicator @ counts / post.n_draws
        checked = np.flatnonzero((of_chain.max(axis=1) > RARE) & (of_chain.min(axis=1) < 1.0 - RARE))
        names += [f"{singular} {post.model.columns.names[k]!r}" for k in checked.tolist()]
        group += [plural] * len(checked)
        rows.append(indicator[checked].astype(np.float64))
    return Quantities(names, group, np.vstack(rows))


def tree_distances(post: DrawnTrees) -> Quantities:
    """Return the cell distances from up to 12 drawn trees, without distances that are nearly constant in all chains."""
    draws = focal_draws(post, N_FOCAL)
    by_tree = distances_from(post, post.tree_of_draw.ravel()[draws])
    checked = []
    for i, distance in enumerate(by_tree.astype(np.int64)[:, post.tree_of_draw]):
        commonest = [np.bincount(chain).max() for chain in distance]
        if min(commonest) < (1.0 - RARE) * post.n_draws:
            checked.append(i)
    names = [f"distance from the tree of {draw_words(post, draw)}" for draw in draws[checked].tolist()]
    return Quantities(names, ["distances between trees"] * len(names), by_tree[checked])


def _rounded(values: np.ndarray) -> np.ndarray:
    """Return values as multiples of a small step, about 1e-9 of their range, so that rounding does not break ties."""
    finite = values[np.isfinite(values)]
    step = 1e-9 * np.ptp(finite) + 1e-14 * np.abs(finite).max() if len(finite) else 0.0
    return np.round(values / step) if step > 0.0 else values


def _predictions(post: DrawnTrees, max_points: int) -> Quantities:
    """Return the predictions at up to ``max_points`` training rows.

    They are means, or of a classifier the up to 3 class probabilities at each row that vary most over the draws.
    """
    model = post.model
    if not model.leaf.predicts:
        return Quantities([], [], np.empty((0, post.n_distinct_trees)))
    n_classes = model.target.n_classes
    n_checked = 1 if model.classes_ is None else min(max(n_classes - 1, 1), N_CLASSES)
    most = max(MOST_VALUES // (n_checked * post.n_distinct_trees), FEWEST_POINTS)
    rows, units = distinct_rows(model, min(max_points, most))
    names, values = [], np.empty((len(rows), n_checked, post.n_distinct_trees))
    for i, (row, value) in enumerate(zip(rows.tolist(), _values_by_tree(post, rows, units), strict=True)):
        mean = post.weight_of_tree @ value
        # rounding must not choose between the classes, so that equal runs give equal results
        variance = np.round(post.weight_of_tree @ (value - mean) ** 2, 12)
        checked = np.sort(np.argsort(-variance, kind="stable")[:n_checked])
        values[i] = value[:, checked].T
        for k in checked.tolist():
            label = f" P(y = {model.classes_[k]})" if model.classes_ is not None and n_classes > 2 else ""
            if model.classes_ is None and value.shape[1] > 1:
                label = f" of {names_of_outputs(model, value.shape[1])[k]}"
            names.append(f"prediction{label} at row {row}")
    by_tree = _rounded(values.reshape(-1, post.n_distinct_trees))
    return Quantities(names, [PREDICTIONS] * len(names), by_tree)


def _values_by_tree(post: DrawnTrees, rows: np.ndarray, units: np.ndarray) -> Iterator[np.ndarray]:
    """Yield for each training row the predictions (n_distinct_trees, k) of the distinct trees.

    ``rows`` (m,) are numbers of rows, and ``units`` (m,) the numbers of the distinct rows that these are equal to.
    """
    model, regressors = post.model, post.model.target.regressors
    for start in range(0, len(rows), FEWEST_POINTS):
        part = slice(start, start + FEWEST_POINTS)
        reached = leaves_of_units(post.coded_trees, model.units.codes, units[part])
        for row, nodes in zip(rows[part].tolist(), reached, strict=True):
            if regressors is None:
                yield post.node_values[nodes]
            else:
                own = np.tile(regressors[row], (len(nodes), 1))
                yield model.leaf.value(post.node_stats[nodes], model.target, own)


def _listed(figures: Figures) -> list[str]:
    """Return a line for each quantity that fails: all scalars, and the three worst quantities of each other group."""
    lines = []
    for group, failed in figures.failed_by_group():
        listed = sorted(failed) if group == "scalars" else failed[:N_LISTED]
        for i in listed:
            rhat, ess = _shown(figures, i)
            lines.append(f"{figures.names[i]}: R-hat {rhat}, ESS {ess}")
        if len(failed) > len(listed):
            lines.append(f"and {len(failed) - N_LISTED} more of {(figures.group == group).sum()} {group}")
    return lines


def _shown(figures: Figures, i: int) -> tuple[str, str]:
    """Return R-hat (rounded up) and ESS (rounded down) of quantity ``i`` as texts, so that the texts fail, too."""
    rhat, ess = float(figures.rhat[i]), float(figures.ess[i])
    shown = f"{math.ceil(rhat * 1000) / 1000:.3f}" if rhat < 1.1 else f"{rhat:.2f}"
    return shown, f"{ess if math.isnan(ess) else math.floor(ess)}"


def _count_words(figures: Figures) -> str:
    """Return a sentence on how many of the quantities fail."""
    return f"{figures.failed.sum()} of {len(figures.names)} quantities fail."


def _advice(post: DrawnTrees, figures: Figures, levels: int) -> list[str]:
    """Return sentences of advice, the most helpful first."""
    worst = np.argsort(-figures.times_longer, kind="stable")[:N_LISTED]
    apart = post.n_chains > 1 and chains_apart(figures.traces(worst, post.tree_of_draw))
    drifts = chains_drift(figures.by_tree[: len(SCALARS)][:, post.tree_of_draw])
    times = float(figures.times_longer.max())
    is_adaptive = _is_adaptive(post)
    remedy = _remedy(is_adaptive, levels)
    out = []
    if apart:
        out.append(f"The chains are in different modes and stay there: try {remedy}.")
    if drifts and not is_adaptive:
        halves = "half of the chain differs" if post.n_chains == 1 else "halves of the chains differ"
        out.append(f"The second {halves} from the first: raise tune by {post.n_draws} or more.")
    if not apart and times > SLOW:
        out.append(f"The chains move slowly, {_more(post, is_adaptive, times)} would be needed: try {remedy} first.")
    elif not apart and (is_adaptive or not drifts):
        out.append(f"Try {_resumed(post, times) or _more(post, is_adaptive, times)}.")
    if post.n_chains == 1:
        out.append("One chain cannot show what others would find: give chains=4; here R-hat compares its halves.")
    if post.tree_of_draw.size < LEAST_ESS:
        out.append(f"With {post.tree_of_draw.size} draws in all the ESS cannot be expected to reach {LEAST_ESS:.0f}.")
    return out


def _is_adaptive(post: DrawnTrees) -> bool:
    """Return True if the default run made the draws, with kernel "whole", or "local" if the table is too large."""
    if post.calls:
        arguments = post.calls[0].arguments
        if arguments.get("kernel") == repr("default") and not any(name in arguments for name in LENGTHS):
            return True
    return post.course is not None and bool(post.course.kernel.adapts)


def _remedy(is_adaptive: bool, levels: int) -> str:
    """Return the arguments to try if chains hardly move, as a phrase; ``levels`` > 1 if the run was tempered."""
    if levels > 1:
        return f"betas={2 * levels}"
    if is_adaptive:
        return "more chains=, or betas=8"
    return "a run without kernel=, tune=, thin= and proposals=, which draws whole trees until the chains agree"


def _resumed(post: DrawnTrees, times: float) -> str:
    """Return the call that resumes the run until it has ``times`` as many draws.

    The text is empty if ``times`` exceeds 1.5 or the run cannot be resumed.
    """
    if times > RESUMED or post.course is None:
        return ""
    more = math.ceil((math.ceil(10.0 * times) / 10.0 - 1.0) * post.n_draws - 1e-9)
    return f"pt.resume(post, {more}), which adds draws to the {post.n_draws} of each chain"


def _more(post: DrawnTrees, is_adaptive: bool, times: float) -> str:
    """Return a phrase that asks for ``times`` as many draws, or steps if the run is adaptive."""
    noun, done = ("steps", post.course.steps) if is_adaptive and post.course else ("draws", post.n_draws)
    if times > 1000.0:
        return f"more than 1000 times as many {noun}"
    unit = 10 ** max(math.floor(math.log10(done * times)) - 1, 0)
    shown = f"{math.ceil(10.0 * times) / 10.0:.1f}" if times < 3.0 else f"{math.ceil(times)}"
    return f"about {shown} times as many {noun} ({noun}={math.ceil(done * times / unit) * unit})"
