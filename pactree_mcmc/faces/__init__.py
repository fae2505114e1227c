"""User interfaces: scikit-learn estimators, plots, the report."""
