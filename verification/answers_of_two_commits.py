"""Compare the answers of two checkouts on random models: exact ones to 1e-12, those of draws bit for bit.

    python verification/answers_of_two_commits.py OLD [--new NEW] [--models 100]

OLD and NEW are folders. Each checkout answers in a process of its own. The one of OLD draws trees and saves them; both
load these files. An answer that only one of the two refuses is a difference, and so is another text.
"""

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

TOLERANCE = 1e-12
"""Largest difference of exact answers, relative to the largest entry of the array, or absolute if that is below 1."""


def random_model(seed):
    """Return a random model, and rows to predict: tables, leaves, priors, weights, categories, missing values."""
    import pandas as pd

    import pactree_mcmc as pt

    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(12, 30)), int(rng.integers(1, 4))
    X = rng.integers(0, 4, (n, p)).astype(float)
    options = {}
    if rng.random() < 0.3:
        X[rng.integers(0, n, 3), 0] = np.nan
        options["missing"] = "branch"
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(p)])
    if rng.random() < 0.3:
        table["letter"] = pd.Categorical(rng.choice(list("abc"), n))
    signal = np.nan_to_num(X[:, 0]) + rng.normal(size=n)
    times = np.column_stack([np.exp(0.3 * signal), rng.random(n) < 0.7])
    kinds = [
        (lambda: None, signal > 1.5),
        (lambda: None, np.digitize(signal, [1.0, 2.0]).astype(str)),
        (lambda: pt.FrozenLaplace(), signal > 1.5),
        (lambda: pt.PacBayesLoss(5.0), signal > 1.5),
        (lambda: None, signal),
        (lambda: pt.NormalKnownVariance(1.0), signal),
        (lambda: pt.NormalLinear(["x0"]), signal),
        (lambda: pt.PoissonGamma(), rng.poisson(np.exp(0.3 * signal))),
        (lambda: pt.PoissonGamma(exposure=1.0 + rng.random(n)), rng.poisson(np.exp(0.3 * signal))),
        (lambda: pt.ExponentialGamma(), times),
        (lambda: pt.WeibullGamma(1.5), times),
        (lambda: pt.PiecewiseExponential(3), times),
    ]
    leaf, y = kinds[seed % len(kinds)]
    options["leaf"] = leaf()
    if isinstance(options["leaf"], pt.NormalLinear):
        table = table.fillna(1.0)
    if isinstance(options["leaf"], pt.FrozenLaplace | pt.PacBayesLoss):
        options["estimation"] = np.arange(n) % 2 == 0
    elif rng.random() < 0.3:
        options["sample_weight"] = rng.integers(1, 4, n).astype(float)
    split_priors = [lambda: pt.LocalCuts(), lambda: pt.LocalCuts(min_leaf=2), lambda: pt.GridCuts(2)]
    options["split_prior"] = split_priors[int(rng.integers(len(split_priors)))]()
    tree_priors = [
        lambda: pt.ChipmanPrior(0.9, 1.0, 3),
        lambda: pt.BranchingProcess(0.5, 2),
        lambda: pt.LeafPenalty(1.0),
    ]
    options["tree_prior"] = tree_priors[int(rng.integers(len(tree_priors)))]()
    new = table.sample(5, replace=True, random_state=seed).reset_index(drop=True)
    new["x0"] += 0.25
    return pt.TreeModel(table, y, **options), new, y


