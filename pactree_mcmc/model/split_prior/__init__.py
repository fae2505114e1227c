"""Split priors: the splits that a cell admits, and the probability of each."""
