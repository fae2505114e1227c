"""Another prior on the same draws against exact sums; constraints by predictions on grids and features of paths."""

import itertools

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior import reweighting

from .spaces import MODELS, all_trees

N = 30
RNG = np.random.default_rng(5)
X = np.column_stack([RNG.integers(0, 4, N), RNG.integers(0, 3, N), np.ones(N)]).astype(float)
LABELS = np.where((X[:, 0] > 1) ^ (RNG.random(N) < 0.25), "yes", "no")
NUMBERS = X[:, 0] + RNG.normal(size=N)
VAGUE, STRICT = pt.ChipmanPrior(0.9, 0.5, max_depth=3), pt.ChipmanPrior(0.6, 1.5, max_depth=2)


def model_of(prior=VAGUE, y=LABELS, leaf=None, **more):
    leaf = pt.DirichletMultinomial(1.0) if leaf is None else leaf
    return pt.TreeModel(X, y, tree_prior=prior, leaf=leaf, **more)


def draws_of(model, n=8_000):
    return exact.solve(model).sample(n, rng=1)


@pytest.mark.more(everyday=["tree prior"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (model_of(), model_of(STRICT)),
        (model_of(), model_of(leaf=pt.DirichletMultinomial(0.5))),
        (model_of(), model_of(split_prior=pt.LocalCuts(feature_weights=[3.0, 1.0, 1.0]))),
        (
            model_of(y=NUMBERS, leaf=pt.NormalInverseGamma(k0=0.2, a0=2.0, b0=2.0, m0=0.0)),
            model_of(STRICT, NUMBERS, pt.NormalInverseGamma(k0=0.4, a0=2.5, b0=2.0, m0=0.5)),
        ),
    ],
    ids=["tree prior", "leaf", "split prior", "numbers"],
)
def test_reweighted_draws_are_those_of_the_other_model(old, new):
    post = draws_of(old)
    reweighted, truth = post.reweight(new), exact.solve(new)
    summary = reweighted.reweighting
    assert 400.0 < summary.ess <= 8_000.0 and reweighted.model is new and reweighted.tree_of_draw.shape == (1, 8_000)
    ratio = truth.log_evidence - exact.solve(old).log_evidence
    assert abs(summary.log_evidence_ratio - ratio) < 4.0 * summary.log_evidence_ratio_se < 0.2
    pmf, expected = reweighted.n_leaves_pmf(), truth.n_leaves_pmf()
    size = max(len(pmf), len(expected))
    assert np.abs(np.pad(pmf, (0, size - len(pmf))) - np.pad(expected, (0, size - len(expected)))).max() < 0.04
    assert np.allclose(reweighted._values(X[:8]), truth._values(X[:8]), atol=0.05)
    for t in range(min(reweighted.n_distinct_trees, 5)):
        tree = reweighted.distinct_tree(t)
        assert reweighted.log_posterior_of_tree[t] == pytest.approx(new.log_posterior(tree))


def test_the_same_model_changes_nothing_but_the_order():
    post = draws_of(model_of(), 500)
    same = post.reweight(model_of(), rng=3)
    assert same.reweighting.ess == pytest.approx(500.0)
    assert same.reweighting.log_evidence_ratio == pytest.approx(0.0, abs=1e-9)
    assert same.reweighting.log_evidence_ratio_se == 0.0 and same.log_evidence is None
    assert np.allclose(same.n_leaves_pmf(), post.n_leaves_pmf())


def test_a_run_with_an_evidence_gives_that_of_the_other_model():
    post = pt.sample(model_of(), 400, rng=1, progress=False)
    reweighted = post.reweight(model_of(STRICT))
    truth = exact.solve(model_of(STRICT)).log_evidence
    assert reweighted.log_evidence == pytest.approx(truth, abs=max(4.0 * reweighted.log_evidence_se, 0.02))


def test_every_answer_works_on_reweighted_draws(tmp_path):
    post = draws_of(model_of(), 1000).reweight(model_of(STRICT))
    assert post.summary().attrs["verdict"] and len(post.diagnosis) > 0
    assert post.consensus_tree().format() and post.credible_interval(X[:2]).shape == (2, 2, 2)
    post.save(tmp_path / "post.nc")
    assert np.array_equal(pt.load(tmp_path / "post.nc").predict_proba(X[:4]), post.predict_proba(X[:4]))


