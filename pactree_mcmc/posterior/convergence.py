"""The convergence criteria of chains: what fails, what can be used all the same, and one piece of advice.

R-hat and effective sample size come from `ess`. `course.finish` stores the first line of the warning, or "", as
`Draws.caveat`, and files keep it. All texts of trees begin with it (`caveat_of`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.special import stdtrit
from ..model import GridCuts, LocalCuts
from ..tree.coded import leaves_of_units
from .ess import (
    DRAWS_PER_DEGREE,
    MIN_DRAWS_PER_CHAIN,
    chains_disagree,
    ess_of_chains,
    explained_by_chance,
    rhat_and_ess,
    rhat_and_ess_by_tree,
    split_chains,
)
from .evidence import evidence_difference_lines
from .trees.cells import distinguishable_rows
from .trees.distances import distances_from, draw_label, focal_draws

if TYPE_CHECKING:
    import pandas as pd

    from .distribution import HasDraws

MIN_ESS = 400.0
"""Smallest effective sample size that passes, from Vehtari et al. (2021)."""
MAX_RHAT = 1.01
"""Largest R-hat that passes, from Vehtari et al. (2021)."""
MAX_RHAT_BY_CHANCE = 1.03
"""Largest R-hat of a prediction that passes if chance explains why it exceeds ``MAX_RHAT``."""
FALSE_ALARM_LEVEL = 0.01
"""Level of the test of all predictions together: about the probability of a false alarm."""
MAX_POINTS, MIN_POINTS = 500, 50
"""Number of training rows whose predictions are checked, and that to which ``MAX_PREDICTIONS`` may lower it."""
MAX_PREDICTIONS = 20_000_000
"""Number of predictions, rows times classes times distinct trees, beyond which fewer rows are checked: 160 MB."""
MIN_DRAWS_TO_JUDGE = 100
"""Number of draws of all chains below which the criteria are not evaluated."""
MIN_JUDGED_DRAWS = 1000
"""Smallest number of draws, of all chains together, with which a run waits until the criterion holds."""
MAX_CHECKED_CLASSES = 3
"""Largest number of classes whose probability is checked at a row."""
SCALARS = ("log posterior", "number of leaves", "depth")
"""Names of the quantities that are one number of a tree; they come first in every list of quantities."""
PREDICTIONS, FEATURES = "predictions", "features"
"""Names of the groups of quantities that are predictions, and indicators that a tree uses a feature."""
MAX_LISTED_PER_KIND = 3
"""Largest number of failing quantities of each kind, the worst first, that `check_convergence` lists."""
MAX_CHECKED_FOCAL_TREES = 12
"""Largest number of trees from which distances are checked."""
RARE_PROBABILITY = 0.02
"""Smallest probability of an indicator that is checked; the largest one is 1 minus this."""
MIN_VISITED_PROBABILITY = 0.01
"""Smallest lower bound of the probability of a feature, by the trees visited, of which the draws must have enough: the
smallest that a reader of two digits sees."""
LACK_LEVEL = 1e-3
"""Level of the test that draws lack a feature. It is made for some ten features."""
COVERAGE = 0.95
"""Probability that an answer is within the error that a verdict states."""
MAX_USABLE_PROBABILITY, MAX_USABLE_SD = 0.2, 0.5
"""Largest error with which a probability can be used, and a mean, in standard deviations of the predictions between
rows. Beyond it the two sides of the middle can no longer be distinguished."""
CRITERIA = f"R-hat at most {MAX_RHAT}, effective sample size (ESS) at least {MIN_ESS:.0f}"
"""The criteria as a phrase."""
LOSS_PHRASE = "a part of the posterior is missing"
"""Phrase on draws that lack what other draws, or the trees visited, have."""
READ_MORE_LINE = 'All quantities: post.diagnosis. What they mean: the page "When chains disagree" of the documentation.'
"""Last line of a warning."""
NO_PROOF_REMARK = (
    "No proof of convergence: chains that are all in the same wrong mode look the same. Compare with another rng=, "
    "with betas=8, or with exact.solve of a smaller model."
)
SINGLE_TEAM_REMARK = "All that is compared tuned together, so that no chain confirms it independently: give chains=4."
"""Remark on a run whose chains all tuned together, as one team."""
LENGTH_ARGUMENTS = ("tune", "thin", "proposals")
"""Arguments of `sample` that fix the length of a run."""
SMALL_WORK = 1e10
"""Rows below which ``work=`` makes a run shorter than by default, in every release."""
LARGE_TABLE_ROWS = 2000
"""Number of distinct rows from which on the advice is the page on large tables. 4,083 rows of 57 columns fail, 3,196 of
36 pass (benchmarks/README.md)."""
MAX_TIMES_LONGER = 10.0
"""Factor by which a run whose chains agree would have to be longer, above which no longer run is advised. The estimate
takes R-hat - 1 to fall as one over the draws, which is true of a run that has begun to mix."""
LENGTH_RESERVE = 2.0
"""Factor of the steps that are advised over the steps estimated, so that a run with them is not advised the same."""
MAX_ADVISED_LEAVES, ADVISED_CUTS = 20, 20
"""Number of leaves and of cuts of a feature to which a model is limited if no longer run is known to help: the chains
agreed on all tables tried (`benchmarks/README.md`, Default run)."""


def caveat_of(post: Any) -> str:
    """Return the line with which texts about trees begin if the draws of a run failed, "" if not."""
    # Draws that no run has judged, such as independent ones, have none. Those of older files are judged here.
    if post.draws is None:
        return ""
    if post.draws.caveat is None:
        post.draws.caveat = next(iter(short_diagnosis(post)), "") if post.draws.calls else ""
    return post.draws.caveat


def short_diagnosis(post: HasDraws, diagnostics: Diagnostics | None = None) -> list[str]:
    """Return the criteria of `check_convergence` that fail in a few lines; an empty list if none fails."""
    # The lines are what can be used (`_usable_line`), the worst quantity of each kind, what teams of chains lack, one
    # piece of advice, and where to read on; with too few draws one line that says so
    if _has_too_few_draws(post):
        return [_too_few_draws_line(post)]
    diagnostics = _compute_diagnostics(post) if diagnostics is None else diagnostics
    losses = [f"{line[:1].upper()}{line[1:]}." for line in loss_lines(post)]
    if not diagnostics.failed.any() and not losses:
        return []
    lines = [_usable_line(post, diagnostics)]
    if diagnostics.failed.any():
        worst = [failed[0] for _, failed in diagnostics.failed_by_group()]
        listed = ", ".join(f"{diagnostics.names[i]} ({', '.join(_failing_value_texts(diagnostics, i))})" for i in worst)
        count = f"{diagnostics.failed.sum()} of {len(diagnostics.names)} quantities fail"
        lines.append(f"{count} ({CRITERIA}). Worst of each kind (R-hat, ESS): {listed}.")
    return [*lines, *losses, _advice(post, diagnostics), READ_MORE_LINE]


def diagnosis_of(post: HasDraws) -> pd.DataFrame:
    """Return the table of all quantities checked; see `SampledPosterior.diagnosis`."""
    import pandas as pd

    if _has_too_few_draws(post):
        table = pd.DataFrame({"kind": [], "rhat": [], "ess": [], "fails": []}, index=pd.Index([], name="quantity"))
        table.attrs["warning"] = _too_few_draws_line(post)
        return table
    diagnostics = _compute_diagnostics(post)
    columns = {"kind": diagnostics.group, "rhat": diagnostics.rhat, "ess": diagnostics.ess, "fails": diagnostics.failed}
    table = pd.DataFrame(columns, index=pd.Index(diagnostics.names, name="quantity"))
    table = table.iloc[np.lexsort((-diagnostics.times_longer, ~diagnostics.failed))]
    table.attrs["warning"] = "\n".join(short_diagnosis(post, diagnostics))
    return table


def check_convergence(post: HasDraws) -> list[str]:
    """Return the convergence criteria that the draws of chains fail, and advice, as the lines of a warning.

    These quantities are checked:

    * the log posterior, the number of leaves and the depth;
    * the indicators of each feature at the root, and of each feature in the tree, unless an indicator is rare or nearly
      always 1 in all chains;
    * the distances from up to 12 trees drawn;
    * the predictions at up to 500 distinct training rows, of a classifier the up to 3 probabilities that vary most at
      the row;
    * the log evidences of two teams of chains that tuned separately;
    * the features, at the root or anywhere, of which the draws have far less than the sum over the trees visited in
      tuning, or that no chain has entered and left.

    R-hat must not exceed 1.01, and the bulk effective sample size must reach 400 (Vehtari et al. 2021). Of hundreds of
    predictions some exceed 1.01 by chance. Therefore an R-hat of a prediction between 1.01 and 1.03 fails only if the
    means of the halves of the chains differ by more than their Monte-Carlo errors explain, at the level 0.01 for all
    distinct predictions together (Bonferroni). Predictions that differ by 1e-9 of their range count as equal, because
    such differences are rounding errors. With one chain, R-hat compares its halves.

    The first line says what can be used. The list is empty if no criterion fails. This proves nothing, since chains
    that are all in the same wrong mode agree. The list has one line if there are fewer than 100 draws in all, or fewer
    than 4 per chain. For 4 x 1000 independent draws a warning has a probability below one in a hundred.
    """
    if _has_too_few_draws(post):
        return [_too_few_draws_line(post)]
    diagnostics, losses = _compute_diagnostics(post), loss_lines(post)
    if not diagnostics.failed.any() and not losses:
        return []
    return [_usable_line(post, diagnostics), *_failing_quantity_lines(diagnostics), *losses, _advice(post, diagnostics)]


def verdict(post: HasDraws) -> str:
    """Return the lines of `short_diagnosis` as one text, or that no criterion fails and that this proves nothing."""
    lines = short_diagnosis(post)
    if lines:
        return "\n  ".join(lines)
    agreement = "The halves of the chain agree" if post.n_chains == 1 else f"The {post.n_chains} chains agree"
    remark = ""
    if post.course is not None and post.course.kernel.is_guided and len(post.course.teams) == 1:
        remark = f" {SINGLE_TEAM_REMARK}"
    return f"{agreement} within what is wanted.{remark} {NO_PROOF_REMARK}"


def _has_too_few_draws(post: HasDraws) -> bool:
    """Return True if there are too few draws to judge convergence, below 100 in all or below 4 per chain."""
    return post.draws.tree_of_draw.size < MIN_DRAWS_TO_JUDGE or post.n_draws < MIN_DRAWS_PER_CHAIN


def _too_few_draws_line(post: HasDraws) -> str:
    """Return a line of a warning that says how many draws there are, and how many to give."""
    total = post.draws.tree_of_draw.size
    return f"too few draws to judge convergence: {total} in all; give at least 400, better draws=1000."


def loss_lines(post: HasDraws) -> list[str]:
    """Return lines on parts of the posterior that some chains, or all draws, lack; [] if nothing shows any."""
    if post.course is None:
        return []
    names = post.model.columns.names
    return evidence_difference_lines(post.course.evidences) + [
        f"{lack.kind} {names[lack.feature]!r} has probability {_rounded_down(lack.least)} or more, by the sum over the "
        f"trees visited in tuning, and {lack.fraction:.2g} in the draws"
        f"{'' if lack.is_mixing else ', which never entered and left it'}: {LOSS_PHRASE}"
        for lack in lacking_features(post)[:MAX_LISTED_PER_KIND]
    ]


class Lack(NamedTuple):
    """A feature of which the draws have too little."""

    kind: str  # "root feature" or "feature"
    feature: int
    least: float  # lower bound of its probability, by the trees visited
    fraction: float  # of the draws
    is_mixing: bool  # True if the chains have entered and left the trees with the feature


def lacking_features(post: HasDraws) -> list[Lack]:
    """Return the features, at the root or anywhere, of which the draws have far too little, the greatest lack first."""
    if post.course is None or post.course.visited is None:
        return []
    root = post.draws.root_feature_of_tree == np.arange(post.model.n_features)[:, None]
    lacks, size = [], _typical_size(root, post.draws.tree_of_draw)
    for kind, bounds, has_it in zip(
        ("root feature", "feature"), post.course.visited, (root, (post.draws.split_counts_of_tree > 0).T), strict=True
    ):
        for k in np.flatnonzero(bounds >= MIN_VISITED_PROBABILITY).tolist():
            draws, bound = has_it[k][post.draws.tree_of_draw], float(bounds[k])
            fraction, change = float(draws.mean()), np.diff(draws.astype(np.int8), axis=1)
            if fraction > 1.0 - RARE_PROBABILITY:
                continue
            is_mixing = bool((change > 0).any() and (change < 0).any())
            # the number of visits among n effective draws is about Poisson with mean n * probability. Few visits say
            # little about how long a visit lasts, so n is at most that of the frequent root features.
            n = min(float(ess_of_chains(split_chains(draws[None].astype(np.float64)))[0]), size) if is_mixing else size
            is_rare = fraction < bound / 2.0 and _poisson_tail(fraction * n, bound * n) < LACK_LEVEL
            if is_rare or not is_mixing:
                lacks.append(Lack(kind, k, bound, fraction, is_mixing))
    return sorted(lacks, key=lambda lack: lack.fraction - lack.least)


def _typical_size(indicators: np.ndarray, tree_of_draw: np.ndarray) -> float:
    """Return the median effective sample size of the indicators (m, trees) that are not rare, `MIN_ESS` if all are."""
    draws = indicators[:, tree_of_draw]
    fraction = draws.mean(axis=(1, 2))
    frequent = (fraction > RARE_PROBABILITY) & (fraction < 1.0 - RARE_PROBABILITY)
    return float(np.median(rhat_and_ess(draws[frequent])[1])) if frequent.any() else MIN_ESS


def _poisson_tail(n: float, mean: float) -> float:
    """Return the probability that a Poisson variable with this mean is at most ``n``."""
    return sum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1.0)) for i in range(math.floor(n) + 1))


def _lost_mass(post: HasDraws) -> float:
    """Return the probability of the parts of the posterior of `loss_lines`, by which any probability may be wrong."""
    lost_mass = max((lack.least - lack.fraction for lack in lacking_features(post)), default=0.0)
    evidences = None if post.course is None else post.course.evidences
    if evidences is not None and evidence_difference_lines(evidences):
        log_evidences = evidences[:, 0]
        lost_mass = max(lost_mass, float(-np.expm1(log_evidences.min() - log_evidences.max())))
    return max(lost_mass, 0.0)


# what can be used


def _usable_line(post: HasDraws, diagnostics: Diagnostics) -> str:
    """Return the verdict on draws that fail, in the units of a reader: what is known, and within which error."""
    parts, lost_mass = [], _lost_mass(post)
    of_group = diagnostics.group == PREDICTIONS
    if of_group.any():
        error = diagnostics.prediction_unit * _errors(diagnostics.by_tree[of_group], post.draws.tree_of_draw).max()
        if post.model.classes_ is not None:
            parts.append(f"predictions: {_within(error + lost_mass)}")
        else:
            means = diagnostics.prediction_unit * (diagnostics.by_tree[of_group] @ post.draws.weight_of_tree)
            sd = float(means.std())
            is_usable = error + lost_mass * sd <= MAX_USABLE_SD * sd
            text = f"within {_rounded_up(error + lost_mass * sd)} (between rows they have sd {_rounded_up(sd)})"
            parts.append(f"predictions: {text if is_usable else 'not'}")
    feature_error = _errors((post.draws.split_counts_of_tree > 0).T, post.draws.tree_of_draw).max(initial=0.0)
    parts.append(f"probability that a feature is used: {_within(feature_error + lost_mass)}")
    roots = post.draws.root_feature_of_tree == np.arange(post.model.n_features)[:, None]
    root = _errors(roots, post.draws.tree_of_draw).max(initial=0.0)
    fails = (diagnostics.failed & ~np.isin(diagnostics.group, [PREDICTIONS, FEATURES])).any() or lost_mass > 0.0
    parts.append(f"which tree: {'not' if fails else _within(root)}")
    return f"not converged; {'; '.join(parts)}."


def _errors(by_tree: np.ndarray, tree_of_draw: np.ndarray) -> np.ndarray:
    """Return the half width of the interval of level ``COVERAGE`` of the mean of each quantity (m, trees), (m,)."""
    # The effective sample size counts the variance between the halves of chains. The quantile of Student's t has one
    # degree of freedom for every `DRAWS_PER_DEGREE` effective draws, at least those of the chains' means.
    out = np.zeros(len(by_tree))
    for i, values in enumerate(by_tree):
        halves = split_chains(values[tree_of_draw][None].astype(np.float64))
        if np.ptp(halves) > 0.0:
            size = float(ess_of_chains(halves)[0])
            freedom = max(size / DRAWS_PER_DEGREE, len(tree_of_draw) - 1.0, 1.0)
            out[i] = halves.std() / math.sqrt(size) * float(stdtrit(freedom, (1.0 + COVERAGE) / 2.0))
    return out


def _within(error: float) -> str:
    """Return "within" and the error of a probability, or that it cannot be used."""
    return f"within {_rounded_up(max(error, 0.001))}" if error <= MAX_USABLE_PROBABILITY else "not"


def _rounded_down(probability: float) -> str:
    """Return a probability of at least `MIN_VISITED_PROBABILITY` with two digits, rounded down."""
    return f"{math.floor(100.0 * probability + 1e-9) / 100.0:.2f}"


def _rounded_up(error: float) -> str:
    """Return an error with two significant digits, one below .1, rounded up."""
    if error <= 0.0:
        return "0"
    digits = math.floor(math.log10(error)) - (1 if error >= 0.1 else 0)
    return f"{math.ceil(error / 10.0**digits - 1e-9) * 10.0**digits:.{max(-digits, 0)}f}"


# advice


def _advice(post: HasDraws, diagnostics: Diagnostics) -> str:
    """Return the one thing to do after a run that fails: a call that is known to help, or that none is known."""
    arguments = post.draws.calls[0].arguments if post.draws.calls else {}
    fixed = [name for name in LENGTH_ARGUMENTS if name in arguments]
    if arguments.get("kernel", repr("default")) != repr("default"):
        fixed.insert(0, "kernel")
    if not post.draws.calls:
        return "Draw trees with pt.sample(model): its chains propose whole trees, and go on until they agree."
    few = post.draws.tree_of_draw.size < MIN_JUDGED_DRAWS
    missing = [f"draws={MIN_JUDGED_DRAWS}"] * few + ["chains=4"] * (post.n_chains == 1)
    if fixed or missing:
        changes = [f"without {', '.join(f'{name}=' for name in fixed)}"] * bool(fixed)
        changes += [f"with {' and '.join(missing)}"] * bool(missing)
        return f"Run again {' and '.join(changes)}: then chains propose whole trees, and go on until they agree."
    if post.model.units.n_units >= LARGE_TABLE_ROWS:
        return (
            f"With {post.model.units.n_units} distinct rows chains rarely agree about trees. For predictions use "
            f"pt.{'BayesianTreeRegressor' if post.model.classes_ is None else 'BayesianTreeClassifier'}(), with its "
            'monte_carlo_error_. A smaller question may converge: the page "Large tables" of the documentation.'
        )
    if post.draws.tempering is not None:
        return "Run again without betas=: then chains propose whole trees, and go on until they agree."
    if float(arguments.get("work", "inf")) < SMALL_WORK:
        return "Run again without work=: the limit ended the run before the chains could agree."
    limits = [f"{name}=" for name in ("steps", "seconds") if name in arguments]
    if post.course is not None and post.course.kernel.is_guided and not limits:
        # more steps than those of all its work are not known to help a run that fits densities
        n_left = (post.course.stretch.limit or post.course.tuned.steps) - post.course.steps
        if n_left < post.course.thin:
            return _coarser_trees(post)
        return "The run ended before its limit: run it again to the end, which comes when its chains agree."
    factor = float(diagnostics.times_longer.max())
    worst = np.argsort(-diagnostics.times_longer, kind="stable")[:MAX_LISTED_PER_KIND]
    are_apart = chains_disagree(diagnostics.traces(worst, post.draws.tree_of_draw))
    if post.course is not None and not are_apart and factor <= MAX_TIMES_LONGER:
        steps = math.ceil(LENGTH_RESERVE * max(factor, 1.0) * post.course.steps)
        rounding = 10 ** max(len(str(steps)) - 2, 0)
        return (
            f"The chains move between the modes, but the run is too short: run again with steps="
            f"{math.ceil(steps / rounding) * rounding}; it ends when they agree."
        )
    if limits:
        return f"Run again without {' and '.join(limits)}: the limit ended the run before the chains could agree."
    return _coarser_trees(post)


def _coarser_trees(post: HasDraws) -> str:
    """Return the advice to ask for coarser trees, or that no setting is known if those of the model are as coarse."""
    prior, min_leaf = post.model.split_prior, math.ceil(post.model.n_rows / MAX_ADVISED_LEAVES)
    if not isinstance(prior, GridCuts) and not (isinstance(prior, LocalCuts) and prior.min_leaf < min_leaf):
        return "No setting is known with which these chains agree: report what the first line admits, nothing else."
    leaves = float(post.draws.n_leaves_of_tree @ post.draws.weight_of_tree)
    return (
        f"No setting is known with which chains agree about these trees of {leaves:.0f} leaves. Ask for coarser ones: "
        f"pt.TreeModel(..., split_prior=pt.LocalCuts(max_cuts={ADVISED_CUTS}, min_leaf={min_leaf}))."
    )


# the quantities


class Quantities(NamedTuple):
    """Some quantities by which convergence is diagnosed, with their values for each distinct tree."""

    names: list[str]
    """Name of each quantity, such as "depth" or "prediction at row 3"."""
    group: list[str]
    """Kind of each quantity, as a plural noun such as "predictions"."""
    by_tree: np.ndarray
    """(quantities, n_distinct_trees): value of each quantity for each tree, as a multiple of ``unit``."""
    unit: float = 1.0
    """Unit of the values."""


class Diagnostics(NamedTuple):
    """The quantities checked, with their R-hat and effective sample size; `SCALARS` come first."""

    names: list[str]
    """Names of all quantities."""
    group: np.ndarray
    """(quantities,) kind of each quantity, as a plural noun."""
    by_tree: np.ndarray
    """(quantities, n_distinct_trees): value of each quantity for each tree."""
    rhat: np.ndarray
    """(quantities,) rank-normalised split R-hat."""
    ess: np.ndarray
    """(quantities,) bulk effective sample size."""
    by_chance: np.ndarray
    """(quantities,) bool: True for predictions whose R-hat exceeds ``MAX_RHAT`` and is explained by chance."""
    prediction_unit: float
    """Unit of the predictions in ``by_tree``."""

    def traces(self, quantities: np.ndarray, tree_of_draw: np.ndarray) -> np.ndarray:
        """Return the traces (m, chains, draws) of the quantities numbered ``quantities`` (m,)."""
        # ``tree_of_draw`` (chains, draws) is the distinct tree of each draw
        return self.by_tree[quantities][:, tree_of_draw]

    @property
    def failed(self) -> np.ndarray:
        """(quantities,) bool: True if R-hat or ESS misses its bound or is NaN."""
        return ~(((self.rhat <= MAX_RHAT) | self.by_chance) & (self.ess >= MIN_ESS))

    def failed_by_group(self) -> Iterator[tuple[str, list[int]]]:
        """Yield each group in which quantities fail, with the numbers of these quantities, the worst first."""
        for group in dict.fromkeys(self.group.tolist()):
            failed = np.flatnonzero(self.failed & (self.group == group))
            if len(failed):
                yield group, failed[np.argsort(-self.times_longer[failed], kind="stable")].tolist()

    @property
    def times_longer(self) -> np.ndarray:
        """(quantities,) factor by which the run must be longer for the quantity to pass; infinite if R-hat is NaN."""
        # R-hat - 1 is taken to fall as one over the number of draws
        times = np.maximum((self.rhat - 1.0) / (MAX_RHAT - 1.0), MIN_ESS / self.ess)
        return np.where(np.isnan(times), np.inf, times)


def _compute_diagnostics(post: HasDraws) -> Diagnostics:
    """Compute all quantities, their R-hat and effective sample size."""
    parts = [*_quantities_of_trees(post), _checked_predictions(post)]
    tree_of_draw = post.draws.tree_of_draw
    return _join_diagnostics(post, parts, [rhat_and_ess_by_tree(part.by_tree, tree_of_draw) for part in parts])


def _quantities_of_trees(post: HasDraws) -> Iterator[Quantities]:
    """Yield the quantities of the trees other than predictions: scalars, indicators of features, distances."""
    yield Quantities(list(SCALARS), ["scalars"] * len(SCALARS), _scalars_by_tree(post))
    yield feature_indicators(post)
    yield distance_quantities(post)


def _join_diagnostics(
    post: HasDraws, parts: list[Quantities], rhat_and_ess_of_parts: list[tuple[np.ndarray, np.ndarray]]
) -> Diagnostics:
    """Return the diagnostics of all quantities in ``parts``."""
    # The last part must be the predictions. Predictions whose R-hat is too large are marked if chance explains it.
    # ``rhat_and_ess_of_parts`` has R-hat and effective sample size of each part.
    by_tree = np.vstack([part.by_tree for part in parts])
    rhat, ess = (np.concatenate(part) for part in zip(*rhat_and_ess_of_parts, strict=True))
    names, groups = [x for part in parts for x in part.names], np.array([x for part in parts for x in part.group])
    by_chance = (groups == PREDICTIONS) & (rhat > MAX_RHAT) & (rhat <= MAX_RHAT_BY_CHANCE) & (ess >= MIN_ESS)
    doubtful = np.flatnonzero(by_chance) - (len(by_tree) - len(parts[-1].by_tree))
    by_chance[by_chance] = explained_by_chance(parts[-1].by_tree, post.draws.tree_of_draw, doubtful, FALSE_ALARM_LEVEL)
    return Diagnostics(names, groups, by_tree, rhat, ess, by_chance, parts[-1].unit)


def _scalars_by_tree(post: HasDraws) -> np.ndarray:
    """Return log posterior, number of leaves and depth of each distinct tree, (3, n_distinct_trees)."""
    # The log posterior is an integer multiple of the step of `_without_rounding_noise`, not in nats
    log_posterior, _ = _without_rounding_noise((post.draws.log_prior_of_tree + post.draws.log_score_of_tree)[None])
    return np.vstack([log_posterior, post.draws.n_leaves_of_tree[None], post.draws.depth_of_tree[None]])


def log_posterior_failure(log_posterior: np.ndarray) -> str:
    """Return the R-hat of ``log_posterior`` (chains, draws) as a phrase if a criterion fails, else ""."""
    rhat, ess = rhat_and_ess(_without_rounding_noise(log_posterior)[0][None])
    return "" if rhat[0] <= MAX_RHAT and ess[0] >= MIN_ESS else worst_rhat_phrase(["log posterior"], rhat)


def first_failure(post: HasDraws) -> str:
    """Return a phrase on what fails first of the criteria of `check_convergence`, "" if nothing fails."""
    # Predictions are computed only if no other criterion fails
    if _has_too_few_draws(post):
        return "too few draws"
    parts, rhat_and_ess_of_parts = [], []
    for part in _quantities_of_trees(post):
        rhat, ess = rhat_and_ess_by_tree(part.by_tree, post.draws.tree_of_draw)
        if not np.all((rhat <= MAX_RHAT) & (ess >= MIN_ESS)):
            return worst_rhat_phrase(part.names, rhat)
        parts.append(part)
        rhat_and_ess_of_parts.append((rhat, ess))
    parts.append(_checked_predictions(post))
    rhat_and_ess_of_parts.append(rhat_and_ess_by_tree(parts[-1].by_tree, post.draws.tree_of_draw))
    diagnostics = _join_diagnostics(post, parts, rhat_and_ess_of_parts)
    if diagnostics.failed.any():
        failed = np.flatnonzero(diagnostics.failed)
        return worst_rhat_phrase([diagnostics.names[i] for i in failed.tolist()], diagnostics.rhat[failed])
    return LOSS_PHRASE if loss_lines(post) else ""


def worst_rhat_phrase(names: list[str], rhat: np.ndarray) -> str:
    """Return the largest R-hat, and what it belongs to."""
    worst = int(np.argmax(np.where(np.isnan(rhat), np.inf, rhat)))
    return f"worst R-hat {rhat[worst]:.3f} ({names[worst]})"


def feature_indicators(post: HasDraws) -> Quantities:
    """Return the indicators of the feature at the root, and of the features that the tree splits on."""
    # Indicators that are rare, or almost always 1, in all chains are omitted. If a feature is rare in one chain and not
    # in another, the chains disagree about it.
    p, names, group, indicators = post.model.n_features, [], [], []
    by_chain = [np.bincount(chain, minlength=post.draws.n_distinct_trees) for chain in post.draws.tree_of_draw]
    # counts are added without rounding, so that a fraction of exactly RARE is omitted
    counts = np.array(by_chain, dtype=np.float64).T
    root = post.draws.root_feature_of_tree == np.arange(p)[:, None]
    for singular, plural, indicator in (
        ("root feature", "root features", root),
        ("inclusion of feature", FEATURES, (post.draws.split_counts_of_tree > 0).T),
    ):
        frequency = indicator @ counts / post.n_draws
        highest, lowest = frequency.max(axis=1), frequency.min(axis=1)
        checked = np.flatnonzero((highest > RARE_PROBABILITY) & (lowest < 1.0 - RARE_PROBABILITY))
        names += [f"{singular} {post.model.columns.names[k]!r}" for k in checked.tolist()]
        group += [plural] * len(checked)
        indicators.append(indicator[checked].astype(np.float64))
    return Quantities(names, group, np.vstack(indicators))


def distance_quantities(post: HasDraws) -> Quantities:
    """Return the distances from up to 12 drawn trees, without distances that are nearly constant in all chains."""
    # The distance of two trees is the number of cells, sets of training rows of a node, that only one of them has
    draws = focal_draws(post.draws, MAX_CHECKED_FOCAL_TREES)
    by_tree = distances_from(post.draws, post.draws.tree_of_draw.ravel()[draws])
    checked = []
    for i, distance in enumerate(by_tree.astype(np.int64)[:, post.draws.tree_of_draw]):
        commonest = [np.bincount(chain).max() for chain in distance]
        if min(commonest) < (1.0 - RARE_PROBABILITY) * post.n_draws:
            checked.append(i)
    names = [f"distance from the tree of {draw_label(post.draws, draw)}" for draw in draws[checked].tolist()]
    return Quantities(names, ["distances between trees"] * len(names), by_tree[checked])


def _without_rounding_noise(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return ``values`` as multiples of a small step, so that rounding breaks no ties, and the step."""
    # The step is about 1e-9 of the range of all finite values of the array. If all are 0 they are returned unchanged.
    finite = values[np.isfinite(values)]
    step = float(1e-9 * np.ptp(finite) + 1e-14 * np.abs(finite).max()) if len(finite) else 0.0
    return (np.round(values / step), step) if step > 0.0 else (values, 1.0)


