"""Certificates of posteriors and divergences from the prior: against enumeration and independent draws; refusals."""

import math

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact import sums
from pactree_mcmc import certificates as pc
from pactree_mcmc.posterior.rows.certificate import check_prior_of_certificate, empirical_losses
from pactree_mcmc.tree.arrays import LEAF
from tests.problems.drawn import random_problem
from tests.problems.refusals import refuses
from tests.reference.enumeration import Reference, leaf_of
from tests.reference.leaf_scores import predictive, sample

CLOSE = {"rel": 1e-9, "abs": 1e-9}
CUTS = pt.GridCuts([np.arange(0.1, 1.0, 0.1), [0.25, 0.5, 0.75]])
FAST = {"kernel": "grow-prune", "chains": 2, "rng": 1}
SPLIT_PRIORS = {
    "local": lambda: model_with(pt.LocalCuts()),
    "trivial": lambda: model_with(pt.LocalCuts(trivial=True), columns=("u", "c")),
    "grid": lambda: model_with(pt.GridCuts([[0.2, 0.4, 0.7], [0.5, 1.5], None])),
    "dyadic": lambda: model_with(pt.DyadicCuts(2), columns=("u", "v")),
    "fixed": lambda: model_with(pt.kd_tree(table(40)[0][["u"]], 3), columns=("u",)),
}
KINDS = {
    "chains": lambda model, path: pt.sample(model, 100, tune=50, **FAST),
    "tempered": lambda model, path: pt.sample(model, 60, tune=50, betas=[1.0, 0.5], **FAST),
    "resumed": lambda model, path: pt.resume(pt.sample(model, 50, tune=50, **FAST), 50),
    "loaded": lambda model, path: through_a_file(pt.sample(model, 50, tune=50, **FAST), path),
    "exact draws": lambda model, path: exact.solve(model).sample(200, rng=1),
    "exact progressive draws": lambda model, path: exact.progressive_mixture(model, orders=2, rng=1).sample(200, rng=1),
    "progressive, smc": lambda model, path: pt.progressive_mixture(model, particles=20, draws=100, **FAST),
    "progressive, mcmc": lambda model, path: pt.progressive_mixture(model, engine="mcmc", draws=100, **FAST),
}


def split_problem(rng):
    """A random tiny problem whose sample is parted, with rows to count."""
    while True:
        split_prior = str(rng.choice(["grid", "dyadic", "fixed"]))
        leaf = str(rng.choice(["loss", "laplace"]))
        problem, model = random_problem(rng, split_prior=split_prior, leaf=leaf, max_trees=400)
        if problem.estimation is not None and not all(problem.estimation):
            return problem, model


def naive_losses(problem, trees):
    """Mean over the rows of S of the mean loss of a tree, and of its square, tree by tree and row by row."""
    counted = sample(problem, range(len(problem.X)), False)
    means = []
    for i in counted:
        label = problem.classes.index(problem.y[i])
        wrong = [q * (1.0 - predictive(problem, leaf_of(problem, tree, problem.X[i]))[label]) for tree, q in trees]
        means.append(math.fsum(wrong))
    return sum(means) / len(means), sum(m * m for m in means) / len(means)


@pytest.mark.more(everyday=["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"])
@pytest.mark.parametrize("seed", range(120))
def test_exact_terms_equal_enumeration(seed):
    problem, model = split_problem(np.random.default_rng([seed, 5]))
    reference, post = Reference(problem), exact.solve(model)
    result = empirical_losses(post)
    risk, tandem = naive_losses(problem, reference.posterior())
    assert result.n == len(problem.X) - sum(map(bool, problem.estimation))
    assert result.risk == pytest.approx(risk, **CLOSE) and result.tandem == pytest.approx(tandem, **CLOSE)
    log_mass = math.log(math.fsum(math.exp(log_prior) for _, log_prior, _ in reference.entries))
    kl = math.fsum(
        q * (math.log(q) - (log_prior - log_mass))
        for (_, q), (_, log_prior, _) in zip(reference.posterior(), reference.entries)
        if q > 0.0
    )
    assert post.kl_to_prior() == pytest.approx(kl, **CLOSE)


