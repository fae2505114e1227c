"""Wrong uses of public names, each with the error that mypy finds: one that it no longer finds is an error here.

So an annotation that is lost, or a name that becomes ``Any``, does not go unnoticed. Never run.
"""

import numpy as np

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates, plots

X, y = np.zeros((4, 2)), [0, 0, 1, 1]


def names(model: pt.TreeModel) -> None:
    pt.smaple(model)  # type: ignore[attr-defined]
    pt.BayesianTreeClasifier()  # type: ignore[attr-defined]
    exact.PACBayesTreeClasifier()  # type: ignore[attr-defined]
    certificates.pac_bayes(0.1, 2.0, 100)  # type: ignore[attr-defined]
    plots.plot_woods(model)  # type: ignore[attr-defined]
    model.log_likelihood  # type: ignore[attr-defined]


def arguments(model: pt.TreeModel) -> None:
    pt.TreeModel(X)  # type: ignore[call-arg]
    pt.TreeModel(X, y, pt.ChipmanPrior())  # type: ignore[call-arg]
    pt.TreeModel(X, y, leaf=pt.ChipmanPrior())  # type: ignore[arg-type]
    pt.TreeModel(X, y, tree_prior=pt.LocalCuts())  # type: ignore[arg-type]
    pt.TreeModel(X, y, split_prior="local")  # type: ignore[arg-type]
    pt.sample(model, draw=10)  # type: ignore[call-arg]
    pt.sample(model, "many")  # type: ignore[arg-type]
    pt.sample(model, rng="seed")  # type: ignore[arg-type]
    pt.sample(model, kernel={"change": "often"})  # type: ignore[dict-item]
    pt.sample(model, kernel=0.5)  # type: ignore[arg-type]
    pt.Move("mine")  # type: ignore[call-arg]
    pt.CustomLeaf(log_score=1.0)  # type: ignore[call-arg, arg-type]
    pt.sample(model, betas="ladder")  # type: ignore[arg-type]
    pt.sample(model, start=[X])  # type: ignore[list-item]
    pt.sample(model, checkpoint=3)  # type: ignore[arg-type]
    pt.sample([model])  # type: ignore[arg-type]
    pt.resume(model)  # type: ignore[arg-type]
    pt.load(7)  # type: ignore[arg-type]
    pt.simulate(X)  # type: ignore[arg-type]
    pt.progressive_mixture(model, particles=1.5)  # type: ignore[arg-type]
    pt.DyadicCuts("deep")  # type: ignore[arg-type]
    pt.NormalInverseGamma(mean=0.0)  # type: ignore[call-arg]
    pt.Tree([-1], [0.0])  # type: ignore[call-arg]
    exact.solve(X)  # type: ignore[arg-type]
    exact.solve(model, cells=100)  # type: ignore[call-arg]
    exact.minimise_risk(X, y, strength="0.1")  # type: ignore[arg-type]
    exact.PACBayesTreeClassifier(lamda1=1.0)  # type: ignore[call-arg]
    pt.BayesianTreeRegressor(chains="four")  # type: ignore[arg-type]
    certificates.pac_bayes_kl("0.1", 2.0, 100)  # type: ignore[arg-type]


def two_posteriors(post: pt.SampledPosterior, truth: exact.ExactPosterior) -> None:
    exact.compare(post, truth)  # type: ignore[arg-type]
    plots.plot_posterior(truth)  # type: ignore[arg-type]
    plots.plot_tree(X)  # type: ignore[arg-type]
    plots.plot_n_leaves(post, ax="left")  # type: ignore[arg-type]
    post.best_trees(3)  # type: ignore[attr-defined]
    truth.n_chains  # type: ignore[attr-defined]


def answers(post: pt.SampledPosterior, truth: exact.ExactPosterior) -> None:
    post.n_draws()  # type: ignore[operator]
    post.n_draws = 3  # type: ignore[misc]
    post.log_evidence + 1.0  # type: ignore[operator]
    post.predict(X).leaves  # type: ignore[attr-defined]
    post.map_tree().predict_proba(X)  # type: ignore[attr-defined]
    post.draws.tempering.betas  # type: ignore[union-attr]
    post.certificate().bound  # type: ignore[attr-defined]
    post.save(3)  # type: ignore[arg-type]
    pt.load("run.nc").predict(X)  # type: ignore[union-attr]
    truth.best_trees(2).trees.n_leaves  # type: ignore[attr-defined]
    truth.n_leaves_pmf + 1  # type: ignore[operator]
    truth.root_split_pmf + 1  # type: ignore[operator]
    certificates.kl_inverse(0.1, 0.2).shape  # type: ignore[attr-defined]
    certificates.holdout(3, 100) + 0.1  # type: ignore[operator]
    pt.BayesianTreeRegressor().predict(X, return_std=True).shape  # type: ignore[attr-defined]
    pt.ChipmanPrior(0.95).alpha = 0.5  # type: ignore[misc]
    post.map_tree().feature = X  # type: ignore[misc]
    exact.DyadicTreeClassifier().fit(X, y).tree_.leaves  # type: ignore[attr-defined]
    pt.BayesianTreeClassifier().fit(X, y).posterior_.trees  # type: ignore[union-attr]
