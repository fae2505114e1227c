"""Tuning in rounds: the same draws however chains are run, a density that is fitted well, kept, and checked."""

import copy
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from scipy.special import expit

import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_unfinished
from pactree_mcmc.mcmc.chain.snapshot import ARRAYS
from pactree_mcmc.mcmc.whole.density.decisions import Decisions, add_likelihood
from pactree_mcmc.mcmc.whole.density.fit import FEWEST, fit_density, joined_decisions
from pactree_mcmc.mcmc.whole.density.terms import WAY_BITS
from pactree_mcmc.mcmc.run import learn as _learn
from pactree_mcmc.mcmc.run import task as _run
from pactree_mcmc.mcmc.state.arrays import MOST_GUIDES, first_density
from pactree_mcmc.mcmc.state.records import DENSITY_LEVELS, MOST_ANCHORS, N_CELL_TERMS, N_WAY_TERMS
from tests.mcmc.run.test_executors import SPAWN, AtOnce, Deadly
from tests.mcmc.run.test_interruption import HangingExecutor
from tests.problems.everyday import everyday
from tests.problems.runs import MODELS, assert_same, draw


def learned(name="classes", draws=20, **rest):
    return draw(name, draws, **({"kernel": "whole", "tune": 35} | rest))


def densities(post):
    """The frozen density of every chain."""
    return [end.replicas[0].state[ARRAYS.index("density")].copy() for end in post.course.ends]


def with_density(post, c, density):
    """Put another density where a chain stopped."""
    ends = list(post.course.ends)
    state = list(ends[c].replicas[0].state)
    state[ARRAYS.index("density")] = density
    ends[c] = ends[c]._replace(replicas=(ends[c].replicas[0]._replace(state=tuple(state)),))
    post.course = post.course._replace(ends=tuple(ends))


def test_threads_and_processes_draw_the_same():
    whole = learned()
    for n in (1, 2):
        with ThreadPoolExecutor(n) as pool:
            assert_same(learned(executor=pool), whole)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        assert_same(learned(executor=pool), whole)
    assert whole.n_distinct_trees > 10


@pytest.mark.parametrize("tune", [0, 10, 35])
def test_chains_share_one_density(tune):
    """Without tuning it is the first but for the features of its root; with more it is another, finite, the same in
    all chains.
    """
    found = densities(learned(tune=tune, chains=3))
    assert all(np.array_equal(one, found[0]) for one in found)
    assert np.isfinite(found[0]).all()
    found[0][0, N_CELL_TERMS + N_WAY_TERMS :] = 0.0
    assert np.array_equal(found[0], first_density(3)) == (tune == 0)


def test_noting_decisions_in_other_blocks_changes_nothing(monkeypatch):
    whole = learned(tune=700)
    monkeypatch.setattr(_run, "BLOCK_SECONDS", -1.0)
    assert_same(learned(tune=700), whole)


# regrow-2 would sort the rows of a leaf as it looks ahead, which it does again where tables are not restored
MIXED = {"subgraph": 0.2, "learned": 0.3, "collapsed": 0.3, "regrow-1": 0.1, "rotate": 0.1}


EVERY_DAY = ("whole classes", "whole shared variance", "whole trivial", "mixed fractions of classes", "mixed grid")


@pytest.mark.parametrize(("kernel", "name"), everyday(product(["whole", "mixed"], MODELS), EVERY_DAY))
def test_resumed_is_uninterrupted(name, kernel):
    kernel = MIXED if kernel == "mixed" else kernel
    half, whole = learned(name, 7, kernel=kernel), learned(name, kernel=kernel)
    assert_same(pt.resume(half, 13, progress=False), whole)


@pytest.mark.parametrize("name", everyday(["classes", "shared variance"], ["classes"]))
def test_every_checkpoint_leads_to_the_same_draws(name, copies, tmp_path):
    """From before learning, when no chain has anything, and from among the draws."""
    whole = learned(name, 4, checkpoint=tmp_path / "run.nc", every=1e-6)
    assert_same(whole, learned(name, 4))
    assert load_unfinished(copies[0]).results == (None, None)
    assert all(result is not None for result in load_unfinished(copies[1]).results)
    for written in (copies[0], copies[1], copies[-2]):
        assert_same(pt.resume(written, progress=False), whole)


