"""Hand-computed checks of the naive enumerator."""

import math
from itertools import accumulate

import pytest

from tests.reference.enumeration import LEAF, Problem, Reference, enumerate_trees, leaf_of

DIRICHLET = {"kind": "dirichlet", "alpha": 1.0}
NO_SCORE = {"kind": "loss", "lambda1": 0.0, "lambda2": 0.0}
LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1, "weights": None}
TRIVIAL = {"kind": "local", "trivial": True, "min_leaf": 1, "weights": None}
COUNT = {"kind": "penalty", "cost": 0.0, "max_depth": None}
MIXED = {"X": [(0.0, "a"), (1.0, "b"), (1.0, "c"), (3.0, "a")], "y": [0, 1, 1, 0], "nominal": {1}}
STOPPED = {"kind": "stopped", "rho": [0.6, 0.3], "max_depth": 2}
CHIPMAN = {"kind": "chipman", "alpha": 0.95, "beta": 1.0, "max_depth": None}
GRID = {"kind": "grid", "cuts": [[0.5, 2.0], None], "weights": [1.0, 3.0]}


def split(k, rule, left=LEAF, right=LEAF):
    return ("split", k, rule, left, right)


def line(n):
    """N rows with distinct values of one ordered feature."""
    return {"X": [(float(i),) for i in range(n)], "y": [i % 2 for i in range(n)]}


def prior_mass(**parts):
    return math.fsum(math.exp(log_prior) for _, log_prior, _ in enumerate_trees(Problem(**parts)))


def test_single_leaf():
    """Two rows of each class, no depth allowed: 2! 2! / 5!."""
    prior = {"kind": "stopped", "rho": 0.3, "max_depth": 0}
    reference = Reference(Problem(**line(4), tree_prior=prior, split_prior=LOCAL, leaf=DIRICHLET))
    assert reference.n_trees == 1 and reference.log_evidence == pytest.approx(math.log(4 / 120))
    assert reference.best_log_joint == pytest.approx(math.log(4 / 120))
    assert reference.predict((0.0,)) == pytest.approx([0.5, 0.5])


def test_two_rows_one_binary_feature():
    """Leaf: 1/6; split: (1/2)^2. With rho = 1/4, evidence 3/4 * 1/6 + 1/4 * 1/4 = 3/16."""
    prior = {"kind": "stopped", "rho": 0.25, "max_depth": 3}
    problem = Problem(X=[(0.0,), (1.0,)], y=[0, 1], tree_prior=prior, split_prior=LOCAL, leaf=DIRICHLET)
    reference = Reference(problem)
    assert math.exp(reference.log_evidence) == pytest.approx(3 / 16)
    assert reference.root() == pytest.approx({None: 2 / 3, (0, 0.5): 1 / 3})
    assert reference.n_leaves() == pytest.approx({1: 2 / 3, 2: 1 / 3})
    assert reference.depth() == pytest.approx({0: 2 / 3, 1: 1 / 3}) and reference.inclusion() == pytest.approx([1 / 3])
    assert reference.predict((0.0,)) == pytest.approx([2 / 3 * 1 / 2 + 1 / 3 * 2 / 3, 2 / 3 / 2 + 1 / 9])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_number_of_trees_in_one_dimension(n):
    """T(n) = 1 + sum_i T(i) T(n - i), so 1, 2, 5, 15, 51, 188; all distinct."""
    total = {}
    for m in range(1, n + 1):
        total[m] = 1 + sum(total[i] * total[m - i] for i in range(1, m))
    trees = enumerate_trees(Problem(**line(n), tree_prior=COUNT, split_prior=LOCAL, leaf=NO_SCORE))
    assert len(trees) == len({tree for tree, _, _ in trees}) == total[n] == [1, 2, 5, 15, 51, 188][n - 1]


@pytest.mark.parametrize("prior", [STOPPED, CHIPMAN])
@pytest.mark.parametrize("split_prior", [LOCAL, {**LOCAL, "min_leaf": 2, "weights": [2.0, 1.0]}, GRID])
def test_proper_priors_sum_to_one(prior, split_prior):
    assert prior_mass(**MIXED, tree_prior=prior, split_prior=split_prior, leaf=NO_SCORE) == pytest.approx(1)


def test_routing_of_new_categories():
    """Absent and unseen categories follow the majority of the rows, ties go left."""
    X = [(0.0, "a"), (1.0, "b"), (1.0, "b"), (1.0, "d"), (5.0, "c")]
    data = {"X": X, "y": [0, 0, 0, 1, 1], "nominal": {1}, "tree_prior": {**COUNT, "max_depth": 2}}
    local = Problem(**data, split_prior=LOCAL, leaf=DIRICHLET)
    tree = split(0, 3.0, split(1, frozenset("a")))
    assert leaf_of(local, tree, (0.0, "a")).rows == [0] and leaf_of(local, tree, (0.0, "d")).rows == [1, 2, 3]
    assert leaf_of(local, tree, (0.0, "c")).rows == [1, 2, 3] and leaf_of(local, tree, (9.0, "z")).rows == [4]
    tied = split(0, 0.5, LEAF, split(1, frozenset("b")))
    assert leaf_of(local, tied, (1.0, "z")).rows == [1, 2]
    grid = Problem(**data, split_prior={"kind": "grid", "cuts": [[3.0], None]}, leaf=DIRICHLET)
    majority_left = split(0, 3.0, split(1, frozenset("abd")))
    assert leaf_of(grid, majority_left, (0.0, "c")).rows == []
    assert leaf_of(grid, majority_left, (0.0, "z")).rows == [0, 1, 2, 3]
    trivial = Problem(**data, split_prior=TRIVIAL, leaf=DIRICHLET)
    assert leaf_of(trivial, split(1, frozenset()), (0.0, "c")).rows == [0, 1, 2, 3, 4]
    assert leaf_of(trivial, split(0, 3.0, split(1, frozenset("abcd"))), (0.0, "z")).rows == [0, 1, 2, 3]


def test_evidence_by_recursion_over_intervals():
    """On a line the evidence is a recursion over intervals of rows, whatever the trees."""
    n, rho = 6, 0.3
    y = [0.1, -0.4, 1.9, 2.2, 2.0, -1.0]
    leaf = {"kind": "known", "sigma2": 0.5, "m0": 0.2, "k0": 0.3}
    sums = [0.0, *accumulate(y)]
    squares = [0.0, *accumulate(v * v for v in y)]

    def evidence(lo, hi):
        m, total = hi - lo, sums[hi] - sums[lo]
        k = 0.3 + m
        fit = squares[hi] - squares[lo] + 0.3 * 0.2**2 - (total + 0.3 * 0.2) ** 2 / k
        alone = math.exp(-fit) * math.pi ** (-m / 2) * math.sqrt(0.3 / k)
        if m == 1:
            return alone
        cuts = [evidence(lo, mid) * evidence(mid, hi) for mid in range(lo + 1, hi)]
        return (1 - rho) * alone + rho * sum(cuts) / (m - 1)

    prior = {"kind": "stopped", "rho": rho, "max_depth": None}
    reference = Reference(Problem(X=line(n)["X"], y=y, tree_prior=prior, split_prior=LOCAL, leaf=leaf))
    assert reference.log_evidence == pytest.approx(math.log(evidence(0, n)))
    assert math.fsum(p for _, p in reference.posterior()) == pytest.approx(1)
    assert sum(reference.root().values()) == pytest.approx(1)
