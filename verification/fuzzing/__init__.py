"""Random calls of the public names with hostile arguments, and saved posteriors with bytes and words changed."""
