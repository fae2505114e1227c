"""Rates of the vote over subtrees (Nguyen and Kpotufe 2018, proposition 2 and corollary 1)."""
