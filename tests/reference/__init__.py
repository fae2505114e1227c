"""Naive reference: every tree is enumerated explicitly."""
