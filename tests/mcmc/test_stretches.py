"""Adaptive runs and their stretches: what they draw, where they end, and that nothing but the seed decides it."""

import copy
import random
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from math import inf
from typing import NamedTuple

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc import course as _course
from pactree_mcmc.mcmc import sampling as _sample
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.chain.draw_store import join_draws, select_draws
from pactree_mcmc.mcmc.chain.start import load_tree
from pactree_mcmc.mcmc.course import complete, even_indices, make_stretches, next_stretch, thin_out
from pactree_mcmc.mcmc.kernel import (
    KERNEL_WEIGHTS,
    MAX_LEARNED_PROPOSALS,
    MIN_PROPOSALS,
    PROPOSAL_ROWS,
    WHOLE_WEIGHTS,
    read_kernel,
)
from pactree_mcmc.mcmc.run.records import Request, Stretch, Tuned
from pactree_mcmc.mcmc.run.run import Run, Verdict
from pactree_mcmc.mcmc.run.run_chain import draw, tune
from pactree_mcmc.mcmc.state.records import IS_GROWING, NONE
from pactree_mcmc.mcmc.state.terms import next_node
from pactree_mcmc.posterior.draws import Draws
from tests.mcmc.run.test_executors import SPAWN
from tests.problems.runs import MODELS, assert_same, chain_at, course_of, done, made_in, request_of

CHAINS, DRAWS = 2, 6
MOST = 1 << 40
COST = np.array([[100.0, 10.0, 400.0, 200.0, 80.0, 90.0], [5e4, 2e5, 1e4, 2e4, 3e3, 5e3]])


class Standing:
    def at_rest(self):
        return self


class Counted(NamedTuple):
    """Draws of a chain that only counts, as (steps before the stretch, step)."""

    tree_of_draw: tuple = ()

    def select(self, indices):
        return Counted(tuple(self.tree_of_draw[i] for i in indices))


class Clock:
    def __init__(self, seconds=None, cost=None):
        self.now, self.seconds, self.cost = 0.0, seconds, cost
        self.is_timed, self.until = seconds is not None, inf if seconds is None else seconds

    def perf_counter(self):
        return self.now

    def is_set(self):
        return self.now >= self.until


def with_draws(run, n):
    draws, stretch = run.draws[0].tree_of_draw if run.draws[0] else (), run.stretch
    # the step of a draw is its last one after every second was dropped
    more = tuple((stretch.before, stretch.before + stretch.thin * (i + 1)) for i in range(len(draws), n))
    run.draws = [Counted(draws + more)] * CHAINS


def counted(run):
    n, clock, goal = run.n_draws, run.stop, run.stretch.goal
    while n < goal and not (clock.is_set() and n > 0):
        n += 1
        if clock.is_timed:
            clock.now += clock.cost() * run.stretch.thin
    with_draws(run, n)
    return n == goal


def judged_as(is_good):
    return Verdict("" if is_good else "it fails", None)


class Rules(NamedTuple):
    """Rules when the criterion holds and whether draws can be added to the graphs, both by the draws alone."""

    often: float = 0.0
    renews: float = 1.0
    good_from: int = MOST
    """Steps from which on the criterion holds in any case."""

    def judge(self, run):
        draws = run.draws[0].tree_of_draw
        is_good = draws[-1][1] >= self.good_from or random.Random(repr(draws)).random() < self.often
        return judged_as(is_good)

    def has_room(self, run):
        return random.Random(f"renews {run.stretch.number}").random() < self.renews


@pytest.fixture
def counting(monkeypatch):
    """Let chains of a run only count; return copies of the run before each stretch or extension."""

    def begin(rules):
        runs = []

        def make_draws(run):
            runs.append(copy.copy(run))
            return counted(run)

        monkeypatch.setattr(_course, "make_draws", make_draws)
        monkeypatch.setattr(_course, "select_draws", Counted.select)
        monkeypatch.setattr(_course, "with_draws_in_graphs", lambda run: run.tuned)
        monkeypatch.setattr(_course, "judge", rules.judge)
        monkeypatch.setattr(_course, "has_room_in_graphs", rules.has_room)
        return runs

    return begin


