"""Tuning in rounds: the same draws however chains are run, what it may cost; lost modes."""

import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc import course as _course
from pactree_mcmc.mcmc import sampling as _sample
from pactree_mcmc.mcmc.chain.draw_store import select_draws
from pactree_mcmc.mcmc.kernel import LOCAL_WEIGHTS, WHOLE_WEIGHTS, Kernel, read_kernel
from pactree_mcmc.mcmc.run import loop as _loop
from pactree_mcmc.mcmc.run.records import DEFAULT_WORK, Request
from pactree_mcmc.mcmc.state.records import N_PIECES, initial_density, new_graph
from pactree_mcmc.mcmc.sums.split_sums import ROWS_PER_CODE
from pactree_mcmc.mcmc.whole import rounds as _rounds
from pactree_mcmc.mcmc.whole.density.density import MAX_REDRAWN_VALUES
from pactree_mcmc.mcmc.whole.density.graph import merge_graphs
from pactree_mcmc.mcmc.whole.evidence import visited_probabilities
from pactree_mcmc.mcmc.whole.rounds import (
    MAX_WHOLE_LENGTH,
    MIN_PASSES,
    ROUND_STEPS,
    WHOLE_WORK,
    has_work_to_tune,
    pass_rows,
    rounds_of,
    work_by_default,
)
from pactree_mcmc.posterior.convergence import first_failure, lacking_features, short_diagnosis
from tests.mcmc.run.test_executors import SPAWN, AtOnce
from tests.mcmc.run.test_interruption import HangingExecutor
from tests.problems.runs import MODELS, assert_equal, assert_same, course_of, course_of_teams, draw, made_in

MIXED = {"informed-change": 0.2, "learned": 0.3, "collapsed": 0.4, "rotate": 0.1}
LOST = 0
"""Feature of the roots of the mode that a team loses. It has about a quarter of the posterior."""
ROOTS_THAT_DRAWS_LACK = [
    ((0.6, 0.4, 0.0), (0.5, 0.3, 0.0), []),
    ((0.6, 0.398, 0.002), (0.5, 0.3, 0.03), [2]),
    ((0.6, 0.38, 0.02), (0.5, 0.3, 0.03), []),
    ((0.6, 0.4, 0.0), (0.5, 0.3, 0.012), [2]),
    ((0.6, 0.4, 0.0), (0.5, 0.3, 0.008), []),
    ((1.0, 0.0, 0.0), (0.9, 0.0, 0.0), []),
    ((0.9, 0.1, 0.0), (0.5, 0.45, 0.0), [1]),
]


def learned(name="classes", draws=20, **rest):
    return draw(name, draws, **({"kernel": "whole", "tune": 35} | rest))


def densities(post):
    return [post.course.tuned.density[rest.team] for rest in post.course.rests]


@pytest.mark.more
def test_threads_and_processes_draw_the_same():
    whole = learned()
    with ThreadPoolExecutor(2) as pool:
        assert_same(learned(executor=pool), whole)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        assert_same(learned(executor=pool), whole)
    assert whole.draws.n_distinct_trees > 10


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("tune", [0, 10, 35])
def test_the_chains_of_a_team_share_one_density_and_graph(tune):
    """Without tuning it is the first one."""
    post = learned(tune=tune, chains=4)
    found = densities(post)
    assert post.course.teams == [[0, 2], [1, 3]]
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])
    assert np.array_equal(found[0], found[1]) == (tune == 0)
    assert np.array_equal(found[0], initial_density()) == (tune == 0) and np.isfinite(found).all()
    assert len(post.course.tuned.graphs) == 2


@pytest.mark.more
def test_noting_decisions_in_other_blocks_changes_nothing(monkeypatch):
    whole = learned(tune=700)
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    assert_same(learned(tune=700), whole)


@pytest.mark.more(everyday=["whole-classes", "mixed-fractions of classes"])
@pytest.mark.parametrize(("kernel", "name"), list(product(["whole", "mixed"], MODELS)))
def test_resumed_is_uninterrupted(name, kernel):
    kernel = MIXED if kernel == "mixed" else kernel
    half, whole = learned(name, 7, kernel=kernel), learned(name, kernel=kernel)
    assert_same(pt.resume(half, 13, progress=False), whole)


