"""Problems that are too large: refusals, sizes before anything is built, and bounds within a budget."""
