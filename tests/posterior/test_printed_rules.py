"""Cuts are printed with the digits that separate the data, and numbers of rows are those of the rule beside them."""

import re

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.report.content import report_content
from pactree_mcmc.posterior.trees.cells import identifying_rows
from pactree_mcmc.posterior.trees.paths import interval_of_cut


def satisfies(words, X):
    """Evaluate conditions such as ``a <= 3 [2, 4] or missing, g not in {x, y}`` at the rows of a frame."""
    out = np.ones(len(X), dtype=bool)
    if words == "all rows":
        return out
    for text in re.split(r", (?![^{\[]*[}\]])", words):
        name, rest = text.split(" ", 1)
        column, with_missing = X[name], rest.endswith(" or missing")
        rest = re.sub(r" \[.*\]", "", rest.removesuffix(" or missing"))
        missing = column.isna().to_numpy()
        if rest in ("is missing", "is known"):
            hit = missing == (rest == "is missing")
        elif rest.startswith(("<= ", "> ")):
            sign, number = rest.split(" ")
            hit = (column <= float(number) if sign == "<=" else column > float(number)).to_numpy() & ~missing
        else:
            labels = [label.strip() for label in re.search(r"\{(.*)\}", rest).group(1).split(",")]
            is_listed = column.astype(object).where(~missing, "missing").isin(labels).to_numpy()
            hit = is_listed if rest.startswith("in") else ~is_listed & ~missing
        out &= hit | (missing & with_missing)
    return out