@pytest.mark.more
@pytest.mark.parametrize("name", ["classes", "shared variance"])
def test_every_checkpoint_leads_to_the_same_draws(name, copies, tmp_path):
    """From before tuning, when no chain has anything, and from among the draws."""
    whole = learned(name, 4, checkpoint=tmp_path / "run.nc", every=1e-6)
    assert_same(whole, learned(name, 4))
    assert course_of(copies[0]).tuned.tune == -1 and course_of(copies[1]).tuned.tune == 35
    assert made_in(copies[0]) == made_in(copies[1]) == (0, 0)
    for written in (copies[0], copies[1], copies[-2]):
        assert_same(pt.resume(written, progress=False), whole)


@pytest.mark.more
def test_a_file_keeps_the_density(tmp_path):
    whole, half = learned(), learned(draws=7)
    half.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert all(np.array_equal(a, b) for a, b in zip(densities(again), densities(half), strict=True))
    assert_same(pt.resume(again, 13, progress=False), whole)


def lost_with(chain, tmp_path, chains=4):
    """A run that loses one chain in the third round, its other chains, and the run resumed from the checkpoint."""
    path = tmp_path / "run.nc"
    # tasks of a round are submitted by team
    number = 2 * chains + [*range(0, chains, 2), *range(1, chains, 2)].index(chain)
    with pytest.warns(UserWarning, match=rf"1 of {chains} chains were lost \(chain {chain}: RuntimeError: worker lost"):
        post = learned(draws=6, chains=chains, executor=AtOnce(number), checkpoint=path, every=60.0)
    assert post.n_chains == chains - 1
    # it is where the second round has left it
    assert [rest.tuned for rest in course_of(path).rests] == [7 if c == chain else 35 for c in range(chains)]
    assert made_in(path) == tuple(0 if c == chain else 6 for c in range(chains))
    return post, [c for c in range(chains) if c != chain], pt.resume(path, progress=False)


def test_a_chain_lost_in_tuning_is_left_out(tmp_path):
    """The others go on. Resumed from the checkpoint, the chain begins with the density and graph of its team."""
    post, others, again = lost_with(2, tmp_path)
    assert post.course.teams == [[0], [1, 2]] and again.course.teams == [[0, 2], [1, 3]]
    found = densities(again)
    assert np.array_equal(found[2], found[0]) and not np.array_equal(found[2], found[1])
    for mine, c in enumerate(others):
        assert np.array_equal(post.log_score[mine], again.log_score[c])


def test_a_team_lost_in_tuning_goes_on_with_the_other(tmp_path):
    """Its chain begins with the density of the other team and belongs to it, as it is no independent witness."""
    post, _, again = lost_with(1, tmp_path, chains=3)
    assert post.course.teams == [[0, 1]] and again.course.teams == [[0, 1, 2]]
    found = densities(again)
    assert np.array_equal(found[1], found[0]) and len(post.course.evidences) == len(again.course.evidences) == 1


def test_interrupted_while_learning(monkeypatch):
    """Threads at work stop after their block, not at the end of a round of minutes; what they tuned is lost."""
    real, interruptions = _loop.wait, [KeyboardInterrupt]

    def wait(*args, **rest):
        if interruptions:
            raise interruptions.pop()
        return real(*args, **rest)

    monkeypatch.setattr(_loop, "wait", wait)
    with pytest.raises(KeyboardInterrupt, match="before every chain had a draw; nothing to return"):
        learned(tune=10**7)
    assert learned(draws=5).n_draws == 5


@pytest.mark.more
@pytest.mark.parametrize("n_done", [0, 3])
def test_interrupted_while_an_executor_learns(n_done, tmp_path):
    executor, path = HangingExecutor(n_done), tmp_path / "run.nc"
    with pytest.raises(KeyboardInterrupt, match=r"before a chain had finished; pt\.resume\(.*run\.nc"):
        learned(draws=5, executor=executor, checkpoint=path)
    assert all(future.cancelled() for future in executor.futures[n_done + 1 :])
    assert_same(pt.resume(path, progress=False), learned(draws=5))


