"""The semirings in which the bottom-up recursion is computed.

A semiring is a NamedTuple of arrays with a value for each slot of the graph of cells. Three functions compute the value
of a slot, the sum over the trees below it. `start_with_leaf` returns the first term, `add_split` adds the trees whose
root has a given split, and `store` writes the sum. The *accumulator* is what they pass on: the sum so far, or the part
of it that is not in the arrays of the semiring. A fourth function, `choose_split`, is for growing trees from the root
down: it selects the leaf or split of a tree at a slot.

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
values of `LogSum`. A new answer needs only a new class here.
"""

from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import by_class, jit
from pactree_mcmc.core.texts import with_short_repr

from ..graph.cells import child_slots

MIN_EXPONENT = -708.0  # exponent below which `exp_down` returns 0: exp(x) is less than 1e-307

_STEPS_PER_UNIT = 32 / log(2)
# log(2) / 32 in two parts: k times the first is exact
_STEP_HIGH = 6.93147180369123816490e-01 / 32
_STEP_LOW = 1.90821492927058770002e-10 / 32
_POWERS = 2.0 ** np.arange(-1022, 1)
_ROOTS = 2.0 ** (np.arange(32) / 32)  # tables of ``2^i`` and ``2^(j / 32)``, the two factors of `exp_down`


@jit
def exp_down(x: float) -> float:
    """Return exp(x) for x <= 0, or above 0 by no more than rounding, within two units in the last place."""
    # 0 for x <= -708, NaN
    # The library's exp costs ten times as much in a loop. With x = k log(2) / 32 + r and k = 32 i + j, exp(x) is 2^i *
    # 2^(j / 32), two table entries, times a polynomial in |r| < 0.011
    if not x > MIN_EXPONENT:
        return 0.0
    if x > 0.5:
        # beyond the tables, and never by rounding
        return exp(x)
    k = np.int64(x * _STEPS_PER_UNIT - 0.5)
    r = (x - k * _STEP_HIGH) - k * _STEP_LOW
    series = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720))))))
    return _POWERS[1022 + (k >> 5)] * _ROOTS[k & 31] * series


# a split is left out if its probability is below this fraction of the probability that its slot may lose
NEGLIGIBLE_FRACTION = 1e-3


@by_class
def start_with_leaf(semiring: Any, cell: int, slot: int, log_stop: float) -> Any:
    """Return the accumulator (sum so far) of a slot with the leaf alone, of log weight `log_stop`."""
    raise TypeError(f"{type(semiring).__name__} is not a semiring.")


@by_class
def add_split(semiring: Any, accumulator: Any, slot: int, e: int, log_weight: float, left: int, right: int) -> Any:
    """Return the accumulator of a slot after adding all trees with split `e`, of `log_weight` nats, at the root."""
    raise TypeError(f"{type(semiring).__name__} is not a semiring.")


@by_class
def store(semiring: Any, slot: int, total: Any) -> None:
    """Write the sum over the trees below a slot (a cell at a depth), which is ``total``, into the semiring's arrays."""
    raise TypeError(f"{type(semiring).__name__} is not a semiring.")


@by_class
def choose_split(semiring: Any, rng: Any, graph: Any, cell: int, slot: int, child_depth: int, tree_number: int) -> Any:
    """Return the split (-1 for a leaf) of tree ``tree_number`` at a slot, and the tree numbers of its two subtrees."""
    # a number identifies a tree by rank, size or penalty, as the semiring says; only `LogSum` draws from `rng`
    raise TypeError(f"{type(semiring).__name__} is not a semiring that trees can be taken from.")


@jit
def fraction_of_total(log_term: float, log_total: float) -> float:
    return exp_down(log_term - log_total)


class LogSum(NamedTuple):
    """(log-sum-exp, +): log of the sum of the weights of all trees below each slot."""

    # terms are summed as top + log(sum of exp(term - top)), with the largest as top: not all underflow, none overflows
    value: np.ndarray  # (n_slots,) float64
    # (most splits of a cell + 1,) float64: the terms of the current slot, summed when the largest is known
    term: np.ndarray


@start_with_leaf.register(LogSum)
def _(semiring, cell, slot, log_stop):
    semiring.term[0] = log_stop
    return log_stop, 1


