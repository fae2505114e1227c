"""Tuning of the default run: chains draw trees in rounds, and each team of chains fits a density to its own trees.

A round is one task for each chain. After it the decisions (to split, and by which split) in the trees of a team are
fitted together. The first rounds temper the score, so that chains move between modes which the posterior separates. In
the last rounds a graph of the cells and splits that were visited grows. Then density and graph are frozen. Nothing
passes between teams, so that each is an independent witness of the other. Only costs of proposals are pooled.
"""

from __future__ import annotations

import numpy as np

from ...model import TreeModel
from ..kernel import PROPOSAL_ROWS, Kernel
from ..run.loop import ROUNDS_FRACTION, advance
from ..run.records import DEFAULT_WORK, Request, Tuned
from ..run.run import Run
from ..state.records import N_PIECES, Graph, initial_density, new_graph
from ..sums.split_sums import ROWS_PER_CODE
from .density.density import MAX_REDRAWN_VALUES
from .density.fit import Decisions, fit_density, join_decisions
from .density.graph import MIN_FREE_ENTRIES, merge_graphs
from .tasks import RoundResult, add_draws, tuning_round

ROUND_BETAS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.0)
"""Inverse temperatures of the rounds to whose trees the density is fitted. Without the tempered ones runs cost 1.15
times as much, with five rounds 1.17 times (benchmarks/README.md, which has the growth rounds and trees too).
"""
N_GROWTH_ROUNDS = 2
"""Number of further rounds, in which the graph of visited cells grows."""
ROUND_STEPS, ROUND_TREES = 30, 1600
"""Number of steps of a round, and of independent trees that a chain draws in a growth round."""
MIN_PASSES = 10_000
"""Work of a chain, in passes over the whole table, from which on a density is fitted by default. Tuning takes 2,400 to
6,900 of them (four tables, benchmarks/README.md)."""
MAX_GRAPH_PIECES = 1 << 19
"""Largest number of pieces, and of links, of a graph. Those of housing (354 x 13) get 300,000."""
WHOLE_WORK = 4e10
"""Default number of rows that a run with a density visits, in all chains. Tables of some hundred rows may need all."""
MAX_WHOLE_LENGTH = 32
"""Number of steps, in multiples of the first draws, that would use up the work. It sets the length of a step."""


class Team:
    """Chains that tune together, with the density and the graph that are fitted to their trees."""

    def __init__(self, chains: list[int]) -> None:
        self.chains, self.density, self.graph = chains, initial_density(), new_graph()
        self.decisions: list[Decisions] = []

    def fit(self, results: list[RoundResult], grows: bool) -> None:
        """Fit the density to the decisions of all rounds, or merge the graphs of a round in which they grow."""
        if results and grows:
            self.graph = merge_graphs([one.graph for one in results if one.graph is not None])
        elif results:
            self.decisions += [one.decisions for one in results]
            self.density = fit_density(join_decisions(self.decisions))


def tune_in_teams(run: Run) -> None:
    """Tune the chains of a run in rounds, so that ``run.tuned`` is complete."""
    # nothing passes between teams but the costs of proposals, in adaptive runs, by which weights and block are set
    request, rounds, kernel = run.request, rounds_of(run.request), run.request.kernel
    teams = [Team(list(range(t, request.n_chains, request.n_teams))) for t in range(request.n_teams)]
    team_of_chain = {c: team for team in teams for c in team.chains}
    cost, rows = np.zeros((2, len(kernel.names))), 0.0
    n_features = len(request.model.lowered.split_prior.feature)
    run.n_tune = rounds[-1][1]
    for k, (beta, until) in enumerate(rounds):
        grows = k >= len(ROUND_BETAS)
        run.tuned, run.phase = tuned_by(teams, kernel), f"round {k + 1} of {len(rounds)}"
        args = {}
        # team by team, as tasks are submitted
        for c in (c for team in teams for c in team.chains if c in run.up):
            team = team_of_chain[c]
            n_free = (MAX_GRAPH_PIECES - int(team.graph.used.max())) // len(team.chains) if grows else 0
            # each team scouts all root features, once
            first = team.chains.index(c) if k == len(ROUND_BETAS) else n_features
            scouted = np.arange(first, n_features, len(team.chains))
            args[c] = beta, until, n_free, ROUND_TREES, scouted
        results: dict[int, RoundResult] = advance(run, tuning_round, args, ROUNDS_FRACTION)
        for team in teams:
            team.fit([results[c] for c in team.chains if c in results], grows)
        if request.is_adaptive and results:
            cost = cost + sum(one.cost for one in results.values())
            rows = sum(one.rows for one in results.values()) + rows
            if kernel.adapts:
                kernel = kernel.with_weights_by_cost(cost, rows_of_step(request))
        is_cut = k + 1 < len(rounds) or any(run.chains[c].tuned < until for c in run.up)
        if run.stop.at_fraction(ROUNDS_FRACTION).is_set():
            if is_cut:
                run.omissions.append(f"tuning from round {k + 1} of {len(rounds)} on")
            break
    steps = request.steps
    if request.is_adaptive and steps == 0:
        rows_left = request.work - rows - PROPOSAL_ROWS * float(cost[0].sum())
        steps = max(int(rows_left / (kernel.rows_per_block(cost) * request.n_chains)), request.draws)
    run.tuned = tuned_by(teams, kernel)._replace(tune=rounds[-1][1], steps=steps)
    join_lost_teams(run, teams)


