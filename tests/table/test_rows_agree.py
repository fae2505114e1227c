"""Values that belong to rows: pandas objects with another index are refused, and so are weights of nothing."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

N = 40
X = pd.DataFrame({"a": np.arange(float(N))}, index=[f"r{i}" for i in range(N)])
Y = pd.Series(np.arange(N) > 19, index=X.index)
SHUFFLED = np.random.default_rng(0).permutation(N)
E = pd.Series(np.arange(N) % 2 == 0, index=X.index)
STUMP = pt.Tree([-1], [0], [0], [0], value=[[0.5, 0.5]], classes=[False, True])
COUNTS = pd.Series(np.arange(N) % 3, index=X.index)


def post():
    return exact.solve(pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(max_depth=1)))


CALLS = {
    "y": lambda s: pt.TreeModel(X, s(Y)),
    "y, a frame": lambda s: pt.TreeModel(
        X, s(pd.DataFrame({"time": COUNTS + 1.0, "event": E})), leaf=pt.ExponentialGamma()
    ),
    "sample_weight": lambda s: pt.TreeModel(X, Y, sample_weight=s(COUNTS)),
    "sample_weight beside an array": lambda s: pt.TreeModel(X.to_numpy(), Y, sample_weight=s(COUNTS)),
    "estimation": lambda s: pt.TreeModel(X, Y, estimation=s(E), leaf=pt.FrozenLaplace()),
    "exposure": lambda s: pt.TreeModel(X, COUNTS, leaf=pt.PoissonGamma(exposure=s(COUNTS + 1.0))),
    "regressor": lambda s: pt.BayesianTreeRegressor().fit(X, s(COUNTS)),
    "classifier, weights": lambda s: pt.BayesianTreeClassifier().fit(X, Y, s(COUNTS)),
    "PAC-Bayes": lambda s: exact.PACBayesTreeClassifier().fit(X, s(Y)),
    "dyadic, weights": lambda s: exact.DyadicTreeClassifier().fit(X, Y, s(COUNTS)),
    "kd tree": lambda s: pt.kd_tree(X, 2, y=s(Y)),
    "held out": lambda s: post().holdout_certificate(X, s(Y)),
    "Occam": lambda s: pt.certificates.naive_occam(STUMP, X, s(Y), split_bits=1.0),
    "exposure of new rows": lambda s: pt.posterior_from_trees(
        pt.TreeModel(X, COUNTS, leaf=pt.PoissonGamma()), [STUMP]
    ).predict(X, exposure=s(COUNTS + 1.0)),
    "near-optimal trees": lambda s: post().trees_within(1.0).importance(X, s(Y)),
    "prunings": lambda s: exact.Prunings(STUMP, X, s(Y)),
}


@pytest.mark.parametrize("call", CALLS)
def test_another_index_is_refused(call):
    with pytest.raises(
        ValueError, match=r"in another order .*\.loc\[\w+\.index\].*\.to_numpy\(\) to take it by position"
    ):
        CALLS[call](lambda column: column.iloc[SHUFFLED])
    with pytest.raises(ValueError, match=r"other labels than \w+\.index .*; give \w+\.to_numpy\(\) to take it by pos"):
        CALLS[call](lambda column: column.reset_index(drop=True))


def test_weights_of_nothing():
    with pytest.raises(ValueError, match="sample_weight is 0 in every row; give weights that count some rows"):
        pt.TreeModel(X, Y, sample_weight=np.zeros(N))
    for estimator in (pt.BayesianTreeClassifier(), exact.DyadicTreeClassifier()):
        with pytest.raises(ValueError, match=r"sample_weight is 0 in every row|at least one non-zero number"):
            estimator.fit(X, Y, np.zeros(N))
    with pytest.raises(ValueError, match="sample_weight is 0 in every row"):
        exact.Prunings(STUMP, X, Y, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match=r"exposure=0\.0 is out of range"):
        pt.PoissonGamma(exposure=np.zeros(N))


TIME, EVENT = np.arange(1.0, N + 1), np.arange(N) % 3 > 0
SURVIVAL = {
    "named": pd.DataFrame({"time": TIME, "event": EVENT}),
    "in another order": pd.DataFrame({"event": EVENT.astype(int), "time": TIME}),
    "capitals": pd.DataFrame({"Event": EVENT, "Time": TIME}),
    "other names": pd.DataFrame({"died": EVENT, "days": TIME}),
    "other names, 0 and 1": pd.DataFrame({"days": TIME, "died": EVENT.astype(float)}),
    "nullable": pd.DataFrame({"time": TIME, "event": EVENT}).convert_dtypes(),
    "records": np.array(list(zip(EVENT, TIME, strict=True)), dtype=[("cens", bool), ("futime", float)]),
    "objects": np.array(list(zip(TIME, EVENT, strict=True)), dtype=object),
    "tuples": list(zip(TIME, EVENT, strict=True)),
}


@pytest.mark.parametrize("name", SURVIVAL)
def test_time_and_event_of_any_form(name):
    leaf = pt.ExponentialGamma()
    expected = pt.TreeModel(TIME[:, None], np.column_stack([TIME, EVENT]), leaf=leaf)
    model = pt.TreeModel(TIME[:, None], SURVIVAL[name], leaf=leaf)
    assert np.array_equal(model.target.values, expected.target.values)
    if name == "named":
        import polars as pl

        other_model = pt.TreeModel(
            TIME[:, None], pl.from_dict({"event": EVENT.tolist(), "time": TIME.tolist()}), leaf=leaf
        )
        assert np.array_equal(other_model.target.values, expected.target.values)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (pd.DataFrame({"a": TIME, "b": TIME}), "y has the columns 'a', 'b'; name two of them 'time' and 'event'"),
        (pd.DataFrame({"a": EVENT, "b": EVENT}), "of which only the event consists of True and False"),
        (pd.DataFrame({"a": TIME, "b": EVENT, "c": TIME}), "name two of them 'time' and 'event'"),
        (pd.DataFrame({"time": TIME, "event": "yes"}), "column 'event' of y holds 'yes'"),
        (pd.DataFrame({"time": [None, *TIME[1:]], "event": EVENT}), "y is missing in row 0"),
        (pd.DataFrame({"time": TIME, "event": EVENT + 1}), "the event is 2.0 in row 1; give 1 where it was seen"),
    ],
)
def test_time_and_event_that_are_not_clear(y, words):
    with pytest.raises(ValueError, match=words):
        pt.TreeModel(TIME[:, None], y, leaf=pt.WeibullGamma(k=2.0))


def test_columns_of_y_without_effect_are_named():
    """Somebody may give the time of entry, for which no leaf model corrects."""
    y = pd.DataFrame({"entry": 0.5, "event": EVENT, "time": TIME})
    with pytest.warns(
        UserWarning, match=r"ExponentialGamma uses \['time', 'event'\] alone; \['entry'\] have no effect"
    ):
        model = pt.TreeModel(TIME[:, None], y, leaf=pt.ExponentialGamma())
    assert np.array_equal(model.target.values, np.column_stack([TIME, EVENT]))
