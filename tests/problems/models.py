"""Problems as models of the library."""

import warnings

import numpy as np

from tests.problems.leaves import library_leaf
from tests.problems.split_priors import library_split_prior
from tests.problems.tables import table_in_some_form
from tests.problems.tree_priors import library_tree_prior


def build_model(package, problem, rng=None, *, unit_weights=False):
    """The TreeModel of ``package`` (compiled or plain) that says what the naive ``problem`` says.

    The table is an array of objects, or with ``rng`` in one of the forms the library reads. Weights that are all 1 are
    passed when ``unit_weights``.
    """
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
