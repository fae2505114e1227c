"""State of a chain as arrays, and functions that moves call for its splits, codes, lists and terms.

A *unit* is a merged row, a *code* the index of a value among the sorted values, bins or categories of its feature.
Every node owns a contiguous range of units. *Stored* values of a cell are found by its hash; they are valid for every
tree. *R* is the prior probability of a split among those of its cell, its *mass* on a feature the sum of the weights
of the feature's splits. A *line* is a cell with one admissible ordered feature. A *piece* is a cell at a depth in the
graph of visited cells, and a *link* one of its splits that some tree had. *Scratch* arrays are filled and read by one
function.
"""
