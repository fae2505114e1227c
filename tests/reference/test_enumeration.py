"""Hand-computed checks of the naive enumerator."""

import math
from itertools import accumulate

import pytest
from scipy import stats

from tests.reference.enumeration import LEAF, Cell, Problem, Reference, enumerate_trees, leaf_of, root_cell
from tests.reference.leaf_scores import score

INF = math.inf
DIRICHLET = {"kind": "dirichlet", "alpha": 1.0}
NO_SCORE = {"kind": "loss", "lambda1": 0.0, "lambda2": 0.0}
LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1, "weights": None}
TRIVIAL = {"kind": "local", "trivial": True, "min_leaf": 1, "weights": None}
COUNT = {"kind": "penalty", "cost": 0.0, "max_depth": None}


def split(k, rule, left=LEAF, right=LEAF):
    return ("split", k, rule, left, right)


def line(n):
    """N rows with distinct values of one ordered feature."""
    return {"X": [(float(i),) for i in range(n)], "y": [i % 2 for i in range(n)]}


def prior_mass(**parts):
    return math.fsum(math.exp(log_prior) for _, log_prior, _ in enumerate_trees(Problem(**parts)))


def prior_of(**parts):
    return {tree: math.exp(log_prior) for tree, log_prior, _ in enumerate_trees(Problem(**parts))}


def test_single_leaf():
    """Two rows of each class, no depth allowed: 2! 2! / 5!."""
    prior = {"kind": "stopped", "rho": 0.3, "max_depth": 0}
    reference = Reference(Problem(**line(4), tree_prior=prior, split_prior=LOCAL, leaf=DIRICHLET))
    assert reference.n_trees == 1
    assert reference.log_evidence == pytest.approx(math.log(4 / 120))
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
    assert reference.depth() == pytest.approx({0: 2 / 3, 1: 1 / 3})
    assert reference.inclusion() == pytest.approx([1 / 3])
    assert reference.predict((0.0,)) == pytest.approx([2 / 3 * 1 / 2 + 1 / 3 * 2 / 3, 2 / 3 / 2 + 1 / 9])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_number_of_trees_in_one_dimension(n):
    """T(n) = 1 + sum_i T(i) T(n - i), so 1, 2, 5, 15, 51, 188; all distinct."""
    total = {}
    for m in range(1, n + 1):
        total[m] = 1 + sum(total[i] * total[m - i] for i in range(1, m))
    trees = enumerate_trees(Problem(**line(n), tree_prior=COUNT, split_prior=LOCAL, leaf=NO_SCORE))
    assert len(trees) == len({tree for tree, _, _ in trees}) == total[n] == [1, 2, 5, 15, 51, 188][n - 1]


MIXED = {"X": [(0.0, "a"), (1.0, "b"), (1.0, "c"), (3.0, "a")], "y": [0, 1, 1, 0], "nominal": {1}}
STOPPED = {"kind": "stopped", "rho": [0.6, 0.3], "max_depth": 2}
CHIPMAN = {"kind": "chipman", "alpha": 0.95, "beta": 1.0, "max_depth": None}
GRID = {"kind": "grid", "cuts": [[0.5, 2.0], None], "weights": [1.0, 3.0]}


@pytest.mark.parametrize("prior", [STOPPED, CHIPMAN])
@pytest.mark.parametrize("split_prior", [LOCAL, {**LOCAL, "min_leaf": 2, "weights": [2.0, 1.0]}, GRID])
def test_proper_priors_sum_to_one(prior, split_prior):
    assert prior_mass(**MIXED, tree_prior=prior, split_prior=split_prior, leaf=NO_SCORE) == pytest.approx(1)


@pytest.mark.parametrize("prior", [STOPPED, {**CHIPMAN, "max_depth": 2}])
@pytest.mark.parametrize("cyclic", [False, True])
def test_proper_priors_sum_to_one_on_dyadic_cells(prior, cyclic):
    rows = {"X": [(0.1, 0.9), (0.6, 0.2)], "y": [0, 1]}
    dyadic = {"kind": "dyadic", "levels": 2, "cyclic": cyclic, "bounds": [(0.0, 1.0)] * 2}
    assert prior_mass(**rows, tree_prior=prior, split_prior=dyadic, leaf=NO_SCORE) == pytest.approx(1)


def test_conditioned_prior():
    """It sums to one when splits never run out, and to less when they do."""
    prior = {"kind": "conditioned", "rho": [0.5, 0.4, 0.2], "max_depth": 2}
    assert prior_mass(**MIXED, tree_prior=prior, split_prior=TRIVIAL, leaf=NO_SCORE) == pytest.approx(1)
    assert prior_mass(**MIXED, tree_prior=prior, split_prior=LOCAL, leaf=NO_SCORE) < 0.999
    z = 0.5 + 0.5 * (0.6 + 0.4 * 0.8**2) ** 2
    assert prior_of(**line(1), tree_prior=prior, split_prior=LOCAL, leaf=NO_SCORE) == pytest.approx({LEAF: 0.5 / z})


