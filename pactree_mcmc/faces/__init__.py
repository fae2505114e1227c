"""User interfaces: scikit-learn estimators, plots, the command line."""
