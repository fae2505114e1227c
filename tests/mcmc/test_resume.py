"""A chain that stopped goes on as if it had not, from a posterior or a checkpoint: every draw, to the last bit."""

import os
import signal
import subprocess
import time
from itertools import product

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_run
from pactree_mcmc.mcmc.chain import rest as _rest
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run import loop as _loop
from pactree_mcmc.mcmc.run import run_chain as _run_chain
from pactree_mcmc.mcmc.run.run_chain import draw as make_draws
from pactree_mcmc.mcmc.run.run_chain import tune
from tests import ROOT
from tests.problems.refusals import refuses
from tests.problems.runs import (
    EVERY_MOVE,
    LABELS,
    MODELS,
    X,
    assert_equal,
    assert_same,
    chain_at,
    course_of,
    done,
    draw,
    made_in,
    request_of,
)
from tests.programs import command

LADDERS = {"four": 4, "three given": [1.0, 0.6, 0.0]}
RUNS = list(product(["classes", "numbers", "shared variance", "penalty"], LADDERS))
PLANTED = {
    "the number of blocks": ("numbers", None, lambda rest: with_replica(rest, blocks=0)),
    "the generator": (
        "numbers",
        None,
        lambda rest: rest._replace(generator=_rest.generator_state(np.random.default_rng(8))),
    ),
    "the order of rows": ("numbers", None, lambda rest: with_leaves(rest, lambda units: units[::-1].copy())),
    "the steps since": ("numbers", None, lambda rest: rest._replace(steps=4)),
    "which pairs exchange": (
        "numbers",
        3,
        lambda rest: rest._replace(rungs=rest.rungs._replace(odd=not rest.rungs.odd)),
    ),
    "the ladder": (
        "numbers",
        3,
        lambda rest: rest._replace(rungs=rest.rungs._replace(betas=rest.rungs.betas ** np.array([1.0, 1.1, 1.0]))),
    ),
    "the guess of the variance": (
        "shared variance",
        None,
        lambda rest: with_replica(rest, noise=(rest.replicas[0].noise[0], rest.replicas[0].noise[0])),
    ),
    "the variance": (
        "shared variance",
        None,
        lambda rest: with_replica(rest, noise=(2.0 * rest.replicas[0].noise[0], rest.replicas[0].noise[1])),
    ),
}


def resumed(post, draws):
    return pt.resume(post, draws, progress=False)


@pytest.mark.more(everyday=["default-classes", "every move-fractions of classes"])
@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("kernel", ["default", "every move"])
def test_resumed_is_uninterrupted(name, kernel):
    kernel = EVERY_MOVE if kernel == "every move" else kernel
    whole = draw(name, 30, kernel=kernel)
    assert_same(resumed(draw(name, 7, kernel=kernel), 23), whole)
    assert whole.draws.n_distinct_trees > 3


@pytest.mark.more(everyday=["grown-cgm"])
@pytest.mark.parametrize("kernel", ["cgm", "grow-prune", "blanchard", {"change": 1.0, "grow-prune": 2.0}])
@pytest.mark.parametrize("start", ["grown", "prior"])
def test_kernels_that_keep_little(kernel, start):
    """Whether a chain keeps cells depends on its start too."""
    whole = draw("numbers", 20, kernel=kernel, start=start, thin=3)
    assert_same(resumed(draw("numbers", 11, kernel=kernel, start=start, thin=3), 9), whole)


@pytest.mark.more(everyday=["classes-four"])
@pytest.mark.parametrize(("name", "ladder"), RUNS)
def test_ladders(name, ladder):
    betas = LADDERS[ladder]
    whole = draw(name, 20, betas=betas, tune=16)
    half = resumed(draw(name, 5, betas=betas, tune=16), 4)
    assert_same(resumed(half, 11), whole)
    assert half.draws.tempering.scores.shape == (2, 9, len(whole.draws.tempering.betas[0]))


@pytest.mark.more(everyday=["PCG64"])
@pytest.mark.parametrize("bits", _rest.BIT_GENERATORS)
def test_generators(bits):
    def sources():
        return [np.random.Generator(getattr(np.random, bits)(seed)) for seed in (1, 2)]

    assert_same(resumed(draw(draws=4, rng=sources()), 6), draw(draws=10, rng=sources()))