def test_a_file_keeps_the_density(tmp_path):
    whole, half = learned(), learned(draws=7)
    half.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert all(np.array_equal(a, b) for a, b in zip(densities(again), densities(half), strict=True))
    assert_same(pt.resume(again, 13, progress=False), whole)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda density: density[:, :-1], "density has another shape"),
        (lambda density: density[:-1], "density has another shape"),
        (lambda density: density * np.where(density == density[1, 1], np.nan, 1.0), "the density is not finite"),
        (lambda density: density + np.inf, "the density is not finite"),
    ],
)
def test_a_density_of_another_model_is_refused(spoil, said, five, tmp_path):
    post = copy.copy(five)
    with_density(post, 1, spoil(densities(post)[1]))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_a_chain_without_a_density_does_not_go_on(tmp_path):
    """One of a kernel that draws from none has the shape (1, 1)."""
    post = learned(draws=5)
    with_density(post, 0, np.zeros((1, 1)))
    with pytest.raises(ValueError, match="density has shape"):
        pt.resume(post, 3, progress=False)


def with_cells(post, spoil):
    """Change what is kept of cells where the second chain stopped, by ``spoil(cells)``."""
    ends = list(post.course.ends)
    cells = ends[1].replicas[0].cells
    copies = cells._replace(**{name: getattr(cells, name).copy() for name in cells._fields[1:]})
    ends[1] = ends[1]._replace(replicas=(ends[1].replicas[0]._replace(cells=spoil(copies)),))
    post.course = post.course._replace(ends=tuple(ends))


def into(name, where, value):
    """Write one value into what is kept of cells; ``where`` is a field of records, or a column of the first anchors."""

    def spoil(cells):
        row = int(np.argmax(cells.guide["n_anchors"]))
        array = getattr(cells, name)
        if isinstance(where, str):
            array[where][row] = value
        else:
            array[row, where] = value
        return cells

    return spoil


def other_shape(name):
    return lambda cells: cells._replace(**{name: getattr(cells, name)[:, :-1]})


def swapped(cells):
    row = int(np.argmax(cells.guide["n_anchors"]))
    cells.anchors[row, :2] = cells.anchors[row, 1::-1]
    return cells


def behind_the_last(cells):
    cells.guided[-1] = MOST_GUIDES
    return cells


FORGED = [
    (other_shape("anchors"), "anchors has another shape"),
    (other_shape("ahead"), "ahead has another shape"),
    (lambda cells: cells._replace(ahead=cells.ahead[:-1]), "ahead has another shape"),
    (into("guide", "n_anchors", -1), "a number of anchors is out of range"),
    (into("guide", "n_anchors", MOST_ANCHORS + 1), "a number of anchors is out of range"),
    (into("guide", "n_anchors", 1 << 62), "a number of anchors is out of range"),
    (into("guide", "odds_ahead", np.nan), "odds_ahead is NaN"),
    (into("anchors", 0, 3 << WAY_BITS), "the feature of an anchor is out of range"),
    (into("anchors", 0, -1), "the feature of an anchor is out of range"),
    (into("anchors", 0, 1000), "the way of an anchor is out of range"),
    (swapped, "the anchors are in another order"),
    (into("ahead", 0, np.nan), "ahead is not finite"),
    (into("ahead", 0, np.inf), "ahead is not finite"),
    (behind_the_last, "a guide is out of range"),
]


@pytest.fixture(scope="module")
def five():
    """A run of five draws, to be copied."""
    return learned("numbers", 5)


@pytest.mark.parametrize(("spoil", "said"), FORGED, ids=[f"{i} {said}" for i, (_, said) in enumerate(FORGED)])
def test_anchors_that_make_no_sense_are_refused(spoil, said, five, tmp_path):
    post = copy.copy(five)
    assert max(end.replicas[0].cells.guide["n_anchors"].max() for end in post.course.ends) > 3
    with_cells(post, spoil)
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_guides_without_a_density_are_refused(tmp_path):
    """Of a kernel that keeps none."""
    post, other = learned("numbers", 5, kernel={"collapsed": 1.0}), learned("numbers", 5)
    guided = other.course.ends[1].replicas[0].cells
    names = ("guided", "guide", "anchors", "ahead", "fractions", "own")
    with_cells(post, lambda cells: cells._replace(**{name: getattr(guided, name) for name in names}))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="there are guides without a density"):
        pt.load(tmp_path / "run.nc")


P = 3
TRUE = np.array([1.5, -0.7, 0.4, 0.0, -1.0, 0.6, 0.9, 0.8, -0.5, -0.3])
TRUE_SPLIT = np.array([0.3, 0.8, -0.5, 0.2, 0.0, -0.4, 0.5, -0.2, 0.7, -0.3])


