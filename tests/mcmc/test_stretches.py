"""The states of a run that finds its own length, by chains that only count: every end, every cut, every clock."""

import random
from typing import NamedTuple

import pytest

from pactree_mcmc.mcmc import schedule as _schedule
from pactree_mcmc.mcmc.run.task import Length, Plan
from pactree_mcmc.mcmc.run.workers import Done, Work
from pactree_mcmc.mcmc.schedule import Schedule, State

CHAINS = 2
MOST = 1 << 40
FOREVER = 1e12


class Counted(NamedTuple):
    """State of a chain that only counts: its draws as (stretch, step), its step, and its stretch."""

    draws: tuple = ()
    step: int = 0
    stretch: int = 0

    @property
    def n_draws(self):
        return len(self.draws)

    def chosen(self, which):
        return self._replace(draws=tuple(self.draws[i] for i in which))

    def drawn(self, n, thin):
        """The chain with ``n`` draws in all."""
        more = tuple((self.stretch, self.step + thin * (i + 1)) for i in range(n - len(self.draws)))
        return self._replace(draws=self.draws + more, step=self.step + thin * len(more))


class Clock:
    """A clock that steps of chains move, and the signal that it gives at its limit."""

    is_timed = True

    def __init__(self, seconds, cost):
        self.now, self.limit, self.cost = 0.0, seconds, cost

    def perf_counter(self):
        return self.now

    def is_set(self):
        return self.now >= self.limit


class Endless:
    """The signal of a run without a time limit."""

    is_timed = False

    def is_set(self):
        return False


def counted(work):
    """Make the draws of the plans; a clock ends them early, after one draw at least if there is none."""
    plan, first = work.plans[0], work.before[0]
    n, clock = first.n_draws, work.stop
    while n < plan.draws and not (clock.is_set() and n > 0):
        n += 1
        if clock.is_timed:
            clock.now += clock.cost() * plan.thin
    return Done([result.drawn(n, plan.thin) for result in work.before], True)


def renewed(work, results):
    return [Counted((), result.step, result.stretch + 1) for result in results]


class Rules(NamedTuple):
    """When the criterion holds and whether draws can be added to the graphs, both by the draws alone."""

    often: float = 0.0
    renews: float = 1.0
    enough: int = MOST
    """Steps from which on the criterion holds in any case."""

    def judged(self, plan, results):
        draws = results[0].draws
        is_good = draws[-1][1] >= self.enough or random.Random(repr(draws)).random() < self.often
        return is_good, None

    def can_add_draws(self, work, results):
        return random.Random(f"renews {results[0].stretch}").random() < self.renews


@pytest.fixture
def counting(monkeypatch):
    """Let a `Schedule` run chains that only count; return the plans and results on its way."""

    def begin(rules):
        cuts = []

        def noted(work):
            cuts.append((work.plans, work.before))
            return counted(work)

        monkeypatch.setattr(_schedule, "do", noted)
        monkeypatch.setattr(_schedule, "with_draws", renewed)
        monkeypatch.setattr(_schedule, "without_draws", renewed)
        monkeypatch.setattr(_schedule, "judged", rules.judged)
        monkeypatch.setattr(_schedule, "can_add_draws", rules.can_add_draws)
        return cuts

    return begin


def work_of(draws, steps, clock=None):
    length = Length(draws, steps, None if clock is None else clock.limit)
    plan = Plan(None, draws, 0, 1, None, None, None, None, length)
    return Work([plan] * CHAINS, [Counted()] * CHAINS, None, False, None, stop=clock or Endless())


def run(work):
    """The draws returned, as (stretch, step), and the steps made."""
    with pytest.MonkeyPatch.context() as patch:
        if work.stop.is_timed:
            patch.setattr(_schedule, "time", work.stop)
        done = Schedule(work, counted(work), 0.0).run()
    (draws,) = {result.draws for result in done.chosen().results}
    return draws, done.steps


