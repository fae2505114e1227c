"""The report of a posterior: what it says is true, names are text, it loads nothing, it is small and the same."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.report import text as _text
from pactree_mcmc.faces.report.content import layout, report_content
from pactree_mcmc.faces.report.paths import common_paths
from pactree_mcmc.faces.report.trees import trees_for_page
from tests.posterior.spaces import MODELS, all_trees

SCRIPT = Path(pt.__file__).parent / "faces" / "report" / "page.js"


def surrogate():
    """One that is alone, where pandas takes it: with pyarrow installed it does not."""
    try:
        pd.Index(["\ud800"])
    except UnicodeEncodeError:
        return ""
    return "\ud800"


HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"' onmouseover='x' <b>&amp;",
    f"\u202eevil\x00{surrogate()}\u2028 日本",
    "$title ${x}",
)
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def stump(k, threshold):
    return pt.Tree([k, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


SINGLE = pt.Tree([-1], [0], [0], [0])


def grown(X, rng, depth=3):
    """A tree with splits between values of the rows."""
    feature, threshold, left, right = [], [], [], []

    def grow(rows, depth):
        here = len(feature)
        for column in (feature, threshold, left, right):
            column.append(0)
        k = int(rng.integers(X.shape[1]))
        known = np.unique(X[rows, k])
        if depth == 0 or len(known) < 2:
            feature[here] = -1
            return
        i = int(rng.integers(len(known) - 1))
        feature[here], threshold[here], left[here] = k, (known[i] + known[i + 1]) / 2, here + 1
        grow(rows[X[rows, k] <= threshold[here]], depth - 1)
        right[here] = len(feature)
        grow(rows[X[rows, k] > threshold[here]], depth - 1)

    grow(np.arange(len(X)), depth)
    return pt.Tree(feature, threshold, left, right)


def posterior(y=None, *, n=40, p=3, n_trees=12, draws=(2, 60), depth=3, seed=0, columns=None, **options):
    """Random trees on random rows, as if drawn."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).round(2)
    y = X[:, 0] > 0 if y is None else y(rng, n)
    model = pt.TreeModel(X if columns is None else pd.DataFrame(X, columns=columns), y, **options)
    trees = [grown(X, rng, depth) for _ in range(n_trees)]
    return pt.posterior_from_trees(model, trees, rng.integers(0, n_trees, draws))


def written(post, tmp_path, **options):
    return post.report(tmp_path / "page.html", **options).read_text(encoding="utf-8")


class Read(HTMLParser):
    """Elements with their attributes, and the text outside of style and script."""

    VOID = ("meta", "br", "link", "input", "img", "hr")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text, self.scripts = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif not self.open or self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self):
        return " ".join("".join(self.text).split())

    @property
    def data(self):
        return json.loads(self.scripts[0])


def sent_down(told, tree, row):
    """The leaf that a row reaches in a tree of a page, read as its docstring says."""
    nodes = iter(tree["nodes"])

    def below():
        token = next(nodes)
        return token if token < 0 else (token, below(), below())

    here = below()
    while not isinstance(here, int):
        feature, asked, default = told["splits"][here[0]]
        x = row[feature]
        if isinstance(asked, list):
            left = x in asked if x >= 0 else bool(default)
        else:
            left = bool(default) if np.isnan(x) else x <= float(asked)
        here = here[1] if left else here[2]
    return -1 - here


def in_page(post, **options):
    """The trees as the page tells them."""
    paths = common_paths(post)
    return trees_for_page(post, post.credible_set(), paths, np.zeros(post.n_distinct_trees, dtype=int), **options)


def used_rows(post, told, X):
    """Numbers of the features of the page."""
    numbers = post.model.columns.numbers(X)
    names = list(map(str, post.model.columns.names))
    return numbers[:, [names.index(f["name"]) for f in told["features"]]]


def predicted(told, rows, n_classes):
    """Means over the trees of a page, in plain Python."""
    weight = np.array([tree["weight"] for tree in told["trees"]])
    out = []
    for row in rows:
        values = [told["leaves"]["values"][sent_down(told, tree, row)] for tree in told["trees"]]
        if n_classes:
            values = [[*v, 1 - sum(v)] for v in values]
        out.append(weight @ np.array(values) / weight.sum())
    return np.array(out)


