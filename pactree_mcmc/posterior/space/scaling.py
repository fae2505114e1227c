"""Classical scaling: points in the plane whose distances are as near as can be to given ones."""

from __future__ import annotations

import numpy as np


def classical_scaling(square: np.ndarray, k: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Points (m, k) whose squared distances approximate ``square`` (m, m), and the part (k,) of the spread on each.

    Torgerson (1952): the leading eigenvectors of the doubly centred matrix, times the roots of their eigenvalues. The
    part is of the sum of the positive eigenvalues; zeros where all points are one. The sign of an axis is such that its
    largest coordinate in size is positive. O(m³).
    """
    m = len(square)
    inner = -0.5 * (square - square.mean(axis=0) - square.mean(axis=1)[:, None] + square.mean())
    value, vector = np.linalg.eigh(inner)
    value, vector = value[::-1], vector[:, ::-1]
    size = np.where(value > 1e-12 * max(value[0], np.abs(square).max(initial=0.0)), value, 0.0)
    place, part = np.zeros((m, k)), np.zeros(k)
    found = min(k, m)
    place[:, :found] = vector[:, :found] * np.sqrt(size[:found])
    largest = place[np.argmax(np.abs(place), axis=0), np.arange(k)]
    part[:found] = size[:found] / max(size.sum(), np.finfo(np.float64).tiny)
    return place * np.where(largest < 0.0, -1.0, 1.0), part
