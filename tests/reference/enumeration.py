"""Posterior over decision trees by explicit enumeration of every tree."""

import math
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import SimpleNamespace

from tests.reference.leaf_scores import predictive, sample, score

LEAF = ("leaf",)


@dataclass
class Problem:
    """Data and the four parts of a model; `estimation` marks the rows of E, the others are S."""

    X: list
    y: list
    nominal: set = field(default_factory=set)
    weights: list = None
    estimation: list = None
    tree_prior: dict = field(default_factory=dict)
    split_prior: dict = field(default_factory=dict)
    leaf: dict = field(default_factory=dict)

    def __post_init__(self):
        self.n_features = len(self.X[0])
        self.classes = sorted(set(self.y))
        self.categories = {k: frozenset(x[k] for x in self.X) for k in self.nominal}
        ordered = set(range(self.n_features)) - self.nominal
        self.gaps = {k for k in ordered if any(x[k] is None for x in self.X)}
        self.max_depth = self.tree_prior.get("max_depth")
        self.weights = [1.0] * len(self.X) if self.weights is None else self.weights
        if self.max_depth is None:
            self.max_depth = math.inf
            if self.tree_prior["kind"] == "conditioned" or self.split_prior.get("trivial"):
                raise ValueError("max_depth is needed")
        if self.leaf["kind"] == "laplace" and self.estimation is None:
            raise ValueError("the laplace score needs estimation rows")


@dataclass
class Cell:
    """A node's place: its rows, its box and the way down to it.

    `box[k]` is (lo, hi) for an ordered feature, a frozenset of categories for a nominal one; `fixed` is the
    node of the fixed design's tree (None otherwise) and `number` its preorder number.
    """

    rows: list
    box: dict
    n_splits: dict
    depth: int
    fixed: tuple
    number: int


def safe_log(value):
    """log, with log 0 = -inf."""
    return math.log(value) if value > 0 else -math.inf


def root_cell(problem):
    """The cell of all rows."""
    features = range(problem.n_features)
    bounds = problem.split_prior.get("bounds", [(-math.inf, math.inf)] * problem.n_features)
    box = {k: problem.categories[k] if k in problem.nominal else tuple(bounds[k]) for k in features}
    n_splits = dict.fromkeys(features, 0)
    return Cell(list(range(len(problem.X))), box, n_splits, 0, problem.split_prior.get("tree"), 0)


def goes_left(rule, value):
    """The side of a value that the training data hold."""
    if isinstance(rule, frozenset):
        return value in rule
    cut, side = rule if isinstance(rule, tuple) else (rule, None)
    return side == "left" if value is None else value <= cut


def child_cells(problem, cell, k, rule):
    """The two cells into which the split (k, rule) parts a cell."""
    left_rows = [i for i in cell.rows if goes_left(rule, problem.X[i][k])]
    if k in problem.nominal:
        left_side, right_side = cell.box[k] & rule, cell.box[k] - rule
    else:
        lo, hi = cell.box[k]
        cut = rule[0] if isinstance(rule, tuple) else rule
        left_side, right_side = (lo, min(hi, cut)), (max(lo, cut), hi)
    right_rows = [i for i in cell.rows if i not in left_rows]
    left_fixed, right_fixed, left_number, right_number = None, None, 0, 0
    if cell.fixed is not None:
        left_fixed, right_fixed = cell.fixed[3], cell.fixed[4]
        left_number = cell.number + 1
        right_number = left_number + count_nodes(left_fixed)
    n_splits = {**cell.n_splits, k: cell.n_splits[k] + 1}
    depth = cell.depth + (0 if is_joint(problem, cell) else 1)
    left = Cell(left_rows, {**cell.box, k: left_side}, n_splits, depth, left_fixed, left_number)
    right = Cell(right_rows, {**cell.box, k: right_side}, n_splits, depth, right_fixed, right_number)
    return left, right


def is_joint(problem, cell):
    """Return True if the node of the fixed design continues its parent's split."""
    return cell.number in problem.split_prior.get("joint", ())


def missing_last(category):
    """Sort the category of missing values last."""
    return (category is None, category)


def partitions(categories):
    """Left parts of the unordered partitions in two nonempty parts, the smallest category on the left."""
    smallest, *others = sorted(categories, key=missing_last)
    subsets = [chosen for size in range(len(others)) for chosen in combinations(others, size)]
    return [frozenset((smallest, *chosen)) for chosen in subsets]


