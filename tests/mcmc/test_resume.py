"""A chain that stopped goes on as if it had not: every draw, and its state to the last bit."""

from itertools import product

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import snapshot as _snapshot
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run.task import Plan, Run
from tests.problems.runs import EVERY_MOVE, MODELS, X, assert_equal, assert_same, draw


def resumed(post, draws):
    return pt.resume(post, draws, progress=False)


@pytest.mark.more(everyday=["default-classes", "every move-fractions of classes"])
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("kernel", ["default", "every move"])
def test_resumed_is_uninterrupted(name, kernel):
    kernel = EVERY_MOVE if kernel == "every move" else kernel
    whole = draw(name, 30, kernel=kernel)
    assert_same(resumed(draw(name, 7, kernel=kernel), 23), whole)
    assert whole.n_distinct_trees > 3


@pytest.mark.more(everyday=["grown-cgm"])
@pytest.mark.parametrize("kernel", ["cgm", "grow-prune", "blanchard", {"change": 1.0, "grow-prune": 2.0}])
@pytest.mark.parametrize("start", ["grown", "prior"])
def test_kernels_that_keep_little(kernel, start):
    """Whether a chain keeps cells depends on its start too."""
    whole = draw("numbers", 20, kernel=kernel, start=start, thin=3)
    assert_same(resumed(draw("numbers", 11, kernel=kernel, start=start, thin=3), 9), whole)


LADDERS = {"four": 4, "three given": [1.0, 0.6, 0.0]}
RUNS = list(product(["classes", "numbers", "shared variance", "penalty"], LADDERS))


@pytest.mark.more(everyday=["classes-four"])
@pytest.mark.parametrize(("name", "ladder"), RUNS)
def test_ladders(name, ladder):
    """Levels, exchanges, round trips and the evidence too."""
    betas = LADDERS[ladder]
    whole = draw(name, 20, betas=betas, tune=16)
    half = resumed(draw(name, 5, betas=betas, tune=16), 4)
    assert_same(resumed(half, 11), whole)
    assert half.tempering.scores.shape == (2, 9, len(whole.tempering.betas[0]))


@pytest.mark.more(everyday=["PCG64"])
@pytest.mark.parametrize("bits", _snapshot.BIT_GENERATORS)
def test_generators(bits):
    def sources():
        return [np.random.Generator(getattr(np.random, bits)(seed)) for seed in (1, 2)]

    assert_same(resumed(draw(draws=4, rng=sources()), 6), draw(draws=10, rng=sources()))


def test_trees_as_large_as_they_get():
    """More nodes than a chain has room for at first."""
    rng = np.random.default_rng(1)
    x = rng.random((400, 1))
    model = pt.TreeModel(x, rng.random(400) < 0.5, tree_prior=pt.ChipmanPrior(0.99, 0.0), leaf=pt.PacBayesLoss(0.0))
    whole = pt.sample(model, 20, tune=5, chains=1, rng=1, kernel="grow-prune", progress=False)
    half = pt.sample(model, 10, tune=5, chains=1, rng=1, kernel="grow-prune", progress=False)
    assert len(half.course.ends[0].replicas[0].state[1]) > 64
    assert_same(resumed(half, 10), whole)


def runs_apart(name, betas=None, kernel=EVERY_MOVE, draws=12):
    """A run of many draws, and one of few that is then followed by a run from where it stopped."""
    plan = Plan(MODELS[name], draws, 5, 1, read_kernel(kernel), 9, "prior", betas)
    whole, first = Run(plan).advance(5).advance(draws), Run(plan._replace(draws=4)).advance(5).advance(4)
    return plan, whole.result, first.result