class TestWhatItSays:
    @pytest.mark.parametrize("name", ["local, nominal", "local, missing", "local, trivial", "grid, nominal", "dyadic"])
    def test_paths_have_the_probabilities_of_full_enumeration(self, name):
        """Drawn in proportion, and exact: the same, path by path, as sums over all trees."""
        model = MODELS[name]
        truth, trees, probability = all_trees(model)
        post = pt.posterior_from_trees(model, trees[:400])
        post.__dict__["weight_of_tree"] = np.bincount(post.tree_of_draw[0], weights=probability[:400])
        paths = common_paths(post)
        found = truth.path_probabilities(post, paths.cell, paths.parent)
        rest = 1.0 - probability[:400].sum()
        assert len(found) > 3
        assert np.all(found >= paths.probability - 1e-9)
        assert np.all(found <= paths.probability + rest + 1e-9)

    @pytest.mark.planted
    def test_a_path_of_other_cells_has_another_probability(self):
        model = MODELS["local, nominal"]
        truth, trees, probability = all_trees(model)
        post = pt.posterior_from_trees(model, trees)
        post.__dict__["weight_of_tree"] = np.bincount(post.tree_of_draw[0], weights=probability)
        paths = common_paths(post)
        swapped = paths.cell.copy()
        swapped[1], swapped[3] = swapped[3], swapped[1]
        found = truth.path_probabilities(post, swapped, paths.parent)
        assert np.abs(found - paths.probability).max() > 0.01

    def test_boxes_lie_in_their_parents_and_do_not_overlap(self):
        paths = common_paths(posterior(n_trees=40, depth=4))
        top, bottom = layout(paths)
        for i in range(1, len(top)):
            above = paths.parent[i]
            assert top[above] - 1e-9 <= top[i] <= bottom[i] <= bottom[above] + 1e-9
            for j in range(i):
                if paths.parent[j] == above:
                    assert bottom[j] <= top[i] + 1e-9 or bottom[i] <= top[j] + 1e-9
        assert (bottom - top) == pytest.approx(paths.width)

    def test_sides_of_a_split_are_as_probable_and_share_the_rows(self):
        paths = common_paths(posterior(n_trees=40, depth=2))
        for i in range(1, len(paths.parent) - 1):
            if paths.above[i] == paths.above[i + 1]:
                assert paths.probability[i] == pytest.approx(paths.probability[i + 1])
                assert paths.rows[i] + paths.rows[i + 1] == pytest.approx(paths.rows[paths.parent[i]])

    @pytest.mark.parametrize("n_classes", [2, 3, 20])
    def test_trees_in_the_page_predict_as_the_posterior(self, n_classes):
        post = posterior(lambda rng, n: rng.integers(0, n_classes, n) if n_classes < 20 else np.arange(n) % 20, n=60)
        told = in_page(post)
        X = np.random.default_rng(1).normal(size=(20, 3))
        found = predicted(told, used_rows(post, told, X), n_classes)
        assert found == pytest.approx(post.predict_proba(X), abs=2e-5)

    def test_regression(self):
        post = posterior(lambda rng, n: rng.normal(size=n))
        told = in_page(post)
        X = np.random.default_rng(1).normal(size=(20, 3))
        assert predicted(told, used_rows(post, told, X), 0)[:, 0] == pytest.approx(post.predict(X), rel=1e-6, abs=1e-6)
        assert told["leaves"]["kind"] == "student"

    @pytest.mark.parametrize("name", ["local, nominal", "local, missing", "grid, missing"])
    def test_nominal_and_missing_values(self, name):
        model = MODELS[name]
        post = pt.posterior_from_trees(model, all_trees(model)[1][:80])
        told = in_page(post)
        X = np.random.default_rng(1).integers(0, 4, (20, model.n_features)).astype(float)
        if "missing" in name:
            X[::3, 1] = np.nan
        assert predicted(told, used_rows(post, told, X), 2) == pytest.approx(post.predict_proba(X), abs=2e-5)

    @pytest.mark.planted
    def test_a_page_with_yes_and_no_exchanged_predicts_otherwise(self):
        post = posterior()
        told = in_page(post)
        X = np.random.default_rng(1).normal(size=(20, 3))
        told["splits"][0][1] = -told["splits"][0][1] - 1.0
        found = predicted(told, used_rows(post, told, X), 2)
        assert np.abs(found - post.predict_proba(X)).max() > 1e-3

    def test_paths_of_the_trees_are_those_of_their_nodes(self):
        post = posterior(n_trees=30, depth=4)
        paths, told = common_paths(post), in_page(post)
        fractions = np.zeros(len(paths.parent))
        for tree in told["trees"]:
            fractions[sorted({path for path in tree["paths"] if path >= 0})] += tree["fraction"]
        assert fractions == pytest.approx(paths.probability, abs=1e-5)

    def test_some_of_many_trees_are_a_fair_sample(self):
        post = posterior(n_trees=900, draws=(3, 300), depth=2, n=20)
        told = in_page(post)
        assert sum(tree["weight"] for tree in told["trees"]) == pytest.approx(1.0, abs=1e-3)
        assert "400 of 900 draws, evenly spaced" in told["said"]
        best = (post.log_prior_of_tree + post.log_score_of_tree)[post.weight_of_tree > 0].max()
        assert told["trees"][0]["log_posterior"] == pytest.approx(best, abs=1e-3)

    def test_verdict_and_numbers(self, tmp_path):
        post = posterior(draws=(2, 30))
        words = Read(written(post, tmp_path)).words
        assert "There are too few draws to judge." in words
        assert "40 rows, 3 features; classes: False, True" in words
        assert "2 chains x 30 draws" in words
        assert repr(post.model.tree_prior) in words

    def test_chains_apart_are_said_first(self, tmp_path):
        x = np.arange(10.0)
        model = pt.TreeModel(x[:, None], x > 5)
        post = pt.posterior_from_trees(model, [stump(0, 4.5), stump(0, 5.5)], [[0] * 200, [1] * 200])
        read = Read(written(post, tmp_path))
        first = read.words.index("Do not rely on these draws yet.")
        assert first < read.words.index("Consensus tree", read.words.index("Model") + 5)
        assert "The chains are in different modes and stay there" in read.words

    def test_exact_values_beside_draws(self):
        model = MODELS["local, nominal"]
        truth = exact.solve(model)
        draws = truth.sample(2000, rng=1)
        content = report_content(draws, truth, None)
        for line in content["paths"]:
            assert abs(line["exact"] - line["probability"]) < max(5.0 * line["mcse"], 0.01)
        for line in content["support"]:
            assert abs(line["exact"] - line["probability"]) < max(5.0 * line["mcse"], 0.01)
        sizes = {line["leaves"]: line["exact"] for line in content["sizes"]}
        assert all(truth.n_leaves_pmf()[m] == p for m, p in sizes.items())

    def test_an_exact_posterior_is_its_own_truth(self, tmp_path):
        truth = exact.solve(MODELS["local, nominal"])
        read = Read(written(truth, tmp_path))
        assert "Nothing here depends on a chain." in read.words
        assert any(a.get("class") == "tick" for tag, a in read.elements if tag == "path")

    def test_model_run_and_command(self, tmp_path):
        words = Read(written(posterior(), tmp_path, title="My data", command="make page")).words
        assert words.startswith("My data")
        assert "make page" in words
        assert "numpy " + np.__version__ in words