def local_rules(problem, cell, k):
    """Ways in which feature k parts the rows of the cell; an empty cell has one trivial way."""
    values = sorted({problem.X[i][k] for i in cell.rows}, key=missing_last)
    if k in problem.nominal:
        ways = partitions(values) if len(values) >= 2 else []
        everything, nothing = problem.categories[k], frozenset()
    else:
        known = [value for value in values if value is not None]
        ways = [(low + high) / 2 for low, high in zip(known, known[1:])]
        everything, nothing = math.inf, -math.inf
        if k in problem.gaps:
            apart = None in values and len(known) > 0
            left = [(cut, "left") for cut in [-math.inf] * apart + ways]
            ways = left + [(cut, "right") for cut in ways + [math.inf] * apart]
    if problem.split_prior.get("trivial", False):
        return ways + ([everything, nothing] if cell.rows else [everything])
    sizes = {rule: [len(child.rows) for child in child_cells(problem, cell, k, rule)] for rule in ways}
    return [rule for rule in ways if min(sizes[rule]) >= problem.split_prior.get("min_leaf", 1)]


def grid_rules(problem, cell, k):
    """Cuts strictly inside the box, or the partitions of the box's categories."""
    if k in problem.nominal:
        return partitions(cell.box[k]) if len(cell.box[k]) >= 2 else []
    lo, hi = cell.box[k]
    cuts = [cut for cut in sorted(set(problem.split_prior["cuts"][k])) if lo < cut < hi]
    return either_side(problem, k, cuts)


def either_side(problem, k, cuts):
    """Each cut with missing values, if there are any, on the left and on the right."""
    return [(cut, side) for side in ("left", "right") for cut in cuts] if k in problem.gaps else cuts


def dyadic_rules(problem, cell, k):
    """The midpoint of side k of the box, while feature k was split fewer than `levels` times."""
    other_turn = problem.split_prior.get("cyclic", False) and k != cell.depth % problem.n_features
    if other_turn or cell.n_splits[k] >= problem.split_prior["levels"]:
        return []
    lo, hi = cell.box[k]
    return either_side(problem, k, [(lo + hi) / 2])


def fixed_rules(problem, cell, k):
    """The fixed tree's split at this node, if it is on feature k."""
    return [cell.fixed[2]] if cell.fixed != LEAF and cell.fixed[1] == k else []


RULES = {"local": local_rules, "grid": grid_rules, "dyadic": dyadic_rules, "fixed": fixed_rules}


def admissible_splits(problem, cell):
    """List of (feature, rule, R) at a cell; with one split per cell R = 1; rules are as likely as they weigh."""
    if cell.depth >= problem.max_depth and not is_joint(problem, cell):
        return []
    design = problem.split_prior
    weights = design.get("weights")
    if weights is None or design["kind"] == "fixed" or design.get("cyclic", False):
        weights = [1.0] * problem.n_features
    found = []
    for k in range(problem.n_features):
        rules = RULES[design["kind"]](problem, cell, k) if weights[k] > 0 else []
        if k in problem.gaps:
            # either side is half of the feature
            found += [(k, [rule for rule in rules if rule[1] == side], weights[k] / 2) for side in ("left", "right")]
        else:
            found.append((k, rules, weights[k]))
    if "weigh" in design:
        return weighed_splits(problem, cell, found)
    total = sum(weight for _, rules, weight in found if rules)
    return [(k, rule, weight / total / len(rules)) for k, rules, weight in found for rule in rules]


def weighed_splits(problem, cell, found):
    """The same where a function weighs the rules; those of weight 0 are left out."""
    design = problem.split_prior
    params = (design["params"],) if "params" in design else ()
    weighed = []
    for k, rules, feature_weight in found:
        cuts = [
            cut_of(problem, cell, k, rule, sorted(rules, key=str if k in problem.nominal else None)) for rule in rules
        ]
        if k in problem.nominal and design.get("over", "feature") == "feature":
            weights = [1.0 for _ in cuts]
        else:
            weights = [design["weigh"](cut, *params) for cut in cuts]
        fraction = feature_weight * sum(weights) if design.get("over") == "cell" else feature_weight
        weighed.append((k, rules, weights, fraction if sum(weights) > 0 else 0.0))
    total = sum(fraction for _, _, _, fraction in weighed)
    return [
        (k, rule, fraction / total * weight / sum(weights))
        for k, rules, weights, fraction in weighed
        for rule, weight in zip(rules, weights)
        if weight > 0
    ]