@pytest.mark.more(everyday=["None-fractions of classes"])
@pytest.mark.parametrize("name", ["fractions of classes", "numbers", "shared variance"])
@pytest.mark.parametrize("betas", [None, 3])
def test_what_is_kept_of_cells_is_resumed(name, betas):
    """With fractions a table computed anew may differ in its last bit, so it is kept."""
    plan, whole, first = runs_apart(name, betas)
    then = Run(plan._replace(draws=8), first.end).advance(8).result
    assert_equal(then.end, whole.end)
    assert all(len(replica.cells.place) > 10 for replica in whole.end.replicas)


def test_whole_numbers_need_no_cells():
    """Sums of whole numbers are the same in any order: nothing is kept, and nothing changes."""
    plan, whole, first = runs_apart("classes")
    assert all(len(replica.cells.place) == 0 for replica in first.end.replicas)
    then = Run(plan._replace(draws=8), first.end).advance(8).result
    assert_equal(in_order(then.end), in_order(whole.end))


def in_order(end):
    """The same with the units of each leaf sorted: scans of cells kept elsewhere leave them in another order."""
    return with_leaves(end, np.sort)


def with_leaves(end, arranged):
    """The same with the units of each leaf arranged otherwise; it stays a state that a chain can be in."""
    order, node, *others = (np.array(array) for array in end.replicas[0].state)
    todo = [0]
    while todo:
        here = node[todo.pop()]
        if here["left"] >= 0:
            todo += [here["left"], here["right"]]
        else:
            order[here["start"] : here["stop"]] = arranged(order[here["start"] : here["stop"]])
    return with_replica(end, state=(order, node, *others))


@pytest.mark.parametrize("name", ["fractions of classes", "numbers", "shared variance"])
def test_what_the_density_says_of_cells_is_resumed(name):
    plan, whole, first = runs_apart(name, kernel={"learned": 0.5, "informed-change": 0.1, "collapsed": 0.4})
    then = Run(plan._replace(draws=8), first.end).advance(8).result
    assert_equal(then.end, whole.end)
    assert len(whole.end.replicas[0].cells.guided) > 10
    forgotten = Run(plan._replace(draws=8), without_guides(first.end)).advance(8).result
    with pytest.raises(AssertionError, match="guide"):
        assert_equal(forgotten.end, whole.end)


def without_guides(end):
    cells = end.replicas[0].cells
    names = ("guided", "guide", "fractions", "own")
    none = cells._replace(**{name: getattr(cells, name)[:0] for name in names})
    return with_replica(end, cells=none)


def without_cells(end):
    cells = end.replicas[0].cells
    none = cells._replace(place=cells.place[:0], cell=cells.cell[:0], ways=cells.ways[:0], table=cells.table[:0])
    return end._replace(replicas=(end.replicas[0]._replace(cells=none), *end.replicas[1:]))


def with_replica(end, **changed):
    return end._replace(replicas=(end.replicas[0]._replace(**changed), *end.replicas[1:]))


def rows_turned_round(end):
    return with_leaves(end, lambda units: units[::-1].copy())


PLANTED = {
    "cells": ("numbers", None, without_cells),
    "the number of blocks": ("numbers", None, lambda end: with_replica(end, blocks=0)),
    "the generator": (
        "numbers",
        None,
        lambda end: end._replace(generator=_snapshot.generator_state(np.random.default_rng(8))),
    ),
    "the order of rows": ("numbers", None, rows_turned_round),
    "which pairs exchange": ("numbers", 3, lambda end: end._replace(rungs=end.rungs._replace(odd=not end.rungs.odd))),
    "the ladder": (
        "numbers",
        3,
        lambda end: end._replace(rungs=end.rungs._replace(betas=end.rungs.betas ** np.array([1.0, 1.1, 1.0]))),
    ),
    "the guess of the variance": (
        "shared variance",
        None,
        lambda end: with_replica(end, noise=(end.replicas[0].noise[0], end.replicas[0].noise[0])),
    ),
    "the variance": (
        "shared variance",
        None,
        lambda end: with_replica(end, noise=(end.replicas[0].noise[1], end.replicas[0].noise[1])),
    ),
}