def check_no_markup(text):
    """The page has its own two scripts and no handlers."""
    read = Read(text)
    assert read.open == []
    assert [tag for tag, _ in read.elements].count("script") == 2
    assert not [a for _, attrs in read.elements for a in attrs if a.startswith("on")]
    assert text.count("</script") == 2
    return read


class TestPage:
    def test_hostile_names_are_text(self, tmp_path):
        post = posterior(lambda rng, n: np.array(HOSTILE)[rng.integers(0, 4, n)], columns=HOSTILE, p=4, n=60, n_trees=8)
        text = written(post, tmp_path, title=HOSTILE[0], command=HOSTILE[1])
        read = check_no_markup(text)
        assert HOSTILE[0] in read.words
        assert HOSTILE[3] in read.words
        assert {f["name"] for f in read.data["trees"]["features"]} <= set(HOSTILE)
        assert set(read.data["classes"]) == set(map(str, post.model.classes_))
        small = post._repr_html_()
        assert "<script" not in small
        assert "<b>&" not in small

    @pytest.mark.planted
    def test_unescaped_names_are_noticed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_text.html, "escape", lambda text, quote=True: text)
        with pytest.raises(AssertionError):
            check_no_markup(written(posterior(columns=HOSTILE[:3]), tmp_path))

    def test_it_loads_nothing(self, tmp_path):
        text = written(posterior(), tmp_path)
        without_data = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.S)
        links = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", without_data)
        assert links
        assert all(link.startswith("#") for link in links)
        assert "@import" not in text
        assert "url(" not in text
        urls = set(re.findall(r"https?://[^\s\"'<]+", without_data))
        assert urls <= {"http://www.w3.org/2000/svg"}
        assert "default-src 'none'" in text

    def test_same_posterior_same_bytes(self, tmp_path):
        assert written(posterior(), tmp_path) == written(posterior(), tmp_path)
        one = posterior()
        one.seconds = 12.5
        assert written(one, tmp_path) == written(posterior(), tmp_path)

    def test_whole_without_the_script(self, tmp_path):
        post = posterior(n_trees=3, depth=2)
        read = Read(written(post, tmp_path))
        tags = [tag for tag, _ in read.elements]
        assert tags.count("svg") >= 4
        assert tags.count("h1") == 1
        for line in post.map_tree().format().splitlines():
            assert " ".join(line.split()) in read.words
        for words in post.consensus_tree().words:
            assert words in read.words
        assert len([a for _, a in read.elements if a.get("class") == "box"]) == len(common_paths(post).parent)
        assert "noscript" in tags or "needs JavaScript" in read.words

    def test_headings_regions_and_labels(self, tmp_path):
        read = Read(written(posterior(), tmp_path))
        ids = [a["id"] for _, a in read.elements if "id" in a]
        assert len(ids) == len(set(ids))
        for _, a in read.elements:
            for name in ("aria-labelledby",):
                assert a.get(name, ids[0]) in ids
            if a.get("href", "#").startswith("#") and "href" in a:
                assert a["href"][1:] in ids
        for tag, a in read.elements:
            if tag == "svg":
                assert a.get("aria-label") or a.get("aria-hidden") == "true"

    def test_the_script_asks_for_all_that_a_tree_has(self):
        """Another name in the script is no error in a browser, but NaN on the page."""
        told = report_content(posterior(), None, None)["trees"]
        asked = set(re.findall(r"\.([a-z_]+)", SCRIPT.read_text(encoding="utf-8")))
        assert set(told["trees"][0]) - {"mode"} <= asked

    def test_names_of_any_length_stay_small(self, tmp_path):
        """Of features, classes and categories: each has thousands of characters."""
        names = [f"{i}" + "feature " * 700 for i in range(3)]
        labels = np.array([f"{i}" + "class " * 900 for i in range(3)], dtype=object)
        post = posterior(lambda rng, n: labels[rng.integers(3, size=n)], columns=names, n_trees=40)
        page = written(post, tmp_path, title="t" * 9000)
        assert len(page) < 300_000
        assert len(post._repr_html_()) < 10_000
        table = pd.DataFrame({"c": labels[np.arange(30) % 3], "x": np.arange(30.0)})
        model = pt.TreeModel(table, np.arange(30) % 3 == 1, nominal=["c"])
        nominal = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
        assert len(written(nominal, tmp_path)) < 200_000

    def test_large_trees_and_many_classes_stay_small(self, tmp_path):
        post = posterior(lambda rng, n: np.arange(n) % 20, n=120, n_trees=700, draws=(4, 1000), depth=6, p=5, seed=3)
        size = post.report(tmp_path / "page.html").stat().st_size
        assert size < 500_000

    @pytest.mark.parametrize(
        "options",
        [
            {"p": 1},
            {"p": 500, "n_trees": 30},
            {"n_trees": 1, "draws": (1, 1)},
            {"n_trees": 1, "draws": (1, 1), "depth": 0},
            {"n_trees": 2, "draws": (12, 3)},
            {"columns": ["x" * 200, "y " * 100, "z" * 199]},
        ],
        ids=str,
    )
    def test_every_size(self, tmp_path, options):
        post = posterior(**options)
        read = Read(written(post, tmp_path))
        assert read.open == []
        assert (tmp_path / "page.html").stat().st_size < 500_000
        assert Read(f"<div>{post._repr_html_()}</div>").open == []

    @pytest.mark.parametrize(
        "leaf",
        [pt.PoissonGamma(), pt.NormalSharedVariance(), pt.NormalKnownVariance(1.0), pt.NormalLinear(["x0"])],
        ids=lambda leaf: type(leaf).__name__,
    )
    def test_other_leaves(self, tmp_path, leaf):
        columns = ["x0", "x1", "x2"]
        post = posterior(lambda rng, n: rng.poisson(3, n).astype(float), leaf=leaf, columns=columns)
        read = Read(written(post, tmp_path))
        told = read.data["trees"]
        assert (told["leaves"]["values"] is None) == (type(leaf) is pt.NormalLinear)

    def test_several_outputs(self, tmp_path):
        post = posterior(lambda rng, n: rng.normal(size=(n, 2)), leaf=pt.MultivariateNormal(2))
        read = Read(written(post, tmp_path))
        assert read.open == []
        assert (read.data["trees"]["leaves"]["kind"], len(read.data["trees"]["leaves"]["values"][0])) == (None, 2)

    def test_a_loss(self, tmp_path):
        post = posterior(leaf=pt.PacBayesLoss(3.0))
        assert Read(written(post, tmp_path)).open == []


