"""Simulation-based calibration: the rank of the tree that made the data among draws given the data is uniform.

Talts, Betancourt, Simpson, Vehtari, Gelman, *Validating Bayesian inference algorithms with simulation-based
calibration*, 2018.
"""

from typing import NamedTuple
from unittest import mock

import numpy as np
from designs import LEAVES, PRIORS, TABLES, WITHOUT_EXACT_ANSWER, combinations, model_of, simulated
from pictures import rank_histograms
from ranks import rank_of, uniformity
from report import Control, Part, picture

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.state import records as _stored
from pactree_mcmc.tree.arrays import LEAF, leaves_reached

FALSE_ALARM = 1e-3
POINT = 4
"""Row of the table that is predicted; its y is simulated twice, once as the new y."""
DRAWS, TUNE, PROPOSALS, PROPOSALS_ON_A_GRID = 7, 4, 250, 500
"""Draws and tuning of a chain, and proposals per draw: more on a grid, where splits of empty cells mix slowly."""
N_RANKS = DRAWS + 1
REPLICATIONS = {True: (16, 8), False: (128, 32)}
"""Numbers of replications (sampler, exact engine) of each combination, by ``quick``. The leaf penalty has half."""
EXPECTED = 8
"""Smallest expected number of ranks in a bin; with fewer ranks there are fewer bins."""
CONTROL_REPLICATIONS = {True: 500, False: 1500}
CELL_BYTES = 1 << 15
"""Bytes for stored cells of a chain: little, as chains are many and short, and so that cells are overwritten."""
QUANTITIES = ("leaves", "log score", "prediction", "new y", "noise variance")
WRONG_PRIOR = pt.ChipmanPrior(0.7, 0.8, max_depth=3)


class Values(NamedTuple):
    """Quantities of one tree, or of several draws; None for a quantity that the model does not have."""

    leaves: object
    log_score: object
    prediction: object
    new_y: object
    noise_variance: object


class Engine(NamedTuple):
    """Function that draws from posteriors, and errors planted in its model."""

    draw: object
    """Function of (model, rng) that returns a sampled posterior."""
    weight: float | None = None
    """Weight of every row."""
    tree_prior: object = None
    """Tree prior of the model, if it differs from the one that is simulated."""


def sampled(model, rng):
    """Return DRAWS draws of one chain, far apart."""
    apart = PROPOSALS_ON_A_GRID if isinstance(model.split_prior, pt.GridCuts) else PROPOSALS
    return pt.sample(model, DRAWS, tune=TUNE, chains=1, rng=rng, proposals=apart, start="stump", progress=False)


def solved(model, rng):
    """Return DRAWS independent draws of the exact engine."""
    return exact.solve(model).sample(DRAWS, rng)


def truth(model, tree, new_y, noise):
    """Return the `Values` of the tree that made the data, by the model's plain formulas."""
    at = POINT if model.unit_of_row is None else int(model.unit_of_row[POINT])
    for number, cell, _ in model.visit(tree):
        if tree.feature[number] == LEAF and at in cell.index:
            stats = cell.stats(model.leaf.n_stats(model.target))
    prediction = model.leaf.value(stats[None], model.target)[0, -1]
    return Values(tree.n_leaves, model.log_score(tree), prediction, new_y, noise)


def drawn(post, row, rng):
    """Return the `Values` of the draws of a posterior. ``row`` (p,) is the row to predict, as numbers."""
    model, draws = post.model, post.draws.tree_of_draw.ravel()
    reached = leaves_reached(post.draws.distinct_trees, row[None])[0]
    stats, noise = post.draws.place_stats[reached][draws], post.draws.noise_variance.ravel()
    prediction = post.draws.place_values[reached, -1][draws]
    new_y = new_values(model, stats, prediction, noise, rng)
    return Values(post.n_leaves.ravel(), post.log_score.ravel(), prediction, new_y, noise)


