"""The graph of the pieces that trees met, as arrays."""

from typing import NamedTuple

import numpy as np

from ...files.encoding import kept
from .records import LINK, NONE, PIECE


@kept
class Graph(NamedTuple):
    """Pieces that trees met, and their links."""

    slot: np.ndarray
    """(a power of two,) int32: pieces by hash, -1 in free slots, of which there is one at least."""
    piece: np.recarray
    """(m,) records of dtype PIECE."""
    link: np.recarray
    """(l,) records of dtype LINK."""
    used: np.ndarray
    """(3,) int64: N_PIECES, N_LINKS, GROWING."""


def new_graph(n_pieces: int = 1, n_links: int = 1) -> Graph:
    """An empty graph with so much room."""
    return Graph(
        np.full(1 << int(np.ceil(np.log2(2 * n_pieces))), NONE, dtype=np.int32),
        np.zeros(n_pieces, dtype=PIECE).view(np.recarray),
        np.zeros(n_links, dtype=LINK).view(np.recarray),
        np.zeros(3, dtype=np.int64),
    )
