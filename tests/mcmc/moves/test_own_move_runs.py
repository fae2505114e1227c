"""Runs with a move of one's own: in kernels, in files, on executors."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.kernel import read_kernel
from tests.mcmc.moves.own_moves import (
    SETTINGS,
    X,
    another_cut,
    compiled,
    grow_or_prune,
    own_cut,
    own_growth,
    small_model,
)

# in kernels


@pytest.mark.more
@compiled
def test_posterior_of_a_kernel_with_own_moves():
    """Against the exact posterior, in a mixture of two moves of one's own alone."""
    model = small_model()
    kernel = {own_growth(): 0.7, own_cut(): 0.3}
    post = pt.sample(model, 4000, tune=200, chains=2, rng=5, proposals=20, kernel=kernel, progress=False)
    truth = exact.solve(model)
    assert post.draws.moves == ("half grow", "half prune", "another cut")
    assert np.abs(post.predict_proba(X) - truth.predict_proba(X)).max() < 0.02
    assert np.abs(post.n_leaves_pmf()[:5] - truth.n_leaves_pmf()[:5]).max() < 0.03
    # at a stump there is nothing to cut, and nothing is counted
    assert 0.25 * 160_000 < post.draws.proposed.sum(axis=(0, 1))[2] <= 0.3 * 160_000
    assert (post.draws.accepted.sum(axis=(0, 1)) > 100).all()


@pytest.mark.more
@compiled
def test_same_seed_same_draws_whatever_runs_the_chains():
    model, kernel = small_model(), {"grow-prune": 0.5, own_cut(): 0.5}
    one, other = (pt.sample(model, kernel=kernel, **SETTINGS) for _ in range(2))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        third = pt.sample(model, kernel=kernel, executor=executor, **SETTINGS)
    for post in (other, third):
        assert np.array_equal(one.draws.tree_of_draw, post.draws.tree_of_draw)
        assert np.array_equal(one.draws.accepted, post.draws.accepted)


@compiled
def test_another_move_changes_no_draw_of_the_others():
    """Counters belong to the kernel: a move of weight 0 leaves everything as it is."""
    model = small_model()
    one = pt.sample(model, kernel={"grow-prune": 1.0}, **SETTINGS)
    other = pt.sample(model, kernel={"grow-prune": 1.0, own_cut(): 0.0}, **SETTINGS)
    assert one.draws.moves == other.draws.moves == ("grow", "prune")
    assert np.array_equal(one.draws.tree_of_draw, other.draws.tree_of_draw)


