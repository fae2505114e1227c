"""Sums over the splits of a cell, over subtrees one or two levels down, over the intervals of one feature."""
