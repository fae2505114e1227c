"""Sizes of graphs before they are built, and building in pieces: estimates, refusals, the bar, Ctrl-C."""

import pickle
import tracemalloc

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.graph import building, progress
from exact.graph.arrays import distinct_points
from exact.graph.cells import is_layered
from exact.limits import intractable, sizes
from exact.limits.intractable import Limit
from tests.problems.lazy import MadeWhenUsed


def table(n, p, values=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) if values is None else rng.integers(0, values, (n, p)).astype(float)
    return X, (X[:, 0] > np.median(X[:, 0])).astype(int)


def size_of(model, max_cells=20_000_000):
    return sizes.estimate_size(model, distinct_points(model).codes, Limit(max_cells), is_layered(model))


MODELS = MadeWhenUsed(
    {
        "ties": lambda: pt.TreeModel(*table(60, 3, 5)),
        "no ties": lambda: pt.TreeModel(*table(40, 2)),
        "one column": lambda: pt.TreeModel(*table(120, 1)),
        "four columns": lambda: pt.TreeModel(*table(50, 4, 3)),
        "nominal": lambda: pt.TreeModel(*table(60, 3, 4), nominal=[1]),
        "depth": lambda: pt.TreeModel(*table(40, 3, 8), tree_prior=pt.ChipmanPrior(max_depth=3)),
        "trivial": lambda: pt.TreeModel(
            *table(40, 2, 8), split_prior=pt.LocalCuts(trivial=True), tree_prior=pt.ChipmanPrior(max_depth=6)
        ),
    }
)


@pytest.mark.parametrize("name", MODELS)
def test_estimates_agree_with_the_graph(name, monkeypatch):
    monkeypatch.setattr(sizes, "FEW_BOXES", 1)
    estimate, graph = size_of(MODELS[name]), exact.build_graph(MODELS[name])
    assert estimate.cells == pytest.approx(graph.n_cells, rel=0.05 + 4.0 * estimate.error)
    assert estimate.least_cells < 1.1 * graph.n_cells
    assert estimate.error < 0.3


@pytest.mark.parametrize("name", ["ties", "four columns"])
def test_estimated_memory(name, monkeypatch):
    """Within a factor of three of what is allocated, arrays that exist at any size taken off."""
    monkeypatch.setattr(sizes, "FEW_BOXES", 1)
    model = pt.TreeModel(*table(120, 3, 8)) if name == "ties" else pt.TreeModel(*table(100, 4, 4))
    exact.solve(model)
    tracemalloc.start()
    exact.solve(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    estimate = size_of(model)
    assert peak / 3.0 < estimate.n_bytes < 3.0 * peak


def test_too_many_cells_are_refused_before_anything_is_built(monkeypatch):
    """Without ties in three columns: far more than two of the columns make, which alone would be allowed."""
    monkeypatch.setattr(building.Building, "build_all", lambda *_: pytest.fail("the graph is built"))
    with pytest.raises(
        exact.Intractable, match=r"It has at least about \d.* cells .*, .*B, .* of processor time\."
    ) as refusal:
        exact.solve(pt.TreeModel(*table(200, 3)))
    assert refusal.value.needed > 1e8
    assert refusal.value.estimate in str(pickle.loads(pickle.dumps(refusal.value)))


def test_too_much_memory_is_refused(monkeypatch):
    model = pt.TreeModel(*table(60, 3, 5))
    monkeypatch.setattr(sizes, "FEW_BOXES", 1)
    monkeypatch.setattr(intractable, "available_bytes", lambda: 200_000)
    with pytest.raises(exact.Intractable, match="bytes allowed"):
        exact.solve(model)
    monkeypatch.setattr(intractable, "available_bytes", lambda: 20_000_000)
    assert exact.solve(model).graph.n_cells > 1_000


def test_weights_and_smallest_leaves_are_never_refused_by_an_estimate(monkeypatch):
    """There are fewer cells than boxes."""
    monkeypatch.setattr(sizes, "FEW_BOXES", 1)
    model = pt.TreeModel(*table(40, 3, 5), split_prior=pt.LocalCuts(min_leaf=15))
    n_cells = exact.build_graph(model).n_cells
    assert size_of(model, n_cells) is None or size_of(model, n_cells).cells > n_cells
    assert exact.solve(model, max_cells=n_cells).graph.n_cells == n_cells


def test_a_bar_is_shown_if_it_takes_long(monkeypatch, capsys):
    model = pt.TreeModel(*table(60, 3, 5))
    exact.solve(model)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "DELAY", 1e-9)
    exact.solve(model)
    err = capsys.readouterr().err
    assert "building" in err and "summing" in err
    exact.solve(model, progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="progress"):
        exact.solve(model, progress="yes")


class Stopping:
    """A bar at which Ctrl-C is pressed."""

    def __init__(self, after):
        self.left = after

    def add(self, n):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def show(self, total, text):
        pass


def stop_at(monkeypatch, name, after):
    """Press Ctrl-C in a stage with this name."""
    right = progress.stage

    def stage(is_shown, called, *how):
        return right(is_shown, called, *how) if called != name else MemoryUse(Stopping(after))

    monkeypatch.setattr(building, "stage", stage)
    monkeypatch.setattr(exact.posterior, "stage", stage)


class MemoryUse:
    def __init__(self, bar):
        self.bar = bar

    def __enter__(self):
        return self.bar

    def __exit__(self, *_):
        return False


@pytest.mark.parametrize(("name", "after"), [("building", 0), ("building", 2), ("summing", 0)])
def test_what_was_built_before_ctrl_c_is_used_again(monkeypatch, name, after):
    model, other = pt.TreeModel(*table(60, 3, 5)), pt.TreeModel(*table(30, 2, 4))
    expected, n_calls = exact.solve(model), []
    monkeypatch.setattr(building, "FIRST_BUDGET", 1 << 10)
    monkeypatch.setattr(building, "next_size", lambda size, seconds: size)
    with monkeypatch.context() as patched:
        stop_at(patched, name, after)
        with pytest.raises(KeyboardInterrupt):
            exact.solve(model)
    assert building._interrupted[0][0] is model
    build = building._builder.build_cells
    monkeypatch.setattr(building._builder, "build_cells", lambda *how: n_calls.append(how) or build(*how))
    truth = exact.solve(model)
    assert building._interrupted == []
    assert truth.log_evidence == pytest.approx(expected.log_evidence, rel=1e-13)
    assert truth.graph.n_cells == expected.graph.n_cells
    resumed = len(n_calls)
    exact.solve(model)
    assert resumed < len(n_calls) - resumed
    with monkeypatch.context() as patched:
        stop_at(patched, name, after)
        with pytest.raises(KeyboardInterrupt):
            exact.solve(model)
    exact.solve(other)
    assert building._interrupted == []
