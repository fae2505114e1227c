"""Trees that minimise a bound on their risk by the length of their code (Mansour and McAllester 2000, Shah 2007)."""
