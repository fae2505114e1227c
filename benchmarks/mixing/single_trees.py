"""Friedman's function, noise unknown: one Bayesian tree of several programs, and tuned CART, on the same rows.

Every program runs four chains, one after the other, with the tree prior (.95, .5), by which `run.py friedman` is run,
and with its own default (.95, 2); the RMSE to the noise-free function of each chain and of the mean of the four. Rivals
make 50,000 iterations a chain, half of them burn-in, the rest of their options being defaults but for the depth (bartz:
11; stochtree: none; it starts from five draws that grow from the root). Those that are not installed are left out
(extra bench). Ours: the plan of `settings.FRIEDMAN`. Seconds are processor time of all chains. Rows of Markdown.
Run: python benchmarks/mixing/single_trees.py [--rows 1000 10000] [--iterations 50000]
"""

import argparse
import importlib.util
import time
import warnings

import numpy as np
import settings
import tables
from rivals import Cart

import pactree_mcmc as pt

PRIORS = {"(.95, .5)": (0.95, 0.5), "(.95, 2)": (0.95, 2.0)}
KEPT = 100  # draws a chain


def ours(X, y, test, prior, iterations, seed):
    plan = settings.FRIEDMAN.get(len(y)) or settings.FRIEDMAN[min(settings.FRIEDMAN, key=lambda n: abs(n - len(y)))]
    model = pt.TreeModel(
        X,
        y,
        tree_prior=pt.ChipmanPrior(*prior),
        split_prior=pt.GridCuts(settings.FRIEDMAN_CUTS),
        leaf=settings.FRIEDMAN_LEAF,
    )
    post = pt.sample(model, **plan._asdict(), chains=1, rng=seed, start="grown", progress=False)
    return post.predict(test)


def stochtree(X, y, test, prior, iterations, seed):
    from stochtree import BARTModel

    tree = {"num_trees": 1, "alpha": prior[0], "beta": prior[1], "max_depth": -1}
    general = {"random_seed": seed, "keep_every": max(iterations // (2 * KEPT), 1), "num_threads": 1}
    model = BARTModel()
    how = {"num_burnin": iterations // 2, "num_mcmc": KEPT, "general_params": general, "mean_forest_params": tree}
    model.sample(X_train=X, y_train=y, X_test=test, **how)
    return np.mean(model.y_hat_test, axis=1)


def bartz(X, y, test, prior, iterations, seed):
    from bartz.BART import gbart

    how = {"ntree": 1, "base": prior[0], "power": prior[1], "usequants": True, "numcut": 255, "printevery": None}
    how |= {"nskip": iterations // 2, "ndpost": KEPT, "keepevery": max(iterations // (2 * KEPT), 1), "seed": seed}
    fitted = gbart(X.astype(np.float32), y.astype(np.float32), x_test=test, bart_kwargs={"maxdepth": 11}, **how)
    return np.asarray(fitted.yhat_test_mean)


PROGRAMS = {"ours": ours, "stochtree": stochtree, "bartz": bartz}


def off(said, clean):
    return float(np.sqrt(np.mean((said - clean) ** 2)))


def rows(n, iterations):
    """Lines of the table for one n."""
    X, _, y = tables.friedman(n, seed=0)
    test, clean, _ = tables.friedman(settings.FRIEDMAN_TEST_ROWS, seed=1)
    Cart(True).fit(X[:100], y[:100])
    began = time.process_time()
    cart = off(Cart(True).fit(X, y).predict(test), clean)
    yield f"| CART, tuned | {n:,} | | {cart:.3f} | | | {time.process_time() - began:.1f} |"
    for name, program in PROGRAMS.items():
        if name != "ours" and importlib.util.find_spec(name) is None:
            yield f"| {name} | {n:,} | not installed | | | | |"
            continue
        program(X, y, test, PRIORS["(.95, 2)"], 2 * KEPT, 0)
        for words, prior in PRIORS.items():
            began = time.process_time()
            said = [program(X, y, test, prior, iterations, seed) for seed in range(settings.FRIEDMAN_CHAINS)]
            spent = time.process_time() - began
            each, mean = [off(one, clean) for one in said], off(np.mean(said, axis=0), clean)
            yield (
                f"| {name} | {n:,} | {words} || {min(each):.3f} to {max(each):.3f} | {mean:.3f} | {mean / cart:.3f} |"
                f" {spent:.1f} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000, 10_000])
    parser.add_argument("--iterations", type=int, default=50_000, help="of a rival's chain")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| program | n | tree prior | RMSE of a chain | of the mean of four | over CART | CPU s |\n|" + " --- |" * 7)
    for n in args.rows:
        for line in rows(n, args.iterations):
            print(line, flush=True)


if __name__ == "__main__":
    main()
