"""The library without the packages of its extras: what works, and what the errors of the rest say."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd


def main():
    for name in ("matplotlib", "sklearn", "arviz"):
        sys.modules[name] = None
    import exact
    import pactree_mcmc as pt

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 4, 60), "b": rng.integers(0, 3, 60)})
    frame["y"] = np.where((frame["a"] > 1) ^ (rng.random(60) < 0.1), "yes", "no")
    model = pt.TreeModel(frame[["a", "b"]], frame["y"], tree_prior=pt.ChipmanPrior(max_depth=2))
    post, truth = pt.sample(model, 50, tune=20, chains=2, rng=1, progress=False), exact.solve(model)
    post._repr_html_()
    for use in (
        lambda: pt.BayesianTreeClassifier,
        lambda: exact.DyadicTreeClassifier,
        lambda: pt.plots,
        exact.compare(truth, post).plot,
        post.to_arviz,
    ):
        try:
            use()
        except ImportError as error:
            print(error)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run.nc"
        post.save(run)
        longer = pt.resume(pt.load(run), 20, progress=False)
        longer.predict_proba(frame[["a", "b"]])
        longer.summary()
        again = exact.solve(longer.model)
        exact.compare(again, longer).to_frame()
        longer.report(Path(folder) / "page.html", truth=again)
    print("done")


if __name__ == "__main__":
    main()
