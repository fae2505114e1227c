"""The density of the default run: its terms, its fit, and the graph of sums over subtrees that corrects it.

The density g draws a tree from the root down. The *terms* of a cell and of a split are covariates. A *depth class*
has its own parameters. A *guide* is the stored probabilities of a cell by g. A *piece* is a cell at a depth, a *link*
one of its splits that some tree had, with the pieces of the two children, and V the estimate of the log sum of prior
times score over the subtrees of a piece. A *decision* is to stop at a cell, or to take one of its splits.
"""
