"""Printed trees are read as programs: they send every training row to the leaf to which the tree sends it."""

import math
import re

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.model.model import draw_prior
from pactree_mcmc.table.words import shortest_between
from tests.tree.printed import hold_together, partition_of_dot, partition_of_text, same_partition, table_columns

N = 60


def spread(rng, size, offset=0.0):
    """Numbers of some size around an offset."""
    return offset + size * rng.normal(size=N)


def next_floats(start, n=12):
    """Neighbouring floats."""
    out = [start]
    for _ in range(n - 1):
        out.append(np.nextafter(out[-1], np.inf))
    return np.array(out)


NUMBERS = {
    **{f"size 1e{e}": (lambda rng, e=e: spread(rng, float(f"1e{e}"))) for e in (-300, -100, -7, 0, 7, 100, 300)},
    **{f"offset 1e{e}": (lambda rng, e=e: spread(rng, 1.0, float(f"1e{e}"))) for e in (3, 6, 9, 12, 15)},
    "Unix seconds": lambda rng: 1.7e9 + np.arange(N) // 5,
    "Unix seconds with fractions": lambda rng: 1.7e9 + np.arange(N) * 1e-6,
    "neighbouring floats": lambda rng: rng.choice(next_floats(0.1), N),
    "neighbouring large floats": lambda rng: rng.choice(next_floats(1e300), N),
    "smallest floats": lambda rng: rng.choice([-5e-324, -0.0, 0.0, 5e-324, 1e-323], N),
    "largest floats": lambda rng: rng.choice([-1.7976931348623157e308, -1e308, 0.0, 1e308, 1.7976931348623157e308], N),
    "large integers": lambda rng: 2**53 - rng.integers(0, 30, N),
    "ties": lambda rng: rng.choice([0.1, 0.2, 0.30000000000000004, 0.3], N),
    "thirds": lambda rng: rng.integers(0, 20, N) / 3.0,
}
LABELS = ["a, b", "}", "{", "it's", 'say "x"', " lead", "", "missing", "yes", "no", "a\nb", "größer", "\\", "x0 <= 3"]
FRAMES = {
    "dates": lambda rng: pd.to_datetime("2024-02-20") + pd.to_timedelta(rng.integers(0, 30, N), "D"),
    "times": lambda rng: pd.to_datetime("2024-02-20 23:59:58") + pd.to_timedelta(rng.integers(0, 9, N), "s"),
    "microseconds": lambda rng: pd.to_datetime("2024-02-20 23:59:58") + pd.to_timedelta(rng.integers(0, 9, N), "us"),
    "times of decades": lambda rng: pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 10**9, N) * 2, "s"),
    "zone": lambda rng: (
        pd.to_datetime("2024-03-31 00:10").tz_localize("Europe/Berlin")
        + pd.to_timedelta(rng.integers(0, 300, N), "min")
    ),
    "flags": lambda rng: rng.integers(0, 2, N).astype(bool),
    "categories": lambda rng: pd.Categorical(rng.choice(LABELS, N)),
}


def table_of(kind, rng, gaps=False):
    """A frame with a column of this kind, a column of whole numbers, and an odd name."""
    column = pd.Series((NUMBERS | FRAMES)[kind](rng))
    if gaps:
        column = column.astype(object) if column.dtype == bool else column.copy()
        column[rng.random(N) < 0.2] = None
    return pd.DataFrame({"a <= b": column, "a": rng.integers(0, 9, N).astype(float)})


def model_of(X, gaps=False, **kwargs):
    """A model that likes deep trees."""
    return pt.TreeModel(
        X,
        np.arange(len(X)) % 2,
        tree_prior=pt.ChipmanPrior(0.97, 0.3, max_depth=7),
        missing="branch" if gaps else "error",
        **kwargs,
    )


def trees_of(model, n=6, seed=3):
    """Some trees from the prior, as a posterior has them."""
    rng = np.random.default_rng(seed)
    return pt.posterior_from_trees(model, [draw_prior(model, rng).tree for _ in range(n)])


CASES = [(kind, gaps) for kind in NUMBERS | FRAMES for gaps in (False, True)]


def check_printed(X, gaps, **kwargs):
    """Text, dot and the words of cells of some trees, read as programs; returns the posterior."""
    post = trees_of(model_of(X, gaps, **kwargs))
    columns = table_columns(X)
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        leaf = tree.apply(X)
        assert same_partition(partition_of_text(tree.format(), X), leaf), tree.format()
        if not any("\n" in str(c) for c in columns["a <= b"]):
            assert np.array_equal(partition_of_dot(tree.to_dot(), X), leaf)
    result = post.support(0.0)
    for words, rows in zip(result.words, result.rows, strict=True):
        if ": " not in words:
            assert hold_together(words, columns).sum() == rows, words
    check_consensus(post.consensus_tree(join_cuts=False), columns)
    return post


