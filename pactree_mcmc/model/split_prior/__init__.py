"""Which splits a cell admits, and how likely each is."""
