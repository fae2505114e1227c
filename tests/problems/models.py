"""Problems as models of the library; mixtures over trees of the distributions in leaves."""

import warnings

import numpy as np

from pactree_mcmc.posterior.rows.predictions import _laws_at, law_of_new_y
from tests.problems.leaves import library_leaf
from tests.problems.priors import library_split_prior, library_tree_prior
from tests.problems.tables import table_in_some_form


def build_model(package, problem, rng=None, *, unit_weights=False):
    """The TreeModel of ``package`` (compiled or plain) for a naive ``problem``, with ``rng`` its table in some form."""
    columns = [np.array([row[k] for row in problem.X], dtype=object) for k in range(problem.n_features)]
    table, nominal = np.stack(columns, axis=1), sorted(problem.nominal)
    if rng is not None:
        table, nominal = table_in_some_form(problem, rng)
    is_weighted = unit_weights or set(problem.weights) != {1.0}
    with np.errstate(over="ignore"), warnings.catch_warnings():
        # hashing rows wraps around, which plain NumPy scalars report
        warnings.filterwarnings("ignore", ".*every split of the root weighs 0")
        return package.TreeModel(
            table,
            problem.y if rng is None else np.array(problem.y),
            tree_prior=library_tree_prior(package, problem.tree_prior),
            split_prior=library_split_prior(package, problem),
            leaf=library_leaf(package, problem.leaf),
            nominal=nominal,
            missing="branch" if any(None in row for row in problem.X) else "error",
            sample_weight=np.array(problem.weights) if is_weighted else None,
            estimation=None if problem.estimation is None else np.array(problem.estimation, dtype=bool),
        )


def cdf(post, X, y):
    """Return the probability (n,) that a new y at each row of numbers X is at most ``y`` (n,)."""
    rows, out = post._rows, np.empty(len(y))
    law = law_of_new_y(rows)
    for block, mix in rows.reach(X):
        has_regressors = rows.model.leaf.x_columns is not None
        laws = _laws_at(rows, law, X[block], mix) if has_regressors else law.take(mix.place)
        out[block] = mix.mean(laws.below(mix.by_distribution(y[block])))
    return out
