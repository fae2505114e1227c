"""Runs of several chains: a run on its way (`run`), its records, one chain and its works, and the loop over chains.

A *work* is what a chain does between two common points of a run, such as a round of tuning. A *rest* is a place between
two steps at which a chain has no stored values of cells (`chain.rest`). A *stretch* is a series of draws that are
judged together.
"""
