"""Changes of a tree in place that moves are made of."""
