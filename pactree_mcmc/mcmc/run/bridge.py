"""The evidence of a run that learned a density of trees: bridge sampling between its draws and draws of the density.

After Meng and Wong, *Simulating ratios of normalizing constants via a simple identity*, Statistica Sinica 6 (1996).
With weights ``w = pi(T) / g(T)`` of n draws of the chains and m of the density, the evidence Z solves

    Z  =  mean_g [w / (s w + r Z)] / mean_pi [1 / (s w + r Z)],      s = n / (n + m),  r = m / (n + m)

with n counted in effective draws. Its relative error is that of the two means (Frühwirth-Schnatter 2004, *Econometrics
Journal* 7); that of the chains from the autocorrelation of their terms, or from the spread of the chains if larger.
"""

from __future__ import annotations

from math import inf, log
from typing import Any, NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ...core.logsum import log_mean
from ...core.special import stdtrit
from ...posterior.ess import FEWEST_PER_CHAIN, autocorrelation_times
from ...posterior.evidence import COVERED, evidence_constant, prior_mass
from ..chain.chain import Chain
from ..chain.snapshot import ARRAYS, generator_from
from ..chain.start import load_tree
from ..edits.grow import cut_down
from ..learned.graph import log_density
from ..moves.learned import is_drawable
from ..state.arrays import MOST_VALUES
from ..state.terms import subtree_log_prior, subtree_log_score
from .survey import drawn_freely, set_density

N_CHAINED, N_DRAWN = 400, 800
"""Draws of the chains that are weighed, and trees drawn from the density."""
STEPS = 200
MOST_ABOVE = 100.0
"""Times the evidence that an unbiased estimate of it is with a probability of one in so many, at most (Markov)."""


class Bridge(NamedTuple):
    """An evidence, and how well it is known."""

    log_evidence: float
    se: float | None
    """None where the draws are too few to tell."""
    objection: str = ""
    """Why the evidence is not to be relied on; "" where nothing speaks against it."""


def bridge(post: Any) -> Bridge | None:
    """The evidence by the density that the chains of a posterior learned; None where they learned none of whole trees.

    So it is where the prior's own mass is not known, the variance of the leaves or the feature weights are drawn, or
    the whole table is too large a cell to be drawn, or the density has none of the trees of the chains.
    """
    model, course = post.model, post.course
    if course is None or not course.ends or not course.kernel.guided or post.tempering is not None:
        return None
    if not model.lowered.is_fixed:
        return None
    if prior_mass(model).log_mass is None or model.units.n_units * len(model.lowered.split_prior.feature) > MOST_VALUES:
        return None
    end = course.ends[0]
    chain = Chain(model.lowered, course.kernel, generator_from(end.generator))
    set_density(chain, end.replicas[0].state[ARRAYS.index("density")], 1.0)
    chain.take(end.replicas[0].graph)
    if not chain.state.node[0].splittable:
        return None
    drawn = drawn_freely(chain, N_DRAWN)
    chained = _chained(chain, post)
    if not np.isfinite(chained).any():
        return None
    found = _bridged(chained, drawn)
    found = found._replace(log_evidence=found.log_evidence + evidence_constant(model))
    return found._replace(objection=_objection(found, course.fits))


def _objection(found: Bridge, fits: np.ndarray | None) -> str:
    """What to warn of where one of two fits finds so much more that it is no chance, if the bridge is right.

    However few draws it is worth: a mean of weights is seldom far above what it estimates.
    """
    if fits is None or found.se is None or fits[:, 0].max() <= found.log_evidence + 2.0 * found.se + log(MOST_ABOVE):
        return ""
    return (
        f"the log evidence is {found.log_evidence:.2f} +- {found.se:.2f} by the draws of the chains, but "
        f"{fits[:, 0].max():.2f} by trees drawn in tuning from a density fitted to half of them, which is an unbiased "
        f"estimate of the evidence and so much above it with a probability below {2.0 / MOST_ABOVE:g}: the chains have "
        "lost part of the posterior."
    )


def _chained(chain: Chain, post: Any) -> np.ndarray:
    """Log weights (chains, k) of draws of the chains, evenly spaced; infinite where the density has no such tree."""
    each = max(N_CHAINED // post.n_chains, 1)
    which = np.unique(np.linspace(0, post.n_draws - 1, min(each, post.n_draws)).astype(np.int64))
    chosen = post.tree_of_draw[:, which]
    trees, number = np.unique(chosen, return_inverse=True)
    weights = np.empty(len(trees))
    for i, tree in enumerate(trees.tolist()):
        cut_down(chain.packed)
        load_tree(post.model, chain, post.distinct_tree(tree))
        weights[i] = weigh(chain.walk)
    cut_down(chain.packed)
    return weights[number.reshape(chosen.shape)]


def _bridged(chained: np.ndarray, drawn: np.ndarray) -> Bridge:
    """Solve for the evidence, the logs of both kinds of weights given, of the chains' not all infinite."""
    effective = chained.size
    if chained.shape[1] >= FEWEST_PER_CHAIN and np.isfinite(chained).all():
        effective = chained.size / float(autocorrelation_times(chained[None])[0])
    s, r = (np.log(n / (effective + len(drawn))) for n in (effective, len(drawn)))
    log_z = float(np.median(chained[np.isfinite(chained)]))
    for _ in range(STEPS):
        above = drawn - np.logaddexp(s + drawn, r + log_z)
        below = -np.logaddexp(s + chained, r + log_z)
        after = float(log_mean(above) - log_mean(below))
        done, log_z = abs(after - log_z) < 1e-10, after
        if done:
            break
    above, below = np.exp(above - above.max()), np.exp(below - below.max())
    of_drawn = above.var(ddof=1) / (len(above) * above.mean() ** 2)
    if below.shape[1] < FEWEST_PER_CHAIN:
        return Bridge(log_z, None)
    time = float(autocorrelation_times(below[None])[0])
    of_chained = time * below.var() / (below.size * below.mean() ** 2)
    freedom = below.size / time
    if len(below) > 1:
        between = below.mean(axis=1).var(ddof=1) / (len(below) * below.mean() ** 2)
        if between > of_chained:
            of_chained, freedom = between, len(below) - 1.0
    wider = float(stdtrit(max(freedom, 1.0), 0.5 + COVERED / 2.0)) / 2.0
    return Bridge(log_z, float(np.sqrt(of_drawn + of_chained * wider**2)))


@jit
def weigh(walk: Any) -> float:
    """Log weight of the present tree; infinite where the density has no such tree."""
    model, state = walk.model, walk.state
    root = np.int64(0)
    if not is_drawable(model, state, root):
        return inf
    return subtree_log_prior(model, state, root) + subtree_log_score(state, root) - log_density(model, state, root)
