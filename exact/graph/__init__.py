"""The graph of cells (the nodes that trees can have) and its builders, one for each kind of split."""
