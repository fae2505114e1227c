"""Tuning of the default run: chains draw trees in rounds, and each team of chains fits a density to its own trees.

A round is one task for each chain. Between two rounds the decisions of a team's chains are fitted together. The first
rounds temper the score, so that chains move between modes which the posterior separates. In the last rounds a graph of
the cells and splits that were visited grows. Then density and graph are frozen. Nothing passes between teams, so that
each is an independent witness of what the other has found; only the costs of proposals are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...model import TreeModel
from ...tree.drawn import Course
from ..chain.draw_store import new_saved, trimmed
from ..chain.snapshot import ARRAYS, Snapshot
from ..chain.start import may_grow
from ..kernel import STEP_ROWS
from ..run.pool import Submit, map_chains, start_clock, with_pool
from ..run.progress import Progress
from ..run.stop import LEARNING, Stop
from ..run.task import LENGTHS, WORK, Plan, Result, Run
from ..run.workers import Work, nothing_left
from ..state.pieces import Graph, new_graph
from ..state.records import N_PIECES
from ..state.tree import first_density
from ..sums.split_sums import CODE_ROWS
from .density.decisions import Decisions
from .density.fit import fit_density, joined_decisions
from .density.graph import SPARE, joined_graph
from .tasks import Task, add_draws, density_of, run_round

MOST_TEAMS = 2
"""Largest number of teams."""
BETAS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.0)
"""Powers of the score in the rounds to which the density is fitted."""
GROWTH_ROUNDS = 2
"""Number of further rounds, in which the graph grows."""
STEPS, TREES = 30, 1600
"""Number of steps of a round, and of independent trees that a chain draws in a growth round."""
PASSES = 8000
"""Cost of tuning a chain, in passes over the whole table: at most about this on four tables (benchmarks/README.md)."""
TUNING_FRACTION, SHORTEST = 0.6, 1 / 3
"""Largest fraction of the work for tuning, and the shortest rounds, relative to ``STEPS`` and ``TREES``."""
MOST_PIECES = 1 << 17
"""Largest number of pieces, and of links, of a graph at the end of tuning. Draws may double it later."""
LARGEST_PASS = 200_000
"""Largest cost of a pass over the table, in rows visited, with which chains fit a density. On larger tables local moves
predict as well in less time (benchmarks/README.md, Large tables)."""
MANY_VALUES, MOST_WORK = 50_000, 2e10
"""Number of values of a table above which the default work grows with it, and the largest default work, in rows."""


class Team(NamedTuple):
    """Chains that tune together, and what they have fitted."""

    chains: tuple[int, ...]
    density: np.ndarray
    graph: Graph
    decisions: tuple[Decisions, ...] = ()
    """Decisions recorded so far, by round and chain."""


class Round(NamedTuple):
    """One round of the schedule."""

    beta: float
    """Power of the score."""
    tuned: int
    """Number of tuning steps of a chain at its end."""
    grows: bool
    """True if the graph grows, False if the density is fitted."""


class Tuning:
    """State of a run during tuning.

    Parameters
    ----------
    work : Work
        Chains to be tuned.
    submit : callable
        Submits a task to the executor.
    """

    def __init__(self, work: Work, submit: Submit) -> None:
        self.work, self.submit, self.lost = work, submit, dict(work.lost)
        self.plans: list[Plan] = list(work.plans)
        self.ends: list[Snapshot | None] = [None] * len(self.plans)
        self.cost = np.zeros((2, len(self.plans[0].kernel.names)))
        self.spent = 0.0
        """Number of rows visited, in all chains."""
        density = first_density()
        chains = range(len(self.plans))
        n_teams = min(MOST_TEAMS, len(self.plans))
        self.teams = [Team(tuple(chains[t::n_teams]), density, new_graph()) for t in range(n_teams)]

    def run(self, schedule: list[Round], progress: Progress, stopped: Stop) -> Work:
        """Run the rounds of a schedule, as far as chains, work and time last, and return the work left."""
        done = 0
        for number, one in enumerate(schedule):
            progress.update(done * len(self.plans), f"round {number + 1} of {len(schedule)}")
            self.plans = [plan._replace(tune=one.tuned) for plan in self.plans]
            self._run_round(one)
            if not self.left:
                break
            is_cut = any(self.ends[c].tuned < one.tuned for c in self.left)
            if stopped.is_set() and (is_cut or number + 1 < len(schedule)):
                self.plans = [plan._replace(tune=schedule[-1].tuned) for plan in self.plans]
                self.work.stop.cuts.append(f"learning from round {number + 1} of {len(schedule)} on")
                break
            done = one.tuned
        return self.finished()

    @property
    def left(self) -> list[int]:
        """Chains that are not lost."""
        return [c for c in range(len(self.plans)) if c not in self.lost]

    def _run_round(self, one: Round) -> None:
        """Run one round of all chains, and fit each team's density or graph to it."""
        tasks = {}
        for team in self.teams:
            tasks |= self._round_tasks(team, one)
        found = map_chains(self.work, self.submit, run_round, tasks, self.lost)
        for c, result in found.items():
            self.ends[c] = result.end
        self._set_weights(found.values())
        for number, team in enumerate(self.teams):
            results = [found[c] for c in team.chains if c in found]
            if not results:
                continue
            if one.grows:
                self.teams[number] = team._replace(graph=joined_graph([result.graph for result in results]))
                continue
            decisions = (*team.decisions, *(result.decisions for result in results))
            self.teams[number] = team._replace(decisions=decisions, density=fit_density(joined_decisions(decisions)))

    def _round_tasks(self, team: Team, one: Round) -> dict[int, Task]:
        """Return the tasks of a team's chains in a round."""
        graph = team.graph if one.grows else None
        room = (MOST_PIECES - int(team.graph.used.max())) // len(team.chains)
        trees = round(TREES * round_length(self.plans[0], len(self.plans)))
        return {
            c: Task(self.plans[c], self.ends[c], team.density, graph, room, one.beta, one.tuned, trees)
            for c in team.chains
            if c not in self.lost
        }

    def _set_weights(self, results: Any) -> None:
        """Set the weights of the moves, and the number of proposals in a step, by what proposals cost."""
        length, kernel = self.plans[0].length, self.plans[0].kernel
        if length is None or not results:
            return
        cost = sum(result.cost for result in results)
        self.cost = self.cost + cost
        self.spent += sum(result.rows for result in results) + STEP_ROWS * float(cost[0].sum())
        if kernel.adapts:
            kernel = kernel.by_cost(self.cost, length.work / (LENGTHS * length.draws * len(self.plans)))
            self.plans = [plan._replace(kernel=kernel) for plan in self.plans]

    def finished(self) -> Work:
        """Return the work left: chains that stand at their first draw, each with its team's density and graph."""
        length, results = self.plans[0].length, list[Result | None]([None] * len(self.plans))
        if length is not None and self.left:
            per_step = self.plans[0].kernel.rows_per_block(self.cost) * len(self.plans)
            steps = max(int((length.work - self.spent) / per_step), length.draws)
            length = length._replace(steps=length.steps or steps)
            self.plans = [plan._replace(length=length) for plan in self.plans]
        for number, team in enumerate(self.teams):
            for c in team.chains:
                if c not in self.lost:
                    results[c] = begun_with(self.plans[c], self.ends[c], team.density, team.graph, number)
        return self.work._replace(plans=self.plans, before=results, lost=self.lost)


