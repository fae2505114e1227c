"""Posteriors over trees: what an engine knows of one (`distribution`), and every answer as one function of it.

A *place* is where a row ends: a node of a drawn tree, numbered over all distinct trees, or a cell of the exact
engine. A *cell* is the set of training rows of a node, a *split* its partition in two; the *key* of a cell is a hash
of its rows, equal in all posteriors of a model. Trees have one *shape* if they split on the same features at the same
places. A *unit*, or merged row, is a group of equal training rows. X in private functions are rows of numbers, (n,
p), as ``model.columns.numbers`` returns them. `Posterior` binds the answers, `SampledPosterior` those that need
chains.
"""
