"""Neyman-Pearson learning: dyadic trees with few misses at a false-alarm level (Scott 2004, chapter 3)."""