def close_values(seed=0, n=200):
    """Values that differ in the eighth digit, and a table of few values far from 0."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": 1e4 + rng.integers(0, 40, n) / 1e4, "b": rng.normal(size=n).round(2)})


def mixed(seed=0, n=240):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n).round(2), "g": rng.choice(list("uvwx"), n), "b": rng.random(n)})
    X["g"] = X["g"].mask(rng.random(n) < 0.2)
    X["a"] = X["a"].mask(rng.random(n) < 0.2)
    return X


def signal(X, rng):
    return (X.iloc[:, 0].rank() > len(X) * 0.55) * 1.2 + rng.normal(size=len(X))


def posteriors():
    rng = np.random.default_rng(1)
    close, few, gaps = close_values(), close_values(3, 60), mixed()
    weight = rng.integers(0, 4, len(close)).astype(float)
    late = gaps.a.fillna(0.0) > 0.3
    y_gaps = late * 2.0 + (late & gaps.g.isin(["u", "v"])) * 1.0 + rng.normal(size=len(gaps)) * 0.8
    counts = rng.poisson(np.where(close.b > 0.1, 3.0, 0.7))
    run = {"draws": 300, "tune": 300, "chains": 2, "rng": 1, "progress": False}
    yield close, None, pt.sample(pt.TreeModel(close, signal(close, rng), split_prior=pt.LocalCuts()), **run)
    yield (
        close,
        weight,
        pt.sample(pt.TreeModel(close, signal(close, rng), sample_weight=weight, split_prior=pt.LocalCuts()), **run),
    )
    yield (
        few,
        None,
        exact.solve(pt.TreeModel(few[["b"]], signal(few[["b"]], rng), split_prior=pt.LocalCuts()), progress=False),
    )
    yield gaps, None, pt.sample(pt.TreeModel(gaps, y_gaps, missing="branch", split_prior=pt.LocalCuts()), **run)
    leaf = pt.PoissonGamma(exposure=rng.uniform(0.5, 9.0, len(close)))
    yield close, None, pt.sample(pt.TreeModel(close, counts, leaf=leaf, split_prior=pt.LocalCuts()), **run)
    yield close, None, pt.sample(pt.TreeModel(close, close.b > 0.05, split_prior=pt.LocalCuts(max_cuts=12)), **run)


@pytest.fixture(scope="module")
def cases():
    return list(posteriors())


def rows_of_nodes(tree, X):
    """The rows (n,) of each node of a consensus tree by its printed rules."""
    inside = []
    for i, words in enumerate(tree.words):
        above = np.ones(len(X), dtype=bool) if i == 0 else inside[tree.parent[i]]
        inside.append(above & satisfies(words, X))
    return inside


def rows_of_leaves(shape, X):
    """The rows (n,) of each leaf of a shape by its printed rules."""
    todo, out = [np.ones(len(X), dtype=bool)], {}
    for node in range(2 * len(shape.splits) + 1):
        hit = todo.pop()
        if node not in shape.splits.index:
            out[node] = hit
            continue
        left = satisfies(re.sub(r" \(\d\.\d+\)$", "", shape.splits.loc[node, "words"]), X)
        todo += [hit & ~left, hit & left]
    return out


def test_rows_of_a_consensus_tree_are_those_of_its_rules(cases):
    some_joined = 0
    for X, weight, post in cases:
        tree, weights = post.consensus_tree(), np.ones(len(X)) if weight is None else weight
        some_joined += "[" in str(tree)
        inside = rows_of_nodes(tree, X)
        assert tree.rows == pytest.approx([weights[hit].sum() for hit in inside])
        for i, hit in enumerate(inside):
            below = [inside[j] for j in tree.children(i)]
            expected = weights[hit & ~np.logical_or.reduce(below)].sum() if below else 0.0
            assert tree.rest[i] == pytest.approx(expected)
    assert some_joined >= 3


def test_rows_of_the_leaves_of_a_shape_are_those_of_its_rules(cases):
    for X, weight, post in cases:
        weights = np.ones(len(X)) if weight is None else weight
        for shape in post.shapes(most=3).shapes:
            rows = [weights[hit].sum() for hit in rows_of_leaves(shape, X).values()]
            assert shape.leaves.drop_duplicates("node")["rows"].to_list() == pytest.approx(rows)


def test_a_cut_and_the_ends_of_its_interval_separate_the_data(cases):
    X, _, post = cases[0]
    seen = 0
    for text in (str(post.consensus_tree()), str(post.shapes())):
        for middle, low, high in re.findall(r"a (?:<=|>) (\S+) \[(\S+), (\S+)\]", text):
            numbers = [float(low), float(middle), float(high)]
            assert numbers[0] < numbers[2] and numbers[0] <= numbers[1] <= numbers[2]
            assert numbers[0] > 1e4 and numbers[2] < X["a"].max()
            seen += 1
    assert seen > 0


@pytest.mark.parametrize("excluded", [["u"], ["u", "v"]])
def test_a_cell_says_that_it_also_holds_missing_categories(excluded):
    rng = np.random.default_rng(4)
    g = pd.Series(rng.choice(list("uvwxyz"), 300)).mask(rng.random(300) < 0.3)
    X, y = pd.DataFrame({"g": g}), (~g.isin(excluded)) * 2.0 + 0.2 * rng.normal(size=300)
    model = pt.TreeModel(X, y, missing="branch", tree_prior=pt.ChipmanPrior(max_depth=1))
    for post in (exact.solve(model, progress=False), exact.solve(model, progress=False).sample(200, rng=1)):
        tree = post.consensus_tree()
        assert any(words.endswith("or missing") for words in tree.words)
        assert tree.rows.tolist() == [satisfies(words, X).sum() for words in tree.words]
        support = post.support(0.5)
        cells = [words for words, kind in zip(support.words, support.kind, strict=True) if kind == "cell"]
        assert [satisfies(words, X).sum() for words in cells] == support.rows[: len(cells)].tolist()


def mean_of_rows(post, hit):
    """The posterior mean of a leaf with these rows, without weights, under the model with an unknown variance."""
    leaf, y = post.model.leaf, post.model.target.values
    return (leaf.k0 * leaf.m0 + y[hit].sum()) / (leaf.k0 + hit.sum())


def test_predictions_beside_a_rule_are_those_of_its_rows(cases):
    X, _, post = cases[0]
    tree = post.consensus_tree()
    assert tree.value[:, 0] == pytest.approx([mean_of_rows(post, hit) for hit in rows_of_nodes(tree, X)])
    for shape in post.shapes(most=3).shapes:
        assert shape.n_trees > 1
        expected = [mean_of_rows(post, hit) for hit in rows_of_leaves(shape, X).values()]
        assert shape.leaves["mean"].tolist() == pytest.approx(expected)


def test_paths_of_a_report_have_the_rows_and_predictions_of_their_conditions(cases):
    some_joined = 0
    for k in (0, 3):
        X, _, post = cases[k]
        for line in report_content(post, None)["paths"]:
            words = line["conditions"].replace("≤", "<=")
            some_joined += "[" in words
            hit = satisfies(words, X)
            assert line["rows"] == pytest.approx(hit.mean())
            assert float(line["value"]) == pytest.approx(mean_of_rows(post, hit), rel=1e-4, abs=1e-4)
    assert some_joined > 3


def test_events_beside_a_rule_are_those_of_its_rows():
    X, rng = close_values(), np.random.default_rng(3)
    time, event = rng.exponential(np.where(X.b > 0.1, 4.0, 1.0)), rng.random(len(X)) < 0.7
    y = pd.DataFrame({"time": time, "event": event})
    model = pt.TreeModel(X, y, leaf=pt.ExponentialGamma(), split_prior=pt.LocalCuts())
    tree = pt.sample(model, 300, tune=300, chains=2, rng=1, progress=False).consensus_tree()
    assert "[" in str(tree)
    said = [re.fullmatch(r"mean \S+, (\d+) events?, time at risk (\S+)", ", ".join(lines)) for lines in tree.said]
    for hit, numbers in zip(rows_of_nodes(tree, X), said, strict=True):
        assert int(numbers[1]) == event[hit].sum()
        assert float(numbers[2]) == pytest.approx(time[hit].sum(), rel=1e-3)


def test_rows_of_cells_are_those_of_their_rules_if_a_sample_of_rows_tells_cells_apart():
    X = pd.DataFrame({"a": np.arange(4000.0), "b": np.arange(4000) % 2})
    model = pt.TreeModel(X, (X.a > 2000) * 1.0 + np.random.default_rng(1).normal(size=4000), split_prior=pt.LocalCuts())
    sampled = np.isin(np.arange(4000), identifying_rows(model)[0])
    # trees with cuts on either side of a row that is not compared; the less probable one splits further
    row = next(i for i in range(2001, 4000, 2) if not sampled[i])
    stump = pt.Tree([0, -1, -1], [row - 0.5, 0, 0], [1, 0, 0], [2, 0, 0])
    split = pt.Tree([0, -1, 1, -1, -1], [row + 0.5, 0, 0.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])
    post = pt.posterior_from_trees(model, [stump, split], [[0, 1, 1]])
    tree = post.consensus_tree(join_cuts=False)
    assert len(tree.words) == 5
    assert tree.rows.tolist() == [hit.sum() for hit in rows_of_nodes(tree, X)]
    assert tree.value[:, 0] == pytest.approx([mean_of_rows(post, hit) for hit in rows_of_nodes(tree, X)])


def test_ends_of_intervals_have_few_digits():
    """An end among values that the cuts of the column do not part, as the midpoint of a gap of its cell can be."""
    x = np.arange(1, 31) / 10
    model = pt.TreeModel(x[:, None], x > 1.5, split_prior=pt.LocalCuts(max_cuts=3))
    ends = (0.1 + 0.2) / 2, (1.1 + 2.2) / 2
    assert all(len(repr(end)) > 15 for end in ends)
    assert interval_of_cut(model, 0, *ends) == ("0.15", "1.65")


def test_rows_beside_rules_of_a_progressive_mixture_are_those_of_the_data():
    """Its trees rest on the rows of one stage, but a rule is read on the table."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({"a": rng.integers(0, 9, 60) * 1.0, "b": rng.integers(0, 3, 60) * 1.0})
    y = np.where(X.a > 4, "yes", "no")
    model = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(max_depth=2))
    post = pt.progressive_mixture(model, chains=2, draws=200, particles=20, kernel="grow-prune", rng=1)
    for join_cuts in (True, False):
        tree = post.consensus_tree(join_cuts=join_cuts)
        at_root = (np.array([np.sum(y == "no"), np.sum(y == "yes")]) + 1.0) / 62.0
        assert tree.rows[0] == 60 and tree.value[0] == pytest.approx(at_root)
    table = post.support(0.05).table()
    for kind, words, rows in zip(table["kind"], table["words"], table["rows"], strict=True):
        if kind == "cell":
            assert satisfies(words, X).sum() == rows, words


def test_rows_at_a_cut_belong_to_the_rule_at_most_the_cut():
    """Cuts of a grid may be values of the data; between values it makes no difference."""
    x = np.repeat(np.arange(6.0), 3)
    model = pt.TreeModel(x[:, None], x > 2.0, split_prior=pt.GridCuts([[2.0]]))
    post = pt.posterior_from_trees(model, [pt.Tree([0, -1, -1], [2.0, 0.0, 0.0], [1, 0, 0], [2, 0, 0])])
    for text in (str(post.consensus_tree()), str(post.shapes())):
        assert text.count("(9 rows") == 2, text
