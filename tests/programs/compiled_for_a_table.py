"""A model of a small table, and what was compiled and warned of, as JSON: two functions of the library are called."""

import json
import warnings

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import watch_compilation

if __name__ == "__main__":
    compiled = []
    watched = watch_compilation(lambda of: compiled.append(of._function.__qualname__))
    with warnings.catch_warnings(record=True) as caught, watched:
        warnings.simplefilter("always")
        x = np.arange(40.0)[:, None]
        model = pt.TreeModel(x, x[:, 0] > 19)
        tree = pt.simulate(model, 1)[0]
    messages = [str(each.message) for each in caught]
    print(json.dumps({"compiled": compiled, "told": messages, "finite": bool(np.isfinite(model.log_posterior(tree)))}))
