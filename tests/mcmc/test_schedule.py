"""Runs that find their own length: what they draw, where they end, and that nothing but the seed decides it."""

import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import chain, repeat
from types import SimpleNamespace

import numpy as np
import pytest
from pactree_mcmc.mcmc.run.length import evenly

import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_unfinished
from pactree_mcmc.mcmc import sampling as _sample
from pactree_mcmc.mcmc.kernel import FEWEST_PROPOSALS, MOST_LEARNED, STEP_ROWS, WHOLE, read_kernel
from pactree_mcmc.mcmc.run import length as _length
from pactree_mcmc.mcmc.run.checkpoint import write_unfinished
from pactree_mcmc.mcmc.run.task import Plan, Result, run_chain
from pactree_mcmc.posterior.joining import join_chains
from tests.mcmc.run.test_executors import SPAWN
from tests.problems.everyday import everyday
from tests.problems.runs import MODELS, assert_same


def found(name="classes", draws=250, **rest):
    return pt.sample(MODELS[name], draws, **({"chains": 4, "rng": 4, "progress": False} | rest))


def few(name="classes", draws=6, **rest):
    """A run of few draws."""
    return found(name, draws, **({"chains": 2} | rest))


@pytest.fixture
def judged(monkeypatch):
    """Runs of any size are lengthened until the criterion was looked at as often as there are answers False."""

    def judge(n_false):
        seen = []
        monkeypatch.setattr(_sample, "FEWEST", 1)
        monkeypatch.setattr(
            _length, "holds", lambda plan, results: seen.append(results[0].n_draws) or len(seen) > n_false
        )
        return seen

    return judge


@pytest.mark.parametrize("confirms", [True, False])
def test_the_default_run_repeats(monkeypatch, confirms):
    """By its seed, and by its seed and steps; its strata and steps are kept, in files and further draws too."""
    monkeypatch.setattr(_length, "CONFIRMED_WITHIN", 0.5 if confirms else 0.0)
    post = found("shared variance")
    stretches = 2 if confirms else 1
    assert post.n_draws == 250 and post.course.steps == 250 * post.course.thin * stretches
    assert_same(found("shared variance"), post)
    assert_same(found("shared variance", steps=post.course.steps), post)
    assert post.course.strata.shape == (3,) and np.isfinite(post.course.strata).all()


@pytest.mark.parametrize(
    ("n_false", "steps", "thin"), [(0, 6, 1), (1, 6 + 6, 1), (2, 6 + 12, 2), (3, 18 + 12, 2), (4, 18 + 24, 4)]
)
def test_draws_double_until_the_criterion_holds(judged, monkeypatch, n_false, steps, thin):
    """A stretch has as many steps as the one before, then twice as many; then the next one begins."""
    monkeypatch.setattr(_length, "CONFIRMED_WITHIN", 0.0)
    seen = judged(n_false)
    post = few()
    assert seen == [6] * (n_false + 1)
    assert post.n_draws == 6
    assert (post.course.steps, post.course.thin) == (steps, thin)
    assert post.course.selected == (n_false > 0)
    seen = judged(n_false)
    again = few(steps=post.course.steps)
    assert_same(again, post)
    assert len(seen) == (n_false + 1 if n_false > 0 else 0) and again.course.selected == post.course.selected


