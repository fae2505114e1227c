"""Default runs on a ladder of weights: how its levels are found, that nothing but the seed decides a run, and files."""

import copy
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_unfinished
from pactree_mcmc.mcmc.chain.snapshot import ARRAYS
from pactree_mcmc.mcmc.chain.tempering import equal_steps
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run import learn as _learn
from pactree_mcmc.mcmc.run import levels as _levels
from pactree_mcmc.mcmc.run import relearn as _relearn
from pactree_mcmc.mcmc.run.levels import FEWEST_LEVELS, FIRST_POWERS, Climbed, climbed, laddered, may_climb
from pactree_mcmc.mcmc.run.task import Plan, Run
from pactree_mcmc.mcmc.run.workers import Work
from tests.mcmc.run.test_executors import SPAWN, AtOnce
from tests.problems.runs import MODELS, assert_same


@pytest.fixture(autouse=True)
def climbing(monkeypatch):
    """Runs of any table need a ladder."""
    monkeypatch.setattr(_learn, "EFFECTIVE", 2.0)
    monkeypatch.setattr(_levels, "LEAST_BARRIER", -1.0)


def few(name="classes", draws=6, **rest):
    return pt.sample(MODELS[name], draws, **({"chains": 2, "rng": 4, "progress": False} | rest))


def rungs_of(post):
    return [end.rungs for end in post.course.ends]


def density_of(replica):
    return replica.state[ARRAYS.index("density")]


def test_chains_of_a_run_climb_one_ladder():
    post = few()
    for rungs in rungs_of(post):
        assert rungs.of_weight and not rungs.adapts
        assert np.array_equal(rungs.betas, rungs_of(post)[0].betas)
        assert (rungs.betas[0], rungs.betas[-1]) == (1.0, 0.0)
        assert len(rungs.betas) >= FEWEST_LEVELS
        # counted from the first draw on
        assert rungs.tried.sum() <= len(rungs.betas) * post.course.steps
    assert post.tempering is None
    first = post.course.ends[0].replicas[0]
    for end in post.course.ends:
        for replica in end.replicas:
            assert replica.graph is first.graph
            assert np.array_equal(density_of(replica), density_of(first))


def test_threads_and_processes_draw_the_same():
    whole = few()
    for n in (1, 2):
        with ThreadPoolExecutor(n) as pool:
            assert_same(few(executor=pool), whole)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        assert_same(few(executor=pool), whole)


@pytest.mark.parametrize("name", ["classes", "fractions of classes", "grid", "penalty"])
def test_a_run_repeats_resumes_and_is_kept_in_files(name, tmp_path):
    """By its seed, by its steps, from where it stopped, from a file of that; where trees are few as well."""
    whole, half = few(name, 12), few(name, 5, steps=5)
    assert_same(few(name, 12), whole)
    assert_same(few(name, 12, steps=whole.course.steps), whole)
    resumed = pt.resume(half, 7, progress=False)
    half.save(tmp_path / "run.nc")
    assert_same(pt.resume(pt.load(tmp_path / "run.nc"), 7, progress=False), resumed)
    assert rungs_of(resumed)[0].of_weight


def test_every_checkpoint_leads_to_the_same_draws(copies, tmp_path):
    whole = few(checkpoint=tmp_path / "run.nc", every=1e-6)
    assert_same(few(), whole)
    assert load_unfinished(copies[0]).results == (None, None)
    for written in (copies[0], copies[1], copies[-2]):
        assert_same(pt.resume(written, progress=False), whole)


@pytest.mark.parametrize("name", ["shared variance", "unknown weights"])
def test_where_weights_of_trees_move_there_is_no_ladder(name):
    assert rungs_of(few(name)) == [None, None]
    assert not may_climb(Plan(MODELS[name], 5, 0, 1, read_kernel("whole"), 1, None))


def test_a_ladder_that_is_not_needed_is_not_climbed(monkeypatch):
    monkeypatch.setattr(_levels, "LEAST_BARRIER", np.inf)
    assert rungs_of(few()) == [None, None]
    monkeypatch.setattr(_levels, "LEAST_BARRIER", -1.0)
    monkeypatch.setattr(_learn, "EFFECTIVE", 0.0)
    assert rungs_of(few()) == [None, None]


# levels


def plans_at_work(n=3):
    """Chains that learned, not on a ladder yet."""
    plans = [Plan(MODELS["classes"], 5, 4, 1, read_kernel("whole"), seed, None) for seed in range(n)]
    return Work(plans, [Run(plan).advance(4).result for plan in plans], None, False, None)


def climbs(refused, lost=()):
    """Tasks that find these fractions refused, round by round; what they were given."""
    given, rounds = [], iter(refused)

    def do(tasks):
        given.append(tasks)
        found = next(rounds)
        return {c: Climbed(task.end, np.array(found), 4000) for c, task in tasks.items() if c not in lost}

    return do, given


def test_levels_lie_where_as_many_exchanges_are_refused():
    """Twice their sum and two more; a second look moves them, and does not change their number."""
    first, second = [0.1, 0.2, 0.3, 0.4, 0.3, 0.2, 0.1], [0.3, 0.1, 0.1, 0.1, 0.1]
    do, given = climbs([first, second])
    climbed(plans_at_work(), do)
    powers = [task[0].end.rungs.betas for task in given]
    assert np.array_equal(powers[0], FIRST_POWERS)
    assert len(powers[1]) == np.ceil(2 * sum(first)) + 2
    do, given = climbs([first, second[:1] * (len(powers[1]) - 1)])
    work, spent, each = climbed(plans_at_work(), do)
    for result in work.before:
        assert np.allclose(
            result.end.rungs.betas,
            equal_steps(given[1][0].end.rungs.betas, np.full(len(powers[1]) - 1, 0.3), len(powers[1])),
        )
    assert spent == 2 * 3 * 4000
    assert each > 4000 / _levels.CLIMBS
    # a barrier that grows evenly needs levels that lie evenly
    even = equal_steps(np.linspace(1.0, 0.0, 5), np.full(4, 0.2), 9)
    assert np.allclose(even, np.linspace(1.0, 0.0, 9))


