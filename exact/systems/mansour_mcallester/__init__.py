"""Trees chosen by a compositional bound on their risk (Mansour and McAllester 2000)."""
