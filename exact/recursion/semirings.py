"""The semirings in which the bottom-up recursion is computed.

A semiring is a NamedTuple of arrays with a value for each slot of the graph, and three functions: `leaf` starts the
value of a slot with that of a leaf, `add_split` adds the trees whose root has a given split, `store` writes the sum. A
fourth function, `choose`, is for the pass from the root down: it selects the leaf or split of a tree at a slot. A slot
is a pair of a cell and a depth.

===================  =====================  ============================  ================================
class                plus                   times                         value of the root
===================  =====================  ============================  ================================
`LogSum`             log(e^a + e^b)         a + b                         log evidence
`Best`               max(a, b)              a + b                         log joint of the best tree
`Residue`            a + b mod prime        a b mod prime                 number of trees, mod prime
`BestBySize`         max by coefficient     convolution with (max, +)     best tree of each size and count
`Hull`               hull of both           sum, edge by edge             best trees for each penalty
`SizeDistribution`   a + b                  product of polynomials        distribution of the leaves
`DepthDistribution`  a + b                  product, one level up         distribution of the depth
`Products`           a + b                  a b                           mean of products over a tree
`Moments`            mixture of two         sum of independent variables  mean and variance of sums
`Ranked`             merge of sorted lists  largest sums of two lists     the k best trees
===================  =====================  ============================  ================================

`SizeDistribution`, `DepthDistribution`, `Products` and `Moments` are expectations under the posterior and use the
values of `LogSum`. A new answer needs only a new class here, or in a file of its own as `Hull` in `hulls.py`.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import by_class, jit
from pactree_mcmc.core.names import short_repr

from ..graph.cells import children

LOWEST = -708.0
"""Below this exp(x) is taken for 0: it is less than 1e-307."""

_STEPS = 32 / log(2)
# log(2) / 32 in two parts: k times the first is exact
_STEP_HIGH = 6.93147180369123816490e-01 / 32
_STEP_LOW = 1.90821492927058770002e-10 / 32
_POWERS = 2.0 ** np.arange(-1022, 1)
_ROOTS = 2.0 ** (np.arange(32) / 32)
"""Tables of ``2^i`` and ``2^(j / 32)``, the two factors of `exp_down`."""


@jit
def exp_down(x: float) -> float:
    """Return exp(x) for x <= 0, or above 0 by no more than rounding; 0 for -inf and NaN.

    The library's exp costs ten times as much in a loop. With ``x = k log(2) / 32 + r`` and ``k = 32 i + j``, exp(x) is
    ``2^i * 2^(j / 32)``, two table entries, times a polynomial in ``|r| < 0.011``; within two units in the last place.
    """
    if not x > LOWEST:
        return 0.0
    k = np.int64(x * _STEPS - 0.5)
    r = (x - k * _STEP_HIGH) - k * _STEP_LOW
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720))))))
    return _POWERS[1022 + (k >> 5)] * _ROOTS[k & 31] * series


NEGLIGIBLE = 1e-3
"""A split is left out if its probability is below this fraction of the probability that its slot may lose."""


@by_class
def leaf(semiring: Any, cell: int, slot: int, log_stop: float) -> Any:
    """Return the value of a slot as a leaf, with which the sum over the trees below the slot starts."""
    raise TypeError(f"{type(semiring).__name__} is not a semiring.")


@by_class
def add_split(semiring: Any, so_far: Any, slot: int, e: int, log_weight: float, left: int, right: int) -> Any:
    """Return the sum ``so_far`` plus the value of all trees with split ``e`` at the slot.

    ``left`` and ``right`` are the slots of the two children. ``log_weight`` is the log prior factor of the split.
    """
    raise TypeError(f"{type(semiring).__name__} is not a semiring.")


@by_class
def store(semiring: Any, slot: int, total: Any) -> None:
    """Write the finished sum of a slot into the arrays of the semiring."""
    raise TypeError(f"{type(semiring).__name__} is not a semiring.")


@by_class
def choose(semiring: Any, rng: Any, graph: Any, cell: int, slot: int, below: int, wanted: int) -> Any:
    """Return the split of a tree at a slot, -1 for a leaf, and what to choose at its left and its right child.

    ``wanted`` identifies the tree if the semiring has several for a slot: by its rank, or the place of a coefficient.
    The two numbers returned for the children are the ``wanted`` of their subtrees. ``below`` is the children's depth.
    """
    raise TypeError(f"{type(semiring).__name__} is not a semiring that trees can be taken from.")


@jit
def fraction(log_term: float, log_total: float) -> float:
    """Return the ratio of a term to the total that contains it, from their logs; 0 if the total is 0."""
    return exp_down(log_term - log_total)


class LogSum(NamedTuple):
    """(log-sum-exp, +): log of the sum of the weights of all trees below each slot.

    The terms of a slot are summed as ``top + log(sum of exp(term - top))`` with the largest term as top, so that not
    all of them underflow, and none overflows.
    """

    value: np.ndarray  # (n_slots,) float64
    # (most splits of a cell + 1,) float64: the terms of the current slot, summed when the largest is known
    term: np.ndarray


@leaf.register(LogSum)
def _(semiring, cell, slot, log_stop):
    semiring.term[0] = log_stop
    return log_stop, 1


@add_split.register(LogSum)
def _(semiring, so_far, slot, e, log_weight, left, right):
    top, n = so_far
    term = log_weight + semiring.value[left] + semiring.value[right]
    semiring.term[n] = term
    return max(top, term), n + 1


@store.register(LogSum)
def _(semiring, slot, total):
    top, n = total
    if n == 1 or top == -np.inf:
        semiring.value[slot] = top
        return
    summed = 0.0
    for i in range(n):
        summed += exp_down(semiring.term[i] - top)
    semiring.value[slot] = top + log(summed)


@choose.register(LogSum)
def _(semiring, rng, graph, cell, slot, below, wanted):
    """Draw a leaf or a split with probability proportional to the sum of the weights of its trees."""
    value, split, total = semiring.value, graph.log_split[slot], semiring.value[slot]
    if split == -np.inf:
        return -1, 0, 0
    u, last = rng.random() - fraction(graph.log_stop[slot], total), -1
    if u < 0.0:
        return -1, 0, 0
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = children(graph, e, below)
        part = fraction(split + graph.log_rule[e] + value[left] + value[right], total)
        u -= part
        if part > 0.0:
            last = e
        if u < 0.0:
            break
    # by rounding the draw may exceed the sum of the terms: then take the last split of positive probability
    return last, 0, 0


class Best(NamedTuple):
    """(max, +): the largest log weight of a tree below each slot."""

    value: np.ndarray  # (n_slots,) float64


@leaf.register(Best)
def _(semiring, cell, slot, log_stop):
    return log_stop


@add_split.register(Best)
def _(semiring, so_far, slot, e, log_weight, left, right):
    return max(so_far, log_weight + semiring.value[left] + semiring.value[right])


@choose.register(Best)
def _(semiring, rng, graph, cell, slot, below, wanted):
    value, split, best = semiring.value, graph.log_split[slot], -1
    top = graph.log_stop[slot]
    if split > -np.inf:
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = children(graph, e, below)
            term = split + graph.log_rule[e] + value[left] + value[right]
            if term > top:
                best, top = e, term
    return best, 0, 0


class Residue(NamedTuple):
    """Integers modulo a prime: the number of trees of positive weight below each slot."""

    value: np.ndarray  # (n_slots,) uint64
    prime: int  # Below 2^31, a uint64


@leaf.register(Residue)
def _(semiring, cell, slot, log_stop):
    return np.uint64(1) if log_stop > -np.inf else np.uint64(0)


@add_split.register(Residue)
def _(semiring, so_far, slot, e, log_weight, left, right):
    if log_weight == -np.inf:
        return so_far
    return (so_far + semiring.value[left] * semiring.value[right]) % semiring.prime


class BestBySize(NamedTuple):
    """(max, +) polynomials: the largest log weight for each number of leaves and each count.

    A count is an integer that is summed over the leaves, such as the number of false alarms. A leaf may have several
    options, such as its labels, each with its count and its log weight. If counts are not used, all are 0.
    """

    def __repr__(self) -> str:
        return short_repr(self)

    start: np.ndarray  # (n_slots + 1,) int64: place of the first coefficient of each slot
    # (n_slots,) int64: largest number of leaves kept, 1 to ``wide`` are; 0 for a slot that no tree considered reaches
    wide: np.ndarray
    tall: np.ndarray  # (n_slots,) int64: counts kept, 0 to tall - 1
    # (sum of wide times tall,) float64: entry ``t * wide + m - 1`` of a slot is for m leaves and counts t
    value: np.ndarray
    counts: np.ndarray  # (n_slots, n_options) int64: count of each option of a leaf
    gain: np.ndarray  # (n_slots, n_options) float64: log weight of each option, added to that of the leaf


@leaf.register(BestBySize)
def _(semiring, cell, slot, log_stop):
    start, wide = semiring.start[slot], semiring.wide[slot]
    for i in range(start, semiring.start[slot + 1]):
        semiring.value[i] = -np.inf
    if wide > 0:
        for option in range(semiring.counts.shape[1]):
            t = semiring.counts[slot, option]
            if t < semiring.tall[slot]:
                at = start + t * wide
                semiring.value[at] = max(semiring.value[at], log_stop + semiring.gain[slot, option])
    return 0


@add_split.register(BestBySize)
def _(semiring, so_far, slot, e, log_weight, left, right):
    value, wide, wide_right = semiring.value, semiring.wide[slot], semiring.wide[right]
    for t_left in range(semiring.tall[left]):
        for m_left in range(1, min(semiring.wide[left], wide - 1) + 1):
            term = log_weight + value[semiring.start[left] + t_left * semiring.wide[left] + m_left - 1]
            if term == -np.inf:
                continue
            m_most = min(wide_right, wide - m_left)
            for t_right in range(min(semiring.tall[right], semiring.tall[slot] - t_left)):
                at = semiring.start[slot] + (t_left + t_right) * wide + m_left
                other = semiring.start[right] + t_right * wide_right
                for m in range(m_most):
                    value[at + m] = max(value[at + m], term + value[other + m])
    return so_far


@choose.register(BestBySize)
def _(semiring, rng, graph, cell, slot, below, wanted):
    """``wanted`` is the place of a coefficient, counted from the slot's first one: a number of leaves and a count."""
    value, start, wide = semiring.value, semiring.start, semiring.wide
    m, t = wanted % wide[slot] + 1, wanted // wide[slot]
    best, wanted_left, wanted_right, top = -1, 0, 0, -np.inf
    if m == 1 or graph.log_split[slot] == -np.inf:
        return best, wanted_left, wanted_right
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = children(graph, e, below)
        weight = graph.log_split[slot] + graph.log_rule[e]
        for t_left in range(max(0, t - semiring.tall[right] + 1), min(t + 1, semiring.tall[left])):
            for m_left in range(max(1, m - wide[right]), min(m - 1, wide[left]) + 1):
                i = t_left * wide[left] + m_left - 1
                j = (t - t_left) * wide[right] + m - m_left - 1
                term = weight + value[start[left] + i] + value[start[right] + j]
                if term > top:
                    best, wanted_left, wanted_right, top = e, i, j, term
    return best, wanted_left, wanted_right


