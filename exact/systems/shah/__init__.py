"""Trees grown while a bound on their risk falls (Shah 2007)."""