def run_of(draws, steps, clock=None):
    request = Request(None, draws, 0, 1, None, ("stump",) * CHAINS, is_adaptive=True, steps=steps)
    stretch, chains = Stretch(0, False, 0, 1, draws), [Standing()] * CHAINS
    run = Run(request, Tuned(None, 0, steps), stretch, chains, [None] * CHAINS, None, False)
    run.stop, run.stretch_start = clock or Clock(), 0.0
    return run


def ended(run):
    with pytest.MonkeyPatch.context() as patch:
        if run.stop.is_timed:
            patch.setattr(_course, "time", run.stop)
        make_stretches(run)
    run = complete(run)
    steps = run.steps
    thin_out(run, min(run.request.draws, run.n_draws))
    (draws,) = {one.tree_of_draw for one in run.draws}
    return draws, steps


def renewals(draws, n_looks):
    """Return by hand the draws at each look if they are added to the graphs: stretches of 1, 1, 2, 2, 4, ... times."""
    # the first stretch may end the run; a later one that satisfies the criterion gets a second half of equal length
    looks, before = [], 0
    for thin in [1, 1, 2, 2, 4, 4, 8, 8, 16][:n_looks]:
        looks.append(tuple((before, before + thin * (i + 1)) for i in range(draws)))
        before += thin * draws
    if n_looks > 1:
        looks.append(tuple((looks[-1][0][0], before + thin * (i + 1)) for i in range(draws)))
    return looks


def extensions(draws, n_looks):
    """Return by hand the draws at each look without graphs: the draws double and every second one is kept."""
    return [tuple((0, 2**k * (i + 1)) for i in range(draws)) for k in range(n_looks)]


@pytest.mark.parametrize("n_looks", range(1, 10))
@pytest.mark.parametrize(("renews", "by_hand"), [(1.0, renewals), (0.0, extensions)], ids=["renewed", "extended"])
def test_draws_are_judged_after_each_stretch(counting, monkeypatch, n_looks, renews, by_hand):
    """The last draws are returned: those of one stretch alone, evenly spaced, at the step where the run ends."""
    expected, looks = by_hand(DRAWS, n_looks), []
    counting(Rules(renews=renews))

    def judge(run):
        looks.append(run.draws[0].tree_of_draw)
        return judged_as(len(looks) >= n_looks)

    monkeypatch.setattr(_course, "judge", judge)
    assert ended(run_of(DRAWS, MOST)) == (expected[-1], expected[-1][-1][1]) and looks == expected


@pytest.mark.parametrize(
    ("good", "thins"),
    [
        ([1], [1, 1, 1, 2, 2, 2, 4, 4, 8]),
        ([2, 5], [1, 1, 2, 2, 4, 2, 2, 4, 4]),
        ([5], [1, 1, 2, 2, 4, 4, 4, 8, 8]),
        ([2, 4], [1, 1, 2, 2, 4]),
    ],
)
def test_a_second_half_that_fails_is_judged_with_the_first(counting, monkeypatch, good, thins):
    """``good``: judgements that the draws satisfy. Both are returned, or leave the other stretches as they are."""
    counting(Rules())
    looks = []

    def judge(run):
        looks.append((run.stretch.thin, run.draws[0].tree_of_draw))
        return judged_as(len(looks) - 1 in good or len(looks) == len(thins))

    monkeypatch.setattr(_course, "judge", judge)
    returned, steps = ended(run_of(6, MOST))
    assert [thin for thin, _ in looks[: len(thins)]] == thins
    if good == [2, 4]:
        assert len(looks) == 5 and returned == looks[4][1] == tuple((12, 12 + 4 * (i + 1)) for i in range(6))
        assert steps == 36


def test_a_shorter_stretch_follows_two_halves_if_there_is_room_for_no_other(counting, monkeypatch):
    counting(Rules())
    looks = []

    def judge(run):
        looks.append(run.draws[0].tree_of_draw)
        return judged_as(len(looks) == 2)

    monkeypatch.setattr(_course, "judge", judge)
    assert ended(run_of(6, 24)) == (tuple((18, step) for step in range(19, 25)), 24)


