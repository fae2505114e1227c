"""Densities fitted to either half of the chains: the evidence they find, what is told of it, and that it is kept."""

import copy
import json
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.files.encoding import CODEC, Encoded
from pactree_mcmc.mcmc import sampling
from pactree_mcmc.mcmc.learned.apart import evidence_of, fits_of, fitted_halves
from pactree_mcmc.mcmc.learned.fit import fit_density, joined_decisions
from pactree_mcmc.mcmc.run import learn
from pactree_mcmc.mcmc.state.arrays import first_density
from pactree_mcmc.posterior.convergence import check_convergence
from pactree_mcmc.posterior.ess import ConvergenceWarning
from pactree_mcmc.posterior.evidence import fits_apart
from tests.mcmc.run.test_bridge import SOLVED
from tests.mcmc.run.test_executors import SPAWN
from tests.mcmc.run.test_learn import P, simulated
from tests.problems.runs import MODELS, assert_equal, assert_same, drawn

ERRORS = 4.5


def run(model, rng=1, draws=6, **rest):
    return pt.sample(model, draws, rng=rng, progress=False, **rest)


@pytest.fixture(scope="module")
def solved():
    """By name: the exact log evidence, and what the fits of runs of some seeds found."""
    made = {}

    def of(name):
        if name not in made:
            model = SOLVED[name]()
            made[name] = exact.solve(model).log_evidence, [run(model, seed).course.fits for seed in (1, 2, 3)]
        return made[name]

    return of


def assert_right(truth, fits):
    """Each within its errors of the truth, and so their mean."""
    log_evidence, se, effective = np.concatenate(fits).T
    off = log_evidence - truth
    assert (se > 1e-4).all() and (se < 0.4).all() and (effective > 5.0).all()
    assert (abs(off) < ERRORS * se).all(), (off, se)
    assert abs(off.mean()) < ERRORS * np.sqrt((se**2).sum()) / len(se), (off, se)


@pytest.mark.parametrize("name", list(SOLVED))
def test_each_fit_finds_the_exact_evidence(name, solved):
    truth, fits = solved(name)
    assert_right(truth, fits)
    assert not any(np.array_equal(*both) for both in fits)


@pytest.mark.planted
def test_weights_off_by_a_factor_are_noticed(solved):
    truth, fits = solved("classes")
    with pytest.raises(AssertionError):
        assert_right(truth, [both + np.array([0.7, 0.0, 0.0]) for both in fits])


# a mode that one half of the chains has not met


def stump_or_xor():
    """XOR of the halves of a 4 x 4 grid, a tenth of the labels flipped: no split at all, or at least three."""
    rng = np.random.default_rng(0)
    cell = np.repeat(np.arange(16), 4)
    first, second = cell // 4, cell % 4
    y = (first > 1) ^ (second > 1) ^ (rng.random(len(cell)) < 0.1)
    prior = pt.ChipmanPrior(0.1, 1.0, max_depth=4)
    return pt.TreeModel(np.column_stack([first, second, first]).astype(float), y, tree_prior=prior)


def stumps_alone(d):
    """Of decisions those not to split the root."""
    at = np.flatnonzero((d.level == 0) & (d.is_split == 0.0))
    cells = {name: getattr(d, name)[at] for name in ("level", "root", "is_split", "cell_terms", "chosen")}
    first, used = np.zeros(len(at) + 1, dtype=np.int64), np.array([len(at), 0])
    ways = {name: getattr(d, name)[:0] for name in ("way_terms", "feature", "offset")}
    return d._replace(**cells, **ways, first=first, used=used)


@pytest.fixture
def collapsed(monkeypatch):
    """Chains of odd number say in tuning that no tree splits."""
    done_by = learn.done_by

    def confined(work, submit, task, given, lost):
        found = done_by(work, submit, task, given, lost)
        if task is not learn.study:
            return found
        return {c: r._replace(decisions=stumps_alone(r.decisions)) if c % 2 else r for c, r in found.items()}

    monkeypatch.setattr(learn, "done_by", confined)


