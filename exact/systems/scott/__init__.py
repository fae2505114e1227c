"""Dyadic decision trees by penalised risk, Neyman-Pearson trees, prunings (Scott 2004)."""
