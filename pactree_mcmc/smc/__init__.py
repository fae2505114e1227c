"""The progressive mixture by Monte Carlo: chains and populations of trees while examples enter."""