class SizeDistribution(NamedTuple):
    """Polynomials whose coefficients are posterior probabilities of the numbers of leaves below a slot.

    With q_e the posterior probability of split e given the slot s,

        P_s(m)  =  P(s is a leaf) [m = 1]  +  sum over e and k of  q_e * P_left(k) * P_right(m - k) .
    """

    start: np.ndarray  # (n_slots,) int64: place of the first coefficient of each slot
    length: np.ndarray  # (n_slots,) int64: number of coefficients of each slot; the first is for one leaf
    value: np.ndarray  # float64: coefficients of all slots; if the array is too short, the last ones are not stored
    row: np.ndarray  # (most leaves,) float64: coefficients of the current slot
    used: np.ndarray  # (1,) int64: number of coefficients so far, with those that did not fit
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`
    # (n_slots,) float64: probability that may be cut off the slot's distribution
    spare: np.ndarray


@leaf.register(SizeDistribution)
def _(semiring, cell, slot, log_stop):
    semiring.row[0] = fraction(log_stop, semiring.log_inside[slot])
    return 1


@add_split.register(SizeDistribution)
def _(semiring, so_far, slot, e, log_weight, left, right):
    row, value, log_inside = semiring.row, semiring.value, semiring.log_inside
    part = fraction(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if part < NEGLIGIBLE * semiring.spare[slot]:
        return so_far
    n_left, n_right = semiring.length[left], semiring.length[right]
    longest = max(so_far, min(n_left + n_right, len(row)))
    for m in range(so_far, longest):
        row[m] = 0.0
    for i in range(min(n_left, len(row) - 1)):
        term = part * value[semiring.start[left] + i]
        other = semiring.start[right]
        for j in range(min(n_right, len(row) - 1 - i)):
            row[i + j + 1] += term * value[other + j]
    return longest


@store.register(SizeDistribution)
def _(semiring, slot, total):
    row, tail = semiring.row, 0.0
    while total > 0 and tail + row[total - 1] <= semiring.spare[slot]:
        total -= 1
        tail += row[total]
    start = semiring.used[0]
    semiring.used[0] += total
    if semiring.used[0] > len(semiring.value):
        total = 0
    for m in range(total):
        semiring.value[start + m] = row[m]
    semiring.start[slot], semiring.length[slot] = start, total


class DepthDistribution(NamedTuple):
    """Posterior probability that the tree below a slot has at most d levels.

    ``F_s(d) = P(s is a leaf) + sum over e of q_e F_left(d - 1) F_right(d - 1)``, since two subtrees are independent.
    """

    value: np.ndarray  # (n_slots, depths) float64: entry d for at most d levels
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`