def steps(n=600, seed=0):
    """Two features, the label a step in the first with noise; E holds two rows in five."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2)).round(3)
    y = np.where(X[:, 0] > 0.35, "b", "a")
    flipped = rng.random(n) < 0.1
    y[flipped] = np.where(y[flipped] == "a", "b", "a")
    return X, y, rng.random(n) < 0.4


def step_model(**changes):
    X, y, E = steps()
    options = {"leaf": pt.PacBayesLoss(0.2), "split_prior": CUTS, "estimation": E} | changes
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.8, 1.0, max_depth=3), **options)


@pytest.fixture(scope="module")
def solved():
    return exact.solve(step_model())


def test_draws_are_a_finite_posterior(solved):
    draws = solved.sample(50, rng=2)
    X, y, E = steps()
    fractions = np.bincount(draws.draws.tree_of_draw[0]) / 50
    assert draws.kl_to_prior() == pytest.approx(
        sum(q * math.log(q) for q in fractions) - fractions @ draws.draws.log_prior_of_tree
    )
    result = empirical_losses(draws)
    p = draws.predict_proba(X[~E])[np.arange((~E).sum()), (y[~E] == "b").astype(int)]
    assert result.n == (~E).sum() and result.risk == pytest.approx((1.0 - p).mean())
    assert result.tandem == pytest.approx(((1.0 - p) ** 2).mean())


@pytest.mark.more(everyday=["laplace"])
@pytest.mark.parametrize(
    "changes",
    [
        {"leaf": pt.FrozenLaplace()},
        {"split_prior": pt.DyadicCuts(2, bounds=[[0.0, 1.0], [0.0, 1.0]])},
        {"split_prior": pt.DyadicCuts(2, cyclic=True, bounds=[[0.0, 1.0], [0.0, 1.0]])},
        {"split_prior": pt.FixedTree(pt.Tree([0, -1, -1], [0.4, 0, 0], [1, 0, 0], [2, 0, 0]))},
        {"sample_weight": np.where(steps()[2], 2.0, 1.0)},
    ],
    ids=["laplace", "dyadic", "cyclic", "fixed", "weights of E"],
)
def test_allowed(changes):
    X, y, E = steps()
    post = exact.solve(step_model(**changes))
    certificate = post.certificate()
    p = post.predict_proba(X[~E])[np.arange((~E).sum()), (y[~E] == "b").astype(int)]
    assert certificate.risk == pytest.approx((1.0 - p).mean())
    assert certificate.tandem_loss == pytest.approx(((1.0 - p) ** 2).mean())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"leaf": pt.DirichletMultinomial(), "estimation": None}, "DirichletMultinomial learns leaf values"),
        ({"leaf": pt.PacBayesLoss(1.0), "estimation": None}, "PacBayesLoss learns leaf values from every row"),
        ({"split_prior": pt.LocalCuts()}, "LocalCuts has the splits that separate the rows"),
        ({"split_prior": pt.GridCuts(4)}, r"GridCuts\(4\) takes quantiles of all rows"),
        ({"split_prior": pt.DyadicCuts(2)}, "DyadicCuts without bounds takes the range of all rows"),
        ({"estimation": np.ones(600, dtype=bool)}, "holds every row, so none is left to count"),
        ({"sample_weight": np.resize([0.5, 0.5, 1.0], 600)}, "sample_weight differs between counted rows"),
        ({"estimation": steps()[1] == "b"}, "class 'a', the label of a cell without rows of E, occurs only in counted"),
    ],
)
def test_refused_with_the_reason(changes, reason):
    model = step_model(**changes)
    with pytest.raises(ValueError, match=f"no certificate: .*{reason}.* or use holdout_certificate") as refusal:
        check_prior_of_certificate(model)
    assert (
        str(refusal.value)
        == f"no certificate: {model.certificate_obstacle()}, or use holdout_certificate on held-out rows."
    )


def test_refused_for_want_of_categories_or_one_price():
    E = np.arange(60) % 2 == 0
    c = np.where(np.arange(60) == 7, "rare", np.where(np.arange(60) % 4 < 2, "p", "q"))
    frame = pd.DataFrame({"c": pd.Categorical(c)})
    y, leaf = np.arange(60) % 3 == 0, pt.PacBayesLoss(1.0)
    model = pt.TreeModel(frame, y, split_prior=pt.GridCuts([None]), leaf=leaf, estimation=E)
    refuses("category 'rare' of column 'c' occurs only in counted rows", lambda: check_prior_of_certificate(model))
    X, y, E = steps()
    prior = pt.LeafPenalty(1.0, empty_cost=0.0)
    model = pt.TreeModel(X, y, tree_prior=prior, split_prior=CUTS, leaf=leaf, estimation=E)
    refuses("give LeafPenalty one cost", lambda: check_prior_of_certificate(model))


def test_a_class_of_counted_rows_alone_is_refused_where_it_moves_the_leaves():
    """A third class in one row of S takes a pseudocount from the others in every leaf that E alone should freeze."""
    X, y, E = steps()
    strange = y.copy()
    strange[np.flatnonzero(~E)[0]] = "c"
    stump, options = pt.Tree([-1], [0.0], [0], [0]), {"split_prior": CUTS, "estimation": E}
    values = []
    for labels in (y, strange):
        model = pt.TreeModel(X, labels, leaf=pt.FrozenLaplace(50.0), tree_prior=pt.ChipmanPrior(0.0, 1.0), **options)
        values.append(exact.solve(model).predict_proba(X[:1])[0, :2])
    assert abs(values[0] - values[1]).min() > 0.04
    reason = (
        "class 'c' occurs only in counted rows, and the number of classes sets the probabilities of every FrozenLaplace"
    )
    assert reason in model.certificate_obstacle()
    refuses(reason, lambda: exact.solve(model).certificate())
    with pytest.raises(ValueError, match=reason):
        pt.progressive_mixture(model, engine="mcmc", kernel="grow-prune", draws=10, chains=2, rng=0).certificate()
    # the labels of PacBayesLoss are those of E whatever S holds; its new class is an error of every tree
    loss = pt.TreeModel(X, strange, leaf=pt.PacBayesLoss(0.2), **options)
    assert loss.certificate_obstacle() is None
    risks = [
        empirical_losses(exact.solve(pt.TreeModel(X, labels, leaf=pt.PacBayesLoss(0.0), **options))).risk
        for labels in (y, strange)
    ]
    assert risks[1] != risks[0] == pytest.approx(risks[1], abs=1.0 / (~E).sum()) and model.log_prior(stump) == 0.0


def parted_table(seed, n=60, n_counted=40):
    """Rows of E, always the same, and rows of S that differ from draw to draw, in everything they may differ in."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng([seed, 1])
    plain = {"n_classes": 2, "letters": "pq", "u_lacks": 0.0, "v_lacks": 0.2}
    other = [{}, {"n_classes": 3}, {"letters": "pqr"}, {"u_lacks": 0.2}, {"v_lacks": 0.0}][seed % 5]
    parts = []
    for source, size, has in [(fixed, n - n_counted, plain), (rng, n_counted, plain | other)]:
        parts.append(
            {
                "u": np.where(
                    source.random(size) < has["u_lacks"], np.nan, source.random(size) * (1 + 2 * (source is rng))
                ),
                "v": np.where(source.random(size) < has["v_lacks"], np.nan, source.random(size)),
                "c": source.choice(list(has["letters"]), size),
                "y": source.integers(has["n_classes"], size=size),
            }
        )
    frame = pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)
    return frame[["u", "v", "c"]], frame["y"].to_numpy(), np.arange(n) < n - n_counted


