"""Leaf scores equal those of SciPy or quadrature; predictive distributions sum to one and have the mean predicted.

`pt.testing.check_leaf` compares compiled and plain scores, and densities with differences of scores.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score

CLASSES = {
    "dirichlet": pt.DirichletMultinomial(0.7),
    "dirichlet by class": pt.DirichletMultinomial([0.5, 2.0, 1.2]),
    "laplace": pt.FrozenLaplace(0.8),
    "loss": pt.PacBayesLoss(0.6, 0.3),
    "loss with E": pt.PacBayesLoss(0.6, 0.3),
}
REALS = {
    "normal": pt.NormalInverseGamma(0.3, 0.7, 2.0, 1.5),
    "normal, from the data": pt.NormalInverseGamma(),
    "known variance": pt.NormalKnownVariance(0.8, 0.3, 0.7),
    "known variance, from the data": pt.NormalKnownVariance(),
}
COUNTS = {
    "poisson": pt.PoissonGamma(1.3, 0.6),
    "poisson, from the data": pt.PoissonGamma(),
    "poisson with exposure": pt.PoissonGamma(1.3, 0.6, np.linspace(0.5, 2.5, 9)),
}
LEAVES = {**CLASSES, **REALS, **COUNTS}
N = 9


def model_of(name, *, weight=None, seed=0):
    """A model of nine rows, each a unit of its own."""
    rng = np.random.default_rng([seed, N])
    if name in CLASSES:
        y = np.append([0, 1, 2], rng.integers(3, size=N - 3))
    else:
        y = rng.poisson(3.0, N) if name in COUNTS else 2.0 * rng.normal(size=N)
    mask = np.arange(N) % 3 != 0 if name in ("laplace", "loss with E") else None
    X = np.arange(float(N))[:, None]
    return pt.TreeModel(X, y, leaf=LEAVES[name], sample_weight=weight, estimation=mask)


def stats_of(model, rows):
    """Statistics of a cell that holds ``rows``."""
    cell = replace(model.root_cell(), index=np.asarray(rows, dtype=np.int64))
    return cell.stats(model.leaf.n_stats(model.target))


def score_of(model, rows):
    return model.leaf.log_score(stats_of(model, rows), model.target)


def density(model, rows, row, y):
    """Predictive density of ``y`` in place of training row ``row``, in the cell that holds ``rows``."""
    cells = np.tile(stats_of(model, rows), (N, 1))
    return math.exp(model.leaf.log_density(cells, np.full(N, y), model.target)[row])


@pytest.mark.parametrize("name", LEAVES)
def test_an_empty_cell_scores_zero(name):
    model = model_of(name, weight=np.array([0.0] * 3 + [1.0] * 6))
    rule = model.leaf.rule(model.target)
    assert leaf_score(rule, np.zeros((1, rule.n_stats)), 0) == 0.0
    assert leaf_score(rule, stats_of(model, [0, 1, 2])[None], 0) == 0.0
    everything_left = pt.Tree([0, -1, -1], [99.0, 0, 0], [1, 0, 0], [2, 0, 0])
    assert model.log_score(everything_left) == model.log_score(pt.Tree([-1], [0], [0], [0]))


@pytest.mark.parametrize("name", LEAVES)
def test_weight_two_is_the_row_twice(name):
    """Weight 0 is no row at all."""
    leaf = LEAVES[name]
    y, mask = [0, 1, 2, 1, 0, 2], np.array([True, False] * 3)
    weight = np.array([1, 2, 0, 3, 1, 2])
    repeated = np.repeat(np.arange(6), weight)
    estimation = [mask, mask[repeated]] if name in ("laplace", "loss with E") else [None, None]
    exposure = np.linspace(0.5, 2.0, 6)
    leaves = [replace(leaf, exposure=e) for e in (exposure, exposure[repeated])] if "exposure" in name else [leaf] * 2
    X = np.zeros((6, 1))
    weighted = pt.TreeModel(X, y, leaf=leaves[0], sample_weight=weight, estimation=estimation[0])
    plain = pt.TreeModel(X[repeated], np.array(y)[repeated], leaf=leaves[1], estimation=estimation[1])
    stump = pt.Tree([-1], [0], [0], [0])
    assert weighted.log_score(stump) == pytest.approx(plain.log_score(stump), abs=1e-10)


ROWS = [0, 2, 3, 5, 8]


@pytest.mark.parametrize("name", REALS)
def test_normal_leaves_by_scipy(name):
    """Given the parameters' prior, the rows of a cell are jointly normal or Student t."""
    model = model_of(name)
    leaf, y, m = model.leaf, model.target.values[ROWS], len(ROWS)
    shape = np.eye(m) + 1.0 / leaf.k0
    if isinstance(leaf, pt.NormalInverseGamma):
        joint_density = stats.multivariate_t(np.full(m, leaf.m0), leaf.b0 / leaf.a0 * shape, df=2 * leaf.a0)
    else:
        joint_density = stats.multivariate_normal(np.full(m, leaf.m0), leaf.sigma2 * shape)
    assert score_of(model, ROWS) == pytest.approx(joint_density.logpdf(y))


