"""scikit-learn classifiers for the methods of `exact.systems`: dyadic trees, votes of subtrees, progressive mixtures."""