def renewals(draws, n_looks):
    """By hand: the draws at each look if they are added to the graphs: stretches of 1, 1, 2, 2, 4 and 4 times.

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
    """By hand: the draws at each look of a run without graphs, whose draws double and every second one is kept."""
    return [tuple((0, 2**k * (i + 1)) for i in range(draws)) for k in range(n_looks)]


def looks_of(counting, patch, draws, n_looks, renews):
    """The draws at each look of a run whose draws are good from a look on, and what it returns."""
    counting(Rules(renews=renews))
    looks = []

    def judged(plan, results):
        looks.append(results[0].draws)
        return len(looks) >= n_looks, None

    patch.setattr(_schedule, "judged", judged)
    return looks, run(work_of(draws, MOST))


@pytest.mark.parametrize("draws", [6, 250])
@pytest.mark.parametrize("n_looks", range(1, 10))
@pytest.mark.parametrize(("renews", "by_hand"), [(1.0, renewals), (0.0, extensions)], ids=["renewed", "extended"])
def test_draws_are_judged_after_each_stretch(counting, monkeypatch, draws, n_looks, renews, by_hand):
    """The last draws are returned: those of one stretch alone, evenly spaced, at the step where the run ends."""
    expected = by_hand(draws, n_looks)
    looks, returned = looks_of(counting, monkeypatch, draws, n_looks, renews)
    assert looks == expected
    assert returned == (expected[-1], expected[-1][-1][1])


@pytest.mark.parametrize(
    ("good", "thins"),
    [
        ([1], [1, 1, 1, 2, 2, 4, 4, 8, 16]),
        ([2, 4], [1, 1, 2, 2, 2, 2, 4, 4, 8]),
        ([5], [1, 1, 2, 2, 4, 4, 4, 8, 16]),
        ([1, 3, 5], [1, 1, 1, 2, 2, 2, 2, 4, 4]),
    ],
)
def test_a_confirmation_that_fails_leaves_the_other_stretches_as_they_are(counting, monkeypatch, good, thins):
    """``good``: judged stretches, confirming ones among them, that satisfy the criterion."""
    counting(Rules())
    found = []

    def judged(plan, results):
        found.append(plan.thin)
        return len(found) - 1 in good or len(found) == len(thins), None

    monkeypatch.setattr(_schedule, "judged", judged)
    run(work_of(6, MOST))
    assert found[: len(thins)] == thins


def test_a_full_graph_does_not_keep_draws_from_being_confirmed(counting, monkeypatch):
    counting(Rules(enough=12))
    monkeypatch.setattr(_schedule, "can_add_draws", lambda work, results: results[0].stretch < 1)
    assert run(work_of(6, MOST)) == (((2, 13), (2, 14), (2, 15), (2, 16), (2, 17), (2, 18)), 18)


def test_a_graph_that_gets_full_ends_the_renewals(counting):
    """The draws of the stretch that can no longer be added double, like those of a run without graphs."""
    counting(Rules())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_schedule, "can_add_draws", lambda work, results: results[0].stretch < 2)
        kept, steps = run(work_of(6, 6 + 6 + 3 * 12 + 5))
    assert kept[-1] == (2, 6 + 6 + 36 + 4) and steps == 52
    assert {stretch for stretch, _ in kept} == {2}


RULES = [Rules(), Rules(0.15), Rules(0.3, 0.5), Rules(0.1, 0.0)]


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 3, 9, 16])
def test_every_number_of_steps_is_kept_to_and_repeats(counting, rules, draws):
    """Draws of one stretch; no more steps than there may be, and the same draws by the steps that were made."""
    counting(rules)
    for most in range(draws, 40 * draws):
        kept, steps = run(work_of(draws, most))
        assert len(kept) == draws and steps <= most
        assert len({stretch for stretch, _ in kept}) == 1 and kept[-1][1] == steps
        assert run(work_of(draws, steps)) == (kept, steps)


def costs(kind, seed):
    """Seconds of one step after another: even, slower and slower, or uneven."""
    source, made = random.Random(seed), [0]

    def cost():
        made[0] += 1
        return {"even": 1.0, "slower": 1.0 + made[0] / 20.0, "uneven": source.choice((0.2, 1.0, 5.0))}[kind]

    return cost


@pytest.mark.parametrize("kind", ["even", "slower", "uneven"])
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 2, 3, 9, 16])
def test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, rules, draws, kind):
    """Whatever its steps cost, and wherever it is when its time is over."""
    counting(rules)
    ends = set()
    for seconds in [*range(draws, 60 * draws, max(draws // 2, 1)), *range(60 * draws, 300 * draws, 7 * draws)]:
        for seed in range(1 if kind != "uneven" else 4):
            clock = Clock(float(seconds), costs(kind, seed))
            kept, steps = run(work_of(draws, MOST, clock))
            if len(kept) < draws:
                # the first stretch was cut
                assert kept == tuple((0, i + 1) for i in range(len(kept))) and steps == len(kept)
                continue
            assert len({stretch for stretch, _ in kept}) == 1
            assert run(work_of(draws, steps)) == (kept, steps), (seconds, seed)
            ends.add(steps)
    assert len(ends) > (1 if rules.often else 5)


def resumed(cuts):
    """The ends of a run that was cut anywhere: after each number of draws of each stretch, with its plans."""
    for plans, before in list(cuts):
        for n in range(before[0].n_draws, plans[0].draws + 1):
            part = [result.drawn(n, plans[0].thin) for result in before]
            clock = None if plans[0].length.seconds is None else Clock(plans[0].length.seconds, lambda: 1.0)
            yield run(Work(list(plans), part, None, False, None, stop=clock or Endless()))


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [3, 9])
def test_every_cut_of_a_run_leads_to_its_end(counting, rules, draws):
    for most in (draws, 2 * draws + 1, 5 * draws, 13 * draws + 2, 31 * draws):
        cuts = counting(rules)
        whole = run(work_of(draws, most))
        assert all(again == whole for again in resumed(cuts))


@pytest.mark.parametrize("draws", [3, 16, 9, 25])
def test_a_clock_that_does_not_end_a_run_changes_nothing(counting, draws):
    """Cut or not."""
    for n_looks in range(1, 8):
        last = renewals(draws, n_looks)[-1]
        rules = Rules(enough=renewals(draws, n_looks)[n_looks - 1][-1][1])
        counting(rules)
        whole = run(work_of(draws, 40 * draws))
        assert whole == (last, last[-1][1])
        cuts = counting(rules)
        assert run(work_of(draws, 40 * draws, Clock(FOREVER, lambda: 1.0))) == whole
        assert all(again == whole for again in resumed(cuts))


def looks(counting, patch):
    test_draws_are_judged_after_each_stretch(counting, patch, 6, 5, 1.0, renewals)


def doublings(counting, patch):
    test_draws_are_judged_after_each_stretch(counting, patch, 6, 4, 0.0, extensions)


def steps(counting, patch):
    test_every_number_of_steps_is_kept_to_and_repeats(counting, Rules(), 6)


def clocks(counting, patch):
    test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, Rules(), 9, "uneven")


def unmarked(schedule):
    """Make a stretch to confirm the draws, which is then judged like any other."""
    return schedule._stretch(_schedule.without_draws, schedule.plan.length._replace(before=schedule.steps))


def looks_that_end(counting, patch):
    """A run of 12 stretches at most, whose draws are good from the second one on, has three."""
    counting(Rules(enough=12))
    assert run(work_of(6, 200))[1] == 18


WRONG = {
    "stretches of equal length": ("Schedule._next_thin", lambda schedule, confirms: schedule.plan.thin, looks),
    "every stretch twice as long": ("Schedule._next_thin", lambda schedule, confirms: 2 * schedule.plan.thin, looks),
    "room for less than a stretch": ("Schedule._next_thin", lambda schedule, confirms: 1, steps),
    "nothing confirmed": ("Schedule._confirm", lambda schedule: State.END, looks),
    "draws before a confirmation kept": ("without_draws", lambda work, results: results, looks),
    "confirmed without end": ("Schedule._confirm", unmarked, looks_that_end),
    "the end by the clock forgotten": ("Schedule._limit_steps", lambda schedule, most: None, clocks),
    "all draws kept": ("Schedule._keep_every_second", lambda schedule: None, doublings),
    "the first of two draws kept": ("evenly", lambda n, m: (_schedule.np.arange(m) * n) // m, doublings),
    "draws before a stretch kept": ("with_draws", lambda work, results: results, looks),
}


@pytest.mark.planted
@pytest.mark.parametrize("what", list(WRONG))
def test_errors_in_the_schedule_are_noticed(counting, monkeypatch, what):
    name, wrong, shown_by = WRONG[what]
    shown_by(counting, monkeypatch)
    owner = Schedule if name.startswith("Schedule.") else _schedule
    real = counting

    def counting_with_the_error(rules):
        cuts = real(rules)
        monkeypatch.setattr(owner, name.removeprefix("Schedule."), wrong)
        return cuts

    with pytest.raises(AssertionError):
        shown_by(counting_with_the_error, monkeypatch)
