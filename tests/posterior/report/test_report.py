"""The page of a report: names are text, it loads nothing, its content and its script are true."""

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.report.content import curves_in_boxes, feature_effects, report_content
from pactree_mcmc.posterior.report.trees import common_paths, trees_for_page
from tests.posterior.report.pages import HOSTILE, ParsedPage, posterior, stump, write_page
from tests.posterior.spaces import MODELS, all_trees
from tests.problems.refusals import refuses
from tests.problems.runs import course_of_teams

RNG = np.random.default_rng(0)
SCRIPT = Path(pt.__file__).parent / "posterior" / "report" / "page.js"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
MOST = 150
PREDICT = """
const trees = data.page.trees.map(page.decoded);
console.log(JSON.stringify(data.rows.map(row => {
  const share = page.leavesOf(trees, data.page.splits, row);
  const actual = page.meanOf(share, data.page.leaves, data.classes);
  const ends = data.page.leaves.kind ? [0.05, 0.5, 0.95].map(q => page.quantileOf(share, data.page.leaves, q)) : [];
  const credible = actual.mean.map((_, j) => page.credibleEnds(share, data.page.leaves, j, data.classes));
  const {mean, sd} = actual;
  return {mean, sd, ends, credible, held: trees.map(tree => [...tree.held].sort((a, b) => a - b))};
})));
"""
WORDS = """
const {splits, features, trees} = data.page, out = [];
for (const tree of trees.map(page.decoded)) {
  const lines = [];
  const visit = (i, possible) => {
    if (tree.nodes[i] < 0) return;
    const split = splits[tree.nodes[i]];
    for (const left of [true, false]) {
      lines.push(page.sideWords(split, features, left, possible));
      visit(left ? i + 1 : tree.right[i], page.narrowed(split, features, left, possible));
    }
  };
  visit(0, new Map());
  out.push(lines);
}
console.log(JSON.stringify(out));
"""


def check_no_markup(text):
    """The page has its own two scripts and no handlers."""
    parsed = ParsedPage(text)
    assert parsed.open == [] and [tag for tag, _ in parsed.elements].count("script") == 2
    assert not [a for _, attrs in parsed.elements for a in attrs if a.startswith("on")] and text.count("</script") == 2
    return parsed


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return write_page(posterior(), tmp_path_factory.mktemp("page"))


class TestPage:
    def test_hostile_names_are_text(self, tmp_path):
        post = posterior(lambda rng, n: np.array(HOSTILE)[rng.integers(0, 4, n)], columns=HOSTILE, p=4, n=60, n_trees=8)
        text = write_page(post, tmp_path, title=HOSTILE[0])
        parsed = check_no_markup(text)
        assert HOSTILE[0] in parsed.words and HOSTILE[3] in parsed.words
        assert {f["name"] for f in parsed.data["trees"]["features"]} <= set(HOSTILE)
        assert set(parsed.data["classes"]) == set(map(str, post.model.classes_))
        small = post._repr_html_()
        assert "<script" not in small and "<b>&" not in small

    def test_it_loads_nothing(self, page):
        without_data = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
        links = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", without_data)
        assert links
        assert all(link.startswith("#") for link in links)
        assert "@import" not in page and "url(" not in page
        urls = set(re.findall(r"https?://[^\s\"'<]+", without_data))
        assert urls <= {"http://www.w3.org/2000/svg"} and "default-src 'none'" in page

    def test_headings_regions_and_labels(self, page):
        parsed = ParsedPage(page)
        ids = [a["id"] for _, a in parsed.elements if "id" in a]
        assert len(ids) == len(set(ids))
        for _, a in parsed.elements:
            assert a.get("aria-labelledby", ids[0]) in ids
            if a.get("href", "#").startswith("#") and "href" in a:
                assert a["href"][1:] in ids
        for tag, a in parsed.elements:
            if tag == "svg":
                assert a.get("aria-label") or a.get("aria-hidden") == "true"

    @pytest.mark.more(everyday=["{'p': 1}"])
    @pytest.mark.parametrize(
        "options",
        [
            {"p": 1},
            {"p": 500, "n_trees": 3},
            {"n_trees": 1, "draws": (1, 1)},
            {"n_trees": 1, "draws": (1, 1), "depth": 0},
            {"n_trees": 2, "draws": (12, 3)},
            {"columns": ["x" * 200, "y " * 100, "z" * 199]},
        ],
        ids=str,
    )
    def test_every_size(self, tmp_path, options):
        post = posterior(**options)
        parsed = ParsedPage(write_page(post, tmp_path))
        assert parsed.open == [] and (tmp_path / "page.html").stat().st_size < 500_000
        assert ParsedPage(f"<div>{post._repr_html_()}</div>").open == []