@pytest.mark.more(everyday=["1-teams0"])
@pytest.mark.parametrize(
    ("chains", "teams"),
    [(1, [[0]]), (2, [[0], [1]]), (3, [[0, 2], [1]]), (4, [[0, 2], [1, 3]]), (5, [[0, 2, 4], [1, 3]])],
)
def test_chains_tune_in_two_teams(chains, teams):
    post = learned(draws=5, chains=chains)
    assert post.course.teams == teams and post.course.evidences.shape == (len(teams), 2)
    assert [rest.team for rest in post.course.rests] == [c % 2 for c in range(chains)]


def chain_draws(post, c):
    trees = [post.draws.distinct_tree(tree) for tree in post.draws.tree_of_draw[c].tolist()]
    return trees, [post.draws.proposed[c], post.draws.accepted[c]], post.course.rests[c]


def assert_team_unchanged(run):
    """The draws of a team do not depend on a seed of the other team, but on that of its own team."""
    one, other = run([1, 2, 3, 4]), run([1, 2, 3, 5])
    for c in (0, 2):
        assert_equal(chain_draws(one, c), chain_draws(other, c))
        assert one.course.evidences[0].tolist() == other.course.evidences[0].tolist()
    for c in (1, 3):
        assert chain_draws(one, c)[0] != chain_draws(other, c)[0]
    assert one.course.evidences[1].tolist() != other.course.evidences[1].tolist()


@pytest.mark.more
def test_a_team_depends_on_no_chain_of_the_other():
    assert_team_unchanged(lambda seeds: learned(chains=4, rng=seeds))


def test_a_team_of_a_default_run_depends_on_costs_of_the_other_alone(monkeypatch):
    """Up to the first verdict. The costs of proposals set the weights of the moves of all chains."""
    monkeypatch.setattr(Kernel, "with_weights_by_cost", lambda kernel, cost, rows: kernel)
    assert_team_unchanged(
        lambda seeds: pt.sample(MODELS["classes"], 20, rng=seeds, kernel="whole", work=3e8, steps=20, progress=False)
    )


def test_the_probabilities_of_splits_add_up():
    """On a table so small that the graph contains every tree, and of whose terms some are the same for all splits."""
    X = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.0, 1.0]])
    model = pt.TreeModel(X, [0, 1, 0, 1, 1, 0])
    truth = exact.solve(model).log_evidence
    for seed in range(2):
        post = pt.sample(model, 250, rng=seed, kernel="whole", steps=250, progress=False)
        for graph in post.course.tuned.graphs:
            for piece in graph.piece[: graph.used[N_PIECES]]:
                total, e = np.exp(piece.g_stop), piece.first
                while e >= 0:
                    total, e = total + np.exp(graph.link.g[e]), graph.link.next[e]
                assert total == pytest.approx(1.0, abs=1e-9)
        assert post.log_evidence == pytest.approx(truth, abs=0.003) and 0.0 < post.log_evidence_se < 0.003


def table(n, p, codes, **rest):
    """Rows that are all different, whose features have so many values each."""
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.permutation(np.arange(n) % codes) for _ in range(p)] + [np.arange(n)])
    return pt.TreeModel(X.astype(float), np.arange(n) % 2, **{"split_prior": pt.LocalCuts()} | rest)


def test_a_pass_visits_every_row_by_every_feature_and_its_codes():
    assert pass_rows(table(60, 2, 5)) == 60 * 3 + ROWS_PER_CODE * (5 + 5 + 60)
    assert pass_rows(table(60, 0, 5)) == 60 + ROWS_PER_CODE * 60


def test_coarser_cuts_and_missing_values_are_counted():
    """Codes are those of the cuts; values that are missing make a feature count twice."""
    fine, coarse = table(400, 3, 300), table(400, 3, 300, split_prior=pt.GridCuts(8))
    assert pass_rows(coarse) < pass_rows(fine)
    X = np.column_stack([np.arange(50.0), np.arange(50.0) % 7])
    whole = pt.TreeModel(X, np.arange(50) % 2, missing="branch")
    X[3, 1] = np.nan
    gaps = pt.TreeModel(X, np.arange(50) % 2, missing="branch")
    assert pass_rows(gaps) > pass_rows(whole) + 40


def request_of(model, work, chains=4):
    return Request(model, 100, 0, 1, None, ("stump",) * chains, is_adaptive=True, work=float(work))


def test_rounds_have_their_length_whatever_the_work():
    model = table(100, 3, 10)
    for work in (1.0, 1e8, 1e12):
        ends = [last for _, last in rounds_of(request_of(model, work))]
        assert (np.diff(ends, prepend=0) == ROUND_STEPS).all()