def simulated(n=4000, n_splits=20, expected=None, level=0, seed=0, p=P):
    """Decisions drawn from a known density; ``expected``: splits in the sample that stands for those of a cell."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n, N_CELL_TERMS))
    cells[:, 0] = 1.0
    split = rng.random(n) < expit(cells @ TRUE_SPLIT)
    terms, feature, offset, first, chosen = [], [], [], [0], []
    for i in range(n):
        if split[i]:
            f, k = rng.normal(size=(n_splits, N_WAY_TERMS)), rng.integers(0, p, n_splits)
            log_rule = rng.normal(size=n_splits)
            z = log_rule + f @ TRUE[:N_WAY_TERMS] + TRUE[N_WAY_TERMS + k]
            distribution = np.exp(z - np.logaddexp.reduce(z))
            q = rng.choice(n_splits, p=distribution)
            # a sample by other terms than the distribution's, given that it holds the split taken
            include = np.ones(n_splits) if expected is None else np.clip(expected * expit(f[:, 0]) / 10.0, 0.05, 1.0)
            kept = (rng.random(n_splits) < include) | (np.arange(n_splits) == q)
            chosen.append(first[-1] + int(kept[:q].sum()))
            terms.append(f[kept])
            feature.append(k[kept])
            offset.append(log_rule[kept] - np.log(include[kept]))
        else:
            chosen.append(-1)
        first.append(first[-1] + (int(kept.sum()) if split[i] else 0))
    return Decisions(
        np.full(n, level),
        np.full(n, -1 if level == 0 else 0),
        split.astype(float),
        cells,
        np.array(first),
        np.array(chosen),
        np.concatenate(terms),
        np.concatenate(feature),
        np.concatenate(offset),
        np.array([n, first[-1]]),
    )


def fitted(decisions, p=P):
    """The parameters of the root: of splits, and of splits with the mean over features taken off."""
    density = fit_density(decisions, first_density(p))
    ways = density[0, N_CELL_TERMS:].copy()
    ways[N_WAY_TERMS:] -= ways[N_WAY_TERMS:].mean()
    for other in set(range(DENSITY_LEVELS)) - {0}:
        assert np.array_equal(density[other], first_density(p)[other])
    return density[0, :N_CELL_TERMS], ways


@pytest.mark.parametrize("expected", [None, 4.0])
def test_the_density_that_made_the_decisions_is_found(expected):
    """Also from samples of the splits, whose probabilities are taken off."""
    split, ways = fitted(simulated(expected=expected))
    assert np.abs(split - TRUE_SPLIT).max() < 0.15
    assert np.abs(ways - TRUE).max() < 0.15
    x = np.random.default_rng(1).normal(size=(500, N_CELL_TERMS))
    assert np.abs(expit(x @ split) - expit(x @ TRUE_SPLIT)).mean() < 0.02
    f, k = np.random.default_rng(2).normal(size=(500, 8, N_WAY_TERMS)), np.arange(8) % P
    z, w = (f @ b[:N_WAY_TERMS] + b[N_WAY_TERMS + k] for b in (ways, TRUE))
    found, true = (np.exp(v - np.logaddexp.reduce(v, axis=1, keepdims=True)) for v in (z, w))
    assert np.abs(found - true).mean() < 0.01


@pytest.mark.planted
def test_samples_taken_for_all_splits_are_noticed():
    decisions = simulated(expected=4.0)
    include = np.clip(4.0 * expit(decisions.way_terms[:, 0]) / 10.0, 0.05, 1.0)
    _, ways = fitted(decisions._replace(offset=decisions.offset + np.log(include)))
    assert np.abs(ways - TRUE).max() > 0.2


def test_derivatives_are_finite_differences():
    d = simulated(40, 7)
    split = np.flatnonzero(d.chosen >= 0)
    theta = np.random.default_rng(3).normal(size=N_WAY_TERMS + P)

    def at(theta):
        gradient, hessian = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        rest = (d.first[split], d.first[split + 1], d.chosen[split], gradient, hessian)
        return add_likelihood(theta, d.way_terms, d.feature, d.offset, *rest), gradient, hessian

    value, gradient, hessian = at(theta)
    distribution = 0.0
    for i in split:
        rows = slice(d.first[i], d.first[i + 1])
        z = d.offset[rows] + d.way_terms[rows] @ theta[:N_WAY_TERMS] + theta[N_WAY_TERMS + d.feature[rows]]
        distribution -= z[d.chosen[i] - d.first[i]] - np.logaddexp.reduce(z)
    assert value == pytest.approx(distribution, rel=1e-12)
    h = 1e-5 * np.eye(len(theta))
    slopes = [(at(theta + e)[0] - at(theta - e)[0]) / 2e-5 for e in h]
    bends = [(at(theta + e)[1] - at(theta - e)[1]) / 2e-5 for e in h]
    assert np.allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    assert np.allclose(hessian, bends, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 3.0, 1e8])
def test_constant_terms(constant):
    """What never changes tells nothing and stops nothing."""
    d = simulated(200, 5)
    d.cell_terms[:, 3] = constant
    d.way_terms[:, 2] = constant
    density = fit_density(d, first_density(P))
    assert np.isfinite(density).all()
    assert abs(density[0, N_CELL_TERMS + 2] * constant) < 5.0


def test_few_decisions_change_nothing():
    d = joined_decisions([simulated(FEWEST - 1, 4, level=level) for level in range(DENSITY_LEVELS)])
    assert np.array_equal(fit_density(d, first_density(P)), first_density(P))


@pytest.mark.parametrize("is_split", [0.0, 1.0])
def test_cells_that_all_decide_alike(is_split):
    d = simulated(100, 4)
    d.is_split[:] = is_split
    density = fit_density(d, first_density(P))
    assert np.isfinite(density).all()
    assert np.mean(expit(d.cell_terms @ density[0, :N_CELL_TERMS]) > 0.5) == is_split


def test_one_feature():
    split, ways = fitted(simulated(p=1, n=1000), p=1)
    assert np.isfinite(split).all()
    assert np.abs(ways[:N_WAY_TERMS] - TRUE[:N_WAY_TERMS]).max() < 0.3
    assert learned("classes", 5).n_draws == 5


def test_decisions_are_joined_as_they_are():
    parts = [simulated(30, 4, seed=s) for s in (1, 2, 3)]
    whole = joined_decisions(parts)
    at = 0
    for part in parts:
        for i in range(len(part.level)):
            ours, theirs = slice(*whole.first[at + i : at + i + 2]), slice(*part.first[i : i + 2])
            assert np.array_equal(whole.way_terms[ours], part.way_terms[theirs])
            if part.chosen[i] >= 0:
                taken = whole.way_terms[whole.chosen[at + i]]
                assert np.array_equal(taken, part.way_terms[part.chosen[i]])
        at += len(part.level)


def test_a_chain_lost_while_learning_is_left_out(tmp_path):
    """The others go on; resumed from the checkpoint, it learns nothing new but has the density of the others."""
    path = tmp_path / "run.nc"
    with pytest.warns(UserWarning, match=r"1 of 3 chains were lost \(chain 1: RuntimeError: worker lost\).*run.nc"):
        post = learned(draws=6, chains=3, executor=AtOnce(7), checkpoint=path, every=60.0)
    assert post.n_chains == 2
    found = densities(post)
    assert [result is None for result in load_unfinished(path).results] == [False, True, False]
    again = pt.resume(path, progress=False)
    assert again.n_chains == 3
    assert all(np.array_equal(one, found[0]) for one in densities(again))
    for mine, c in enumerate((0, 2)):
        assert np.array_equal(post.log_score[mine], again.log_score[c])


def test_every_chain_lost_while_learning():
    with pytest.raises(RuntimeError, match="worker lost") as caught:
        learned(executor=AtOnce(2, 3))
    assert caught.value.__notes__ == [
        "every chain was lost: chain 0: RuntimeError: worker lost; chain 1: RuntimeError: worker lost"
    ]


@pytest.mark.slow
def test_a_process_that_dies_while_learning():
    """A broken pool runs no other chain either."""
    with (
        ProcessPoolExecutor(1, mp_context=SPAWN) as pool,
        pytest.raises(RuntimeError) as caught,
    ):
        learned(rng=[5, Deadly()], executor=pool)
    assert "every chain was lost" in caught.value.__notes__[0]


def interrupted(timeout=None):
    raise KeyboardInterrupt


class Interrupted(ThreadPoolExecutor):
    """Waiting for any task meets Ctrl-C."""

    def submit(self, task, /, *args, **rest):
        future = super().submit(task, *args, **rest)
        future.result = interrupted
        return future


def test_interrupted_while_learning(monkeypatch):
    """Threads at work stop after their block; what they tuned is lost."""
    monkeypatch.setattr(_learn, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt, match="before every chain had a draw; nothing to return"):
        learned(tune=10**7)
    monkeypatch.undo()
    assert learned(draws=5).n_draws == 5


@pytest.mark.parametrize("n_done", [0, 1, 3])
def test_interrupted_while_an_executor_learns(n_done, tmp_path):
    executor, path = HangingExecutor(n_done), tmp_path / "run.nc"
    with pytest.raises(KeyboardInterrupt, match="before a chain had finished; nothing to return"):
        learned(draws=5, executor=executor, checkpoint=path)
    assert all(future.cancelled() for future in executor.futures[n_done:])
    assert_same(pt.resume(path, progress=False), learned(draws=5))


class Failing(Executor):
    """Tasks of the second round fail as a cell without a finite score does."""

    def __init__(self, error):
        self.error, self.count = error, 0

    def submit(self, task, /, *args):
        future, self.count = Future(), self.count + 1
        if self.count > 2:
            future.set_exception(self.error)
        else:
            future.set_result(task(*args))
        return future


def test_a_score_that_is_not_finite_is_no_lost_worker():
    from pactree_mcmc.model.not_finite import NotFinite

    with pytest.raises(NotFinite, match="not finite here"):
        learned(executor=Failing(NotFinite("not finite here")))
