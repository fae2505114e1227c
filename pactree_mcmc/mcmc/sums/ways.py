"""Number of a node's split among the splits of a cell."""

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import halves_box, parts_box
from ..edits.carry_over import cell_bits
from ..state.scratch import FEW_CATEGORIES
from ..state.splits import span
from ..state.tree import ChainState
from .split_sums import prefix_of


@jit
def way_of(model: Lowered, state: ChainState, node: int, internal: int, k: int, n: int) -> tuple[int, int]:
    """Return the number of the split of ``internal`` among those of feature ``k``, whose bins are filled.

    Return its number among splits that separate the rows alike as well. The first number is -3 if a scan does not try
    the split.
    """
    rule, here, code_of = model.split_prior, state.node[internal], state.scratch.codes.distinct
    first = np.int64(0)
    if here.categories >= 0:
        present = cell_bits(model, state, node, k)
        left = here.categories & present
        if left == 0 or left == present:
            return np.int64(-1 if left == present else -2), first
        if n > FEW_CATEGORIES:
            return prefix_of(model, state, n, left, present), first
        pattern = np.int64(0)
        for j in range(n):
            if (left >> code_of[j]) & 1:
                pattern |= np.int64(1) << j
        if not pattern & 1:
            pattern = ((np.int64(1) << n) - 1) & ~pattern
        return (pattern - 1) >> 1, first
    if halves_box(rule):
        return first, first
    below = np.int64(0)
    while below < n and code_of[below] <= here.cut:
        below += 1
    way = below - 1
    start = code_of[way] if below > 0 else first
    if below == 0 and (n > 0 or parts_box(rule)):
        way = np.int64(-2)
        if parts_box(rule):
            start = span(model, state, node, k)[0]
    elif below == n:
        way = np.int64(-1)
    return way, (here.cut - start if parts_box(rule) else first)
