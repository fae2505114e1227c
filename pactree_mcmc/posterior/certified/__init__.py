"""Certificates of posteriors: from the training rows, from held-out rows, from rows that choose."""