@pytest.mark.more(everyday=["cells"])
@pytest.mark.planted
@pytest.mark.parametrize("what", list(PLANTED))
def test_what_is_forgotten_shows(what):
    """Each part of a snapshot is needed: without it the chain is another one."""
    name, betas, spoil = PLANTED[what]
    # steps that scan a cell bring its rows into an order of their own, so that later nothing may be left to be seen
    more = 1 if what == "the order of rows" else 8
    plan, whole, first = runs_apart(name, betas, draws=4 + more)
    then = Run(plan._replace(draws=more), spoil(first.end)).advance(more).result
    with pytest.raises(AssertionError):
        assert_equal(then.end, whole.end)


def test_independent_draws_are_refused():
    post = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0]], [0, 1, 1])).sample(10, rng=1)
    with pytest.raises(ValueError, match="independent draws"):
        pt.resume(post, 5)


@pytest.mark.more(everyday=["-1"])
@pytest.mark.parametrize("draws", [0, -1, 2.5, True, None])
def test_draws_out_of_range(draws):
    with pytest.raises(ValueError, match="draws="):
        pt.resume(draw(draws=2), draws)


def test_what_is_no_run():
    with pytest.raises(TypeError, match="run is a list"):
        pt.resume([draw(draws=2)], 5)


def test_resuming_leaves_the_posterior_as_it_was():
    post = draw(draws=5)
    before, said = post.predict(X), repr(post)
    assert_same(resumed(post, 3), resumed(post, 3))
    assert np.array_equal(post.predict(X), before)
    assert repr(post) == said


def test_the_time_spent_before_counts():
    post = draw("numbers", 5, kernel="grow-prune")
    post.seconds = 1000.0
    assert 1000.0 < resumed(post, 3).seconds < 1500.0


def ladder_run(draws, tune=6):
    """A chain at three powers close to each other, tuned."""
    plan = Plan(MODELS["numbers"], draws, tune, 1, read_kernel("grow-prune", 20), 7, "stump", [1.0, 0.9, 0.8])
    run = Run(plan)
    while run.tuned < tune:
        run.advance(1)
    return run


def test_exchanges_and_round_trips_are_counted_after_tuning():
    """Followed by itself, a replica makes a trip when it comes to the first level having been at the last."""
    ladder = ladder_run(60).chain
    assert ladder.n_proposed.sum() == ladder.acceptance.sum() == ladder.n_round_trips == 0
    been, trips = {ladder.replicas[-1]}, 0
    for _ in range(60):
        ladder.run_blocks(1)
        ladder.save()
        if ladder.replicas[0] in been:
            been.remove(ladder.replicas[0])
            trips += 1
        been.add(ladder.replicas[-1])
    assert ladder.n_proposed.tolist() == [30, 30]
    assert ladder.report.round_trips == trips > 3


def test_round_trips_go_on():
    how = {"kernel": "grow-prune", "betas": [1.0, 0.9]}
    half, whole = draw("numbers", 12, **how), draw("numbers", 30, **how)
    assert 0 < half.tempering.round_trips.min() < whole.tempering.round_trips.min()
    assert_same(resumed(half, 18), whole)


def test_a_shortened_ladder_is_shortened_in_all_it_holds():
    run = ladder_run(5)
    while not run.is_finished:
        run.advance(1)
    short = run.result.first_draws(2)
    assert short.n_draws == len(short.ladder.scores) == len(short.ladder.is_stump) == 2


@pytest.mark.more
def test_warnings_name_the_line_of_the_caller(tmp_path):
    post = draw("classes", 7)
    post.save(tmp_path / "run.nc")
    for run in (post, tmp_path / "run.nc"):
        with pytest.warns(pt.ConvergenceWarning) as caught:
            pt.resume(run, 3, progress=False)
        assert {one.filename for one in caught} == {__file__}
