"""Ways in for people and programs: scikit-learn, pictures, the command line."""
