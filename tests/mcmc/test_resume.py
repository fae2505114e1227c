"""A chain that stopped goes on as if it had not: every draw, and its state to the last bit."""

from itertools import product

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import rest as _rest
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run import run_chain as _run_chain
from pactree_mcmc.mcmc.run.run_chain import draw as make_draws
from pactree_mcmc.mcmc.run.run_chain import tune
from tests.problems.runs import EVERY_MOVE, MODELS, X, assert_equal, assert_same, chain_at, done, draw, request_of


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
    assert half.draws.tempering.scores.shape == (2, 9, len(whole.draws.tempering.betas[0]))


@pytest.mark.more(everyday=["PCG64"])
@pytest.mark.parametrize("bits", _rest.BIT_GENERATORS)
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
    assert len(resumed(half, 1).course.rests[0].replicas[0].state[1]) > 64
    assert_same(resumed(half, 10), whole)


def chains_apart(name, betas=None, kernel=EVERY_MOVE, draws=12, spoil=lambda rest: rest):
    """Rests at the end of a chain of many draws, and of one that was restored after four draws, from a rest behind the
    third one.
    """
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


def rows_turned_round(rest):
    return with_leaves(rest, lambda units: units[::-1].copy())


PLANTED = {
    "the number of blocks": ("numbers", None, lambda rest: with_replica(rest, blocks=0)),
    "the generator": (
        "numbers",
        None,
        lambda rest: rest._replace(generator=_rest.generator_state(np.random.default_rng(8))),
    ),
    "the order of rows": ("numbers", None, rows_turned_round),
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


@pytest.mark.more(everyday=["the steps since"])
@pytest.mark.planted
@pytest.mark.parametrize("what", list(PLANTED))
def test_what_is_forgotten_shows(what):
    """Each part of a rest is needed: without it the chain is another one."""
    name, betas, spoil = PLANTED[what]
    # steps that scan a cell bring its rows into an order of their own, so that later nothing may be left to be seen
    one, other = chains_apart(name, betas, draws=5 if what == "the order of rows" else 12, spoil=spoil)
    with pytest.raises(AssertionError):
        assert_equal(one, other)


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
    assert ladder.n_proposed.tolist() == [30, 30]
    assert chain.rungs.trips == trips > 3


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
