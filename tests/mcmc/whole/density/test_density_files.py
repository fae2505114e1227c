"""Files whose density, or what is stored of its cells, makes no sense are refused."""

import copy

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.state.stored import MOST_GUIDES
from tests.mcmc.whole.test_rounds import densities, learned, with_density


@pytest.mark.slow
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
    """Write one value into what is kept of cells; ``where`` is a field of records, or a column."""

    def spoil(cells):
        array = getattr(cells, name)
        if isinstance(where, str):
            array[where][0] = value
        else:
            array[0, where] = value
        return cells

    return spoil


def other_shape(name):
    return lambda cells: cells._replace(**{name: getattr(cells, name)[:, :-1]})


def behind_the_last(cells):
    cells.guided[-1] = MOST_GUIDES
    return cells


FORGED = [
    (other_shape("fractions"), "fractions"),
    (other_shape("own"), "own"),
    (lambda cells: cells._replace(own=cells.own[:-1]), "own"),
    (lambda cells: cells._replace(guide=cells.guide[:-1]), "guides has another shape"),
    (into("guide", "odds", np.nan), "odds is NaN"),
    (into("guide", "log_split", 0.1), "log_split is no probability"),
    (into("guide", "asked", 2), "whether a guide was asked for its splits"),
    (into("fractions", 0, -0.1), "a fraction is no probability"),
    (into("own", 0, np.nan), "own is not finite"),
    (behind_the_last, "a guide is out of range"),
]


@pytest.fixture(scope="module")
def five():
    """A run of five draws, to be copied."""
    return learned("numbers", 5)


@pytest.mark.parametrize(("spoil", "said"), FORGED, ids=[f"{i} {said}" for i, (_, said) in enumerate(FORGED)])
def test_guides_that_make_no_sense_are_refused(spoil, said, five, tmp_path):
    post = copy.copy(five)
    assert min(len(end.replicas[0].cells.guide) for end in post.course.ends) > 3
    with_cells(post, spoil)
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match=said):
        pt.load(tmp_path / "run.nc")


@pytest.mark.slow
def test_guides_without_a_density_are_refused(tmp_path):
    """Of a kernel that keeps none."""
    post, other = learned("numbers", 5, kernel={"collapsed": 1.0}), learned("numbers", 5)
    guided = other.course.ends[1].replicas[0].cells
    names = ("guided", "guide", "fractions", "own")
    with_cells(post, lambda cells: cells._replace(**{name: getattr(guided, name) for name in names}))
    post.save(tmp_path / "run.nc")
    with pytest.raises(ValueError, match="there are guides without a density"):
        pt.load(tmp_path / "run.nc")
