"""pt.simulate draws trees from the prior, and y from the prior predictive given the tree."""

import zlib

import numpy as np
import pytest
from scipy import stats

import pactree_mcmc as pt
from tests.problems.drawn import random_problem
from tests.problems.models import build_model
from tests.problems.trees import library_tree
from tests.reference.enumeration import LEAF, Problem, child_cells, enumerate_trees, leaf_of, root_cell
from tests.reference.leaf_scores import predictive

Z_LIMIT = 5.0
P_LIMIT = 1e-6
DRAWS = 400
ROWS = [(0.0, "a"), (1.0, "b"), (2.0, "a"), (2.0, "c"), (3.0, "b")]
CHIPMAN = {"kind": "chipman", "alpha": 0.8, "beta": 0.5, "max_depth": None}
LOCAL = {"kind": "local", "trivial": False, "min_leaf": 1, "weights": None}
NO_MODELS_OF_DATA = [
    (pt.PacBayesLoss(1.0), {}, "PacBayesLoss is a loss, not a model of y; there is nothing to simulate"),
    (pt.DirichletMultinomial(), {"sample_weight": [1, 2, 1, 1]}, "sample weights do not define a model of data"),
]


@pytest.fixture
def rng(request):
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


def problem_of(y, leaf, **more):
    return Problem(X=ROWS, y=y, nominal={1}, tree_prior=CHIPMAN, split_prior=LOCAL, leaf=leaf, **more)


def simulated(problem, rng, n):
    model = build_model(pt, problem, rng)
    return np.array([pt.simulate(model, rng)[1] for _ in range(n)])


def same_leaf(problem, i, j):
    """Prior probability that rows i and j lie in one leaf."""

    def together(cell, tree):
        if tree == LEAF:
            return True
        ends = zip(child_cells(problem, cell, tree[1], tree[2]), tree[3:], strict=True)
        return any(together(child, below) for child, below in ends if i in child.rows and j in child.rows)

    return sum(np.exp(prior) for tree, prior, _ in enumerate_trees(problem) if together(root_cell(problem), tree))


def check_mean(sample, expected):
    z = (np.mean(sample) - expected) / (np.std(sample) / np.sqrt(len(sample)))
    assert abs(z) < Z_LIMIT, f"z = {z:.1f}: mean {np.mean(sample):.4f}, expected {expected:.4f}"


@pytest.mark.more
def test_dirichlet_multinomial(rng):
    """Class frequencies, and how often two rows agree: more often in one leaf than in two."""
    problem = problem_of([0, 1, 2, 0, 1], {"kind": "dirichlet", "alpha": 0.5})
    y = simulated(problem, rng, DRAWS)
    for c in range(3):
        check_mean(y[:, 0] == c, 1 / 3)
    together = same_leaf(problem, 0, 3)
    assert 0.2 < together < 0.8
    check_mean(y[:, 0] == y[:, 3], together * (0.5 + 1) / (1.5 + 1) + (1 - together) / 3)


@pytest.mark.more
def test_frozen_laplace(rng):
    """Rows of S follow the frozen probabilities, averaged over trees; rows of E keep their labels."""
    mask = [True, True, True, False, False]
    problem = problem_of([0, 1, 0, 1, 1], {"kind": "laplace", "pseudocount": 0.3}, estimation=mask)
    y = simulated(problem, rng, DRAWS)
    assert (y[:, :3] == [0, 1, 0]).all()
    for row in (3, 4):
        mixture = sum(
            np.exp(prior) * predictive(problem, leaf_of(problem, tree, ROWS[row]))[1]
            for tree, prior, _ in enumerate_trees(problem)
        )
        check_mean(y[:, row] == 1, mixture)


def test_normal_inverse_gamma(rng):
    """Mean m0; variance ``b0 / (a0 - 1) * (1 + 1 / k0)``, of which the part 1 / k0 is shared within a leaf."""
    problem = problem_of([0.0, 1.0, 2.0, 3.0, 4.0], {"kind": "nig", "m0": 7.0, "k0": 0.5, "a0": 6.0, "b0": 10.0})
    y = simulated(problem, rng, DRAWS) - 7.0
    check_mean(y[:, 0], 0.0)
    check_mean(y[:, 0] ** 2, 10 / 5 * 3)
    check_mean(y[:, 0] * y[:, 3], same_leaf(problem, 0, 3) * 10 / 5 / 0.5)
    distribution = stats.t(12.0, 0.0, np.sqrt(10.0 * 1.5 / (6.0 * 0.5)))
    assert stats.kstest(y[:, 2], distribution.cdf).pvalue > P_LIMIT


@pytest.mark.parametrize("exposure", [None, [1.0, 0.5, 2.0, 3.0, 1.5]], ids=["plain", "exposure"])
def test_poisson_gamma(exposure, rng):
    """Covariance in a leaf: the variance of the rate times both exposures."""
    leaf = {"kind": "poisson", "shape": 2.0, "rate": 0.5, **({} if exposure is None else {"exposure": exposure})}
    problem = problem_of([0, 1, 2, 3, 4], leaf)
    y, e = simulated(problem, rng, DRAWS), np.ones(5) if exposure is None else exposure
    assert (y == np.floor(y)).all() and (y >= 0).all()
    for row in (0, 3):
        check_mean(y[:, row], 4.0 * e[row])
        check_mean((y[:, row] - 4.0 * e[row]) ** 2, 4.0 * e[row] + 8.0 * e[row] ** 2)
    product = (y[:, 0] - 4.0 * e[0]) * (y[:, 3] - 4.0 * e[3])
    check_mean(product, same_leaf(problem, 0, 3) * 8.0 * e[0] * e[3])