def new_values(model, stats, prediction, noise, rng):
    """Return a new y (m,) from each of the leaves with ``stats`` (m, n_stats), parameters integrated out.

    ``prediction`` (m,) is that of each leaf, ``noise`` (m,) the variance that leaves share, if they do.
    """
    leaf, target = model.leaf, model.target
    if model.classes_ is not None:
        return (rng.random(len(stats)) < prediction).astype(int)
    if isinstance(leaf, pt.PoissonGamma):
        rate = leaf.rate + stats[:, 0]
        return rng.negative_binomial(leaf.shape + stats[:, 1], rate / (rate + 1.0))
    if not leaf.has_additive_score:
        return rng.normal(prediction, np.sqrt(noise * (1.0 + 1.0 / (leaf.k0 + stats[:, 0]))))
    df, location, scale = leaf.predictive(stats, np.arange(len(stats)), target).parameters
    around = rng.normal(size=len(stats)) if np.isinf(df).all() else rng.standard_t(df)
    return location + scale * around


def replicate(names, template, engine, rng):
    """Return the ranks of the quantities of one simulated tree; -1 for a quantity that the model does not have.

    ``names`` are those of split prior, tree prior and leaf, ``template`` the model with the row to predict in front.
    """
    split_prior, prior, leaf = names
    tree, y, noise = simulated(template, rng, new_rows=1)
    weight = None if engine.weight is None else np.full(len(y) - 1, engine.weight)
    model = model_of(split_prior, prior, leaf, y[1:], sample_weight=weight, tree_prior_given=engine.tree_prior)
    row = model.columns.numbers(TABLES[split_prior]["X"][[POINT]])[0]
    values = truth(model, tree, y[0], noise)
    draws = drawn(engine.draw(model, rng), row, rng)
    return [-1 if v is None else rank_of(v, d, rng) for v, d in zip(values, draws, strict=True)]


def ranks_of(names, engine, n, seed):
    """Return the ranks (n, quantities) of ``n`` replications of a combination of names."""
    rng = np.random.default_rng(seed)
    template = model_of(*names, extra_rows=[POINT])
    with mock.patch.object(_stored, "MAX_STORED_BYTES", CELL_BYTES):
        return np.array([replicate(names, template, engine, rng) for _ in range(n)])


def tests_of(ranks, what):
    """Return (text, p value) for every quantity of ``ranks`` (n, quantities); ``what`` begins the texts."""
    found = []
    for q, name in enumerate(QUANTITIES):
        known = ranks[:, q][ranks[:, q] >= 0]
        if len(known):
            n_bins = next(b for b in (N_RANKS, 4, 2) if len(known) >= EXPECTED * b or b == 2)
            found.append((f"{what}: {name}", uniformity(known, N_RANKS, n_bins)))
    return found


def all_tests(by_names, engine):
    """Return the tests of each combination of names, and of all that share a leaf, a tree prior or a split prior."""
    found = []
    for names, ranks in by_names.items():
        found += tests_of(ranks, f"{engine}, {', '.join(names)}")
    for place, kinds in enumerate((TABLES, PRIORS, LEAVES)):
        for kind in kinds:
            some = [ranks for names, ranks in by_names.items() if names[place] == kind]
            if some:
                found += tests_of(np.concatenate(some), f"{engine}, all with {kind}")
    return found + tests_of(np.concatenate(list(by_names.values())), f"{engine}, all")


def controls(limit, quick):
    """Return planted errors as `Control`, and their ranks. ``limit`` is the p value below which one is noticed."""
    n = CONTROL_REPLICATIONS[quick]
    cases = {
        "data from ChipmanPrior(0.9, 0.8), belief ChipmanPrior(0.7, 0.8)": (
            ("local", "chipman", "inverse gamma"),
            Engine(sampled, tree_prior=WRONG_PRIOR),
        ),
        "every row weighs 1.5": (("grid", "stopped", "shared variance"), Engine(sampled, weight=1.5)),
        "every row weighs 1.5, exact engine": (("dyadic", "chipman", "poisson"), Engine(solved, weight=1.5)),
    }
    found, ranks = [], {}
    for number, (what, (names, engine)) in enumerate(cases.items()):
        ranks[what] = ranks_of(names, engine, n, (7, number))
        worst = min(tests_of(ranks[what], what), key=lambda test: test[1])
        figure = f"p = {worst[1]:.1e} of {worst[0].split(': ')[-1]}, limit {limit:.1e}"
        found.append(Control(f"{what} ({', '.join(names)})", worst[1] < limit, figure))
    return found, ranks