def test_default_in_a_mixture():
    """The moves of the default share its weight as they do by themselves."""
    move = own_cut()
    kernel = read_kernel({"default": 0.9, move: 0.1})
    default_kernel = read_kernel("default")
    assert kernel.names == (*default_kernel.names, "another cut")
    assert np.allclose(kernel.weights[:-1], 0.9 * np.array(default_kernel.weights))
    assert kernel.weights[-1] == pytest.approx(0.1)
    assert kernel.own == (move,)
    assert kernel.count_names[-1] == "another cut"
    assert kernel.first_counts == [kernel.count_names.index(step.counts[0]) for step in kernel.move_objects]
    whole_kernel = read_kernel({"default": 0.9, move: 0.1}, default="whole", adapts=True)
    cost = np.vstack([np.ones(len(whole_kernel.names)), np.arange(1.0, 1 + len(whole_kernel.names))])
    tuned = whole_kernel.with_weights_by_cost(cost, 5000.0)
    assert tuned.names == whole_kernel.names
    assert sum(tuned.weights) == pytest.approx(1.0)
    assert tuned.own == (move,)
    # what moves of one's own weigh beside the local ones stays
    local = whole_kernel.names.index("rotate")
    assert tuned.weights[-1] / tuned.weights[local] == pytest.approx(whole_kernel.given[-1] / whole_kernel.given[local])


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: {pt.Move("swap", another_cut): 1.0}, "has the name 'swap'"),
        (lambda: {pt.Move("default", another_cut): 1.0}, "has the name 'default'"),
        (lambda: {own_cut(): 1.0, pt.Move("another cut", grow_or_prune): 1.0}, "has the name 'another cut'"),
        (lambda: {pt.Move("mine", another_cut, counts=("grow",)): 1.0}, "has the name 'grow'"),
        (lambda: {own_cut(): -1.0}, "give a finite number >= 0"),
        (lambda: own_cut(), r"give one of \['default'"),
        (lambda: {another_cut: 1.0}, "pt.Move of your own"),
    ],
)
def test_kernels_that_are_none(kernel, words):
    with pytest.raises(ValueError, match=words):
        pt.sample(small_model(), kernel=kernel(), **SETTINGS)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: pt.Move("", another_cut), ValueError, "give the move a name"),
        (lambda: pt.Move(3, another_cut), ValueError, "give the move a name"),
        (lambda: pt.Move("mine", 3), TypeError, "give a function of rng, model and state"),
        (lambda: pt.Move("mine", lambda rng: None), TypeError, "takes 1 arguments"),
        (lambda: pt.Move("mine", another_cut, counts=("a", "b", "c")), ValueError, "one or two different names"),
    ],
)
def test_moves_that_are_none(make, error, words):
    with pytest.raises(error, match=words):
        make()


# in files


@pytest.mark.more
@compiled
def test_a_posterior_with_an_own_move_is_saved_loaded_and_resumed(tmp_path):
    model, kernel = small_model(), {"grow-prune": 0.5, own_cut(): 0.5}
    uninterrupted = pt.sample(model, kernel=kernel, **SETTINGS | {"draws": 60})
    post = pt.sample(model, kernel=kernel, **SETTINGS)
    path = tmp_path / "post.nc"
    post.save(path)
    loaded = pt.load(path)
    assert np.array_equal(loaded.predict_proba(X), post.predict_proba(X))
    assert loaded.draws.moves == post.draws.moves == ("grow", "prune", "another cut")
    with pytest.raises(ValueError, match=r"'another cut' that is not the library's.*moves="):
        pt.resume(loaded, 20, progress=False)
    other = pt.Move("another cut", grow_or_prune, counts=("a", "b"))
    with pytest.raises(ValueError, match="is not the move of that name"):
        pt.resume(loaded, 20, progress=False, moves=[other])
    with pytest.raises(TypeError, match=r"give a list of pt\.Move"):
        pt.resume(loaded, 20, progress=False, moves=["another cut"])
    for resumed in (pt.resume(loaded, 20, progress=False, moves=[own_cut()]), pt.resume(post, 20, progress=False)):
        assert np.array_equal(resumed.draws.tree_of_draw, uninterrupted.draws.tree_of_draw)
        assert np.array_equal(resumed.draws.accepted, uninterrupted.draws.accepted)
    resumed.save(tmp_path / "again.nc")


@pytest.mark.more
@compiled
def test_a_checkpoint_is_finished_with_the_move(copies, tmp_path):
    kernel = {"grow-prune": 0.5, own_cut(): 0.5}
    path = tmp_path / "run.nc"
    uninterrupted = pt.sample(small_model(), kernel=kernel, checkpoint=path, every=1e-9, **SETTINGS)
    with pytest.raises(ValueError, match="another cut"):
        pt.resume(copies[4], progress=False)
    resumed = pt.resume(copies[4], progress=False, moves=[own_cut()])
    assert np.array_equal(resumed.draws.tree_of_draw, uninterrupted.draws.tree_of_draw)


# on their way


def test_moves_travel():
    move = pickle.loads(pickle.dumps(own_growth()))
    assert (move.name, move.counts, move.scratch) == ("half", ("half grow", "half prune"), ())
    assert pt.testing.check_balance(move, small_model()).imbalance < 1e-10