def tune_teams(work: Work) -> Work:
    """Tune chains in teams and return the work left.

    Chains lost on an executor are named in it, and the others go on. If a run that lost chains is resumed, they begin
    with the density and graph of their team, or of the other team if all of theirs were lost.
    """
    if any(result is not None for result in work.before):
        results = [_started(work, c) if result is None else result for c, result in enumerate(work.before)]
        return work._replace(before=results)
    first, chains = work.plans[0], len(work.plans)
    schedule = schedule_of(first, chains)
    total, grown = chains * schedule[-1].tuned, may_grow(first.start)
    try:
        with Progress(0, work.progress, first.kernel, grown, tune=total) as progress:
            start_clock(work)
            stopped = work.stop.part(LEARNING)
            return with_pool(work, lambda submit: Tuning(work, submit).run(schedule, progress, stopped), stopped)
    except KeyboardInterrupt:
        until = "every chain had a draw" if work.executor is None else "a chain had finished"
        raise KeyboardInterrupt(nothing_left(until, work)) from None


def schedule_of(plan: Plan, chains: int) -> list[Round]:
    """Return the rounds of a run.

    A run that finds its own length has rounds of a given number of steps. Another one divides its tuning steps evenly.
    The graph does not grow if the variance of the leaves or feature weights are drawn, since the sums it stores change
    with them.
    """
    betas = [*BETAS, *[1.0] * (GROWTH_ROUNDS if plan.model.lowered.is_fixed else 0)]
    n, steps = len(betas), max(round(STEPS * round_length(plan, chains)), 1)
    ends = [plan.tune * k // n if plan.length is None else steps * k for k in range(1, n + 1)]
    return [Round(beta, end, k >= len(BETAS)) for k, (beta, end) in enumerate(zip(betas, ends, strict=True))]


def round_length(plan: Plan, chains: int) -> float:
    """Return the length of the rounds relative to the usual one, at most 1: shorter if tuning would take too much work.

    1 for a run of given length.
    """
    if plan.length is None:
        return 1.0
    return min(TUNING_FRACTION * plan.length.work / (PASSES * pass_rows(plan.model) * chains), 1.0)


def pass_rows(model: TreeModel) -> int:
    """Return the cost of scoring the splits of all features at the root, in rows visited."""
    features = model.lowered.split_prior.feature
    return model.units.codes.shape[1] * len(features) + CODE_ROWS * int(features.n_codes.sum())


def default_work(model: TreeModel) -> float:
    """Return the default limit of the rows that a run visits: more on a large table, if chains fit a density to it."""
    if pass_rows(model) > LARGEST_PASS:
        return WORK
    values = model.units.n_units * len(model.lowered.split_prior.feature)
    return min(WORK * max(values / MANY_VALUES, 1.0), MOST_WORK)


def tunes_within(work: float, model: TreeModel, chains: int) -> bool:
    """Return True if fitting a density pays on this table, and its rounds fit into the work, if need be short ones."""
    rows = pass_rows(model)
    return rows <= LARGEST_PASS and SHORTEST * PASSES * rows * chains <= TUNING_FRACTION * work


def can_add_draws(work: Work, results: list[Result]) -> bool:
    """Return True if all chains have graphs with room for draws."""
    ends = [result.end for result in results]
    if work.plans[0].betas is not None or any(end is None for end in ends):
        return False
    used = [end.replicas[0].graph.used for end in ends]
    return all(bool(one[N_PIECES] > 0 and one.max() + len(results) * SPARE <= 2 * MOST_PIECES) for one in used)


def with_draws(work: Work, results: list[Result]) -> list[Result]:
    """Add the draws of all chains to the graph of every team, so that each has what the other has found.

    The graphs also get as many independent trees as in a growth round. The chains stay where they are, without draws. A
    team keeps its graph if an executor lost one of its tasks.
    """
    teams = Course(work.plans[0].kernel, 1, tuple(result.end for result in results), 1).teams
    tasks = {}
    for team in teams:
        graph = results[team[0]].end.replicas[0].graph
        room = (2 * MOST_PIECES - int(graph.used.max())) // len(team)
        for i, c in enumerate(team):
            others = [other for other in range(len(results)) if other not in team]
            saved = tuple(results[d].saved for d in (c, *others[i :: len(team)]))
            end = results[c].end
            trees = round(TREES * round_length(work.plans[c], len(results)))
            tasks[c] = Task(work.plans[c], end, density_of(end), graph, room, trees=trees, saved=saved)
    found = with_pool(work, lambda submit: map_chains(work, submit, add_draws, tasks, {}))
    graphs = {}
    for team in teams:
        if all(c in found for c in team):
            graphs |= dict.fromkeys(team, joined_graph([found[c].graph for c in team]))
    return without_draws(work, results, graphs)


def without_draws(work: Work, results: list[Result], graphs: Mapping[int, Graph] | None = None) -> list[Result]:
    """Return the chains where they are, without their draws, and with new graphs if ``graphs`` has any by chain."""
    ends, graphs = [result.end for result in results], graphs or {}
    return [
        begun_with(plan, end, density_of(end), graphs.get(c, end.replicas[0].graph), end.team)
        for c, (plan, end) in enumerate(zip(work.plans, ends, strict=True))
    ]


def begun_with(plan: Plan, end: Snapshot, density: np.ndarray, graph: Graph, team: int) -> Result:
    """Return a chain without draws that draws from a density and graph from now on."""
    at, (replica,) = ARRAYS.index("density"), end.replicas
    state = (*replica.state[:at], density, *replica.state[at + 1 :])
    saved = trimmed(new_saved(0, len(plan.kernel.moves), plan.model.lowered.leaf.n_stats, plan.model.lowered.n_weights))
    return Result(saved, None, end._replace(replicas=(replica._replace(state=state, graph=graph),), team=team))


def _started(work: Work, c: int) -> Result:
    """Return a lost chain at its start, with the density and graph of its team, or of another one."""
    ends = [result.end for result in work.before if result is not None]
    team = c % min(MOST_TEAMS, len(work.plans))
    end = next((one for one in ends if one.team == team), ends[0])
    run = Run(work.plans[c]._replace(draws=0))
    run.begin()
    return begun_with(work.plans[c], run.snapshot, density_of(end), end.replicas[0].graph, end.team)
