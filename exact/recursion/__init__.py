"""The recursion: sums over trees from the leaves up and from the root down, and draws of trees."""
