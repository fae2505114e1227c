"""Tuning of the default run: chains draw trees in rounds, and each team of chains fits a density to its own trees.

A round is one task for each chain. After it the decisions (to split, and by which split) in the trees of a team are
fitted together. The first rounds temper the score, so that chains move between modes which the posterior separates. In
the last rounds a graph of the cells and splits that were visited grows. Then density and graph are frozen. Nothing
passes between teams, so that each is an independent witness of the other. Only costs of proposals are pooled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...model import TreeModel
from ...tree.coded import Course
from ..chain.snapshot import ARRAYS, Snapshot
from ..kernel import PROPOSAL_ROWS
from ..run.progress import Progress
from ..run.task import DEFAULT_WORK, Plan, Result, Run
from ..run.workers import Pool, RunState, result_without_draws, tuning_pool
from ..state.records import N_PIECES, Graph, new_graph
from ..state.tree import initial_density
from ..sums.split_sums import ROWS_PER_CODE
from .density.density import MAX_REDRAWN_VALUES
from .density.fit import Decisions, fit_density, join_decisions
from .density.graph import MIN_FREE_ENTRIES, merge_graphs
from .tasks import RoundResult, add_draws, density_of, run_round

MAX_TEAMS = 2
"""Largest number of teams of chains, which tune without exchanging anything."""
ROUND_BETAS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.0)
"""Inverse temperatures of the rounds to whose trees the density is fitted. Without the tempered ones runs cost 1.15
times as much, with five rounds 1.17 times (benchmarks/README.md, which has the growth rounds and trees too).
"""
N_GROWTH_ROUNDS = 2
"""Number of further rounds, in which the graph of visited cells grows."""
ROUND_STEPS, ROUND_TREES = 30, 1600
"""Number of steps of a round, and of independent trees that a chain draws in a growth round."""
PASSES_FOR_FULL_ROUNDS = 8000 / 0.6
"""Work of a chain, in passes over the whole table, from which on rounds have their full length. Tuning takes at most
about 8,000 passes (four tables, benchmarks/README.md), which then is .6 of the work."""
MIN_ROUND_LENGTH = 1 / 3
"""Smallest length of a round, relative to `ROUND_STEPS` and `ROUND_TREES`, at which a density is fitted by default."""
MAX_GRAPH_PIECES = 1 << 17
"""Largest number of pieces, and of links, of a graph at the end of tuning. Draws may double it later."""
WHOLE_WORK = 4e10
"""Default number of rows that a run with a density visits, in all chains. Tables of some hundred rows may need all."""
MAX_WHOLE_LENGTH = 32
"""Number of steps, in multiples of the first draws, that would use up the work. It sets the length of a step."""


class Team(NamedTuple):
    """Chains that tune together, with the density and the graph that are fitted to their trees."""

    chains: tuple[int, ...]
    """Numbers of the chains."""
    density: np.ndarray
    """Parameters of the density (`ChainState.density`)."""
    graph: Graph
    decisions: tuple[Decisions, ...] = ()
    """Decisions recorded so far, by round and chain."""

    def after_round(self, results: list[RoundResult]) -> Team:
        """Return the team after a round, with a new graph if the round grew graphs, else with a newly fitted density.

        The density is fitted to all decisions so far. Without results return the team as it is.
        """
        graphs = [result.graph for result in results if result.graph is not None]
        if graphs:
            return self._replace(graph=merge_graphs(graphs))
        if not results:
            return self
        decisions = (*self.decisions, *(result.decisions for result in results))
        return self._replace(decisions=decisions, density=fit_density(join_decisions(decisions)))


class Tuning:
    """State of a run during tuning. ``pool`` runs the rounds of all chains."""

    def __init__(self, run_state: RunState, pool: Pool) -> None:
        self.run_state, self.pool, self.lost_chains = run_state, pool, dict(run_state.lost_chains)
        self.plan, self.n_chains = run_state.plans[0], len(run_state.plans)
        """Plan of the first chain. Those of the others differ in seed and start."""
        self.ends: list[Snapshot | None] = [None] * self.n_chains
        self.cost, self.rows = np.zeros((2, len(self.plan.kernel.names))), 0.0
        """Proposals of each move and the rows they visited, and the number of all rows visited."""
        n_teams, chains = min(MAX_TEAMS, self.n_chains), range(self.n_chains)
        self.teams = [Team(tuple(chains[t::n_teams]), initial_density(), new_graph()) for t in range(n_teams)]

    def run(self, progress: Progress) -> RunState:
        """Run all rounds, or fewer if time or chains run out. Return the state of the run before the first draws."""
        rounds, signal = rounds_of(self.plan, self.n_chains), self.pool.signal
        for number, (beta, last_step) in enumerate(rounds):
            progress.update(self.plan.tune * self.n_chains if number > 0 else 0, f"round {number + 1} of {len(rounds)}")
            self.plan = self.plan._replace(tune=last_step)
            self._run_round(beta, number >= len(ROUND_BETAS))
            ends = [end for c, end in enumerate(self.ends) if c not in self.lost_chains and end is not None]
            is_cut = number + 1 < len(rounds) or any(end.tuned < last_step for end in ends)
            if ends and signal.is_set() and is_cut:
                self.run_state.stop.omissions.append(f"tuning from round {number + 1} of {len(rounds)} on")
            if not ends or signal.is_set():
                break
        self.plan = self.plan._replace(tune=rounds[-1][1])
        return self._state_at_first_draw()

    def _run_round(self, beta: float, grows: bool) -> None:
        """Run one round of all chains at inverse temperature ``beta``, then fit the density of each team or, if
        ``grows``, merge the graphs of its chains.
        """
        tasks = {}
        for team in self.teams:
            graph = team.graph if grows else None
            n_free = (MAX_GRAPH_PIECES - int(team.graph.used.max())) // len(team.chains)
            shared = team.density, beta, graph, n_free, n_round_trees(self.plan, self.n_chains)
            tasks |= {
                c: (self._plan_of_chain(c), self.ends[c], *shared) for c in team.chains if c not in self.lost_chains
            }
        results: dict[int, RoundResult] = self.pool.map(run_round, tasks, self.lost_chains)
        for c, result in results.items():
            self.ends[c] = result.end
        self._set_weights(list(results.values()))
        self.teams = [team.after_round([results[c] for c in team.chains if c in results]) for team in self.teams]

    def _plan_of_chain(self, c: int) -> Plan:
        """Return the present plan with the seed and start of chain ``c``."""
        return self.plan._replace(seed=self.run_state.plans[c].seed, start=self.run_state.plans[c].start)

    def _set_weights(self, results: list[RoundResult]) -> None:
        """Add the cost of a round to that of those before, and by it set the weights of the moves and the number of
        proposals in a step, if the kernel adapts. Do nothing in a run of fixed length.
        """
        length = self.plan.length
        if length is None or not results:
            return
        cost = sum(result.cost for result in results)
        self.cost = self.cost + cost
        self.rows += sum(result.rows for result in results) + PROPOSAL_ROWS * float(cost[0].sum())
        if self.plan.kernel.adapts:
            rows_of_step = length.work / (MAX_WHOLE_LENGTH * length.draws * self.n_chains)
            self.plan = self.plan._replace(kernel=self.plan.kernel.with_weights_by_cost(self.cost, rows_of_step))

    def _state_at_first_draw(self) -> RunState:
        """Return the state of the run before the first draws, in which each chain has its team's density and graph."""
        length, results = self.plan.length, list[Result | None]([None] * self.n_chains)
        if length is not None and len(self.lost_chains) < self.n_chains:
            rows_of_step = self.plan.kernel.rows_per_block(self.cost) * self.n_chains
            steps = max(int((length.work - self.rows) / rows_of_step), length.draws)
            self.plan = self.plan._replace(length=length._replace(steps=length.steps or steps))
        plans = [self._plan_of_chain(c) for c in range(self.n_chains)]
        for number, team in enumerate(self.teams):
            for c in team.chains:
                if c not in self.lost_chains:
                    results[c] = _at_first_draw(plans[c], self.ends[c], team.density, team.graph, number)
        return self.run_state._replace(plans=plans, results=results, lost_chains=self.lost_chains)


