"""Advice on a run whose draws fail a convergence criterion, as sentences of the warning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .ess import chains_disagree, chains_have_trend

if TYPE_CHECKING:
    from .convergence import Diagnostics
    from .draws import DrawnTrees

MIN_ESS = 400.0
"""Smallest effective sample size that passes, from Vehtari et al. (2021)."""
SCALARS = ("log posterior", "number of leaves", "depth")
"""Names of the quantities that are one number of a tree; they come first in every list of quantities."""
MAX_LISTED_PER_KIND = 3
"""Largest number of failing quantities of each kind, the worst first, that a warning lists."""
SLOW_RUN_FACTOR = 20.0
"""Factor by which the run would have to be longer, above which another kind of run is advised instead."""
MAX_RESUME_FACTOR = 1.5
"""Largest factor by which the run would have to be longer at which the advice is to resume it."""
LENGTH_ARGUMENTS = ("tune", "thin", "proposals")
"""Arguments of `sample` that fix the length of a run."""


def advice_lines(post: DrawnTrees, diagnostics: Diagnostics, levels: int) -> list[str]:
    """Return sentences of advice on a run of ``levels`` inverse temperatures that fails, the most helpful first.

    ``diagnostics`` are those of the draws ``post``, with at least one quantity that fails.
    """
    worst = np.argsort(-diagnostics.times_longer, kind="stable")[:MAX_LISTED_PER_KIND]
    disagree = post.n_chains > 1 and chains_disagree(diagnostics.traces(worst, post.tree_of_draw))
    has_trend = chains_have_trend(diagnostics.by_tree[: len(SCALARS)][:, post.tree_of_draw])
    factor = float(diagnostics.times_longer.max())
    is_adaptive = _is_adaptive(post)
    remedy, longer_run = _remedy(is_adaptive, levels), _longer_run_phrase(post, is_adaptive, factor)
    sentences = []
    if disagree:
        sentences.append(f"The chains are in different modes and stay there: try {remedy}.")
    if has_trend and not is_adaptive:
        halves = "half of the chain differs" if post.n_chains == 1 else "halves of the chains differ"
        sentences.append(f"The second {halves} from the first: raise tune by {post.n_draws} or more.")
    if not disagree and factor > SLOW_RUN_FACTOR:
        sentences.append(f"The chains move slowly, {longer_run} would be needed: try {remedy} first.")
    elif not disagree and (is_adaptive or not has_trend):
        sentences.append(f"Try {_resume_call(post, factor) or longer_run}.")
    if post.n_chains == 1:
        sentences.append("One chain cannot show what others would find: give chains=4; here R-hat compares its halves.")
    if post.tree_of_draw.size < MIN_ESS:
        n_draws = post.tree_of_draw.size
        sentences.append(f"With {n_draws} draws in all the ESS cannot be expected to reach {MIN_ESS:.0f}.")
    return sentences


def _is_adaptive(post: DrawnTrees) -> bool:
    """Return True if `sample` ran with its default kernel and length, or with another kernel that adapts."""
    if post.calls:
        arguments = post.calls[0].arguments
        if arguments.get("kernel") == repr("default") and not any(name in arguments for name in LENGTH_ARGUMENTS):
            return True
    return post.course is not None and bool(post.course.kernel.adapts)


def _remedy(is_adaptive: bool, levels: int) -> str:
    """Return the arguments of `sample` to try if chains hardly move, as a phrase.

    ``is_adaptive`` is True if the default run made the draws (`_is_adaptive`). ``levels`` is the number of
    temperatures, > 1 if the run was tempered.
    """
    if levels > 1:
        return f"betas={2 * levels}"
    if is_adaptive:
        return "more chains=, or betas=8"
    return "a run without kernel=, tune=, thin= and proposals=, which draws whole trees until the chains agree"


def _resume_call(post: DrawnTrees, factor: float) -> str:
    """Return the text of a `resume` call that makes the run ``factor`` times as long.

    "" if ``factor`` > 1.5, or the run cannot be resumed.
    """
    if factor > MAX_RESUME_FACTOR or post.course is None:
        return ""
    n_further = math.ceil((math.ceil(10.0 * factor) / 10.0 - 1.0) * post.n_draws - 1e-9)
    return f"pt.resume(post, {n_further}), which adds draws to the {post.n_draws} of each chain"


def _longer_run_phrase(post: DrawnTrees, is_adaptive: bool, factor: float) -> str:
    """Return a phrase that asks for ``factor`` times as many draws per chain, or steps if ``is_adaptive``."""
    noun, n_made = ("steps", post.course.steps) if is_adaptive and post.course else ("draws", post.n_draws)
    if factor > 1000.0:
        return f"more than 1000 times as many {noun}"
    step = 10 ** max(math.floor(math.log10(n_made * factor)) - 1, 0)
    factor_text = f"{math.ceil(10.0 * factor) / 10.0:.1f}" if factor < 3.0 else f"{math.ceil(factor)}"
    return f"about {factor_text} times as many {noun} ({noun}={math.ceil(n_made * factor / step) * step})"