def cut_of(problem, cell, k, rule, rules):
    """Return the arguments of the weight of a rule. ``rules`` are those of the feature, in order."""
    design = problem.split_prior
    depth = cell.depth if design.get("by_depth") else 0
    nothing = dict.fromkeys(("at", "below", "above", "low", "high", "left", "right"), math.nan)
    if k in problem.nominal:
        parted = cell.box[k] if design["kind"] == "grid" else {problem.X[i][k] for i in cell.rows}
        ways = 2 ** (len(parted) - 1) - 1
        return SimpleNamespace(feature=k, nominal=True, number=0, n_splits=ways, depth=depth, **nothing)
    values = [problem.X[i][k] for i in cell.rows]
    left = [value for value in values if value <= rule]
    right = [value for value in values if value > rule]
    seen = {**nothing, "at": rule, "below": rule, "above": rule, "low": cell.box[k][0], "high": cell.box[k][1]}
    if design["kind"] == "local":
        seen = {"at": rule, "below": max(left), "above": min(right), "low": min(values), "high": max(values)}
        seen |= {"left": len(left), "right": len(right)}
    number, ways = rules.index(rule), len(rules)
    return SimpleNamespace(feature=k, nominal=False, number=number, n_splits=ways, depth=depth, **seen)


def rho_by_node(problem):
    """Return True if the list rho is indexed by the node of the fixed tree and not by depth."""
    prior = problem.tree_prior
    is_list = isinstance(prior.get("rho"), (list, tuple))
    return is_list and prior.get("by_node", problem.split_prior["kind"] == "fixed")


def split_probability(problem, depth, number):
    """Rho at a node."""
    prior = problem.tree_prior
    if prior["kind"] == "chipman":
        return prior["alpha"] * (1 + depth) ** -prior["beta"]
    if rho_by_node(problem):
        return prior["rho"][number]
    if isinstance(prior["rho"], (list, tuple)):
        return prior["rho"][depth]
    return prior["rho"]


def log_split(problem, cell):
    """Log factor of an internal node, its split apart."""
    if problem.tree_prior["kind"] == "penalty" or is_joint(problem, cell):
        return 0.0
    return safe_log(split_probability(problem, cell.depth, cell.number))


def log_stop(problem, cell, can_split):
    """Log factor of a leaf, its score apart."""
    prior = problem.tree_prior
    if is_joint(problem, cell):
        return -math.inf
    if prior["kind"] == "penalty":
        return -prior["cost"] if cell.rows else -prior.get("empty_cost", prior["cost"])
    if prior["kind"] in ("stopped", "chipman") and not can_split:
        return 0.0
    return safe_log(1 - split_probability(problem, cell.depth, cell.number))


def mass(problem, depth, node, number):
    """Z of the conditioned prior, below a node of the fixed tree (None: of the full binary tree)."""
    rho, joint = split_probability(problem, depth, number), number in problem.split_prior.get("joint", ())
    if node == LEAF or (depth == problem.max_depth and not joint):
        return 1 - rho
    if node is None:
        return (1 - rho) + rho * mass(problem, depth + 1, None, number) ** 2
    below = depth if joint else depth + 1
    left = mass(problem, below, node[3], number + 1)
    right = mass(problem, below, node[4], number + 1 + count_nodes(node[3]))
    return left * right if joint else (1 - rho) + rho * left * right


def log_normaliser(problem):
    """Log of what the product of the tree prior's factors is divided by."""
    if problem.tree_prior["kind"] != "conditioned":
        return 0.0
    by_node = rho_by_node(problem) or problem.split_prior.get("joint")
    return math.log(mass(problem, 0, problem.split_prior["tree"] if by_node else None, 0))


def count_nodes(tree):
    return 1 if tree == LEAF else 1 + count_nodes(tree[3]) + count_nodes(tree[4])


def count_leaves(tree):
    return 1 if tree == LEAF else count_leaves(tree[3]) + count_leaves(tree[4])


def tree_depth(tree):
    return 0 if tree == LEAF else 1 + max(tree_depth(tree[3]), tree_depth(tree[4]))


def features_used(tree):
    return frozenset() if tree == LEAF else features_used(tree[3]) | features_used(tree[4]) | {tree[1]}


def subtrees(problem, cell):
    """Every (tree, log of its prior factors, sum of its leaf scores) below a cell."""
    split_prior = admissible_splits(problem, cell)
    found = [(LEAF, log_stop(problem, cell, bool(split_prior)), score(problem, cell))]
    for k, rule, R in split_prior:
        log_factor = log_split(problem, cell) + math.log(R)
        if log_factor == -math.inf:
            continue
        left_cell, right_cell = child_cells(problem, cell, k, rule)
        rights = subtrees(problem, right_cell)
        for left, left_prior, left_score in subtrees(problem, left_cell):
            for right, right_prior, right_score in rights:
                tree = ("split", k, rule, left, right)
                found.append((tree, log_factor + left_prior + right_prior, left_score + right_score))
    return [entry for entry in found if entry[1] > -math.inf]


