"""The stretches of a run that finds its own length, by chains that only count: every end, every cut, every clock."""

import random
import time
from itertools import chain, product, repeat
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from pactree_mcmc.mcmc.run import length as _length
from pactree_mcmc.mcmc.run.task import Length, Plan
from pactree_mcmc.mcmc.run.workers import Done, Work

CHAINS = 2
FOREVER = 1e9


class Counted(NamedTuple):
    """What a chain that only counts has done: its draws as (stretch, step), where it is, and its stretch."""

    draws: tuple = ()
    step: int = 0
    stretch: int = 0

    @property
    def n_draws(self):
        return len(self.draws)

    def chosen(self, which):
        return self._replace(draws=tuple(self.draws[i] for i in which))

    def drawn(self, n, thin):
        """With ``n`` draws in all."""
        more = tuple((self.stretch, self.step + thin * (i + 1)) for i in range(n - len(self.draws)))
        return self._replace(draws=self.draws + more, step=self.step + thin * len(more))


def counted(work):
    return Done([r.drawn(plan.draws, plan.thin) for plan, r in zip(work.plans, work.before, strict=True)], True)


def taught(work, results):
    return [Counted((), result.step, result.stretch + 1) for result in results]


class Rules(NamedTuple):
    """When the criterion holds and whether chains learn, both by the draws alone."""

    often: float = 0.0
    learns: float = 1.0
    last: tuple = ()
    """Sets of draws for which it holds in any case."""

    def holds(self, plan, results):
        return results[0].draws in self.last or random.Random(repr(results[0].draws)).random() < self.often

    def teaches(self, work, results):
        return random.Random(f"learns {results[0].stretch}").random() < self.learns


@pytest.fixture
def counting(monkeypatch):
    """`lengthen` of chains that only count; returns the run, and the plans and results there were on its way."""

    def begin(rules):
        cuts = []

        def noted(work):
            cuts.append((work.plans, work.before))
            return counted(work)

        monkeypatch.setattr(_length, "do", noted)
        monkeypatch.setattr(_length, "relearned", taught)
        monkeypatch.setattr(_length, "restarted", taught)
        monkeypatch.setattr(_length, "holds", rules.holds)
        monkeypatch.setattr(_length, "teaches", rules.teaches)
        return cuts

    return begin


def work_of(draws, steps, seconds=None, affordable=1 << 50):
    plan = Plan(None, draws, 0, 1, None, None, None, None, Length(draws, steps, seconds, affordable=affordable))
    return Work([plan] * CHAINS, [Counted()] * CHAINS, None, False, None)


def run(work, began=None):
    """Draws kept, as (stretch, step), and steps made."""
    found = _length.lengthen(work, counted(work), time.perf_counter() if began is None else began)
    assert len({result.draws for result in found.done.results}) == 1
    return found.done.results[0].draws, found.steps


