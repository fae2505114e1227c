"""Figure 2 of Nguyen and Kpotufe (2018): classification error against training size, on tables of several classes.

The paper shows "typical performance on multiclass problems as training size varies" and names no tables; here letter,
optdigits, crowdsourced mapping and wine, the four of its Table 1 with several classes. 2,000 test rows, parameters by
2-fold cross-validation.
Run: python benchmarks/figure2.py DIRECTORY PICTURE [--draws 3]
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from table2 import N_TEST, TABLES, read
from table2_rules import PrunedTreeClassifier

from exact import PACBayesTreeClassifier

NAMES = ("letter", "digit", "crowd", "wine")
RULES = {
    "pruning": lambda base, how: PrunedTreeClassifier(base, **how),
    "SN pruning": lambda base, how: PrunedTreeClassifier(base, penalty="spatial", **how),
    "PAC-Bayes tree": lambda base, how: PACBayesTreeClassifier(base, **how),
}


def errors(X, y, base, sizes, draws):
    """(rules, sizes) mean test errors."""
    out = np.zeros((len(RULES), len(sizes)))
    for draw in range(draws):
        rows = np.random.default_rng(draw).permutation(len(X))
        test, rest = rows[:N_TEST], rows[N_TEST:]
        for j, n in enumerate(sizes):
            how = {"random_state": draw}
            how |= {"bounds": [[0.0, 1.0]] * X.shape[1]} if base == "dyadic" else {"coordinate": "widest"}
            for i, make in enumerate(RULES.values()):
                out[i, j] += np.mean(make(base, how).fit(X[rest[:n]], y[rest[:n]]).predict(X[test]) != y[test])
    return out / draws


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("picture")
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    figure, grid = plt.subplots(2, len(NAMES), figsize=(12, 5.5), constrained_layout=True, sharex="col")
    for column, name in enumerate(NAMES):
        X, y = read(given.directory, TABLES[name][0])
        low, spread = X.min(axis=0), np.ptp(X, axis=0)
        unit, deviation = (X - low) / np.where(spread > 0.0, spread, 1.0), X.std(axis=0)
        sizes = np.unique(np.geomspace(250, TABLES[name][1], 6).astype(int))
        for axes, base in zip(grid[:, column], ("dyadic", "kd"), strict=True):
            table = unit if base == "dyadic" else X / np.where(deviation > 0.0, deviation, 1.0)
            found = errors(table, y, base, sizes.tolist(), given.draws)
            for rule, line in zip(RULES, found, strict=True):
                axes.plot(sizes, line, "o-", markersize=3, label=rule)
                print(
                    f"{name}, {base}, {rule}:", *(f"{n}: {e:.3f}" for n, e in zip(sizes, line, strict=True)), flush=True
                )
            axes.set(
                xscale="log", xticks=(250, 1000, 4000), xticklabels=("250", "1,000", "4,000"), title=f"{name}, {base}"
            )
            axes.minorticks_off()
            axes.set_ylabel("test error" if column == 0 else "")
            if base == "kd":
                axes.set_xlabel("training rows")
    grid[0, 0].legend(frameon=False)
    figure.savefig(given.picture, dpi=90)


if __name__ == "__main__":
    main()