@pytest.mark.more(everyday=["poisson-None"])
@pytest.mark.parametrize("weight", [None, np.linspace(0.2, 2.5, N)])
@pytest.mark.parametrize("name", COUNTS)
def test_poisson_by_quadrature(name, weight):
    model = model_of(name, weight=weight)
    leaf, y = model.leaf, model.target.values[ROWS]
    w = np.ones(len(ROWS)) if weight is None else weight[ROWS]
    exposure = np.ones(len(ROWS)) if leaf.exposure is None else leaf.exposure[ROWS]
    prior, score = stats.gamma(leaf.shape, scale=1 / leaf.rate), score_of(model, ROWS)
    total, _ = integrate.quad(
        lambda rate: math.exp(w @ stats.poisson.logpmf(y, rate * exposure) - score) * prior.pdf(rate), 0, 40, limit=200
    )
    assert total == pytest.approx(1.0)


def resolved(y, leaf, **more):
    return pt.TreeModel(np.arange(float(len(y)))[:, None], y, leaf=leaf, **more).leaf


class TestDefaults:
    """Parameters left out are set from the data as the docstrings say."""

    Y = (1.0, 2.0, 4.0, 9.0)
    WEIGHT = (1.0, 0.0, 2.0, 1.0)

    def test_normal_inverse_gamma(self):
        leaf = resolved(self.Y, pt.NormalInverseGamma())
        assert (leaf.m0, leaf.k0, leaf.a0) == (4.0, 0.25, 1.5)
        assert leaf.b0 == pytest.approx(1.5 * np.var(self.Y) / 4)
        assert resolved(self.Y, pt.NormalInverseGamma(a0=6.0)).b0 == pytest.approx(6.0 * np.var(self.Y) / 4)

    @pytest.mark.parametrize("n", [2, 10, 49])
    @pytest.mark.parametrize("value", [0.1, 2.5, 1e9 + 0.1])
    def test_constant_y_has_variance_one(self, n, value):
        """Also where the rounded mean differs from it; rows of weight zero do not count."""
        y, weight = np.append(np.full(n, value), 7.0), np.append(np.ones(n), 0.0)
        assert resolved(y[:n], pt.NormalKnownVariance()).sigma2 == 0.25
        assert resolved(y[:n], pt.NormalInverseGamma()).b0 == 1.5 / 4
        assert resolved(y, pt.NormalInverseGamma(), sample_weight=weight).b0 == 1.5 / 4
        assert resolved(y, pt.NormalInverseGamma(), sample_weight=weight).m0 == value


def test_a_score_without_address_is_not_called_by_one():
    """The density of one row is not defined if leaves share the variance; a call by address would end the process."""
    leaf = pt.NormalSharedVariance(m0=0.0, k0=1.0, a0=2.0, b0=1.0)
    model = pt.TreeModel([[0.0], [1.0], [2.0]], [0.5, 1.0, 1.5], leaf=leaf)
    with pytest.raises(NotImplementedError, match="NormalSharedVariance"):
        model.leaf.log_density(np.ones((1, 3)), np.zeros(1), model.target)