def tune_teams(run_state: RunState) -> RunState:
    """Tune chains in teams, and return the state of the run before their first draws.

    Chains lost on an executor are named in the result, and the others go on. If a run that lost chains is resumed, they
    begin with the density and graph of their team, or of the other team if all of theirs were lost.
    """
    if run_state.present_results:
        results = [result or _lost_chain_at_start(run_state, c) for c, result in enumerate(run_state.results)]
        return run_state._replace(results=results)
    chains = len(run_state.plans)
    with tuning_pool(run_state, chains * rounds_of(run_state.plans[0], chains)[-1][1]) as (pool, progress):
        return Tuning(run_state, pool).run(progress)


def rounds_of(plan: Plan, chains: int) -> list[tuple[float, int]]:
    """Return the inverse temperature of each round, and the number of all tuning steps of a chain up to its end.

    An adaptive run has rounds of a given number of steps. Another one divides its tuning steps evenly. The graph does
    not grow if the variance of the leaves is drawn, since the sums it stores change with it.
    """
    betas = [*ROUND_BETAS, *[1.0] * (N_GROWTH_ROUNDS if plan.model.lowered.leaf.is_fixed else 0)]
    n, steps = len(betas), max(round(ROUND_STEPS * round_length(plan, chains)), 1)
    return [(beta, plan.tune * k // n if plan.length is None else steps * k) for k, beta in enumerate(betas, 1)]


def n_round_trees(plan: Plan, chains: int) -> int:
    """Return the number of independent trees that a chain draws in a growth round."""
    return round(ROUND_TREES * round_length(plan, chains))


def round_length(plan: Plan, chains: int) -> float:
    """Return the length of the tuning rounds relative to the usual one, at most 1.

    Rounds are shorter if the tuning of ``chains`` chains, which share the limit on work, would take too much of it. The
    length is 1 in a run of fixed length.
    """
    if plan.length is None:
        return 1.0
    return min(plan.length.work / (PASSES_FOR_FULL_ROUNDS * pass_rows(plan.model) * chains), 1.0)


def pass_rows(model: TreeModel) -> int:
    """Return the cost of a pass, the scores of the splits of all features at the root, in rows visited."""
    features = model.lowered.split_prior.feature
    return model.units.codes.shape[1] * len(features) + ROWS_PER_CODE * int(features.n_codes.sum())


def work_by_default(model: TreeModel) -> float:
    """Return the default of the limit ``work`` on the rows that a run visits, larger if the table has a density."""
    return DEFAULT_WORK if pass_rows(model) > MAX_REDRAWN_VALUES else WHOLE_WORK


def has_work_to_tune(work: float, model: TreeModel, chains: int) -> bool:
    """Return True if fitting a density pays on this table and the rounds of ``chains`` chains, which may be short, fit
    into ``work``, the number of rows that the run may visit.
    """
    rows = pass_rows(model)
    return rows <= MAX_REDRAWN_VALUES and MIN_ROUND_LENGTH * PASSES_FOR_FULL_ROUNDS * rows * chains <= work


def can_add_draws(run_state: RunState) -> bool:
    """Return True if all chains have graphs of visited cells, with room for their draws; False for a tempered run."""
    ends = [result.end for result in run_state.present_results]
    if run_state.plans[0].betas is not None or any(end is None for end in ends):
        return False
    counts = [end.replicas[0].graph.used for end in ends]
    return all(bool(n[N_PIECES] > 0 and n.max() + len(ends) * MIN_FREE_ENTRIES <= 2 * MAX_GRAPH_PIECES) for n in counts)


def add_draws_to_graphs(run_state: RunState) -> list[Result]:
    """Add the draws of all chains to the graph of every team, and return the results of the chains without draws.

    So each team gets the trees that the other has found. The graphs also get as many independent trees as in a growth
    round. The chains keep their present trees. A team keeps its graph if an executor lost one of its tasks.
    """
    results, chains = run_state.present_results, len(run_state.plans)
    teams = Course(run_state.plans[0].kernel, 1, tuple(result.end for result in results), 1).teams
    tasks = {}
    for team in teams:
        others = [c for c in range(chains) if c not in team]
        n_free = (2 * MAX_GRAPH_PIECES - int(results[team[0]].end.replicas[0].graph.used.max())) // len(team)
        for i, c in enumerate(team):
            draws = tuple(results[d].saved for d in (c, *others[i :: len(team)]))
            tasks[c] = (run_state.plans[c], results[c].end, n_free, n_round_trees(run_state.plans[c], chains), draws)
    with Pool(run_state, run_state.stop.at_fraction(1.0)) as pool:
        new_graphs: dict[int, Graph] = pool.map(add_draws, tasks, {})
    graphs = {}
    for team in teams:
        if all(c in new_graphs for c in team):
            graphs |= dict.fromkeys(team, merge_graphs([new_graphs[c] for c in team]))
    return drop_draws(run_state, graphs)


def drop_draws(run_state: RunState, graphs: Mapping[int, Graph] | None = None) -> list[Result]:
    """Return all chains at their present trees, without draws. ``graphs`` has new graphs of some of them, by chain."""
    out, graphs = [], graphs or {}
    for c, (plan, result) in enumerate(zip(run_state.plans, run_state.present_results, strict=True)):
        end = result.end
        out.append(_at_first_draw(plan, end, density_of(end), graphs.get(c, end.replicas[0].graph), end.team))
    return out


def _at_first_draw(plan: Plan, end: Snapshot, density: np.ndarray, graph: Graph, team: int) -> Result:
    """Return a chain in the state ``end``, without draws, that from now on uses this density and graph. ``team`` is the
    number of its team.
    """
    at, (replica,) = ARRAYS.index("density"), end.replicas
    state = (*replica.state[:at], density, *replica.state[at + 1 :])
    end = end._replace(replicas=(replica._replace(state=state, graph=graph),), team=team)
    return result_without_draws(plan, end)


def _lost_chain_at_start(run_state: RunState, c: int) -> Result:
    """Return a lost chain at its start, with the density and graph of its team, or of the other if that is lost."""
    ends = [result.end for result in run_state.present_results]
    team = c % min(MAX_TEAMS, len(run_state.plans))
    end = next((end for end in ends if end.team == team), ends[0])
    run = Run(run_state.plans[c]._replace(draws=0))
    run.begin()
    return _at_first_draw(run_state.plans[c], run.snapshot, density_of(end), end.replicas[0].graph, end.team)
