"""Chains: starts, steps, saved draws, tempered replicas and rests."""