def test_fixed_design_with_rho_by_node():
    """Three prunings of a tree with the internal nodes 0 and 2 and the leaves 1, 3, 4."""
    full = split(0, 0.5, LEAF, split(0, 1.5))
    rho = [0.5, 0.1, 0.4, 0.2, 0.3]
    parts = {**line(3), "split_prior": {"kind": "fixed", "tree": full}, "leaf": NO_SCORE}
    stopped = prior_of(**parts, tree_prior={"kind": "stopped", "rho": rho, "max_depth": None})
    assert stopped == pytest.approx({LEAF: 0.5, split(0, 0.5): 0.5 * 0.6, full: 0.5 * 0.4})
    weights = {LEAF: 0.5, split(0, 0.5): 0.5 * 0.9 * 0.6, full: 0.5 * 0.9 * 0.4 * 0.8 * 0.7}
    z = sum(weights.values())
    conditioned = prior_of(**parts, tree_prior={"kind": "conditioned", "rho": rho, "max_depth": 5})
    assert conditioned == pytest.approx({tree: weights[tree] / z for tree in weights})


def test_penalty_with_empty_cells():
    """The cut 5 leaves the right cell without rows."""
    parts = {**line(2), "split_prior": {"kind": "grid", "cuts": [[0.5, 5.0]]}, "leaf": NO_SCORE}
    prior = prior_of(**parts, tree_prior={"kind": "penalty", "cost": 1.0, "empty_cost": 0.0, "max_depth": 1})
    expected = {LEAF: math.exp(-1), split(0, 0.5): math.exp(-2) / 2, split(0, 5.0): math.exp(-1) / 2}
    assert prior == pytest.approx(expected)


def test_local_splits():
    """Feature 0 has two cuts, feature 1 three partitions; min_leaf 2 leaves one of either."""
    prior = {**COUNT, "max_depth": 1}
    stumps = prior_of(**MIXED, tree_prior=prior, split_prior=LOCAL, leaf=NO_SCORE)
    ordered = {split(0, 0.5): 1 / 4, split(0, 2.0): 1 / 4}
    nominal = {split(1, frozenset(left)): 1 / 6 for left in ("a", "ab", "ac")}
    assert stumps == pytest.approx({LEAF: 1, **ordered, **nominal})
    weighted = {**LOCAL, "min_leaf": 2, "weights": [1.0, 3.0]}
    stumps = prior_of(**MIXED, tree_prior=prior, split_prior=weighted, leaf=NO_SCORE)
    assert stumps == pytest.approx({LEAF: 1, split(1, frozenset("a")): 1})


def test_trivial_splits():
    """I + 1 ways of an ordered feature, all partitions and two more of a nominal one; one in an empty cell."""
    prior = {**COUNT, "max_depth": 1}
    stumps = prior_of(**MIXED, tree_prior=prior, split_prior=TRIVIAL, leaf=NO_SCORE)
    ordered = {split(0, cut): 1 / 8 for cut in (-INF, 0.5, 2.0, INF)}
    nominal = {split(1, frozenset(left)): 1 / 10 for left in ("", "a", "ab", "ac", "abc")}
    assert stumps == pytest.approx({LEAF: 1, **ordered, **nominal})
    deeper = prior_of(**line(1), tree_prior={**COUNT, "max_depth": 2}, split_prior=TRIVIAL, leaf=NO_SCORE)
    assert deeper[split(0, -INF, split(0, INF), split(0, -INF))] == pytest.approx(1 / 2 * 1 * 1 / 2)
    assert len(deeper) == 1 + 2 * (1 + 2) * (1 + 1)


def test_grid_and_dyadic_counts():
    """G cuts on a line give the trees of G + 1 distinct values; dyadic cells are counted by hand."""
    grid = {"kind": "grid", "cuts": [[0.2, 0.4, 0.6]]}
    assert len(enumerate_trees(Problem(**line(1), tree_prior=COUNT, split_prior=grid, leaf=NO_SCORE))) == 15
    dyadic = {"kind": "dyadic", "levels": 2, "cyclic": False, "bounds": [(0.0, 1.0)] * 2}
    parts = {"X": [(0.1, 0.9)], "y": [0], "split_prior": dyadic, "leaf": NO_SCORE}
    assert len(enumerate_trees(Problem(**parts, tree_prior={**COUNT, "max_depth": 2}))) == 1 + 2 * 3**2
    dyadic["levels"] = 1
    assert len(enumerate_trees(Problem(**parts, tree_prior=COUNT))) == 1 + 2 * 2**2
    dyadic.update(levels=2, cyclic=True)
    cyclic = prior_of(**parts, tree_prior={**COUNT, "max_depth": 2})
    assert split(0, 0.5, split(1, 0.5)) in cyclic and len(cyclic) == 1 + 2**2


def one_leaf_score(**parts):
    problem = Problem(tree_prior={**COUNT, "max_depth": 0}, split_prior=LOCAL, **parts)
    return score(problem, root_cell(problem))