def _checked_predictions(post: HasDraws) -> Quantities:
    """Return the predictions at up to ``MAX_POINTS`` training rows, in the unit of `_without_rounding_noise`."""
    # They are means, or of a classifier the up to 3 class probabilities at each row that vary most over the draws.
    # There are none if the leaf model predicts nothing.
    model = post.model
    if not model.leaf.predicts:
        return Quantities([], [], np.empty((0, post.draws.n_distinct_trees)))
    n_classes = model.target.n_classes
    n_checked = 1 if model.classes_ is None else min(max(n_classes - 1, 1), MAX_CHECKED_CLASSES)
    max_rows = max(MAX_PREDICTIONS // (n_checked * post.draws.n_distinct_trees), MIN_POINTS)
    rows, merged_rows = distinguishable_rows(model, min(MAX_POINTS, max_rows))
    names, values = [], np.empty((len(rows), n_checked, post.draws.n_distinct_trees))
    weight = post.draws.weight_of_tree[:, None]
    for i, (row, value) in enumerate(zip(rows.tolist(), _values_by_tree(post, rows, merged_rows), strict=True)):
        # rounding must not choose between the classes, so that equal runs give equal results
        variance = np.round((weight * (value - (weight * value).sum(axis=0)) ** 2).sum(axis=0), 12)
        checked = np.sort(np.argsort(-variance, kind="stable")[:n_checked])
        values[i] = value[:, checked].T
        for k in checked.tolist():
            label = f" P(y = {model.classes_[k]})" if model.classes_ is not None and n_classes > 2 else ""
            names.append(f"prediction{label} at row {row}")
    by_tree, unit = _without_rounding_noise(values.reshape(-1, post.draws.n_distinct_trees))
    return Quantities(names, [PREDICTIONS] * len(names), by_tree, unit)


def _values_by_tree(post: HasDraws, rows: np.ndarray, merged_rows: np.ndarray) -> Iterator[np.ndarray]:
    """Yield for each of ``rows`` the predictions by the distinct trees, (n_distinct_trees, 1 or K)."""
    # ``rows`` (m,) are numbers of training rows, ``merged_rows`` (m,) the group of merged equal rows that each is in
    model, regressors = post.model, post.model.target.regressors
    for start in range(0, len(rows), MIN_POINTS):
        block = slice(start, start + MIN_POINTS)
        reached = leaves_of_units(post.draws.coded_trees, model.units.codes, merged_rows[block])
        for row, nodes in zip(rows[block].tolist(), reached, strict=True):
            if regressors is None:
                yield post.draws.place_values[nodes]
            else:
                row_regressors = np.tile(regressors[row], (len(nodes), 1))
                yield model.leaf.value(post.draws.place_stats[nodes], model.target, row_regressors)


def _failing_quantity_lines(diagnostics: Diagnostics) -> list[str]:
    """Return a line for each quantity that fails: all scalars, and the three worst quantities of each other group."""
    lines = []
    for group, failed in diagnostics.failed_by_group():
        listed = sorted(failed) if group == "scalars" else failed[:MAX_LISTED_PER_KIND]
        for i in listed:
            rhat, ess = _failing_value_texts(diagnostics, i)
            lines.append(f"{diagnostics.names[i]}: R-hat {rhat}, ESS {ess}")
        if len(failed) > len(listed):
            lines.append(f"and {len(failed) - len(listed)} more of {(diagnostics.group == group).sum()} {group}")
    return lines


def _failing_value_texts(diagnostics: Diagnostics, i: int) -> tuple[str, str]:
    """Return R-hat and ESS of quantity ``i`` as texts, R-hat rounded up and ESS down, so that the texts fail, too."""
    rhat, ess = float(diagnostics.rhat[i]), float(diagnostics.ess[i])
    rhat_text = f"{math.ceil(rhat * 1000) / 1000:.3f}" if rhat < 1.1 else f"{rhat:.2f}"
    return rhat_text, f"{ess if math.isnan(ess) else math.floor(ess)}"
