"""Leave-one-out: the density of each row given all other rows and a tree (formula sheet, section 12.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.compile.jit import jit
from ..tree.coded import route_into

if TYPE_CHECKING:
    from .sampled import SampledPosterior

TIE_WIDTH = 1e-10


def log_likelihoods(posterior: SampledPosterior) -> np.ndarray:
    """Log density (chains, draws, m) of each counted row given all others, nats; a ValueError where there is none."""
    if not posterior.sees_all_rows:
        raise ValueError(
            f"the draws of a {type(posterior).__name__} are of many stages, not of the posterior given all rows; "
            "call to_arviz without log_likelihood=True, or sample(model)."
        )
    model, flat = posterior.model, posterior.tree_of_draw.ravel()
    if not model.leaf.has_likelihood:
        name = type(model.leaf).__name__
        raise ValueError(f"{name} is a loss, not a likelihood; call to_arviz without log_likelihood=True.")
    draws_of_tree = np.split(
        np.argsort(flat, kind="stable"), np.cumsum(np.bincount(flat, minlength=posterior.n_distinct_trees))
    )
    counted = model.counted_rows
    out = np.empty((flat.size, len(counted)))
    for t, others, node in _others_by_tree(posterior, np.unique(flat)):
        out[draws_of_tree[t]] = model.leaf.log_density_left_out(others, node, model.target)[counted]
    _part_ties(out)
    return out.reshape(*posterior.tree_of_draw.shape, len(counted))


class LeftOut(NamedTuple):
    """Rows left out, one by one: of what a row counts, one, or all if it is less."""

    gained: np.ndarray
    """(draws, m): the difference that the row makes to the score of the tree, nats."""
    density: np.ndarray
    """(draws, m): log density of its y, nats."""
    count: np.ndarray  # type: ignore[assignment]  # tuples have a method of this name
    """(m,): what the row counts."""


def rows_left_out(posterior: SampledPosterior, power: float, most: int) -> LeftOut:
    """Up to ``most`` rows, evenly spaced; the weights of the model are ``power`` times what rows count."""
    model, flat = posterior.model, posterior.tree_of_draw.ravel()
    target, own = model.target, model.leaf.row_stats(model.target)
    rows = np.unique(np.linspace(0, model.n_rows - 1, min(model.n_rows, most)).astype(np.int64))
    once = np.minimum(target.weights / power, 1.0)
    rest = own * (1.0 - power * once / np.maximum(target.weights, np.finfo(np.float64).tiny))[:, None]
    trees, which = np.unique(flat, return_inverse=True)
    out = np.empty((2, len(trees), len(rows)))
    for i, (_, others, _) in enumerate(_others_by_tree(posterior, trees)):
        for j, weight in enumerate((power * once, 1.0)):
            out[j, i] = model.leaf.log_density(others + rest, target.values, target, weight)[rows]
    return LeftOut(out[0, which], out[1, which], target.weights[rows])


def _others_by_tree(posterior: SampledPosterior, which: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Of each tree: its number, the statistics (n, s) of the other rows in a row's leaf, and the leaf's number (n,)."""
    model, offset = posterior.model, posterior.coded_trees.offset
    own = model.leaf.row_stats(model.target)
    for t, leaf in leaf_of_units(posterior, which):
        node = (leaf if model.unit_of_row is None else leaf[model.unit_of_row]) - offset[t]
        yield t, stats_of_others(own, node, int(offset[t + 1] - offset[t])), node


def leaf_of_units(posterior: SampledPosterior, which: Iterable[int]) -> Iterator[tuple[int, np.ndarray]]:
    """Of each tree: its number, and the leaf (U,) of each unit, counted from the first tree on; overwritten."""
    trees, codes = posterior.coded_trees, posterior.model.units.codes
    units, leaf = np.arange(codes.shape[1]), np.empty(codes.shape[1], dtype=np.int64)
    for t in which:
        route_into(leaf, trees, int(t), codes, units)
        yield int(t), leaf


@jit
def stats_of_others(own: np.ndarray, node: np.ndarray, n_nodes: int) -> np.ndarray:
    """For each row the sum (n, s) of ``own`` (n, s) over the other rows of its ``node`` (n,), without a difference."""
    n, n_stats = own.shape
    out, before = np.empty((n, n_stats)), np.zeros((n_nodes, n_stats))
    for i in range(n):
        for j in range(n_stats):
            out[i, j] = before[node[i], j]
            before[node[i], j] += own[i, j]
    behind = np.zeros((n_nodes, n_stats))
    for i in range(n - 1, -1, -1):
        for j in range(n_stats):
            out[i, j] += behind[node[i], j]
            behind[node[i], j] += own[i, j]
    return out


def _part_ties(of_draw: np.ndarray) -> None:
    """Lower the draws (draws, n) that tie at the least value of a row, each by another part of ``TIE_WIDTH``, in place.

    The least log likelihoods of a row are its largest importance weights, and to these ``arviz.loo`` fits a tail.
    """
    least = of_draw.min(axis=0)
    width = TIE_WIDTH * np.maximum(1.0, np.abs(least))
    golden = (np.sqrt(5.0) - 1.0) / 2.0
    for draw, row in enumerate(of_draw):
        tied = row == least
        row[tied] -= width[tied] * (draw * golden % 1.0)