def test_a_full_graph_ends_the_renewals(counting, monkeypatch):
    """Good draws are confirmed nevertheless. Others double, like those of a run without graphs."""
    counting(Rules(good_from=12))
    monkeypatch.setattr(_course, "has_room_in_graphs", lambda run: run.stretch.number < 1)
    assert ended(run_of(6, MOST)) == (tuple((6, step) for step in range(13, 19)), 18)
    counting(Rules())
    monkeypatch.setattr(_course, "has_room_in_graphs", lambda run: run.stretch.number < 2)
    draws, steps = ended(run_of(6, 6 + 6 + 3 * 12 + 5))
    assert draws[-1] == (12, 6 + 6 + 36 + 4) and steps == 52 and {before for before, _ in draws} == {12}


RULES = [Rules(), Rules(0.15), Rules(0.3, 0.5), Rules(0.1, 0.0)]


@pytest.mark.more(everyday=["1-rules0"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 3, 9])
def test_every_number_of_steps_is_kept_to_and_repeats(counting, rules, draws):
    """Draws of one stretch; no more steps than there may be, and the same draws by the steps that were made."""
    counting(rules)
    for most in range(draws, 40 * draws):
        returned, steps = ended(run_of(draws, most))
        assert len(returned) == draws and steps <= most
        assert len({before for before, _ in returned}) == 1 and returned[-1][1] == steps
        assert ended(run_of(draws, steps)) == (returned, steps)


def costs(kind, seed):
    """Return a function with the seconds of one step after another: even, slower and slower, or uneven."""
    source, made = random.Random(seed), [0]

    def cost():
        made[0] += 1
        return {"even": 1.0, "slower": 1.0 + made[0] / 20.0, "uneven": source.choice((0.2, 1.0, 5.0))}[kind]

    return cost


