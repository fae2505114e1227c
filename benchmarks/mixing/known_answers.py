"""Problems whose answer is known, exactly or by symmetry: functions yield lines of text, and figures as `Check`."""

import math

import numpy as np
from measures import Check, effective, log_posterior, roots, total_variation, z_event, z_score
from problems import feature_distribution, model_of, root_pmf, truth_of
from settings import CHIPMAN_CHAINS, CHIPMAN_PROPOSALS, LEVELS, LIMITS, LONGER, ONE_DIMENSION_PROPOSALS
from timing import run_within

MAPTREE_ROOT = {11: 0.6765, 2: 0.1674, 10: 0.0421, 0: 0.0241, 5: 0.0116, 22: 0.0081}


def chipman_1998(options):
    """Run eight chains, each alone on one core, for a short and a long time; then find the evidence by tempering."""
    short = LIMITS["chipman_1998"].within(options.seconds)
    five = truth_of("chipman_1998").n_leaves_pmf()[5]
    for limit, asked in ((short, 0.02), (short._replace(seconds=LONGER * short.seconds), 0.01)):
        gaps, variations, seconds = [], [], []
        for seed in range(CHIPMAN_CHAINS):
            how = {"kernel": options.kernel, "proposals": CHIPMAN_PROPOSALS}
            run = run_within(model_of("chipman_1998"), limit, rng=seed, **how)
            gaps.append(abs((run.post.n_leaves == 5).mean() - five))
            variations.append(total_variation(root_pmf("chipman_1998"), roots(run.post).distribution()))
            seconds.append(run.seconds)
        yield f"{limit.seconds:g} s a chain, |P(5 leaves) - {five:.4f}|: {_row(gaps)}; root split: {_row(variations)}"
        yield Check(f"{limit.seconds:g} s, worst chain, |P(5 leaves) - exact|", max(gaps), asked)
        if limit is not short:
            yield Check(
                f"{limit.seconds:g} s, worst chain, total variation of the root distribution", max(variations), 0.01
            )
        yield Check("longest chain, seconds", max(seconds), limit.seconds)
    yield from _evidence(options)


def _evidence(options):
    limit = LIMITS["chipman_1998, evidence"].within(options.seconds)
    run = run_within(model_of("chipman_1998"), limit, rng=0, kernel=options.kernel, betas=LEVELS)
    estimate, error = run.post.log_evidence, run.post.log_evidence_se
    error = math.inf if error is None else error
    gap = abs(estimate - truth_of("chipman_1998").log_evidence)
    yield f"log evidence {estimate:.4f}, s.e. {error:.4f}, {LEVELS} levels, {run.seconds:.1f} s"
    yield Check("log evidence, gap to exact in standard errors", gap / error, 3.0)
    yield Check("log evidence, standard error", error, 0.05)


def one_dimension(options):
    """Compare the distribution of the root cut, and count effective draws of its most probable value, on one core."""
    limit, distribution = LIMITS["one_dimension"].within(options.seconds), root_pmf("one_dimension")
    how = {"kernel": options.kernel, "proposals": ONE_DIMENSION_PROPOSALS}
    run = run_within(model_of("one_dimension"), limit, rng=0, **how)
    drawn, best = roots(run.post), max(distribution, key=distribution.get)
    apart = [total_variation(distribution, drawn.distribution(c)) for c in range(limit.chains)]
    found = effective(drawn.has(best))
    yield f"{limit.chains} chains, {run.draws} draws each, total variation of each chain: {_row(apart)}"
    yield f"effective draws a draw of the root {best[1]:.4f}: {found / (limit.chains * run.draws):.2f}"
    yield Check("total variation of the root distribution", total_variation(distribution, drawn.distribution()), 0.05)
    rate = found / run.seconds
    yield Check(
        f"effective draws a second of the root {best[1]:.4f} (P = {distribution[best]:.3f})",
        rate,
        5000.0,
        at_least=True,
    )
    yield Check("seconds", run.seconds, limit.seconds)