@add_split.register(LogSum)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    top, n = accumulator
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


@choose_split.register(LogSum)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Draw, as `choose_split` of `LogSum`, a leaf (-1) or a split by its trees' weight; the tree numbers are 0."""
    value, split, total = semiring.value, graph.log_split[slot], semiring.value[slot]
    if split == -np.inf:
        return -1, 0, 0
    u, last = rng.random() - fraction_of_total(graph.log_stop[slot], total), -1
    if u < 0.0:
        return -1, 0, 0
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = child_slots(graph, e, child_depth)
        split_probability = fraction_of_total(split + graph.log_rule[e] + value[left] + value[right], total)
        u -= split_probability
        if split_probability > 0.0:
            last = e
        if u < 0.0:
            break
    # by rounding the draw may exceed the sum of the terms: then take the last split of positive probability
    return last, 0, 0


class Best(NamedTuple):
    """(max, +): the largest log weight of a tree below each slot, a cell at a depth."""

    value: np.ndarray  # (n_slots,) float64


@start_with_leaf.register(Best)
def _(semiring, cell, slot, log_stop):
    return log_stop


@add_split.register(Best)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    return max(accumulator, log_weight + semiring.value[left] + semiring.value[right])


@choose_split.register(Best)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    value, split, best = semiring.value, graph.log_split[slot], -1
    top = graph.log_stop[slot]
    if split > -np.inf:
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = child_slots(graph, e, child_depth)
            term = split + graph.log_rule[e] + value[left] + value[right]
            if term > top:
                best, top = e, term
    return best, 0, 0


class Residue(NamedTuple):
    """Integers modulo a prime: the number of trees of positive weight below each slot."""

    value: np.ndarray  # (n_slots,) uint64
    prime: int  # Below 2^31, a uint64


@start_with_leaf.register(Residue)
def _(semiring, cell, slot, log_stop):
    return np.uint64(1) if log_stop > -np.inf else np.uint64(0)


@add_split.register(Residue)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    if log_weight == -np.inf:
        return accumulator
    return (accumulator + semiring.value[left] * semiring.value[right]) % semiring.prime


@with_short_repr
class BestBySize(NamedTuple):
    """(max, +) polynomials: the largest log weight for each number of leaves and each count."""

    # a count is an integer summed over the leaves, such as false alarms; a leaf may have several options, such as its
    # labels, each with its count and log weight; if counts are not used, all are 0
    start: np.ndarray  # (n_slots + 1,) int64: place of the first coefficient of each slot
    # (n_slots,) int64: coefficients are kept for 1 to n_sizes leaves; 0 for a slot that no tree considered reaches
    n_sizes: np.ndarray
    n_counts: np.ndarray  # (n_slots,) int64: coefficients are kept for counts 0 to n_counts - 1
    # (sum of n_sizes * n_counts,) float64: entry ``t * n_sizes + m - 1`` of a slot is for m leaves and count t, nats
    value: np.ndarray
    counts: np.ndarray  # (n_slots, n_options) int64: term of each option of a leaf in the count of the tree
    gain: np.ndarray  # (n_slots, n_options) float64: log weight of each option, added to that of the leaf


@start_with_leaf.register(BestBySize)
def _(semiring, cell, slot, log_stop):
    start, n_sizes = semiring.start[slot], semiring.n_sizes[slot]
    for i in range(start, semiring.start[slot + 1]):
        semiring.value[i] = -np.inf
    if n_sizes > 0:
        for option in range(semiring.counts.shape[1]):
            t = semiring.counts[slot, option]
            if t < semiring.n_counts[slot]:
                at = start + t * n_sizes
                semiring.value[at] = max(semiring.value[at], log_stop + semiring.gain[slot, option])
    return 0


@add_split.register(BestBySize)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    value, n_sizes, wide_right = semiring.value, semiring.n_sizes[slot], semiring.n_sizes[right]
    for t_left in range(semiring.n_counts[left]):
        for m_left in range(1, min(semiring.n_sizes[left], n_sizes - 1) + 1):
            term = log_weight + value[semiring.start[left] + t_left * semiring.n_sizes[left] + m_left - 1]
            if term == -np.inf:
                continue
            m_most = min(wide_right, n_sizes - m_left)
            for t_right in range(min(semiring.n_counts[right], semiring.n_counts[slot] - t_left)):
                at = semiring.start[slot] + (t_left + t_right) * n_sizes + m_left
                other = semiring.start[right] + t_right * wide_right
                for m in range(m_most):
                    value[at + m] = max(value[at + m], term + value[other + m])
    return accumulator