class TestErrors:
    def test_paths(self, tmp_path):
        post = posterior()
        with pytest.raises(ValueError, match=r"ends in '.txt'; give a path that ends in .html"):
            post.report(tmp_path / "page.txt")
        with pytest.raises(ValueError, match="does not exist; create it first"):
            post.report(tmp_path / "none" / "page.html")
        with pytest.raises(ValueError, match="give the path of a file"):
            post.report(3)

    def test_truth(self, tmp_path):
        post = posterior()
        with pytest.raises(TypeError, match=r"truth is .*; give an exact posterior"):
            post.report(tmp_path / "page.html", truth=3)
        with pytest.raises(TypeError, match="draws too"):
            post.report(tmp_path / "page.html", truth=post)
        with pytest.raises(ValueError, match="truth is of another model"):
            post.report(tmp_path / "page.html", truth=exact.solve(MODELS["local, nominal"]))
        with pytest.raises(TypeError, match="title is 3; give a text"):
            post.report(tmp_path / "page.html", title=3)
        assert not (tmp_path / "page.html").exists()


def in_node(body, told):
    """What a few lines of JavaScript print as JSON, with the functions of the page at hand."""
    program = f"const page = require({json.dumps(str(SCRIPT))}); const told = {json.dumps(told)};\n{body}"
    done = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PREDICT = """
const trees = told.page.trees.map(page.decoded);
console.log(JSON.stringify(told.rows.map(row => {
  const share = page.leavesOf(trees, told.page.splits, row);
  const found = page.meanOf(share, told.page.leaves, told.classes);
  const ends = told.page.leaves.kind ? [0.05, 0.5, 0.95].map(q => page.quantileOf(share, told.page.leaves, q)) : [];
  return {mean: found.mean, sd: found.sd, ends, held: trees.map(tree => [...tree.held].sort((a, b) => a - b))};
})));
"""


