"""Problems that are too large: errors, estimates of sizes before anything is built, and bounds within a budget."""
