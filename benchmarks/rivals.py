"""Rivals that several benchmarks share: CART tuned by cross-validation, forests, bagged trees, boosting.

``fit(X, y)`` fits a rival. ``predict(X)`` returns the means of a regression (n,), or the probabilities of ``classes``
(n, K). Those that have intervals return their ends (n, 2) by ``predict_interval(X, coverage)``. ``loss``, ``score`` and
``calibration_error`` judge all of them.
"""

import heapq
import time

import numba
import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

PSEUDO_ROWS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Numbers of pseudo rows of a leaf, or pseudo votes of a forest, spread evenly over the classes."""
LEAST = 1e-15
"""Smallest probability of which the log is taken in a loss."""
COVERAGES = (0.5, 0.8, 0.9, 0.95)
"""Probabilities of the intervals whose coverage is counted."""
BINS = 15
"""Number of bins, of equal width, of the probability of the most probable class."""


def mean_leaves(post):
    """Return the mean number of leaves of a sampled or an exact posterior."""
    distribution = post.n_leaves_pmf()
    return float(distribution @ np.arange(len(distribution)))


def loss(said, y, classes=None):
    """Return the mean log loss (nats) of probabilities (n, K) of ``classes``, or the RMSE of means (n,)."""
    if said.ndim == 1:
        return float(np.sqrt(np.mean((said - y) ** 2)))
    place = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    known = said[np.arange(len(y)), place] * (classes[place] == y)
    return float(-np.log(np.maximum(known, LEAST)).mean())


def score(said, y, classes=None):
    """Return the fraction of rows whose most probable class is right, or the R squared of means (n,)."""
    if said.ndim == 1:
        return float(1.0 - np.sum((said - y) ** 2) / np.sum((y - y.mean()) ** 2))
    return float(np.mean(classes[np.argmax(said, axis=1)] == y))


def calibration_error(probability, right):
    """Return the expected calibration error: the gap by bin of ``probability`` and ``right`` (Guo et al. 2017)."""
    which = np.minimum((probability * BINS).astype(int), BINS - 1)
    gap = np.bincount(which, right, BINS) - np.bincount(which, probability, BINS)
    return float(np.abs(gap).sum() / len(right))


def folds_of(y, n_folds, regression, seed=1):
    """Yield training and test rows of ``n_folds`` folds: stratified if every class has a row in each fold."""
    by_class = not regression and np.unique(y, return_counts=True)[1].min() >= n_folds
    kind = StratifiedKFold if by_class else KFold
    return kind(n_folds, shuffle=True, random_state=seed).split(y, y)


class Pruned:
    """All cost-complexity prunings of a fitted tree of scikit-learn, from one fit.

    ``price[t]`` is the smallest penalty per leaf at which node t, or one above it, is a leaf: 0 at the leaves of the
    tree, and no less in a node than below it. At penalty a, the leaves of the pruned tree are the nodes with ``price <=
    a`` below those with ``price > a``: the tree that ``ccp_alpha=a`` gives.
    """

    def __init__(self, fitted):
        self.tree = tree = fitted.tree_
        self.left, self.right = tree.children_left, tree.children_right
        self.parent = np.full(tree.node_count, -1)
        inner = np.flatnonzero(self.left >= 0)
        self.parent[self.left[inner]] = self.parent[self.right[inner]] = inner
        self.price = _weakest_links(self.left, self.right, self.parent, self._misfit())

    def _misfit(self):
        """Return the fraction of the rows in each node times its impurity."""
        return self.tree.impurity * self.tree.weighted_n_node_samples / self.tree.weighted_n_node_samples[0]

    def prices(self):
        """Return a penalty inside each step of the path, from whole tree to root alone (Breiman et al. 1984, 11.6)."""
        steps = np.unique(np.append(self.price, 0.0))
        return np.append(np.sqrt(steps[:-1] * steps[1:]), 2.0 * steps[-1] + 1e-12)

    def sums_by_node(self, X, columns):
        """Return the sums (nodes, m) of ``columns`` (n, m) over the rows of X that pass through each node."""
        sums = np.zeros((self.tree.node_count, columns.shape[1]))
        np.add.at(sums, self.tree.apply(np.ascontiguousarray(X, dtype=np.float32)), columns)
        _add_below(self.parent, sums)
        return sums

    def totals(self, by_node, prices):
        """Return the sums (prices, m) of ``by_node`` (nodes, m) over the leaves of the tree pruned at each price."""
        above = np.append(np.inf, self.price[self.parent[1:]])
        first, last = np.searchsorted(prices, self.price), np.searchsorted(prices, above)
        steps = np.zeros((len(prices) + 1, by_node.shape[1]))
        np.add.at(steps, first, by_node)
        np.add.at(steps, last, -by_node)
        return np.cumsum(steps, axis=0)[:-1]

    def leaf_of(self, X, price):
        """Return the leaf (n,), as a node index, of each row in the tree pruned at ``price``."""
        up = _first_leaf(self.parent, self.price <= price)
        return up[self.tree.apply(np.ascontiguousarray(X, dtype=np.float32))]


@numba.njit(cache=True)
def _weakest_links(left, right, parent, misfit):
    """Return ``Pruned.price``: prune the weakest link of the remaining tree, again and again, up to the root.

    ``left``, ``right`` and ``parent`` are nodes, -1 if there is none; ``misfit`` is that of `Pruned._misfit`.
    """
    n = len(left)
    below, leaves = misfit.copy(), np.ones(n, dtype=np.int64)
    gain, price = np.full(n, np.inf), np.where(left < 0, 0.0, np.inf)
    waiting = [(np.inf, -1)]
    for t in range(n - 1, -1, -1):
        if left[t] >= 0:
            below[t] = below[left[t]] + below[right[t]]
            leaves[t] = leaves[left[t]] + leaves[right[t]]
            gain[t] = (misfit[t] - below[t]) / (leaves[t] - 1)
            heapq.heappush(waiting, (gain[t], t))
    paid = 0.0
    while leaves[0] > 1:
        g, t = heapq.heappop(waiting)
        if g != gain[t] or leaves[t] == 1:
            continue
        paid = max(paid, g)
        price[t] = paid
        lost, saved = leaves[t] - 1, misfit[t] - below[t]
        up = t
        while up >= 0:
            leaves[up] -= lost
            below[up] += saved
            if up != t:
                gain[up] = (misfit[up] - below[up]) / (leaves[up] - 1) if leaves[up] > 1 else np.inf
                heapq.heappush(waiting, (gain[up], up))
            up = parent[up]
        gone = [t]
        while gone:
            node = gone.pop()
            leaves[node] = 1
            for child in (left[node], right[node]):
                if leaves[child] > 1:
                    gone.append(child)
    for t in range(1, n):  # a node that went with one above
        price[t] = min(price[t], price[parent[t]])
    return price


@numba.njit(cache=True)
def _add_below(parent, sums):
    """Add to each node of ``sums`` (nodes, m) the sums of the nodes below it. Children come after their parents."""
    for t in range(len(parent) - 1, 0, -1):
        sums[parent[t]] += sums[t]


@numba.njit(cache=True)
def _first_leaf(parent, is_leaf):
    """Return for each node the uppermost node with ``is_leaf`` on the way from the root to it, or itself if none."""
    up = np.arange(len(parent))
    for t in range(1, len(parent)):
        if is_leaf[up[parent[t]]]:
            up[t] = up[parent[t]]
    return up


class Conformal:
    """Intervals of one width: the mean plus and minus a quantile of ``off`` (n,), absolute held-out residuals."""

    def predict_interval(self, X, coverage):
        fraction = min(coverage * (1.0 + 1.0 / len(self.off)), 1.0)
        half, mean = np.quantile(self.off, fraction, method="higher"), self.predict(X)
        return np.column_stack([mean - half, mean + half])


class Cart(Conformal):
    """scikit-learn's CART, with the penalty per leaf and the pseudo rows of its leaves chosen by one cross-validation.

    Every penalty of the whole tree's pruning path is tried, up to the root alone. A leaf with counts n_k predicts
    ``(n_k + a / K) / (n + a)`` with a of ``pseudo_rows``, or the mean of its rows in a regression. The loss is that of
    the comparison: log loss, or squared error. One fit for each fold and one of all rows; a first call compiles. With
    ``conformal`` a regression has intervals, from five folds in which the penalty is chosen again, in
    ``seconds_apart``.
    """

    def __init__(self, regression, n_folds=5, pseudo_rows=PSEUDO_ROWS, *, conformal=False):
        self.regression, self.n_folds, self.conformal = regression, n_folds, conformal
        self.kind = DecisionTreeRegressor if regression else DecisionTreeClassifier
        self.pseudo_rows = (0.0,) if regression else pseudo_rows

    def fit(self, X, y):
        self.classes = None if self.regression else np.unique(y)
        whole, sums = self._grown(X, y)
        prices = whole.prices()
        lost = np.zeros((len(prices), len(self.pseudo_rows)))
        for train, test in folds_of(y, self.n_folds, self.regression):
            tree, inside = self._grown(X[train], y[train])
            lost += tree.totals(self._losses(inside, tree.sums_by_node(X[test], self._columns(y[test]))), prices)
        # ties: the smallest tree
        at = len(prices) - 1 - int(np.argmin(lost[::-1].min(axis=1)))
        self.price, self.pseudo = prices[at], self.pseudo_rows[int(np.argmin(lost[at]))]
        self.pruned, self.value = whole, self._values(sums, self.pseudo)
        self.n_leaves = int(whole.totals(np.ones((len(sums), 1)), prices)[at, 0])
        if self.conformal:
            began = time.process_time()
            self.off = np.empty(len(y))
            for train, test in KFold(5, shuffle=True, random_state=2).split(X):
                inside = Cart(True, self.n_folds).fit(X[train], y[train])
                self.off[test] = np.abs(inside.predict(X[test]) - y[test])
            self.seconds_apart = time.process_time() - began
        return self

    def predict(self, X):
        return self.value[self.pruned.leaf_of(X, self.price)]

    def _grown(self, X, y):
        """Return the whole tree as `Pruned`, and the sums of `_columns` by node."""
        tree = Pruned(self.kind(random_state=0).fit(X, y))
        return tree, tree.sums_by_node(X, self._columns(y))

    def _columns(self, y):
        """Return the columns that are summed over rows: 1, y, y squared; or indicators of the classes."""
        if self.regression:
            return np.column_stack([np.ones(len(y)), y, y**2])
        return (np.searchsorted(self.classes, y)[:, None] == np.arange(len(self.classes))).astype(float)

    def _values(self, sums, pseudo):
        """Return the predictions of nodes (nodes, K or none) from sums of `_columns` and ``pseudo`` pseudo rows."""
        if self.regression:
            return sums[:, 1] / sums[:, 0]
        return (sums + pseudo / sums.shape[1]) / (sums.sum(axis=1, keepdims=True) + pseudo)

    def _losses(self, inside, outside):
        """Return the losses (nodes, pseudo rows) of the held-out rows of each node if it were a leaf."""
        if self.regression:
            mean = self._values(inside, 0.0)
            return (outside[:, 2] - 2.0 * mean * outside[:, 1] + mean**2 * outside[:, 0])[:, None]
        each = (-(outside * np.log(self._values(inside, a))).sum(axis=1) for a in self.pseudo_rows)
        return np.column_stack(list(each))


class Forest(Conformal):
    """Trees on bootstrap samples. For classes the number of pseudo votes, spread evenly, has the least loss out of bag.

    Without pseudo votes a class that no tree votes for would have probability 0, an infinite loss. Choosing their
    number, or computing the residuals out of bag of a regression, takes ``seconds_apart`` of processor time, which no
    user of a forest spends.
    """

    def __init__(self, regression, n_trees, **how):
        kind = RandomForestRegressor if regression else RandomForestClassifier
        self.regression = regression
        self.forest = kind(n_trees, random_state=0, n_jobs=1, **how)

    def fit(self, X, y):
        self.forest.fit(X, y)
        began = time.process_time()
        self.n_trees = len(self.forest.estimators_)
        self.classes = None if self.regression else self.forest.classes_
        votes, voters = np.zeros((len(y), 1 if self.regression else len(self.classes))), np.zeros((len(y), 1))
        for tree, drawn in zip(self.forest.estimators_, self.forest.estimators_samples_, strict=True):
            out = np.bincount(drawn, minlength=len(y)) == 0
            votes[out] += tree.predict(X[out])[:, None] if self.regression else tree.predict_proba(X[out])
            voters[out] += 1
        if self.regression:
            out = voters[:, 0] > 0
            self.off = np.abs(votes[out, 0] / voters[out, 0] - y[out])
        else:
            self.pseudo = min(PSEUDO_ROWS, key=lambda a: loss(self._smoothed(votes, voters, a), y, self.classes))
        self.seconds_apart = time.process_time() - began
        return self

    def predict(self, X):
        if self.regression:
            return self.forest.predict(X)
        return self._smoothed(self.n_trees * self.forest.predict_proba(X), self.n_trees, self.pseudo)

    @staticmethod
    def _smoothed(votes, voters, pseudo):
        """Return class probabilities from sums of ``votes`` (n, K) of ``voters`` trees and ``pseudo`` pseudo votes."""
        return (votes + pseudo / votes.shape[1]) / (voters + pseudo)


class Boosted:
    """scikit-learn's gradient boosting on histograms, with its defaults."""

    def __init__(self, regression):
        self.regression = regression
        self.boosted = (HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier)(random_state=0)

    def fit(self, X, y):
        self.boosted.fit(X, y)
        self.classes = None if self.regression else self.boosted.classes_
        return self

    def predict(self, X):
        return self.boosted.predict(X) if self.regression else self.boosted.predict_proba(X)


CONTEXT = {
    "16 bagged trees": lambda regression: Forest(regression, 16, max_features=None),
    "forest of 500": lambda regression: Forest(regression, 500),
    "boosting": Boosted,
}
"""Learners of another kind by name: sums and averages of trees."""
