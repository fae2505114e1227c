"""Credible intervals of E(y | x) and P(y | x): fraction of the true values inside 90 % intervals, of two recipes.

25 tables of 100 rows and two features of six values are simulated from the model: a tree and its leaf parameters from
their prior, then y. The posterior is exact. Recipes: quantiles of the leaf values of 2,000 independent trees
(`values_by_draw`), which leave out the uncertainty of leaf parameters, and `credible_interval`. Prints rows of
Markdown: coverage with its standard error over tables, and mean width.
Run: python benchmarks/credible.py [--tables 25]
"""

import argparse

import numpy as np

import exact
import pactree_mcmc as pt

ROWS, DRAWS, COVERAGE = 100, 2000, 0.9
PRIOR = {"tree_prior": pt.ChipmanPrior(0.95, 1.0, max_depth=3)}
PROBLEMS = {
    "regression": (pt.NormalInverseGamma(m0=0.0, k0=0.5, a0=3.0, b0=2.0), np.arange(ROWS) / ROWS),
    "three classes": (pt.DirichletMultinomial(1.0), np.arange(ROWS) % 3),
}


def simulate(X, leaf, y, rng):
    """Return a y from the model, and the true E(y | x) or P(y | x), (n, d)."""
    model = pt.TreeModel(X, y, leaf=leaf, **PRIOR)
    number = pt.simulate(model, rng=rng)[0].apply(X)
    stats = np.zeros((number.max() + 1, leaf.n_stats(model.target)))
    parameters = [part[number] for part in leaf.draw_parameters(rng, stats, model.target)]
    return leaf.draw_given(rng, parameters, model.target, None), leaf.expectation_given(parameters)


def recipes(truth, X, seed):
    """Yield name and ends (n, d, 2) of the intervals of each recipe."""
    ends = [(1.0 - COVERAGE) / 2.0, (1.0 + COVERAGE) / 2.0]
    values = truth.sample(DRAWS, rng=seed).values_by_draw(X)
    yield "quantiles of `values_by_draw`", np.moveaxis(np.quantile(values, ends, axis=(0, 1)), 0, -1)
    yield "`credible_interval`", truth.credible_interval(X, COVERAGE).reshape(len(X), -1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=25)
    n_tables = parser.parse_args().tables
    print("| y | intervals | coverage of 90 % | mean width |\n| --- | --- | --- | --- |", flush=True)
    for name, (leaf, some_y) in PROBLEMS.items():
        rng, inside, width, tables = np.random.default_rng(1), {}, {}, 0
        while tables < n_tables:
            X = rng.integers(0, 6, (ROWS, 2)).astype(float)
            y, actual = simulate(X, leaf, some_y, rng)
            if leaf.is_classifier and len(np.unique(y)) < 3:
                continue
            tables += 1
            for recipe, ends in recipes(exact.solve(pt.TreeModel(X, y, leaf=leaf, **PRIOR)), X, tables):
                inside.setdefault(recipe, []).append(np.mean((ends[..., 0] <= actual) & (actual <= ends[..., 1])))
                width.setdefault(recipe, []).append(np.diff(ends).mean())
        for recipe, fractions in inside.items():
            error = np.std(fractions, ddof=1) / np.sqrt(n_tables)
            cells = [name, recipe, f"{np.mean(fractions):.3f} ± {error:.3f}", f"{np.mean(width[recipe]):.3f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
