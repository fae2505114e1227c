"""Number of checks of scikit-learn's `check_estimator` that estimators fail: ours, and stochtree's if installed.

Run: python benchmarks/rival_estimators.py
"""

import warnings

from sklearn.utils.estimator_checks import check_estimator

import pactree_mcmc as pt


def estimators():
    yield pt.BayesianTreeRegressor(n_estimators=20, work=1e5)
    yield pt.BayesianTreeClassifier(n_estimators=20, work=1e5)
    try:
        from stochtree import StochTreeBARTBinaryClassifier, StochTreeBARTRegressor
    except ImportError:
        print("stochtree is not installed (extra bench)")
        return
    yield StochTreeBARTRegressor()
    yield StochTreeBARTBinaryClassifier()


def main():
    warnings.simplefilter("ignore")
    print("| estimator | checks | failed |\n| --- | --- | --- |")
    for estimator in estimators():
        results = [check["status"] for check in check_estimator(estimator, on_fail=None, on_skip=None)]
        print(f"| {type(estimator).__name__} | {len(results)} | {results.count('failed')} |", flush=True)


if __name__ == "__main__":
    main()
