"""Independent outputs with missing values, and ordered classes: scores from first principles, decisions, bad input."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.compiled import leaf_score

N = 24
RNG = np.random.default_rng(8)
X = np.column_stack([np.arange(N) % 4, np.arange(N) % 3]).astype(float)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
OUTPUTS = RNG.normal(size=(N, 3)) + X[:, :1]
OUTPUTS[RNG.random((N, 3)) < 0.3] = np.nan
OUTPUTS[5] = np.nan
NORMALS = pt.IndependentNormals(3, k0=0.5, a0=2.0, m0=[0.0, 1.0, 2.0], b0=[1.0, 2.0, 0.5])


class TestIndependentNormals:
    def test_the_score_is_that_of_each_output_by_itself(self):
        model = pt.TreeModel(X, OUTPUTS, leaf=NORMALS, **PRIOR)
        own = model.leaf.row_stats(model.target)
        for rows in ([0], [5], [1, 5, 7, 8], list(range(N))):
            expected = 0.0
            for j in range(3):
                y = OUTPUTS[rows, j]
                y = y[~np.isnan(y)]
                if len(y):
                    leaf = pt.NormalInverseGamma(NORMALS.m0[j], 0.5, 2.0, NORMALS.b0[j])
                    one = pt.TreeModel(np.arange(float(len(y) + 1))[:, None], np.append(y, 0.0), leaf=leaf)
                    stats = one.leaf.row_stats(one.target)[: len(y)].sum(axis=0)
                    expected += one.leaf.log_score(stats, one.target)
            sums = own[rows].sum(axis=0)
            assert model.leaf.log_score(sums, model.target) == pytest.approx(expected, abs=1e-9)
            assert leaf_score(model.lowered.leaf, sums[None], 0) == pytest.approx(expected, abs=1e-9)

    @pytest.mark.planted
    def test_missing_values_taken_for_the_mean_are_seen(self, monkeypatch):
        """Planted: a missing value counts as the prior mean."""
        statistics = pt.IndependentNormals.statistics
        monkeypatch.setattr(
            pt.IndependentNormals,
            "statistics",
            lambda self, y, target: statistics(self, np.where(np.isnan(y), self.m0, y), target),
        )
        with pytest.raises(AssertionError):
            self.test_the_score_is_that_of_each_output_by_itself()

    def test_defaults_are_from_the_values_that_are_there(self):
        leaf = pt.TreeModel(X, OUTPUTS, leaf=pt.IndependentNormals(3)).leaf
        assert leaf.m0 == pytest.approx(np.nanmean(OUTPUTS, axis=0))
        assert leaf.b0 == pytest.approx(1.5 * np.nanvar(OUTPUTS, axis=0) / 4.0)
        constant = np.column_stack([OUTPUTS[:, 0], np.full(N, 0.1)])
        assert pt.TreeModel(X, constant, leaf=pt.IndependentNormals(2)).leaf.b0[1] == pytest.approx(1.5 / 4.0)

    def test_forms_of_y(self):
        expected = exact.solve(pt.TreeModel(X, OUTPUTS, leaf=pt.IndependentNormals(3), **PRIOR), progress=False)
        frame = pd.DataFrame(OUTPUTS, columns=["a", "b", "c"])
        objects = frame.astype(object).where(frame.notna(), None)
        for y in (frame, frame.astype("Float64"), objects, objects.to_numpy(), OUTPUTS.tolist()):
            post = exact.solve(pt.TreeModel(X, y, leaf=pt.IndependentNormals(3), **PRIOR), progress=False)
            assert post.log_evidence == pytest.approx(expected.log_evidence)

    def test_refused(self):
        leaf = pt.IndependentNormals(2)
        with pytest.raises(ValueError, match="column 1 of y has no value"):
            pt.TreeModel(X, np.column_stack([OUTPUTS[:, 0], np.full(N, np.nan)]), leaf=leaf)
        with pytest.raises(ValueError, match="give finite numbers"):
            pt.TreeModel(X, np.column_stack([OUTPUTS[:, 0], np.full(N, np.inf)]), leaf=leaf)
        with pytest.raises(ValueError, match="needs 2 columns"):
            pt.TreeModel(X, OUTPUTS, leaf=leaf)
        with pytest.raises(ValueError, match="y is"):
            pt.TreeModel(X, OUTPUTS, leaf=pt.MultivariateNormal(3))
        for parameters in ({"outputs": 1}, {"k0": -1.0}, {"m0": [1.0]}, {"b0": [0.0, 1.0]}, {"b0": [np.inf, 1.0]}):
            with pytest.raises(ValueError, match="out of range"):
                pt.IndependentNormals(**{"outputs": 2, **parameters})
        post = exact.solve(pt.TreeModel(X, OUTPUTS, leaf=NORMALS, **PRIOR), progress=False)
        with pytest.raises(ValueError, match="sample_predictive"):
            post.predict_interval(X)
