"""The most probable trees, found by bounds and depth-first search without the sum over all trees."""
