"""Dyadic decision trees by penalised risk (Scott 2004, chapter 2)."""
