"""Splits as numbers: what is packed comes back, alone and in arrays, and sends codes where it should."""

import itertools

import numpy as np
import pytest

from exact.graph import boxes
from pactree_mcmc.core.bits import goes_left

CUTS = [(-1, 0), (-1, 7), (0, 1), (3, 9), (2**31 - 2, 2**31 - 1), (5, 2**32 - 1)]


def test_what_is_packed_comes_back():
    packed = [boxes.pack_cut(cut, upper) for cut, upper in CUTS]
    assert [(boxes.cut_of(split), boxes.upper_of(split)) for split in packed] == CUTS
    cut, upper = np.array(CUTS).T
    np.testing.assert_array_equal(boxes.pack_cuts(cut, upper), packed)
    np.testing.assert_array_equal(boxes.unpack_cuts(np.array(packed)), [cut, upper])
    for split, pair in zip(packed, CUTS, strict=True):
        assert tuple(int(part[0]) for part in boxes.unpack_cuts(split)) == pair
    for a, b in itertools.pairwise(packed):
        assert (a & boxes.CUT_MASK == b & boxes.CUT_MASK) == (boxes.cut_of(a) == boxes.cut_of(b))


def test_codes_go_where_splits_send_them():
    for (cut, upper), code in itertools.product(CUTS, range(11)):
        assert boxes.sends_left(boxes.pack_cut(cut, upper), code, False) == goes_left(code, cut, np.int64(-1))
    for categories, code in itertools.product((0, 1, 0b1011010, 2**63 - 1), range(7)):
        assert boxes.sends_left(categories, code, True) == bool(goes_left(code, 0, np.int64(categories)))


@pytest.mark.planted
def test_a_cut_that_loses_its_sign_is_seen(monkeypatch):
    monkeypatch.setattr(boxes, "cut_of", lambda split: (split >> boxes.UPPER_BITS) & boxes.UPPER_MASK)
    with pytest.raises(AssertionError):
        test_what_is_packed_comes_back()
