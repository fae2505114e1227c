"""The page of a report: names are text, it loads nothing, it is small and the same, every size and leaf has one."""

import re

import numpy as np
import pytest

from tests.posterior.report.pages import HOSTILE, ParsedPage, posterior, write_page


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

    def test_it_loads_nothing(self, page):
        without_data = re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)
        links = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]+)""", without_data)
        assert links
        assert all(link.startswith("#") for link in links)
        assert "@import" not in page and "url(" not in page
        urls = set(re.findall(r"https?://[^\s\"'<]+", without_data))
        assert urls <= {"http://www.w3.org/2000/svg"}
        assert "default-src 'none'" in page

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
        assert parsed.open == []
        assert (tmp_path / "page.html").stat().st_size < 500_000
        assert ParsedPage(f"<div>{post._repr_html_()}</div>").open == []


class TestErrors:
    def test_paths(self, tmp_path):
        post = posterior()
        with pytest.raises(ValueError, match=r"ends in '.txt'; give a path that ends in .html"):
            post.report(tmp_path / "page.txt")
        with pytest.raises(ValueError, match="does not exist; create it first"):
            post.report(tmp_path / "none" / "page.html")
        with pytest.raises(ValueError, match="give the path of a file"):
            post.report(3)
