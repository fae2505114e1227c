"""The progressive mixture by Monte Carlo, for models that the exact engine cannot solve."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, Executor, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

import numpy as np

from ..core.checks import Seed, check_choice, check_count, check_flag, check_number
from ..core.logsum import log_mean
from ..core.sending import with_model_sent_once
from ..core.warn import warn
from ..mcmc.kernel import check_even_splits, read_kernel
from ..mcmc.run.workers import n_cores
from ..mcmc.sampling import chain_seeds, check_executor, check_reachable
from ..model import TreeModel
from ..posterior.evidence import pooled_error, prior_mass
from ..posterior.joining import join_chains
from ..posterior.sampled import SampledPosterior
from ..tree.tree import Tree
from .population import StagePlan, StageResult, run_stages

ENGINES = ("smc", "mcmc")
MAX_STAGES = 2000  # largest number of stages unless ``block`` is given


def progressive_mixture(
    model: TreeModel,
    *,
    engine: str = "smc",
    chains: int = 8,
    draws: int = 1000,
    steps: int | None = None,
    particles: int = 200,
    threshold: float = 0.5,
    block: int | None = None,
    shuffle: bool = False,
    kernel: str | Mapping[Any, float] = "default",
    rng: Seed = None,
    executor: Executor | None = None,
) -> ProgressiveSample:
    """Estimate the mean of the posteriors after 0, 1, ..., all test examples (Blanchard 1999, section 6).

    With a frozen leaf model the rows of E (``estimation=`` of the model) determine the leaves, and those of S enter one
    by one. Other leaf models have no E: all rows enter in turn, and a stage predicts with leaves estimated from the
    examples so far. `exact.progressive_mixture` does the same without Monte-Carlo error, if it is tractable.

    Parameters
    ----------
    model : TreeModel
        Model with any split prior and tree prior, and a leaf model whose tree score is a sum over leaves.
    engine : {"smc", "mcmc"}, default "smc"
        "smc": a population of trees, weighted by how well each predicts the example that enters, and resampled and
        moved if the weights are too unequal (Chopin 2002). "mcmc": the method of the paper, a single tree that is moved
        a fixed number of times after each example. It is biased, as it never quite reaches equilibrium
        (docs/progressive.md).
    chains : int, default 8
        Number of independent repetitions, >= 2, whose spread is the Monte-Carlo error.
    draws : int, default 1000
        Number of trees saved per repetition, >= 1, spread evenly over the stages.
    steps : int, optional
        Number of proposals, >= 1: for "mcmc" after each example, default 20; for "smc" in each tree each time,
        default 100.
    particles : int, default 200
        Number of trees in a population, >= 2; "smc" only.
    threshold : float, default 0.5
        Resample when the effective sample size is below this fraction of the particles, in (0, 1]; "smc" only.
    block : int, optional
        Number of examples that enter at a time, >= 1, with an error of the order of ``block`` over the number of
        examples. Default: 1 up to 2,000 examples, above that such that there are 2,000 stages.
    shuffle : bool, default False
        True if the examples enter in a random order in each repetition (the symmetric version), False if they enter in
        the order of the data.
    kernel : str or {move: weight}, default "default"
        The moves, as for `sample`; "default" is "local".
    rng : int, SeedSequence, Generator, sequence of these, or None
        Source of randomness, as for `sample`.
    executor : concurrent.futures.Executor, optional
        Executor of the repetitions, each of which is one task. Default: threads, one per core.

    Returns
    -------
    ProgressiveSample

    Raises
    ------
    ValueError
        If an argument is out of range, the engine or kernel is unknown, the tree score is not a sum over leaves, no row
        is left in S, or the model's fixed tree has joint nodes.
    TypeError
        If the model is not a TreeModel.
    KeyboardInterrupt
        If interrupted before every repetition has a draw; later, the stages done so far are returned with a warning.

    Notes
    -----
    "smc" has a bias of the order of one over ``particles``, which the spread of the repetitions does not show; see
    docs/progressive.md. An example that enters costs O(depth) per tree. Memory per particle: 4 bytes a row, 250 bytes a
    node.

    References
    ----------
    .. [1] Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).
    .. [2] Chopin (2002), A sequential particle filter method for static models, Biometrika 89(3).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)[:, None]
    >>> model = pt.TreeModel(x, x[:, 0] > 19, estimation=np.arange(40) % 2 == 0, leaf=pt.FrozenLaplace())
    >>> mixture = pt.progressive_mixture(model, particles=50, draws=100, kernel="grow-prune", rng=1)
    >>> bool(mixture.predict_proba([[0.0]])[0, 0] > 0.8)
    True
    """
    check_reachable(model)
    check_executor(executor)
    check_choice("engine", engine, ENGINES)
    check_flag("shuffle", shuffle)
    minima = {"chains": 2, "draws": 1, "steps": 1, "particles": 2, "block": 1}
    values = {"chains": chains, "draws": draws, "steps": steps, "particles": particles, "block": block}
    for name, value in values.items():
        if value is not None or name not in ("steps", "block"):
            check_count(name, value, minima[name])
    check_number("threshold", threshold, "0 < threshold <= 1", 5e-324, 1.0)
    if not model.leaf.has_additive_score:
        raise ValueError(
            f"the score of {type(model.leaf).__name__} is not a sum over leaves, and examples cannot enter one by one; "
            "give what the leaves share (NormalKnownVariance(sigma2, m0, k0))."
        )
    mixture, sources = read_kernel(kernel), chain_seeds(rng, int(chains))
    check_even_splits(mixture, model.split_prior)
    entering = entering_rows(model)
    width = max(1, math.ceil(len(entering) / MAX_STAGES)) if block is None else int(block)
    is_smc = engine == "smc"
    plans = [
        StagePlan(
            model,
            mixture,
            source,
            entering,
            bool(shuffle),
            np.append(np.arange(0, len(entering), width), len(entering)),
            int(draws),
            (100 if is_smc else 20) if steps is None else int(steps),
            int(particles) if is_smc else 0,
            float(threshold),
        )
        for source in sources
    ]
    start_time = time.perf_counter()
    pool = with_model_sent_once(executor, model)
    results = _run_on_threads(plans) if pool is None else list(pool.map(run_stages, plans))
    return ProgressiveSample.from_results(model, results, mixture.count_names, time.perf_counter() - start_time)


def entering_rows(model: TreeModel) -> np.ndarray:
    """Return the indices of the rows that enter one by one, S, in the order of the data; ValueError if none do."""
    if len(model.counted_rows) == 0:
        raise ValueError("S is empty: every row is in E or of weight zero; leave some rows to weigh the trees.")
    return model.counted_rows


def _run_on_threads(plans: list[StagePlan]) -> list[StageResult]:
    """Run the repetitions on threads, and return their results in the order of ``plans``."""
    # if interrupted, as many draws of each as every repetition has, with a warning
    stop = Event()
    with ThreadPoolExecutor(min(len(plans), n_cores())) as pool:
        futures = pending = [pool.submit(run_stages, plan, stop) for plan in plans]
        try:
            while pending:
                # a wait without a timeout may not react to Ctrl-C
                pending = list(wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION).not_done)
                if any(future.done() and future.exception() for future in futures):
                    stop.set()
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            stop.set()
            results = [future.result() for future in futures]
    n_common = min(len(result.stage) for result in results)
    if n_common == 0:
        raise KeyboardInterrupt("interrupted before every repetition had a draw; nothing to return")
    n_examples = min(int(result.stage[n_common - 1]) for result in results)
    warn(f"interrupted: the mean is over the stages with at most {n_examples} examples only.")
    return [result.first_draws(n_common) for result in results]


class ProgressiveSample(SampledPosterior):
    """Trees from all stages of the progressive mixture, returned by `progressive_mixture`.

    All results of a SampledPosterior are means over the stages; Monte-Carlo errors come from the variance between
    repetitions. Leaf values, statistics and ``log_score`` of a draw are those of its stage (equal trees of
    two stages count as two distinct trees); `map_tree` is the most probable of the trees found at the last stage.

    Attributes
    ----------
    stage : ndarray of shape (chains, draws), int64
        Number of examples that had entered at each draw.
    stage_log_evidence : ndarray of shape (chains, stages), float64
        Log evidence of the examples that had entered at each stage; at the first stage the log mass of the prior (0
        except for a conditioned process and LeafPenalty). NaN where that is unknown; no stages with engine "mcmc".
    n_resampled : ndarray of shape (chains,), int64
        Number of times that each population was resampled.
    """

    stage: np.ndarray
    stage_log_evidence: np.ndarray
    n_resampled: np.ndarray
    _log_evidence: float | None
    _log_evidence_se: float | None
    _best: SampledPosterior | None

    @classmethod
    def from_results(
        cls, model: TreeModel, results: list[StageResult], moves: tuple[str, ...], seconds: float
    ) -> ProgressiveSample:
        """Return the posterior sample that joins the results of all repetitions, each as one chain.

        ``moves`` are the names of the counts of proposals, ``seconds`` is the time of the run.
        """
        post = join_chains(model, [r.saved for r in results], moves, seconds, kind=cls, by_stats=True)
        post.sees_all_rows = False
        post.stage = np.array([result.stage for result in results])
        post.n_resampled = np.array([result.n_resampled for result in results])
        best = [result.best for result in results if result.best is not None]
        post._best = join_chains(model, best, moves, 0.0, by_stats=True) if best else None
        by_stage = np.array([result.log_evidence for result in results])
        fractions = np.array([result.stump_fraction for result in results])
        post._log_evidence, post._log_evidence_se = _mean_evidence(model, by_stage, fractions)
        log_mass = prior_mass(model).log_mass_from(float(fractions.mean()))
        post.stage_log_evidence = by_stage + (np.nan if log_mass is None else log_mass)
        return post

    @property
    def log_evidence(self) -> float | None:
        """Log evidence of S, nats; None with engine "mcmc", or if interrupted."""
        return self._log_evidence

    @property
    def log_evidence_se(self) -> float | None:
        """Standard error of the log evidence, from the variance between repetitions; None if it was not estimated.

        It is multiplied by half the quantile of Student's t, so that plus or minus two of it cover 95 %; the factor is
        large for few repetitions (``chains``), 6.4 for two of them, 1.2 for eight.
        """
        return self._log_evidence_se

    def map_tree(self) -> Tree:
        """Return the most probable of the trees visited at the last stage.

        Raises
        ------
        ValueError
            If the run was interrupted before the last stage.
        """
        if self._best is None:
            raise ValueError("the last stage was not reached; run again without interruption.")
        return self._best.map_tree()

    def predict_proba_se(self, X: Any) -> np.ndarray:
        """Return the Monte-Carlo standard error (n, K) of `predict_proba`, from the variance between repetitions.

        Raises
        ------
        ValueError
            If the model is a regression, or X does not fit the model's columns.
        """
        if self.model.classes_ is None:
            raise ValueError(f"{type(self.model.leaf).__name__} is a regression; use predict_se.")
        return self._values_se(self.model.columns.numbers(X))

    def predict_se(self, X: Any) -> np.ndarray:
        """Return the Monte-Carlo standard error (n,) of the predictive means of a regression.

        Raises
        ------
        ValueError
            If the model is a classification, or X does not fit the model's columns.
        """
        if self.model.classes_ is not None:
            raise ValueError(f"{type(self.model.leaf).__name__} is a classification; use predict_proba_se.")
        return self._values_se(self.model.columns.numbers(X))[:, 0]

    def __repr__(self) -> str:
        return (
            f"ProgressiveSample({self.n_chains} repetitions x {self.n_draws} draws over the stages with 0 to "
            f"{self.stage.max()} examples, {self.n_leaves.mean():.1f} leaves)"
        )


def _mean_evidence(
    model: TreeModel, by_stage: np.ndarray, stump_fraction: np.ndarray
) -> tuple[float | None, float | None]:
    """Return the log of the mean evidence of the repetitions, nats, and its standard error, or None twice."""
    # `by_stage` (chains, stages) are log evidences under the prior divided by its mass, `stump_fraction` the fractions
    # of trees of one leaf at the first stage, which estimate an unknown mass
    if by_stage.shape[1] == 0:
        return None, None
    mass, fraction = prior_mass(model), float(stump_fraction.mean())
    log_mass = mass.log_mass_from(fraction)
    if log_mass is None:
        return None, None
    log_evidences = by_stage[:, -1]
    mean = float(log_mean(log_evidences))
    if mass.log_mass is None:
        log_evidences = log_evidences - stump_fraction / fraction
    return mean + log_mass, pooled_error(log_evidences, 0.0, 1)