def test_missing_values_and_a_shared_variance():
    holes = np.where(np.arange(N)[:, None] % 7 == 0, np.nan, X[:, :1])
    models = [pt.TreeModel(holes, LABELS, tree_prior=prior, missing="branch") for prior in (VAGUE, STRICT)]
    reweighted, truth = draws_of(models[0]).reweight(models[1]), exact.solve(models[1])
    assert np.allclose(reweighted.predict_proba(holes[:8]), truth.predict_proba(holes[:8]), atol=0.05)
    leaf = pt.NormalSharedVariance(k0=0.2, a0=2.0, b0=2.0, m0=0.0)
    post = pt.sample(model_of(y=NUMBERS, leaf=leaf), 200, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    reweighted = post.reweight(model_of(pt.ChipmanPrior(0.85, 0.6, max_depth=3), NUMBERS, leaf))
    assert np.isfinite(reweighted.noise_variance).all() and set(reweighted.noise_variance[0]) <= set(
        post.noise_variance.ravel()
    )


@pytest.mark.planted
def test_equal_weights_are_noticed(monkeypatch):
    """Planted: draws that are resampled without their weights miss the sizes of the trees of the other model."""
    weighted = reweighting.systematic_indices
    monkeypatch.setattr(reweighting, "systematic_indices", lambda rng, p, n: weighted(rng, np.full(n, 1.0 / n), n))
    expected = exact.solve(model_of(STRICT)).n_leaves_pmf()
    pmf = draws_of(model_of()).reweight(model_of(pt.ChipmanPrior(0.6, 1.5, max_depth=3))).n_leaves_pmf()
    assert np.abs(pmf[: len(expected)] - expected[: len(pmf)]).max() > 0.08


def test_too_few_effective_draws_are_refused():
    post = draws_of(model_of(), 300)
    distant_model = model_of(leaf=pt.DirichletMultinomial(40.0))
    with pytest.raises(ValueError, match=r"the effective size is [0-9.]+ of 300 draws, less than least_ess=299"):
        post.reweight(distant_model, least_ess=299)
    stump = pt.posterior_from_trees(model_of(), [pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])] * 5)
    never = model_of(split_prior=pt.LocalCuts(feature_weights=[0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"the effective size is 0\.0 of 5 draws"):
        stump.reweight(never)


def test_other_data_are_refused():
    post = draws_of(model_of(), 200)
    for model, match in (
        (model_of(y=LABELS[::-1]), "differs in y"),
        (model_of(sample_weight=np.full(N, 2.0)), "differs in sample_weight"),
        (pt.TreeModel(X[:, :2], LABELS), "differs in its table"),
        (model_of(split_prior=pt.LocalCuts(feature_weights="dirichlet")), "feature weights are unknown"),
    ):
        with pytest.raises(ValueError, match=match):
            post.reweight(model)
    with pytest.raises(TypeError, match="model is"):
        post.reweight("strict")
    with pytest.raises(ValueError, match="least_ess=0"):
        post.reweight(model_of(), least_ess=0)
    shared = model_of(y=NUMBERS, leaf=pt.NormalSharedVariance())
    with pytest.raises(ValueError, match="share a variance"):
        draws_of(model_of(y=NUMBERS, leaf=pt.NormalInverseGamma()), 200).reweight(shared)


SHUFFLED = np.concatenate([group[::-1] for group in (np.flatnonzero(label == LABELS) for label in ("no", "yes"))])
PLACES = np.concatenate([np.flatnonzero(label == LABELS) for label in ("no", "yes")])


@pytest.mark.parametrize(
    "splits",
    [pt.LocalCuts(), pt.GridCuts(2), pt.DyadicCuts(3), pt.GridCuts([[1.5], [0.5], []]), pt.LocalCuts(max_cuts=1)],
    ids=["local", "quantiles", "dyadic", "grid", "bins"],
)
def test_other_rows_with_the_same_y_are_refused(splits):
    other = X.copy()
    other[PLACES] = X[SHUFFLED]
    assert np.array_equal(np.sort(other, axis=0), np.sort(X, axis=0)) and not np.array_equal(other, X)
    truth = exact.solve(model_of())
    same, shuffled = (pt.TreeModel(table, LABELS, tree_prior=VAGUE, split_prior=splits) for table in (X, other))
    assert truth.reweight(same).model is same
    for post in (truth, truth.sample(200, rng=1)):
        with pytest.raises(
            ValueError, match=r"differs in column 'x0' of X, in row \d+, from that of the posterior; give"
        ):
            post.reweight(shuffled)


def test_other_values_missing_or_not_are_refused():
    holes, more = (np.where(np.arange(N)[:, None] % 7 == i, np.nan, X[:, :1]) for i in (0, 1))
    for splits in (pt.LocalCuts(), pt.GridCuts(3)):
        same, other = (pt.TreeModel(t, LABELS, missing="branch", split_prior=splits) for t in (holes, more))
        truth = exact.solve(pt.TreeModel(holes, LABELS, missing="branch", tree_prior=STRICT))
        assert truth.reweight(same).model is same
        with pytest.raises(ValueError, match="differs in column 'x0' of X, in row 0"):
            truth.reweight(other)
    letters = np.array(["a", "b", "c", "d"])[X[:, :1].astype(int)]
    truth = exact.solve(pt.TreeModel(letters, LABELS, nominal=[0], tree_prior=STRICT))
    with pytest.raises(ValueError, match=r"differs in column 'x0' of X, in row 0"):
        truth.reweight(pt.TreeModel(np.roll(letters, 1, axis=0)[::-1], LABELS, nominal=[0]))


def groups_of(*groups):
    return {"split_prior": pt.CustomSplits(interactions=[list(group) for group in groups])}


WIDER = {
    "depth 3, and the depth was at most 2": ({"prior": STRICT}, {}),
    "depth 5, and the depth was at most 0": ({"prior": pt.ChipmanPrior(0.0)}, {"prior": pt.ChipmanPrior(0.5)}),
    "min_leaf is 1, and was 4": ({"split_prior": pt.LocalCuts(min_leaf=4)}, {}),
    "column 'x0' has 3 cuts, and had 1": ({"split_prior": pt.LocalCuts(max_cuts=1)}, {}),
    "column 'x1' has a feature weight above 0": ({"split_prior": pt.LocalCuts(feature_weights=[1.0, 0.0, 1.0])}, {}),
    r"the columns \['x0', 'x1'\] may interact": (groups_of([0], [1]), {}),
    "one side empty": ({}, {"split_prior": pt.LocalCuts(trivial=True)}),
    "on any column": ({"split_prior": pt.DyadicCuts(2, cyclic=True)}, {"split_prior": pt.DyadicCuts(2)}),
    "nodes of the fixed tree": (
        lambda: {"prior": pt.BranchingProcess(max_depth=1), "split_prior": pt.kd_tree(X, 2)},
        lambda: {"prior": pt.BranchingProcess(max_depth=2), "split_prior": pt.kd_tree(X, 2)},
    ),
}


@pytest.mark.parametrize("match", WIDER)
def test_priors_that_allow_other_trees_are_refused(match):
    narrow, wide = (model_of(**(parts() if callable(parts) else parts)) for parts in WIDER[match])
    with pytest.raises(ValueError, match=f"allows trees that the prior of the draws excludes: .*{match}"):
        draws_of(narrow, 200).reweight(wide)
    assert draws_of(wide, 1000).reweight(narrow, least_ess=1).model is narrow


def test_priors_whose_parameters_make_no_difference_are_compared():
    post = draws_of(model_of(), 200)
    for parts in (
        groups_of([0, 1]),
        groups_of([0, 1], [1, 2]),
        {"split_prior": pt.LocalCuts(feature_weights=[1, 1, 0])},
    ):
        assert post.reweight(model_of(**parts)).reweighting.ess > 40
        assert draws_of(model_of(**parts), 200).reweight(model_of()).reweighting.ess > 40
    deep = [model_of(pt.ChipmanPrior(0.9, 0.5, max_depth=depth)) for depth in (5, None)]
    assert draws_of(deep[0], 200).reweight(deep[1]).reweighting.ess == pytest.approx(200.0)


NAMES = ["local, nominal", "local, missing", "local, regression", "grid, empty cells", "grid, missing", "dyadic"]


def rows_about(model, tree):
    """Return all combinations of values between the thresholds of a tree, of missing values and of categories."""
    axes = []
    for k in range(model.n_features):
        labels = model.columns.categories[k]
        cuts = np.unique(tree.threshold[(tree.feature == k) & ~np.isnan(tree.threshold)])
        numbers = np.concatenate([cuts - 1e-9, [1e3]]) if labels is None else np.arange(len(labels), dtype=float)
        axes.append([*numbers, np.nan] if labels is None and k in model.columns.twins else [*numbers])
    return np.array(list(itertools.product(*axes))), [len(axis) for axis in axes]


def increases(model, post, tree, t, k):
    """Return True if predictions on a grid increase in feature ``k``."""
    X, sizes = rows_about(model, tree)
    value = post._values_by_draw(X)[0, t, :, -1].reshape(sizes)
    has_values = ~np.isnan(X[:, k].reshape(sizes))
    value = np.moveaxis(np.where(has_values, value, np.nan), k, 0)
    value = value[~np.isnan(value).reshape(len(value), -1).any(axis=1)]
    return bool((np.diff(value, axis=0) >= -1e-12).all())


def compare_with_grids(name):
    """Return the numbers of trees that are monotone and not, and of those for which the two differ."""
    model = MODELS[name]
    trees = all_trees(model)[1][:120]
    post = pt.posterior_from_trees(model, trees)
    results = []
    for t, k in itertools.product(range(len(trees)), range(model.n_features)):
        if model.columns.categories[k] is None:
            number = int(post.tree_of_draw[0, t])
            results.append((reweighting.is_monotone(post, number, {k: 1}), increases(model, post, trees[t], t, k)))
    ours, theirs = np.array(results).T
    return ours.sum(), (~ours).sum(), (ours != theirs).sum()


@pytest.mark.more(everyday=["grid, empty cells"])
@pytest.mark.parametrize("name", NAMES)
def test_monotone_trees_are_those_whose_predictions_are(name):
    n_monotone, n_others, n_different = compare_with_grids(name)
    assert n_different == 0 and n_monotone > 0 and n_others > 0


def test_leaves_that_do_not_meet_are_not_compared(monkeypatch):
    """planted: leaves are compared whatever their other features."""
    monkeypatch.setattr(
        reweighting, "_regions_overlap", lambda regions, j: np.ones((len(regions.leaf),) * 2, dtype=bool)
    )
    assert compare_with_grids("local, regression")[2] > 0


def test_the_probability_and_predictions_are_those_of_all_trees():
    model = MODELS["local, nominal"]
    truth, trees, probability = all_trees(model)
    post = pt.posterior_from_trees(model, trees)
    satisfies = np.array([reweighting.is_monotone(post, int(t), {1: 1}) for t in post.tree_of_draw[0]])
    result = truth.restrict(monotone={"x1": 1}, rng=2)
    assert result.probability == pytest.approx(probability[satisfies].sum(), abs=4 * result.standard_error)
    assert result.ess == result.posterior.n_draws == round(result.probability * 4000)
    weight = probability * satisfies / probability[satisfies].sum()
    rows = np.unique(model.unit_numbers(np.arange(model.units.n_units)), axis=0)
    expected = weight @ post._values_by_draw(rows)[0, :, :, -1]
    spread = np.sqrt(weight @ (post._values_by_draw(rows)[0, :, :, -1] - expected) ** 2)
    assert (np.abs(result.posterior._values(rows)[:, -1] - expected) < 5 * spread / np.sqrt(result.ess) + 1e-9).all()
    draws = result.posterior
    assert np.allclose(
        draws.log_prior_of_tree, [model.log_prior(draws.distinct_tree(t)) for t in range(draws.n_distinct_trees)]
    )


def test_paths_have_a_group_in_common():
    model = MODELS["local, regression"]
    truth, trees, probability = all_trees(model)

    def paths(tree, node=0, features_above=frozenset()):
        if tree.feature[node] < 0:
            return [features_above]
        features_above = features_above | {int(tree.feature[node])}
        return paths(tree, tree.left[node], features_above) + paths(tree, tree.right[node], features_above)

    for groups, listed in (
        ([["x0", "x1"], ["x2"]], [{0, 1}, {2}]),
        ([[0, 1]], [{0, 1}, {2}]),
        ([[1], [1, 2]], [{1, 2}, {0}]),
    ):
        satisfies = np.array([all(any(path <= group for group in listed) for path in paths(tree)) for tree in trees])
        result = truth.restrict(interactions=groups, rng=1)
        assert result.probability == pytest.approx(probability[satisfies].sum(), abs=4 * result.standard_error + 1e-9)
        trees_drawn = [result.posterior.distinct_tree(t) for t in range(result.posterior.n_distinct_trees)]
        assert all(any(path <= group for group in listed) for tree in trees_drawn for path in paths(tree))


def test_draws_of_chains():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=80) > 0, "yes", "no")
    model = pt.TreeModel(X, y, split_prior=pt.GridCuts(6), tree_prior=pt.ChipmanPrior(0.9, 1.0, 3))
    free = exact.solve(model).restrict(monotone={"x0": 1}, rng=1)
    # each draw five times, as a chain that stays where it is
    draws = exact.solve(model).sample(600, rng=2)
    trees = [draws.distinct_tree(t) for t in range(draws.n_distinct_trees)]
    post = pt.posterior_from_trees(model, trees, np.repeat(draws.tree_of_draw.reshape(2, 300), 5, axis=1))
    result = post.restrict(monotone={"x0": 1})
    error = result.standard_error + free.standard_error
    assert result.probability == pytest.approx(free.probability, abs=4 * error)
    assert result.probability == pytest.approx(result.by_chain.mean())
    assert 0.7 < result.ess / (600 * result.probability) < 1.1
    assert result.standard_error > 0.0 and "probability" in str(result)
    assert result.posterior.summary() is not None
    grid = np.column_stack([np.linspace(-2, 2, 50), np.zeros(50)])
    assert (np.diff(result.posterior.predict_proba(grid)[:, 1]) >= -1e-12).all()
    with pytest.raises(ValueError, match=r"0 of 3,000 draws .* draw many more"):
        post.restrict(monotone={"x0": -1}, interactions=[["x0"], ["x1"]], min_ess=1)