def check_consensus(tree, columns):
    """The words of each node select its rows among those of its parent."""
    rows_of_node = [np.ones(N, dtype=bool)]
    for i in range(1, len(tree.words)):
        rows_of_node.append(rows_of_node[tree.parent[i]] & hold_together(tree.words[i], columns))
        assert rows_of_node[i].sum() == tree.rows[i], tree.words[i]


@pytest.mark.more(
    everyday=[
        "size 1e-300-False",
        "size 1e-100-True",
        "size 1e-7-False",
        "size 1e0-False",
        "size 1e7-True",
        "size 1e100-False",
    ]
)
@pytest.mark.parametrize(("kind", "gaps"), CASES)
def test_printed_trees_give_back_the_partition(kind, gaps):
    check_printed(table_of(kind, np.random.default_rng(len(kind)), gaps), gaps)


# texts of numbers


@pytest.mark.parametrize("seed", range(4))
def test_the_shortest_number_between_two(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        low = float(rng.normal() * 10.0 ** rng.integers(-300, 300)) * float(rng.choice([0.0, 1.0, 1.0, 1.0]))
        high = float(
            rng.choice([np.nextafter(low, np.inf), low + abs(low) * 10.0 ** -rng.integers(0, 16), abs(low) + 1.0])
        )
        if not low < high:
            continue
        midpoint = low / 2.0 + high / 2.0
        midpoint = midpoint if low <= midpoint < high else low
        text = shortest_between(low, high, midpoint)
        assert low <= float(text) < high
        digits = len(re.sub(r"e.*", "", text).replace(".", "").replace("-", "").lstrip("0").rstrip("0"))
        for fewer in range(1, digits if digits > 6 else 1):
            step = 10.0 ** (math.floor(math.log10(abs(midpoint))) - fewer + 1)
            around = [round(midpoint / step) * step + j * step for j in (-1, 0, 1)]
            assert not any(low <= float(f"{x:.{fewer - 1}e}") < high for x in around)


# nominal splits below nominal splits


def nested_table(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "g": pd.Categorical(rng.choice(list("abcdef"), N)),
            "h": pd.Categorical(rng.choice(["u", "v", "w"], N)),
            "x": rng.normal(size=N),
        }
    )


@pytest.mark.more(everyday=["0-prior0"])
@pytest.mark.parametrize("prior", [pt.LocalCuts(), pt.GridCuts(4)])
@pytest.mark.parametrize("seed", range(3))
def test_nested_nominal_splits_name_what_the_cell_can_contain(prior, seed):
    X = nested_table(seed)
    post = trees_of(model_of(X, split_prior=prior), seed=seed)
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        assert same_partition(partition_of_text(tree.format(), X), tree.apply(X))


# splits of missing from known values


def missing_model(leaf=None):
    x = np.concatenate([np.full(20, np.nan), np.tile([1.0, 2.0], 20)])[:, None]
    return pt.TreeModel(x, np.isnan(x[:, 0]), missing="branch", leaf=leaf)


def missing_posterior():
    """Both ways to separate missing from known values, and a tree that splits known ones."""
    trees = [pt.Tree([0, -1, -1], [np.nan, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[side, 0, 0]) for side in (0, 1)]
    other = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[1, 0, 0])
    return pt.posterior_from_trees(missing_model(), [*trees, other], [[0, 1, 2, 2]])


def test_a_split_of_missing_from_known_values_has_no_threshold():
    post = missing_posterior()
    trees = [post.draws.distinct_tree(t) for t in range(3)]
    assert [bool(np.isnan(tree.threshold[0])) for tree in trees] == [True, True, False]
    assert [tree.split(0) for tree in trees] == ["x0 is known", "x0 is missing", "x0 <= 1.5 or missing"]
    assert post._root_split_pmf() == {
        (0, None, "missing right"): 0.25,
        (0, None, "missing left"): 0.25,
        (0, 1.5, "missing left"): 0.5,
    }
    table = [[np.nan], [-1e308], [1e308]]
    assert [tree.apply(table).tolist() for tree in trees] == [[2, 1, 1], [1, 2, 2], [1, 1, 2]]
    assert post.predict_proba(table).shape == (3, 2)
    for tree in trees:
        assert pt.Tree.from_sklearn(tree.to_sklearn()) == tree
        assert hash(tree) == hash(pt.Tree.from_sklearn(tree.to_sklearn()))
        assert np.isfinite(post.model.log_posterior(tree))
    assert set(post.support(0.0).words) >= {"x0 is known", "x0 is missing"}