@leaf.register(DepthDistribution)
def _(semiring, cell, slot, log_stop):
    stop = fraction(log_stop, semiring.log_inside[slot])
    for d in range(semiring.value.shape[1]):
        semiring.value[slot, d] = stop
    return 0


@add_split.register(DepthDistribution)
def _(semiring, so_far, slot, e, log_weight, left, right):
    value, log_inside = semiring.value, semiring.log_inside
    part = fraction(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if part > 0.0:
        for d in range(1, value.shape[1]):
            value[slot, d] += part * (value[left, d - 1] * value[right, d - 1])
    return so_far


class Products(NamedTuple):
    """Posterior means of m products over the nodes of a tree.

    Product j has the factor ``worth[j]`` for each leaf, the factor 0 for a split on the feature that j bans, and the
    factor 1 for any other split.
    """

    value: np.ndarray  # (n_slots, m) float64
    worth: np.ndarray  # (m,) float64
    banned_by: np.ndarray  # (p,) int64: the product that bans each feature, -1 if none does
    feature: np.ndarray  # (n_edges,) int32: feature of each split
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`
    spare: np.ndarray  # (n_slots,) float64: probability of splits that may be left out


@leaf.register(Products)
def _(semiring, cell, slot, log_stop):
    stop = fraction(log_stop, semiring.log_inside[slot])
    for j in range(semiring.value.shape[1]):
        semiring.value[slot, j] = stop * semiring.worth[j]
    return 0


@add_split.register(Products)
def _(semiring, so_far, slot, e, log_weight, left, right):
    value, log_inside = semiring.value, semiring.log_inside
    part = fraction(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if part < NEGLIGIBLE * semiring.spare[slot]:
        return so_far
    banned = semiring.banned_by[semiring.feature[e]]
    kept = value[slot, banned]
    for j in range(value.shape[1]):
        value[slot, j] += part * value[left, j] * value[right, j]
    if banned >= 0:
        value[slot, banned] = kept
    return so_far


class Moments(NamedTuple):
    """Posterior mean and variance of functions that add over the leaves and the splits of a tree.

    Given the split, the two subtrees are independent: means and variances add. The distribution of a slot is the
    mixture over its splits, of weights q, means a and variances v. Its mean and variance are updated by West (1979),

        mass += q,   mean += q / mass * (a - mean),   variance += q * (v + (a - old mean) * (a - new mean)) ,

    a sum of positive terms, which does not cancel as the mean square minus the squared mean does.
    """

    mean: np.ndarray  # (n_slots, m) float64
    variance: np.ndarray  # (n_slots, m) float64
    of_leaf: np.ndarray  # (n_cells, m) float64: value that each cell adds as a leaf
    of_split: np.ndarray  # (n_edges, m) float64: value that each split adds; (0, m) if all of them are 0
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`


@leaf.register(Moments)
def _(semiring, cell, slot, log_stop):
    for j in range(semiring.mean.shape[1]):
        semiring.mean[slot, j] = semiring.of_leaf[cell, j]
        semiring.variance[slot, j] = 0.0
    return fraction(log_stop, semiring.log_inside[slot])


@add_split.register(Moments)
def _(semiring, so_far, slot, e, log_weight, left, right):
    mean, variance, log_inside = semiring.mean, semiring.variance, semiring.log_inside
    part = fraction(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if part == 0.0:
        return so_far
    mass = so_far + part
    for j in range(mean.shape[1]):
        here = mean[left, j] + mean[right, j]
        if len(semiring.of_split) > 0:
            here += semiring.of_split[e, j]
        away = here - mean[slot, j]
        mean[slot, j] += away * (part / mass)
        within = variance[left, j] + variance[right, j]
        variance[slot, j] += part * (within + away * (here - mean[slot, j]))
    return mass


@store.register(Moments)
def _(semiring, slot, total):
    if total > 0.0:
        for j in range(semiring.mean.shape[1]):
            semiring.variance[slot, j] /= total


@store.register(Best)
@store.register(Residue)
def _(semiring, slot, total):
    semiring.value[slot] = total


@store.register(BestBySize)
@store.register(DepthDistribution)
@store.register(Products)
def _(semiring, slot, total):
    pass


class Ranked(NamedTuple):
    """Lists of the best trees below some slots, best first, as `trees.rank_trees` finds them."""

    first: np.ndarray  # (n_slots,) int64: place in the other arrays of the best tree of a slot, -1 if it has no list
    split: np.ndarray  # int64: split at the root of each tree, -1 for a leaf
    left: np.ndarray  # int64: rank of the left subtree among the trees of the left child, 0 for the best
    right: np.ndarray  # int64: rank of the right subtree among the trees of the right child


@choose.register(Ranked)
def _(semiring, rng, graph, cell, slot, below, wanted):
    """``wanted`` is the rank of the tree among those of the slot, 0 for the best."""
    at = semiring.first[slot] + wanted
    return semiring.split[at], semiring.left[at], semiring.right[at]