def test_trees_as_large_as_they_get():
    rng = np.random.default_rng(1)
    x = rng.random((400, 1))
    model = pt.TreeModel(x, rng.random(400) < 0.5, tree_prior=pt.ChipmanPrior(0.99, 0.0), leaf=pt.PacBayesLoss(0.0))
    whole = pt.sample(model, 20, tune=5, chains=1, rng=1, kernel="grow-prune", progress=False)
    half = pt.sample(model, 10, tune=5, chains=1, rng=1, kernel="grow-prune", progress=False)
    assert len(resumed(half, 1).course.rests[0].replicas[0].state[1]) > 64
    assert_same(resumed(half, 10), whole)


def chains_apart(name, betas=None, kernel=EVERY_MOVE, draws=12, spoil=lambda rest: rest):
    """Rests at the end of a chain of many draws, and of one restored after four draws from a rest behind the third."""
    request, out = request_of(MODELS[name], read_kernel(kernel), "prior", betas), []
    for is_restored in (False, True):
        chain, tuned = chain_at(request, 9)
        done(tune(chain, tuned, 5, 5))
        done(make_draws(chain, tuned, 3, 1, True))
        done(make_draws(chain, tuned, 1, 1, False))
        if is_restored:
            chain, tuned = chain_at(request, None, spoil(chain.rest), chain.steps)
        done(make_draws(chain, tuned, draws - 4, 1, True))
        out.append(chain.rest)
    return out


@pytest.mark.more(everyday=["None-fractions of classes"])
@pytest.mark.parametrize("name", ["classes", "fractions of classes", "numbers", "shared variance"])
@pytest.mark.parametrize("betas", [None, 3])
def test_a_restored_chain_goes_on_to_the_last_bit(name, betas):
    """Also behind its rest: it makes the steps from there again."""
    one, other = chains_apart(name, betas)
    assert_equal(one, other)
    assert one.steps == 12


@pytest.mark.parametrize("name", ["fractions of classes", "numbers", "shared variance"])
def test_what_the_density_says_of_cells_is_computed_again(name):
    one, other = chains_apart(name, kernel={"learned": 0.5, "informed-change": 0.1, "collapsed": 0.4})
    assert_equal(one, other)


def test_a_rest_leaves_no_stored_value():
    chain, tuned = chain_at(request_of(MODELS["numbers"], read_kernel({"learned": 0.5, "collapsed": 0.5})), 1)
    done(tune(chain, tuned, 5, 5))
    stored = chain.sampler.state.stored
    hashes = stored.cell.hash, stored.cell.scan, stored.guide.hash
    assert all((one == -1).all() for one in hashes)
    done(make_draws(chain, tuned, 3, 1, False))
    assert (stored.cell.scan != -1).sum() > 10 and (stored.guide.hash != -1).sum() > 10


@pytest.mark.parametrize("name", ["classes", "numbers", "shared variance"])
def test_rests_are_places_of_the_chain(name, monkeypatch):
    """After so many rows: a checkpoint or a resumed run takes no other one."""
    monkeypatch.setattr(_run_chain, "REST_ROWS", 150_000)
    whole = draw(name, 30, kernel=EVERY_MOVE)
    assert all(0 < rest.steps < 30 for rest in whole.course.rests)
    for n in (3, 11, 22):
        assert_same(resumed(draw(name, n, kernel=EVERY_MOVE), 30 - n), whole)


def with_replica(rest, **changed):
    return rest._replace(replicas=(rest.replicas[0]._replace(**changed), *rest.replicas[1:]))


def with_leaves(rest, arranged):
    """The same with the units of each leaf arranged otherwise; it stays a state that a chain can be in."""
    order, node, *others = (np.array(array) for array in rest.replicas[0].state)
    todo = [0]
    while todo:
        here = node[todo.pop()]
        if here["left"] >= 0:
            todo += [here["left"], here["right"]]
        else:
            order[here["start"] : here["stop"]] = arranged(order[here["start"] : here["stop"]])
    return with_replica(rest, state=(order, node, *others))


@pytest.mark.more(everyday=["the steps since"])
@pytest.mark.planted
@pytest.mark.parametrize("what", list(PLANTED))
def test_what_is_forgotten_shows(what):
    name, betas, spoil = PLANTED[what]
    # steps that scan a cell bring its rows into an order of their own, so that later nothing may be left to be seen
    one, other = chains_apart(name, betas, draws=5 if what == "the order of rows" else 12, spoil=spoil)
    with pytest.raises(AssertionError):
        assert_equal(one, other)


