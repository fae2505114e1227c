"""The states of an adaptive run, by chains that only count: every end, every cut, every clock."""

import random
from typing import NamedTuple

import pytest

from pactree_mcmc.mcmc import schedule as _schedule
from pactree_mcmc.mcmc.run.task import Length, Plan
from pactree_mcmc.mcmc.run.workers import RunState
from pactree_mcmc.mcmc.schedule import Schedule, State

CHAINS, DRAWS = 2, 6
MOST = 1 << 40


class Counted(NamedTuple):
    """Result of a chain that only counts: its draws as (stretch, step), its step, and its stretch."""

    draws: tuple = ()
    step: int = 0
    stretch: int = 0

    @property
    def n_draws(self):
        return len(self.draws)

    def select(self, indices):
        return self._replace(draws=tuple(self.draws[i] for i in indices))

    def with_draws(self, n, thin):
        """Return the chain with ``n`` draws in all."""
        more = tuple((self.stretch, self.step + thin * (i + 1)) for i in range(n - len(self.draws)))
        return self._replace(draws=self.draws + more, step=self.step + thin * len(more))


class Clock:
    """Clock that steps of chains move, and the signal that it gives at its limit."""

    def __init__(self, seconds=None, cost=None):
        self.now, self.limit, self.cost = 0.0, seconds, cost
        self.is_timed = seconds is not None

    def perf_counter(self):
        return self.now

    def is_set(self):
        return self.is_timed and self.now >= self.limit


def counted(work):
    """Make the draws of the plans. A clock ends them early, after one draw at least if there is none."""
    plan, n, clock = work.plans[0], work.results[0].n_draws, work.stop
    while n < plan.draws and not (clock.is_set() and n > 0):
        n += 1
        if clock.is_timed:
            clock.now += clock.cost() * plan.thin
    return work._replace(results=[result.with_draws(n, plan.thin) for result in work.results])


def next_stretch(work):
    """Return the chains without draws, in a new stretch."""
    return [Counted((), result.step, result.stretch + 1) for result in work.results]


class Rules(NamedTuple):
    """Rules when the criterion holds and whether draws can be added to the graphs, both by the draws alone."""

    often: float = 0.0
    renews: float = 1.0
    good_from: int = MOST
    """Steps from which on the criterion holds in any case."""

    def judge_draws(self, plan, results):
        draws = results[0].draws
        is_good = draws[-1][1] >= self.good_from or random.Random(repr(draws)).random() < self.often
        return is_good, None

    def can_add_draws(self, work):
        return random.Random(f"renews {work.results[0].stretch}").random() < self.renews


@pytest.fixture
def counting(monkeypatch):
    """Let a `Schedule` run chains that only count; return the works on its way."""

    def begin(rules):
        works = []

        def draw(work):
            works.append(work)
            return counted(work)

        monkeypatch.setattr(_schedule, "make_draws", draw)
        monkeypatch.setattr(_schedule, "add_draws_to_graphs", next_stretch)
        monkeypatch.setattr(_schedule, "drop_draws", next_stretch)
        monkeypatch.setattr(_schedule, "judge_draws", rules.judge_draws)
        monkeypatch.setattr(_schedule, "can_add_draws", rules.can_add_draws)
        return works

    return begin


def work_of(draws, steps, clock=None):
    clock = clock or Clock()
    plan = Plan(None, draws, 0, 1, None, None, None, None, Length(draws, steps, clock.limit))
    return RunState([plan] * CHAINS, [Counted()] * CHAINS, None, False, None, stop=clock)


def run(work):
    """Return the draws, as (stretch, step), and the steps made."""
    with pytest.MonkeyPatch.context() as patch:
        if work.stop.is_timed:
            patch.setattr(_schedule, "time", work.stop)
        done, steps, _ = Schedule(counted(work), 0.0).run()
    (draws,) = {result.draws for result in done.results}
    return draws, steps


def renewals(draws, n_looks):
    """Return by hand the draws at each look if they are added to the graphs: stretches of 1, 1, 2, 2, 4, 4 times.

    The first stretch may end the run. A later one that satisfies the criterion is followed by one of equal length. The
    draws of the sixth double, like those of a run without graphs.
    """
    looks, before = [], 0
    thins = [1, 1, 2, 2, 4, 4][:n_looks]
    for stretch, thin in enumerate([*thins, thins[-1]] if 1 < n_looks <= 6 else thins):
        looks.append(tuple((stretch, before + thin * (i + 1)) for i in range(draws)))
        before += thin * draws
    start = before - 4 * draws
    for k in range(1, n_looks - 5):
        looks.append(tuple((5, start + 4 * 2**k * (i + 1)) for i in range(draws)))
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

    def judge_draws(plan, results):
        looks.append(results[0].draws)
        return len(looks) >= n_looks, None

    monkeypatch.setattr(_schedule, "judge_draws", judge_draws)
    assert run(work_of(DRAWS, MOST)) == (expected[-1], expected[-1][-1][1])
    assert looks == expected


