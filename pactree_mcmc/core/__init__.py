"""What knows nothing of trees: checks, bits, special functions, compilation."""
