"""Independent outputs with missing values, and ordered classes: scores from first principles, decisions, bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy import special

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
GRADES = np.array(["low", "mid", "high", "top"])
ORDERED = pt.OrderedClasses(["low", "mid", "high", "top"], strength=1.7)
Y = GRADES[np.clip((X[:, 0] + RNG.normal(size=N)).round().astype(int), 0, 3)]
assert len(set(Y)) == 4


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


class TestOrderedClasses:
    def test_the_score_is_the_product_of_the_predictions_of_row_after_row(self):
        model = pt.TreeModel(X, Y, leaf=ORDERED, **PRIOR)
        own, leaf, target = model.leaf.row_stats(model.target), model.leaf, model.target
        stats, score = np.zeros((1, 4)), 0.0
        for i in RNG.permutation(N):
            # the beta posterior of each step, in plain words
            in_order = [stats[0, model.classes_.tolist().index(label)] for label in leaf.order]
            reached, chance = 1.0, {}
            for j, label in enumerate(leaf.order):
                a = 1.7 / (4 - j)
                stop = (a + in_order[j]) / (1.7 + sum(in_order[j:])) if j < 3 else 1.0
                chance[label] = reached * stop
                reached *= 1.0 - stop
            value = leaf.value(stats, target)[0]
            assert value.tolist() == pytest.approx([chance[label] for label in model.classes_.tolist()])
            score += np.log(chance[Y[i]])
            stats += own[i]
            assert leaf.log_score(stats[0], target) == pytest.approx(score, abs=1e-9)
            assert leaf_score(model.lowered.leaf, stats.copy(), 0) == pytest.approx(score, abs=1e-9)

    @pytest.mark.planted
    def test_classes_in_the_order_of_the_alphabet_are_seen(self, monkeypatch):
        """Planted: the order is forgotten."""
        monkeypatch.setattr(pt.OrderedClasses, "class_order", lambda self, target: np.arange(4))
        with pytest.raises(AssertionError):
            self.test_the_score_is_the_product_of_the_predictions_of_row_after_row()

    def test_two_classes_are_a_dirichlet_distribution(self):
        y = X[:, 0] > 1
        one = exact.solve(pt.TreeModel(X, y, leaf=pt.OrderedClasses(strength=2.0), **PRIOR), progress=False)
        other = exact.solve(pt.TreeModel(X, y, leaf=pt.DirichletMultinomial(1.0), **PRIOR), progress=False)
        assert one.log_evidence == pytest.approx(other.log_evidence)
        assert one.predict_proba(X) == pytest.approx(other.predict_proba(X))

    def test_the_prior_mean_is_uniform_and_the_evidence_is_the_sum_over_all_trees(self):
        model = pt.TreeModel(X, Y, leaf=ORDERED, sample_weight=RNG.choice([1.0, 2.5], N), **PRIOR)
        assert model.leaf.value(np.zeros((1, 4)), model.target) == pytest.approx(np.full((1, 4), 0.25))
        truth = exact.solve(model, progress=False)
        trees = truth.best_trees(100_000).trees
        assert truth.log_evidence == pytest.approx(special.logsumexp([model.log_posterior(tree) for tree in trees]))
        turned = pt.OrderedClasses(["mid", "top", "low", "high"], strength=1.7)
        other = pt.TreeModel(X, Y, leaf=turned, **PRIOR)
        assert exact.solve(other, progress=False).log_evidence != pytest.approx(truth.log_evidence, abs=0.01)

    @pytest.mark.parametrize("is_exact", [True, False])
    def test_the_prediction_is_the_median_which_costs_least_by_distance(self, is_exact):
        model = pt.TreeModel(X, Y, leaf=ORDERED, **PRIOR)
        run = {"tune": 20, "chains": 2, "rng": 1, "kernel": "local", "progress": False}
        post = exact.solve(model) if is_exact else pt.sample(model, 100, **run)
        order = list(ORDERED.order)
        distance = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
        result = post.predict(X)
        probability = pd.DataFrame(post.predict_proba(X), columns=post.model.classes_)[order]
        assert result.tolist() == [order[i] for i in np.argmin(probability.to_numpy() @ distance, axis=1)]
        probability = probability.cumsum(axis=1)
        assert result.tolist() == [order[int(np.argmax(row >= 0.5))] for row in probability.to_numpy()]
        assert post.holdout_certificate(X, Y).errors == int((result != Y).sum())

    def test_the_classifier_and_files(self, tmp_path):
        leaf = pt.OrderedClasses(list(ORDERED.order))
        fitted = pt.BayesianTreeClassifier(leaf=leaf, random_state=0, prior="stated", max_depth=2).fit(X, Y)
        assert fitted.predict(X).tolist() == fitted.posterior_.predict(X).tolist()
        post = pt.sample(pt.TreeModel(X, Y, leaf=leaf, **PRIOR), 20, tune=10, chains=2, rng=1, kernel="grow-prune")
        post.save(tmp_path / "post.nc")
        loaded = pt.load(tmp_path / "post.nc")
        assert loaded.model.leaf.order == tuple(leaf.order)
        assert loaded.predict(X).tolist() == post.predict(X).tolist()

    def test_refused(self):
        with pytest.raises(ValueError, match=r"order=.*each once"):
            pt.OrderedClasses(["a", "a"])
        with pytest.raises(ValueError, match="each once"):
            pt.OrderedClasses("abc")
        with pytest.raises(ValueError, match="y has the classes"):
            pt.TreeModel(X, Y, leaf=pt.OrderedClasses(["low", "mid", "high"]))
        with pytest.raises(ValueError, match="strength"):
            pt.OrderedClasses(strength=0.0)
        with pytest.raises(ValueError, match="needs labels"):
            pt.TreeModel(X, X[:, 0] + 0.5, leaf=pt.OrderedClasses())