@choose_split.register(BestBySize)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Return, as `choose_split` of `BestBySize`, the split (-1."""
    # leaf) of a tree, and the numbers of its two subtrees
    value, start, n_sizes = semiring.value, semiring.start, semiring.n_sizes
    m, t = tree_number % n_sizes[slot] + 1, tree_number // n_sizes[slot]
    best, left_number, right_number, top = -1, 0, 0, -np.inf
    if m == 1 or graph.log_split[slot] == -np.inf:
        return best, left_number, right_number
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = child_slots(graph, e, child_depth)
        weight = graph.log_split[slot] + graph.log_rule[e]
        for t_left in range(max(0, t - semiring.n_counts[right] + 1), min(t + 1, semiring.n_counts[left])):
            for m_left in range(max(1, m - n_sizes[right]), min(m - 1, n_sizes[left]) + 1):
                i = t_left * n_sizes[left] + m_left - 1
                j = (t - t_left) * n_sizes[right] + m - m_left - 1
                term = weight + value[start[left] + i] + value[start[right] + j]
                if term > top:
                    best, left_number, right_number, top = e, i, j, term
    return best, left_number, right_number


class SizeDistribution(NamedTuple):
    """Polynomials whose coefficients are posterior probabilities of the numbers of leaves below a slot."""

    # with q_e the posterior probability of split e given the slot s,
    #     P_s(m)  =  P(s is a leaf) [m = 1]  +  sum over e and k of  q_e * P_left(k) * P_right(m - k)
    start: np.ndarray  # (n_slots,) int64: place of the first coefficient of each slot
    length: np.ndarray  # (n_slots,) int64: number of coefficients of each slot; the first is for one leaf
    value: np.ndarray  # float64: coefficients of all slots; if the array is too short, the last ones are not stored
    buffer: np.ndarray  # (most leaves,) float64: coefficients of the current slot
    n_needed: np.ndarray  # (1,) int64: number of coefficients of the finished slots, with those that did not fit
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`
    # (n_slots,) float64: probability that may be cut off the slot's distribution
    max_loss: np.ndarray


@start_with_leaf.register(SizeDistribution)
def _(semiring, cell, slot, log_stop):
    semiring.buffer[0] = fraction_of_total(log_stop, semiring.log_inside[slot])
    return 1


@add_split.register(SizeDistribution)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    buffer, value, log_inside = semiring.buffer, semiring.value, semiring.log_inside
    split_probability = fraction_of_total(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if split_probability < NEGLIGIBLE_FRACTION * semiring.max_loss[slot]:
        return accumulator
    n_left, n_right = semiring.length[left], semiring.length[right]
    longest = max(accumulator, min(n_left + n_right, len(buffer)))
    for m in range(accumulator, longest):
        buffer[m] = 0.0
    for i in range(min(n_left, len(buffer) - 1)):
        term = split_probability * value[semiring.start[left] + i]
        other = semiring.start[right]
        for j in range(min(n_right, len(buffer) - 1 - i)):
            buffer[i + j + 1] += term * value[other + j]
    return longest


@store.register(SizeDistribution)
def _(semiring, slot, total):
    buffer, tail = semiring.buffer, 0.0
    while total > 0 and tail + buffer[total - 1] <= semiring.max_loss[slot]:
        total -= 1
        tail += buffer[total]
    start = semiring.n_needed[0]
    semiring.n_needed[0] += total
    if semiring.n_needed[0] > len(semiring.value):
        total = 0
    for m in range(total):
        semiring.value[start + m] = buffer[m]
    semiring.start[slot], semiring.length[slot] = start, total


class DepthDistribution(NamedTuple):
    """Posterior probability that the tree below a slot has at most depth d, counted from the slot (0: a leaf)."""

    # F_s(d) = P(s is a leaf) + sum over e of q_e F_left(d - 1) F_right(d - 1), since two subtrees are independent
    value: np.ndarray  # (n_slots, depths) float64: entry d for at most d levels
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`


@start_with_leaf.register(DepthDistribution)
def _(semiring, cell, slot, log_stop):
    stop = fraction_of_total(log_stop, semiring.log_inside[slot])
    for d in range(semiring.value.shape[1]):
        semiring.value[slot, d] = stop
    return 0


@add_split.register(DepthDistribution)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    value, log_inside = semiring.value, semiring.log_inside
    split_probability = fraction_of_total(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if split_probability > 0.0:
        for d in range(1, value.shape[1]):
            value[slot, d] += split_probability * (value[left, d - 1] * value[right, d - 1])
    return accumulator


class Products(NamedTuple):
    """Posterior means of m products over the nodes of a tree."""

    # Product j has the factor leaf_factor[j] for each leaf, 0 for a split on the feature that j bans, 1 for other
    # splits. With q_e the posterior probability of split e given the slot s, the mean is
    #     E_s(j)  =  P(s is a leaf) leaf_factor[j]  +  sum over e that j does not ban of  q_e E_left(j) E_right(j) ,
    # since the two subtrees are independent given the split
    value: np.ndarray  # (n_slots, m) float64
    leaf_factor: np.ndarray  # (m,) float64
    banned_by: np.ndarray  # (p,) int64: the product that bans each feature, -1 if none does
    feature: np.ndarray  # (n_edges,) int32: feature of each split
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`
    max_loss: np.ndarray  # (n_slots,) float64: probability of splits that may be left out


@start_with_leaf.register(Products)
def _(semiring, cell, slot, log_stop):
    stop = fraction_of_total(log_stop, semiring.log_inside[slot])
    for j in range(semiring.value.shape[1]):
        semiring.value[slot, j] = stop * semiring.leaf_factor[j]
    return 0


@add_split.register(Products)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    value, log_inside = semiring.value, semiring.log_inside
    split_probability = fraction_of_total(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if split_probability < NEGLIGIBLE_FRACTION * semiring.max_loss[slot]:
        return accumulator
    banned = semiring.banned_by[semiring.feature[e]]
    value_of_banned = value[slot, banned]
    for j in range(value.shape[1]):
        value[slot, j] += split_probability * value[left, j] * value[right, j]
    if banned >= 0:
        value[slot, banned] = value_of_banned
    return accumulator


class Moments(NamedTuple):
    """Posterior mean and variance of functions that add over the leaves and the splits of a tree."""

    # Given the split, the two subtrees are independent: means and variances add. The distribution of a slot is the
    # mixture over its splits, of weights q, means a and variances v, updated by West (1979):
    #     mass += q,   mean += q / mass * (a - mean),   variance += q * (v + (a - old mean) * (a - new mean)) ,
    # a sum of positive terms, which does not cancel as the mean square minus the squared mean does
    mean: np.ndarray  # (n_slots, m) float64
    variance: np.ndarray  # (n_slots, m) float64
    of_leaf: np.ndarray  # (n_cells, m) float64: value that each cell adds as a leaf
    of_split: np.ndarray  # (n_edges, m) float64: value that each split adds; (0, m) if all of them are 0
    log_inside: np.ndarray  # (n_slots,) float64: values of `LogSum`


@start_with_leaf.register(Moments)
def _(semiring, cell, slot, log_stop):
    for j in range(semiring.mean.shape[1]):
        semiring.mean[slot, j] = semiring.of_leaf[cell, j]
        semiring.variance[slot, j] = 0.0
    return fraction_of_total(log_stop, semiring.log_inside[slot])


@add_split.register(Moments)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    mean, variance, log_inside = semiring.mean, semiring.variance, semiring.log_inside
    split_probability = fraction_of_total(log_weight + log_inside[left] + log_inside[right], log_inside[slot])
    if split_probability == 0.0:
        return accumulator
    mass = accumulator + split_probability
    for j in range(mean.shape[1]):
        split_mean = mean[left, j] + mean[right, j]
        if len(semiring.of_split) > 0:
            split_mean += semiring.of_split[e, j]
        deviation = split_mean - mean[slot, j]
        mean[slot, j] += deviation * (split_probability / mass)
        split_variance = variance[left, j] + variance[right, j]
        variance[slot, j] += split_probability * (split_variance + deviation * (split_mean - mean[slot, j]))
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


@choose_split.register(Ranked)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Return, as `choose_split` of `Ranked`, the split of the tree of rank ``tree_number`` (0: best) and both ranks."""
    at = semiring.first[slot] + tree_number
    return semiring.split[at], semiring.left[at], semiring.right[at]


@with_short_repr
class Hull(NamedTuple):
    """The maximum over trees of weight minus alpha times the number of leaves, for all alpha >= 0."""

    # h_s(alpha) = max over trees of weight - alpha * leaves is a maximum of lines, stored as the vertices of the upper
    # hull of the points (leaves, weight) of a slot's trees, from the fewest leaves to the largest weight. Two subtrees
    # are chosen independently: h(alpha) = h_left(alpha) + h_right(alpha), so the edges of the hull of the sums are
    # those of both hulls, in order of slope. At the root of a fixed tree the vertices are the trees of weakest-link
    # pruning (formulas, section 8)
    start: np.ndarray  # (n_slots,) int64: place of the first vertex of each slot in ``leaves`` and ``weight``
    length: np.ndarray  # (n_slots,) int64: number of vertices of each slot
    leaves: np.ndarray  # float64: number of leaves of each vertex, ascending within a slot
    weight: np.ndarray  # float64: log weight of each vertex, ascending within a slot
    # (3, 2, most leaves + 1) float64: vertices (leaves, weight) of the current slot, of one split, and of both
    buffer: np.ndarray
    n_needed: np.ndarray  # (1,) int64: number of vertices so far, with those that did not fit into the arrays


@start_with_leaf.register(Hull)
def _(semiring, cell, slot, log_stop):
    if log_stop == -np.inf:
        return 0
    semiring.buffer[0, 0, 0], semiring.buffer[0, 1, 0] = 1.0, log_stop
    return 1


@add_split.register(Hull)
def _(semiring, accumulator, slot, e, log_weight, left, right):
    buffer = semiring.buffer
    n_split = add_hulls_into_buffer(semiring, left, right, log_weight)
    if n_split == 0:
        return accumulator
    n, i, j = 0, 0, 0
    while i < accumulator or j < n_split:
        from_first = i < accumulator
        if from_first and j < n_split:
            from_first = buffer[0, 0, i] < buffer[1, 0, j] or (
                buffer[0, 0, i] == buffer[1, 0, j] and buffer[0, 1, i] >= buffer[1, 1, j]
            )
        if from_first:
            n = add_vertex(buffer[2], n, buffer[0, 0, i], buffer[0, 1, i])
            i += 1
        else:
            n = add_vertex(buffer[2], n, buffer[1, 0, j], buffer[1, 1, j])
            j += 1
    for i in range(n):
        buffer[0, 0, i], buffer[0, 1, i] = buffer[2, 0, i], buffer[2, 1, i]
    return n


@jit
def add_hulls_into_buffer(semiring: Any, left: int, right: int, log_weight: float) -> int:
    """Write the hull of the trees with a given split into ``semiring.buffer[1]``."""
    # return its number of vertices, 0 if none
    # each step goes along the hull whose next edge has the larger gain of weight per leaf, compared without division
    leaves, weight, buffer = semiring.leaves, semiring.weight, semiring.buffer
    i, j = semiring.start[left], semiring.start[right]
    last_i, last_j = i + semiring.length[left] - 1, j + semiring.length[right] - 1
    if last_i < i or last_j < j or log_weight == -np.inf:
        return 0
    n = 0
    while True:
        buffer[1, 0, n], buffer[1, 1, n] = leaves[i] + leaves[j], log_weight + (weight[i] + weight[j])
        n += 1
        if i == last_i and j == last_j:
            return n
        steps_i, steps_j = j == last_j, i == last_i
        if i < last_i and j < last_j:
            gain_i = (weight[i + 1] - weight[i]) * (leaves[j + 1] - leaves[j])
            gain_j = (weight[j + 1] - weight[j]) * (leaves[i + 1] - leaves[i])
            steps_i, steps_j = gain_i >= gain_j, gain_j >= gain_i
        i += steps_i
        j += steps_j


@jit
def add_vertex(vertices: np.ndarray, n: int, leaves: float, weight: float) -> int:
    """Add the point to an upper hull of `n` vertices (2, ...), and return the new number of vertices."""
    # Points come in order of leaves, of equal ones the heaviest first. Vertices no longer above the line from their
    # predecessor to the point are removed; a point with no larger weight than the last vertex is not added
    if n > 0 and weight <= vertices[1, n - 1]:
        return n
    while n > 1:
        rise = (vertices[1, n - 1] - vertices[1, n - 2]) * (leaves - vertices[0, n - 2])
        if rise > (weight - vertices[1, n - 2]) * (vertices[0, n - 1] - vertices[0, n - 2]):
            break
        n -= 1
    vertices[0, n], vertices[1, n] = leaves, weight
    return n + 1


@store.register(Hull)
def _(semiring, slot, total):
    start = semiring.n_needed[0]
    semiring.n_needed[0] += total
    if semiring.n_needed[0] > len(semiring.leaves):
        total = 0
    for i in range(total):
        semiring.leaves[start + i], semiring.weight[start + i] = semiring.buffer[0, 0, i], semiring.buffer[0, 1, i]
    semiring.start[slot], semiring.length[slot] = start, total


@choose_split.register(Hull)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Return the split and both subtrees' tree numbers, as `choose_split`."""
    # tree numbers are vertices of the slot's hull; for `Fragments`, IN_FRAGMENT until the fragment ended at an ancestor
    leaves, weight, start = semiring.leaves, semiring.weight, semiring.start
    m = leaves[start[slot] + tree_number]
    best, left_number, right_number, top = -1, 0, 0, -np.inf
    if m == 1.0:
        return best, left_number, right_number
    for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
        left, right = child_slots(graph, e, child_depth)
        log_weight = graph.log_split[slot] + graph.log_rule[e]
        j = semiring.length[right] - 1
        for i in range(semiring.length[left]):
            while j >= 0 and leaves[start[left] + i] + leaves[start[right] + j] > m:
                j -= 1
            if j < 0:
                break
            term = log_weight + (weight[start[left] + i] + weight[start[right] + j])
            if leaves[start[left] + i] + leaves[start[right] + j] == m and term > top:
                best, left_number, right_number, top = e, i, j, term
    return best, left_number, right_number


IN_FRAGMENT = -1  # tree number, in place of a vertex, of a slot at which the root fragment has not ended yet


class Fragments(NamedTuple):
    """The best tree and root fragment: (max, +) over the splits of the fragment, and hulls below its leaves."""

    # Below each leaf of the fragment the rest of the tree is a vertex of the hull of (leaves, weight). Both are chosen:
    #     value_s  =  max( stop_s,  max over splits e of  weight_e + value_left + value_right )
    hull: Hull
    value: np.ndarray  # (n_slots,) float64: weight of the best tree and fragment below a slot
    stop: np.ndarray  # (n_slots,) float64: weight of the best tree below a slot if the fragment ends at the slot
    vertex: np.ndarray  # (n_slots,) int64: vertex of the slot's hull that is this tree


@choose_split.register(Fragments)
def _(semiring, rng, graph, cell, slot, child_depth, tree_number):
    """Return the split and both subtrees' tree numbers, as `choose_split`."""
    # tree numbers are vertices of the slot's hull; for `Fragments`, IN_FRAGMENT until the fragment ended at an ancestor
    if tree_number != IN_FRAGMENT:
        return choose_split(semiring.hull, rng, graph, cell, slot, child_depth, tree_number)
    best, top = -1, semiring.stop[slot]
    if graph.log_split[slot] > -np.inf:
        for e in range(graph.first_edge[cell], graph.first_edge[cell + 1]):
            left, right = child_slots(graph, e, child_depth)
            term = graph.log_split[slot] + graph.log_rule[e] + semiring.value[left] + semiring.value[right]
            if term > top:
                best, top = e, term
    if best < 0:
        return choose_split(semiring.hull, rng, graph, cell, slot, child_depth, semiring.vertex[slot])
    return best, IN_FRAGMENT, IN_FRAGMENT
