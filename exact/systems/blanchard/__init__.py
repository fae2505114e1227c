"""Progressive mixtures and global splitting (Blanchard 1999, 2004)."""
