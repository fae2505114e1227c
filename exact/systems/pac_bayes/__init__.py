"""Weighted votes of the subtrees of a fixed tree (Nguyen and Kpotufe 2018)."""
