"""Runs that have not converged are warned of, others are not, and the advice fits."""

import re
import warnings

import numpy as np
import pytest
import sklearn.datasets

import pactree_mcmc as pt
from pactree_mcmc.files.calls import call_record
from pactree_mcmc.posterior import convergence
from pactree_mcmc.posterior.convergence import caveat_of, check_convergence, short_diagnosis
from pactree_mcmc.posterior.ess import ConvergenceWarning, rhat
from pactree_mcmc.posterior.trees.cells import distinguishable_rows
from pactree_mcmc.posterior.trees.distances import evenly_spaced_integers
from tests.problems.runs import course_of_teams

pd = pytest.importorskip("pandas")
N = 60
DRAW_WHOLE_TREES = "Draw trees with pt.sample(model): its chains propose whole trees, and go on until they agree."
"""Advice on trees that were not drawn by `sample`."""
STUMP = pt.Tree([-1], [0], [0], [0])
ADVICE_ON_CALLS = [
    ({}, "No setting is known with which chains agree about these trees of 2 leaves. Ask for coarser ones: "),
    ({"work": 1e6}, "Run again without work=: the limit ended"),
    ({"steps": 2000}, "Run again without steps=: the limit"),
    ({"seconds": 9}, "Run again without seconds=: the limit"),
    ({"kernel": "local"}, "Run again without kernel=: then chains"),
    ({"tune": 100, "thin": 2}, "Run again without tune=, thin=: then chains"),
    ({"proposals": 10}, "Run again without proposals=: then chains"),
]


def posterior_of_trees(model, trees, tree_of_draw):
    return pt.posterior_from_trees(model, trees, tree_of_draw)


