"""The rival: scikit-learn's CART with its number of leaves chosen by cross-validation, on one core."""

import numpy as np
from settings import CART_ENDS, CART_FOLDS, CART_POWER, CART_SIZES
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


def sizes(n, task):
    """Numbers of leaves tried: a geometric grid."""
    ends = n**CART_POWER * np.array(CART_ENDS[task])
    return np.unique(np.geomspace(*ends, CART_SIZES).round().astype(int)).tolist()


def fit(X, y):
    """CART on all rows with the number of leaves of the least cross-validated error: squared, or 0-1 for labels."""
    of_labels = y.dtype == bool
    tree = (DecisionTreeClassifier if of_labels else DecisionTreeRegressor)(random_state=0)
    scoring = "accuracy" if of_labels else "neg_mean_squared_error"
    grid = {"max_leaf_nodes": sizes(len(y), "labels" if of_labels else "regression")}
    folds = KFold(CART_FOLDS, shuffle=True, random_state=0)
    search = GridSearchCV(tree, grid, cv=folds, scoring=scoring, n_jobs=1)
    return search.fit(X, y).best_estimator_
