"""Progressive mixtures, the global splitting prior and local rules (Blanchard 1999, 2004)."""
