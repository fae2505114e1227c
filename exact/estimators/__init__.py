"""scikit-learn classifiers of the systems: dyadic, voting and progressive trees."""
