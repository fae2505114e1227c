"""Recursions on the graph of cells: sums over trees from the leaves up and from the root down, and draws of trees."""
