"""Tuning in rounds: chains draw trees, a density is fitted on what all of them decided, and they go on with it.

A round is a task a chain, which any executor runs; between two rounds the decisions of all chains are fitted as one
(`fit`). After the last the density is frozen. The first rounds temper the score, so that chains move between modes
that the posterior parts, and the density knows them all.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ...core.compile.pack import pack
from ...core.special import logsumexp
from ...model import TreeModel
from ...model.not_finite import NotFinite
from ..chain.chain import Chain
from ..chain.draw_store import new_saved, trimmed
from ..chain.snapshot import ARRAYS, Snapshot
from ..chain.start import may_grow
from ..chain.strata import balanced, log_evidences
from ..kernel import STEP_ROWS
from ..learned.apart import fits_of, fitted_halves
from ..learned.decisions import Decisions, new_decisions, note_decisions, trimmed_decisions
from ..learned.fit import fit_density, joined_decisions
from ..learned.graph import frozen, joined_graph, roomy
from ..state.arrays import first_density
from ..state.pieces import Graph, new_graph
from ..state.records import GROWING, N_LINKS, N_PIECES, ROWS
from ..sums.split_sums import CODE_ROWS
from .progress import Progress
from .stop import LEARNING, Stop
from .survey import (
    Chart,
    Fitted,
    Signal,
    Survey,
    chart,
    draw_afresh,
    draw_fitted,
    flattened,
    is_set,
    root_evidences,
    set_density,
    spread,
    survey,
    visited,
)
from .task import WORK, Plan, Result, Run
from .workers import Work, n_cores, nothing_left

Submit = Callable[..., Future]
MOST_TIMES = 8
"""How many times its first draws such a run is, where it is longest, about."""

BETAS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.0)
"""Powers of the score, round by round."""
REMEMBERED = 5
"""Rounds, the last ones, on whose decisions the density is fitted."""
WEIGHTS = 24
"""Trees drawn of each stratum, to know its evidence."""
CELLS_NOTED = 1500
"""Cells whose decisions a chain notes in a round, at most."""
NOTES = 100
"""Trees looked at for that, evenly spaced over the last three quarters of the round."""
PILOT = 10
"""Steps before the rounds, to see what each kind of proposal costs."""
FORGETTING = 0.7
"""What a round before weighs beside the present one in the cost of proposals."""
ROUND, SHORTEST_ROUND = 30, 10
"""Steps of a round, where a run finds its own length, and where it must be short."""
ROUNDS_LOOKS, GROWTHS_LOOKS = 1200, 3000
"""What a chain visits in the rounds before the graph, and in those with it, in looks at the whole table."""
ROUNDS_FRACTION, LEARNING_AT_MOST = 0.2, 0.6
"""Part of the work that the rounds before the graph are to take, and that all may."""
LARGEST_LOOK = 200_000
"""What a look at a table may cost for chains to learn from it: on larger ones local moves predict as well sooner."""
MANY_VALUES, MOST_WORK = 50_000, 2e10
"""Values of a table beyond which a run has work in proportion, and the most it has, where nothing is said of it."""
GROWTHS = 3
"""Rounds after those, in which the graph of what trees meet grows; where a run finds its own length, at most."""
EFFECTIVE = 0.6
"""Part of the trees drawn afresh that their weights leave, from which on such a graph need not grow."""
GROWTH = 2
"""How many times the steps of the rounds before such a round has."""
FRESH = 200
"""Trees that each chain draws afresh in such a round, and as many to see more, beside those of its steps."""
VISITS, VISITED, VISITING = 6, 8, 0.75
"""Times a chain is brought to another stratum in such a round, trees drawn for each, and the part of the round they
are spread over."""
DOUBT = 3.0
"""Nats by which the graph must know more of a stratum than trees drawn before it, for these not to count."""
MOST_PIECES = 1 << 17
"""Pieces and links of the graph, each, at most."""


class Studied(NamedTuple):
    """What a round found."""

    end: Snapshot
    decisions: Decisions
    cost: np.ndarray
    """(2, steps of the kernel): proposals, and rows they visited."""
    rows: int
    """Rows visited, those of trees drawn afresh among them."""
    graph: Graph | None
    """Where it was to grow."""
    weights: np.ndarray
    """Log weights of the trees drawn afresh for it."""


class Lesson(NamedTuple):
    """A round of one chain."""

    plan: Plan
    end: Snapshot | None
    density: np.ndarray
    beta: float
    tuned: int
    """Draws of tuning done when the round is over."""
    graph: Graph | None = None
    """The graph that is to grow."""
    room: int = 0
    """Pieces and links, each, that it may grow by."""
    visits: tuple[int, ...] = ()
    """Features at the root of trees from which the chain goes on in turn, while the graph grows."""


def study(lesson: Lesson, stopped: Signal = None) -> Studied:
    """Run one chain through a round, or until it is ``stopped``; where it is, and what its trees decided."""
    run = Run(lesson.plan, lesson.end)
    before = int(run.chain.state.count[ROWS])
    run.begin()
    set_density(run.chain, lesson.density, lesson.beta)
    graph, weights = growing(run.chain, lesson.graph, lesson.room), []
    noted, tour = new_decisions(CELLS_NOTED), list(lesson.visits)
    packed, first, last = pack(noted), run.tuned, lesson.tuned
    every = max(3 * (last - first) // (4 * NOTES), 1)
    while run.tuned < last and not is_set(stopped):
        made = len(lesson.visits) - len(tour)
        if tour and (run.tuned - first) * len(lesson.visits) >= VISITING * (last - first) * made:
            visited(run.chain, tour.pop(0), VISITED)
        look = min(run.tuned + every, last)
        while run.tuned < look and not is_set(stopped):
            run.advance(min(run.block, look - run.tuned))
        if graph is not None:
            n = round(FRESH * every / (last - first))
            weights.append(draw_afresh(run.chain, n, by_stratum=bool(lesson.visits), stopped=stopped))
        elif 4 * (run.tuned - first) > last - first:
            note_decisions(run.chain.walk, packed)
    set_density(run.chain, None, 1.0)
    run.chain.take(new_graph())
    drawn = np.concatenate([*weights, np.empty(0)])
    rows = int(run.chain.state.count[ROWS]) - before
    return Studied(run.snapshot, trimmed_decisions(noted), run.chain.cost, rows, graph, drawn)


def growing(chain: Chain, known: Graph | None, room: int) -> Graph | None:
    """Let a graph grow with the trees of a chain, where it is to."""
    if known is None:
        return None
    m, n = (int(known.used[i]) + room for i in (N_PIECES, N_LINKS))
    graph = roomy(known, m, n)
    graph.used[GROWING] = 1
    chain.take(graph)
    return graph


def on_pool(work: Work, do: Callable[[Submit], Any], stopped: Stop | None = None) -> Any:
    """Run `do` with a function that submits tasks to the executor, or to threads, and return its result.

    Tasks end by the signal ``stopped``, by default that of the end of the run, and by an interruption.
    """
    stopped = work.stop.part(1.0) if stopped is None else stopped
    pool = ThreadPoolExecutor(min(len(work.plans), n_cores())) if work.executor is None else None
    try:
        return do(partial(_submit, pool or work.executor, stopped))
    finally:
        # at an end there is nothing to be stopped
        stopped.set()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def start_clock(work: Work) -> None:
    """Compile what chains in threads call, and start the clock if there is a time limit.

    In the main thread, which an interruption ends at once: a pool would wait for its threads to compile.
    """
    if work.executor is None:
        Run(work.plans[0])
    work.stop.start()


def learn(work: Work) -> Work:
    """Tune chains together; the work left, in which they stand at their first draw, the density frozen in them.

    Chains lost on an executor are named in it; the others go on without what those decided. Where other chains have
    learned already, as when a run that lost some is resumed, a chain begins its tuning with the density of those.
    """
    known = [result for result in work.before if result is not None]
    if known:
        (replica,) = known[0].end.replicas
        learned = replica.state[ARRAYS.index("density")], replica.graph
        before = [_begun(plan, *learned) if r is None else r for plan, r in zip(work.plans, work.before, strict=True)]
        return work._replace(before=before)
    return _learn(work)


def _submit(pool: Executor, stopped: Stop, task: Callable[..., Any], given: Any) -> Future:
    return pool.submit(task, given, stopped)


def _learn(work: Work) -> Work:
    first = work.plans[0]
    tune = first.tune if first.length is None else sum(_lengths(first, len(work.plans)))
    total, grown = tune * len(work.plans), may_grow(first.start)
    try:
        with Progress(0, work.progress, first.kernel, grown, tune=total) as progress:
            start_clock(work)
            stopped = work.stop.part(LEARNING)
            return on_pool(work, lambda submit: _rounds(work, submit, progress, stopped), stopped)
    except KeyboardInterrupt:
        until = "every chain had a draw" if work.executor is None else "a chain had finished"
        raise KeyboardInterrupt(nothing_left(until, work)) from None


def _rounds(work: Work, submit: Submit, progress: Progress, stopped: Stop) -> Work:
    lost = dict(work.lost)
    n_features = len(work.plans[0].model.lowered.split_prior.feature)
    density = first_density(n_features)
    ends: list[Snapshot | None] = [None] * len(work.plans)
    plans, rounds, by_chain, spent = list(work.plans), [], [], 0.0
    strata, noted, cost = None, np.zeros(n_features), np.zeros((2, len(plans[0].kernel.names)))
    length, graph, betas = plans[0].length, new_graph(), [*BETAS, *[1.0] * (_n_rounds(plans[0]) - len(BETAS))]
    n_rounds = len(betas)
    schedule = [plans[0].tune * (number + 1) // n_rounds for number in range(n_rounds)]
    if length is not None:
        schedule, betas = list(accumulate(_lengths(plans[0], len(plans)))), [BETAS[0], *betas]
    first_growth = len(betas) - n_rounds + len(BETAS)
    for number, (tuned, beta) in enumerate(zip(schedule, betas, strict=True)):
        progress.update(schedule[number - 1] * len(plans) if number else 0, f"round {number + 1} of {len(betas)}")
        plans = [plan._replace(tune=tuned) for plan in plans]
        grows = number >= first_growth
        room = (MOST_PIECES - int(graph.used.max())) // len(plans)
        if number == first_growth and strata is not None:
            graph = _charted(work._replace(plans=plans, lost=lost), submit, density, ends, strata)
            room = (MOST_PIECES - int(graph.used.max())) // len(plans)
        lesson = Lesson(plans[0], None, density, beta, tuned, graph if grows else None, room)
        lessons = {c: lesson._replace(plan=plan, end=ends[c]) for c, plan in enumerate(plans) if c not in lost}
        if grows and strata is not None:
            tours = tours_of(graph, strata, len(lessons))
            lessons = {c: one._replace(visits=tour) for (c, one), tour in zip(lessons.items(), tours, strict=True)}
        found = done_by(work, submit, study, lessons, lost)
        if not found:
            return work._replace(lost=lost)
        for c, result in found.items():
            ends[c] = result.end
        if length is not None:
            made = sum(result.cost for result in found.values())
            cost = FORGETTING * cost + made
            kernel = plans[0].kernel
            spent += sum(result.rows for result in found.values()) + STEP_ROWS * float(made[0].sum())
            if kernel.adapts:
                kernel = kernel.by_cost(cost, length.work / (MOST_TIMES * length.draws * len(plans)))
                plans = [plan._replace(kernel=kernel) for plan in plans]
        if grows:
            grown = [result.graph for result in found.values() if result.graph is not None]
            graph = joined_graph(grown) if grown else graph
            drawn = np.concatenate([result.weights for result in found.values()])
            is_enough = effective_part(drawn) >= EFFECTIVE or int(graph.used.max()) >= MOST_PIECES
            is_over = is_enough or spent > LEARNING_AT_MOST * length.work if length is not None else False
            if is_over and not stopped.is_set():
                break
        elif tuned > PILOT or length is None:
            rounds.append(joined_decisions([result.decisions for result in found.values()]))
            by_chain = [*by_chain, {c: result.decisions for c, result in found.items()}][-REMEMBERED:]
            density = fit_density(joined_decisions(rounds[-REMEMBERED:]), density)
            if beta == 1.0 and not stopped.is_set():
                noted = roots_noted(joined_decisions(rounds[-REMEMBERED:]), n_features)
                density, strata = _surveyed(work._replace(plans=plans, lost=lost), submit, density, ends, noted)
                if plans[0].model.lowered.split_prior.is_fixed:
                    plans = [_told(plan, strata=strata) for plan in plans]
            is_last = number == first_growth - 1 and strata is not None
            if is_last and length is not None and spent <= LEARNING_AT_MOST * length.work and not stopped.is_set():
                fits, rows = _fitted_apart(work._replace(plans=plans, lost=lost), submit, by_chain, ends)
                plans, by_chain, spent = [_told(plan, fits=fits) for plan in plans], [], spent + rows
        if stopped.is_set() and (number + 1 < len(betas) or any(ends[c].tuned < tuned for c in found)):
            # strata and fits that are known in part are no basis for a warning
            plans = [_told(plan._replace(tune=schedule[-1]), strata=None, fits=None) for plan in plans]
            work.stop.cuts.append(f"learning from round {number + 1} of {len(betas)} on")
            break
    graph = frozen(graph)
    if length is not None:
        steps = max(int((length.work - spent) / (kernel.rows_per_block(cost) * len(plans))), plans[0].draws)
        plans = [_told(plan, steps=length.steps or steps, affordable=steps) for plan in plans]
    before = [None if c in lost else begun_with(plan, ends[c], density, graph) for c, plan in enumerate(plans)]
    return work._replace(plans=plans, before=before, lost=lost)


def look_rows(model: TreeModel) -> int:
    """What it costs to score the splits of all features at the root, in rows visited."""
    features = model.lowered.split_prior.feature
    return model.units.codes.shape[1] * len(features) + CODE_ROWS * int(features.n_codes.sum())


def default_work(model: TreeModel) -> float:
    """Rows that a run visits at most, where nothing is said of its work: more of a large table, if that can be learned
    from.
    """
    if look_rows(model) > LARGEST_LOOK:
        return WORK
    values = model.units.n_units * len(model.lowered.split_prior.feature)
    return min(WORK * max(values / MANY_VALUES, 1.0), MOST_WORK)


def learns_within(work: float, model: TreeModel, chains: int) -> bool:
    """Whether the rounds pay, and fit into the rows that a run may visit, if need be short ones."""
    least, look = ROUNDS_LOOKS * SHORTEST_ROUND / ROUND + GROWTHS_LOOKS, look_rows(model)
    return look <= LARGEST_LOOK and least * look * chains <= LEARNING_AT_MOST * work


def round_steps(plan: Plan, chains: int) -> int:
    """Steps of a round, where a run finds its own length: fewer where the rounds would take too much of its work."""
    look, work = look_rows(plan.model) * chains, plan.length.work
    rows = min(ROUNDS_FRACTION * work, LEARNING_AT_MOST * work - GROWTHS_LOOKS * look)
    return int(min(max(ROUND * rows / (ROUNDS_LOOKS * look), SHORTEST_ROUND), ROUND))


def tours_of(graph: Graph, strata: np.ndarray, n: int) -> list[tuple[int, ...]]:
    """Strata that each of ``n`` chains is brought to, those of little evidence more often than by it.

    None where no tree drawn of any had a weight.
    """
    known = root_evidences(graph, len(strata))
    if not (strata > -np.inf).any():
        return [()] * n
    if (known > -np.inf).any():
        strata = np.maximum(known - logsumexp(known), strata - logsumexp(strata) - DOUBT)
    features = spread(flattened(strata), VISITS * n, 0.5)
    return [tuple(features[c::n]) for c in range(n)]


def _lengths(plan: Plan, chains: int) -> list[int]:
    """Steps of the pilot and of each round, where a run finds its own length."""
    steps = round_steps(plan, chains)
    return [PILOT, *[steps] * len(BETAS), *[GROWTH * steps] * (_n_rounds(plan) - len(BETAS))]


def _n_rounds(plan: Plan) -> int:
    """Rounds of tuning; sums over subtrees are not kept where the variance of the leaves or feature weights move."""
    if not plan.model.lowered.is_fixed:
        return len(BETAS)
    return len(BETAS) + GROWTHS


def effective_part(log_weights: np.ndarray) -> float:
    """Effective number of weighted draws (Kish), in parts of all; 0 of none."""
    if not np.isfinite(log_weights).any():
        return 0.0
    w = np.exp(log_weights - log_weights.max())
    return float(w.sum() ** 2 / ((w**2).sum() * len(w)))


def _surveyed(
    work: Work, submit: Submit, density: np.ndarray, ends: list[Snapshot | None], noted: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """The density with the features of its root balanced, and the log evidences (p,) of their strata, None without.

    Chains lost on the way are noted in ``work.lost``; ``ends`` become those after the survey.
    """
    lost = work.lost
    chains = [c for c in range(len(ends)) if c not in lost]
    features = np.arange(len(work.plans[0].model.lowered.split_prior.feature))
    tasks = {
        c: Survey(work.plans[c], ends[c], density, features[i :: len(chains)], WEIGHTS) for i, c in enumerate(chains)
    }
    found = done_by(work, submit, survey, tasks, lost)
    if not found:
        return density, None
    weights: dict[int, np.ndarray] = {}
    for c, result in found.items():
        ends[c] = result.end
        weights |= result.weights
        fractions = result.fractions
    if not weights:
        return density, None
    strata = np.full(len(features), -np.inf)
    for feature, value in log_evidences(weights).items():
        strata[feature] = value
    return balanced(density, fractions, weights, noted), strata


def _charted(work: Work, submit: Submit, density: np.ndarray, ends: list[Snapshot | None], strata: np.ndarray) -> Graph:
    """A graph of splits of the root on all features whose strata, by their log evidences, may matter.

    Chains lost on the way are noted in ``work.lost``; ``ends`` become those after it.
    """
    features, chains = np.flatnonzero(flattened(strata)), [c for c in range(len(ends)) if c not in work.lost]
    room = MOST_PIECES // (2 * max(len(chains), 1))
    tasks = {c: Chart(work.plans[c], ends[c], density, features[i :: len(chains)], room) for i, c in enumerate(chains)}
    found = done_by(work, submit, chart, tasks, work.lost)
    for c, result in found.items():
        ends[c] = result.end
    return joined_graph([result.graph for result in found.values()]) if found else new_graph()


def _fitted_apart(
    work: Work, submit: Submit, by_chain: list[dict[int, Decisions]], ends: list[Snapshot | None]
) -> tuple[np.ndarray | None, int]:
    """`Course.fits` by the decisions of each half of the chains alone, and the rows visited to know them.

    None where one half is missing, or where the variance of the leaves or feature weights are drawn: what trees weigh
    moves with them.
    """
    model, left = work.plans[0].model, [c for c in range(len(ends)) if c not in work.lost]
    if not model.lowered.is_fixed:
        return None, 0
    densities = fitted_halves(by_chain, len(model.lowered.split_prior.feature))
    sources = [next((c for c in left if c % 2 == half), None) for half in range(2)]
    if len(densities) < 2 or None in sources:
        return None, 0
    tasks = {
        half: Fitted(work.plans[c], ends[c].generator, density, len(left))
        for half, (c, density) in enumerate(zip(sources, densities, strict=True))
    }
    found = done_by(work, submit, draw_fitted, tasks, {})
    rows = sum(rows for _, rows in found.values())
    return (fits_of([found[half][0] for half in range(2)], model) if len(found) == 2 else None), rows


def roots_noted(decisions: Decisions, p: int) -> np.ndarray:
    """How often (p,) each feature is split on at the root."""
    chosen = decisions.chosen[(decisions.level == 0) & (decisions.chosen >= 0)]
    return np.bincount(decisions.feature[chosen], minlength=p)


def _told(plan: Plan, **known: Any) -> Plan:
    """A plan that keeps what is known, where its run finds its own length."""
    return plan if plan.length is None else plan._replace(length=plan.length._replace(**known))


def done_by(
    work: Work, submit: Submit, task: Callable[..., Any], given: dict[int, Any], lost: dict[int, Exception]
) -> dict[int, Any]:
    """What came of a task of each chain; on an executor ``lost`` has those of which nothing came."""
    found, futures = {}, {}
    try:
        for c, one in given.items():
            try:
                futures[c] = submit(task, one)
            except RuntimeError as error:
                # a pool whose worker died takes no more tasks
                lost[c] = error
        for c, future in futures.items():
            try:
                found[c] = future.result()
            except NotFinite:
                raise
            except Exception as error:
                if work.executor is None:
                    raise
                lost[c] = error
    except KeyboardInterrupt:
        for future in futures.values():
            future.cancel()
        raise
    return found


def begun_with(plan: Plan, end: Snapshot, density: np.ndarray, graph: Graph) -> Result:
    """A chain that draws from the density and by the graph from now on."""
    at, (replica,) = ARRAYS.index("density"), end.replicas
    state = (*replica.state[:at], density, *replica.state[at + 1 :])
    saved = trimmed(new_saved(0, len(plan.kernel.moves), plan.model.lowered.leaf.n_stats, plan.model.lowered.n_weights))
    return Result(saved, None, end._replace(replicas=(replica._replace(state=state, graph=graph),)))


def _begun(plan: Plan, density: np.ndarray, graph: Graph) -> Result:
    """A chain at its start, its tuning before it."""
    run = Run(plan._replace(draws=0))
    run.begin()
    return begun_with(plan, run.snapshot, density, graph)
