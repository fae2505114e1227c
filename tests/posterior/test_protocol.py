"""Every posterior answers every question of `Posterior`, or says why it cannot."""

import inspect

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

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
    """A regression, a classification and a model of times by name of the kind of posterior."""
    return request.param, [POSTERIORS[request.param](model) for model in (MODEL, LABELS, TIMES)]


ASKED_ELSEWHERE = {"save", "report", "certificate", "predict_proba"}


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
