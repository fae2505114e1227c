"""Recursions on the graph of cells: sums over trees from the leaves up and from the root down, and draws of trees.

A *semiring* defines the sum and the product of a recursion and holds an array with a value for each *slot*, a cell at
a depth. *Inside* values are sums over the trees below a slot, *occurrences* expected numbers of a slot or split in a
tree of the posterior. A *root fragment* is a subtree with the root of the tree. A *hull* is the upper concave hull of
points (leaves, weight).
"""
