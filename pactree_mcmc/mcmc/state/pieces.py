"""Arrays of the graph of visited cells."""

from typing import NamedTuple

import numpy as np

from ...files.encoding import kept
from .records import LINK, NONE, PIECE


@kept
class Graph(NamedTuple):
    """Pieces, which are cells at a depth, and their links, which are splits."""

    slot: np.ndarray
    """(a power of two,) int32: pieces by hash, -1 in free slots. At least one slot is free."""
    piece: np.recarray
    """(m,) records of dtype PIECE."""
    link: np.recarray
    """(l,) records of dtype LINK."""
    used: np.ndarray
    """(3,) int64: N_PIECES, N_LINKS, GROWING."""


def new_graph(n_pieces: int = 1, n_links: int = 1) -> Graph:
    """Return an empty graph with room for these numbers of pieces and links."""
    return Graph(
        np.full(1 << int(np.ceil(np.log2(2 * n_pieces))), NONE, dtype=np.int32),
        np.zeros(n_pieces, dtype=PIECE).view(np.recarray),
        np.zeros(n_links, dtype=LINK).view(np.recarray),
        np.zeros(3, dtype=np.int64),
    )
