"""Leaf models: the score of a cell and what it predicts, plain and compiled."""
