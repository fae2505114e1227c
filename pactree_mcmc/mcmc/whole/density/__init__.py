"""The density of the default run: its terms, its fit, and the graph of sums over subtrees that corrects it."""
