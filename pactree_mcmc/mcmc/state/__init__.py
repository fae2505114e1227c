"""The state of a chain as flat arrays, and what a proposal asks of it."""
