"""The choice of the cases that run on a day."""

from tests.days import DAYS, cases_of_day


def test_all_cases_run_within_ten_days_and_every_function_runs_each_day():
    names = {f"tests/test_{n}.py::test_it[{i}-x[{i}]]" for n in (1, 2, 5, 30, 300) for i in range(n)}
    days = [cases_of_day(names, day) for day in range(DAYS)]
    assert set().union(*days) == names
    functions = {name.partition("[")[0] for name in names}
    assert all({name.partition("[")[0] for name in chosen} == functions for chosen in days)
    assert max(map(len, days)) < len(names) / 5
    assert cases_of_day(names, 739_583) == days[3]
