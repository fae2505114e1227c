"""Files whose density, or what is stored of its cells, makes no sense are refused."""

import copy

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.state.arrays import MOST_GUIDES
from pactree_mcmc.mcmc.state.records import MOST_ANCHORS
from pactree_mcmc.mcmc.whole.density.terms import WAY_BITS
from tests.mcmc.whole.test_rounds import densities, learned, with_density


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda density: density[:, :-1], "density has another shape"),
        (lambda density: density[:-1], "density has another shape"),
        (lambda density: density * np.where(density == density[1, 1], np.nan, 1.0), "the density is not finite"),
        (lambda density: density + np.inf, "the density is not finite"),
    ],
)
def test_a_density_of_another_model_is_refused(spoil, said, five, tmp_path):
    post = copy.copy(five)
    with_density(post, 1, spoil(densities(post)[1]))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_a_chain_without_a_density_does_not_go_on(tmp_path):
    """One of a kernel that draws from none has the shape (1, 1)."""
    post = learned(draws=5)
    with_density(post, 0, np.zeros((1, 1)))
    with pytest.raises(ValueError, match="density has shape"):
        pt.resume(post, 3, progress=False)


def with_cells(post, spoil):
    """Change what is kept of cells where the second chain stopped, by ``spoil(cells)``."""
    ends = list(post.course.ends)
    cells = ends[1].replicas[0].cells
    copies = cells._replace(**{name: getattr(cells, name).copy() for name in cells._fields[1:]})
    ends[1] = ends[1]._replace(replicas=(ends[1].replicas[0]._replace(cells=spoil(copies)),))
    post.course = post.course._replace(ends=tuple(ends))


def into(name, where, value):
    """Write one value into what is kept of cells; ``where`` is a field of records, or a column of the first anchors."""

    def spoil(cells):
        row = int(np.argmax(cells.guide["n_anchors"]))
        array = getattr(cells, name)
        if isinstance(where, str):
            array[where][row] = value
        else:
            array[row, where] = value
        return cells

    return spoil


def other_shape(name):
    return lambda cells: cells._replace(**{name: getattr(cells, name)[:, :-1]})


def swapped(cells):
    row = int(np.argmax(cells.guide["n_anchors"]))
    cells.anchors[row, :2] = cells.anchors[row, 1::-1]
    return cells


def behind_the_last(cells):
    cells.guided[-1] = MOST_GUIDES
    return cells


FORGED = [
    (other_shape("anchors"), "anchors has another shape"),
    (other_shape("ahead"), "ahead has another shape"),
    (lambda cells: cells._replace(ahead=cells.ahead[:-1]), "ahead has another shape"),
    (into("guide", "n_anchors", -1), "a number of anchors is out of range"),
    (into("guide", "n_anchors", MOST_ANCHORS + 1), "a number of anchors is out of range"),
    (into("guide", "n_anchors", 1 << 62), "a number of anchors is out of range"),
    (into("guide", "odds_ahead", np.nan), "odds_ahead is NaN"),
    (into("anchors", 0, 3 << WAY_BITS), "the feature of an anchor is out of range"),
    (into("anchors", 0, -1), "the feature of an anchor is out of range"),
    (into("anchors", 0, 1000), "the way of an anchor is out of range"),
    (swapped, "the anchors are in another order"),
    (into("ahead", 0, np.nan), "ahead is not finite"),
    (into("ahead", 0, np.inf), "ahead is not finite"),
    (behind_the_last, "a guide is out of range"),
]


@pytest.fixture(scope="module")
def five():
    """A run of five draws, to be copied."""
    return learned("numbers", 5)


@pytest.mark.parametrize(("spoil", "said"), FORGED, ids=[f"{i} {said}" for i, (_, said) in enumerate(FORGED)])
def test_anchors_that_make_no_sense_are_refused(spoil, said, five, tmp_path):
    post = copy.copy(five)
    assert max(end.replicas[0].cells.guide["n_anchors"].max() for end in post.course.ends) > 3
    with_cells(post, spoil)
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


def test_guides_without_a_density_are_refused(tmp_path):
    """Of a kernel that keeps none."""
    post, other = learned("numbers", 5, kernel={"collapsed": 1.0}), learned("numbers", 5)
    guided = other.course.ends[1].replicas[0].cells
    names = ("guided", "guide", "anchors", "ahead", "fractions", "own")
    with_cells(post, lambda cells: cells._replace(**{name: getattr(guided, name) for name in names}))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="there are guides without a density"):
        pt.load(tmp_path / "run.nc")
