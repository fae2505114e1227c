"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995)."""
