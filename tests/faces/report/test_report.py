"""The page of a report: names are text, it loads nothing, it is small and the same, every size and leaf has one."""

import re

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.report.page import environment
from pactree_mcmc.faces.report.trees import common_paths
from tests.faces.report.pages import HOSTILE, ParsedPage, posterior, write_page
from tests.posterior.spaces import MODELS


def check_no_markup(text):
    """The page has its own two scripts and no handlers."""
    parsed = ParsedPage(text)
    assert parsed.open == []
    assert [tag for tag, _ in parsed.elements].count("script") == 2
    assert not [a for _, attrs in parsed.elements for a in attrs if a.startswith("on")]
    assert text.count("</script") == 2
    return parsed


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the text of a page of two classes."""
    return write_page(posterior(), tmp_path_factory.mktemp("page"))


class TestPage:
    def test_hostile_names_are_text(self, tmp_path):
        post = posterior(lambda rng, n: np.array(HOSTILE)[rng.integers(0, 4, n)], columns=HOSTILE, p=4, n=60, n_trees=8)
        text = write_page(post, tmp_path, title=HOSTILE[0])
        parsed = check_no_markup(text)
        assert HOSTILE[0] in parsed.words
        assert HOSTILE[3] in parsed.words
        assert {f["name"] for f in parsed.data["trees"]["features"]} <= set(HOSTILE)
        assert set(parsed.data["classes"]) == set(map(str, post.model.classes_))
        small = post._repr_html_()
        assert "<script" not in small
        assert "<b>&" not in small

    @pytest.mark.planted
    def test_unescaped_names_are_noticed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(environment(), "autoescape", False)
        environment().cache.clear()
        with pytest.raises(AssertionError):
            check_no_markup(write_page(posterior(columns=HOSTILE[:3]), tmp_path))
        environment().cache.clear()

    def test_it_loads_nothing(self, page):
        without_data = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
        links = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", without_data)
        assert links
        assert all(link.startswith("#") for link in links)
        assert "@import" not in page and "url(" not in page
        urls = set(re.findall(r"https?://[^\s\"'<]+", without_data))
        assert urls <= {"http://www.w3.org/2000/svg"}
        assert "default-src 'none'" in page

    @pytest.mark.more
    def test_same_posterior_same_bytes(self, tmp_path):
        one, other = posterior(), posterior()
        data = write_page(one, tmp_path)
        assert write_page(other, tmp_path) == data
        other.seconds = 12.5
        assert write_page(other, tmp_path) == data

    def test_whole_without_the_script(self, tmp_path):
        post = posterior(n_trees=3, depth=2)
        parsed = ParsedPage(write_page(post, tmp_path))
        tags = [tag for tag, _ in parsed.elements]
        assert tags.count("svg") >= 4
        assert tags.count("h1") == 1
        for line in post.map_tree().format().splitlines():
            assert " ".join(line.split()) in parsed.words
        for words in [*post.consensus_tree().words, *post.shapes().shapes[0].splits["words"]]:
            assert words.replace("<=", "≤") in parsed.words
        assert len([a for _, a in parsed.elements if a.get("class") == "box"]) == len(common_paths(post, True).parent)
        assert "noscript" in tags or "needs JavaScript" in parsed.words

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

    @pytest.mark.more
    def test_names_of_any_length_stay_small(self, tmp_path):
        """Features, classes and categories have names of thousands of characters."""
        names = [f"{i}" + "feature " * 700 for i in range(3)]
        labels = np.array([f"{i}" + "class " * 900 for i in range(3)], dtype=object)
        post = posterior(lambda rng, n: labels[rng.integers(3, size=n)], columns=names, n_trees=40)
        page = write_page(post, tmp_path, title="t" * 9000)
        assert len(page) < 300_000
        assert len(post._repr_html_()) < 10_000
        table = pd.DataFrame({"c": labels[np.arange(30) % 3], "x": np.arange(30.0)})
        model = pt.TreeModel(table, np.arange(30) % 3 == 1, nominal=["c"])
        nominal = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
        assert len(write_page(nominal, tmp_path)) < 200_000

    @pytest.mark.more
    @pytest.mark.parametrize("n_trees", [15, 700])
    def test_large_trees_and_many_classes_stay_small(self, tmp_path, n_trees):
        rest = {"n": 120, "draws": (4, 1000), "depth": 6, "p": 5, "seed": 3}
        post = posterior(lambda rng, n: np.arange(n) % 20, n_trees=n_trees, **rest)
        size = post.report(tmp_path / "page.html").stat().st_size
        assert size < 500_000

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
        assert parsed.open == []
        assert (tmp_path / "page.html").stat().st_size < 500_000
        assert ParsedPage(f"<div>{post._repr_html_()}</div>").open == []

    @pytest.mark.more(everyday=["PoissonGamma"])
    @pytest.mark.parametrize(
        "leaf",
        [pt.PoissonGamma(), pt.NormalSharedVariance(), pt.NormalLinear(["x0"])],
        ids=lambda leaf: type(leaf).__name__,
    )
    def test_other_leaves(self, tmp_path, leaf):
        columns = ["x0", "x1", "x2"]
        post = posterior(lambda rng, n: rng.poisson(3, n).astype(float), leaf=leaf, columns=columns)
        parsed = ParsedPage(write_page(post, tmp_path))
        assert parsed.open == []
        assert (parsed.data["trees"]["leaves"]["values"] is None) == (type(leaf) is pt.NormalLinear)


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
