"""The PAC-Bayes tree and its baselines: weights, risks and votes equal those of all subtrees, one by one."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact import PACBayesTreeClassifier
from exact.estimators import LOG_GRID
from tests.reference import pac_bayes as naive

CLOSE = {"rel": 1e-9, "abs": 1e-12}
GROW = {"dyadic": naive.dyadic, "kd": naive.kd}
MOST_SUBTREES = 400
each_base = pytest.mark.parametrize("base", GROW)
each_block = pytest.mark.parametrize("block", range(4))


def problem(base, seed, n_classes=3):
    """A small table, some of its values equal, with a base tree of a handful to some hundreds of subtrees."""
    rng = np.random.default_rng([seed, len(base)])
    while True:
        n, p = int(rng.integers(6, 15)), int(rng.integers(1, 4))
        X = rng.random((n, p)) if seed % 3 else rng.integers(0, 6, size=(n, p)) / 5.0
        y, max_depth = rng.integers(0, n_classes, size=n), int(rng.integers(2, 6))
        if len(set(y)) < n_classes or np.any(X.min(axis=0) == X.max(axis=0)):
            continue
        root = GROW[base](X, y, max_depth)
        if 2 <= len(naive.subtrees(root)) <= MOST_SUBTREES:
            return rng, X, y, max_depth, root


def problems(base, block, **options):
    return (problem(base, seed, **options) for seed in range(block, 60, 4))


def n_errors(node, y, n_classes=3):
    label = naive.majority(node, y, n_classes)
    return sum(y[i] != label for i in node.rows)


def one_hot(y, n_classes=3):
    return lambda node: np.eye(n_classes)[naive.majority(node, y, n_classes)]


def is_bare(node):
    return not node.rows


def check_votes(rule, fitted, points, value, abstains=is_bare):
    expected = [rule.votes(x, value, abstains) for x in points]
    assert fitted.predict_proba(points) == pytest.approx(np.array(expected), **CLOSE)


def n_asked(leaves, k):
    """Nodes above the leaves of a subtree that split on feature k."""
    above = set()
    for a in leaves:
        while a.parent is not None:
            a = a.parent
            above |= {a.number} if a.feature == k else set()
    return len(above)


def check_practice(base, rng, X, y, max_depth, root):
    lambda1, lambda2 = rng.exponential(1.5, size=2)
    fitted = PACBayesTreeClassifier(base, lambda1=lambda1, lambda2=lambda2, max_depth=max_depth).fit(X, y)
    nodes = list(root.walk())
    assert fitted.tree_.feature.tolist() == [node.feature for node in nodes]
    assert fitted.tree_.threshold == pytest.approx([node.cut for node in nodes])
    rule = naive.Rule(
        root,
        lambda t: sum(
            -lambda1 * n_errors(a, y) - lambda2 * math.sqrt(len(a.rows)) - (1.0 if a.rows else 0.0) for a in t
        ),
        lambda t: -sum(1.0 for a in t if a.rows),
    )
    assert fitted.weights_ == pytest.approx(rule.weights(), **CLOSE)
    assert fitted.gibbs_risk_ == pytest.approx(rule.mean(lambda t: sum(n_errors(a, y) for a in t)) / len(y))
    assert fitted.kl_ == pytest.approx(rule.kl, rel=1e-8, abs=1e-10)
    check_votes(rule, fitted, rng.random((20, X.shape[1])), one_hot(y))
    assert fitted.score(X, y) == np.mean(fitted.predict(X) == y)
    splits = [rule.mean(lambda t, k=k: n_asked(t, k)) for k in range(X.shape[1])]
    assert fitted.split_counts_ == pytest.approx(splits, **CLOSE)
    assert fitted.feature_importances_ == pytest.approx(np.divide(splits, max(sum(splits), 1e-300)), **CLOSE)

    def spread(a):
        return math.sqrt(max(len(a.rows), a.depth) * a.depth)

    spatial = naive.Rule(
        root, lambda t: -sum(lambda1 * n_errors(a, y) + lambda2 * spread(a) + 1.0 for a in t if a.rows)
    )
    fitted.set_params(penalty="spatial").fit(X, y)
    assert fitted.weights_ == pytest.approx(spatial.weights(), **CLOSE)


@pytest.mark.more(everyday=["0-dyadic"])
@each_base
@each_block
def test_practice_equals_all_subtrees(base, block):
    for case in problems(base, block):
        check_practice(base, *case)


def check_theory(rng, X, y, max_depth):
    X, y = np.vstack([X, rng.random((16, X.shape[1]))]), np.append(y, rng.integers(0, 3, size=16))
    lam, delta = rng.uniform(0.05, 1.9), rng.uniform(0.01, 0.9)
    E = np.sort(rng.permutation(len(y))[: len(y) // 2])
    counted = np.setdiff1d(np.arange(len(y)), E)
    if np.any(X[E].min(axis=0) == X[E].max(axis=0)) or len(set(y[E])) < 3:
        return False
    root = naive.kd(X[E], y[E], max_depth)
    nodes = list(root.walk())
    if len(naive.subtrees(root)) > MOST_SUBTREES:
        return False
    rows_of_node = {a.number: [i for i in counted if any(b is a for b in root.path(X[i]))] for a in nodes}
    label = {a.number: naive.majority(a, y[E], 3) for a in nodes}
    wrong = {a.number: sum(y[i] != label[a.number] for i in rows_of_node[a.number]) for a in nodes}
    n, depth, n_nodes = len(counted), max(a.depth for a in nodes), len(nodes)

    def phi(a):
        p_hat = len(rows_of_node[a.number]) / n
        penalty = n * lam * math.sqrt(p_hat * 2.0 * math.log(n_nodes / delta) / n)
        return -lam * wrong[a.number] - penalty - 3.0 * depth

    rule = naive.Rule(root, lambda t: sum(map(phi, t)), lambda t: -3.0 * depth * len(t))
    model = pt.TreeModel(
        X,
        y,
        tree_prior=pt.LeafPenalty(3.0 * depth),
        split_prior=pt.kd_tree(X[E], max_depth, y=y[E]),
        leaf=pt.PacBayesLoss(lam, lam * math.sqrt(2.0 * math.log(n_nodes / delta))),
        estimation=np.isin(np.arange(len(y)), E),
    )
    truth = exact.solve(model)
    certificate = truth.certificate()
    assert truth.cell_probabilities().leaf == pytest.approx(rule.weights(), **CLOSE)
    assert certificate.n == n
    assert certificate.risk == pytest.approx(rule.mean(lambda t: sum(wrong[a.number] for a in t)) / n)
    assert certificate.kl == pytest.approx(rule.kl, rel=1e-8, abs=1e-9)
    points = rng.random((10, X.shape[1]))
    check_votes(rule, truth, points, lambda a: np.eye(3)[label[a.number]], lambda a: False)
    return True


@pytest.mark.more(everyday=["0"])
@each_block
def test_the_model_of_the_theorem_equals_all_subtrees(block):
    """T0 and labels from one half, weights from the other, as `docs/theory.md` says."""
    checked = [check_theory(*case[:4]) for case in problems("kd", block)]
    assert sum(checked) >= 5


@each_base
def test_weights_are_those_of_the_model_it_stands_for(base):
    """LeafPenalty and PacBayesLoss over the fixed tree, by exact.solve."""
    rng = np.random.default_rng(5)
    X, y = rng.random((300, 2)), rng.integers(0, 3, size=300)
    fitted = PACBayesTreeClassifier(base, lambda1=0.4, lambda2=0.2).fit(X, y)
    model = pt.TreeModel(
        X,
        y,
        tree_prior=pt.LeafPenalty(1.0, empty_cost=0.0),
        split_prior=pt.FixedTree(fitted.tree_),
        leaf=pt.PacBayesLoss(0.4, 0.2),
    )
    truth = exact.solve(model)
    assert fitted.weights_ == pytest.approx(truth.cell_probabilities().leaf, rel=1e-9, abs=1e-12)


@each_base
def test_search_is_two_fold_cross_validation(base):
    """A log grid, a linear grid around its best, lambda1 before lambda2; fits of each half count the other's errors."""
    rng = np.random.default_rng(8)
    X = rng.random((120, 2))
    X = X[np.argsort(X[:, 0])]  # the order in which rows are put before halves are drawn
    y = (rng.random(120) < np.where(X[:, 0] > 0.5, 0.8, 0.2)).astype(int)
    fitted = PACBayesTreeClassifier(base, random_state=4).fit(X, y)
    shuffled = np.random.RandomState(4).permutation(120)
    halves = np.sort(shuffled[:60]), np.sort(shuffled[60:])
    bounds = np.column_stack([X.min(axis=0), X.max(axis=0)])

    def error(lambda1, lambda2):
        wrong = 0
        for half, other in (halves, halves[::-1]):
            rule = PACBayesTreeClassifier(base, lambda1=lambda1, lambda2=lambda2, bounds=bounds).fit(X[half], y[half])
            wrong += np.sum(rule.predict(X[other]) != y[other])
        return wrong / 120

    def search(error_at):
        grid = np.logspace(-8, 6, 10, base=2)
        errors = [error_at(value) for value in grid]
        best = grid[int(np.argmin(errors))]
        fine = np.linspace(best / 2, 2 * best, 10)
        errors += [error_at(value) for value in fine]
        return fine[int(np.argmin(errors[10:]))], errors

    lambda1, errors = search(lambda value: error(value, 1.0))
    assert fitted.lambda1_ == pytest.approx(lambda1)
    assert fitted.cv_errors_["lambda1"][:, 1].tolist() == errors
    lambda2, errors = search(lambda value: error(lambda1, value))
    assert fitted.lambda2_ == pytest.approx(lambda2)
    assert fitted.cv_errors_["lambda2"][:, 1].tolist() == errors
    assert np.logspace(-8, 6, 10, base=2) == pytest.approx(LOG_GRID)
    given_lambda1 = PACBayesTreeClassifier(base, random_state=4, lambda1=lambda1).fit(X, y)
    assert given_lambda1.lambda2_ == pytest.approx(lambda2) and list(given_lambda1.cv_errors_) == ["lambda2"]


