"""Tests of the Metropolis sampler."""
