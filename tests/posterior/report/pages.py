"""Posteriors to report, and pages as they are read."""

import json
from html.parser import HTMLParser

import numpy as np
import pandas as pd

import pactree_mcmc as pt


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
    f"\u202eevil\x01{surrogate()}\u2028 日本",
    "$title ${x}",
)


def stump(k, threshold):
    return pt.Tree([k, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


def random_tree(X, rng, depth=3):
    """A tree with splits between values of the rows."""
    feature, threshold, left, right = [], [], [], []

    def grow(rows, depth):
        here = len(feature)
        for column in (feature, threshold, left, right):
            column.append(0)
        k = int(rng.integers(X.shape[1]))
        distinct = np.unique(X[rows, k])
        if depth == 0 or len(distinct) < 2:
            feature[here] = -1
            return
        i = int(rng.integers(len(distinct) - 1))
        feature[here], threshold[here], left[here] = k, (distinct[i] + distinct[i + 1]) / 2, here + 1
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
    trees = [random_tree(X, rng, depth) for _ in range(n_trees)]
    return pt.posterior_from_trees(model, trees, rng.integers(0, n_trees, draws))


def write_page(post, tmp_path, **options):
    return post.report(tmp_path / "page.html", **options).read_text(encoding="utf-8")


class ParsedPage(HTMLParser):
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