class TestErrors:
    def test_paths(self, tmp_path):
        post = posterior()
        refuses(r"ends in '.txt'; give a path that ends in .html", lambda: post.report(tmp_path / "page.txt"))
        refuses("does not exist; create it first", lambda: post.report(tmp_path / "none" / "page.html"))
        refuses("give the path of a file", lambda: post.report(3))


X = pd.DataFrame({name: RNG.integers(0, 6, 240).astype(float) for name in ("up", "down", "hump", "idle")})
X["kind"] = RNG.choice(["p", "q"], 240)
MEAN = 2.0 * X["up"] - X["down"] - 1.5 * np.abs(X["hump"] - 2.5) + 3.0 * (X["kind"] == "q")


def split_on(k, threshold):
    return pt.Tree([k, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.fixture(scope="module")
def numbers():
    hump = pt.Tree([2, -1, 2, -1, -1], [0.5, 0, 4.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])
    kind = pt.Tree([4, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [1, -1, -1])
    trees = [split_on(0, 2.5), split_on(1, 2.5), hump, split_on(3, 2.5), kind]
    return pt.posterior_from_trees(pt.TreeModel(X, pd.Series(MEAN, name="yield"), split_prior=pt.LocalCuts()), trees)


def test_directions_and_bands_of_a_regression(numbers):
    effects = feature_effects(numbers, [0, 1, 2, 3, 4], [0])
    assert [one.directions for one in effects[:3]] == [["increasing"], ["decreasing"], ["not monotone"]]
    assert effects[4].directions == ["-"]
    for one in effects:
        mean, (low, high) = one.dependence.mean, (one.dependence.lower, one.dependence.upper)
        assert (low <= mean).all() and (mean <= high).all() and (low < high).any()
    boxes = curves_in_boxes(effects, 100.0, 40.0)
    across, up = ([float(z) for z in re.findall(rf"{c}([0-9.]+)", boxes[0][0]["band"])] for c in "HV")
    assert min(across + up) >= 0.0 and max(across) == 100.0 and max(up) <= 40.0
    # the curve of an increasing effect goes up, and so the heights in the picture go down
    line = [float(z) for z in re.findall(r"V([0-9.]+)", boxes[0][0]["line"])]
    assert line == sorted(line, reverse=True) and line[0] > line[-1]


def in_page(post, **options):
    paths = common_paths(post.draws)
    return trees_for_page(post.draws, post.credible_set(), paths, **options)


def rows_of_page(post, data, X):
    """Numbers of the features of the page."""
    numbers = post.model.columns.numbers(X)
    names = list(map(str, post.model.columns.names))
    return numbers[:, [names.index(f["name"]) for f in data["features"]]]


@functools.cache
def all_trees_of(name):
    return all_trees(MODELS[name])


class TestWhatItSays:
    @pytest.mark.more(everyday=["local, nominal"])
    @pytest.mark.parametrize("name", ["local, nominal", "local, missing", "local, trivial", "grid, nominal", "dyadic"])
    def test_paths_have_the_probabilities_of_full_enumeration(self, name):
        """Drawn in proportion, and exact: the same, path by path, as sums over all trees."""
        model = MODELS[name]
        truth, trees, probability = all_trees_of(name)
        post = pt.posterior_from_trees(model, trees[:MOST])
        post.draws.__dict__["weight_of_tree"] = np.bincount(post.draws.tree_of_draw[0], weights=probability[:MOST])
        paths = common_paths(post.draws)
        actual = truth._cells.path_probability(paths.parent, post.draws.cells.key[paths.cell])
        rest = 1.0 - probability[:MOST].sum()
        assert len(actual) > 3 and np.all(actual >= paths.probability - 1e-9)
        assert np.all(actual <= paths.probability + rest + 1e-9)

    def test_verdict_and_numbers(self, tmp_path):
        post = posterior(n=12, p=1, n_trees=4, depth=1, draws=(2, 30))
        words = ParsedPage(write_page(post, tmp_path)).words
        assert "too few draws to judge convergence" in words and "12 rows, 1 feature; classes: False, True" in words
        assert "2 chains x 30 draws" in words and repr(post.model.tree_prior) in words

    def test_teams_whose_evidences_differ_are_said_first(self):
        draws = exact.solve(MODELS["local, nominal"]).sample(2000, rng=1)
        for difference in (0.0, 1.0):
            evidences = np.array([[-10.0, 0.01], [-10.0 - difference, 0.01]])
            draws.course = course_of_teams("whole", (0, 1), 4000, evidences)
            data = report_content(draws, None)["verdict"]
            assert (data["level"] == "good") == (difference == 0.0)
            assert any("one half has lost part" in line for line in data["lines"]) == (difference > 0.0)

    def test_chains_apart_are_said_first(self, tmp_path):
        x = np.arange(10.0)
        model = pt.TreeModel(x[:, None], x > 5)
        post = pt.posterior_from_trees(model, [stump(0, 4.5), stump(0, 5.5)], [[0] * 200, [1] * 200])
        parsed = ParsedPage(write_page(post, tmp_path))
        first = parsed.words.index("not converged;")
        assert first < parsed.words.index("Consensus tree", parsed.words.index("Model") + 5)
        assert "Draw trees with pt.sample(model)" in parsed.words

    def test_exact_values_beside_draws(self):
        model = MODELS["local, nominal"]
        truth = exact.solve(model)
        draws = truth.sample(2000, rng=1)
        content = report_content(draws, truth)
        for line in [*content["paths"], *content["support"]]:
            assert abs(line["exact"] - line["probability"]) < max(5.0 * line["mcse"], 0.01)
        sizes = {line["leaves"]: line["exact"] for line in content["sizes"]}
        assert all(truth.n_leaves_pmf()[m] == p for m, p in sizes.items())


def test_the_script_asks_for_all_that_a_tree_has():
    """A misspelt name in the script makes NaN on the page, without an error in the browser."""
    data = report_content(posterior(n_trees=2, depth=1), None)["trees"]
    names_in_script = set(re.findall(r"\.([a-z_]+)", SCRIPT.read_text(encoding="utf-8")))
    assert set(data["trees"][0]) <= names_in_script


def run_in_node(body, data):
    """Return what lines of JavaScript print as JSON, with the functions of the page in `page`."""
    program = f"const page = require({json.dumps(str(SCRIPT))}); const data = {json.dumps(data)};\n{body}"
    process = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, timeout=60)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def page_predictions(post, X):
    data = in_page(post)
    rows = [[None if np.isnan(x) else x for x in row] for row in rows_of_page(post, data, X).tolist()]
    return data, run_in_node(PREDICT, {"page": data, "rows": rows, "classes": post.model.classes_ is not None})


def conditions_in_node(post):
    return run_in_node(WORDS, {"page": in_page(post)})


@needs_node
class TestWords:
    def test_nested_nominal_splits_name_the_categories_that_are_left(self):
        frame = pd.DataFrame({"g": pd.Categorical(list("abcd") * 10)})
        tree = pt.Tree(
            [0, 0, -1, -1, -1], [0.0] * 5, [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], categories=[0b0011, 0b1101, -1, -1, -1]
        )
        post = pt.posterior_from_trees(pt.TreeModel(frame, np.arange(40) % 2), [tree])
        assert conditions_in_node(post) == [["g in {a, b}", "g in {a}", "g in {b}", "g in {c, d}"]]
        conditions = {path["condition"] for path in report_content(post, None)["paths"]}
        assert conditions == {"all rows", "g in {a, b}", "g in {a}", "g in {b}", "g in {c, d}"}

    @pytest.mark.parametrize("left", [True, False])
    def test_a_split_of_missing_from_known_values(self, left):
        x = np.where(np.arange(40) % 4 == 0, np.nan, np.arange(40.0))[:, None]
        tree = pt.Tree([0, -1, -1], [np.nan, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[left, 0, 0])
        post = pt.posterior_from_trees(pt.TreeModel(x, np.arange(40) % 2, missing="branch"), [tree])
        expected = ["x0 is missing", "x0 is known"]
        assert conditions_in_node(post) == [expected if left else expected[::-1]]
        _, actual = page_predictions(post, np.array([[np.nan], [-1e308], [1e308]]))
        assert [line["mean"] for line in actual] == pytest.approx(
            post.predict_proba([[np.nan], [-1e308], [1e308]]), abs=2e-5
        )


@needs_node
class TestScript:
    @pytest.mark.more(everyday=["2"])
    @pytest.mark.parametrize("n_classes", [2, 3, 4, 20])
    def test_classes(self, n_classes):
        post = posterior(lambda rng, n: np.arange(n) % n_classes, depth=4, leaf=pt.DirichletMultinomial())
        X = np.random.default_rng(1).normal(size=(12, 3))
        _, actual = page_predictions(post, X)
        assert [line["mean"] for line in actual] == pytest.approx(post.predict_proba(X), abs=2e-5)
        assert [line["sd"] for line in actual] == pytest.approx(post.predict_std_over_trees(X), abs=1e-4)
        np.testing.assert_allclose([line["credible"] for line in actual], post.credible_interval(X, 0.9), atol=2e-3)

    @pytest.mark.more(everyday=["WeibullGamma--"])
    @pytest.mark.parametrize(
        ("leaf", "y", "tolerance"),
        [
            (pt.DirichletMultinomial(), lambda rng, n: rng.integers(0, 4, n), 1e-3),
            (
                pt.WeibullGamma(1.7),
                lambda rng, n: np.column_stack([rng.exponential(2.0, n), rng.random(n) < 0.7]),
                1e-3,
            ),
        ],
        ids=lambda value: type(value).__name__ if hasattr(value, "expectation") else "",
    )
    def test_credible_intervals_of_every_leaf(self, leaf, y, tolerance):
        post, X = posterior(y, leaf=leaf), np.random.default_rng(1).normal(size=(4, 3))
        _, actual = page_predictions(post, X)
        ends = post.credible_interval(X, 0.9).reshape(4, -1, 2)
        np.testing.assert_allclose([line["credible"] for line in actual], ends, rtol=1e-3, atol=tolerance)

    @pytest.mark.more(everyday=["NormalInverseGamma"])
    @pytest.mark.parametrize(
        "leaf",
        [pt.NormalInverseGamma(), pt.NormalKnownVariance(0.5), pt.PoissonGamma()],
        ids=lambda leaf: type(leaf).__name__,
    )
    def test_numbers_and_their_quantiles(self, leaf):
        post = posterior(lambda rng, n: rng.poisson(3.0, n).astype(float), leaf=leaf)
        X = np.random.default_rng(1).normal(size=(6, 3))
        _, actual = page_predictions(post, X)
        assert [line["mean"][0] for line in actual] == pytest.approx(post.predict(X), rel=1e-6, abs=1e-6)
        assert [line["ends"] for line in actual] == pytest.approx(
            post.predict_quantiles(X, [0.05, 0.5, 0.95]), rel=1e-5
        )
        credible = [line["credible"][0] for line in actual]
        np.testing.assert_allclose(credible, post.credible_interval(X, 0.9), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("leaf", "y", "name"),
    [
        (pt.ExponentialGamma(), pd.DataFrame({"time": np.arange(1.0, 21.0), "event": np.arange(20) > 3}), "time"),
        (pt.NormalLinear([0]), pd.Series(np.arange(20.0), name="price"), "price"),
        (None, pd.Series(np.arange(20.0), name="price"), "price"),
    ],
    ids=["times", "regression", "numbers"],
)
def test_a_prediction_has_the_name_of_what_is_predicted(leaf, y, name, tmp_path):
    model = pt.TreeModel(np.arange(20.0)[:, None], y, leaf=leaf)
    post = pt.posterior_from_trees(model, [stump(0, 9.5)], [[0] * 10] * 2)
    content = report_content(post, None)
    assert content["target"] == name and content["curve_names"] == [name]
    page = post.report(tmp_path / "page.html").read_text()
    assert f"mean {name}<" in page or "mean " not in page
    if isinstance(leaf, pt.NormalLinear):
        assert content["shape_tree"]["children"][0]["words"].startswith("price = ") and "price = " in page
