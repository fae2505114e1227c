"""Changes of a tree in place that moves are made of.

A *raw form* of a split is one of the thresholds or sets of categories that divide a cell alike. A *plan* is a subtree
that is to be built, in records, parents before children. A *merge* of two subtrees is a tree on the union of their
cells that the split between the cells cuts into the two.
"""
