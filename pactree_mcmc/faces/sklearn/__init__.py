"""The posterior over trees as scikit-learn estimators."""