def least_work(model, chains):
    return MIN_PASSES * pass_rows(model) * chains


@pytest.mark.parametrize("chains", [1, 4, 17])
@pytest.mark.parametrize("size", [(60, 2, 5), (3000, 5, 900)])
def test_tuning_in_rounds_begins_where_it_says(size, chains):
    model = table(*size)
    least = least_work(model, chains)
    assert has_work_to_tune(least * (1 + 1e-12), model, chains) and not has_work_to_tune(
        least * (1 - 1e-12), model, chains
    )
    assert has_work_to_tune(work_by_default(model), model, chains)


def both_sides_of_the_largest_pass():
    n = MAX_REDRAWN_VALUES // (10 + 10 * ROWS_PER_CODE)
    return table(n, 9, n), table(n + 1, 9, n + 1)


def test_no_density_is_fitted_to_larger_tables_whatever_the_work(planned):
    less, more = both_sides_of_the_largest_pass()
    assert pass_rows(less) <= MAX_REDRAWN_VALUES < pass_rows(more)
    assert planned(less).kernel.names == tuple(WHOLE_WEIGHTS)
    for work in (1e10, 1e15):
        assert planned(more, work=work).kernel == read_kernel(LOCAL_WEIGHTS, 100)
    assert planned(more, kernel="whole").kernel.names == tuple(WHOLE_WEIGHTS)


def test_the_work_is_larger_if_a_density_is_fitted(planned):
    """Of rows that differ, by ten features: no pass over fewer than 20,000 of them is too large."""
    for n, most in [(1000, WHOLE_WORK), (15_000, WHOLE_WORK), (20_000, DEFAULT_WORK)]:
        X = np.random.default_rng(n).integers(0, 9, (n, 10)).astype(float)
        model = pt.TreeModel(X, np.random.default_rng(1).normal(size=n))
        assert work_by_default(model) == most and model.units.n_units > 0.999 * n
        assert planned(model).work == work_by_default(model)
        assert planned(model, kernel="whole").work == work_by_default(model)
        assert planned(model, work=123.0).work == 123.0
        for rest in ({"kernel": "local"}, {"betas": 3}, {"kernel": "local", "seconds": 9.0}):
            assert planned(model, **rest).work == DEFAULT_WORK


@pytest.fixture
def planned(monkeypatch):
    """The request of a run that is not made."""

    def plan(model, **rest):
        monkeypatch.setattr(_sample, "run_to_end", lambda run: run.request)
        return pt.sample(model, 1000, **({"rng": 1, "progress": False} | rest))

    return plan


@pytest.mark.parametrize("chains", [2, 4])
def test_the_default_kernel_changes_exactly_where_tuning_in_rounds_begins(planned, chains):
    model = MODELS["classes"]
    at = least_work(model, chains)
    more, less = (planned(model, chains=chains, work=at * times) for times in (1 + 1e-12, 1 - 1e-12))
    assert more.kernel == read_kernel(WHOLE_WEIGHTS, _sample.WHOLE_PROPOSALS_PER_DRAW, adapts=True)
    assert less.kernel == read_kernel(LOCAL_WEIGHTS, 100)
    for given in ("whole", "local"):
        assert len({planned(model, chains=chains, work=work, kernel=given).kernel for work in (1.0, 1e12)}) == 1


def test_the_default_kernel_of_other_runs(planned):
    """A ladder, a run of given length: no density is fitted, however much work there is."""
    model = MODELS["classes"]
    assert planned(model).kernel.names == tuple(WHOLE_WEIGHTS)
    for rest in ({"betas": 3}, {"tune": 50}, {"thin": 2}, {"proposals": 7}):
        assert planned(model, **rest).kernel.names == tuple(LOCAL_WEIGHTS) and not planned(model, **rest).kernel.adapts


