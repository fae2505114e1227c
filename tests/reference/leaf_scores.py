"""Scores and predictions of leaves, from the definitions, for problems in the words of `enumeration`."""

import math

from scipy.special import gammaln


def counts(problem, rows):
    """Weighted class counts, in sorted class order."""
    return [sum(problem.weights[i] for i in rows if problem.y[i] == c) for c in problem.classes]


def sample(problem, rows, estimation):
    """The rows of E (estimation True) or of S (False); all rows when the data are not parted."""
    return [i for i in rows if problem.estimation is None or bool(problem.estimation[i]) == estimation]


def class_probabilities(counted, pseudocount):
    """(n_i + a) / (n + K a)."""
    total = sum(counted) + len(counted) * pseudocount
    return [(c + pseudocount) / total for c in counted]


def leaf_label(problem, rows):
    """Index of the class with the largest weighted count, the smallest class among ties."""
    counted = counts(problem, sample(problem, rows, True))
    return counted.index(max(counted))


def moments(problem, rows):
    """Total weight W, weighted mean, weighted sum of squares about it (mean 0 when W = 0)."""
    W = sum(problem.weights[i] for i in rows)
    mean = sum(problem.weights[i] * problem.y[i] for i in rows) / W if W > 0 else 0.0
    return W, mean, sum(problem.weights[i] * (problem.y[i] - mean) ** 2 for i in rows)


def exposure(problem, i):
    """Exposure of row i, 1 by default."""
    exposures = problem.leaf.get("exposure")
    return 1.0 if exposures is None else exposures[i]


def gamma_parameters(problem, rows):
    """Posterior (shape, rate) of the Poisson rate."""
    Y = sum(problem.weights[i] * problem.y[i] for i in rows)
    E = sum(problem.weights[i] * exposure(problem, i) for i in rows)
    return problem.leaf["shape"] + Y, problem.leaf["rate"] + E


def dirichlet_score(problem, rows):
    """Dirichlet-multinomial log evidence."""
    a, counted = problem.leaf["alpha"], counts(problem, rows)
    K, n = len(counted), sum(counted)
    return gammaln(K * a) - gammaln(n + K * a) + sum(gammaln(c + a) - gammaln(a) for c in counted)


def laplace_score(problem, rows):
    """Log likelihood of S under the probabilities estimated on E."""
    theta = class_probabilities(counts(problem, sample(problem, rows, True)), problem.leaf["pseudocount"])
    tested = counts(problem, sample(problem, rows, False))
    return sum(b * math.log(t) for b, t in zip(tested, theta) if b > 0)


def nig_score(problem, rows):
    """Gaussian log evidence, normal-inverse-gamma prior."""
    m0, k0, a0, b0 = (problem.leaf[name] for name in ("m0", "k0", "a0", "b0"))
    W, mean, SS = moments(problem, rows)
    kn, an = k0 + W, a0 + W / 2
    bn = b0 + SS / 2 + k0 * W * (mean - m0) ** 2 / (2 * kn)
    gamma_terms = gammaln(an) - gammaln(a0) + a0 * math.log(b0) - an * math.log(bn)
    return gamma_terms + (math.log(k0) - math.log(kn)) / 2 - W / 2 * math.log(2 * math.pi)


def known_score(problem, rows):
    """Gaussian log evidence, variance sigma2 known, mean ~ N(m0, sigma2 / k0)."""
    sigma2, m0, k0 = (problem.leaf[name] for name in ("sigma2", "m0", "k0"))
    W, mean, SS = moments(problem, rows)
    square = SS + k0 * W * (mean - m0) ** 2 / (k0 + W)
    return -W / 2 * math.log(2 * math.pi * sigma2) + math.log(k0 / (k0 + W)) / 2 - square / (2 * sigma2)


def poisson_score(problem, rows):
    """Poisson log evidence, rate ~ Gamma(shape, rate)."""
    shape, rate = problem.leaf["shape"], problem.leaf["rate"]
    new_shape, new_rate = gamma_parameters(problem, rows)
    total = shape * math.log(rate) - gammaln(shape) + gammaln(new_shape) - new_shape * math.log(new_rate)
    for i in rows:
        y, e = problem.y[i], exposure(problem, i)
        total += problem.weights[i] * (y * math.log(e) - gammaln(y + 1))
    return total


def loss_score(problem, rows):
    """-lambda1 errors - lambda2 sqrt(n_s), both by weight over the rows of S."""
    label = problem.classes[leaf_label(problem, rows)]
    tested = sample(problem, rows, False)
    errors = sum(problem.weights[i] for i in tested if problem.y[i] != label)
    n_s = sum(problem.weights[i] for i in tested)
    return -problem.leaf["lambda1"] * errors - problem.leaf["lambda2"] * math.sqrt(n_s)


SCORES = {"dirichlet": dirichlet_score, "laplace": laplace_score, "nig": nig_score}
SCORES |= {"known": known_score, "poisson": poisson_score, "own": poisson_score, "loss": loss_score}


def score(problem, cell):
    """Log score of a leaf; an empty cell scores 0."""
    return float(SCORES[problem.leaf["kind"]](problem, cell.rows)) if cell.rows else 0.0


def predictive(problem, cell):
    """Class probabilities of a leaf, or [mean]."""
    leaf, rows = problem.leaf, cell.rows
    if leaf["kind"] == "dirichlet":
        return class_probabilities(counts(problem, rows), leaf["alpha"])
    if leaf["kind"] == "laplace":
        return class_probabilities(counts(problem, sample(problem, rows, True)), leaf["pseudocount"])
    if leaf["kind"] == "loss":
        label = leaf_label(problem, rows)
        return [1.0 if j == label else 0.0 for j in range(len(problem.classes))]
    if leaf["kind"] in ("poisson", "own"):
        shape, rate = gamma_parameters(problem, rows)
        return [shape / rate]
    W, mean, _ = moments(problem, rows)
    return [(leaf["k0"] * leaf["m0"] + W * mean) / (leaf["k0"] + W)]
