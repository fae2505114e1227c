"""The space of trees: cells and splits by number, how often they occur, how far trees lie apart."""