def test_independent_draws_are_refused():
    post = exact.solve(pt.TreeModel([[0.0], [1.0], [2.0]], [0, 1, 1])).sample(10, rng=1)
    refuses("independent draws", lambda: pt.resume(post, 5))


@pytest.mark.more(everyday=["-1"])
@pytest.mark.parametrize("draws", [0, -1, 2.5, True, None])
def test_draws_out_of_range(draws):
    refuses("draws=", lambda: pt.resume(draw(draws=2), draws))


def test_what_is_no_run():
    refuses("run is a list", lambda: pt.resume([draw(draws=2)], 5), TypeError)


def test_resuming_leaves_the_posterior_as_it_was():
    post = draw(draws=5)
    before, said = post.predict(X), repr(post)
    assert_same(resumed(post, 3), resumed(post, 3))
    assert np.array_equal(post.predict(X), before) and repr(post) == said


def test_the_time_spent_before_counts():
    post = draw("numbers", 5, kernel="grow-prune")
    post.draws.seconds = 1000.0
    assert 1000.0 < resumed(post, 3).draws.seconds < 1500.0


def test_exchanges_and_round_trips_are_counted_after_tuning():
    """Followed by itself, a replica makes a trip when it comes to the first level having been at the last."""
    request = request_of(MODELS["numbers"], read_kernel("grow-prune", 20), "stump", (1.0, 0.9, 0.8))
    chain, tuned = chain_at(request, 7)
    done(tune(chain, tuned, 6, 6))
    ladder = chain.sampler
    assert ladder.n_proposed.sum() == ladder.acceptance.sum() == ladder.n_round_trips == 0
    been, trips = {ladder.replicas[-1]}, 0
    ladder.reserve(60)
    for _ in range(60):
        ladder.run_blocks(1)
        ladder.save()
        if ladder.replicas[0] in been:
            been.remove(ladder.replicas[0])
            trips += 1
        been.add(ladder.replicas[-1])
    assert ladder.n_proposed.tolist() == [30, 30] and chain.rungs.trips == trips > 3


def test_round_trips_go_on():
    how = {"kernel": "grow-prune", "betas": [1.0, 0.9]}
    half, whole = draw("numbers", 12, **how), draw("numbers", 30, **how)
    assert 0 < half.draws.tempering.round_trips.min() < whole.draws.tempering.round_trips.min()
    assert_same(resumed(half, 18), whole)


