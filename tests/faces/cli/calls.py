"""Calls of the command line, and a table for them."""

import functools
import json

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.faces.cli import main

RUN = ["--kernel", "grow-prune", "--draws", "200", "--tune", "100", "--chains", "2", "--seed", "3", "--quiet"]


def shop(n=80):
    """Two ordered columns, one of text, a class and a number."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 28, n), "colour": rng.choice(["blue", "green", "red"], n)})
    frame["size"] = rng.integers(0, 3, n) / 2.0
    frame["bought"] = np.where((frame["age"] > 23) ^ (frame["colour"] == "red"), "yes", "no")
    frame["price"] = frame["age"] + rng.integers(0, 9, n) / 8.0
    return frame


def run(capsys, *argv):
    """Exit code, standard output, standard error."""
    code = main([str(a) for a in argv])
    result = capsys.readouterr()
    return code, result.out, result.err


def answer(capsys, *argv):
    """Return what a command prints with --json."""
    code, out, err = run(capsys, *argv, "--json")
    assert code == 0, err
    return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def model_of(frame, target):
    """The model that the command line should build."""
    X = frame.drop(columns=["bought", "price"])
    return pt.TreeModel(X, frame[target].to_numpy(), nominal=["colour"])


@functools.cache
def posterior(target):
    """The posterior that the command line should draw with the options `RUN`."""
    return pt.sample(model_of(shop(), target), 200, tune=100, chains=2, rng=3, kernel="grow-prune", progress=False)
