"""Fit a BART of 200 trees by stochtree to training rows, and predict test rows, in a process of its own.

`rivals.Bart` runs it: python bart.py GIVEN FOUND, two files of `elsewhere.run`. Ten trees grown from the root, then 200
draws dropped and 1,000 kept, otherwise stochtree's defaults; two classes by a probit link. A regression also has
quantiles of a new y. The default prior of the noise variance is improper: on a few dozen rows the trees pass through
the data, and intervals are far too narrow.
"""

import sys
import time

import numpy as np
from elsewhere import read_given
from stochtree import BARTModel, OutcomeModel


def fitted(X, y, regression):
    """Return a BARTModel fitted to X (n, p) and y (n,): numbers of a ``regression``, or classes 0 and 1."""
    model = BARTModel()
    outcome = OutcomeModel(*(("continuous", "identity") if regression else ("binary", "probit")))
    general = {"random_seed": 0, "num_threads": 1, "outcome_model": outcome}
    if not regression:
        general["sample_sigma2_global"] = False
    model.sample(X_train=X, y_train=y, num_gfr=10, num_burnin=200, num_mcmc=1000, general_params=general)
    return model


def main():
    given, options = read_given(sys.argv[1])
    began = time.process_time()
    model = fitted(given["X"], given["y"], options["regression"])
    found = {"seconds": time.process_time() - began}
    if options["regression"]:
        found["said"] = model.predict(given["test"], type="mean", terms="y_hat")
        np.random.seed(0)  # noqa: NPY002 (what stochtree draws a new y with)
        drawn = model.sample_posterior_predictive(given["test"], num_draws_per_sample=2)
        found["quantiles"] = np.quantile(drawn.reshape(len(given["test"]), -1), given["q"], axis=1).T
    else:
        found["said"] = model.predict(given["test"], type="mean", terms="y_hat", scale="probability")
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()
