"""Methods from the literature that minimise or average over all trees, with a file or folder for each line of work."""