def plain(value, depth=0):
    """Return an answer as nested tuples of arrays and texts."""
    import pandas as pd

    import pactree_mcmc as pt

    if isinstance(value, pt.Tree):
        return ("tree", value.format(), value.feature, value.threshold)
    if type(value).__name__ == "CredibleSet":
        return ("set", value.exact, value.log_posterior, value.weight, *(tree.format() for tree in [*value][:3]))
    if isinstance(value, pd.DataFrame):
        columns = [c for c in value.columns if not (c == "mcse" and "other" in value.columns)]
        return ("frame", *(plain((str(c), value[c].to_numpy())) for c in columns), tuple(map(str, value.index)))
    if isinstance(value, pd.Series):
        return ("series", tuple(map(str, value.index)), value.to_numpy())
    if isinstance(value, dict):
        return ("dict", *(plain(item) for item in value.items()))
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(plain(part, depth + 1) for part in value)
    if isinstance(value, float | np.floating):
        return np.asarray(value)
    if hasattr(value, "__dataclass_fields__"):
        return tuple(plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return str(value)


def questions(new, y):
    """Yield the names and arguments of the methods that are called."""
    X = {"X": new}
    for name in ("predict", "predict_proba", "predict_interval", "credible_interval", "predict_std_new_y"):
        yield name, X
    yield "predict_std_over_trees", X
    yield "predict_quantiles", X | {"q": [0.1, 0.5]}
    for name in ("draw_expectations", "sample_predictive"):
        yield name, X | {"draws": 20, "rng": 1}
    yield "survival", X | {"times": [0.5, 2.0]}
    yield "median_survival", X
    yield "holdout_certificate", X | {"y": np.asarray(y)[: len(new)]}
    names = "certificate", "feature_inclusion", "prior_inclusion", "root_split_pmf", "n_leaves_pmf", "depth_pmf"
    for name in (*names, "kl_to_prior", "map_tree", "credible_set", "support", "consensus_tree", "summary"):
        yield name, {}
    yield "interactions", {"draws": 50}
    yield "shapes", {"draws": 50}
    yield "draw_trees", {"n": 5, "rng": 2}
    for name in ("asdsf", "tree_ess", "tree_distances", "best_trees", "trees_within", "expected_splits"):
        yield name, {"best_trees": {"k": 5}, "trees_within": {"epsilon": 2.0}}.get(name, {})
    yield "values_by_draw", X


def answers_of(post, new, y):
    """Return the answers of a posterior by name; of one that is refused the type of the error."""
    out = {"log_evidence": plain(post.log_evidence)}
    for name, arguments in questions(new, y):
        if hasattr(post, name):
            try:
                out[name] = plain(getattr(post, name)(**arguments))
            except (ValueError, TypeError) as error:
                out[name] = f"refused: {type(error).__name__}"
    return out


def answer(folder, n_models, writes):
    """Write the answers of this process's library for all models, and before them the draws if it ``writes``."""
    import exact
    import pactree_mcmc as pt

    out = {}
    warnings.simplefilter("ignore")
    for seed in range(n_models):
        model, new, y = random_model(seed)
        truth, path = exact.solve(model, progress=False), Path(folder) / f"{seed}.nc"
        if writes:
            truth.sample(200, rng=seed).save(path)
        out[seed, "exact"] = answers_of(truth, new, y)
        out[seed, "draws"] = answers_of(pt.load(path), new, y)
    print(pt.__file__, flush=True)
    (Path(folder) / f"answers_{int(writes)}.pickle").write_bytes(pickle.dumps(out))


def differs(one, other, tolerance):
    """Return True if two answers differ by more than the tolerance."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape:
            return True
        if tolerance == 0.0 or bool in (one.dtype, other.dtype):
            return not np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        finite = np.isfinite(one) & np.isfinite(other)
        scale = max(np.abs(one[finite]).max(initial=0.0), 1.0)
        same = np.array_equal(one[~finite], other[~finite], equal_nan=one.dtype.kind == "f")
        return not same or bool((np.abs(one[finite] - other[finite]) > tolerance * scale).any())
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) != len(other) or any(differs(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return type(one) is not type(other) or one != other


def main():
    """Compare two checkouts, and print a line for each answer that differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("--new", default=str(Path(__file__).resolve().parent.parent))
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer(options.answer, options.models, os.environ["WRITES"] == "1")
        return
    with tempfile.TemporaryDirectory() as folder:
        for writes, checkout in ((1, options.old), (0, options.new)):
            command = [sys.executable, __file__, "unused", "--answer", folder, "--models", str(options.models)]
            env = os.environ | {"PYTHONPATH": checkout, "WRITES": str(writes)}
            subprocess.run(command, check=True, cwd=checkout, env=env)
        old, new = (pickle.loads((Path(folder) / f"answers_{writes}.pickle").read_bytes()) for writes in (1, 0))
    n_compared = n_different = 0
    for (seed, kind), answers in old.items():
        for name in answers.keys() | new[seed, kind].keys():
            one, other = answers.get(name), new[seed, kind].get(name)
            n_compared += 1
            if differs(one, other, TOLERANCE if kind == "exact" else 0.0):
                n_different += 1
                print(f"model {seed}, {kind}, {name}: {one!r:.200} and {other!r:.200}")
    print(f"{n_compared} answers for {options.models} models, {n_different} different")
    sys.exit(n_different > 0)


if __name__ == "__main__":
    main()
