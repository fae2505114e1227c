"""Names of arguments that a function does not have."""

import functools
import inspect
import pickle

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

X = np.arange(20.0)[:, None]
MODEL = pt.TreeModel(X, X[:, 0] > 9)


@functools.cache
def post():
    """Return draws of the model, made once."""
    return exact.solve(MODEL).sample(20, rng=1)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: pt.sample(MODEL, drawz=5), r"sample\(\) has no argument 'drawz'; did you mean 'draws'\?"),
        (
            lambda: pt.resume(post(), chekpoint="a"),
            r"resume\(\) has no argument 'chekpoint'; did you mean 'checkpoint'\?",
        ),
        (lambda: pt.TreeModel(X, X[:, 0] > 9, weights=1), r"TreeModel\(\) has no argument 'weights'; did you mean "),
        (lambda: exact.solve(MODEL, maxcells=5), r"solve\(\) has no argument 'maxcells'; did you mean 'max_cells'\?"),
        (
            lambda: pt.compare_models({"a": MODEL}, seed=1),
            r"compare_models\(\) has no argument 'seed'; did you mean 'rng'\?",
        ),
        (lambda: post().update(X, X[:, 0] > 9, drws=1), r"sample\(\) has no argument 'drws'; did you mean 'draws'\?"),
    ],
)
def test_a_wrong_name_gets_a_suggestion(call, match):
    with pytest.raises(TypeError, match=match):
        call()


def test_names_from_elsewhere_are_known():
    for package in (pt, exact, pt.certificates, pt.plots, pt.testing):
        for name in package.__all__:
            part = getattr(package, name)
            if not callable(part) or (inspect.isclass(part) and issubclass(part, RESULTS)):
                continue
            parameters = inspect.signature(part).parameters
            for own, others in {"rng": ["seed", "random_state"], "random_state": ["seed", "rng"], "X": ["x"]}.items():
                for other in [other for other in others if own in parameters and other not in parameters]:
                    with pytest.raises(TypeError, match=rf"has no argument '{other}'; did you mean '{own}'\?"):
                        part(**{other: 1})
    with pytest.raises(TypeError, match=r"predict\(\) has no argument 'x'; did you mean 'X'\?"):
        post().predict(x=X)
    with pytest.raises(TypeError, match=r"fit\(\) has no argument 'x'; did you mean 'X'\?"):
        pt.BayesianTreeClassifier().fit(x=X, y=X[:, 0])
    with pytest.raises(TypeError, match=r"plot_partial_dependence\(\) has no argument 'clas'; did you mean 'label'\?"):
        pt.plots.plot_partial_dependence(post(), 0, clas=1)
    with pytest.raises(TypeError, match=r"resume\(\) has no argument 'seed'; it has run"):
        pt.resume(post(), seed=1)


RESULTS = tuple | Exception | pt.Posterior
"""Classes whose objects users do not construct."""


def test_every_public_function_and_class_suggests_names():
    for package in (pt, exact, pt.certificates, pt.plots, pt.testing):
        parts = [getattr(package, name) for name in package.__all__]
        for part in parts:
            is_result = inspect.isclass(part) and issubclass(part, RESULTS)
            if callable(part) and not is_result:
                with pytest.raises(TypeError, match=r"has no argument 'no_such_argument'"):
                    part(no_such_argument=1)
    with pytest.raises(TypeError, match=r"fit\(\) has no argument 'weights'; did you mean 'sample_weight'\?"):
        pt.BayesianTreeClassifier().fit(X, X[:, 0] > 9, weights=1)
    with pytest.raises(TypeError, match=r"credible_interval\(\) has no argument 'level'; it has X, coverage"):
        post().credible_interval(X, level=0.9)


def test_a_public_function_can_be_pickled():
    for function in (pt.simulate, pt.compare_models, exact.compare, pt.certificates.binary_kl):
        assert pickle.loads(pickle.dumps(function)) is function


def test_signatures_stay_and_missing_arguments_are_as_ever():
    assert list(inspect.signature(pt.sample).parameters)[:3] == ["model", "draws", "tune"]
    assert list(inspect.signature(pt.TreeModel).parameters)[:2] == ["X", "y"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        pt.TreeModel(X)


def test_only_public_names_are_listed():
    for package in (pt, exact):
        assert {name for name in dir(package) if not name.startswith("__")} == set(package.__all__)


def test_representations_fit_a_screen():
    values = [post(), MODEL, post().modes(), post().tree_distances(), post().shapes(), exact.solve(MODEL).graph]
    run = pt.sample(MODEL, 20, tune=5, chains=2, rng=1, kernel="grow-prune", progress=False)
    for one in (*values, run.course, run.calls[0]):
        assert len(repr(one)) <= 450 and "\n" not in repr(one) and repr(one).startswith(type(one).__name__)
    assert "matrix=<array (20, 20)>" in repr(post().tree_distances())
