"""Risk certificates: upper bounds on true error rates, each with the terms of its formula.

Of a posterior: ``post.certificate`` and ``post.holdout_certificate``.
PAC-Bayes: pac_bayes_kl, pac_bayes_lambda, optimal_lambda; for the vote vote_factor_two, vote_tandem.
One tree on its rows, with the tree that is bounded: compression_tree_bound, occam_tree_bound (Shah).
One tree: naive_occam, root_fragment, compute_R, tree_bits (Mansour and McAllester); compression, compression_tail,
occam_discrete, occam_continuous, dyadic_length (Shah); dyadic_tree_bound, dyadic_penalty, dyadic_bits (Scott).
Held-out rows: holdout, holdout_gibbs.
Inverses: binary_kl, kl_inverse, binomial_tail_inversion.
"""

from .bound import (
    binary_kl,
    binomial_tail_inversion,
    holdout,
    holdout_gibbs,
    kl_inverse,
    optimal_lambda,
    pac_bayes_kl,
    pac_bayes_lambda,
    vote_factor_two,
    vote_tandem,
)
from .compression_bounds import (
    compression,
    compression_tail,
    compression_tree_bound,
    dyadic_length,
    occam_continuous,
    occam_discrete,
    occam_tree_bound,
)
from .occam_bounds import (
    compute_R,
    dyadic_bits,
    dyadic_penalty,
    dyadic_tree_bound,
    naive_occam,
    root_fragment,
    tree_bits,
)

__all__ = [
    "binary_kl", "binomial_tail_inversion", "compression", "compression_tail", "compression_tree_bound", "compute_R",
    "dyadic_bits", "dyadic_length", "dyadic_penalty", "dyadic_tree_bound", "holdout", "holdout_gibbs", "kl_inverse",
    "naive_occam", "occam_continuous", "occam_discrete", "occam_tree_bound", "optimal_lambda", "pac_bayes_kl",
    "pac_bayes_lambda", "root_fragment", "tree_bits", "vote_factor_two", "vote_tandem",
]  # fmt: skip