@pytest.mark.parametrize(
    ("good", "thins"),
    [
        ([1], [1, 1, 1, 2, 2, 4, 4, 8, 16]),
        ([2, 4], [1, 1, 2, 2, 2, 2, 4, 4, 8]),
        ([5], [1, 1, 2, 2, 4, 4, 4, 8, 16]),
    ],
)
def test_a_confirmation_that_fails_leaves_the_other_stretches_as_they_are(counting, monkeypatch, good, thins):
    """``good``: judged stretches, confirming ones among them, that satisfy the criterion."""
    counting(Rules())
    looks = []

    def judge_draws(plan, results):
        looks.append(plan.thin)
        return len(looks) - 1 in good or len(looks) == len(thins), None

    monkeypatch.setattr(_schedule, "judge_draws", judge_draws)
    run(work_of(6, MOST))
    assert looks[: len(thins)] == thins


def test_a_full_graph_ends_the_renewals(counting, monkeypatch):
    """Good draws are confirmed nevertheless. Others double, like those of a run without graphs."""
    counting(Rules(good_from=12))
    monkeypatch.setattr(_schedule, "can_add_draws", lambda work: work.results[0].stretch < 1)
    assert run(work_of(6, MOST)) == (tuple((2, step) for step in range(13, 19)), 18)
    counting(Rules())
    monkeypatch.setattr(_schedule, "can_add_draws", lambda work: work.results[0].stretch < 2)
    draws, steps = run(work_of(6, 6 + 6 + 3 * 12 + 5))
    assert draws[-1] == (2, 6 + 6 + 36 + 4) and steps == 52
    assert {stretch for stretch, _ in draws} == {2}


RULES = [Rules(), Rules(0.15), Rules(0.3, 0.5), Rules(0.1, 0.0)]


@pytest.mark.more(everyday=["1-rules0"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 3, 9])
def test_every_number_of_steps_is_kept_to_and_repeats(counting, rules, draws):
    """Draws of one stretch; no more steps than there may be, and the same draws by the steps that were made."""
    counting(rules)
    for most in range(draws, 40 * draws):
        returned, steps = run(work_of(draws, most))
        assert len(returned) == draws and steps <= most
        assert len({stretch for stretch, _ in returned}) == 1 and returned[-1][1] == steps
        assert run(work_of(draws, steps)) == (returned, steps)


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
        returned, steps = run(work_of(draws, MOST, Clock(float(seconds), costs(kind, seconds))))
        if len(returned) < draws:
            # the first stretch was cut
            assert returned == tuple((0, i + 1) for i in range(len(returned))) and steps == len(returned)
            continue
        assert len({stretch for stretch, _ in returned}) == 1
        assert run(work_of(draws, steps)) == (returned, steps), seconds
        ends.add(steps)
    assert len(ends) > (1 if rules.often else 5)


@pytest.mark.more(everyday=["None-rules0"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("seconds", [None, 1e12])
def test_every_cut_of_a_run_leads_to_its_end(counting, rules, seconds):
    """After each number of draws of each stretch, also with a clock that does not end the run."""
    for most in (DRAWS, 2 * DRAWS + 1, 5 * DRAWS, 13 * DRAWS + 2, 31 * DRAWS):
        counting(rules)
        whole = run(work_of(DRAWS, most))
        works = counting(rules)
        assert run(work_of(DRAWS, most, Clock(seconds, lambda: 1.0))) == whole
        for work in list(works):
            for n in range(work.results[0].n_draws, work.plans[0].draws + 1):
                part = [result.with_draws(n, work.plans[0].thin) for result in work.results]
                stop = Clock(seconds, lambda: 1.0)
                assert run(work._replace(results=part, stop=stop)) == whole


def looks(counting, patch):
    test_draws_are_judged_after_each_stretch(counting, patch, 5, 1.0, renewals)


def doublings(counting, patch):
    test_draws_are_judged_after_each_stretch(counting, patch, 4, 0.0, extensions)


def clocks(counting, patch):
    test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, Rules(), 9, "uneven")


with_plan = _schedule._change_plans


def without_limit(work, **changes):
    """Change plans, but not the limits alone."""
    return work if set(changes) == {"length"} else with_plan(work, **changes)


WRONG = {
    "stretches of equal length": ("Schedule._next_thin", lambda schedule, confirms: schedule.plan.thin, looks),
    "nothing confirmed": ("Schedule._confirm", lambda schedule: State.END, looks),
    "draws before a stretch kept": ("add_draws_to_graphs", lambda work: work.results, looks),
    "the end by the clock forgotten": ("_change_plans", without_limit, clocks),
    "the first of two draws kept": ("even_indices", lambda n, m: (_schedule.np.arange(m) * n) // m, doublings),
}


@pytest.mark.planted
@pytest.mark.parametrize("what", list(WRONG))
def test_errors_in_the_schedule_are_noticed(counting, monkeypatch, what):
    name, wrong, shown_by = WRONG[what]
    shown_by(counting, monkeypatch)
    owner = Schedule if name.startswith("Schedule.") else _schedule

    def counting_with_the_error(rules):
        works = counting(rules)
        monkeypatch.setattr(owner, name.removeprefix("Schedule."), wrong)
        return works

    with pytest.raises(AssertionError):
        shown_by(counting_with_the_error, monkeypatch)
