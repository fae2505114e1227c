"""PAC-Bayes weights over the subtrees of a fixed tree (Mansour and McAllester 2000)."""