@pytest.mark.more(everyday=["grid-laplace"])
@pytest.mark.parametrize("leaf", [pt.FrozenLaplace(), pt.PacBayesLoss(1.0)], ids=["laplace", "loss"])
@pytest.mark.parametrize("split_prior", ["grid", "dyadic", "quantiles", "range", "local"])
def test_without_obstacle_prior_and_leaves_are_functions_of_E(split_prior, leaf):
    """Other rows of S, the same E: the prior of every tree and what its leaves predict stay, or a model objects."""
    split_priors = {
        "grid": pt.GridCuts([[0.3, 0.6], [0.5], None]),
        "dyadic": pt.DyadicCuts(2, bounds=[[0.0, 1.0]] * 2),
        "quantiles": pt.GridCuts(3),
        "range": pt.DyadicCuts(1),
        "local": pt.LocalCuts(),
    }[split_prior]
    columns = ["u", "v"] if split_prior in ("dyadic", "range") else ["u", "v", "c"]
    result, objected = [], 0
    for seed in range(12):
        X, y, E = parted_table(seed)
        model = pt.TreeModel(
            X[columns], y, split_prior=split_priors, leaf=leaf, estimation=E, missing="branch",
            nominal=["c"] if "c" in columns else None, tree_prior=pt.ChipmanPrior(0.7, 1.0, max_depth=2),
        )  # fmt: skip
        if model.certificate_obstacle() is not None:
            objected += 1
            continue
        if not result:
            trees = exact.solve(model).draw_trees(30, 0)
        summaries = []
        for tree in trees:
            cells = [cell for number, cell, _ in model.visit(tree) if tree.feature[number] == -1]
            stats = np.array([cell.stats(model.leaf.n_stats(model.target)) for cell in cells])
            value = model.leaf.value(stats, model.target)
            summaries.append(
                (round(model.log_prior(tree), 9), value[:, :2].round(12).tolist(), abs(value[:, 2:]).sum())
            )
        result.append(summaries)
    if split_prior in ("quantiles", "range", "local"):
        assert objected == 12
    else:
        assert 2 <= objected <= 10 and all(summaries == result[0] for summaries in result)