def test_oracle_bound_is_the_formula():
    n, n_nodes, depth, d, classes, lam, delta = 500, 31, 6, 4, 3, 0.7, 0.1
    mass = np.array([0.5, 0.3, 0.195, 0.005, 0.0])
    least = ((2 + math.log(d)) * depth + math.log(1 / delta)) / n
    assert 0.005 < least < 0.195  # p' is either
    gap = sum(math.sqrt(8 * max(p, least) * math.log(n_nodes / delta) / n) for p in mass)
    confidence = (math.log(2 * math.sqrt(n) / delta) + lam * math.sqrt(2 * n * math.log(1 / delta))) / (lam * n)
    expected = classes / (1 - lam / 2) * (0.03 + gap + 3 * depth * 5 / (lam * n) + confidence)
    sizes = {"n": n, "n_nodes": n_nodes, "depth": depth, "n_features": d, "n_classes": classes}
    bound = exact.oracle_bound(0.03, mass, **sizes, lam=lam, delta=delta)
    assert bound.raw == pytest.approx(expected) and bound.delta == pytest.approx(4 * delta)
    for wrong in ({"lam": 2.0}, {"lam": 0.0}, {"delta": 0.0}, {"delta": 1.0}, {"n": 7}, {"n_classes": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            exact.oracle_bound(0.03, mass, **{**sizes, **wrong})
    with pytest.raises(ValueError, match="mass has shape"):
        exact.oracle_bound(0.03, [0.5, 1.5], **sizes)
    with pytest.raises(ValueError, match=r"excess=1\.5"):
        exact.oracle_bound(1.5, mass, **sizes)


REFUSED = [
    (PACBayesTreeClassifier("oblique"), "base='oblique' is unknown; give one of"),
    (PACBayesTreeClassifier(lambda1=-1.0), r"lambda1=-1\.0 is out of range; give a finite number >= 0"),
    (PACBayesTreeClassifier(lambda2=math.inf), "lambda2=inf is out of range"),
    (PACBayesTreeClassifier(max_depth=0), "max_depth=0 is out of range; give an integer >= 1, or None"),
    (PACBayesTreeClassifier(coordinate="widest"), "give coordinate='cycling', or base='kd'"),
    (PACBayesTreeClassifier("kd", coordinate="any"), "coordinate='any' is unknown"),
    (PACBayesTreeClassifier(bounds=[[0.0, 1.0]] * 3), "bounds has 3 rows; X has 1 columns"),
]


@pytest.mark.parametrize(("rule", "message"), REFUSED)
def test_bad_input_is_refused(rule, message):
    with pytest.raises(ValueError, match=message):
        rule.fit(np.arange(6.0)[:, None], [0, 1, 2, 0, 1, 2])
