"""Files of models, posteriors and runs: written below what they hold, read above it."""
