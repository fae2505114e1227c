"""Leaf models: scores of cells and predictions, in plain and in compiled code."""