def key_of(model, tree):
    key = []
    for number, cell, split in model.visit(tree):
        k = int(tree.feature[number])
        if split is not None and split.categories >= 0:
            key.append((k, split.categories & (model.categories_in(cell, k) or -1)))
        else:
            # all rows may go left, below any larger threshold
            key.append((k, 0 if split is None else int(split.cut)))
    return tuple(key)


def check_distribution(problem, model, n, rng):
    """The frequencies of ``n`` simulated trees are those of the enumerated prior (chi-square, rare trees pooled)."""
    trees = enumerate_trees(problem)
    expected = {key_of(model, library_tree(pt, problem, t, model.columns)): np.exp(prior) for t, prior, _ in trees}
    total, seen = sum(expected.values()), dict.fromkeys(expected, 0)
    for _ in range(n):
        seen[key_of(model, pt.simulate(model, rng)[0])] += 1
    fraction = np.array(list(expected.values())) / total * n
    counts = np.array(list(seen.values()))
    rare = fraction < 5.0
    fraction, counts = (np.append(a[~rare], a[rare].sum()) for a in (fraction, counts))
    kept = fraction > 0.0
    if kept.sum() > 1:
        assert stats.chisquare(counts[kept], fraction[kept]).pvalue > P_LIMIT


@pytest.mark.more(everyday=["local-stopped"])
@pytest.mark.parametrize("tree_prior", ["stopped", "conditioned", "chipman"])
@pytest.mark.parametrize("split_prior", ["local", "grid", "dyadic", "fixed"])
def test_trees_follow_the_prior(split_prior, tree_prior, rng):
    for _ in range(2):
        parts = {"split_prior": split_prior, "tree_prior": tree_prior, "leaf": "nig"}
        problem, _ = random_problem(rng, **parts, max_trees=60)
        problem.weights = [1.0] * len(problem.X)
        check_distribution(problem, build_model(pt, problem, rng), 200, rng)


def test_a_fixed_split_whose_answer_is_known():
    """Below a in {a} the design asks once more, about b: drawn trees ask what the design asks, and have a prior."""
    design = pt.Tree([0, 0, -1, -1, -1], [0] * 5, [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], [0b001, 0b010, -1, -1, -1])
    prior, table = pt.BranchingProcess(0.5, max_depth=None), [["a"], ["b"], ["a"], ["c"]]
    model = pt.TreeModel(table, [0.0, 1.0, 0.5, 2.0], nominal=0, split_prior=pt.FixedTree(design), tree_prior=prior)
    drawn = [pt.simulate(model, seed)[0] for seed in range(30)]
    assert {tree.n_leaves for tree in drawn} == {1, 2, 3} and all(model.log_prior(tree) > -np.inf for tree in drawn)


@pytest.mark.more
def test_trees_follow_the_leaf_penalty(rng):
    """Empty leaves are cheaper, and cuts of the grid leave cells empty."""
    prior = {"kind": "penalty", "cost": 0.4, "empty_cost": 0.0, "max_depth": 2}
    grid = {"kind": "grid", "cuts": [[0.5, 2.5, 9.0]]}
    leaf = {"kind": "dirichlet", "alpha": 1.0}
    problem = Problem(X=[(0.0,), (1.0,), (3.0,)], y=[0, 0, 1], tree_prior=prior, split_prior=grid, leaf=leaf)
    check_distribution(problem, build_model(pt, problem, np.random.default_rng(0)), 200, rng)


def model_with(leaf, **more):
    return pt.TreeModel([[0.0], [1.0], [2.0], [2.0]], [0, 1, 1, 0], leaf=leaf, **more)


@pytest.mark.parametrize(("leaf", "more", "words"), NO_MODELS_OF_DATA)
def test_what_is_no_model_of_data_is_refused(leaf, more, words):
    with pytest.raises(ValueError, match=words):
        pt.simulate(model_with(leaf, **more), rng=1)


def test_labels_are_those_of_the_model():
    model = pt.TreeModel([[0.0], [1.0], [1.0]], ["no", "yes", "no"])
    assert {label for seed in range(20) for label in pt.simulate(model, seed)[1]} == {"no", "yes"}


def test_the_same_seed_gives_the_same_data():
    """The model keeps its own y."""
    model = model_with(pt.NormalInverseGamma())
    before = model.target.values.copy()
    (tree, y), (again, y_again) = (pt.simulate(model, rng=3) for _ in range(2))
    assert tree == again
    np.testing.assert_array_equal(y, y_again)
    assert y.shape == (4,) and not np.array_equal(y, pt.simulate(model, rng=4)[1])
    np.testing.assert_array_equal(model.target.values, before)


def test_two_trees_of_equal_prior(rng):
    """The chain that draws from the prior has no period, by which the tree would always be the stump."""
    model = pt.TreeModel([[0.0], [1.0]], ["a", "b"], tree_prior=pt.LeafPenalty(0.0))
    check_mean([pt.simulate(model, rng)[0].n_leaves - 1 for _ in range(100)], 0.5)
