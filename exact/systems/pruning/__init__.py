"""Prunings of a tree, and penalties by the number of leaves (Scott 2004, chapter 4)."""