def cut_at(threshold, feature=0):
    return pt.Tree([feature, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


TREES = [STUMP, cut_at(9.5), cut_at(19.5), cut_at(29.5), cut_at(39.5), cut_at(0.5, feature=1)]


def model_of(kind):
    """Rows 0 to 59 in order of the first column; the second column is 0 or 1 in turn."""
    x = np.arange(float(N))
    y = {
        "two classes": np.where(x < 20, "no", "yes"),
        "three classes": np.array(["a", "b", "c"])[np.minimum(x // 15, 2).astype(int)],
        "regression": np.sin(x / 9.0),
    }
    return pt.TreeModel(np.column_stack([x, x % 2]), y[kind])


def failing_lines(post):
    return "\n  ".join(check_convergence(post))


def independent_draws(n_chains=4, draws=1000, n_trees=6, seed=0):
    return np.random.default_rng(seed).integers(0, n_trees, (n_chains, draws))


def warning_of(post):
    return "\n  ".join(short_diagnosis(post)) or None


def called(post, **arguments):
    post.draws.calls = (call_record(pt.sample, {"rng": 1, **arguments}),)
    return post


@pytest.mark.planted
@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression"])
def test_one_shifted_chain_is_seen(kind):
    draws = independent_draws(n_trees=3)
    draws[2] += 3
    post = posterior_of_trees(model_of(kind), TREES, draws)
    header, *lines = check_convergence(post)
    assert re.fullmatch(r"not converged; predictions: not; probability .* used: not; which tree: not\.", header), header
    assert lines[0].startswith("log posterior: R-hat ") and lines[1].startswith("number of leaves: R-hat ")
    names = [line.split(":")[0] for line in lines]
    assert names[2] == "depth" and {"root feature 'x0'", "root feature 'x1'"} & set(names[3:5])
    name = "prediction P(y = " if kind == "three classes" else "prediction at row "
    assert all(line.startswith(name) for line in lines[-5:-2])
    assert "more of" in lines[-2] and lines[-2].endswith("predictions") and lines[-1:] == [DRAW_WHOLE_TREES]
    header_of_warning, worst, advice, read_on = warning_of(post).split("\n  ")
    assert header_of_warning == header
    assert advice == DRAW_WHOLE_TREES and read_on.startswith("All quantities: post.diagnosis.")
    assert " Worst of each kind (R-hat, ESS): " in worst and worst.count("(") == 3 + 5 + ("P(y" in worst)
    assert post.diagnosis.attrs["warning"] == warning_of(post).replace("\n  ", "\n")


def test_the_diagnosis_has_every_quantity_and_the_worst_first():
    model, draws = model_of("two classes"), independent_draws(n_trees=3)
    fine = posterior_of_trees(model, TREES, draws).diagnosis
    assert not fine["fails"].any() and fine.attrs["warning"] == ""
    draws[2] += 3
    post = posterior_of_trees(model, TREES, draws)
    table = post.diagnosis
    assert list(table.columns) == ["kind", "rhat", "ess", "fails"] and table.index.is_unique
    assert set(table["kind"]) == {"scalars", "root features", "features", "distances between trees", "predictions"}
    leaves = np.array([tree.n_leaves for tree in TREES])[draws]
    assert table.loc["number of leaves", "rhat"] == pytest.approx(rhat(leaves), rel=1e-9)
    assert (table["kind"] == "predictions").sum() == N
    failing = table["fails"].to_numpy()
    assert np.array_equal(failing, np.sort(failing)[::-1])
    times = np.maximum((table["rhat"] - 1.0) / 0.01, 400.0 / table["ess"])[failing]
    assert times.is_monotonic_decreasing and len(posterior_of_trees(model, TREES, draws[:, :10]).diagnosis) == 0


@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression"])
@pytest.mark.parametrize("n_chains", [1, 4])
def test_warnings_have_at_most_five_lines(kind, n_chains):
    rng = np.random.default_rng(n_chains)
    for repeats in (1, 4, 10, 200):
        draws = np.repeat(rng.integers(0, len(TREES), (n_chains, 400 // min(repeats, 40))), repeats, axis=1)
        text = warning_of(posterior_of_trees(model_of(kind), TREES, draws))
        assert text is None or len(text.splitlines()) <= 5


def test_errors_cover_the_truth():
    """Of 60 runs of sticky chains nearly all have their mean within the stated error of the truth."""
    model, inside = model_of("two classes"), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sticky = np.array([np.repeat(rng.integers(0, 6, 50), rng.geometric(0.1, 50))[:200] for _ in range(4)])
        post = posterior_of_trees(model, TREES, sticky)
        used = convergence._errors((post.draws.split_counts_of_tree > 0).T, post.draws.tree_of_draw)
        inside.append(abs(post._feature_inclusion() - np.array([4 / 6, 1 / 6])) <= used)
    assert 0.9 < np.mean(inside) <= 1.0


def test_predictions_can_be_usable_while_trees_are_not():
    """Two columns that say the same: chains differ in the root feature, and predict alike."""
    x = np.arange(float(N))
    model = pt.TreeModel(np.column_stack([x, x]), np.where(x < 30, "no", "yes"))
    post = posterior_of_trees(model, [cut_at(29.5), cut_at(29.5, 1)], np.repeat([[0], [0], [1], [1]], 500, axis=1))
    (line, *_), saved = short_diagnosis(post), post.draws.caveat
    assert line == "not converged; predictions: within 0.001; probability that a feature is used: not; which tree: not."
    assert saved is None


def test_means_have_the_unit_of_y():
    """The error of a regression scales with y, and stands beside the spread of the predictions between rows."""
    x, draws = np.arange(float(N)), independent_draws(n_trees=6, draws=100)
    sticky = np.repeat(draws, 10, axis=1)
    for scale in (1.0, 1000.0):
        post = posterior_of_trees(pt.TreeModel(np.column_stack([x, x % 2]), scale * (x > 30)), TREES, sticky)
        error, sd = re.search(
            r"predictions: within ([0-9.]+) \(between rows they have sd ([0-9.]+)", warning_of(post)
        ).groups()
        assert 0.02 < float(error) / scale < 0.2 and 0.1 < float(sd) / scale < 0.5


def test_texts_about_trees_begin_with_the_first_line(tmp_path):
    """Also in a loaded posterior. Draws that passed, and draws that no run has judged, have plain texts."""
    draws = np.repeat([[1], [1], [1], [5]], 500, axis=1)
    post = called(posterior_of_trees(model_of("two classes"), TREES, draws))
    line = short_diagnosis(post)[0]
    pytest.importorskip("xarray")
    post.save(tmp_path / "run.nc")
    for one in (post, pt.load(tmp_path / "run.nc")):
        assert caveat_of(one) == line
        for text in (str(one.shapes()), str(one.consensus_tree()), repr(one.support(0.2))):
            assert text.startswith(f"{line}\n")
    fine = called(posterior_of_trees(model_of("two classes"), TREES, independent_draws()))
    unknown = posterior_of_trees(model_of("two classes"), TREES, draws)
    for one in (fine, unknown):
        assert caveat_of(one) == "" and not str(one.shapes()).startswith("not converged")


def test_pictures_of_trees_have_the_first_line_above_them():
    plt = pytest.importorskip("matplotlib.pyplot")
    from pactree_mcmc import plots

    post = called(posterior_of_trees(model_of("two classes"), TREES, np.repeat([[1], [1], [1], [5]], 500, axis=1)))
    for draw in (plots.plot_consensus, plots.plot_shape, plots.plot_split_frequencies):
        assert " ".join(draw(post).get_title().split()).startswith(caveat_of(post)[:80])
    plt.close("all")


@pytest.mark.planted
def test_chains_that_stand_still_apart_are_seen():
    post = posterior_of_trees(model_of("regression"), TREES, np.repeat([[0], [1], [2], [3]], 500, axis=1))
    text = warning_of(post)
    assert "log posterior (inf, " in text and DRAW_WHOLE_TREES in text


@pytest.mark.parametrize(("arguments", "advice"), ADVICE_ON_CALLS)
def test_advice_names_only_arguments_of_the_call(arguments, advice):
    post = posterior_of_trees(model_of("regression"), TREES, np.repeat([[0], [1], [2], [3]], 500, axis=1))
    assert advice in warning_of(called(post, **arguments))


@pytest.mark.parametrize(
    ("shape", "changes"),
    [((4, 40), "with draws=1000"), ((1, 1000), "with chains=4"), ((1, 400), "with draws=1000 and chains=4")],
)
def test_few_draws_and_one_chain_are_named_first(shape, changes):
    post = called(posterior_of_trees(model_of("regression"), TREES, np.sort(independent_draws(*shape))))
    assert f"Run again {changes}: " in warning_of(post)


def test_a_large_table_has_a_page_of_its_own():
    x = np.arange(2500.0)
    post = posterior_of_trees(
        pt.TreeModel(x[:, None], x, split_prior=pt.LocalCuts()), TREES[:4], np.repeat([[0], [1], [2], [3]], 500, axis=1)
    )
    text = warning_of(called(post))
    assert "BayesianTreeRegressor" in text and '"Large tables"' in text


@pytest.mark.parametrize("least", [5000.0, 30_000.0])
def test_a_run_that_mixes_is_advised_twice_the_steps_that_it_seems_to_lack(least, monkeypatch):
    monkeypatch.setattr(convergence, "MIN_ESS", least)
    post = called(posterior_of_trees(model_of("two classes"), TREES, independent_draws()))
    post.course = course_of_teams("local", (), 1000)
    n_advised = int(re.search(r"run again with steps=([0-9]+);", warning_of(post)).group(1))
    times = max(least / check for check in post.diagnosis["ess"])
    assert 1900.0 * times <= n_advised <= 2300.0 * times


def test_more_steps_are_advised_only_to_a_run_that_its_steps_ended_or_that_fits_no_density(monkeypatch):
    monkeypatch.setattr(convergence, "MIN_ESS", 5000.0)
    post = posterior_of_trees(model_of("two classes"), TREES, independent_draws())
    for kernel, arguments, advice in (
        ("whole", {}, "Ask for coarser ones: "),
        ("whole", {"steps": 1000}, "run again with steps="),
        ("local", {}, "run again with steps="),
    ):
        post.course = course_of_teams(kernel, (0, 1), 1000)
        assert advice in warning_of(called(post, **arguments))


def test_a_run_that_was_interrupted_is_not_told_that_no_setting_is_known():
    post = called(posterior_of_trees(model_of("two classes"), TREES, np.repeat([[0], [1]], 500, axis=1)))
    course = course_of_teams("whole", (0, 1), 1000)
    for steps, limit, advice in (
        (999, 0, "The run ended before its limit: run it again"),
        (1000, 0, "No setting is known"),
        (900, 901, "The run ended before its limit: run it again"),
        (900, 900, "No setting is known"),
    ):
        post.course = course._replace(steps=steps, stretch=course.stretch._replace(limit=limit))
        assert advice in warning_of(post)


@pytest.mark.parametrize(
    ("split_prior", "min_leaf"),
    [
        (pt.LocalCuts(), 3),
        (pt.LocalCuts(min_leaf=2), 3),
        (pt.GridCuts([[9.5]]), 3),
        (pt.LocalCuts(min_leaf=3), None),
        (pt.FixedTree(TREES[1]), None),
    ],
)
def test_coarser_trees_are_advised_unless_the_model_has_them(split_prior, min_leaf):
    x = np.arange(float(N))
    model = pt.TreeModel(x[:, None], x % 7, split_prior=split_prior)
    text = warning_of(called(posterior_of_trees(model, [STUMP, TREES[1]], np.repeat([[0], [1]], 500, axis=1))))
    if min_leaf is None:
        assert "these chains agree: report what the first line admits, nothing else." in text
    else:
        assert f"split_prior=pt.LocalCuts(max_cuts=20, min_leaf={min_leaf}))." in text


def xor_model():
    """Return a model of the table of the page on chains that disagree: no column alone says anything."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(600, 2))
    y = (X[:, 0] > 2) ^ (X[:, 1] > 1) ^ (rng.random(600) < 0.05)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0))


def wine_model():
    return pt.TreeModel(*sklearn.datasets.load_wine(return_X_y=True, as_frame=True))


FIXED_LENGTH = {"kernel": "grow-prune", "tune": 50, "draws": 200}, {"draws": 1000}
ONE_CHAIN = {"chains": 1, "draws": 120}, {"draws": 1000, "chains": 4}
CASES = {
    "xor, fixed length": (xor_model, *FIXED_LENGTH),
    "xor, one chain": (xor_model, *ONE_CHAIN),
    "xor, little work": (xor_model, {"work": 2e5}, {}),
    "wine, fixed length": (wine_model, *FIXED_LENGTH),
    "wine, one chain": (wine_model, *ONE_CHAIN),
    "wine, little work": (wine_model, {"work": 2e6}, {}),
    "wine, few steps": (wine_model, {"steps": 1000}, {"steps": ...}),
}
"""Model, arguments of a run that fails, and arguments by its advice, ``...`` for a number that the advice has."""


@pytest.mark.more(everyday=[name for name in CASES if name.startswith("xor")])
@pytest.mark.parametrize("case", CASES)
def test_the_advice_is_followed_to_the_letter_and_the_run_passes(case):
    model, before, after = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        failed = pt.sample(model(), rng=1, progress=False, **before)
        assert caveat_of(failed)
        advice = short_diagnosis(failed)[-2]
        after = {
            name: int(re.search(f"{name}=([0-9]+)", advice).group(1)) for name in after if after[name] is ...
        } or after
        passed = pt.sample(model(), rng=1, progress=False, **after)
    assert not caveat_of(passed), caveat_of(passed)
    assert all(f"{name}=" in advice for name in before if name != "draws")
    assert all(f"{name}={value}" in advice for name, value in after.items() if value != before.get(name))


def friedman_table():
    """Return 1,000 rows of ten uniform features and Friedman's first function of them with noise: deep trees."""
    rng = np.random.default_rng(0)
    X = rng.random((1000, 10))
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    return X, f + rng.normal(size=1000)


def copies_table():
    """Return 600 rows of three numbers, each measured six times, and a response with jumps in all three."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3))
    y = 2.0 * ((z[:, 0] > 0) & (z[:, 1] > 0.3)) + z[:, 2] + np.sin(2.0 * z[:, 0]) + 0.3 * rng.normal(size=600)
    return np.repeat(z, 6, axis=1) + 0.25 * rng.normal(size=(600, 18)), y


@pytest.mark.more
@pytest.mark.parametrize("table", [friedman_table, copies_table])
def test_chains_agree_about_the_coarser_trees_that_are_advised(table, monkeypatch):
    """With a twentieth of the default work, with which they disagree about those of the default model."""
    X, y = table()
    monkeypatch.setattr(convergence, "SMALL_WORK", 0.0)  # no advice to give more work, or more steps
    monkeypatch.setattr(convergence, "MAX_TIMES_LONGER", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        failed = pt.sample(pt.TreeModel(X, y), rng=1, work=2e9, progress=False)
        assert caveat_of(failed)
        advised = re.search(r"pt\.LocalCuts\(max_cuts=([0-9]+), min_leaf=([0-9]+)\)", short_diagnosis(failed)[-2])
        assert advised, short_diagnosis(failed)[-2]
        splits = pt.LocalCuts(max_cuts=int(advised.group(1)), min_leaf=int(advised.group(2)))
        passed = pt.sample(pt.TreeModel(X, y, split_prior=splits), rng=1, work=2e9, progress=False)
    assert not caveat_of(passed), caveat_of(passed)


@pytest.mark.more
@pytest.mark.planted
def test_a_run_too_short_for_its_problem_is_seen():
    x = np.random.default_rng(0).uniform(size=(300, 3))
    model = pt.TreeModel(x, np.sin(9.0 * x[:, 0]) + x[:, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        post = pt.sample(model, 30, tune=0, rng=1, progress=False)
    lines = check_convergence(post)
    assert any(line.startswith("prediction at row ") for line in lines)
    assert lines[-1].startswith("Run again without tune= and with draws=1000: ")


def test_rounding_errors_are_no_difference():
    log_posterior = np.random.default_rng(0).integers(3, size=(4, 500)) - 123.4
    log_posterior *= 1.0 + 1e-15 * np.arange(4.0)[:, None]
    assert len(np.unique(log_posterior)) > 3 and not convergence.log_posterior_failure(log_posterior)
    failure = convergence.log_posterior_failure(log_posterior * (1.0 + 1e-6 * np.arange(4.0))[:, None])
    assert failure.startswith("worst R-hat ") and failure.endswith(" (log posterior)")


@pytest.mark.more(everyday=["shape0-80"])
@pytest.mark.parametrize(("shape", "total"), [((4, 20), 80), ((1, 99), 99), ((2, 1), 2), ((40, 3), 120)])
def test_too_few_draws_to_judge(shape, total):
    text = warning_of(posterior_of_trees(model_of("regression"), TREES, independent_draws(*shape)))
    assert text == f"too few draws to judge convergence: {total} in all; give at least 400, better draws=1000."


def test_one_chain():
    model = model_of("two classes")
    assert warning_of(posterior_of_trees(model, TREES, independent_draws(1, 4000))) is None
    sticky = np.repeat(independent_draws(1, 200, seed=3), 10, axis=1)
    assert failing_lines(called(posterior_of_trees(model, TREES, sticky))).endswith("and go on until they agree.")


def tree_with_three_rows(row, cut):
    """Tree that cuts three rows from ``row`` on out of a column 0, 1, 2, ..., and one of these at ``cut``."""
    threshold = [row - 0.5, 0, row + 2.5, cut, 0, 0, 0]
    return pt.Tree([0, -1, 0, 0, -1, -1, -1], threshold, [1, 0, 3, 4, 0, 0, 0], [2, 0, 6, 5, 0, 0, 0])


@pytest.mark.parametrize("n", [300, 499])
def test_a_disagreement_about_three_rows_is_seen(n):
    """All distinct rows are judged; many rows with equal features do not take the place of others."""
    x = np.append(np.arange(float(n)), np.repeat(3.0, 2 * n))
    model, first = pt.TreeModel(x[:, None], np.cos(x), split_prior=pt.LocalCuts()), 65
    draws = np.random.default_rng(1).random((4, 1000)) < np.array([0.4, 0.4, 0.4, 0.6])[:, None]
    post = posterior_of_trees(
        model, [tree_with_three_rows(first, first + 0.5), tree_with_three_rows(first, first + 1.5)], draws.astype(int)
    )
    expected = {f"prediction at row {row}" for row in range(first, first + 3)}
    diagnostics = convergence._compute_diagnostics(post)
    names = np.array(diagnostics.names)
    assert (diagnostics.group == "predictions").sum() == n
    assert expected == set(names[diagnostics.failed & (diagnostics.group == "predictions")].tolist())
    assert expected == {line.split(":")[0] for line in check_convergence(post) if line.startswith("prediction at")}
    # as it was
    few = evenly_spaced_integers(model.n_rows, 50)
    assert not {f"prediction at row {row}" for row in few.tolist()} & expected


def test_rows_that_the_leaf_distinguishes_are_distinct():
    """Binned columns have equal codes where the regression in the leaf has other values."""
    x = np.arange(40.0)
    X = np.column_stack([x // 10, x])
    rule = pt.LocalCuts(max_cuts=2)
    plain = pt.TreeModel(X, np.sin(x), split_prior=rule)
    leaf = pt.NormalLinear([1])
    assert len(distinguishable_rows(plain, 500)[0]) < 10
    assert distinguishable_rows(pt.TreeModel(X, np.sin(x), split_prior=rule, leaf=leaf), 500)[0].tolist() == list(
        range(40)
    )


def test_a_log_posterior_that_is_not_finite_fails_without_an_error():
    post = posterior_of_trees(model_of("regression"), TREES, independent_draws())
    post.draws.log_prior_of_tree[1] = -np.inf
    assert "log posterior (nan, nan)" in warning_of(post)


def test_a_loss():
    x = np.arange(float(N))
    model = pt.TreeModel(np.column_stack([x, x % 2]), (x > 30).astype(int), leaf=pt.PacBayesLoss(2.0))
    draws = independent_draws(n_trees=3)
    assert warning_of(posterior_of_trees(model, TREES, draws)) is None
    draws[2] += 3
    assert "prediction at row" in warning_of(posterior_of_trees(model, TREES, draws))
