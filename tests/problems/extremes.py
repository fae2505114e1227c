"""Small models whose parameters, y, weights and exposures are between 1e-300 and 1e300, and faults of their answers."""

import warnings

import numpy as np

import exact
import pactree_mcmc as pt

SIZES = [10.0**e for e in (-300, -200, -154, -100, -30, -16, -8, 8, 16, 30, 100, 154, 200, 300)]
LEAVES = ("classes", "frozen", "loss", "normal", "known", "shared", "linear", "counts", "times", "weibull", "piecewise")
FRACTIONS = [1e-300, 1e-12, 0.05, 0.5, 0.95, 1.0 - 1e-12]
LARGEST = np.finfo(float).max


def size(rng):
    return 1.0 if rng.random() < 0.45 else float(rng.choice(SIZES))


def extreme_model(seed):
    """Return a function that makes the model with this number, by turns of each leaf, and may raise a ValueError."""
    rng, leaf = np.random.default_rng(seed), LEAVES[seed % len(LEAVES)]
    n, p = int(rng.choice([4, 12, 25])), int(rng.choice([1, 2]))
    X = rng.integers(0, 4, (n, p)) * size(rng)
    weight = None
    if rng.random() < 0.4:
        weight = size(rng) * (rng.choice([0.0, 1.0, 2.0], n) if rng.random() < 0.3 else np.ones(n))
        weight[0] = size(rng)
    scale, shift = size(rng), rng.choice([0.0, 1.0]) * size(rng)
    y = rng.normal(size=n) * scale + shift
    exposure = size(rng) * rng.uniform(0.5, 2.0, n) if rng.random() < 0.4 else None
    some = [None if rng.random() < 0.3 else size(rng) for _ in range(4)]
    labels = [["a", "b", "c"][i % rng.integers(1, 4)] for i in rng.integers(0, 3, n)]
    times = np.column_stack([np.abs(y) + scale, rng.random(n) < rng.choice([0.0, 0.6, 1.0])])
    k = float(rng.choice([1.0, 0.01, 0.1, 100.0, size(rng)]))
    made = {
        "classes": lambda: (labels, pt.DirichletMultinomial([size(rng) for _ in set(labels)])),
        "frozen": lambda: (labels, pt.FrozenLaplace(size(rng))),
        "loss": lambda: (labels, pt.PacBayesLoss(size(rng), rng.choice([0.0, 1.0]) * size(rng))),
        "normal": lambda: (y, pt.NormalInverseGamma(None, *some[:3])),
        "known": lambda: (y, pt.NormalKnownVariance(some[0], None, some[1])),
        "shared": lambda: (y, pt.NormalSharedVariance(None, *some[:3])),
        "linear": lambda: (y, pt.NormalLinear([0], None, *some)),
        "counts": lambda: (np.floor(np.abs(y)), pt.PoissonGamma(*some[:2], exposure)),
        "times": lambda: (times, pt.ExponentialGamma(*some[:2], exposure)),
        "weibull": lambda: (times, pt.WeibullGamma(k, *some[:2], exposure)),
        "piecewise": lambda: (times, pt.PiecewiseExponential(3, 1.0 + (some[0] or 0.25), some[1])),
    }
    priors = [pt.ChipmanPrior(max_depth=2), pt.BranchingProcess(0.5, 2), pt.LeafPenalty(size(rng), 2)]
    splits = [pt.LocalCuts(), pt.LocalCuts(min_leaf=2), pt.GridCuts(3)]
    rest = {"tree_prior": priors[rng.integers(3)], "split_prior": splits[rng.integers(3)], "sample_weight": weight}
    if leaf == "frozen":
        rest["estimation"] = 0.5

    def make():
        target, rule = made[leaf]()
        return pt.TreeModel(X, target, leaf=rule, **rest)

    return make


def faults_of(model, post, is_exact):
    """Yield what is wrong with the answers of a posterior: not normalised, NaN, out of range, or a limit of floats."""
    X, leaf = model.row_numbers(np.arange(min(model.n_rows, 6))), model.leaf
    if not abs(post.n_leaves_pmf().sum() - 1.0) < 1e-3:
        yield f"numbers of leaves {post.n_leaves_pmf()}"
    answers = {"values": post._rows.values(X), "spread": post.predict_std_over_trees(X)} if leaf.predicts else {}
    if leaf.predicts and model.classes_ is not None and not np.allclose(answers["values"].sum(axis=1), 1.0, atol=2e-3):
        yield f"class probabilities {answers['values']}"
    ordered = {}
    if leaf.has_expectation:
        ordered["interval"] = post.credible_interval(X)
        answers["expectations"] = post.draw_expectations(X, 5, 1)
    if model.classes_ is None and leaf.has_likelihood:
        ordered["quantiles"] = post.predict_quantiles(X, FRACTIONS)
        answers |= {"deviation": post.predict_std_new_y(X), "draws": post.sample_predictive(X, 5, 1)}
    if hasattr(leaf, "survival_given"):
        answers |= {f"survival {i}": part for i, part in enumerate(post.survival(X, [0.0, 1e-300, 1.0, 1e300])[1:4])}
        answers["median"] = post.median_survival(X)[["lower", "median", "upper"]].to_numpy()
    for name, values in (answers | ordered).items():
        if np.isnan(values).any() or (np.abs(values) == LARGEST).any():
            yield f"{name}: {values[:2]}"
        if name in ordered and not np.all(values[..., :-1] <= values[..., 1:]):
            yield f"{name} are not in order: {values[:2]}"
    str(post.shapes()), str(post.consensus_tree()), str(post.support()), post.map_tree().format()
    if is_exact and not isinstance(model.tree_prior, pt.LeafPenalty):
        post.kl_to_prior()


def faults(seed):
    """Return what is wrong with both engines for model ``seed``; a ValueError that names a size is right."""
    out = []

    def attempt(what, function):
        try:
            return function()
        except ValueError as error:
            named = str(error).startswith("y is too ") or any(c.isdigit() for c in str(error))
            if "math" in str(error) or not named:
                out.append(f"{what}: {error}")
        except Exception as error:
            out.append(f"{what}: {type(error).__name__}: {error}")
        return None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = attempt("model", extreme_model(seed))
        if model is None:
            return out
        if not isinstance(model.leaf, pt.NormalSharedVariance):
            truth = attempt("solve", lambda: exact.solve(model, progress=False))
            if truth is not None:
                out += attempt("exact", lambda: list(faults_of(model, truth, True))) or []
        run = {"draws": 20, "tune": 20, "chains": 1, "rng": 1, "kernel": "grow-prune", "progress": False}
        post = attempt("sample", lambda: pt.sample(model, **run))
        if post is not None:
            out += attempt("sampled", lambda: list(faults_of(model, post, False))) or []
    return [f"{seed}, {model!r}: {line}" for line in out]