def test_penalty_is_normalised_where_it_can_be():
    X, y, E = steps()
    prior = pt.LeafPenalty(0.5, max_depth=2)
    model = pt.TreeModel(X, y, tree_prior=prior, split_prior=CUTS, leaf=pt.PacBayesLoss(0.2), estimation=E)
    post = exact.solve(model)
    assert 0.0 < post.certificate().kl < 20.0
    assert post.sample(4000, rng=0).certificate().kl == pytest.approx(post.certificate().kl, abs=0.1)
    drawn = pt.sample(model, 100, tune=10, chains=1, rng=0, progress=False)
    refuses("LeafPenalty is not normalised", lambda: drawn.certificate())


def test_parts_of_a_certificate(solved):
    c = solved.certificate(0.1)
    assert c.gibbs.raw == pc.pac_bayes_kl(c.risk, c.kl, c.n, 0.05).raw <= c.relaxed.raw
    assert c.tandem.raw == pc.vote_tandem(c.tandem_loss, c.kl, c.n, 0.05).raw
    assert c.vote.raw == min(c.factor_two.raw, c.tandem.raw)


def test_holdout(solved):
    X, y, _ = steps(400, seed=9)
    c = solved.holdout_certificate(X, y, 0.1)
    errors = int((solved.predict(X) != y).sum())
    assert (c.n, c.errors) == (400, errors) and c.vote.raw == pc.holdout(errors, 400, 0.05).raw
    p = solved.predict_proba(X)[np.arange(400), (y == "b").astype(int)]
    assert c.gibbs.raw == pytest.approx(pc.holdout_gibbs((1.0 - p).mean(), 400, 0.05).raw)
    assert pc.binary_kl((1.0 - p).mean(), c.gibbs.raw) == pytest.approx(math.log(20.0) / 400)
    unknown = solved.holdout_certificate(X, np.full(400, "z"), 0.1)
    assert (unknown.errors, unknown.vote.value) == (400, 1.0)
    refuses(r"X has 400 rows and y has shape \(3,\)", lambda: solved.holdout_certificate(X, y[:3]))
    assert pc.holdout(5, 100).raw > pc.holdout(5, 200).raw > pc.holdout(4, 200).raw > pc.holdout(4, 200, 0.5).raw
    assert pc.holdout_gibbs(0.1, 100).raw > pc.holdout_gibbs(0.1, 200).raw > pc.holdout_gibbs(0.1, 200, 0.5).raw