def test_costs_of_all_rounds_are_added_up(monkeypatch):
    by_round, costs = [], []
    tuning_round, with_weights_by_cost = _rounds.tuning_round, Kernel.with_weights_by_cost

    def running(*arguments):
        result = yield from tuning_round(*arguments)
        by_round.append(result.cost)
        return result

    def by_costs(kernel, cost, rows):
        costs.append(cost)
        assert rows == pytest.approx(2e8 / (MAX_WHOLE_LENGTH * 6 * 2))
        return with_weights_by_cost(kernel, cost, rows)

    monkeypatch.setattr(_rounds, "tuning_round", running)
    monkeypatch.setattr(Kernel, "with_weights_by_cost", by_costs)
    pt.sample(MODELS["classes"], 6, chains=2, rng=4, progress=False, kernel="whole", work=2e8, steps=6)
    assert len(costs) == 9 and len(by_round) == 18
    for number, cost in enumerate(costs, 1):
        assert cost == pytest.approx(sum(by_round[: 2 * number]), rel=1e-12)
    assert costs[0][0].min() > 0.0


def two_modes():
    rng, n = np.random.default_rng(3), 80
    first = rng.integers(0, 6, n)
    second = np.where(rng.random(n) < 0.85, first, rng.integers(0, 6, n))
    X = np.column_stack([first, second, rng.integers(0, 4, n)]).astype(float)
    y = (first + second > 5) ^ (rng.random(n) < 0.1)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3))


@pytest.fixture(scope="module")
def fraction():
    distribution = exact.solve(two_modes())._root_split_pmf()
    return sum(p for key, p in distribution.items() if key is not None and key[0] == LOST)


