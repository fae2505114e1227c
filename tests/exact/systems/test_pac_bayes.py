"""PAC-Bayes trees and context-tree weighting equal all subtrees one by one; Proposition 2 and Corollary 1."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact import PACBayesTreeClassifier
from exact.estimators import LOG_GRID
from tests.problems.refusals import refuses
from tests.reference import pac_bayes as naive
from tests.reference.context_trees import log_joint, log_weighted, sources

CLOSE = {"rel": 1e-9, "abs": 1e-12}
GROW = {"dyadic": naive.dyadic, "kd": naive.kd}
MOST_SUBTREES = 400
each_base = pytest.mark.parametrize("base", GROW)
each_block = pytest.mark.parametrize("block", range(4))
REFUSED = [
    (PACBayesTreeClassifier("oblique"), "base='oblique' is unknown; give one of"),
    (PACBayesTreeClassifier(lambda1=-1.0), r"lambda1=-1\.0 is out of range; give a finite number >= 0"),
    (PACBayesTreeClassifier(lambda2=math.inf), "lambda2=inf is out of range"),
    (PACBayesTreeClassifier(max_depth=0), "max_depth=0 is out of range; give an integer >= 1, or None"),
    (PACBayesTreeClassifier(coordinate="widest"), "give coordinate='cycling', or base='kd'"),
    (PACBayesTreeClassifier("kd", coordinate="any"), "coordinate='any' is unknown"),
    (PACBayesTreeClassifier(bounds=[[0.0, 1.0]] * 3), "bounds has 3 rows; X has 1 columns"),
]


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


def check_votes(rule, fitted, points, value, abstains=lambda node: not node.rows):
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

    spatial = naive.Rule(root, lambda t: -sum(lambda1 * n_errors(a, y) + lambda2 * spread(a) + 1 for a in t if a.rows))
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
    assert truth.cell_probabilities().leaf == pytest.approx(rule.weights(), **CLOSE) and certificate.n == n
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
    assert fitted.lambda1_ == pytest.approx(lambda1) and fitted.cv_errors_["lambda1"][:, 1].tolist() == errors
    lambda2, errors = search(lambda value: error(lambda1, value))
    assert fitted.lambda2_ == pytest.approx(lambda2) and fitted.cv_errors_["lambda2"][:, 1].tolist() == errors
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
    refuses("mass has shape", lambda: exact.oracle_bound(0.03, [0.5, 1.5], **sizes))
    refuses(r"excess=1\.5", lambda: exact.oracle_bound(1.5, mass, **sizes))


@pytest.mark.parametrize(("rule", "message"), REFUSED)
def test_bad_input_is_refused(rule, message):
    refuses(message, lambda: rule.fit(np.arange(6.0)[:, None], [0, 1, 2, 0, 1, 2]))


def test_terms_of_corollary_one():
    rate = exact.adaptive_rate(10_000, smoothness=0.5, holder=2.0, n_features=2, n_classes=3, lam=0.5)
    leaves = max((2 * math.sqrt(2)) ** 2 * rate.radius**-2, 1.0)
    assert rate.n_leaves == pytest.approx(leaves) and rate.approximation == pytest.approx(4.0 * rate.radius**0.5)
    assert rate.labels == pytest.approx(2 * math.sqrt(leaves * math.log(6) / 1e4) + leaves / (math.e * 1e4))
    assert rate.prior == pytest.approx(3 * 28 * leaves / (0.5 * 1e4))
    least = (2 + math.log(2)) * 28 + math.log(1e4)
    sharp = math.sqrt(8 * leaves * (1 + leaves * least / 1e4) * math.log(2e4 * 1e4) / 1e4)
    assert rate.deviation == pytest.approx(sharp)
    # Cauchy-Schwarz: no smaller than Delta of Theorem 1 for leaves of equal mass
    m = 50
    theorem = exact.oracle_bound(
        0.0, np.full(m, 1 / m), n=10_000, n_nodes=20_000, depth=28, n_features=2, n_classes=3, delta=1e-4
    ).terms["Delta(T)"]
    assert theorem <= math.sqrt(8 * m * (1 + m * least / 1e4) * math.log(2e4 * 1e4) / 1e4) + 1e-12


@pytest.mark.parametrize(("alpha", "d"), [(1.0, 1), (0.5, 2), (1.0, 3)])
def test_the_rate(alpha, d):
    """log(bound) over log(log(n)/n) has the exponent as its slope, for n so large that the constants do not matter."""
    sizes = [10**30, 10**34]
    values = [exact.adaptive_rate(n, smoothness=alpha, holder=1.0, n_features=d).value for n in sizes]
    scale = [math.log(math.log(n) / n) for n in sizes]
    slope = (math.log(values[1]) - math.log(values[0])) / (scale[1] - scale[0])
    assert slope == pytest.approx(alpha / (2 * alpha + d), abs=0.01)


def excess_by_hand(n=5000, delta=0.05):
    """Proposition 2 written out for one classifier with excess .02, deviation .1 and P = 1/2."""
    confidence = (math.log(2 * math.sqrt(n) / delta) + math.sqrt(2 * n * math.log(1 / delta))) / n
    return 3 / (1 - 0.5) * (0.02 + 0.1 + math.log(2) / n + confidence)


def test_proposition_two_by_hand():
    assert exact.vote_excess_bound([0.02], [0.1], [-math.log(2)], n=5000, n_classes=3).raw == pytest.approx(
        excess_by_hand()
    )


def test_bad_input():
    refuses("different lengths", lambda: exact.vote_excess_bound([0.0, 0.1], [0.0], [0.0], n=10, n_classes=2))
    refuses("excess holds", lambda: exact.vote_excess_bound([2.0], [0.0], [0.0], n=10, n_classes=2))
    refuses("log_prior holds", lambda: exact.vote_excess_bound([0.0], [0.0], [1.0], n=10, n_classes=2))
    refuses("packing", lambda: exact.adaptive_rate(100, smoothness=1.0, holder=1.0, n_features=3, dimension=1.0))
    refuses("smoothness", lambda: exact.adaptive_rate(100, smoothness=2.0, holder=1.0, n_features=3))


def random_pairs(rng, n, depth, m):
    """Contexts and symbols whose last-but-one symbol matters."""
    contexts = rng.integers(m, size=(n, depth))
    symbols = np.where(rng.random(n) < 0.7, contexts[:, depth - 1], rng.integers(m, size=n))
    return contexts, symbols


def fed(depth, m, contexts, symbols, **parts):
    ctw = exact.ContextTreeWeighting(depth, m, **parts)
    ctw.add(contexts, symbols)
    return ctw


@pytest.mark.parametrize(("depth", "m"), [(1, 2), (2, 2), (3, 2), (2, 3), (1, 5)])
def test_equals_the_plain_recursion_and_enumeration(depth, m):
    rng = np.random.default_rng([depth, m])
    rho, alpha = rng.uniform(0.1, 0.9, depth), 0.7
    contexts, symbols = random_pairs(rng, 12, depth, m)
    ctw = fed(depth, m, contexts, symbols, rho=rho, alpha=alpha)
    pairs = list(zip(contexts.tolist(), symbols.tolist(), strict=True))
    assert ctw.log_evidence == pytest.approx(log_weighted(pairs, depth, m, alpha, rho), abs=1e-12)
    by_source = [(log_joint(pairs, s, depth, m, alpha, rho), s) for s in sources(depth, m)]
    total = math.fsum(math.exp(value) for value, _ in by_source)
    assert ctw.log_evidence == pytest.approx(math.log(total), abs=1e-12)
    distribution = np.zeros(depth + 1)
    for value, source in by_source:
        distribution[max(map(len, source))] += math.exp(value) / total
    assert ctw.depth_pmf() == pytest.approx(distribution, abs=1e-12)
    best = ctw.best_source()
    assert best.log_probability == pytest.approx(max(by_source)[0] - math.log(total), abs=1e-12)
    likeliest = [s for value, s in by_source if value > max(by_source)[0] - 1e-9]
    occurring = [[c for c in s if any(tuple(row[: len(c)]) == c for row in contexts.tolist())] for s in likeliest]
    assert sorted(best.contexts) in [sorted(s) for s in occurring]
    assert best.probability.sum(axis=1) == pytest.approx(1.0)


def test_any_order_and_the_batch_evidence():
    sequence = np.random.default_rng(0).integers(0, 2, 5_000)
    ctw = exact.context_tree_weighting(sequence, 6, 2)
    rows = np.arange(6, len(sequence))
    contexts = sequence[rows[:, None] - np.arange(1, 7)]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(rows))
        other = fed(6, 2, contexts[order], sequence[rows[order]])
        assert other.log_evidence == pytest.approx(ctw.log_evidence, rel=0, abs=1e-9)
    batch = exact.log_sum(ctw.graph()[0])
    assert batch == pytest.approx(ctw.log_evidence, rel=0, abs=1e-9)


@pytest.mark.more(everyday=["2"])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_equals_the_exact_engine_on_a_context_tree(m):
    rng = np.random.default_rng(m)
    sequence = np.where(rng.random(150) < 0.5, np.arange(150) % m, rng.integers(m, size=150))
    design, (X, y) = pt.context_tree(3, m), pt.contexts(sequence, 3, m)
    model = pt.TreeModel(
        X, y, tree_prior=pt.BranchingProcess(0.5, max_depth=None), split_prior=design, leaf=pt.DirichletMultinomial(0.5)
    )
    ctw = exact.ContextTreeWeighting(3, m)
    steps = ctw.update(sequence)
    truth, online = exact.solve(model), exact.progressive_mixture(model)
    assert ctw.log_evidence == pytest.approx(truth.log_evidence, rel=0, abs=1e-9)
    assert np.diff(online.stage_log_evidence[0]) == pytest.approx(steps, abs=1e-9)
    assert ctw.predict_proba(X[:9]) == pytest.approx(truth.predict_proba(X[:9]), abs=1e-12)
    assert ctw.best_source().log_probability == pytest.approx(truth.map_log_joint - truth.log_evidence, abs=1e-9)
    ctw.graph()[0].check()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact.ContextTreeWeighting(-1, 2), "depth=-1"),
        (lambda: exact.ContextTreeWeighting(2, 1), "n_symbols=1"),
        (lambda: exact.ContextTreeWeighting(2.5, 2), r"depth=2\.5"),
        (lambda: exact.ContextTreeWeighting(2, 2, alpha=0.0), r"alpha=0\.0"),
        (lambda: exact.ContextTreeWeighting(2, 2, rho=1.0), r"rho=1\.0"),
        (lambda: exact.ContextTreeWeighting(2, 2, rho=[0.5]), "rho has shape"),
        (lambda: exact.context_tree_weighting([0, 1], 2, 2), "2 symbols has none with 2 before"),
        (lambda: exact.context_tree_weighting([0, 1, 2, 0], 2, 2), r"sequence holds 2 at 2; symbols are 0\.\.1"),
        (lambda: exact.context_tree_weighting([0, -1, 1, 0], 2, 2), "holds -1 at 1"),
        (lambda: exact.context_tree_weighting("0101", 2, 2), "give integers"),
        (lambda: exact.context_tree_weighting([0.0, 1.0, 0.5], 2, 2), "dtype float64"),
        (lambda: exact.ContextTreeWeighting(2, 2).add([[0]], [1]), r"shape \(1, 1\)"),
        (lambda: exact.ContextTreeWeighting(2, 2).add([[0, 1]], [1, 0]), "1 contexts and 2 symbols"),
        (lambda: exact.ContextTreeWeighting(2, 2).predict_proba([[0, 2]]), r"holds 2 at \(0, 1\)"),
    ],
)
def test_bad_contexts(call, message):
    refuses(message, call)
