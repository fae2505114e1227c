"""Leaf scores and predictions in arbitrary precision, from the rows as they are given: no statistics, no centre."""

from mpmath import log, loggamma, mp, mpf, pi

mp.dps = 50


def exact(values):
    """Floats as they are."""
    return [mpf(float(v)) for v in values]


class Cell:
    """Rows of a table: y, weights, class numbers or exposures, and which rows are E."""

    def __init__(self, y, weight, estimation=None, exposure=None):
        self.weight = exact(weight)
        self.y = exact(y)
        self.estimation = [False] * len(y) if estimation is None else list(estimation)
        self.exposure = exact([1.0] * len(y) if exposure is None else exposure)

    def counts(self, n_classes, estimation=None):
        """Weight by class; of E, of S, or of all rows."""
        out = [mpf(0)] * n_classes
        for y, w, e in zip(self.y, self.weight, self.estimation):
            if estimation is None or e == estimation:
                out[int(y)] += w
        return out

    @property
    def n(self):
        return sum(self.weight)

    def total(self, function):
        return sum(w * function(y, e) for y, w, e in zip(self.y, self.weight, self.exposure))


def dirichlet(cell, alpha):
    counts = cell.counts(len(alpha))
    a = exact(alpha)
    each = sum(loggamma(n + b) - loggamma(b) for n, b in zip(counts, a))
    return each - loggamma(sum(counts) + sum(a)) + loggamma(sum(a))


def laplace_values(cell, a, n_classes):
    counts = [n + a for n in cell.counts(n_classes, True)]
    return [n / sum(counts) for n in counts]


def laplace(cell, a, n_classes):
    theta = laplace_values(cell, mpf(a), n_classes)
    return sum(b * log(t) for b, t in zip(cell.counts(n_classes, False), theta))


def loss(cell, lambda1, lambda2, n_classes):
    counts = cell.counts(n_classes)
    return -mpf(lambda1) * (sum(counts) - max(counts)) - mpf(lambda2) * sum(counts) ** mpf("0.5")


def spread(cell, m0, k0):
    """Posterior mean, and the squares of the rows and of the prior's pull about it."""
    n, m0, k0 = cell.n, mpf(m0), mpf(k0)
    mean = cell.total(lambda y, _: y) / n if n > 0 else m0
    squares = cell.total(lambda y, _: (y - mean) ** 2)
    return (k0 * m0 + n * mean) / (k0 + n), squares + k0 * n * (mean - m0) ** 2 / (k0 + n)


def normal(cells, m0, k0, a0, b0):
    """Variance and means integrated out, the variance shared by all ``cells``: one for a variance a leaf."""
    a0, b0, k0 = mpf(a0), mpf(b0), mpf(k0)
    n = sum(cell.n for cell in cells)
    an, bn = a0 + n / 2, b0 + sum(spread(cell, m0, k0)[1] for cell in cells) / 2
    shrinkage = sum(log(k0 / (k0 + cell.n)) for cell in cells) / 2
    return loggamma(an) - loggamma(a0) + a0 * log(b0) - an * log(bn) + shrinkage - n / 2 * log(2 * pi)


def normal_density(cell, m0, k0, a0, b0, y):
    mn, misfit = spread(cell, m0, k0)
    an, bn, kn = mpf(a0) + cell.n / 2, mpf(b0) + misfit / 2, mpf(k0) + cell.n
    scale2 = bn * (kn + 1) / (an * kn)
    z2 = (mpf(float(y)) - mn) ** 2 / scale2
    half = mpf(1) / 2
    return loggamma(an + half) - loggamma(an) - log(2 * pi * an * scale2) / 2 - (an + half) * log(1 + z2 / (2 * an))


def known(cell, sigma2, m0, k0):
    sigma2, k0 = mpf(sigma2), mpf(k0)
    misfit = spread(cell, m0, k0)[1]
    return log(k0 / (k0 + cell.n)) / 2 - cell.n / 2 * log(2 * pi * sigma2) - misfit / (2 * sigma2)


def known_density(cell, sigma2, m0, k0, y):
    mn, scale2 = spread(cell, m0, k0)[0], mpf(sigma2) * (1 + 1 / (mpf(k0) + cell.n))
    return -log(2 * pi * scale2) / 2 - (mpf(float(y)) - mn) ** 2 / (2 * scale2)


def gamma_of(cell, shape, rate):
    """Posterior of the rate."""
    return mpf(shape) + cell.total(lambda y, _: y), mpf(rate) + cell.total(lambda _, e: e)


def poisson(cell, shape, rate):
    a, b = gamma_of(cell, shape, rate)
    constant = cell.total(lambda y, e: y * log(e) - loggamma(y + 1))
    return constant + mpf(shape) * log(mpf(rate)) - loggamma(mpf(shape)) + loggamma(a) - a * log(b)


def poisson_density(cell, shape, rate, y, e):
    a, b = gamma_of(cell, shape, rate)
    y, e = mpf(float(y)), mpf(float(e))
    return loggamma(a + y) - loggamma(a) - loggamma(y + 1) + a * log(b / (b + e)) + y * log(e / (b + e))
