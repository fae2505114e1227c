"""Sums over the splits of a cell, over subtrees one or two levels down, over the intervals of one feature.

A *bin* is the sum of the rows of a cell with one code of a feature. W is the prior mean of exp(beta gain) over the
splits of a cell, with the *gain* of a split in log score; splits are *alike* if they separate the rows alike. On a
*line*, a cell with one admissible ordered feature, a *run* is a range i..j of its codes, a *level* the depth below
the top of the line, Z the sum over all subtrees on a run of prior times tempered likelihood, M the largest Z of a run
over the levels.
"""
