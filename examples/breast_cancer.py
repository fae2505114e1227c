"""The main job: a posterior over decision trees for the Wisconsin breast-cancer data.

Four chains, their summary and the most probable shape of tree, held-out log loss and accuracy beside a tuned CART and a
random forest, and pictures of the posterior, of the best tree with the rows of its leaves, and of 200 trees over one
another. Run: python examples/breast_cancer.py [folder for the pictures]

The model is chosen for a tree that can be shown. The table has ten measurements of the cells of each tumour, each as
mean, standard error and "worst", the mean of the three largest. Many measure the same: of the worst, radius, perimeter
and area have correlations of .98 and more, and concave points .82 with them. If all are used, trees differ mainly in
which of them they name, and no tree is probable. So the model has three worst columns, one for size (perimeter), one
for the grey values (texture), one for the outline (smoothness), with correlations of at most .37. With six columns runs
that pass state log evidences up to .15 nats apart, with these three .07. A feature has twenty cuts, as more exact ones
are not what a reader takes home. A leaf has at least twenty rows, so that the standard error of a proportion in it is
at most .11. CART and the forest may use all 30 columns: the choice must not favour the posterior.
"""

import sys
from pathlib import Path

import numpy as np

try:
    import matplotlib
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.model_selection import StratifiedKFold, train_test_split
    from sklearn.tree import DecisionTreeClassifier
except ImportError as missing:
    sys.exit(f"{missing}; this example needs: pip install 'pactree-mcmc[plots,sklearn]'")

import pactree_mcmc as pt

matplotlib.use("Agg")
PSEUDOCOUNTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Numbers of rows, or of votes, that are added to those counted and divided equally among the classes."""
MEASUREMENTS = ("perimeter", "texture", "smoothness")
"""Features of the model, each in its "worst" column."""
N_TREES = 500
"""Number of trees of the forest."""


def smooth(fractions, n_counted, pseudocount):
    """Return class probabilities (n, K) from fractions (n, K) of ``n_counted`` rows or votes, never zero."""
    return (n_counted * fractions + pseudocount / fractions.shape[1]) / (n_counted + pseudocount)


def losses(fractions, n_counted, is_label):
    """Return the mean log loss with each of PSEUDOCOUNTS; ``is_label`` (n, K) is True for the class of each row."""
    return np.array([-np.log(smooth(fractions, n_counted, extra)[is_label]).mean() for extra in PSEUDOCOUNTS])


def leaf_fractions(tree, X):
    """Return the fractions (n, K) of the classes in the leaf of each row, and its number of training rows (n, 1)."""
    leaf = tree.apply(X)
    return tree.tree_.value[leaf, 0], tree.tree_.n_node_samples[leaf, None]


def tuned_cart(X, y):
    """Return CART and its pseudocount, both chosen for the least cross-validated log loss.

    The penalties of a leaf are one between any two steps of the pruning path of the whole tree, and one for no split.
    """
    steps = DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(X, y).ccp_alphas
    steps = np.unique(np.clip(steps, 0.0, None))
    penalties = np.append(np.sqrt(steps[:-1] * steps[1:]), 2.0 * steps[-1])
    is_label = y[:, None] == np.unique(y)
    total = np.zeros((len(penalties), len(PSEUDOCOUNTS)))
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        for row, penalty in zip(total, penalties, strict=True):
            tree = DecisionTreeClassifier(ccp_alpha=penalty, random_state=0).fit(X.iloc[train], y[train])
            row += losses(*leaf_fractions(tree, X.iloc[test]), is_label[test])
    penalty, extra = np.unravel_index(np.argmin(total), total.shape)
    return DecisionTreeClassifier(ccp_alpha=penalties[penalty], random_state=0).fit(X, y), PSEUDOCOUNTS[extra]


def tuned_forest(X, y):
    """Return a random forest and its pseudocount, chosen for the least log loss of the rows out of bag."""
    forest = RandomForestClassifier(N_TREES, oob_score=True, random_state=0).fit(X, y)
    n_votes = N_TREES * (1.0 - 1.0 / len(y)) ** len(y)
    of_votes = losses(forest.oob_decision_function_, n_votes, y[:, None] == forest.classes_)
    return forest, PSEUDOCOUNTS[np.argmin(of_votes)]


def main(folder, rng=1):
    data = load_breast_cancer(as_frame=True)
    labels = data.target_names[data.target]
    X, X_new, y, y_new = train_test_split(data.data, labels, test_size=0.3, random_state=0, stratify=labels)

    worst = [f"worst {name}" for name in MEASUREMENTS]
    model = pt.TreeModel(X[worst], y, split_prior=pt.LocalCuts(max_cuts=20, min_leaf=20))
    post = pt.sample(model, rng=rng)
    print(post)
    print(post.summary().round(3).to_string(), end="\n\n")

    inclusion = post.feature_inclusion()
    print("probability that a tree uses:", ", ".join(f"{name} {p:.2f}" for name, p in inclusion.items()))
    print(post.shapes(), end="\n\n")

    cart, leaf_pseudocount = tuned_cart(X, y)
    forest, vote_pseudocount = tuned_forest(X, y)
    probabilities = {
        "posterior over trees": post.predict_proba(X_new[worst]),
        f"CART, {cart.get_n_leaves()} leaves": smooth(*leaf_fractions(cart, X_new), leaf_pseudocount),
        f"forest of {N_TREES}": smooth(forest.predict_proba(X_new), N_TREES, vote_pseudocount),
    }
    print(f"held out ({len(y_new)} rows)       log loss  accuracy")
    classes = np.unique(y)
    for name, p in probabilities.items():
        loss, accuracy = log_loss(y_new, p, labels=classes), accuracy_score(y_new, classes[p.argmax(axis=1)])
        print(f"{name:<25} {loss:8.3f}  {accuracy:8.3f}")

    folder.mkdir(parents=True, exist_ok=True)
    pt.plots.plot_posterior(post).savefig(folder / "breast_cancer_posterior.png", dpi=120)
    pt.plots.plot_leaves(post).figure.savefig(folder / "breast_cancer_tree.png", dpi=120)
    pt.plots.plot_forest(post).figure.savefig(folder / "breast_cancer_forest.png", dpi=120)
    print(f"\npictures in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