def test_too_few_draws_are_refused_with_numbers():
    truth = exact.solve(pt.TreeModel(np.arange(30.0)[:, None], np.arange(30) > 14))
    with pytest.raises(ValueError, match=r"of 300 draws satisfy the constraint \(probability .*100 are needed; draw"):
        truth.restrict(monotone={"x0": -1}, draws=300)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no constraint"),
        ({"monotone": {"x9": 1}}, "not a column"),
        ({"monotone": {"x2": 1}}, "nominal"),
        ({"monotone": {"x0": 2}}, "increasing"),
        ({"monotone": ["x0"]}, "increasing"),
        ({"interactions": "x0"}, "list of groups"),
        ({"interactions": [["x0", "y"]]}, "not a column"),
        ({"interactions": [["x0"]], "min_ess": 0.0}, "min_ess"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact.solve(MODELS["local, nominal"]).restrict(**arguments)


def test_many_classes_and_mixtures_are_refused():
    x = np.arange(12.0)[:, None]
    three = exact.solve(pt.TreeModel(x, np.arange(12) // 4))
    with pytest.raises(ValueError, match="two classes"):
        three.restrict(monotone={"x0": 1})
    with pytest.raises(ValueError, match="stages"):
        exact.progressive_mixture(three.model).restrict(monotone={"x0": 1})


def test_a_constant_column_constrains_nothing():
    model = pt.TreeModel([[1.0], [1.0]], ["a", "b"])
    assert exact.solve(model).restrict(monotone={"x0": 1}, interactions=[["x0"]]).probability == 1.0


def test_a_new_run_would_forget_the_constraint(tmp_path):
    x = np.arange(24) % 4
    model = pt.TreeModel(x[:, None].astype(float), x > 1, tree_prior=pt.ChipmanPrior(max_depth=2))
    truth = exact.solve(model)
    kept = truth.restrict(monotone={0: 1}, min_ess=1).posterior
    assert kept.calls[-1].line == "post = post.restrict(monotone={0: 1}).posterior"
    kept.save(tmp_path / "kept.nc")
    for post in (kept, pt.load(tmp_path / "kept.nc")):
        with pytest.raises(ValueError, match=r"restricted to trees .*, by restrict; update the posterior"):
            post.update([[1.0]], [True])
    with pytest.raises(ValueError, match=r"restricted to trees .*, by restrict; compare the posterior"):
        exact.compare(truth, kept)
