"""The graph of cells and its builders, one for each kind of split.

A *cell* is what a node of a tree can have: a set of training rows (local cuts), a box (grids, dyadic cuts) or a node
of a fixed tree. A *point* is a distinct training row. An *edge* is one split of one cell, and R its prior probability
among those of the cell. A *slot* is a cell at a depth; a graph is *layered* if the prior depends on depth, so that a
cell has a slot for each of its depths, otherwise it has one. A *coordinate* is one ordering of a feature: a feature
with missing values has two, called *twins*, one with the missing values first and one with the missing values last. A
*box* holds the range of codes, or the set of categories, that the splits on the path to a cell leave of each
coordinate. A *unit* is a merged training row. Functions that return a new number or a new child write into the
scratch arrays of the builder.
"""