def asked(post, X):
    told = in_page(post)
    rows = [[None if np.isnan(x) else x for x in row] for row in used_rows(post, told, X).tolist()]
    return told, in_node(PREDICT, {"page": told, "rows": rows, "classes": post.model.classes_ is not None})


@needs_node
class TestScript:
    def test_classes(self):
        post = posterior(lambda rng, n: rng.integers(0, 4, n), depth=4)
        X = np.random.default_rng(1).normal(size=(12, 3))
        _, found = asked(post, X)
        assert [line["mean"] for line in found] == pytest.approx(post.predict_proba(X), abs=2e-5)
        assert [line["sd"] for line in found] == pytest.approx(post.predict_std_over_trees(X), abs=1e-4)

    def test_paths_of_the_trees(self):
        post = posterior(n_trees=30, depth=4)
        told, found = asked(post, np.zeros((1, 3)))
        for tree, held in zip(told["trees"], found[0]["held"], strict=True):
            assert {path for path in held if path >= 0} == {path for path in tree["paths"] if path >= 0}

    @pytest.mark.parametrize(
        "leaf",
        [pt.NormalInverseGamma(), pt.NormalKnownVariance(0.5), pt.PoissonGamma()],
        ids=lambda leaf: type(leaf).__name__,
    )
    def test_numbers_and_their_quantiles(self, leaf):
        post = posterior(lambda rng, n: rng.poisson(3.0, n).astype(float), leaf=leaf)
        X = np.random.default_rng(1).normal(size=(6, 3))
        _, found = asked(post, X)
        assert [line["mean"][0] for line in found] == pytest.approx(post.predict(X), rel=1e-6, abs=1e-6)
        assert [line["ends"] for line in found] == pytest.approx(post.predict_quantiles(X, [0.05, 0.5, 0.95]), rel=1e-5)

    @pytest.mark.parametrize("name", ["local, nominal", "local, missing", "grid, missing"])
    def test_nominal_and_missing_values(self, name):
        model = MODELS[name]
        post = pt.posterior_from_trees(model, all_trees(model)[1][:80])
        X = np.random.default_rng(1).integers(0, 5, (20, model.n_features)).astype(float)
        if "missing" in name:
            X[::3, 1] = np.nan
        _, found = asked(post, X)
        assert [line["mean"] for line in found] == pytest.approx(post.predict_proba(X), abs=2e-5)