def schedule(draws, n_looks):
    """By hand: the draws at each look, as (stretch, step), where chains always learn."""
    looks, before, size = [(0, 0, draws)], 0, draws
    while len(looks) < n_looks:
        before += size
        looks += [(looks[-1][0] + 1, before, made) for made in (size, 2 * size)]
        size *= 2
    return [
        tuple((stretch, before + made // draws * (i + 1)) for i in range(draws))
        for stretch, before, made in looks[:n_looks]
    ]


def confirmed(look):
    """By hand: the draws returned after a good look that is not the first: those of one more stretch."""
    (stretch, step), spacing = look[-1], look[1][1] - look[0][1]
    return tuple((stretch + 1, step + spacing * (i + 1)) for i in range(len(look)))


@pytest.mark.parametrize("draws", [6, 250])
@pytest.mark.parametrize("n_looks", range(1, 10))
def test_looks_come_after_one_two_and_then_doubled(counting, monkeypatch, draws, n_looks):
    counting(Rules())
    looks = []
    monkeypatch.setattr(_length, "holds", lambda plan, results: looks.append(results[0].draws) or len(looks) >= n_looks)
    kept, steps = run(work_of(draws, 1 << 40))
    expected = schedule(draws, n_looks)
    expected += [confirmed(expected[-1])] * (n_looks > 1)
    assert looks == expected
    assert (kept, steps) == (expected[-1], expected[-1][-1][1])


@pytest.mark.parametrize("draws", [6, 9])
@pytest.mark.parametrize("n_good", range(2, 8))
def test_draws_that_do_not_confirm_are_gone_on_with(counting, draws, n_good):
    """The stretch after a good look is not good itself: it is doubled, taught and so on like any other."""
    good = schedule(draws, n_good)[-1]
    stretch, step = good[-1]
    spacing = good[1][1] - good[0][1]
    after = tuple((stretch + 1, step + 2 * spacing * (i + 1)) for i in range(draws))
    again = tuple((stretch + 2, after[-1][1] + 2 * spacing * (i + 1)) for i in range(draws))
    counting(Rules(last=(good, after, again)))
    kept, steps = run(work_of(draws, 1 << 40))
    assert (kept, steps) == (again, again[-1][1])


@pytest.mark.parametrize("n_looks", range(1, 8))
@pytest.mark.parametrize("enough", [True, False])
def test_a_stretch_confirms_within_half_of_the_work(counting, monkeypatch, n_looks, enough):
    """However many steps there may be; without it the draws are said to be selected, but not those of a first look."""
    counting(Rules())
    looks, good = [], schedule(6, n_looks)[-1]
    monkeypatch.setattr(_length, "holds", lambda plan, results: looks.append(results[0].draws) or len(looks) >= n_looks)
    ends = confirmed(good)[-1][1]
    work = work_of(6, 1 << 40, affordable=2 * ends - (0 if enough else 1))
    found = _length.lengthen(work, counted(work), time.perf_counter())
    confirms = enough and n_looks > 1
    assert found.done.results[0].draws == (confirmed(good) if confirms else good)
    assert found.selected == (n_looks > 1 and not enough)


RULES = [Rules(), Rules(0.15), Rules(0.3, 0.5), Rules(0.1, 0.0)]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [1, 3, 9, 16])
def test_every_number_of_steps_is_kept_to_and_repeats(counting, rules, draws):
    """Draws of one stretch, evenly spaced; no more steps than there may be, and the same of as many as were made."""
    counting(rules)
    for most, affordable in product(range(draws, 40 * draws), (1 << 50, 15 * draws)):
        kept, steps = run(work_of(draws, most, affordable=affordable))
        assert len(kept) == draws and steps <= most
        assert len({stretch for stretch, _ in kept}) == 1 and kept[-1][1] == steps
        assert run(work_of(draws, steps, affordable=affordable)) == (kept, steps)


def ended_by_the_clock(monkeypatch, draws, n_looks, at, most=1 << 40):
    """A run whose clock is at ``at`` seconds of 100 for some looks, and then over."""
    clock = chain([at] * n_looks, repeat(1e6))
    with monkeypatch.context() as patch:
        patch.setattr(_length, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
        return run(work_of(draws, most, 100.0), 0.0)


@pytest.mark.parametrize("rules", RULES[:3])
@pytest.mark.parametrize("draws", [1, 2, 3, 9, 16])
def test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, monkeypatch, rules, draws):
    """Over at any look; with and without time for another stretch."""
    counting(rules)
    ends = set()
    for at in (0.0, 40.0, 60.0, 99.0):
        for n_looks in range(90):
            kept, steps = ended_by_the_clock(monkeypatch, draws, n_looks, at)
            assert len(kept) == draws
            assert run(work_of(draws, steps)) == (kept, steps)
            ends.add(steps)
    assert len(ends) > (1 if rules.often else 5)


def resumed(cuts, limit=None):
    """What comes of every cut: after each number of draws of each task, goes on from the plans and the draws there."""
    for plans, before in list(cuts):
        for n in range(before[0].n_draws, plans[0].draws + 1):
            part = [result.drawn(n, plans[0].thin) for result in before]
            some = [plan._replace(length=plan.length._replace(seconds=limit or plan.length.seconds)) for plan in plans]
            yield run(Work(some, part, None, False, None))


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("draws", [3, 9])
def test_every_cut_of_a_run_leads_to_its_end(counting, rules, draws):
    """Cut within a stretch, undoubled and doubled, by whatever number of draws."""
    for most in (draws, 2 * draws + 1, 5 * draws, 13 * draws + 2, 31 * draws):
        cuts = counting(rules)
        whole = run(work_of(draws, most))
        assert all(again == whole for again in resumed(cuts))


@pytest.mark.parametrize("draws", [3, 16, 9, 25])
def test_every_cut_of_a_run_with_time_to_spare_leads_to_its_end(counting, draws):
    """A clock that does not end a run does not change it, cut or not."""
    for last in schedule(draws, 7):
        first = schedule(draws, 1)[0]
        ends = (last,) if last == first else (last, confirmed(last))
        rules = Rules(last=ends)
        counting(rules)
        whole = run(work_of(draws, 40 * draws))
        assert whole == (ends[-1], ends[-1][-1][1])
        cuts = counting(rules)
        assert run(work_of(draws, 40 * draws, FOREVER)) == whole
        assert all(again == whole for again in resumed(cuts))


def test_a_run_resumed_without_time_has_all_its_draws(counting):
    cuts = counting(Rules())
    run(work_of(16, 100, FOREVER))
    assert {len(kept) for kept, _ in resumed(cuts, 1e-12)} == {16}


def looks(counting, patch):
    test_looks_come_after_one_two_and_then_doubled(counting, patch, 6, 4)


def steps(counting, patch):
    test_every_number_of_steps_is_kept_to_and_repeats(counting, Rules(), 6)


def clocks(counting, patch):
    test_wherever_the_clock_ends_a_run_its_steps_repeat_it(counting, patch, Rules(), 16)


def failures(counting, patch):
    test_draws_that_do_not_confirm_are_gone_on_with(counting, 6, 4)


def halves(counting, patch):
    with patch.context() as inner:
        test_a_stretch_confirms_within_half_of_the_work(counting, inner, 4, False)


WRONG = {
    "nothing confirmed": ("_is_first", lambda plan: True, looks),
    "confirmed for ever": ("_gone_on", lambda plan, n: plan.length, failures),
    "confirmed beyond half": ("_may_confirm", lambda plan: True, halves),
    "half of the steps there may be": ("_may_confirm", lambda plan: 2 * plan.thin <= plan.length.steps, halves),
    "never doubled": ("_is_doubled", lambda plan: True, looks),
    "room for less than a stretch": ("_has_room", lambda plan, began, stretch_began: True, steps),
    "the clock's word forgotten": ("_without_another", lambda work: work, clocks),
    "every second draw, but the first of two": ("evenly", lambda n, m: (_length.np.arange(m) * n) // m, steps),
}


@pytest.mark.planted
@pytest.mark.parametrize("what", list(WRONG))
def test_errors_in_the_schedule_are_noticed(counting, monkeypatch, what):
    name, wrong, shown_by = WRONG[what]
    shown_by(counting, monkeypatch)
    monkeypatch.setattr(_length, name, wrong)
    with pytest.raises(AssertionError):
        shown_by(counting, monkeypatch)
