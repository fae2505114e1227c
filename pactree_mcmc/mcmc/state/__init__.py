"""State of a chain as arrays, and functions that moves call for its splits, codes, lists and terms."""