def enumerate_trees(problem):
    """Every tree of positive prior, as a list of (tree, log_prior, log_score)."""
    log_z = log_normaliser(problem)
    return [(tree, prior - log_z, total) for tree, prior, total in subtrees(problem, root_cell(problem))]


def new_row_goes_left(problem, cell, k, rule, value):
    """Side of a new value at a split cell."""
    if k not in problem.nominal and (value is not None or k in problem.gaps):
        return goes_left(rule, value)
    if k in problem.nominal and value in rule:
        return True
    if k not in problem.nominal:
        known = ()
    elif rule == frozenset():
        known = problem.categories[k]
    elif problem.split_prior["kind"] == "grid":
        known = cell.box[k]
    else:
        known = {problem.X[i][k] for i in cell.rows}
    if value in known:
        return False
    left, right = child_cells(problem, cell, k, rule)
    return len(left.rows) >= len(right.rows)


def leaf_of(problem, tree, x):
    """The cell of the leaf that a new row reaches."""
    cell = root_cell(problem)
    while tree != LEAF:
        _, k, rule, left, right = tree
        left_cell, right_cell = child_cells(problem, cell, k, rule)
        to_left = new_row_goes_left(problem, cell, k, rule, x[k])
        tree, cell = (left, left_cell) if to_left else (right, right_cell)
    return cell


class Reference:
    """The exact posterior of a problem, as a list of trees."""

    def __init__(self, problem):
        self.problem = problem
        self.entries = enumerate_trees(problem)
        self.log_joints = [log_prior + log_score for _, log_prior, log_score in self.entries]
        self.n_trees = len(self.entries)
        self.best_log_joint = top = max(self.log_joints)
        self.log_evidence = top + math.log(math.fsum(math.exp(v - top) for v in self.log_joints))

    def posterior(self):
        """List of (tree, probability)."""
        pairs = zip(self.entries, self.log_joints)
        return [(entry[0], math.exp(log_joint - self.log_evidence)) for entry, log_joint in pairs]

    def distribution_of(self, statistic):
        """Posterior distribution of a function of the tree, as a dict."""
        distribution = {}
        for tree, probability in self.posterior():
            value = statistic(tree)
            distribution[value] = distribution.get(value, 0.0) + probability
        return distribution

    def n_leaves(self):
        """Posterior distribution of the number of leaves."""
        return self.distribution_of(count_leaves)

    def depth(self):
        """Posterior distribution of the tree's depth (0 for a single leaf)."""
        return self.distribution_of(tree_depth)

    def root(self):
        """Posterior distribution of the root's split (feature, rule), None for a single leaf."""
        return self.distribution_of(lambda tree: None if tree == LEAF else (tree[1], tree[2]))

    def inclusion(self):
        """P(feature k is used at least once), for every k."""
        distribution = self.distribution_of(features_used)
        return [sum(distribution[used] for used in distribution if k in used) for k in range(self.problem.n_features)]

    def predict(self, x):
        """Posterior mean of the leaf predictives at a new row x."""
        outputs = [
            [probability * value for value in predictive(self.problem, leaf_of(self.problem, tree, x))]
            for tree, probability in self.posterior()
        ]
        return [math.fsum(column) for column in zip(*outputs)]


def stages(problem, order=None):
    """A Reference for each stage, whose examples not yet seen weigh nothing; rows of S enter in order."""
    if order is None:
        order = [i for i in sample(problem, range(len(problem.X)), False) if problem.weights[i] > 0]
    found = []
    for n_seen in range(len(order) + 1):
        hidden = set(order[n_seen:])
        weights = [0.0 if i in hidden else w for i, w in enumerate(problem.weights)]
        found.append(Reference(replace(problem, weights=weights)))
    return found


def mean_distribution(distributions):
    """Mean of dicts of probabilities."""
    keys = {key for distribution in distributions for key in distribution}
    return {
        key: math.fsum(distribution.get(key, 0.0) for distribution in distributions) / len(distributions)
        for key in keys
    }


def mean_rows(rows):
    """Mean of lists, entry by entry."""
    return [math.fsum(column) / len(rows) for column in zip(*rows)]
