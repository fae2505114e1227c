"""Utilities that are independent of trees: checks, bits, special functions, compilation."""
