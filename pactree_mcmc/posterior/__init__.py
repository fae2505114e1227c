"""What every posterior can be asked, the sampled posterior, and whether its draws can be trusted."""
