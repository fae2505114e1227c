"""scikit-learn classifiers for methods of `exact.systems`: dyadic trees, votes of subtrees, progressive mixtures."""
