"""The part of a file from which only `resume` goes on: wrong shapes, dtypes and indices are refused."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.files.store import write_parts
from pactree_mcmc.loading.validate import InvalidFile, _check_graph, check_rest
from pactree_mcmc.mcmc.chain.rest import ARRAYS
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import N_FREE, N_NODES
from tests.problems.runs import MODELS, draw

KERNEL = {"learned": 0.5, "collapsed": 0.5}


@pytest.fixture(scope="module")
def post():
    return draw("shared variance", 5, kernel=KERNEL)


def refused(path, match):
    for read_file in (pt.load, pt.resume):
        with pytest.raises(ValueError, match=match) as caught:
            read_file(path)
        assert path.name in str(caught.value)


def with_replica(end, **changed):
    return end._replace(replicas=(end.replicas[0]._replace(**changed), *end.replicas[1:]))


def with_array(name, change):
    """A change of one array of the state."""

    def changed(end):
        state = list(end.replicas[0].state)
        state[ARRAYS.index(name)] = change(state[ARRAYS.index(name)])
        return with_replica(end, state=tuple(state))

    return changed


def shorter(array):
    return array[:-1].copy()


def wider(array):
    return np.repeat(array, 2, axis=-1)


def as_doubles(array):
    return array.astype(np.float64)


def with_entry(place, value, field=None):
    """A change of one entry of an array, or of a field of its records."""

    def change(array):
        array = array.copy()
        (array if field is None else array[field])[place] = value
        return array

    return change


def of_node(field, place, value):
    return with_array("node", with_entry(place, value, field))


WRONG = {
    "units left out": (with_array("order", shorter), "order of a chain has shape"),
    "units of another dtype": (with_array("order", as_doubles), "order of a chain has dtype float64"),
    "nodes left out": (with_array("node", shorter), "stats of a chain has shape"),
    "statistics": (with_array("stats", wider), "stats of a chain has shape"),
    "boxes": (with_array("box", lambda array: array[..., :1].copy()), "box of a chain has shape"),
    "counts": (with_array("count", shorter), "count of a chain has shape"),
    "power": (with_array("beta", lambda array: array.astype(np.float32)), "beta of a chain has dtype float32"),
    "variance": (
        lambda end: with_replica(end, noise=(np.ones(1), np.ones(1))),
        "the variance of a chain has another shape",
    ),
    "no variance": (lambda end: with_replica(end, noise=None), "of another model"),
    "a number": (lambda end: end._replace(tuned=1.5), "a chain has no number of tuning steps"),
    "a team": (lambda end: end._replace(team=2), "a chain is of no team"),
    "a generator": (lambda end: end._replace(generator=3), "a chain has no generator"),
    "a chain": (lambda end: end._replace(replicas=2 * end.replicas), "a ladder has other levels"),
    "a unit that is none": (with_array("order", with_entry(0, 10**6)), "the units of a chain are not those"),
    "a unit twice": (with_array("order", lambda array: np.zeros_like(array)), "the units of a chain are not those"),
    "statistics of other rows": (with_array("stats", lambda array: 2.0 * array), "the statistics of a chain"),
    "a child far away": (of_node("left", 0, 10**6), "a child of a chain is out of range"),
    "a circle": (of_node("right", 0, 0), "a child of a chain is out of range"),
    "a parent": (lambda end: of_node("parent", end.replicas[0].state[1].left[0], 5)(end), "are not a tree"),
    "a depth": (of_node("depth", 0, 3), "a depth of a chain|the root of a chain"),
    "a feature": (of_node("feature", 0, 77), "a feature of a chain is out of range"),
    "a cut": (of_node("upper", 0, 100), "a split of a chain is out of range"),
    "units of a node": (of_node("stop", 0, 100), "the root of a chain|units of a chain"),
    "rows": (of_node("rows", 0, 1000), "the rows of a chain"),
    "a design": (of_node("design", 0, 1), "a node of the fixed tree of a chain is out of range"),
    "a list": (of_node("internal", 0, 10**6), "a list of a chain is out of range"),
    "a place in a list": (of_node("internal_at", 0, 3), "a list of a chain has other nodes"),
    "a free node": (of_node("free", 0, 0), "the free nodes of a chain"),
    "a number of nodes": (with_array("count", with_entry(N_NODES, 1)), "are not a tree"),
    "a number of free nodes": (with_array("count", with_entry(N_FREE, 10**6)), "the free nodes of a chain"),
}


@pytest.mark.more(everyday=["units left out", "units of another dtype"])
@pytest.mark.parametrize("what", list(WRONG))
def test_wrong_shapes_and_dtypes_are_refused(what, post, tmp_path):
    """Even if the digest fits."""
    change, match = WRONG[what]
    course, path = post.course, tmp_path / "run.nc"
    post.course = course._replace(rests=(change(course.rests[0]), *course.rests[1:]))
    try:
        post.save(path)
    finally:
        post.course = course
    refused(path, f"cannot be used: .*{match}")


def with_tuned(**changed):
    return lambda course: course._replace(tuned=course.tuned._replace(**changed))


def with_density(change):
    return lambda course: with_tuned(density=change(course.tuned.density))(course)


WRONG_COURSES = {
    "no course": (lambda course: course.tuned, "the course is missing"),
    "nothing tuned": (lambda course: course._replace(tuned=course.stretch), "what was asked or tuned is missing"),
    "no stretch": (lambda course: course._replace(stretch=()), "the stretch is missing"),
    "steps": (lambda course: course._replace(steps=-1), "a number of draws or steps is out of range"),
    "thin": (lambda course: course._replace(stretch=course.stretch._replace(thin=0)), "thin is out of range"),
    "chains": (lambda course: course._replace(rests=course.rests[:1]), "a chain has no state"),
    "draws": (lambda course: course._replace(draws_by_chain=(1, 100)), "a number of draws is out of range"),
    "graphs": (with_tuned(graphs=()), "a team has no density"),
    "density": (with_density(lambda array: array[:, :-1].copy()), "the density has shape"),
    "density of another dtype": (with_density(lambda array: array.astype(np.float32)), "the density has another dtype"),
    "no depths": (with_density(with_entry((0, -1, 0), 0.0)), "the density is out of range"),
    "moves": (
        lambda course: with_tuned(kernel=read_kernel("grow-prune"))(course),
        "the moves are not those of the kernel",
    ),
}


@pytest.mark.more(everyday=["density", "chains"])
@pytest.mark.parametrize("what", list(WRONG_COURSES))
def test_courses_that_make_no_sense_are_refused(what, post, tmp_path):
    change, match = WRONG_COURSES[what]
    course, path = post.course, tmp_path / "run.nc"
    write_parts({"model": post.model.parts_in_file, "draws": post.draws.record(), "course": change(course)}, path)
    refused(path, f"cannot be used: .*{match}")


WRONG_GRAPHS = {
    "records": ("piece", lambda array: np.zeros(len(array)), r"graph\.piece has dtype float64"),
    "slots": ("slot", lambda array: array.astype(np.int64), r"graph\.slot has dtype int64"),
    "use of the graph": ("used", shorter, r"graph\.used has shape"),
    "pieces": ("used", with_entry(0, 10**6), "the graph has other lengths"),
    "a slot": ("slot", with_entry(0, 10**6), "a slot of the graph is out of range"),
    "no free slot": ("slot", np.zeros_like, "the graph has no free slot"),
    "a first link": ("piece", with_entry(0, 10**6, "first"), "a link of the graph is out of range"),
    "a link that is none": ("link", with_entry(0, 10**6, "next"), "a link of the graph is out of range"),
    "a link that follows itself": ("link", with_entry(0, 0, "next"), "a link of the graph is reached twice"),
    "a link of two pieces": ("piece", with_entry(slice(None), 0, "first"), "a link of the graph is reached twice"),
    "a child": ("link", with_entry(slice(None), 10**6, "left"), "a piece of the graph is out of range"),
    "a circle": ("link", with_entry(slice(None), 0, "right"), "a depth of the graph is out of range"),
    "a feature": ("link", with_entry(0, 77, "feature"), "a feature of the graph is out of range"),
    "a cut": ("link", with_entry(slice(None), 1000, "upper"), "a split of the graph is out of range"),
}


@pytest.fixture(scope="module")
def graph():
    post = pt.sample(MODELS["classes"], 20, work=1e7, rng=1, chains=2, progress=False)
    return post.course.tuned.graphs[0]


@pytest.mark.parametrize("what", list(WRONG_GRAPHS))
def test_graphs_that_lead_nowhere_are_refused(what, graph):
    field, change, match = WRONG_GRAPHS[what]
    lowered = MODELS["classes"].lowered
    assert graph.used[0] > 5
    _check_graph(graph, lowered)
    with pytest.raises(InvalidFile, match=match):
        _check_graph(graph._replace(**{field: change(getattr(graph, field))}), lowered)


@pytest.mark.more(everyday=["classes", "numbers", "fixed"])
@pytest.mark.parametrize("name", MODELS)
def test_states_of_all_models_are_accepted(name, tmp_path):
    for kernel in ("local", "cgm", KERNEL):
        post = draw(name, 8, kernel=kernel)
        post.save(tmp_path / "run.nc")
        assert pt.load(tmp_path / "run.nc").course is not None


@pytest.mark.parametrize("change", [with_entry((0, 0, 1), 1000), with_entry((0, 2, 0), 1 << 40)])
def test_boxes_of_codes_that_do_not_exist_are_refused(change):
    post = draw("grid", 5, kernel="cgm")
    end = pt.resume(post, 1, progress=False).course.rests[0]
    check_rest(end, post.model, post.course.kernel, 1)
    with pytest.raises(InvalidFile, match="a box of a chain is out of range"):
        check_rest(with_array("box", change)(end), post.model, post.course.kernel, 1)


@pytest.mark.parametrize(("bits", "name"), [(np.random.MT19937, "pos"), (np.random.Philox, "buffer_pos")])
def test_positions_of_generators_are_checked(bits, name, tmp_path):
    post = draw("classes", 5, rng=[bits(1), bits(2)])
    post.save(tmp_path / "run.nc")
    assert pt.load(tmp_path / "run.nc").course is not None
    state = post.course.rests[0].generator
    (state["state"] if name in state["state"] else state)[name] = 10**6
    post.save(tmp_path / "run.nc")
    refused(tmp_path / "run.nc", "a generator has no position")


def test_a_checkpoint_is_checked_in_the_same_way(post, tmp_path):
    path, course = tmp_path / "run.nc", post.course

    def write(made=(5, 4), course=course):
        stretch = course.stretch._replace(goal=9)
        request = course.request._replace(draws=9)
        course = course._replace(draws_by_chain=made, every=60.0, request=request, stretch=stretch, steps=5)
        write_parts({"model": post.model.parts_in_file, "draws": post.draws.record(), "course": course}, path)

    write()
    with pytest.warns(UserWarning, match="4 of 9 draws a chain"):
        assert np.array_equal(pt.load(path).log_score, post.log_score[:, :4])
    assert pt.resume(path, progress=False, checkpoint=tmp_path / "next.nc").n_draws == 9
    write(made=(5, 6))
    refused(path, "cannot be used: a number of draws is out of range")
    write(course=course._replace(rests=(WRONG["units left out"][0](course.rests[0]), course.rests[1])))
    refused(path, "cannot be used: order of a chain has shape")
