"""Runs that have not converged are warned of, others are not, and the advice fits."""

import linecache
import re
import warnings

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.files.calls import call_record
from pactree_mcmc.mcmc.kernel import LOCAL_WEIGHTS, read_kernel
from pactree_mcmc.posterior import convergence
from pactree_mcmc.posterior.convergence import ConvergenceWarning, check_convergence, warn_if_unconverged
from pactree_mcmc.posterior.ess import rhat, rhat_and_ess
from pactree_mcmc.posterior.trees.cells import distinguishable_rows, training_points
from pactree_mcmc.tree.drawn import Course

pd = pytest.importorskip("pandas")
N = 60

STAY = (
    "The chains are in different modes and stay there: try a run without kernel=, tune=, thin= and proposals=, which "
    "draws whole trees until the chains agree."
)


def posterior_of_trees(model, trees, tree_of_draw):
    """Return a posterior of these trees."""
    return pt.posterior_from_trees(model, trees, tree_of_draw)


def cut_at(threshold, feature=0):
    return pt.Tree([feature, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


STUMP = pt.Tree([-1], [0], [0], [0])
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
    """Return all lines of the criteria that fail as one text."""
    return "\n  ".join(check_convergence(post))


def independent_draws(n_chains=4, draws=1000, n_trees=6, seed=0):
    return np.random.default_rng(seed).integers(0, n_trees, (n_chains, draws))


def warning_of(post, **options):
    """Return the text of the one warning, or None."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_unconverged(post, **options)
    assert len(caught) <= 1
    assert all(w.category is ConvergenceWarning for w in caught)
    return str(caught[0].message) if caught else None


@pytest.mark.planted
@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression"])
def test_one_shifted_chain_is_seen(kind):
    draws = independent_draws(n_trees=3)
    draws[2] += 3
    post = posterior_of_trees(model_of(kind), TREES, draws)
    header, *lines = check_convergence(post)
    assert header.startswith("the draws may not represent the posterior; wanted: R-hat at most 1.01")
    assert lines[0].startswith("log posterior: R-hat ")
    assert lines[1].startswith("number of leaves: R-hat ")
    names = [line.split(":")[0] for line in lines]
    assert names[2] == "depth" and {"root feature 'x0'", "root feature 'x1'"} & set(names[3:5])
    name = "prediction P(y = " if kind == "three classes" else "prediction at row "
    assert all(line.startswith(name) for line in lines[-5:-2])
    assert "more of" in lines[-2] and lines[-2].endswith("predictions")
    assert lines[-1:] == [STAY]
    header_of_warning, worst, advice, read_on = warning_of(post).split("\n  ")
    assert header_of_warning.startswith(header) and header_of_warning.endswith("quantities fail.")
    assert advice == STAY and read_on.startswith("All quantities: post.diagnosis.")
    assert worst.startswith("Worst of each kind (R-hat, ESS): ") and worst.count("(") == 1 + 5 + ("P(y" in worst)
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
    assert times.is_monotonic_decreasing
    assert len(posterior_of_trees(model, TREES, draws[:, :10]).diagnosis) == 0


@pytest.mark.parametrize("kind", ["two classes", "three classes", "regression"])
@pytest.mark.parametrize("n_chains", [1, 4])
def test_warnings_have_at_most_five_lines(kind, n_chains):
    rng = np.random.default_rng(n_chains)
    for repeats in (1, 4, 10, 200):
        draws = np.repeat(rng.integers(0, len(TREES), (n_chains, 400 // min(repeats, 40))), repeats, axis=1)
        text = warning_of(posterior_of_trees(model_of(kind), TREES, draws))
        assert text is None or len(text.splitlines()) <= 5


@pytest.mark.parametrize(("least", "is_near"), [(5000.0, True), (9000.0, False)])
def test_a_run_that_is_nearly_long_enough_is_to_be_resumed(least, is_near, monkeypatch):
    """Some 4,000 effective draws of 4 x 1,000, when 5,000 or 9,000 are wanted."""
    monkeypatch.setattr(convergence, "MIN_ESS", least)
    post = posterior_of_trees(model_of("two classes"), TREES, independent_draws())
    text = warning_of(post)
    assert "pt.resume" not in text and "Try about " in text
    post.course = Course(read_kernel("local"), 1, (), 1000)
    text = warning_of(post)
    assert ("Try pt.resume(post, " in text) == is_near
    if is_near:
        times = max(least / check for check in post.diagnosis["ess"])
        n_further = int(re.search(r"pt\.resume\(post, ([0-9]+)\)", text).group(1))
        assert 0.0 <= n_further - 1000.0 * (times - 1.0) <= 100.0


def values_of_line(line):
    """Name, R-hat and ESS in a line of a warning."""
    name, of_chains, size = re.fullmatch(r"(.*): R-hat ([0-9.]+), ESS ([0-9]+)", line).groups()
    return name, float(of_chains), int(size)


@pytest.mark.planted
def test_chains_that_stand_still_apart_are_seen():
    post = posterior_of_trees(model_of("regression"), TREES, np.repeat([[0], [1], [2], [3]], 500, axis=1))
    text = warning_of(post)
    assert "log posterior (inf, " in text
    assert STAY in text
    assert "times as many draws" not in text
    assert "try betas=16." in warning_of(post, levels=8)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({}, "stay there: try more chains=, or betas=8."),
        ({"work": 1e6}, "stay there: try more chains=, or betas=8."),
        ({"kernel": "local"}, STAY),
        ({"tune": 100}, STAY),
        ({"proposals": 10}, STAY),
    ],
)
def test_advice_names_only_arguments_of_the_call(arguments, advice):
    """A default run uses the kernel "local" if the table is too large."""
    post = posterior_of_trees(model_of("regression"), TREES, np.repeat([[0], [1], [2], [3]], 500, axis=1))
    post.calls = (call_record(pt.sample, arguments | {"rng": 1}),)
    assert advice in warning_of(post)


@pytest.mark.planted
def test_a_run_too_short_for_its_problem_is_seen():
    x = np.random.default_rng(0).uniform(size=(300, 3))
    model = pt.TreeModel(x, np.sin(9.0 * x[:, 0]) + x[:, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        post = pt.sample(model, 30, tune=0, rng=1, progress=False)
    lines = check_convergence(post)
    assert any(line.startswith("prediction at row ") for line in lines)
    assert lines[-1].startswith("With 120 draws in all")


@pytest.fixture(scope="module")
def run_on_too_many_rows():
    """The default run on a table whose splits cannot be scored often enough for its work."""
    x = np.random.default_rng(0).uniform(size=(300, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        post = pt.sample(pt.TreeModel(x, np.sin(9.0 * x[:, 0]) + x[:, 1]), 400, rng=1, work=1e6, progress=False)
    assert post.course.kernel.names == tuple(LOCAL_WEIGHTS)
    return post


def test_a_default_run_is_not_advised_to_become_one(run_on_too_many_rows):
    """A default run with kernel "local" is advised to make more steps, not draws."""
    text = warning_of(run_on_too_many_rows)
    assert "without kernel=" not in text and "raise tune" not in text and " draws (" not in text
    assert "try more chains=, or betas=8" in text or "as many steps (steps=" in text


def test_rounding_errors_are_no_difference():
    log_posterior = np.random.default_rng(0).integers(3, size=(4, 500)) - 123.4
    log_posterior *= 1.0 + 1e-15 * np.arange(4.0)[:, None]
    assert len(np.unique(log_posterior)) > 3
    assert convergence.log_posterior_converged(log_posterior)
    assert not convergence.log_posterior_converged(log_posterior * (1.0 + 1e-6 * np.arange(4.0))[:, None])


@pytest.mark.more(everyday=["shape0-80"])
@pytest.mark.parametrize(("shape", "total"), [((4, 20), 80), ((1, 99), 99), ((2, 1), 2), ((40, 3), 120)])
def test_too_few_draws_to_judge(shape, total):
    text = warning_of(posterior_of_trees(model_of("regression"), TREES, independent_draws(*shape)))
    assert text == f"too few draws to judge convergence: {total} in all; give at least 400, better draws=1000."


def test_one_chain():
    model = model_of("two classes")
    assert warning_of(posterior_of_trees(model, TREES, independent_draws(1, 4000))) is None
    sticky = np.repeat(independent_draws(1, 200, seed=3), 10, axis=1)
    text = failing_lines(posterior_of_trees(model, TREES, sticky))
    assert "times as many draws (draws=" in text
    assert text.endswith("give chains=4; here R-hat compares its halves.")
    assert "different modes" not in text
    halves = np.concatenate([independent_draws(1, 1000, n_trees=2), independent_draws(1, 1000, n_trees=2) + 3], axis=1)
    text = warning_of(posterior_of_trees(model, TREES, halves))
    assert "The second half of the chain differs from the first: raise tune by 2000 or more." in text


def test_slow_chains_get_the_factor_by_which_to_lengthen():
    repeated = np.repeat(independent_draws(4, 100, seed=1), 10, axis=1)
    post = posterior_of_trees(model_of("regression"), TREES, repeated)
    lines = check_convergence(post)
    figures = [values_of_line(line) for line in lines if ": R-hat " in line and not line.startswith("the ")]
    times = max(max(100.0 * (of_chains - 1.0), 400.0 / size) for _, of_chains, size in figures)
    n_advised = int(re.fullmatch(r"Try about [0-9.]+ times as many draws \(draws=([0-9]+)\)\.", lines[-1]).group(1))
    assert 900.0 * times < n_advised < 1100.0 * times
    longer = posterior_of_trees(post.model, TREES, np.repeat(independent_draws(4, n_advised // 10, seed=2), 10, axis=1))
    assert rhat_and_ess(longer.n_leaves[None])[1][0] > 300.0


def test_a_trend_common_to_all_chains_asks_for_tuning():
    early, late = independent_draws(n_trees=2, draws=500), independent_draws(n_trees=2, draws=500) + 2
    text = warning_of(posterior_of_trees(model_of("two classes"), TREES, np.concatenate([early, late], axis=1)))
    assert "The second halves of the chains differ from the first: raise tune by 1000 or more." in text
    assert "different modes" not in text


def test_the_warning_names_the_line_of_the_caller():
    post = posterior_of_trees(model_of("regression"), TREES, independent_draws(2, 10))
    with pytest.warns(ConvergenceWarning) as caught:
        warn_if_unconverged(post)
    assert caught[0].filename == __file__
    assert linecache.getline(__file__, caught[0].lineno).strip() == "warn_if_unconverged(post)"


def tree_with_three_rows(row, cut):
    """Tree that cuts three rows from ``row`` on out of a column 0, 1, 2, ..., and one of these at ``cut``."""
    threshold = [row - 0.5, 0, row + 2.5, cut, 0, 0, 0]
    return pt.Tree([0, -1, 0, 0, -1, -1, -1], threshold, [1, 0, 3, 4, 0, 0, 0], [2, 0, 6, 5, 0, 0, 0])


@pytest.mark.parametrize("n", [300, 499])
def test_a_disagreement_about_three_rows_is_seen(n):
    """All distinct rows are judged; many rows with equal features do not take the place of others."""
    x = np.append(np.arange(float(n)), np.repeat(3.0, 2 * n))
    model, first = pt.TreeModel(x[:, None], np.cos(x)), 65
    draws = np.random.default_rng(1).random((4, 1000)) < np.array([0.4, 0.4, 0.4, 0.6])[:, None]
    post = posterior_of_trees(
        model, [tree_with_three_rows(first, first + 0.5), tree_with_three_rows(first, first + 1.5)], draws.astype(int)
    )
    expected = {f"prediction at row {row}" for row in range(first, first + 3)}
    diagnostics = convergence._compute_diagnostics(post, convergence.MAX_POINTS)
    names = np.array(diagnostics.names)
    assert (diagnostics.group == "predictions").sum() == n
    assert expected == set(names[diagnostics.failed & (diagnostics.group == "predictions")].tolist())
    assert expected == {line.split(":")[0] for line in check_convergence(post) if line.startswith("prediction at")}
    # as it was
    few = training_points(model, 50)[0]
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
    post.log_prior_of_tree[1] = -np.inf
    assert "log posterior (nan, nan)" in warning_of(post)


def test_a_loss():
    x = np.arange(float(N))
    model = pt.TreeModel(np.column_stack([x, x % 2]), (x > 30).astype(int), leaf=pt.PacBayesLoss(2.0))
    draws = independent_draws(n_trees=3)
    assert warning_of(posterior_of_trees(model, TREES, draws)) is None
    draws[2] += 3
    assert "prediction at row" in warning_of(posterior_of_trees(model, TREES, draws))
