"""The graph of cells: what it is, and its builders, one for each kind of split."""
