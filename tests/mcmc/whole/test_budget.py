"""What tuning may cost: passes over the table, whether it pays, how long rounds are, and what proposals cost."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc import sampling as _sample
from pactree_mcmc.mcmc.kernel import LOCAL_WEIGHTS, WHOLE_WEIGHTS, Kernel, read_kernel
from pactree_mcmc.mcmc.run.records import DEFAULT_WORK, Request
from pactree_mcmc.mcmc.sums.split_sums import ROWS_PER_CODE
from pactree_mcmc.mcmc.whole import rounds as _rounds
from pactree_mcmc.mcmc.whole.density.density import MAX_REDRAWN_VALUES
from pactree_mcmc.mcmc.whole.rounds import (
    MAX_WHOLE_LENGTH,
    MIN_ROUND_LENGTH,
    PASSES_FOR_FULL_ROUNDS,
    ROUND_STEPS,
    WHOLE_WORK,
    has_work_to_tune,
    pass_rows,
    round_length,
    rounds_of,
    work_by_default,
)
from tests.problems.runs import MODELS


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


def rounds(model, work, chains=4):
    return round_length(request_of(model, work, chains))


def test_rounds_are_longer_with_more_work_and_fewer_chains():
    model = table(100, 3, 10)
    by_work = [rounds(model, work) for work in np.geomspace(1.0, 1e12, 200)]
    assert by_work[-1] == 1.0 and (np.diff(by_work) >= 0.0).all() and by_work[0] < 1e-3
    by_chains = [rounds(model, 3e8, chains) for chains in range(1, 400)]
    assert (np.diff(by_chains) <= 0.0).all() and by_chains[0] == 1.0 > by_chains[-1]
    assert round_length(request_of(model, 1.0)._replace(is_adaptive=False)) == 1.0


def test_every_round_has_a_step():
    model = table(100, 3, 10)
    for work in (1.0, 1e8, 1e12):
        ends = [last for _, last in rounds_of(request_of(model, work))]
        assert (np.diff(ends, prepend=0) >= 1).all()
    assert np.diff(ends)[0] == ROUND_STEPS


def least_work(model, chains):
    """The work at which the shortest rounds pay."""
    return MIN_ROUND_LENGTH * PASSES_FOR_FULL_ROUNDS * pass_rows(model) * chains


@pytest.mark.parametrize("chains", [1, 4, 17])
@pytest.mark.parametrize("size", [(60, 2, 5), (3000, 5, 900)])
def test_tuning_in_rounds_begins_where_it_says(size, chains):
    model = table(*size)
    least = least_work(model, chains)
    assert has_work_to_tune(least * (1 + 1e-12), model, chains) and not has_work_to_tune(
        least * (1 - 1e-12), model, chains
    )
    assert has_work_to_tune(DEFAULT_WORK, model, chains)
    assert rounds(model, least, chains) == pytest.approx(MIN_ROUND_LENGTH)


def both_sides_of_the_largest_pass():
    """The largest table of ten features without ties to which chains fit a density, and the next one."""
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
    """Weights of the moves are set by them after each round."""
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
