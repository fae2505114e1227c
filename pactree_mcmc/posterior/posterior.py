"""The public base class of all posteriors, sampled or exact: the answers that follow from their interface."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from .distribution import TreeDistribution
from .inference_data import save, to_arviz
from .report import report, small_html
from .rows.calibration import calibration
from .rows.certificate import certificate, holdout_certificate
from .rows.predictions import (
    credible_interval,
    draw_expectations,
    predict,
    predict_interval,
    predict_proba,
    predict_quantiles,
    predict_std_new_y,
    predict_std_over_trees,
    sample_predictive,
)
from .rows.survival import median_survival, survival
from .trees.consensus import consensus_tree
from .trees.credible_set import credible_set, draw_trees, map_tree
from .trees.features import feature_inclusion, interactions, prior_inclusion, root_split_pmf
from .trees.shapes import shapes
from .trees.support import support

if TYPE_CHECKING:
    import pandas as pd


class Posterior(TreeDistribution):
    """A posterior over trees, sampled or exact. Both have nearly the same methods.

    If the posterior does not consist of draws and an answer needs some, ``draws`` trees are drawn with ``rng``.
    """

    # each name is the function imported above
    predict = predict
    predict_proba = predict_proba
    predict_quantiles = predict_quantiles
    predict_interval = predict_interval
    predict_std_new_y = predict_std_new_y
    predict_std_over_trees = predict_std_over_trees
    credible_interval = credible_interval
    draw_expectations = draw_expectations
    sample_predictive = sample_predictive
    survival = survival
    median_survival = median_survival
    calibration = calibration
    survival_calibration = calibration
    certificate = certificate
    holdout_certificate = holdout_certificate
    feature_inclusion = feature_inclusion
    prior_inclusion = prior_inclusion
    root_split_pmf = root_split_pmf
    interactions = interactions
    map_tree = map_tree
    draw_trees = draw_trees
    credible_set = credible_set
    support = support
    consensus_tree = consensus_tree
    shapes = shapes
    to_arviz = to_arviz
    report = report
    save = save
    _repr_html_ = small_html

    @abstractmethod
    def summary(self) -> pd.DataFrame:
        """Return a table of the main quantities; for draws with effective sample sizes and R-hat."""
