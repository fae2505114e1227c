"""Do runs that pass contradict each other? Default runs of tables with several seeds.

    python verification/quiet_losses.py example --seeds 10        (398 x 30 of breast_cancer; or CSV files)

A CSV file has the response in its last column. A run that passes has a *loss* if it gives a root feature a probability
below that of another run that passes by at least .02, and by three standard errors of both: a run that never saw a mode
can only have too little of it. Each run prints a line, and the last line has the number of runs that pass and with a
loss, and the root mean square of z of the frequent root features, and of the log evidence, about their means over seeds
(1 if errors are honest).
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import ess_of_chains, split_chains

LOSS, ERRORS = 0.02, 3.0
"""Difference of two probabilities, and number of standard errors, that make a loss."""
MIN_ERROR = 0.001
"""Smallest standard error of a probability: an indicator that never changes has none of its own."""


def model_of(name):
    """Return the model of a table by name, or by the path of a CSV file."""
    if name == "example":
        import sklearn.datasets

        data = sklearn.datasets.load_breast_cancer(as_frame=True)
        X, y = data.data, data.target_names[data.target]
        rows = np.random.default_rng(0).permutation(len(y))[:398]
        cuts = pt.LocalCuts(max_cuts=32, min_leaf=5)
        return pt.TreeModel(X.iloc[rows].reset_index(drop=True), y[rows], split_prior=cuts)
    import pandas as pd

    table = pd.read_csv(Path(name))
    missing = "branch" if table.isna().any(axis=None) else "error"
    return pt.TreeModel(table.iloc[:, :-1], table.iloc[:, -1], missing=missing)


def run(model, seed):
    """Return whether a run passes, the probabilities of root features, their errors, and the log evidence with its."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = pt.sample(model, rng=seed, progress=False)
    seconds = time.process_time() - start
    said = [str(one.message) for one in caught if issubclass(one.category, pt.ConvergenceWarning)]
    has_root = (post.root_feature[None] == np.arange(model.n_features)[:, None, None]).astype(float)
    mean, error = has_root.mean(axis=(1, 2)), np.full(model.n_features, MIN_ERROR)
    for k in np.flatnonzero(np.ptp(split_chains(has_root), axis=(1, 2)) > 0.0).tolist():
        size = float(ess_of_chains(split_chains(has_root[k][None]))[0])
        error[k] = max(np.sqrt(mean[k] * (1.0 - mean[k]) / size), MIN_ERROR)
    frequent = ", ".join(f"{model.columns.names[k]} {mean[k]:.3f}" for k in np.argsort(-mean)[:8] if mean[k] > 0.0)
    evidence = (np.nan, np.nan) if post.log_evidence_se is None else (post.log_evidence, post.log_evidence_se)
    print(f"  seed {seed}: {seconds:.1f} CPU s, {said[0].splitlines()[0] if said else 'passes'}", flush=True)
    print(f"    log evidence {evidence[0]:.3f} +- {evidence[1]:.3f}; {frequent}", flush=True)
    return not said, mean, error, evidence


def z_rms(value, error):
    """Return the root mean square of z of ``value`` (runs, m) about the means over the runs."""
    if len(value) < 2 or value.size == 0:
        return np.nan
    z = (value - value.mean(axis=0)) / error
    return float(np.sqrt((z**2).mean() * len(value) / (len(value) - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    for name in arguments.tables:
        print(name, flush=True)
        model = model_of(name)
        passed = [one for one in (run(model, seed) for seed in range(1, arguments.seeds + 1)) if one[0]]
        if not passed:
            print(f"{name}: 0 of {arguments.seeds} runs pass", flush=True)
            continue
        mean, error, evidence = (np.array([one[i] for one in passed]) for i in (1, 2, 3))
        surely = (mean - ERRORS * error).max(axis=0)
        is_lost = (surely > mean + ERRORS * error) & (mean.max(axis=0) - mean >= LOSS)
        frequent = mean.mean(axis=0) >= LOSS
        print(
            f"{name}: {len(passed)} of {arguments.seeds} runs pass, {int(is_lost.any(axis=1).sum())} with a loss; "
            f"z rms {z_rms(mean[:, frequent], error[:, frequent]):.2f} (root features), "
            f"{z_rms(evidence[:, :1], evidence[:, 1:]):.2f} (log evidence)",
            flush=True,
        )
        for i, k in np.argwhere(is_lost).tolist():
            print(f"  loss: {model.columns.names[k]} {mean[i, k]:.3f} +- {error[i, k]:.3f} of {mean[:, k].max():.3f}")


if __name__ == "__main__":
    main()