def verify(quick, folder):
    """Run simulation-based calibration, draw its pictures into ``folder``, and return the `Part`."""
    replications = dict(zip(("sampled", "exact"), REPLICATIONS[quick], strict=True))
    by_engine = {"sampled": {}, "exact": {}}
    for number, names in enumerate(combinations()):
        fraction = 2 if names[1] == "penalty" else 1  # whose simulation takes a chain
        by_engine["sampled"][names] = ranks_of(names, Engine(sampled), replications["sampled"] // fraction, (1, number))
        if names[2] != WITHOUT_EXACT_ANSWER:
            by_engine["exact"][names] = ranks_of(names, Engine(solved), replications["exact"] // fraction, (2, number))
    tests = [test for engine, by_names in by_engine.items() for test in all_tests(by_names, engine)]
    limit = FALSE_ALARM / len(tests)
    failures = tuple(f"{what}: p = {p:.1e}" for what, p in tests if p < limit)
    found, planted = controls(limit, quick)
    by_leaf = {
        leaf: np.concatenate([ranks for names, ranks in by_engine["sampled"].items() if names[2] == leaf])
        for leaf in LEAVES
    }
    rank_histograms(by_leaf, N_RANKS, QUANTITIES, folder / "ranks.png", FALSE_ALARM)
    rank_histograms(planted, N_RANKS, QUANTITIES, folder / "ranks_planted.png", FALSE_ALARM)
    smallest = min(tests, key=lambda test: test[1])
    text = TEXT.format(
        n=len(combinations()),
        sampled=replications["sampled"],
        exact=replications["exact"],
        draws=DRAWS,
        tune=TUNE,
        proposals=PROPOSALS,
        on_a_grid=PROPOSALS_ON_A_GRID,
        limit=limit,
        smallest=f"{smallest[1]:.1e} ({smallest[0]})",
        ranks=picture("ranks.png", "Histograms of the ranks by leaf model and quantity", folder),
        planted=picture("ranks_planted.png", "Histograms of the ranks under planted errors", folder),
    )
    return Part("Simulation-based calibration", text, len(tests), FALSE_ALARM, failures, tuple(found))


TEXT = """
A tree is drawn from the prior, data from the tree (`pt.simulate`), and its rank taken among {draws} draws of
`pt.sample(model, kernel="default")` given the data, {proposals} proposals apart ({on_a_grid} on a grid) after {tune}
draws of tuning from the stump. If model, simulator and sampler agree, ranks of any quantity are uniform (Talts et al.
2018). Ranked are the number of leaves, the log score, the prediction at a row, a new y of that row (the y of a
duplicate that the posterior does not see, among draws of the predictive distribution), and the noise variance that all
leaves share; among ties the place is drawn at random. Twelve rows; {n} combinations of leaf model, tree prior and split
prior, {sampled} replications each (half of them under the leaf penalty); and, as a second reader of such simulations,
independent draws of the exact engine, {exact} replications each (a shared variance has no exact answer).

Checks: chi-square tests of each quantity in each combination, and of all combinations that share a leaf model, a tree
prior or a split prior. A check fails below p = {limit:.1e}; the smallest p value was {smallest}.

Data without every class are drawn again, which leaves the posterior of the others as it is. FrozenLaplace is a model of
the rows of S given those of E, whose labels stay. The leaf penalty is no branching process, but a distribution over
finitely many trees all the same: `pt.simulate` draws from it by a chain. Not models of data, hence not here:
`PacBayesLoss` and sample weights; their posteriors are distributions over trees, compared with exact ones in the
sections on the prior (where all weights are 1e-300) and on total variation.

{ranks}

Bars are fractions of the ranks, all combinations with the leaf together; the grey band holds all bars of a panel with
probability 0.999. Below, the same under planted errors.

{planted}
"""