@pytest.fixture(scope="module")
def truth():
    return exact.solve(stump_or_xor())


def checked(rng=1, **rest):
    """A run of enough draws to be judged, and its warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = run(stump_or_xor(), rng, 50, **rest)
    return post, "\n".join(str(one.message) for one in caught if one.category is ConvergenceWarning)


@pytest.mark.parametrize("rng", [4, 5])
def test_a_fit_that_lost_a_mode_is_told(rng, collapsed, truth, tmp_path):
    """Its weights are nearly equal, and have the evidence of the stump; nothing else of the run shows it."""
    post, said = checked(rng)
    (line,) = fits_apart(post)
    assert line in said and line in check_convergence(post) and line in post.summary().attrs["verdict"]
    (whole, se, _), (lost, _, effective) = post.course.fits
    fraction = truth.n_leaves_pmf()[1]
    assert fraction < 0.3 and effective > 30.0
    assert abs(whole - truth.log_evidence) < ERRORS * se
    assert abs(lost - truth.log_evidence - np.log(fraction)) < 0.3
    post.save(tmp_path / "run.nc")
    assert fits_apart(pt.load(tmp_path / "run.nc")) == fits_apart(pt.resume(post, 5, progress=False)) == [line]


def test_a_fit_that_meets_what_it_lost_has_no_error_to_compare(collapsed):
    """Of 120 trees one or two have all the weight."""
    post, said = checked(1)
    assert post.course.fits[1, 2] < 10.0 and fits_apart(post) == [] and "fitted separately" not in said


@pytest.mark.parametrize("rng", [1, 4, 5])
def test_fits_that_agree_are_not(rng):
    post, said = checked(rng)
    assert fits_apart(post) == [] and "fitted separately" not in said


@pytest.mark.planted
def test_two_fits_to_all_chains_see_nothing(collapsed, monkeypatch):
    def to_all(rounds, p):
        return [fit_density(joined_decisions([x for found in rounds for x in found.values()]), first_density(p))] * 2

    monkeypatch.setattr(learn, "fitted_halves", to_all)
    post, said = checked(5)
    assert fits_apart(post) == [] and "fitted separately" not in said


def test_halves_know_nothing_of_each_other():
    parts = [simulated(200, 5, seed=seed) for seed in range(4)]
    even, odd = fitted_halves([{0: parts[0], 1: parts[1]}, {2: parts[2], 1: parts[3]}], P)
    assert np.array_equal(even, fit_density(joined_decisions(parts[::2]), first_density(P)))
    assert np.array_equal(odd, fit_density(joined_decisions(parts[1::2]), first_density(P)))
    assert len(fitted_halves([{0: parts[0]}, {2: parts[1]}], P)) == 1


def test_weights_that_say_nothing():
    assert evidence_of(np.full(3, -np.inf)) == (-np.inf, np.inf, 0.0)
    log_mean, se, effective = evidence_of(np.array([-700.0, -np.inf]) - 700.0)
    assert (log_mean, se, effective) == (pytest.approx(-1400.0 - np.log(2.0)), 1.0, 1.0)
    model = SOLVED["classes"]()
    assert fits_of([np.zeros(3), np.full(3, -np.inf)], model) is None
    assert np.array_equal(fits_of([np.zeros(3), np.ones(3)], model)[:, 1:], [[0.0, 3.0]] * 2)


# where it is found, and what it leaves alone


def test_the_draws_stay_as_they_are(monkeypatch):
    with_fits = run(MODELS["numbers"])
    monkeypatch.setattr(learn, "_fitted_apart", lambda *given: (None, 0))
    without = run(MODELS["numbers"])
    assert with_fits.course.fits.shape == (2, 3) and without.course.fits is None
    one, other = drawn(with_fits), drawn(without)
    for found, post in ((one, with_fits), (other, without)):
        found["course"] = tuple(post.course._replace(fits=None))
    assert_equal(one, other)


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("shared variance", {}),
        ("unknown weights", {}),
        ("fixed", {}),
        ("classes", {"chains": 1}),
        ("classes", {"kernel": "local"}),
        ("classes", {"kernel": "whole", "tune": 20}),
        ("classes", {"betas": 3}),
    ],
)
def test_others_have_none(name, rest):
    assert run(MODELS[name], **({"chains": 2} | rest)).course.fits is None


class Learned(Exception):
    """Tuning is over."""


def test_rows_visited_are_counted(monkeypatch):
    """The more of them, the fewer steps the rest of the work is enough for."""
    real, steps = learn._fitted_apart, []

    def fitted(more, *given):
        fits, rows = real(*given)
        assert 1e4 < rows < 1e7
        return fits, rows + more

    def over(work):
        steps.append(work.plans[0].length.steps)
        raise Learned

    monkeypatch.setattr(sampling, "do", over)
    for more in (0, int(2e9)):
        monkeypatch.setattr(learn, "_fitted_apart", partial(fitted, more))
        with pytest.raises(Learned):
            run(MODELS["numbers"], draws=250)
    assert steps[1] / steps[0] == pytest.approx(0.8, abs=0.02)


def test_any_workers_find_the_same():
    whole = run(MODELS["numbers"], chains=3)
    assert whole.course.fits is not None
    with ThreadPoolExecutor(1) as pool:
        assert_same(run(MODELS["numbers"], chains=3, executor=pool), whole)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        assert_same(run(MODELS["numbers"], chains=3, executor=pool), whole)


def test_every_checkpoint_has_it(copies, tmp_path):
    whole = run(MODELS["classes"], chains=2, checkpoint=tmp_path / "run.nc", every=1e-6)
    assert whole.course.fits is not None
    for written in (copies[0], copies[1], copies[-2]):
        assert_same(pt.resume(written, progress=False), whole)


def test_files_keep_it_and_those_without_it_are_read(tmp_path):
    post = run(MODELS["classes"], chains=2)
    post.save(tmp_path / "run.nc")
    assert np.array_equal(pt.load(tmp_path / "run.nc").course.fits, post.course.fits)
    encoded = CODEC.encode(post.course)
    text = json.loads(encoded.text)
    del text["fields"]["fits"]
    before = CODEC.decode(Encoded(json.dumps(text), encoded.arrays))
    assert before.fits is None and np.array_equal(before.strata, post.course.strata)


@pytest.fixture(scope="module")
def whole():
    """A run of two chains, to be copied."""
    return run(MODELS["classes"], chains=2)


@pytest.mark.parametrize(
    ("fits", "said"),
    [
        (np.zeros((2, 2)), "fits"),
        (np.zeros((2, 3), dtype=np.int64), "fits"),
        (np.array([[-1.0, 0.1, 5.0], [np.nan, 0.1, 5.0]]), "the evidence of a fit is not finite"),
        (np.array([[-1.0, 0.1, 5.0], [-1.0, -0.1, 5.0]]), "the evidence of a fit has no error"),
        (np.array([[-1.0, 0.1, 5.0], [-1.0, 0.1, 0.0]]), "the evidence of a fit has no error"),
    ],
)
def test_fits_that_make_no_sense_are_refused(fits, said, whole, tmp_path):
    post = copy.copy(whole)
    post.course = post.course._replace(fits=fits)
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_an_evidence_far_below_that_of_a_fit_is_told():
    """Of an unbiased estimate a hundred times what it estimates is rare, however few draws it is worth."""
    post = run(SOLVED["classes"](), draws=100)
    bound = post.log_evidence + 2.0 * post.log_evidence_se + np.log(100.0)
    for fits, is_told in ((bound - 0.01, False), (bound + 0.01, True)):
        del post._bridge
        post.course = post.course._replace(fits=np.array([[bound - 9.0, 0.1, 50.0], [fits, 1.0, 1.0]]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = post.log_evidence
        assert np.isfinite(value) and len(caught) == is_told
        for one in caught:
            assert one.category is ConvergenceWarning and one.filename == __file__
            assert "the chains have lost part of the posterior" in str(one.message)
