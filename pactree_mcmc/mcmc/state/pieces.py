"""Arrays of the graph of visited cells."""

from typing import Annotated, NamedTuple

import numpy as np

from ...files.encoding import kept
from .records import LINK, NONE, PIECE, new_group


@kept
class Graph(NamedTuple):
    """Pieces, which are cells at a depth, and their links, which are splits."""

    slot: Annotated[np.ndarray, np.int32, "slots"]
    """Pieces by hash, -1 in free slots. The number of slots is a power of two, and at least one slot is free."""
    piece: Annotated[np.recarray, PIECE, "pieces"]
    """Pieces, and room for more."""
    link: Annotated[np.recarray, LINK, "links"]
    """Links, and room for more."""
    used: Annotated[np.ndarray, np.int64, 3]
    """N_PIECES, N_LINKS, GROWING."""


def graph_sizes(n_pieces: int = 1, n_links: int = 1) -> dict[str, int]:
    """Return the sizes of a graph with room for these numbers of pieces and links."""
    return {"slots": 1 << int(np.ceil(np.log2(2 * n_pieces))), "pieces": n_pieces, "links": n_links}


def new_graph(n_pieces: int = 1, n_links: int = 1) -> Graph:
    """Return an empty graph with room for these numbers of pieces and links."""
    graph = new_group(Graph, graph_sizes(n_pieces, n_links))
    graph.slot[:] = NONE
    return graph