def assert_thinned(steps):
    """A run of the local kernel is one of given length, thinned; what was proposed and accepted is added up."""
    post, whole = found(kernel="local", steps=steps), found(draws=steps, kernel="local", tune=1000)
    made, thin = post.course.steps, post.course.thin
    assert thin == {250: 1, 375: 1, 500: 2, 751: 2, 1000: 4}[steps]
    assert made == steps // thin * thin
    kept = (evenly(made // thin, 250) + 1) * thin - 1
    assert kept[-1] == made - 1 and len(kept) == 250
    assert np.array_equal(post.log_score, whole.log_score[:, kept])
    assert np.array_equal(post.root_feature, whole.root_feature[:, kept])
    first = np.concatenate([[0], kept[:-1] + 1])
    for name in ("proposed", "accepted"):
        assert np.array_equal(getattr(post, name), np.add.reduceat(getattr(whole, name)[:, :made], first, axis=1))


@pytest.mark.parametrize("steps", everyday([250, 375, 500, 751, 1000], ["375", "500"]))
def test_a_local_run_is_the_longer_one_thinned(judged, steps):
    judged(100)
    assert_thinned(steps)


def test_a_ladder_is_lengthened_too(judged):
    judged(100)
    post, whole = found(betas=3, chains=2, steps=500), found(draws=500, betas=3, chains=2, tune=1000)
    assert (post.course.thin, post.n_draws) == (2, 250)
    assert np.array_equal(post.log_score, whole.log_score[:, 1::2])
    assert np.array_equal(post.tempering.scores, whole.tempering.scores[:, 1::2])
    assert np.array_equal(post.tempering.is_stump, whole.tempering.is_stump[:, 1::2])


ENDS_EVERY_DAY = ("0.0 0", "0.0 1", "0.0 6", "0.0 15", "60.0 2", "60.0 40")


@pytest.mark.parametrize(
    ("at", "n_looks", "steps"),
    everyday(
        [
            (0.0, 0, 16),  # over at the first look
            (0.0, 1, 18),  # before a stretch begins, once what there is is being lengthened
            (0.0, 6, 16),  # in a stretch, of which nothing is kept
            (0.0, 11, 32),  # behind it
            (0.0, 15, 40),  # while it is doubled
            (0.0, 19, 48),  # behind that
            (0.0, 25, 48),  # in the next one
            (0.0, 30, 80),
            (60.0, 2, 18),  # no room for a stretch: what there is is lengthened, by pieces
            (60.0, 7, 28),
            (60.0, 40, 31),  # but by less than one
        ],
        ENDS_EVERY_DAY,
    ),
)
def test_a_run_ended_by_the_clock_is_repeated_by_its_steps(judged, monkeypatch, at, n_looks, steps):
    judged(100)
    base = time.perf_counter()
    clock = chain([base + at] * n_looks, repeat(np.inf))
    monkeypatch.setattr(_length, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    post = found(draws=16, seconds=100.0)
    monkeypatch.undo()
    assert (post.n_draws, post.course.steps) == (16, steps)
    judged(100)
    assert_same(found(draws=16, steps=post.course.steps), post)


@pytest.mark.parametrize("n_draws", [0, 3])
def test_an_interrupted_stretch_leaves_what_was_before_it(judged, monkeypatch, n_draws):
    judged(0)
    whole = few()
    judged(100)
    real, began = _length.do, []

    def interrupted(work):
        began.append(work.plans[0])
        if n_draws == 0:
            raise KeyboardInterrupt
        done = real(work)
        return done._replace(results=[result.shortened(n_draws) for result in done.results], complete=False)

    monkeypatch.setattr(_length, "do", interrupted)
    with pytest.warns(UserWarning, match="instead of a new stretch the 6 draws a chain before it are returned"):
        post = few()
    assert [(plan.draws, plan.thin, plan.length.before) for plan in began] == [(6, 1, 6)]
    assert post.course.steps == 6
    assert_same(post, whole)


def test_the_clock_alone_ends_a_run():
    assert few(seconds=1e-9).course.steps == 6


@pytest.mark.parametrize("kernel", everyday(["default", "local"], ["local"]))
def test_work_ends_a_run_that_has_a_clock_too(judged, kernel):
    """Whichever is first: the work, as it does without a clock, or the clock."""
    judged(100)
    post = found(draws=16, kernel=kernel, work=2e7)
    assert post.course.steps > 16
    judged(100)
    assert_same(found(draws=16, kernel=kernel, work=2e7, seconds=1e6), post)
    judged(100)
    assert found(draws=16, kernel=kernel, work=1e9, seconds=1e-9).course.steps == 16


def test_few_draws_are_not_waited_for(monkeypatch):
    """249 draws of 4 chains are fewer than 1,000 in all."""
    monkeypatch.setattr(_length, "holds", lambda plan, results: pytest.fail("looked"))
    for post in (found(draws=249), found(draws=249, kernel="local")):
        assert (post.n_draws, post.course.steps, post.course.thin) == (249, 249, 1)


def test_threads_and_processes_draw_the_same(judged):
    judged(3)
    whole = few()
    assert whole.course.steps == 6 + 12 + 12 + 12
    with ThreadPoolExecutor(2) as pool:
        judged(3)
        assert_same(few(executor=pool), whole)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        judged(3)
        assert_same(few(executor=pool), whole)


# work


def test_little_work_is_shared_out(judged):
    """Nothing is learned, a step has fewer proposals, and a run that never looks well ends; the same by any workers."""
    judged(100)
    ample, scarce = found(kernel="local", steps=250), found(work=3e6)
    assert ample.course.kernel.names == scarce.course.kernel.names
    assert (ample.course.kernel.block, scarce.course.strata) == (100, None)
    assert 1 <= scarce.course.kernel.block < 50
    assert 250 <= scarce.course.steps <= 8 * 250
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        judged(100)
        assert_same(found(work=3e6, executor=pool), scarce)
    judged(100)
    assert_same(found(work=3e6, steps=scarce.course.steps), scarce)
    judged(100)
    least = found(draws=20, work=1.0)
    assert (least.course.kernel.block, least.course.steps) == (1, 20)


def test_a_stretch_begins_where_the_last_ended_and_knows_its_trees(judged):
    """Its graph holds all that was known, and the pieces of what was drawn."""
    judged(0)
    first = few()
    judged(1)
    second = few()
    old, new = (post.course.ends[0].replicas[0].graph for post in (first, second))
    keys = [{(int(p.hash), int(p.depth)) for p in graph.piece[: graph.used[0]]} for graph in (old, new)]
    assert keys[0] < keys[1] and new.used[2] == 0
    assert all(end.replicas[0].graph is new for end in second.course.ends)
    assert second.course.kernel == first.course.kernel
    assert np.array_equal(second.course.strata, first.course.strata)


@pytest.mark.planted
def test_draws_kept_from_before_a_stretch_are_noticed(judged, monkeypatch):
    """They were made by another graph than the one that is said."""
    judged(1)
    whole = few()
    real = _length.relearned

    def keeping(work, results):
        taught = real(work, results)
        return [result._replace(end=anew.end) for result, anew in zip(results, taught, strict=True)]

    monkeypatch.setattr(_length, "relearned", keeping)
    judged(1)
    with pytest.raises(AssertionError):
        assert_same(few(), whole)


def test_weights_that_are_given_stay():
    kernel = {"subgraph": 0.3, "collapsed": 0.7}
    post = few(kernel=kernel)
    assert dict(zip(post.course.kernel.names, post.course.kernel.weights, strict=True)) == pytest.approx(kernel)
    assert post.course.kernel.block == 100


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ({"steps": 500, "tune": 10}, "steps is for a run that finds its own length; leave out tune"),
        ({"seconds": 5.0, "thin": 2}, "seconds is for a run that finds its own length; leave out thin"),
        ({"seconds": 5.0, "steps": 500, "proposals": 9}, "steps, seconds is for a run .*leave out proposals"),
        ({"steps": 249}, "steps=249 is less than draws=250"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 500.0}, "steps=500.0"),
        ({"steps": True}, "steps=True"),
        ({"seconds": 0}, "seconds=0"),
        ({"seconds": -1.0}, "seconds=-1.0"),
        ({"seconds": np.nan}, "seconds=nan"),
        ({"seconds": np.inf}, "seconds=inf"),
        ({"seconds": "5"}, "seconds='5'"),
        ({"work": 0}, "work=0"),
        ({"work": np.nan}, "work=nan"),
        ({"work": np.inf}, "work=inf"),
        ({"work": "many"}, "work='many'"),
        ({"work": 1e6, "tune": 10}, "work is for a run that finds its own length; leave out tune"),
    ],
)
def test_lengths_out_of_range(rest, said):
    with pytest.raises(ValueError, match=said):
        found(**rest)