def tuned_by(teams: list[Team], kernel: Kernel) -> Tuned:
    """Return what the teams have fitted so far."""
    return Tuned(kernel, -1, 0, np.array([team.density for team in teams]), tuple(team.graph for team in teams))


def join_lost_teams(run: Run, teams: list[Team]) -> None:
    """Let chains of a team of which none is left belong to the other team, as they are no independent witness."""
    left = [t for t, team in enumerate(teams) if any(c in run.up for c in team.chains)]
    for chain in run.chains:
        if chain.team not in left:
            chain.team = left[0]


def rounds_of(request: Request) -> list[tuple[float, int]]:
    """Return the inverse temperature of each round, and the number of all tuning steps of a chain up to its end."""
    # an adaptive run has rounds of a given number of steps. Another one divides its tuning steps evenly. The graph does
    # not grow if the variance of the leaves is drawn, since the sums it stores change with it.
    assert request.model is not None
    betas = [*ROUND_BETAS, *[1.0] * (N_GROWTH_ROUNDS if request.model.lowered.leaf.is_fixed else 0)]
    n = len(betas)
    return [
        (beta, ROUND_STEPS * k if request.is_adaptive else request.tune * k // n) for k, beta in enumerate(betas, 1)
    ]


def rows_of_step(request: Request) -> float:
    """Return the number of rows that a step of one chain may visit, so that a run can be `MAX_WHOLE_LENGTH` as long."""
    return request.work / (MAX_WHOLE_LENGTH * request.draws * request.n_chains)


def pass_rows(model: TreeModel) -> int:
    """Return the cost of a pass, the scores of the splits of all features at the root, in rows visited."""
    features = model.lowered.split_prior.feature
    return model.units.codes.shape[1] * len(features) + ROWS_PER_CODE * int(features.n_codes.sum())


def work_by_default(model: TreeModel) -> float:
    """Return the default of the limit ``work`` on the rows that a run visits, larger if the table has a density."""
    return DEFAULT_WORK if pass_rows(model) > MAX_REDRAWN_VALUES else WHOLE_WORK


def has_work_to_tune(work: float, model: TreeModel, chains: int) -> bool:
    """Return True if a density pays on this table, and ``work`` rows are enough to tune so many chains."""
    rows = pass_rows(model)
    return rows <= MAX_REDRAWN_VALUES and MIN_PASSES * rows * chains <= work


def has_room_in_graphs(run: Run) -> bool:
    """Return True if all teams have graphs of visited cells, with room for draws; False for a tempered run."""
    teams = {run.chains[c].team for c in run.up}
    counts = [graph.used for t, graph in enumerate(run.tuned.graphs) if t in teams]
    return len(counts) > 0 and all(
        bool(n[N_PIECES] > 0 and n.max() + len(run.up) * MIN_FREE_ENTRIES <= MAX_GRAPH_PIECES) for n in counts
    )


def with_draws_in_graphs(run: Run) -> Tuned:
    """Return ``run.tuned`` with the draws of all chains added to the graph of every team."""
    # so each team gets the trees that the other has found. The graphs also get as many independent trees as in a growth
    # round. The chains keep their present trees. A team keeps its graph if an executor lost one of its tasks.
    args, teams = {}, [[c for c in run.up if run.chains[c].team == t] for t in range(len(run.tuned.graphs))]
    for graph, team in zip(run.tuned.graphs, teams, strict=True):
        others = [c for c in run.up if c not in team]
        for i, c in enumerate(team):
            n_free = (MAX_GRAPH_PIECES - int(graph.used.max())) // len(team)
            args[c] = n_free, ROUND_TREES, tuple(run.draws[d] for d in (c, *others[i :: len(team)]))
    lost_before = dict(run.lost_chains)
    new_graphs: dict[int, Graph] = advance(run, add_draws, args, 1.0)
    # a lost task has changed no chain
    run.lost_chains = lost_before
    return run.tuned._replace(
        graphs=tuple(
            merge_graphs([new_graphs[c] for c in team]) if team and all(c in new_graphs for c in team) else graph
            for graph, team in zip(run.tuned.graphs, teams, strict=True)
        )
    )