def maptree_medium(options):
    """Compare the distribution of the root feature on the published test case."""
    limit = LIMITS["maptree_medium"].within(options.seconds)
    run = run_within(model_of("maptree_medium"), limit, rng=0, kernel=options.kernel)
    root = run.post.root_feature
    for feature, exact in MAPTREE_ROOT.items():
        fractions = (root == feature).mean(axis=1)
        what = f"|P(root f{feature}) - {exact}| of all chains (each has {_row(fractions)})"
        yield Check(what, abs(fractions.mean() - exact), 0.02)
    yield Check("seconds", run.seconds, limit.seconds)


def wu_tjelmeland_west(options):
    """Compare visits to two trees with the same partition: every chain must visit the roots x1 and x3 equally often."""
    limit = LIMITS["wu_tjelmeland_west"].within(options.seconds)
    run = run_within(model_of("wu_tjelmeland_west"), limit, rng=0, kernel=options.kernel)
    root = run.post.root_feature
    fraction = {name: (root == k).mean(axis=1) for k, name in ((0, "x1"), (1, "x2"), (2, "x3"), (-1, "no split"))}
    for name, fractions in fraction.items():
        yield f"root {name}, fraction in each chain: {_row(fractions)}"
    if truth_of("wu_tjelmeland_west") is None:
        yield "exact distribution out of reach"
    else:
        yield f"exact distribution of the root feature: {_row(feature_distribution(root_pmf('wu_tjelmeland_west'), 3))}"
    apart = np.abs(fraction["x1"] - fraction["x3"])
    least = np.minimum(fraction["x1"], fraction["x3"])
    yield Check("worst chain, |fraction of x1 - fraction of x3|", apart.max(), 0.1)
    yield Check("worst chain, draws with the rarer of the two", least.min() * run.draws, 1, at_least=True)
    yield Check("seconds", run.seconds, limit.seconds)


def xor_twins(options):
    """Compare every chain with the exact answer, in Monte-Carlo standard errors."""
    limit, truth = LIMITS["xor_twins"].within(options.seconds), truth_of("xor_twins")
    run = run_within(model_of("xor_twins"), limit, rng=0, kernel=options.kernel)
    by_chain = [_twin_scores(run.post, truth, c) for c in range(limit.chains)]
    fractions = [(run.post.root_feature == k).mean() for k in range(3)]
    yield f"root feature, all chains: {_row(fractions)}; exact {_row(feature_distribution(root_pmf('xor_twins'), 3))}"
    yield f"inclusion, all chains: {_row(run.post._feature_inclusion())}; exact {_row(truth._feature_inclusion())}"
    for what in by_chain[0]:
        yield Check(f"{what}, worst |z| of any chain", max(scores[what] for scores in by_chain), 4.0)
    yield Check("seconds", run.seconds, limit.seconds)


def _twin_scores(post, truth, chain):
    """Return the largest |z| of one chain for leaves, root feature, inclusion, and the difference between the twins."""
    here = slice(chain, chain + 1)
    leaves, pmf = post.n_leaves[here], truth.n_leaves_pmf()
    floor = min(effective(leaves), effective(log_posterior(post)[here]))
    root = post.root_feature[here]
    inclusion = post.split_counts[here] > 0
    sizes = np.arange(len(pmf))
    mean = pmf @ sizes
    events = {
        "leaves": [(leaves == m, pmf[m]) for m in sizes[pmf >= 0.01]],
        "root feature": [(root == k, p) for k, p in enumerate(feature_distribution(root_pmf("xor_twins"), 3))],
        "inclusion": [(inclusion[:, :, k], p) for k, p in enumerate(truth._feature_inclusion())],
    }
    scores = {what: max(abs(z_event(*event, floor)) for event in several) for what, several in events.items()}
    scores["mean number of leaves"] = abs(z_score(leaves, mean, math.sqrt(pmf @ (sizes - mean) ** 2), floor))
    difference = inclusion[:, :, 0].astype(float) - inclusion[:, :, 2]
    scores["inclusion of one twin less that of the other"] = abs(z_score(difference, 0.0, 1.0, floor))
    return scores


def _row(values):
    return " ".join(f"{value:.4f}" for value in values)
