"""The semirings in which the recursion is computed."""
