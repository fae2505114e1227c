"""What the dyadic column of Nguyen and Kpotufe's Table 2 depends on: their protocol, one choice changed at a time.

The paper does not say how ties of the cross-validation are broken, what a cell without training rows is labelled, how
deep the tree is, or on which rows columns are scaled. The training sizes of its Table 1 are all rows but 2,000, so that
"testing data fixed" and "random choice of training data" can only mean a new division of the table in each run.
Run: python benchmarks/table2_protocol.py DIRECTORY [--draws 10] [--many 0] [--only NAME ...]
``--many 40`` adds the distribution over sets of five draws of what the table's protocol gives.
"""

import argparse
import time

import numpy as np
from table2 import N_TEST, PUBLISHED, TABLES, read
from table2_rules import PrunedTreeClassifier

from exact import PACBayesTreeClassifier
from exact.estimators import voting
from exact.systems.pac_bayes.base_tree import base_tree


class EmptyIsFirst:
    """Cells without rows vote for the first class, as in the paper's Corollary 1."""

    def _labelled(self, X, label, bounds):
        tree = self._grow(X, label, bounds)
        return base_tree(tree, self._counts(tree, X, label), dummies_abstain=False)


class TiesLast:
    """Of several best parameters the largest."""

    def _search_one(self, name, chosen, error):
        grid = voting.LOG_GRID
        for _ in range(2):
            errors = np.array([error({**chosen, name: float(value)}) for value in grid])
            best = float(grid[len(grid) - 1 - int(np.argmin(errors[::-1]))])
            grid = np.linspace(best / 2.0, best * 2.0, 10)
        chosen[name] = best


class JointGrid:
    """lambda2 is searched again after lambda1, and lambda1 after that."""

    def _search(self, X, label, bounds):
        chosen = super()._search(X, label, bounds)
        if len(chosen) < 2:
            return chosen
        first = self.lambda2
        self.lambda2 = chosen["lambda2"]
        chosen = super()._search(X, label, bounds)
        self.lambda1, self.lambda2 = chosen["lambda1"], None
        chosen = super()._search(X, label, bounds)
        self.lambda1, self.lambda2 = None, first
        return chosen


CHOICES = {
    "as in table2.py": {},
    "authors' penalty": {"penalty": "spatial"},
    "empty cells vote class 0": {"mixin": EmptyIsFirst},
    "ties to the largest": {"mixin": TiesLast},
    "lambdas searched in turn, twice": {"mixin": JointGrid},
    "scaled on training rows": {"scale": "train"},
    "log2(n) levels": {"levels": np.log2},
    "half of log(n) levels": {"levels": lambda n: np.log(n) / 2},
    "baseline without the linear grid": {"baseline": "log grid"},
}


class LogGridOnly:
    """The search of the log grid alone."""

    def _search_one(self, name, chosen, error):
        errors = [error({**chosen, name: float(value)}) for value in voting.LOG_GRID]
        chosen[name] = float(voting.LOG_GRID[int(np.argmin(errors))])


def made(kind, mixin):
    return type(kind.__name__, (mixin, kind), {"__init__": kind.__init__}) if mixin else kind


def ratio(X, y, n_train, draw, choice):
    """Error of the PAC-Bayes tree over that of pruning, and the latter."""
    rows = np.random.default_rng(draw).permutation(len(X))[: N_TEST + n_train]
    test, train = rows[:N_TEST], rows[N_TEST:]
    X, y_train = X[rows], y[train]
    low, high = (X[N_TEST:] if choice.get("scale") == "train" else X).min(axis=0), X.max(axis=0)
    if choice.get("scale") == "train":
        high = X[N_TEST:].max(axis=0)
    X = np.clip((X - low) / np.where(high > low, high - low, 1.0), 0.0, 1.0)
    how = {"bounds": [[0.0, 1.0]] * X.shape[1], "random_state": draw}
    if "levels" in choice:
        how["max_depth"] = X.shape[1] * max(1, int(choice["levels"](n_train)))
    mixin = choice.get("mixin")
    baseline = LogGridOnly if "baseline" in choice else mixin
    rules = (
        made(PrunedTreeClassifier, baseline)("dyadic", **how),
        made(PACBayesTreeClassifier, mixin)("dyadic", penalty=choice.get("penalty", "size"), **how),
    )
    pruned, vote = (np.mean(rule.fit(X[N_TEST:], y_train).predict(X[:N_TEST]) != y[test]) for rule in rules)
    return vote / pruned, pruned


def run(tables, choice, draws):
    """(tables, draws) of ratios."""
    return np.array([[ratio(X, y, n, draw, choice)[0] for draw in range(draws)] for X, y, n in tables])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--only", nargs="*")
    given = parser.parse_args()
    tables = [(*read(given.directory, names), n) for names, n in TABLES.values()]
    published = np.array([PUBLISHED["dyadic"][name][1] for name in TABLES])
    print("published", *published, f"geometric mean {np.exp(np.log(published).mean()):.4f}")
    for name in given.only or CHOICES:
        began = time.process_time()
        each = run(tables, CHOICES[name], given.draws)
        mean = np.exp(np.log(each.mean(axis=1)).mean())
        error = np.sqrt((each.var(axis=1, ddof=1) / given.draws).sum()) / len(tables)
        cells = " ".join(f"{value:.3f}" for value in each.mean(axis=1))
        print(f"{name}: {cells}, mean {mean:.4f} ({error:.4f}) [{time.process_time() - began:.0f} CPU s]", flush=True)
    if given.many:
        show_spread(run(tables, {}, given.many), published)


def show_spread(each, published):
    """How the mean over sets of five draws is distributed, and where the published figures lie in it."""
    rng = np.random.default_rng(0)
    sets = np.array([[rng.choice(row, 5, replace=False).mean() for row in each] for _ in range(20_000)])
    means, target = np.exp(np.log(sets).mean(axis=1)), np.exp(np.log(published).mean())
    low, high = np.quantile(means, [0.01, 0.99])
    whole = np.exp(np.log(each.mean(axis=1)).mean())
    print(f"{each.shape[1]} draws: mean {whole:.4f}; sets of five: {low:.4f} to {high:.4f} in 98 %,", end=" ")
    print(f"at most the published {target:.4f} in {np.mean(means <= target):.2%}; by table")
    for name, row, column, value in zip(TABLES, each, sets.T, published, strict=True):
        below = np.mean(column <= value)
        print(f"  {name}: {row.mean():.3f} (sd {row.std(ddof=1):.3f}), five <= {value}: {below:.2%}")


if __name__ == "__main__":
    main()
