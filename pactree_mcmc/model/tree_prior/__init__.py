"""Tree priors: the probability that a node splits."""
