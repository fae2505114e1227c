"""Every posterior answers every question of Posterior or says why not; each answer is one function."""

import ast
import inspect

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.solving import VisitedPosterior
from exact.systems.progressive.mixture import ProgressiveMixture
from pactree_mcmc.smc import ProgressiveSample
from verification import imports, size

X = np.random.default_rng(0).integers(0, 3, (40, 2)).astype(float)
MODEL = pt.TreeModel(
    X, X[:, 0] + 0.1 * X[:, 1], tree_prior=pt.ChipmanPrior(0.7, 1.0, 3), leaf=pt.NormalKnownVariance(1.0)
)
LABELS = pt.TreeModel(X, X[:, 0] > 0, tree_prior=pt.ChipmanPrior(0.7, 1.0, 3))
PAIRS = np.column_stack([1.0 + X[:, 0], X[:, 1] > 0])
TIMES = pt.TreeModel(X, PAIRS, tree_prior=pt.ChipmanPrior(0.7, 1.0, 3), leaf=pt.ExponentialGamma())
ARGUMENTS = {"X": X[:2], "y": X[:2, 0] > 0, "q": 0.5, "n": 3, "times": [1.0, 2.0]}
UNKNOWN_OF_STAGES = {
    *("predict_quantiles", "predict_interval", "predict_std_new_y", "predict_std_over_trees", "sample_predictive"),
    *("credible_set", "kl_to_prior", "credible_interval", "draw_expectations", "shapes"),
    *("survival", "median_survival", "calibration", "survival_calibration"),
}
"""Questions whose answer differs between the stages of a progressive mixture, of which only means are kept."""
QUESTIONS = [name for name, _ in inspect.getmembers(pt.Posterior, inspect.isfunction) if not name.startswith("_")]
OF_TIMES = {"survival", "median_survival", "calibration", "survival_calibration"}
POSTERIORS = {
    "sampled": lambda model: exact.solve(model).sample(100, rng=1),
    "exact": exact.solve,
    "visited": lambda model: exact.visited(exact.solve(model).sample(100, rng=1)),
    "mixture": exact.progressive_mixture,
}
ASKED_ELSEWHERE = {"save", "report", "certificate", "predict_proba"}
KINDS_OF_POSTERIORS = [
    pt.SampledPosterior,
    ProgressiveSample,
    exact.ExactPosterior,
    VisitedPosterior,
    ProgressiveMixture,
]
FORMER_NAMES = {"survival_calibration": "calibration"}
"""Second names of members, and their functions."""


def fits_on_a_screen(answer):
    """Return True if an object of the library prints at most a screen, and says what it is."""
    if not type(answer).__module__.startswith(("pactree_mcmc", "exact")) or isinstance(answer, pt.Tree):
        return True
    short = all(len(text.splitlines()) <= 42 and len(text) <= 4000 for text in (repr(answer), str(answer)))
    return short and type(answer).__name__ in repr(answer)


def ask(post, question):
    """Return the answer of a posterior to one question."""
    method = getattr(post, question)
    arguments = ARGUMENTS | ({"y": [[1.0, 1.0], [2.0, 0.0]]} if question in OF_TIMES else {})
    return method(**{name: value for name, value in arguments.items() if name in inspect.signature(method).parameters})


@pytest.fixture(scope="module", params=POSTERIORS)
def posteriors(request):
    return request.param, [POSTERIORS[request.param](model) for model in (MODEL, LABELS, TIMES)]


@pytest.mark.parametrize("question", sorted({*QUESTIONS} - ASKED_ELSEWHERE))
def test_every_question_has_an_answer(posteriors, question):
    kind, (regression, classification, times) = posteriors
    post = {"holdout_certificate": classification}.get(question, times if question in OF_TIMES else regression)
    if kind == "mixture" and question in UNKNOWN_OF_STAGES:
        with pytest.raises(ValueError, match="stage"):
            ask(post, question)
    else:
        answer = ask(post, question)
        assert answer is not None and fits_on_a_screen(answer)


def test_the_depth_of_a_mixture_is_that_of_its_draws():
    mixture = exact.progressive_mixture(LABELS, orders=2, rng=1)
    depths, depths_of_draws = mixture.depth_pmf(), mixture.sample(20_000, rng=1).depth_pmf()
    assert depths.sum() == pytest.approx(1.0)
    assert depths_of_draws == pytest.approx(depths[: len(depths_of_draws)], abs=0.015)
    assert list(mixture.summary().index) == [
        *("log_evidence", "n_leaves (mean)", "n_leaves (sd)", "best tree: leaves", "cells", "splits")
    ]


@pytest.mark.parametrize("kind", KINDS_OF_POSTERIORS, ids=lambda kind: kind.__name__)
def test_a_member_has_the_name_of_its_function(kind):
    """Or ``pickle.dumps(post.predict)`` fails."""
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            assert member.__name__ == FORMER_NAMES.get(name, name) and inspect.getdoc(getattr(kind, name))


@pytest.mark.parametrize("kind", KINDS_OF_POSTERIORS, ids=lambda kind: kind.__name__)
def test_a_posterior_has_at_most_three_bases(kind):
    assert len([base for base in kind.__mro__[1:] if base.__module__.startswith(size.PACKAGES)]) <= 3


def test_no_class_gets_a_member_from_outside():
    """No ``Posterior.report = report`` behind the class."""
    for path in imports.modules().values():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            changed = [x for target in targets for x in ast.walk(target) if isinstance(x, ast.Attribute)]
            owners = {x.value.id for x in changed if isinstance(x.value, ast.Name)}
            assert not [name for name in owners if name[0].isupper()], f"{path}: line {node.lineno}"


def imports_with_types(path):
    """Return the modules of the library that a file imports anywhere, for types too."""
    package, found = path.relative_to(imports.ROOT).parent.parts, set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    found &= imports.modules().keys()
    return {name for name in found if not any(other.startswith(name + ".") for other in found)}


@pytest.mark.parametrize("room", ["pactree_mcmc.posterior", "exact"])
def test_no_circle_of_imports_for_types_included(room):
    own = {name: path for name, path in imports.modules().items() if imports.within(name, room) and name != room}
    ahead = {name: (imports_with_types(path) & own.keys()) - {name} for name, path in own.items()}
    while free := [name for name, behind in ahead.items() if not behind & ahead.keys()]:
        for name in free:
            del ahead[name]
    assert ahead == {}
