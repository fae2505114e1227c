"""A move of one's own: proved by its matrix, errors in it named; in kernels, in files, on executors."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from math import log
from multiprocessing import get_context

import numba
import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import moves
from pactree_mcmc.mcmc.edits.proposal import GROW, PRUNE
from pactree_mcmc.mcmc.kernel import read_kernel
from tests.problems.refusals import refuses

SETTINGS = {"draws": 40, "tune": 10, "chains": 2, "rng": 3, "proposals": 20, "progress": False}
X = [[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [1.0, 1.0], [3.0, 2.0]]
Y = [0, 1, 1, 0, 1]
WIDER = {"X": [*X, [2.0, 1.0], [4.0, 2.0]], "y": [*Y, 0, 1]}
"""Rows enough for a second cut with two rows on either side."""
compiled = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
PARTS_OF_MODELS = [
    {},
    {"split_prior": pt.LocalCuts(trivial=True)},
    {"split_prior": pt.GridCuts([[0.5, 1.5], [1.5]])},
    {"split_prior": pt.LocalCuts(min_leaf=2)} | WIDER,
    {"nominal": [0]},
]
NO_KERNELS = [
    (lambda: {pt.Move("swap", another_cut): 1.0}, "has the name 'swap'"),
    (lambda: {pt.Move("default", another_cut): 1.0}, "has the name 'default'"),
    (lambda: {own_cut(): 1.0, pt.Move("another cut", grow_or_prune): 1.0}, "has the name 'another cut'"),
    (lambda: {pt.Move("mine", another_cut, counts=("grow",)): 1.0}, "has the name 'grow'"),
    (lambda: {own_cut(): -1.0}, "give a finite number >= 0"),
    (lambda: own_cut(), r"give one of \['default'"),
    (lambda: {another_cut: 1.0}, "pt.Move of your own"),
]
NO_MOVES = [
    (lambda: pt.Move("", another_cut), ValueError, "give the move a name"),
    (lambda: pt.Move(3, another_cut), ValueError, "give the move a name"),
    (lambda: pt.Move("mine", 3), TypeError, "give a function of rng, model and state"),
    (lambda: pt.Move("mine", lambda rng: None), TypeError, "takes 1 arguments"),
    (lambda: pt.Move("mine", another_cut, counts=("a", "b", "c")), ValueError, "one or two different names"),
]


@moves.jit
def some_node(rng, state):
    return moves.internal(state, moves.pick(rng, moves.n_internal(state)))


def another_cut(rng, model, state):
    if moves.n_internal(state) == 0:
        return moves.nothing()
    node = some_node(rng, state)
    new = moves.draw_split_of(rng, model, state, node, state.node[node].feature)
    return moves.replace_split(rng, model, state, node, new.feature, new.cut, new.categories, False)


def grow_or_prune(rng, model, state):
    """Either with probability 1/2, a leaf or a pair of leaves chosen uniformly; what cannot be is refused."""
    if moves.flip(rng, 0.5):
        n = moves.n_growable(state)
        if n == 0:
            return moves.refused(0)
        node = moves.growable(state, moves.pick(rng, n))
        moves.attach_children(model, state, node, moves.draw_split(rng, model, state, node))
        other = moves.sibling(state, node)
        parent_loses = other != moves.NONE and moves.is_leaf(state, other)
        back = log(moves.n_prunable(state) + 1 - parent_loses)
        return moves.growth(model, state, 0, node, log(n) - back - state.node[node].log_rule)
    n = moves.n_prunable(state)
    if n == 0:
        return moves.refused(1)
    node = moves.prunable(state, moves.pick(rng, n))
    left, right = state.node[node].left, state.node[node].right
    there = moves.n_growable(state) + 1 - state.node[left].splittable - state.node[right].splittable
    return moves.pruning(model, state, 1, node, log(n) - log(there) + state.node[node].log_rule)


def redraw_all(rng, model, state):
    """Draw the split of a prunable node in proportion to its term of W."""
    if moves.n_prunable(state) == 0:
        return moves.nothing()
    node = moves.prunable(state, moves.pick(rng, moves.n_prunable(state)))
    if not moves.can_scan(model, state, node):
        return moves.refused(0)
    top = moves.begin(state, node)
    moves.attach_children(model, state, top, moves.draw_scanned(rng, model, state, top))
    way_back = state.node[node].log_rule + moves.split_gain(state, node)
    way_there = state.node[top].log_rule + moves.split_gain(state, top)
    return moves.replacement(model, state, 0, node, top, way_back - way_there)


def own_cut():
    return pt.Move("another cut", another_cut, scans=False)


def own_growth():
    return pt.Move("half", grow_or_prune, counts=("half grow", "half prune"), replaces=False, scans=False)


def small_model(**parts):
    return pt.TreeModel(**{"X": X, "y": Y, "tree_prior": pt.ChipmanPrior(0.95, 1.0, max_depth=2)} | parts)


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("parts", PARTS_OF_MODELS, ids=["local", "trivial", "grid", "min_leaf", "nominal"])
def test_own_moves_are_in_balance(parts):
    report = pt.testing.check_balance(own_cut(), small_model(**parts))
    assert report.imbalance < 1e-10 and not report.reaches_all
    report = pt.testing.check_balance(own_growth(), small_model(**parts))
    assert report.reaches_all and report.moving > 0.01 and abs(report.transition.sum(axis=1) - 1.0).max() < 1e-12
    assert abs(report.posterior @ report.transition - report.posterior).max() < 1e-12


def test_the_trees_are_those_of_the_exact_engine():
    model = small_model()
    report = pt.testing.check_balance("swap", model)
    graph = exact.build_graph(model)
    assert report.n_trees == exact.count_trees(graph)


either_way = moves.jit(grow_or_prune)


def wrong_ratio(rng, model, state):
    """R of the split is forgotten in the proposal ratio of a growth."""
    proposal = either_way(rng, model, state)
    if proposal.edit == GROW:
        return moves.growth(model, state, 0, proposal.node, proposal.log_proposal_ratio + log(2.0))
    return proposal


def wrong_prior(rng, model, state):
    proposal = either_way(rng, model, state)
    prior = proposal.log_prior_ratio * 1.01
    return moves.Proposal(
        proposal.edit,
        proposal.which,
        proposal.node,
        proposal.top,
        prior,
        proposal.log_score_ratio,
        proposal.log_proposal_ratio - (prior - proposal.log_prior_ratio),
        0.0,
    )


def loses_a_tree(rng, model, state):
    """The stump is left and never come back to."""
    proposal = either_way(rng, model, state)
    if proposal.edit == PRUNE and proposal.node == 0:
        return moves.refused(1)
    return proposal


def breaks_the_arrays(rng, model, state):
    proposal = either_way(rng, model, state)
    if proposal.edit == GROW:
        state.node[state.node[proposal.node].left].score += 0.25
    return proposal


PLANTED = {
    "wrong_ratio": (wrong_ratio, "their logs differ by"),
    "wrong_prior": (wrong_prior, "a log prior ratio of"),
    "loses_a_tree": (loses_a_tree, "the way back is never made"),
    "breaks_the_arrays": (breaks_the_arrays, "breaks the arrays"),
}


@pytest.mark.more(everyday=["wrong_ratio"])
@pytest.mark.planted
@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_move_is_named(name):
    step, words = PLANTED[name]
    with pytest.raises(pt.testing.BalanceError, match=words) as caught:
        pt.testing.check_balance(pt.Move(name, step, counts=("a", "b")), small_model())
    assert repr(name) in str(caught.value) and "of posterior probability" in str(caught.value)


@pytest.mark.planted
@pytest.mark.parametrize(("step", "words"), [(another_cut, "replaces=False"), (redraw_all, "scans=False")])
def test_scratch_that_was_not_asked_for_is_named(step, words):
    """Compiled code checks no bounds: it would write behind the arrays."""
    flags = {words.partition("=")[0]: False}
    with pytest.raises(pt.testing.BalanceError, match=words):
        pt.testing.check_balance(pt.Move("mean", step, **flags), small_model())
    assert pt.testing.check_balance(pt.Move("mean", step), small_model()).imbalance < 1e-10


def says_nothing(rng, model, state):
    moves.nothing()


def counts_a_second(rng, model, state):
    return moves.refused(1)


def counts_below_zero(rng, model, state):
    return moves.refused(-1)


def draws_integers(rng, model, state):
    return moves.refused(rng.integers(1))


def draws_normal(rng, model, state):
    return moves.refused(0) if rng.normal() > 0.0 else moves.nothing()


def computes_with_chance(rng, model, state):
    return moves.refused(int(3 * rng.random()))


def returns_a_tuple(rng, model, state):
    return 1, 2


@pytest.mark.more(everyday=["counts_below_zero-which=-1"])
@pytest.mark.planted
@pytest.mark.parametrize(
    ("step", "words"),
    [
        (says_nothing, r"returned nothing; return a Proposal in every case, moves.nothing\(\)"),
        (returns_a_tuple, "returned a tuple"),
        (counts_a_second, "which=1, and the move counts one number"),
        (counts_below_zero, "which=-1"),
        (draws_integers, "use moves.pick"),
        (draws_normal, "uses rng.normal"),
        (computes_with_chance, "only be compared"),
    ],
)
def test_what_a_step_may_not_return_or_draw_is_said(step, words):
    with pytest.raises(pt.testing.BalanceError, match=words) as caught:
        pt.testing.check_balance(pt.Move("mean", step), small_model())
    assert "of posterior probability" in str(caught.value)


@pytest.mark.more(everyday=["counts_a_second"])
@compiled
@pytest.mark.planted
@pytest.mark.parametrize("step", [counts_a_second, counts_below_zero])
def test_counts_of_other_moves_are_not_written(step):
    kernel = {"grow-prune": 0.5, pt.Move("mean", step, replaces=False, scans=False): 0.5}
    refuses("which is not the number of one of its counts", lambda: pt.sample(small_model(), kernel=kernel, **SETTINGS))


def test_a_move_that_moves_nothing_is_warned_of():
    with pytest.warns(UserWarning, match="nothing was checked"):
        report = pt.testing.check_balance(pt.Move("idle", lambda rng, model, state: moves.nothing()), small_model())
    assert report.moving == 0.0


def test_too_large_a_model_is_refused():
    refuses("more than most_trees=10 trees", lambda: pt.testing.check_balance("swap", small_model(), most_trees=10))


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
    assert kernel.weights[-1] == pytest.approx(0.1) and kernel.own == (move,)
    assert kernel.count_names[-1] == "another cut"
    assert kernel.first_counts == [kernel.count_names.index(step.counts[0]) for step in kernel.move_objects]
    whole_kernel = read_kernel({"default": 0.9, move: 0.1}, default="whole", adapts=True)
    cost = np.vstack([np.ones(len(whole_kernel.names)), np.arange(1.0, 1 + len(whole_kernel.names))])
    tuned = whole_kernel.with_weights_by_cost(cost, 5000.0)
    assert tuned.names == whole_kernel.names and sum(tuned.weights) == pytest.approx(1.0) and tuned.own == (move,)
    # what moves of one's own weigh beside the local ones stays
    local = whole_kernel.names.index("rotate")
    assert tuned.weights[-1] / tuned.weights[local] == pytest.approx(whole_kernel.given[-1] / whole_kernel.given[local])


@pytest.mark.parametrize(("kernel", "words"), NO_KERNELS)
def test_kernels_that_are_none(kernel, words):
    refuses(words, lambda: pt.sample(small_model(), kernel=kernel(), **SETTINGS))


@pytest.mark.parametrize(("make", "error", "words"), NO_MOVES)
def test_moves_that_are_none(make, error, words):
    refuses(words, make, error)


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
    refuses(r"'another cut' that is not the library's.*moves=", lambda: pt.resume(loaded, 20, progress=False))
    other = pt.Move("another cut", grow_or_prune, counts=("a", "b"))
    refuses("is not the move of that name", lambda: pt.resume(loaded, 20, progress=False, moves=[other]))
    refuses(r"give a list of pt\.Move", lambda: pt.resume(loaded, 20, progress=False, moves=["another cut"]), TypeError)
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
    refuses("another cut", lambda: pt.resume(copies[4], progress=False))
    resumed = pt.resume(copies[4], progress=False, moves=[own_cut()])
    assert np.array_equal(resumed.draws.tree_of_draw, uninterrupted.draws.tree_of_draw)


def test_moves_travel():
    move = pickle.loads(pickle.dumps(own_growth()))
    assert (move.name, move.counts, move.scratch) == ("half", ("half grow", "half prune"), ())
    assert pt.testing.check_balance(move, small_model()).imbalance < 1e-10
