"""The library without the packages of its extras: what works, and what the errors of the rest say."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

RUN = ["--target", "y", "--draws", "50", "--tune", "20", "--chains", "2", "--seed", "1", "--quiet"]


def main():
    for name in ("matplotlib", "sklearn", "arviz"):
        sys.modules[name] = None
    import exact
    import pactree_mcmc as pt
    from pactree_mcmc.faces.cli import main as command_line

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
        table, run = str(Path(folder) / "table.csv"), str(Path(folder) / "run.nc")
        frame.to_csv(table, index=False)
        sys.stdout = sys.stderr
        codes = [
            command_line(["fit", table, *RUN, "--out", run]),
            command_line(["resume", run, "--draws", "20", "--quiet"]),
            command_line(["predict", run, table]),
            command_line(["compare", run]),
            command_line(["report", run, "-o", str(Path(folder) / "page.html")]),
            command_line(["summary", run, "--plot", folder]),
        ]
        sys.stdout = sys.__stdout__
    print(codes)


if __name__ == "__main__":
    main()
