"""Records of a run: what was asked, what tuning measured, and where in the run its draws are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...files.calls import Call
from ...files.encoding import register_class
from ...model import TreeModel
from ..kernel import Kernel
from ..state.records import Graph

DEFAULT_WORK = 1e10
"""Default number of rows that an adaptive run visits, in all chains (see `split_sums.ROWS_PER_CODE`)."""
MAX_RELATIVE_LENGTH = 8
"""Largest length of an adaptive run, about, in multiples of its first draws."""
MAX_TEAMS = 2
"""Largest number of teams of chains, which tune without exchanging anything."""


@register_class
class Request(NamedTuple):
    """Arguments of a run, after they were checked."""

    model: TreeModel | None  # model, None in files, which contain it once
    draws: int  # number of draws of each chain
    tune: int  # number of tuning steps
    thin: int  # number of steps from one draw to the next, at first
    kernel: Kernel  # kernel before tuning
    starts: tuple[Any, ...]  # start of each chain: a name, a `Dispersed` or a Tree
    betas: int | tuple[float, ...] | None = None  # argument ``betas`` of `sample`
    is_adaptive: bool = False  # True if the run continues until its draws satisfy the criterion
    steps: int = 0  # largest number of steps of a chain after tuning in an adaptive run, 0 if it follows from ``work``
    seconds: float | None = None  # wall time after which the run ends, or None for no limit
    work: float = DEFAULT_WORK  # number of rows that all chains of an adaptive run may visit, about
    calls: tuple[Call, ...] = ()  # calls of `sample` and `resume` that asked for the draws of the run, for the record

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.starts)

    @property
    def n_teams(self) -> int:
        """Number of teams that fit a density in tuning, 0 if none is fitted."""
        return min(MAX_TEAMS, self.n_chains) if self.kernel.is_guided and self.betas is None else 0


@register_class
class Tuned(NamedTuple):
    """Results of tuning, which all chains share."""

    kernel: Kernel  # kernel with the weights and the block that tuning has set
    tune: int = -1  # number of tuning steps made, -1 before the end of tuning
    steps: int = 0  # largest number of steps of a chain after tuning
    # parameters (teams, rows, terms) of the density of each team (`ChainState.density`), or None without teams
    density: np.ndarray | None = None
    graphs: tuple[Graph, ...] = ()  # graph of visited cells of each team


@register_class
class Stretch(NamedTuple):
    """Series of draws that are judged together. A new stretch drops the draws before it."""

    number: int  # number of the stretch from 0, not counting stretches that confirm another one
    confirms: bool  # True while a second half is made, which is to confirm the first, as that satisfied the criterion
    before: int  # number of steps of a chain between tuning and the stretch
    thin: int  # number of steps from one draw to the next
    goal: int  # number of draws at which the stretch is judged next
    limit: int = 0  # largest number of steps of a chain after tuning, 0 for `Tuned.steps`