def table(n, seed=0):
    """A coarse number, one that lacks values and a category, and a label that follows them with noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "u": rng.integers(6, size=n) / 6.0,
            "v": np.where(rng.random(n) < 0.2, np.nan, rng.integers(4, size=n)),
            "c": pd.Categorical(np.append(list("pqr"), rng.choice(list("pqr"), n - 3))),
        }
    )
    return frame, ((frame["u"] > 0.4) | (frame["c"] == "q")).to_numpy() ^ (rng.random(n) < 0.15)


def model_with(split_prior, n=40, columns=("u", "v", "c"), **more):
    X, y = table(n)
    options = {"leaf": pt.FrozenLaplace(), "estimation": np.arange(n) % 2 == 0, **more}
    prior = pt.ChipmanPrior(0.8, 0.8, max_depth=3)
    return pt.TreeModel(X[list(columns)], y, tree_prior=prior, split_prior=split_prior, missing="branch", **options)


def through_a_file(post, path):
    post.save(path / "post.nc")
    return pt.load(path / "post.nc")


def split_in_model_terms(model, cell, split):
    """Return a split in the terms of the model, and True if its sides are in the other order."""
    k = split.feature
    if model.split_prior.kind in (0, 1):  # local: how the rows of the cell are parted
        left = cell.goes_left(split)
        sides = [frozenset(cell.index[left].tolist()), frozenset(cell.index[~left].tolist())]
        if len(cell.index) == 0:
            return (k, "the one way of an empty cell"), False
    elif split.categories >= 0:
        sides = [
            frozenset(bits(split.categories & int(cell.low[k]))),
            frozenset(bits(~split.categories & int(cell.low[k]))),
        ]
    else:
        return (k, split.cut), False
    if split.categories >= 0 and all(sides) and model.shape is None:
        return (k, frozenset(sides)), min(sides[1]) < min(sides[0])
    return (k, tuple(sides)), False


def bits(mask):
    return [j for j in range(63) if mask >> j & 1]


def key_of(model, tree):
    nodes = {number: (cell, split) for number, cell, split in model.visit(tree)}

    def told(i):
        if tree.feature[i] == LEAF:
            return LEAF
        split, turned = split_in_model_terms(model, *nodes[i])
        below = [told(int(tree.left[i])), told(int(tree.right[i]))]
        return (split, *(below[::-1] if turned else below))

    return told(0)


def merged_divergence(post):
    """The divergence of the distribution of the draws, and how many trees there are, one draw at a time."""
    fraction, log_prior = {}, {}
    for t in post.draws.tree_of_draw.ravel().tolist():
        tree = post.draws.distinct_tree(t)
        key = key_of(post.model, tree)
        fraction[key] = fraction.get(key, 0.0) + 1.0 / post.draws.tree_of_draw.size
        log_prior[key] = post.model.log_prior(tree)
    return math.fsum(q * (math.log(q) - log_prior[key]) for key, q in fraction.items()), len(fraction)


@pytest.mark.more(everyday=["tempered-trivial", "loaded-dyadic"])
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_divergence_is_that_of_the_merged_distribution(kind, split_prior, tmp_path):
    post = KINDS[kind](SPLIT_PRIORS[split_prior](), tmp_path)
    expected, n_different = merged_divergence(post)
    assert post.kl_to_prior() == pytest.approx(expected, rel=1e-10, abs=1e-10) and post.kl_to_prior() >= 0.0
    if kind.startswith("progressive"):
        assert n_different < post.draws.n_distinct_trees  # the same tree with the leaves of other stages
    else:
        assert n_different == post.draws.n_distinct_trees


def test_the_certificate_of_a_progressive_mixture():
    """Each of many stages has its own leaves under a leaf that learns, and other counts of S under a frozen one."""
    rng = np.random.default_rng(0)
    x = rng.random(60)
    y = (x > 0.4) ^ (rng.random(60) < 0.1)
    model = pt.TreeModel(
        x[:, None], y, split_prior=pt.GridCuts([[0.25, 0.5, 0.75]]), leaf=pt.FrozenLaplace(),
        tree_prior=pt.ChipmanPrior(0.8, 1.0, max_depth=3), estimation=np.arange(60) % 2 == 0,
    )  # fmt: skip
    post = pt.progressive_mixture(model, engine="mcmc", draws=120, **FAST)
    expected, n_different = merged_divergence(post)
    assert n_different <= 15 < 60 < post.draws.n_distinct_trees
    weight = np.bincount(post.draws.tree_of_draw.ravel()) / post.draws.tree_of_draw.size
    assert weight @ (np.log(weight) - post.draws.log_prior_of_tree) < 0.0  # as if a tree were another one at each stage
    assert post.certificate().kl == pytest.approx(expected, rel=1e-12) and expected > 0.0


def test_no_posterior_hides_a_negative_divergence(monkeypatch):
    model = SPLIT_PRIORS["grid"]()
    truth = exact.solve(model)
    draws = truth.sample(100, rng=0)
    draws.draws.log_prior_of_tree += 100.0
    refuses("report it", lambda: draws.kl_to_prior(), RuntimeError)
    monkeypatch.setattr(sums, "log_sum", lambda graph: -100.0)
    refuses("report it", lambda: truth.kl_to_prior(), RuntimeError)
