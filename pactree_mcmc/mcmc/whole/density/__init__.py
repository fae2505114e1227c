"""The learned density of trees: what it looks at, its fit, the graph of visited pieces, the evidence by it."""
