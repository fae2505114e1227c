"""The coding of the features: codes say what thresholds say, and merged rows keep what the scores need."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.table.coding import DyadicScale, code_type, encode, local_scale, quantile_scale, scale_from_cuts
from pactree_mcmc.table.columns import describe_columns
from pactree_mcmc.table.reader import Table

TINY = 5e-324


def floats_after(x, n):
    """``n`` neighbouring floats from ``x`` on."""
    return x + np.arange(n) * np.spacing(x)


VALUES = {
    "integers": np.arange(20.0),
    "ties": np.array([3.0, 1, 1, 2, 2, 2, 7, 7, 1, 3]),
    "constant": np.full(5, 0.1),
    "neighbours above 1": floats_after(1.0, 9),
    "neighbours below 1": 1.0 - np.arange(9) * np.spacing(0.5),
    "neighbours, large": floats_after(1e17, 7),
    "denormal": np.array([0.0, TINY, 2 * TINY, 3 * TINY, -TINY]),
    "huge": np.array([-1.7e308, 1.7e308, 1.6e308, 0.0, 1.0]),
    "all magnitudes": np.concatenate([s * 10.0 ** np.arange(-300, 301, 50) for s in (-1, 1)] + [[0.0]]),
    "signed zeros": np.array([-0.0, 0.0, 1.0, -1.0]),
    "irregular": np.random.default_rng(1).normal(size=200),
}
SCALES = {
    "local": lambda x: local_scale(x, None),
    "local, thinned": lambda x: local_scale(x, 4),
    "quantile": lambda x: quantile_scale(x, 3),
    "quantile, many": lambda x: quantile_scale(x, 1000),
    "given": lambda x: scale_from_cuts(np.unique(np.append(x[::2], [-2.5, 0.5, 1e6]))),
    "given, none": lambda x: scale_from_cuts(np.empty(0)),
}


def codes_of(x, scale):
    table = Table(np.asarray(x)[:, None])
    return encode(table, describe_columns(table, None), [scale])[0].astype(np.int64)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES.keys())
def test_codes_say_what_thresholds_say(x, scale):
    scale = scale(x)
    codes, cuts = codes_of(x, scale), np.arange(scale.n_codes - 1)
    thresholds = scale.threshold(cuts, cuts + 1)
    assert np.all(np.isfinite(thresholds))
    assert np.all(np.diff(thresholds) > 0.0)
    for cut, threshold in zip(cuts, thresholds, strict=True):
        np.testing.assert_array_equal(x <= threshold, codes <= cut)
        assert scale.cut_of(float(threshold)) == cut


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
def test_infinite_thresholds_are_the_trivial_cuts(scale):
    scale = scale(VALUES["ties"])
    assert scale.cut_of(np.inf) == scale.n_codes - 1
    assert scale.cut_of(-np.inf) == -1
    last = np.array([scale.n_codes - 1, -1])
    assert scale.threshold(last, np.full(2, scale.n_codes)).tolist() == [np.inf, -np.inf]


BOUNDS = {
    "unit": (0.0, 1.0),
    "odd": (-0.3, 7.7),
    "tiny": (0.0, 1e-300),
    "huge": (-1.5e308, 1.5e308),
    "far from zero": (1e6, 1e6 + 1.0),
}


@pytest.mark.parametrize("levels", [1, 2, 3, 8, 20, 31])
@pytest.mark.parametrize(("lower", "upper"), BOUNDS.values(), ids=BOUNDS.keys())
def test_dyadic_codes_say_what_thresholds_say(lower, upper, levels):
    """Values on, just above and just below thresholds, on the bounds and outside them."""
    scale, rng = DyadicScale(lower, upper, levels), np.random.default_rng(levels)
    assert scale.n_codes == 2**levels
    cuts = np.unique(np.concatenate([rng.integers(scale.n_codes - 1, size=30), [0, scale.n_codes - 2]]))
    thresholds = scale.threshold(cuts, cuts + 1)
    fraction = rng.random(50)
    x = np.concatenate([thresholds, lower * fraction + upper * (1 - fraction), [lower, upper, -1.7e308, 1.7e308]])
    x = np.concatenate([x, np.nextafter(thresholds, np.inf), np.nextafter(thresholds, -np.inf)])
    codes = codes_of(x, scale)
    for cut, threshold in zip(cuts, thresholds, strict=True):
        np.testing.assert_array_equal(x <= threshold, codes <= cut)
        assert scale.cut_of(float(threshold)) == cut


@pytest.mark.parametrize("bounds", [(1.0, 1.0 + 2**-50), (1.0, np.nextafter(1.0, 2.0)), (0.0, TINY), (1e9, 1e9 + 1e-3)])
def test_dyadic_codes_follow_the_midpoints_where_rounding_makes_thresholds_equal(bounds):
    """The splits on a row's way down, each cell's midpoint, are answered alike in codes and in numbers."""
    scale = DyadicScale(*bounds, levels=31)
    x = np.linspace(*bounds, 20)
    codes = codes_of(x, scale)
    low, high = np.zeros(len(x), dtype=np.int64), np.full(len(x), scale.n_codes)
    for _ in range(31):
        cut = (low + high) // 2 - 1
        left = codes <= cut
        np.testing.assert_array_equal(left, x <= scale.threshold(cut, cut + 1))
        low, high = np.where(left, low, cut + 1), np.where(left, cut + 1, high)


DUPLICATES = np.array([[1.0, 5], [2, 5], [1, 5], [1, 6], [2, 5], [1, 5], [3, 7]])
WEIGHT = np.array([0.5, 1, 2, 1, 3, 0, 1])


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_merging_rows_of_a_regression(weight):
    """Four kinds of rows; counts, weights and moments add up, in order of first occurrence."""
    y = np.array([1.0, 2, 4, 8, 16, 32, 64])
    model = pt.TreeModel(DUPLICATES, y, sample_weight=weight)
    units, w = model.units, np.ones(7) if weight is None else weight
    assert model.unit_of_row.tolist() == [0, 1, 0, 2, 1, 0, 3]
    assert units.n_units == 4
    assert units.codes.tolist() == [[0, 1, 0, 2], [0, 0, 1, 2]]
    assert units.rows.tolist() == [3, 2, 1, 1]
    centred = y - np.average(y, weights=w)
    for total, part in ((units.weight, w), (units.moments[0], w * centred), (units.moments[1], w * centred**2)):
        assert total == pytest.approx([part[[0, 2, 5]].sum(), part[[1, 4]].sum(), part[3], part[6]])


def test_merging_rows_of_a_classification():
    """Rows with equal codes stay apart when their labels differ."""
    model = pt.TreeModel(DUPLICATES, list("abbaaba"), sample_weight=WEIGHT)
    units = model.units
    assert model.unit_of_row.tolist() == [0, 1, 2, 3, 4, 2, 5]
    assert units.label.tolist() == [0, 1, 1, 0, 0, 0]
    assert units.rows.tolist() == [1, 1, 2, 1, 1, 1]
    assert units.weight.tolist() == [0.5, 1, 2, 1, 3, 1]
    assert model.root_cell().stats(2) == pytest.approx([5.5, 3.0])


@pytest.mark.parametrize(
    ("n_codes", "n_rows", "dtype"),
    [
        (256, 500_000, np.uint8),
        (257, 500_000, np.uint16),
        (2, 499_999, np.uint16),
        (65_536, 10, np.uint16),
        (65_537, 10, np.uint32),
        (1 << 31, 10**6, np.uint32),
    ],
)
def test_codes_take_small_integers(n_codes, n_rows, dtype):
    assert code_type(n_codes, n_rows) is dtype


@pytest.mark.parametrize("thin", [quantile_scale, local_scale], ids=["quantile", "local"])
@pytest.mark.parametrize("max_cuts", [1, 2, 7, 50, 255])
class TestThinning:
    """At most ``max_cuts`` cuts, between bins about equally full."""

    def test_distinct_values(self, thin, max_cuts):
        """With n distinct values every bin is full to within one row."""
        x = np.random.default_rng(max_cuts).permutation(np.random.default_rng(0).normal(size=1000))
        scale = thin(x, max_cuts)
        rows = np.bincount(codes_of(x, scale))
        assert scale.n_codes == max_cuts + 1 == len(rows)
        assert rows.max() - rows.min() <= 1

    def test_ties(self, thin, max_cuts):
        """A bin overflows by no more than the rows of one value."""
        x = np.random.default_rng(1).poisson(8.0, 1000).astype(float)
        scale = thin(x, max_cuts)
        rows = np.bincount(codes_of(x, scale))
        most = np.unique(x, return_counts=True)[1].max()
        assert scale.n_codes <= min(max_cuts + 1, len(np.unique(x)))
        assert rows.min() >= 1
        assert rows.max() <= 1000 / (max_cuts + 1) + most

    def test_few_values_keep_every_cut(self, thin, max_cuts):
        x = np.repeat(np.arange(max_cuts + 1.0), 3)
        assert thin(x, max_cuts).cuts.tolist() == (np.arange(max_cuts) + 0.5).tolist()


@pytest.mark.parametrize("max_cuts", [3, 40])
@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES.keys())
def test_quantile_cuts_are_short_and_separate_the_rows_as_midpoints_do(x, max_cuts):
    """Each cut has at most six digits, or no shorter decimal lies between its neighbours."""
    scale, thinned = quantile_scale(x, max_cuts), local_scale(x, max_cuts)
    np.testing.assert_array_equal(codes_of(x, scale), codes_of(x, thinned))
    for cut, low, high in zip(scale.cuts.tolist(), thinned.high[:-1].tolist(), thinned.low[1:].tolist(), strict=True):
        digits = len(f"{cut!r}".partition("e")[0].replace(".", "").replace("-", "").strip("0"))
        inner = np.nextafter(low, np.inf)
        shorter = [float(f"{end:.{n}e}") for n in range(min(digits, 17) - 1) for end in (inner, cut, high)]
        assert digits <= 6 or not any(inner <= number < high for number in shorter)