def test_trees_go_to_the_levels_nearest_to_theirs():
    work = plans_at_work(1)
    end = laddered(work.before[0].end, np.array([1.0, 0.5, 0.0]))
    assert all(replica.state is end.replicas[0].state for replica in end.replicas)
    assert [len(replica.cells.place) for replica in end.replicas[1:]] == [0, 0]
    told = tuple(replica._replace(blocks=i) for i, replica in enumerate(end.replicas))
    again = laddered(end._replace(replicas=told), np.array([1.0, 0.8, 0.4, 0.2, 0.0]))
    assert [replica.blocks for replica in again.replicas] == [0, 0, 1, 2, 2]
    assert again.rungs.journey == [False] * 4 + [True]


def test_chains_lost_on_the_way_up_are_left_out():
    do, _ = climbs([[0.3] * 7, [0.3] * 6], lost=(1,))
    work, _, _ = climbed(plans_at_work(), lambda tasks: do(tasks))
    assert work.before[1] is None
    assert all(work.before[c].end.rungs.of_weight for c in (0, 2))
    do, _ = climbs([[0.3] * 7], lost=(0, 1, 2))
    before = plans_at_work()
    assert climbed(before, do) == (before, 0.0, 0.0)


# rehearsals


@pytest.fixture
def rehearsals(monkeypatch):
    """What chains had drawn when their graph took it in."""
    seen, real = [], _relearn.relearned

    def noted(work, results):
        seen.append([result.n_draws for result in results])
        return real(work, results)

    monkeypatch.setattr(_relearn, "relearned", noted)
    return seen


def test_rehearsals_teach_and_are_dropped(rehearsals, monkeypatch):
    post = few()
    assert rehearsals == [[6, 6]] * _learn.REHEARSALS
    assert post.n_draws == 6 == post.course.steps
    pieces = len(post.course.ends[0].replicas[0].graph.piece)
    monkeypatch.setattr(_learn, "REHEARSED", 0)
    other = few()
    assert len(rehearsals) == _learn.REHEARSALS
    assert len(other.course.ends[0].replicas[0].graph.piece) < pieces
    assert not np.array_equal(other.log_score, post.log_score)


def test_rehearsals_are_no_more_than_their_part_of_the_work(rehearsals, monkeypatch):
    monkeypatch.setattr(_learn, "REHEARSAL_FRACTION", 1e-9)
    few()
    assert rehearsals == []


class LosingOne(AtOnce):
    """Loses the second chain at its first task of the given name."""

    def __init__(self, name):
        super().__init__()
        self.name, self.seen = name, 0

    def submit(self, task, /, *args):
        if self.name in repr((task, args)):
            self.seen += 1
            self.dying = (self.count,) if self.seen == 2 else ()
        return super().submit(task, *args)


@pytest.mark.parametrize("task", ["climb", "rehearse"])
def test_a_chain_lost_is_made_up_for_when_the_run_is_resumed(task, tmp_path):
    """It goes on, on the same ladder, from a tree of its own; the others have what they had."""
    path = tmp_path / "run.nc"
    with pytest.warns(UserWarning, match="chain 1"):
        post = few(chains=3, executor=LosingOne(task), checkpoint=path)
    assert post.n_chains == 2
    assert load_unfinished(path).results[1] is None
    whole = pt.resume(path, progress=False)
    assert whole.n_chains == 3
    first, lost, third = rungs_of(whole)
    assert lost.of_weight and np.array_equal(lost.betas, first.betas) and np.array_equal(lost.betas, third.betas)
    assert np.array_equal(whole.log_score[[0, 2]], post.log_score)


# files


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda end: end._replace(rungs=end.rungs._replace(of_weight=1)), "a ladder"),
        (lambda end: end._replace(rungs=end.rungs._replace(betas=end.rungs.betas[::-1].copy())), "a ladder is none"),
        (lambda end: end._replace(replicas=end.replicas[:-1]), "a ladder is of other levels"),
        (lambda end: with_replica(end, density_of(end.replicas[1]) + 1.0), "a ladder of weights is none"),
        (lambda end: without_graph(end), "a ladder of weights is none"),
    ],
    ids=["a number", "upside down", "a level too few", "two densities", "two graphs"],
)
def test_spoiled_ladders_are_refused(spoil, said, tmp_path):
    post = copy.copy(few())
    ends = list(post.course.ends)
    ends[1] = spoil(ends[1])
    post.course = post.course._replace(ends=tuple(ends))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def with_replica(end, density):
    """With another density at the second level."""
    at, state = ARRAYS.index("density"), list(end.replicas[1].state)
    state[at] = density
    second = end.replicas[1]._replace(state=tuple(state))
    return end._replace(replicas=(end.replicas[0], second, *end.replicas[2:]))


def without_graph(end):
    """With an empty graph at the second level."""
    second = end.replicas[1]._replace(graph=_learn.new_graph())
    return end._replace(replicas=(end.replicas[0], second, *end.replicas[2:]))
