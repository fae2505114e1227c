"""The sentences at the top of the report: deciding features, first cuts, and numbers of leaves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...posterior.sampled import SampledPosterior
from ...posterior.trees.shapes import Shape, or_missing
from . import words
from .words import MAX_NAME_LENGTH, truncate

MAX_NAMED = 3
"""Largest number of features and of cuts in a sentence."""


def features_sentence(target: str, inclusion: list[dict[str, Any]]) -> str:
    """Return a sentence that names up to three features in at least half of the trees, the most probable first."""
    frequent = [i for i, line in enumerate(inclusion) if line["probability"] >= 0.5]
    if not frequent:
        return f"No feature is in half of the trees for {target}."
    named = [
        f"{inclusion[i]['name']} ({words.probability_text(inclusion[i]['probability'])})" for i in frequent[:MAX_NAMED]
    ]
    if len(frequent) > MAX_NAMED:
        named.append(f"{len(frequent) - MAX_NAMED} more")
    listed = ", ".join(named[:-1]) + " and " * (len(named) > 1) + named[-1]
    verb = "decides" if len(named) == 1 else "decide"
    return f"{listed} {verb} {target}. In brackets is the probability that a tree splits on the feature."


def first_cuts_sentence(shape: Shape) -> str:
    """Return a sentence with up to three cuts of ordered features nearest the root of a shape, and their intervals."""
    cuts = []
    for line in shape.splits.sort_values("depth", kind="stable").itertuples():
        if np.isfinite(line.cut):
            name = truncate(line.feature, MAX_NAME_LENGTH)
            # a cut is named without the side of missing values
            condition = line.words.removeprefix(f"{line.feature} ").removesuffix(or_missing(line.missing_left))
            interval = re.fullmatch(r"<= (.+) \[(.+), (.+)\]", condition)
            if interval:
                cuts.append("{} at {}, uncertain between {} and {}".format(name, *interval.groups()))
            else:
                # truth values have no "<="
                at = f"at {condition.removeprefix('<= ')}" if condition.startswith("<= ") else condition
                cuts.append(f"{name} {at}")
    probability = words.probability_text(shape.probability)
    if not cuts:
        return f"The most probable shape, {probability} of the posterior, has no cut of a number."
    verb = "the cut is" if len(cuts) == 1 else "the first cuts are"
    return f"In the most probable shape, {probability} of the posterior, {verb}: {'; '.join(cuts[:MAX_NAMED])}."


def leaf_count_sentence(draws: SampledPosterior, n_shapes: int) -> str:
    """Return sentences with the 90 % range of the number of leaves, and the number of shapes if there are several."""
    pmf = draws.n_leaves_pmf()
    low, high = (int(np.searchsorted(np.cumsum(pmf), q - 1e-12)) for q in (0.05, 0.95))
    span = f"{low}" if low == high else f"{low} to {high}"
    probability_text = words.probability_text(float(pmf[low : high + 1].sum()))
    text = f"A tree has {span} {'leaf' if span == '1' else 'leaves'} with probability {probability_text}."
    return f"{text} The draws have {n_shapes} shapes in all." if n_shapes > 1 else text
