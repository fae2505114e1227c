"""A split prior of one's own: cuts uniform in the values between the ends of a cell, in both engines, and compared.

`LocalCuts` takes the cuts between neighbouring rows to be equally likely, wherever rows lie close together. Here a cut
falls uniformly between the smallest and the largest value of a cell, as in a Mondrian process: the gap between two
neighbours is hit in proportion to its width. Then a few rows far off are parted from the others sooner.
Run: python examples/own_splits.py
"""

import numpy as np

import exact
import pactree_mcmc as pt


def gap(cut):
    """Return the weight of a cut: the distance between the two values of the cell next to it."""
    return cut.above - cut.below


def main():
    """Check the prior, look at its first split, sample, and compare with the exact answer."""
    uniform = pt.CustomSplits(gap, of=pt.LocalCuts(min_leaf=2))
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.exponential(size=60).round(1), rng.integers(6, size=60)])
    y = X[:, 0] / 2.0 + 0.5 * rng.normal(size=60)
    uniform.check(X)
    report = pt.testing.check_split_prior(uniform)
    said = f"{report.n_splits} splits of {report.n_cells} cells"
    print(f"{said}, whose probabilities sum to 1 within {report.max_difference:.0e}")

    prior = pt.ChipmanPrior(max_depth=3)
    for name, splits in {"equal cuts": pt.LocalCuts(min_leaf=2), "uniform cuts": uniform}.items():
        model = pt.TreeModel(X, y, split_prior=splits, tree_prior=prior)
        truth = exact.solve(model)
        post = pt.sample(model, draws=2000, tune=300, chains=2, rng=1, progress=False)
        print(f"{name}: log evidence {truth.log_evidence:.3f}")
        print("  leaves, exact  ", truth.n_leaves_pmf()[1:6].round(3))
        print("  leaves, sampled", post.n_leaves_pmf()[1:6].round(3))
        distribution = post.root_split_pmf()
        for split, p in truth.root_split_pmf().head(3).items():
            print(f"  first split {split}: exact {p:.3f}, sampled {distribution.get(split, 0.0):.3f}")


if __name__ == "__main__":
    main()