@pytest.mark.more
def test_warnings_name_the_line_of_the_caller(tmp_path):
    post = draw("classes", 7)
    post.save(tmp_path / "run.nc")
    for run in (post, tmp_path / "run.nc"):
        with pytest.warns(pt.ConvergenceWarning) as caught:
            pt.resume(run, 3, progress=False)
        assert {one.filename for one in caught} == {__file__}


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("classes", {}),
        ("shared variance", {"betas": 2}),
        ("numbers", {"start": "grown", "rng": [1, np.random.Generator(np.random.MT19937(2))], "thin": 2}),
    ],
)
def test_every_checkpoint_leads_to_the_same_draws(name, rest, copies, tmp_path):
    """From before the first proposal, from after tuning, from among the draws."""
    path = tmp_path / "run.nc"
    whole = draw(name, 4, tune=1, checkpoint=path, every=1e-6, **rest)
    assert_same(pt.load(path), whole)
    if "rng" not in rest:
        assert_same(whole, draw(name, 4, tune=1, **rest))
    assert [made_in(copy) for copy in copies] == [(0, 0), (0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    for copy in copies[:4]:
        assert_same(pt.resume(copy, progress=False), whole)
    assert_same(pt.load(copy), whole)


@pytest.mark.more
def test_checkpoint_is_readable_on_the_way(copies, tmp_path):
    whole = draw("classes", 6, tune=1, checkpoint=tmp_path / "run.nc", every=1e-6)
    on_the_way = next(copy for copy in copies if min(made_in(copy)) > 2)
    with pytest.warns(UserWarning, match=r"run on its way: \d+ of 6 draws a chain; pt.resume"):
        some = pt.load(on_the_way)
    assert 2 < some.n_draws < 6
    same = some.log_score == whole.log_score[:, : some.n_draws]
    assert same.all()
    refuses("before every chain had a draw", lambda: pt.load(copies[0]))
    refuses("leave draws out", lambda: pt.resume(on_the_way, 5))


@pytest.mark.more
def test_a_resumed_posterior_writes_checkpoints_too(copies, tmp_path):
    half, whole = draw("numbers", 5), draw("numbers", 12)
    again = pt.resume(half, 7, checkpoint=tmp_path / "more.nc", every=1e-6, progress=False)
    assert_same(again, whole)
    assert len(copies) > 3
    assert_same(pt.resume(copies[1], checkpoint=tmp_path / "other.nc", progress=False), whole)
    assert_same(pt.resume(tmp_path / "other.nc"), whole)


@pytest.mark.more
def test_interrupted_run_goes_on(monkeypatch, tmp_path):
    """Ctrl-C returns what was drawn; the checkpoint has some of it, and the rest can be drawn."""
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    real, calls = _loop.wait, []

    def wait(*args, **kwargs):
        calls.append(1)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(_loop, "wait", wait)
    path = tmp_path / "run.nc"
    with pytest.warns(UserWarning, match="interrupted"):
        cut = draw("classes", 40, checkpoint=path, every=1e-6)
    assert 0 < made_in(path)[0] <= cut.n_draws and cut.n_draws < 40
    assert_same(pt.resume(path, progress=False), draw("classes", 40))


def test_what_is_there_is_not_overwritten(tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(b"precious")
    refuses(r"exists already; pt.resume", lambda: draw(draws=2, checkpoint=path))
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("every", [0.0, float("nan"), "1"])
def test_interval_out_of_range(every, tmp_path):
    refuses("every=", lambda: draw(draws=2, checkpoint=tmp_path / "run.nc", every=every))


@pytest.mark.parametrize("name", ["run.csv", "nowhere/run.nc"])
def test_unusable_checkpoints(name, tmp_path):
    with pytest.raises(ValueError, match=r"give a path that ends in .nc|does not exist; create it"):
        draw(draws=2, checkpoint=tmp_path / name)


def test_a_model_no_file_can_hold_is_refused_before_sampling(tmp_path):
    class Mine(pt.DirichletMultinomial):
        pass

    model = pt.TreeModel(X, LABELS, leaf=Mine())
    refuses("is a Mine", lambda: pt.sample(model, 10**9, checkpoint=tmp_path / "run.nc"))
    assert list(tmp_path.iterdir()) == []


def test_killed_run_is_finished(tmp_path):
    """SIGKILL in the middle; nothing half-written is left, and the draws are those of an uninterrupted run."""
    path = tmp_path / "run.nc"
    child = subprocess.Popen(command("drawn_until_killed", path), cwd=ROOT)
    try:
        least = 0
        while least < 10:
            assert child.poll() is None, "the child finished before it could be killed"
            time.sleep(0.1)
            least = min(made_in(path), default=0) if path.exists() else 0
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL and least < 800
    again = pt.resume(path, progress=False)
    assert_same(again, draw("numbers", 800, rng=9))
    assert_same(pt.load(path), again)
    assert [name for name in os.listdir(tmp_path) if name != "run.nc"] in ([], [".run.nc.part"])


def test_the_model_goes_into_the_file_once_more(tmp_path):
    """A checkpoint needs nothing but itself: rows, weights and categories are those of the model."""
    path = tmp_path / "run.nc"
    draw("fractions of classes", 3, checkpoint=path)
    assert pt.load(path).model.log_posterior(pt.Tree([-1], [0], [0], [0])) == MODELS[
        "fractions of classes"
    ].log_posterior(pt.Tree([-1], [0], [0], [0]))


@pytest.mark.more
def test_the_interval_and_the_time_spent_are_kept(copies, tmp_path):
    path = tmp_path / "run.nc"
    draw("classes", 4, tune=1, kernel="grow-prune", checkpoint=path, every=2e-6)
    n_before = len(copies)
    _, half, _ = load_run(copies[3])
    assert pt.resume(copies[3], progress=False).draws.seconds > half.draws.seconds > 0.0 and len(copies) > n_before
    assert all(course_of(copy).every == 2e-6 for copy in copies[n_before:])
