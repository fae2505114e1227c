"""Near-optimal trees by bounds and depth-first search, without the sum over all trees."""