def run(**rest):
    """A default run, and its warnings of convergence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = pt.sample(two_modes(), 250, rng=2, progress=False, **rest)
    return post, [str(one.message) for one in caught if one.category is pt.ConvergenceWarning]


def by_team(post):
    return np.array([(post.root_feature[team] == LOST).mean() for team in post.course.teams])


def test_nothing_is_lost_otherwise(fraction):
    assert 0.2 < fraction < 0.35
    post, said = run()
    assert said == [] and abs(by_team(post) - fraction).max() < 0.1


def without_the_mode(saved):
    """The draws of a chain, those in the mode replaced by other draws."""
    roots = saved.node.feature[np.asarray(saved.tree.start)[saved.tree_of_draw]]
    others = np.flatnonzero(roots != LOST)
    nearest = others[np.minimum(np.searchsorted(others, np.arange(len(roots))), len(others) - 1)]
    return select_draws(saved._replace(tree_of_draw=saved.tree_of_draw[nearest]), np.arange(len(roots)))


@pytest.fixture
def lossy(monkeypatch):
    """The draws of one team before the first verdict lack the mode."""
    real = _course.make_draws

    def make_draws(run):
        done = real(run)
        if run.stretch.before == 0:
            both = zip(run.chains, run.draws, strict=True)
            run.draws = [without_the_mode(saved) if chain.team == 1 else saved for chain, saved in both]
        return done

    monkeypatch.setattr(_course, "make_draws", make_draws)


def test_draws_without_a_mode_are_dropped(lossy, fraction):
    """The run goes on, and both teams end with the mode."""
    post, said = run()
    assert post.course.steps > 250 and said == [] and abs(by_team(post) - fraction).max() < 0.1


def test_draws_without_a_mode_are_reported_if_no_work_is_left(lossy, fraction):
    post, (said,) = run(steps=250)
    assert by_team(post)[1] < 0.05 < by_team(post)[0] and "root feature" in said


def pruned(graph):
    """The graph without the splits of the root on the feature."""
    piece = graph.piece[: graph.used[N_PIECES]]
    root, links = piece[piece.depth == 0][0], graph.link.copy()
    e, kept = int(root.first), []
    while e >= 0:
        if links[e].feature != LOST:
            kept.append(e)
        e = int(links[e].next)
    pieces = graph.piece.copy()
    pieces.first[int(np.flatnonzero(piece.depth == 0)[0])] = kept[0]
    for e, following in zip(kept, [*kept[1:], -1], strict=True):
        links.next[e] = following
    return merge_graphs([new_graph(len(pieces), len(links)), graph._replace(piece=pieces, link=links)])


@pytest.fixture
def collapsed(monkeypatch):
    """At the end of tuning the graph of one team lacks the mode."""
    real = _rounds.tune_in_teams

    def tune_in_teams(run):
        real(run)
        one, other = run.tuned.graphs
        run.tuned = run.tuned._replace(graphs=(one, pruned(other)))

    monkeypatch.setattr(_course, "tune_in_teams", tune_in_teams)


@pytest.mark.parametrize("rest", [{}, {"steps": 250}])
def test_a_graph_without_a_mode_is_repaired_or_reported(collapsed, fraction, rest):
    post, said = run(**rest)
    assert abs(by_team(post) - fraction).max() < 0.1 or said


@pytest.fixture(scope="module")
def post():
    return pt.sample(two_modes(), 500, rng=1, progress=False)


def graphs_of(post):
    return list(post.course.tuned.graphs)


def test_bounds_are_those_of_the_exact_engine_on_a_table_that_the_graph_exhausts(post):
    """Few trees have much weight: the bounds lie below the exact probabilities, and nearly reach them."""
    truth = exact.solve(post.model)
    root = np.zeros(3)
    for key, probability in truth._root_split_pmf().items():
        if key is not None:
            root[key[0]] += probability
    bounds = visited_probabilities(post.model, graphs_of(post), np.array([[truth.log_evidence, 0.0]]))
    for bound, probability in zip(bounds, (root, truth._feature_inclusion()), strict=True):
        assert (bound <= probability + 1e-9).all() and (bound > probability - 0.05).all(), (bound, probability)
    assert np.array_equal(
        post.course.visited, visited_probabilities(post.model, graphs_of(post), post.course.evidences)
    )
    assert visited_probabilities(post.model, graphs_of(post), None) is None


def test_an_evidence_below_the_sum_does_not_make_probabilities_above_one(post):
    too_low = np.array([[post.log_evidence - 5.0, 0.1]])
    assert visited_probabilities(post.model, graphs_of(post), too_low).max() <= 1.0
    for graph in graphs_of(post):
        assert visited_probabilities(post.model, [graph], too_low)[0].sum() <= 1.0 + 1e-9


def posterior_with(fractions, bounds, repeats=1):
    """Draws whose root feature is 0, 1, 2 with these probabilities, in visits of ``repeats`` draws."""
    rng = np.random.default_rng(0)
    draws = np.repeat(rng.choice(3, size=(4, 1000 // repeats), p=fractions), repeats, axis=1)
    trees = [pt.Tree([k, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in range(3)]
    post = pt.posterior_from_trees(two_modes(), trees, draws)
    used = np.zeros(3)
    post.course = course_of_teams("whole", (), 1000, np.array([[-1.0, 0.1]]))._replace(visited=np.array([bounds, used]))
    return post


@pytest.mark.planted
@pytest.mark.parametrize(("fractions", "bounds", "lacking"), ROOTS_THAT_DRAWS_LACK)
def test_a_root_that_the_draws_lack_fails_whatever_r_hat_says(fractions, bounds, lacking):
    """As two teams that agree and both lack the root."""
    post = posterior_with(fractions, bounds)
    assert [lack.feature for lack in lacking_features(post)] == lacking and bool(first_failure(post)) == bool(lacking)
    if lacking:
        line, lost, *_ = short_diagnosis(post)
        assert "which tree: not" in line and "a part of the posterior is missing" in lost
        assert lost.startswith(f"Root feature {post.model.columns.names[lacking[0]]!r} has probability 0.")


@pytest.mark.planted
def test_a_chain_that_never_leaves_its_root_fails():
    """The other chains never enter it."""
    post = pt.posterior_from_trees(
        two_modes(),
        [pt.Tree([k, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in range(3)],
        np.concatenate([np.random.default_rng(0).integers(0, 2, (3, 1000)), np.full((1, 1000), 2)]),
    )
    bounds = np.array([[0.4, 0.4, 0.2], [0.0, 0.0, 0.0]])
    post.course = course_of_teams("whole", (), 1000, np.array([[-1.0, 0.1]]))._replace(visited=bounds)
    assert [(lack.feature, lack.is_mixing) for lack in lacking_features(post)] == [(2, False)]


@pytest.mark.planted
def test_visits_that_last_long_are_no_lack():
    """Three visits of twenty draws where six are expected may be chance."""
    assert lacking_features(posterior_with((0.6, 0.385, 0.015), (0.5, 0.3, 0.03), repeats=20)) == []


def test_files_keep_the_bounds(post, tmp_path):
    pytest.importorskip("xarray")
    post.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert np.array_equal(again.course.visited, post.course.visited) and again.draws.caveat == post.draws.caveat == ""