def test_regression_scores_are_products_of_predictives():
    """Chain rule: Student t, normal and negative binomial predictives of one row after another."""
    m0, k0, a0, b0 = 0.3, 0.7, 2.0, 1.5
    y, exposures, counts_ = [1.0, -0.5, 2.2], [1.0, 2.5, 0.5], [2, 0, 3]
    rows = [(0.0,)] * 3
    student = normal = binomial = 0.0
    m, k, a, b = m0, k0, a0, b0
    for value in y:
        student += stats.t.logpdf(value, 2 * a, m, math.sqrt(b * (k + 1) / (a * k)))
        normal += stats.norm.logpdf(value, m, math.sqrt(0.8 * (k + 1) / k))
        m, k, a, b = (k * m + value) / (k + 1), k + 1, a + 0.5, b + k * (value - m) ** 2 / (2 * (k + 1))
    shape, rate = 1.3, 0.6
    for count, e in zip(counts_, exposures):
        binomial += stats.nbinom.logpmf(count, shape, rate / (rate + e))
        shape, rate = shape + count, rate + e
    nig = {"kind": "nig", "m0": m0, "k0": k0, "a0": a0, "b0": b0}
    known = {"kind": "known", "sigma2": 0.8, "m0": m0, "k0": k0}
    poisson = {"kind": "poisson", "shape": 1.3, "rate": 0.6, "exposure": exposures}
    assert one_leaf_score(X=rows, y=y, leaf=nig) == pytest.approx(student)
    assert one_leaf_score(X=rows, y=y, leaf=known) == pytest.approx(normal)
    assert one_leaf_score(X=rows, y=counts_, leaf=poisson) == pytest.approx(binomial)
    problem = Problem(X=rows, y=y, leaf=nig, tree_prior={**COUNT, "max_depth": 0}, split_prior=LOCAL)
    assert Reference(problem).predict((0.0,)) == pytest.approx([m])
    problem = Problem(X=rows, y=counts_, leaf=poisson, tree_prior={**COUNT, "max_depth": 0}, split_prior=LOCAL)
    assert Reference(problem).predict((0.0,)) == pytest.approx([shape / rate])


@pytest.mark.parametrize(
    "leaf",
    [
        DIRICHLET,
        {"kind": "laplace", "pseudocount": 1.0},
        {"kind": "nig", "m0": 0.0, "k0": 1.0, "a0": 1.0, "b0": 1.0},
        {"kind": "known", "sigma2": 2.0, "m0": 0.0, "k0": 1.0},
        {"kind": "poisson", "shape": 1.0, "rate": 1.0},
        {"kind": "loss", "lambda1": 1.0, "lambda2": 1.0},
    ],
)
def test_weights_repeat_rows(leaf):
    """Weight 2 is the row twice, weight 0 no row; an empty cell scores 0."""
    X, y, estimation = [(0.0,)] * 5, [0, 1, 1, 2, 2], [True, True, False, False, False]
    weighted = one_leaf_score(X=X, y=y, weights=[1, 1, 2, 0, 1], estimation=estimation, leaf=leaf)
    repeated = one_leaf_score(X=X, y=[0, 1, 1, 1, 2], estimation=estimation, leaf=leaf)
    assert weighted == pytest.approx(repeated)
    problem = Problem(X=X, y=y, estimation=estimation, tree_prior=COUNT, split_prior=LOCAL, leaf=leaf)
    assert score(problem, Cell([], {}, {}, 0, None, 0)) == 0


def test_scores_on_two_samples():
    """E holds classes 0 0 1, S holds 0 1 1: theta = (3/5, 2/5); the label is 0, with two errors."""
    data = {"X": [(0.0,)] * 6, "y": [0, 0, 1, 0, 1, 1], "estimation": [True] * 3 + [False] * 3}
    laplace = one_leaf_score(**data, leaf={"kind": "laplace", "pseudocount": 1.0})
    assert laplace == pytest.approx(math.log(3 / 5 * 2 / 5 * 2 / 5))
    loss = one_leaf_score(**data, leaf={"kind": "loss", "lambda1": 0.5, "lambda2": 0.1})
    assert loss == pytest.approx(-0.5 * 2 - 0.1 * math.sqrt(3))
    data["estimation"] = None
    loss = one_leaf_score(**data, leaf={"kind": "loss", "lambda1": 0.5, "lambda2": 0.1})
    assert loss == pytest.approx(-0.5 * 3 - 0.1 * math.sqrt(6))


def test_routing_of_new_categories():
    """Absent and unseen categories follow the majority of the rows, ties go left."""
    X = [(0.0, "a"), (1.0, "b"), (1.0, "b"), (1.0, "d"), (5.0, "c")]
    data = {"X": X, "y": [0, 0, 0, 1, 1], "nominal": {1}, "tree_prior": {**COUNT, "max_depth": 2}}
    local = Problem(**data, split_prior=LOCAL, leaf=DIRICHLET)
    tree = split(0, 3.0, split(1, frozenset("a")))
    assert leaf_of(local, tree, (0.0, "a")).rows == [0]
    assert leaf_of(local, tree, (0.0, "d")).rows == [1, 2, 3]
    assert leaf_of(local, tree, (0.0, "c")).rows == [1, 2, 3]
    assert leaf_of(local, tree, (9.0, "z")).rows == [4]
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