@pytest.mark.more(everyday=["1-rules0-even", "1-rules3-even", "3-rules1-slower", "9-rules1-uneven", "9-rules2-uneven"])
@pytest.mark.parametrize("kind", ["even", "slower", "uneven"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 3, 9])
def test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, rules, draws, kind):
    counting(rules)
    ends = set()
    for seconds in [*range(draws, 60 * draws, max(draws // 2, 1)), *range(60 * draws, 300 * draws, 7 * draws)]:
        returned, steps = ended(run_of(draws, MOST, Clock(float(seconds), costs(kind, seconds))))
        if len(returned) < draws:
            # the first stretch was cut
            assert returned == tuple((0, i + 1) for i in range(len(returned))) and steps == len(returned)
            continue
        assert len({before for before, _ in returned}) == 1
        assert ended(run_of(draws, steps)) == (returned, steps), seconds
        ends.add(steps)
    assert len(ends) > (1 if rules.often else 5)


@pytest.mark.more(everyday=["None-rules0"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("seconds", [None, 1e12])
def test_every_cut_of_a_run_leads_to_its_end(counting, rules, seconds):
    """After each number of draws of each stretch, also with a clock that does not end the run."""
    for most in (DRAWS, 2 * DRAWS + 1, 5 * DRAWS, 13 * DRAWS + 2, 31 * DRAWS):
        counting(rules)
        whole = ended(run_of(DRAWS, most))
        runs = counting(rules)
        assert ended(run_of(DRAWS, most, Clock(seconds, lambda: 1.0))) == whole
        for cut in list(runs):
            for n in range(cut.n_draws, cut.stretch.goal + 1):
                part = copy.copy(cut)
                with_draws(part, n)
                part.stop, part.stretch_start, part.run_before = Clock(seconds, lambda: 1.0), 0.0, None
                assert ended(part) == whole


def looks(counting, patch):
    test_draws_are_judged_after_each_stretch(counting, patch, 5, 1.0, renewals)


def doublings(counting, patch):
    test_draws_are_judged_after_each_stretch(counting, patch, 4, 0.0, extensions)


def clocks(counting, patch):
    test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, Rules(), 9, "uneven")


def without_limit(run, *thins, first_that_fits=_course.first_that_fits):
    stretch = run.stretch
    thin = first_that_fits(run, *thins)
    run.stretch = stretch
    return thin


WRONG = {
    "stretches of equal length": ("thin_of_stretch", lambda number: 1, looks),
    "nothing confirmed": ("next_stretch", lambda run: None if run.verdict.passes else next_stretch(run), looks),
    "the end by the clock forgotten": ("first_that_fits", without_limit, clocks),
    "the first of two draws kept": ("even_indices", lambda n, m: (_course.np.arange(m) * n) // m, doublings),
}


@pytest.mark.planted
@pytest.mark.parametrize("what", list(WRONG))
def test_errors_in_the_stretches_are_noticed(counting, monkeypatch, what):
    name, wrong, shown_by = WRONG[what]
    shown_by(counting, monkeypatch)

    def counting_with_the_error(rules):
        runs = counting(rules)
        monkeypatch.setattr(_course, name, wrong)
        return runs

    with pytest.raises(AssertionError):
        shown_by(counting_with_the_error, monkeypatch)


def found(name="classes", draws=250, **rest):
    return pt.sample(MODELS[name], draws, **({"chains": 4, "rng": 4, "progress": False} | rest))


def few(name="classes", draws=6, **rest):
    return found(name, draws, **({"chains": 2} | rest))


@pytest.fixture
def judged(monkeypatch):
    """Let runs of any size go on until the criterion was judged as often as there are to be answers False."""

    def judge(n_false):
        seen = []
        monkeypatch.setattr(_sample, "MIN_JUDGED_DRAWS", 1)
        monkeypatch.setattr(
            _course, "judge", lambda run: Verdict("it fails" * (seen.append(run.n_draws) or len(seen) <= n_false), None)
        )
        return seen

    return judge


def test_the_default_run_repeats():
    post = found()
    assert post.n_draws == 250 and post.course.teams == [[0, 2], [1, 3]]
    assert_same(found(steps=post.course.steps), post)
    assert np.isfinite(post.course.evidences).all()


@pytest.mark.parametrize(("n_false", "steps", "thin"), [(0, 6, 1), (1, 12 + 6, 1), (4, 60 + 24, 4)])
def test_stretches_are_renewed_until_the_criterion_holds(judged, n_false, steps, thin):
    """They have 1, 1, 2, 2, 4, 4, ... times the first steps; a second half that confirms a later one is returned."""
    seen, n_looks = judged(n_false), n_false + 1 + (n_false > 0)
    post = few()
    assert seen == [6] * n_looks and (post.n_draws, post.course.steps, post.course.thin) == (6, steps, thin)
    seen = judged(n_false)
    assert_same(few(steps=post.course.steps), post)
    assert len(seen) == n_looks - (n_false == 0)


@pytest.mark.more(everyday=["0-1"])
@pytest.mark.parametrize(("n_false", "thin"), [(0, 1), (3, 8)])
def test_runs_without_graphs_double_until_the_criterion_holds(judged, n_false, thin):
    """Every second of their draws is kept, so that they are those of a longer run, thinned."""
    judged(n_false)
    post = few("shared variance")
    assert (post.n_draws, post.course.steps, post.course.thin) == (6, 6 * thin, thin)
    judged(n_false)
    assert_same(few("shared variance", steps=post.course.steps), post)


@pytest.mark.parametrize("kernel", [pytest.param("default", marks=pytest.mark.more), "local"])
def test_a_run_ended_by_the_clock_is_repeated_by_its_steps(judged, kernel):
    """Unless tuning was cut, which is said."""
    for seconds in (1.0, 4.0, 16.0, 64.0):
        judged(10_000)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            post = found(draws=16, seconds=seconds, work=1e12, kernel=kernel)
        if not any("ended the run early" in str(one.message) for one in caught):
            break
    assert post.n_draws == 16 and post.course.steps >= 16
    assert f"steps={post.course.steps}" in post.draws.calls[0].line and "seconds" not in post.draws.calls[0].line
    judged(10_000)
    again = found(draws=16, steps=post.course.steps, work=1e12, kernel=kernel)
    more = [pt.resume(one, 4, progress=False) for one in (post, again)]
    assert np.array_equal(more[0].log_score, more[1].log_score)
    # a short time limit leaves no time for the evidences, and chains cut short in a stretch rest before it
    unequal = {"evidences": None} | ({"rests": ()} if kernel == "default" else {})
    post.course, again.course = (one.course._replace(**unequal) for one in (post, again))
    assert_same(again, post)


@pytest.mark.more
@pytest.mark.parametrize("n_draws", [0, 3])
def test_an_interrupted_stretch_leaves_what_was_before_it(judged, monkeypatch, n_draws):
    judged(0)
    whole = few()
    judged(100)
    real, began = _course.make_draws, []

    def interrupted(run):
        began.append(run.stretch)
        if len(began) == 2 and n_draws > 0:
            run.stretch = run.stretch._replace(goal=n_draws)
            real(run)
        if len(began) == 2:
            raise KeyboardInterrupt
        return real(run)

    monkeypatch.setattr(_course, "make_draws", interrupted)
    with pytest.warns(UserWarning, match="instead of a new stretch the 6 draws a chain before it are returned"):
        post = few()
    assert [(stretch.goal, stretch.thin, stretch.before) for stretch in began] == [(6, 1, 0), (6, 1, 6)]
    assert post.course.steps == 6
    assert_same(post, whole)


@pytest.mark.more
@pytest.mark.filterwarnings("ignore:seconds=1 ended the run early")
@pytest.mark.parametrize("kernel", ["default", "local"])
def test_work_ends_a_run_that_has_a_clock_too(judged, kernel):
    """Whichever is first: the work, as it does without a clock, or the clock."""
    judged(100)
    post = found(draws=16, kernel=kernel, work=2e7)
    assert post.course.steps > 16
    judged(100)
    assert_same(found(draws=16, kernel=kernel, work=2e7, seconds=1e6), post)
    judged(10_000)
    began = time.perf_counter()
    assert found(draws=16, kernel=kernel, work=1e12, seconds=1.0).n_draws == 16 and time.perf_counter() - began < 5.0


@pytest.mark.more
def test_few_draws_are_not_waited_for(monkeypatch):
    """249 draws of 4 chains are fewer than 1,000 in all."""
    monkeypatch.setattr(_course, "judge", lambda run: pytest.fail("judged"))
    for post in (found(draws=249), found(draws=249, kernel="local")):
        assert (post.n_draws, post.course.steps, post.course.thin) == (249, 249, 1)


@pytest.mark.more
def test_processes_draw_the_same(judged):
    judged(3)
    whole = few()
    assert whole.course.steps == 6 + 6 + 12 + 12 + 12
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        judged(3)
        assert_same(few(executor=pool), whole)


@pytest.mark.more
def test_little_work_is_shared_out(judged):
    """No density is fitted, a step has fewer proposals, and a run that never converges ends."""
    judged(100)
    ample, scarce = found(kernel="local", steps=250), found(work=3e6)
    assert ample.course.kernel.names == scarce.course.kernel.names
    assert (ample.course.kernel.block, scarce.course.evidences) == (100, None) and 1 <= scarce.course.kernel.block < 50
    assert 250 <= scarce.course.steps <= 8 * 250
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        judged(100)
        assert_same(found(work=3e6, executor=pool), scarce)
    judged(100)
    assert_same(found(work=3e6, steps=scarce.course.steps), scarce)
    judged(100)
    least = found(draws=20, work=1.0)
    assert (least.course.kernel.block, least.course.steps) == (1, 20)


def cells(graph):
    return {(int(piece.hash), int(piece.depth)) for piece in graph.piece[: graph.used[0]]}


def graphs_of(post):
    return list(post.course.tuned.graphs)


def cells_of_draws(post, chains):
    model, out = post.model, set()
    for tree in np.unique(post.draws.tree_of_draw[chains]).tolist():
        chain = Chain(model.lowered, read_kernel("local"), np.random.default_rng(1))
        while True:
            try:
                load_tree(model, chain, post.draws.distinct_tree(tree))
                break
            except IndexError:
                chain.enlarge()
        state = chain.state
        node = 0
        while node != NONE:
            here = state.node[node]
            if here["splittable"]:
                out.add((int(here["hash"]), int(here["depth"])))
            node = int(next_node(chain.packed_state, np.int64(node), np.int64(0)))
    return out


@pytest.mark.more(everyday=["2"])
@pytest.mark.parametrize("chains", [2, 3])
def test_after_a_failed_verdict_each_graph_contains_the_draws_of_the_other_team(judged, chains):
    """And what it contained before. The teams keep their densities, and their graphs stay two."""
    judged(0)
    first = few("numbers", 60, chains=chains)
    judged(1)
    second = few("numbers", 60, chains=chains)
    drawn = [cells_of_draws(first, team) for team in first.course.teams]
    old, new = graphs_of(first), graphs_of(second)
    assert second.course.teams == first.course.teams and len(new) == 2
    for team in (0, 1):
        assert cells(old[team]) < cells(new[team]) and new[team].used[IS_GROWING] == 0
        assert drawn[0] | drawn[1] <= cells(new[team])
    # the other team has found something before
    assert any(drawn[1 - team] - cells(old[team]) for team in (0, 1))
    assert np.array_equal(first.course.tuned.density, second.course.tuned.density)
    assert second.course.kernel == first.course.kernel


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ({"steps": 500, "tune": 10}, "steps is for an adaptive run; leave out tune"),
        ({"seconds": 5.0, "thin": 2}, "seconds is for an adaptive run; leave out thin"),
        ({"seconds": 5.0, "steps": 500, "proposals": 9}, "steps, seconds is for an adaptive run; leave out proposals"),
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
        ({"work": 1e6, "tune": 10}, "work is for an adaptive run; leave out tune"),
    ],
)
def test_lengths_out_of_range(rest, said):
    with pytest.raises(ValueError, match=said):
        found(**rest)


def test_the_log_posterior_is_judged_before_trees_are_joined(monkeypatch):
    """Since this takes seconds if trees are large."""
    monkeypatch.setattr(_course, "log_posterior_failure", lambda log_posterior: "it fails")
    monkeypatch.setattr(_course, "first_failure", lambda post: pytest.fail("trees were joined"))
    assert found(steps=500).course.steps == 500


@pytest.mark.parametrize(("n", "m"), [(10, 5), (10, 10), (375, 250), (17, 16), (31, 16), (9, 1)])
def test_draws_kept_lie_even_indices(n, m):
    which = even_indices(n, m)
    gaps = np.diff(which, prepend=-1)
    assert len(which) == m and which[-1] == n - 1
    assert {int(gap) for gap in gaps} <= {n // m, -(-n // m)} and gaps.min() >= 1


@pytest.mark.more(everyday=["shared variance-None-1"])
@pytest.mark.parametrize("m", [1, 7, 20, 29, 40])
@pytest.mark.parametrize(("name", "betas"), [("shared variance", None), ("classes", 2)])
def test_chosen_draws_are_those_of_a_plain_loop(name, betas, m):
    chain, tuned = chain_at(request_of(MODELS[name], read_kernel("local", 5), betas=betas), 3)
    done(tune(chain, tuned, 5, 5))
    done(draw(chain, tuned, 15, 1, False))
    first = chain.take_draws()
    done(draw(chain, tuned, 25, 1, False))
    saved, which = join_draws(first, chain.take_draws()), even_indices(40, m)
    some = select_draws(saved, which)
    assert list(some.used) == [m, len(np.unique(saved.tree_of_draw[which])), len(some.node)]
    before = 0
    for i, number in enumerate(which.tolist()):
        here, there = some.tree_of_draw[i], saved.tree_of_draw[number]
        ours, theirs = (slice(*s.tree.start[t : t + 2]) for s, t in ((some, here), (saved, there)))
        assert np.array_equal(some.node[ours], saved.node[theirs])
        assert np.array_equal(some.stats[ours], saved.stats[theirs])
        for field in ("log_prior", "log_score"):
            assert some.tree[field][here] == saved.tree[field][there]
        assert np.array_equal(some.noise[i], saved.noise[number], equal_nan=True)
        assert np.array_equal(some.moves[i], saved.moves[before : number + 1].sum(axis=0))
        assert np.array_equal(some.levels[i], saved.levels[number]) and saved.levels.shape == (40, betas or 0)
        assert some.is_stump[i] == saved.is_stump[number]
        before = number + 1
    drawn = [Draws.join(MODELS[name], [one], moves=tuned.kernel.count_names) for one in (some, saved)]
    scores = [one.log_score_of_tree[one.tree_of_draw] for one in drawn]
    assert np.allclose(scores[0], scores[1][:, which], rtol=1e-13)


@pytest.mark.more
@pytest.mark.parametrize("name", ["classes", "shared variance"])
def test_every_checkpoint_leads_to_the_same_draws(name, judged, copies, tmp_path):
    """From before tuning, from the first draws, from the stretches after them."""
    judged(100)
    whole = found(name, 3, chains=2, steps=13, checkpoint=tmp_path / "run.nc", every=1e-6)
    # stretches of 3, 3 and 6 steps; or 12 steps in one
    assert (whole.course.steps, whole.course.thin, whole.n_draws) == (12, {"classes": 2}.get(name, 4), 3)
    assert_same(found(name, 3, chains=2, steps=13), whole)
    thins = {}
    for path in copies:
        if made_in(path):
            course = course_of(path)
            thins.setdefault(course.thin, []).append(path)
            assert course.request.draws == 3
    assert set(thins) == {1, 2}
    for some in (copies[:2], thins[1][-2:], thins[2]):
        assert_same(pt.resume(some[len(some) // 2], progress=False), whole)


@pytest.mark.more
def test_a_run_by_the_clock_goes_on_from_its_checkpoint(judged, copies, tmp_path):
    judged(1)
    whole = few(seconds=1e6, checkpoint=tmp_path / "run.nc", every=1e-6)
    assert course_of(copies[0]).request.seconds == 1e6
    judged(1)
    assert_same(pt.resume(copies[1], progress=False), whole)
    in_second = [copy for copy in copies if made_in(copy) and course_of(copy).stretch.number == 1]
    judged(0)
    assert_same(pt.resume(in_second[len(in_second) // 2], progress=False), whole)


def test_files_keep_steps_and_teams(judged, tmp_path):
    judged(2)
    post = few("numbers", steps=24)
    post.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert_same(again, post)
    assert (again.course.steps, again.course.thin) == (24, 2)
    more = pt.resume(again, 4, progress=False)
    assert_same(more, pt.resume(post, 4, progress=False))
    assert (more.n_draws, more.course.steps, more.course.thin) == (10, 24 + 8, 2)
    assert more.course.teams == post.course.teams == [[0], [1]]


def test_weights_of_named_kernels_are_fractions():
    for weights in KERNEL_WEIGHTS.values():
        assert sum(weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("rows", [1.0, 1e5, 1e12])
def test_work_is_shared_as_said(rows):
    kernel = read_kernel("whole").with_weights_by_cost(COST, rows)
    weights, each = np.array(kernel.weights), COST[1] / COST[0] + PROPOSAL_ROWS
    assert kernel.names == tuple(WHOLE_WEIGHTS) and kernel.adapts
    assert weights.sum() == pytest.approx(1.0) and weights.min() > 0.0
    fractions = weights * each / (weights * each).sum()
    assert fractions[0] == pytest.approx(0.45) and fractions[1] == pytest.approx(0.15)
    assert fractions[2:].sum() == pytest.approx(0.4)
    given = np.array([WHOLE_WEIGHTS[name] for name in WHOLE_WEIGHTS])[2:]
    assert weights[2:] / weights[2:].sum() == pytest.approx(given / given.sum())
    most, wanted = int(MAX_LEARNED_PROPOSALS / weights[0]), rows / (weights * each).sum()
    assert kernel.block == min(max(int(wanted), MIN_PROPOSALS), most)
    assert kernel.rows_per_block(COST) == pytest.approx((weights * each).sum() * kernel.block)


def test_what_was_never_proposed_costs_a_step():
    """Nothing is divided by 0; few proposals of the dear ones may make a block small, not empty."""
    kernel = read_kernel("whole").with_weights_by_cost(np.zeros((2, len(WHOLE_WEIGHTS))), 1e12)
    assert sum(kernel.weights) == pytest.approx(1.0)
    assert kernel.weights[0] == pytest.approx(0.45) and kernel.block == int(MAX_LEARNED_PROPOSALS / kernel.weights[0])
