"""The main job: a posterior over decision trees for the Wisconsin breast-cancer data.

Four chains, their summary, held-out log loss and accuracy beside CART pruned by cross-validation, and pictures of the
posterior, of the best tree with the rows of its leaves, and of 200 trees over one another.
Run: python examples/breast_cancer.py [folder for the pictures]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.tree import DecisionTreeClassifier

import pactree_mcmc as pt


def pruned_cart(X, y):
    """CART with the cost-complexity pruning of least cross-validated log loss."""
    path = DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(X, y)
    alphas = np.unique(np.clip(path.ccp_alphas, 0.0, None))[:-1]
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"ccp_alpha": alphas}, scoring="neg_log_loss", cv=5)
    return search.fit(X, y).best_estimator_


def main(folder):
    data = load_breast_cancer(as_frame=True)
    labels = data.target_names[data.target]
    X, X_new, y, y_new = train_test_split(data.data, labels, test_size=0.3, random_state=0, stratify=labels)

    model = pt.TreeModel(X, y, split_prior=pt.LocalCuts(max_cuts=32, min_leaf=5))
    post = pt.sample(model, rng=1)
    print(post)
    print(post.summary().round(3).to_string(), end="\n\n")

    inclusion = sorted(zip(post.feature_inclusion(), model.columns.names, strict=True), reverse=True)[:5]
    print("features most often used:", ", ".join(f"{name} {p:.2f}" for p, name in inclusion))
    best = post.map_tree()
    print("best tree drawn:", best.format(), sep="\n", end="\n\n")

    cart = pruned_cart(X, y)
    print(f"held out ({len(y_new)} rows)       log loss  accuracy")
    for name, machine in (("posterior over trees", post), ("CART, pruned by CV", cart)):
        loss = log_loss(y_new, machine.predict_proba(X_new), labels=np.unique(y))
        print(f"{name:<25} {loss:8.3f}  {accuracy_score(y_new, machine.predict(X_new)):8.3f}")

    folder.mkdir(parents=True, exist_ok=True)
    pt.plots.plot_posterior(post).savefig(folder / "breast_cancer_posterior.png", dpi=120)
    pt.plots.plot_leaves(post).figure.savefig(folder / "breast_cancer_tree.png", dpi=120)
    pt.plots.plot_forest(post).figure.savefig(folder / "breast_cancer_forest.png", dpi=120)
    print(f"\npictures in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "output")
