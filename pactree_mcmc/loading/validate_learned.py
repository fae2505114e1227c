"""Checks of what a file holds of a learned density: guides, the graph, and the evidences of teams."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mcmc.state.pieces import Graph
from ..mcmc.state.records import GROWING, GUIDE, LINK, N_LINKS, N_PIECES, PIECE
from ..mcmc.state.stored import MOST_GUIDES
from ..model import TreeModel
from .require import array_of, between, require


def check_evidences(evidences: Any, n_teams: int) -> None:
    """Refuse evidences of teams that are none."""
    if evidences is not None:
        array_of(evidences, "f", (n_teams, 2), "the evidences")
        require(np.isfinite(evidences[:, 0]), "an evidence is not finite")
        require(~(evidences[:, 1] < 0.0), "the error of an evidence is negative")


def check_guides(cells: Any, model: TreeModel, is_guided: bool) -> None:
    """Refuse what the learned density cannot have said of cells."""
    m, p = len(cells.guided), len(model.scales)
    array_of(cells.guided, "i", (m,), "guides")
    require(is_guided or m == 0, "there are guides without a density")
    between(cells.guided, 0, min(cells.n_cells, MOST_GUIDES), "a guide")
    require(cells.guide.dtype == GUIDE and cells.guide.shape == (m,), "guides has another shape")
    array_of(cells.fractions, "f", (m, p), "fractions")
    array_of(cells.own, "f", (m, p), "own")
    require(~np.isnan(cells.own) & (cells.own < np.inf), "own is not finite")
    require((cells.fractions >= 0.0) & (cells.fractions <= 1.0 + 1e-9), "a fraction is no probability")
    between(cells.guide["asked"], 0, 2, "whether a guide was asked for its splits")
    has_splits = (cells.guide["asked"] == 1) & (cells.guide["log_split"] > -np.inf)
    require((cells.fractions.sum(axis=1) > 0.0) | ~has_splits, "a guide has no split")
    for name in ("weight", "log_learned"):
        require(cells.guide[name] < np.inf, f"{name} is not finite")
    require((cells.guide["weight"] > 0.0) | (cells.guide["asked"] == 0), "a guide has no weight")
    for name in ("log_split", "log_stop"):
        require(cells.guide[name] <= 1e-9, f"{name} is no probability")
    require(~np.isnan(cells.guide["odds"]), "odds is NaN")


def check_graph(graph: Any, model: TreeModel) -> None:
    """Refuse a graph in which compiled code would lose its way, or that draws with other probabilities than it says."""
    require(isinstance(graph, Graph), "a chain has no graph")
    array_of(graph.used, "i", (GROWING + 1,), "the graph")
    m, n = (int(graph.used[i]) for i in (N_PIECES, N_LINKS))
    require(graph.piece.dtype == PIECE and graph.piece.ndim == 1, "the pieces are none")
    require(graph.link.dtype == LINK and graph.link.ndim == 1, "the links are none")
    require(0 <= m <= len(graph.piece) and 0 <= n <= len(graph.link) and graph.used[GROWING] == 0, "the graph is none")
    slots = len(graph.slot)
    array_of(graph.slot, "i", (slots,), "slots")
    require(slots & (slots - 1) == 0 and slots > m, "the slots are too few")
    between(graph.slot, -1, max(m, 1), "a slot")
    require(np.unique(graph.slot[graph.slot >= 0]).size == m == (graph.slot >= 0).sum(), "a piece has no slot")
    piece, link = graph.piece[:m], graph.link[:n]
    between(piece.depth, 0, 1 << 30, "the depth of a piece")
    between(piece.first, -1, max(n, 1), "a link")
    require((link.next >= -1) & (link.next < np.arange(n)), "the links lead astray")
    between(link.feature, 0, len(model.scales), "the feature of a link")
    nominal = model.lowered.split_prior.feature.nominal[link.feature]
    require((link.categories >= 0) == nominal, "a link has a split that its feature cannot have")
    codes = model.n_codes[link.feature]
    require(nominal | ((link.cut >= -1) & (link.cut < codes) & (link.upper <= codes)), "the cut of a link")
    for side in (link.left, link.right):
        between(side, -1, max(m, 1), "a child")
    _check_chances(piece, link)


def _check_chances(piece: np.recarray, link: np.recarray) -> None:
    """Refuse pieces whose decisions have no probabilities, or such that do not add up."""
    owner, at, follows = np.full(len(link), -1), np.flatnonzero(piece.first >= 0), piece.first[piece.first >= 0]
    while len(at):
        require(owner[follows] == -1, "the links lead astray")
        owner[follows] = at
        follows = link.next[follows]
        at, follows = at[follows >= 0], follows[follows >= 0]
    require(owner >= 0, "a link has no piece")
    for name in ("weight", "g", "log_rule"):
        require(np.isfinite(link[name]), f"{name} of a link is not finite")
    require(~np.isnan(piece.stop) & ~np.isnan(piece.g_stop) & (piece.value < np.inf), "a number of a piece is none")
    known = piece.value > -np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        chance = np.exp(piece.stop - piece.value)
        chance += np.bincount(owner, np.exp(link.weight - piece.value[owner]), minlength=len(piece))
        by_density = np.exp(piece.g_stop) + np.bincount(owner, np.exp(link.g), minlength=len(piece))
    adds_up = np.abs(chance - np.minimum(by_density, 1.0)) < 1e-9
    require(adds_up | ~known, "the probabilities of a piece do not add up")
