"""The stretches of an adaptive run, by chains that only count: every end, every cut, every clock."""

import copy
import random
from math import inf
from typing import NamedTuple

import pytest

from pactree_mcmc.mcmc import course as _course
from pactree_mcmc.mcmc.course import complete, make_stretches, next_stretch, thin_out
from pactree_mcmc.mcmc.run.records import Request, Stretch, Tuned
from pactree_mcmc.mcmc.run.run import Run, Verdict

CHAINS, DRAWS = 2, 6
MOST = 1 << 40


class Standing:
    """A chain that takes no part."""

    def at_rest(self):
        return self


class Counted(NamedTuple):
    """Draws of a chain that only counts, as (steps before the stretch, step)."""

    tree_of_draw: tuple = ()

    def select(self, indices):
        return Counted(tuple(self.tree_of_draw[i] for i in indices))


class Clock:
    """Clock that steps of chains move, and the signal that it gives at its limit."""

    def __init__(self, seconds=None, cost=None):
        self.now, self.seconds, self.cost = 0.0, seconds, cost
        self.is_timed, self.until = seconds is not None, inf if seconds is None else seconds

    def perf_counter(self):
        return self.now

    def is_set(self):
        return self.now >= self.until


def with_draws(run, n):
    """Give the chains of a run ``n`` draws in all."""
    draws, stretch = run.draws[0].tree_of_draw if run.draws[0] else (), run.stretch
    # the step of a draw is its last one after every second was dropped
    more = tuple((stretch.before, stretch.before + stretch.thin * (i + 1)) for i in range(len(draws), n))
    run.draws = [Counted(draws + more)] * CHAINS


def counted(run):
    """Make the draws of a run. A clock ends them early, after one draw at least if there is none."""
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
    """Return the draws, as (steps before the stretch, step), and the steps made."""
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
    """Return by hand the draws at each look if they are added to the graphs: stretches of 1, 1, 2, 2, 4, 4, ... times.

    The first stretch may end the run. A later one that satisfies the criterion gets a second half of equal length.
    """
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
    assert ended(run_of(DRAWS, MOST)) == (expected[-1], expected[-1][-1][1])
    assert looks == expected


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


def test_a_full_graph_ends_the_renewals(counting, monkeypatch):
    """Good draws are confirmed nevertheless. Others double, like those of a run without graphs."""
    counting(Rules(good_from=12))
    monkeypatch.setattr(_course, "has_room_in_graphs", lambda run: run.stretch.number < 1)
    assert ended(run_of(6, MOST)) == (tuple((6, step) for step in range(13, 19)), 18)
    counting(Rules())
    monkeypatch.setattr(_course, "has_room_in_graphs", lambda run: run.stretch.number < 2)
    draws, steps = ended(run_of(6, 6 + 6 + 3 * 12 + 5))
    assert draws[-1] == (12, 6 + 6 + 36 + 4) and steps == 52
    assert {before for before, _ in draws} == {12}


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


@pytest.mark.more(everyday=["1-rules0-even", "1-rules3-even", "3-rules1-slower", "9-rules2-uneven"])
@pytest.mark.parametrize("kind", ["even", "slower", "uneven"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 3, 9])
def test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, rules, draws, kind):
    """Whatever its steps cost, and wherever it is when its time is over."""
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


def without_confirmation(run):
    return None if run.verdict.passes else next_stretch(run)


def without_limit(run, *thins, first_that_fits=_course.first_that_fits):
    stretch = run.stretch
    thin = first_that_fits(run, *thins)
    run.stretch = stretch
    return thin


WRONG = {
    "stretches of equal length": ("thin_of_stretch", lambda number: 1, looks),
    "nothing confirmed": ("next_stretch", without_confirmation, looks),
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
