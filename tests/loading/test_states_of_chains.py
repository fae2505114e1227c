"""The part of a file from which only `resume` goes on: wrong shapes and dtypes are refused."""

import numpy as np
import pytest

import pactree_mcmc as pt
from tests.problems.runs import draw

KERNEL = {"learned": 0.5, "collapsed": 0.5}


@pytest.fixture(scope="module")
def post():
    return draw("shared variance", 5, kernel=KERNEL)


def refused(path, match):
    for read_file in (pt.load, pt.resume):
        with pytest.raises(ValueError, match=match) as caught:
            read_file(path)
        assert path.name in str(caught.value)


def with_replica(end, **changed):
    return end._replace(replicas=(end.replicas[0]._replace(**changed), *end.replicas[1:]))


def with_array(name, change):
    """A change of one array of the state."""

    def changed(end):
        state = list(end.replicas[0].state)
        names = ("order", "node", "stats", "box", "count", "beta", "moves", "density")
        state[names.index(name)] = change(state[names.index(name)])
        return with_replica(end, state=tuple(state))

    return changed


def with_group(field, name, change):
    """A change of one array of the stored cells or of the graph."""

    def changed(end):
        group = getattr(end.replicas[0], field)
        return with_replica(end, **{field: group._replace(**{name: change(getattr(group, name))})})

    return changed


def shorter(array):
    return array[:-1].copy()


def wider(array):
    return np.repeat(array, 2, axis=-1)


def as_doubles(array):
    return array.astype(np.float64)


WRONG = {
    "units left out": (with_array("order", shorter), "order of a chain has shape"),
    "units of another dtype": (with_array("order", as_doubles), "order of a chain has dtype float64"),
    "nodes left out": (with_array("node", shorter), "stats of a chain has shape"),
    "statistics": (with_array("stats", wider), "stats of a chain has shape"),
    "boxes": (with_array("box", lambda array: array[..., :1].copy()), "box of a chain has shape"),
    "counts": (with_array("count", shorter), "count of a chain has shape"),
    "power": (with_array("beta", lambda array: array.astype(np.float32)), "beta of a chain has dtype float32"),
    "counts of moves": (with_array("moves", wider), "moves of a chain has shape"),
    "density": (with_array("density", shorter), "density of a chain has shape"),
    "stored cells": (with_group("cells", "place", shorter), r"cells\.cell has shape"),
    "stored values": (with_group("cells", "ways", wider), r"cells\.table has shape"),
    "places": (with_group("cells", "place", as_doubles), r"cells\.place has dtype float64"),
    "records": (with_group("graph", "piece", lambda array: np.zeros(len(array))), r"graph\.piece has dtype float64"),
    "slots": (with_group("graph", "slot", lambda array: array.astype(np.int64)), r"graph\.slot has dtype int64"),
    "use of the graph": (with_group("graph", "used", shorter), r"graph\.used has shape"),
    "variance": (lambda end: with_replica(end, noise=(np.ones(1), np.ones(1))), r"noise\[0\] has shape"),
    "no variance": (lambda end: with_replica(end, noise=None), "of another model"),
    "a number": (lambda end: end._replace(tuned=1.5), "tuned is a float"),
    "a generator": (lambda end: end._replace(generator=3), "generator is a int"),
    "a chain": (lambda end: end._replace(replicas=()), "a ladder has other levels"),
}


@pytest.mark.more(everyday=["units left out", "units of another dtype"])
@pytest.mark.parametrize("what", list(WRONG))
def test_wrong_shapes_and_dtypes_are_refused(what, post, tmp_path):
    """Even if the digest fits."""
    change, match = WRONG[what]
    course, path = post.course, tmp_path / "run.nc"
    post.course = course._replace(ends=(change(course.ends[0]), *course.ends[1:]))
    try:
        post.save(path)
    finally:
        post.course = course
    refused(path, f"cannot be used: .*{match}")


def test_a_checkpoint_is_checked_in_the_same_way(post, tmp_path):
    """Check states of chains by shape and dtype, and draws in full."""
    from pactree_mcmc.mcmc.resuming import _result_of_chain
    from pactree_mcmc.mcmc.run.checkpoint import Unfinished, write_unfinished
    from pactree_mcmc.mcmc.run.task import Plan

    def write(saved=None, end=None):
        results = [_result_of_chain(post, c) for c in range(post.n_chains)]
        results[0] = results[0]._replace(**{k: v for k, v in {"saved": saved, "end": end}.items() if v is not None})
        plans = tuple(Plan(None, 9, 6, 1, post.course.kernel, 3, "stump") for _ in results)
        write_unfinished(Unfinished(plans, tuple(results), 60.0, 1.0), post.model, tmp_path / "run.nc")

    good = _result_of_chain(post, 0)
    write()
    assert pt.resume(tmp_path / "run.nc", progress=False, checkpoint=tmp_path / "next.nc").n_draws == 9
    write(end=WRONG["density"][0](good.end))
    refused(tmp_path / "run.nc", "cannot be used: density of a chain has shape")
    node = good.saved.node.copy()
    node["right"][0] = 1000
    write(saved=good.saved._replace(node=node))
    refused(tmp_path / "run.nc", "cannot be used: its trees are not trees over 3 features")
    write(saved=good.saved._replace(tree_of_draw=good.saved.tree_of_draw + 1))
    refused(tmp_path / "run.nc", "cannot be used: a tree is in no draw")