# draws that are kept


@pytest.mark.parametrize(("n", "m"), [(10, 5), (10, 10), (375, 250), (17, 16), (31, 16), (9, 1)])
def test_draws_kept_lie_evenly(n, m):
    which = evenly(n, m)
    gaps = np.diff(which, prepend=-1)
    assert len(which) == m and which[-1] == n - 1
    assert {int(gap) for gap in gaps} <= {n // m, -(-n // m)} and gaps.min() >= 1


@pytest.mark.parametrize("m", [1, 7, 20, 29, 40])
@pytest.mark.parametrize(("name", "betas"), [("shared variance", None), ("classes", 2)])
def test_chosen_draws_are_those_of_a_plain_loop(name, betas, m):
    """Also of a run that was joined from two stretches."""
    plan = Plan(MODELS[name], 15, 5, 1, read_kernel("local", 5), 3, "grown", betas)
    first = run_chain(plan)
    whole = run_chain(plan._replace(draws=25), first.end).behind(first)
    which, saved = evenly(40, m), whole.saved
    some = whole.chosen(which)
    assert some.n_draws == m and some.end is whole.end
    assert list(some.saved.used) == [m, len(np.unique(saved.tree_of_draw[which])), len(some.saved.node)]
    before = 0
    for i, draw in enumerate(which.tolist()):
        here, there = (s.tree_of_draw[d] for s, d in ((some.saved, i), (saved, draw)))
        ours, theirs = (slice(*s.tree.start[t : t + 2]) for s, t in ((some.saved, here), (saved, there)))
        assert np.array_equal(some.saved.node[ours], saved.node[theirs])
        assert np.array_equal(some.saved.stats[ours], saved.stats[theirs])
        for field in ("log_prior", "log_score"):
            assert some.saved.tree[field][here] == saved.tree[field][there]
        assert np.array_equal(some.saved.noise[i], saved.noise[draw], equal_nan=True)
        assert np.array_equal(some.saved.moves[i], saved.moves[before : draw + 1].sum(axis=0))
        before = draw + 1
        if betas is not None:
            assert np.array_equal(some.ladder.scores[i], whole.ladder.scores[draw])
            assert some.ladder.is_stump[i] == whole.ladder.is_stump[draw]
    posts = [join_chains(plan.model, [r.saved], plan.kernel.moves, 0.0) for r in (some, whole)]
    assert np.array_equal(posts[0].log_score, posts[1].log_score[:, which])


@pytest.mark.planted
def test_the_counts_of_one_draw_alone_are_noticed(judged, monkeypatch):
    """Proposals of the draws that were dropped, forgotten."""
    judged(100)
    real = Result.chosen

    def forgetful(result, which):
        some = real(result, which)
        return some._replace(saved=some.saved._replace(moves=result.saved.moves[which]))

    monkeypatch.setattr(Result, "chosen", forgetful)
    with pytest.raises(AssertionError):
        assert_thinned(500)


# checkpoints


@pytest.mark.parametrize("name", everyday(["classes", "shared variance"], ["shared variance"]))
def test_every_checkpoint_leads_to_the_same_draws(name, judged, copies, tmp_path):
    """From before learning, from the first draws, from the stretches behind them."""
    judged(100)
    whole = found(name, 3, chains=2, steps=13, checkpoint=tmp_path / "run.nc", every=1e-6)
    # 3 steps, 6 of another stretch where trees teach, 4 more of it; or 12 of them in one
    assert (whole.course.steps, whole.course.thin, whole.n_draws) == {"classes": (13, 2, 3)}.get(name, (12, 4, 3))
    assert_same(found(name, 3, chains=2, steps=13), whole)
    thins = {}
    for copy in copies:
        run = load_unfinished(copy)
        if run is not None:
            thins.setdefault(run.plans[0].thin, []).append(copy)
            assert run.plans[0].length.draws == 3
    assert set(thins) == {1, 2}
    for some in (copies[:2], thins[1][-2:], thins[2]):
        assert_same(pt.resume(some[len(some) // 2], progress=False), whole)


def test_a_run_by_the_clock_goes_on_from_its_checkpoint(judged, copies, tmp_path):
    judged(100)
    whole = few(seconds=1e-9, checkpoint=tmp_path / "run.nc", every=1e-6)
    assert load_unfinished(copies[0]).plans[0].length.seconds == 1e-9
    assert_same(pt.resume(copies[1], progress=False), whole)


def test_files_keep_steps_and_strata(judged, tmp_path):
    judged(2)
    post = few("numbers", steps=19)
    post.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert_same(again, post)
    assert (again.course.steps, again.course.thin) == (18, 2)
    assert np.array_equal(again.course.strata, post.course.strata)
    more = pt.resume(again, 4, progress=False)
    assert_same(more, pt.resume(post, 4, progress=False))
    assert (more.n_draws, more.course.steps, more.course.thin) == (10, 20, 2)
    assert np.array_equal(more.course.strata, post.course.strata)


FORGED = [
    (lambda strata: strata[:-1], "strata"),
    (lambda strata: strata[:, None], "strata"),
    (lambda strata: strata.astype(np.int64), "strata"),
    (lambda strata: np.full(3, np.inf), "the evidence of a stratum is none"),
    (lambda strata: np.where(strata == strata[1], np.nan, strata), "the evidence of a stratum is none"),
]


@pytest.fixture(scope="module")
def small():
    return few()


@pytest.mark.parametrize(("spoil", "said"), FORGED)
def test_strata_that_make_no_sense_are_refused(spoil, said, small, tmp_path):
    course = small.course
    try:
        small.course = course._replace(strata=spoil(course.strata))
        small.save(tmp_path / "run.nc")
    finally:
        small.course = course
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_whether_draws_were_selected_is_a_condition(small, tmp_path):
    course = small.course
    try:
        small.course = course._replace(selected=2)
        small.save(tmp_path / "run.nc")
    finally:
        small.course = course
    with pytest.raises(ValueError, match="whether draws were selected"):
        pt.load(tmp_path / "run.nc")


LENGTHS = [
    ({"draws": 0}, "a plan has no length"),
    ({"draws": 6.0}, "a plan has no length"),
    ({"steps": -1}, "a plan has no length"),
    ({"steps": 2**31}, "a plan has no length"),
    ({"before": -1}, "a plan has no length"),
    ({"before": 1.0}, "a plan has no length"),
    ({"work": 0.5}, "a plan has no length"),
    ({"work": np.inf}, "a plan has no length"),
    ({"work": 10**9}, "a plan has no length"),
    ({"seconds": 0.0}, "a plan has no length"),
    ({"seconds": np.nan}, "a plan has no length"),
    ({"seconds": np.inf}, "a plan has no length"),
    ({"seconds": 3}, "a plan has no length"),
    ({"confirms": 1}, "a plan has no length"),
    ({"selected": None}, "a plan has no length"),
    ({"affordable": -1}, "a plan has no length"),
    ({"strata": np.zeros(4)}, "strata"),
    ({"strata": np.array([0.0, np.nan, 0.0])}, "the evidence of a stratum is none"),
]


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """A run on its way; a checkpoint of no draws yet."""
    path = tmp_path_factory.mktemp("run") / "run.nc"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sample, "run_plans", lambda work, seconds: None)
        few(checkpoint=path)
    return load_unfinished(path)


@pytest.mark.parametrize(("forged", "said"), LENGTHS)
def test_lengths_that_make_no_sense_are_refused(forged, said, unfinished, tmp_path):
    plans = tuple(plan._replace(length=plan.length._replace(**forged)) for plan in unfinished.plans)
    write_unfinished(unfinished._replace(plans=plans), MODELS["classes"], tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        load_unfinished(tmp_path / "run.nc")


# weights by cost


COST = np.array([[100.0, 10.0, 400.0, 200.0, 80.0, 30.0, 90.0], [5e4, 2e5, 1e4, 2e4, 3e3, 6e3, 5e3]])


@pytest.mark.parametrize("rows", [1.0, 1e4, 1e5, 1e6, 1e12])
def test_work_is_shared_as_said(rows):
    kernel = read_kernel("whole").by_cost(COST, rows)
    weights, each = np.array(kernel.weights), COST[1] / COST[0] + STEP_ROWS
    assert kernel.names == tuple(WHOLE) and kernel.adapts
    assert weights.sum() == pytest.approx(1.0) and weights.min() > 0.0
    fractions = weights * each / (weights * each).sum()
    assert fractions[0] == pytest.approx(0.6) and fractions[1] == pytest.approx(0.1)
    assert fractions[2:].sum() == pytest.approx(0.3)
    given = np.array([WHOLE[name] for name in WHOLE])[2:]
    assert weights[2:] / weights[2:].sum() == pytest.approx(given / given.sum())
    most, wanted = int(MOST_LEARNED / weights[0]), rows / (weights * each).sum()
    assert kernel.block == min(max(int(wanted), FEWEST_PROPOSALS), most)
    assert kernel.rows_per_block(COST) == pytest.approx((weights * each).sum() * kernel.block)


def test_what_was_never_proposed_costs_a_step():
    """Nothing is divided by 0; few proposals of the dear ones may make a block small, not empty."""
    kernel = read_kernel("whole").by_cost(np.zeros((2, len(WHOLE))), 1e12)
    assert sum(kernel.weights) == pytest.approx(1.0)
    assert kernel.weights[0] == pytest.approx(0.6) and kernel.block == int(MOST_LEARNED / kernel.weights[0])
