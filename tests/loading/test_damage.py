"""Files that are no files, not ours, cut, altered or of another time; states of chains that cannot be."""

import os
import sys
from contextlib import suppress

import h5py
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.files import store as _store
from pactree_mcmc.files.encoding import CODEC, Encoded
from pactree_mcmc.files.store import content_digest, encode_parts, read_content, write_file, write_parts
from pactree_mcmc.loading.validate import InvalidFile, _check_graph, check_parts, check_rest
from pactree_mcmc.mcmc.chain.rest import ARRAYS
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import CHAIN_NODE, N_FREE, N_NODES
from tests import ROOT
from tests.problems.refusals import refuses
from tests.problems.runs import MODELS, assert_same, draw

sys.path.insert(0, str(ROOT / "verification"))

from fuzzing.files import Files, cut

NO_NETCDF = {"nothing": b"", "text": b"hello", "a signature": b"\x89HDF\r\n\x1a\n" + b"\0" * 600}
OTHER_FORMATS = {5: "is of format 5.*reads format 4.*a later one", 3: r"is of format 3.*the release that wrote it\.$"}
NOWHERE = (("right", 10_000), ("right", -3), ("feature", 77))
NO_SENSE = {
    "no JSON": ("{", "["),
    "a number out of range": ('"alpha": 0.95', '"alpha": 7.0'),
    "another class": ('"class": "ChipmanPrior"', '"class": "open"'),
}
KERNEL = {"learned": 0.5, "collapsed": 0.5}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    post = draw("classes", 6)
    post.save(path)
    return post, path.read_bytes()


@pytest.fixture
def path(saved, tmp_path):
    (tmp_path / "run.nc").write_bytes(saved[1])
    return tmp_path / "run.nc"


def refused(path, match):
    for read_it in (pt.load, pt.resume):
        with pytest.raises(ValueError, match=match) as caught:
            read_it(path)
        assert path.name in str(caught.value)


def test_no_such_file(tmp_path):
    refused(tmp_path / "run.nc", "does not exist")


@pytest.mark.parametrize("name", ["run.pkl", "run"])
def test_another_suffix(name, tmp_path):
    (tmp_path / name).write_bytes(b"x")
    refused(tmp_path / name, "files of posteriors end in")


@pytest.mark.more
@pytest.mark.parametrize("content", NO_NETCDF)
def test_no_netcdf(content, tmp_path):
    (tmp_path / "run.nc").write_bytes(NO_NETCDF[content])
    refused(tmp_path / "run.nc", "cannot be read")


@pytest.mark.more
def test_netcdf_of_others(tmp_path):
    with h5py.File(tmp_path / "run.nc", "w") as file:
        file["posterior/n_leaves"] = np.zeros(3)
    refused(tmp_path / "run.nc", "has no group pactree_mcmc")


@pytest.mark.more
@pytest.mark.parametrize("fraction", [0.999, 0.9, 0.5, 0.1])
def test_truncated(fraction, path):
    path.write_bytes(path.read_bytes()[: int(fraction * path.stat().st_size)])
    refused(path, "cannot be read|damaged or was altered|no group")


@pytest.mark.more
@pytest.mark.parametrize("name", ["draws.trees.cut", "small_int64"])
def test_a_number_altered(name, saved, path):
    """Of the draws, or of arrays that are stored together, among them the states of chains."""
    with h5py.File(path, "a") as file:
        values = file["pactree_mcmc"][name][()]
        values.reshape(-1)[-1] ^= 1
        file["pactree_mcmc"][name][...] = values
    refused(path, "does not match its checksum: the SHA-256 of its content is")


def test_flipped_bytes_of_the_content_are_refused(saved, path):
    """Arrays are compressed: most changed bytes cannot be read, others have another digest, few change no number."""
    with h5py.File(path, "r") as file:
        values = file["pactree_mcmc"]["small_int64"]
        chunk, numbers = values.id.get_chunk_info(0), values[()]
    rng = np.random.default_rng(2)
    for at in rng.integers(chunk.byte_offset, chunk.byte_offset + chunk.size, 6).tolist():
        content = saved[1]
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :])
        with suppress(OSError), h5py.File(path, "r") as file:
            if np.array_equal(file["pactree_mcmc"]["small_int64"], numbers):
                continue
        refused(
            path, "cannot be read|does not match its checksum: the SHA-256 of its content is .*; use an intact copy"
        )


@pytest.mark.more
def test_a_sample_of_changed_files(tmp_path):
    """Each is refused with an error that names it, or loads, answers and goes on. All: verification/fuzz.py --files."""
    files, kinds = Files(tmp_path), set()
    for number in range(45):
        if number % 3 == 0 and (files.judge(0, number)[1].startswith(cut.__name__)):
            continue
        kind, what = files.judge(0, number)
        assert kind != "wrong", f"python verification/fuzz.py --files 1 --replay {number}: {what}"
        kinds.add((kind, what.partition(":")[0]))
    assert {kind for kind, _ in kinds} == {"refused", "answered"} and len({how for _, how in kinds}) > 7


@pytest.mark.parametrize(("version", "match"), [*OTHER_FORMATS.items(), (None, "is incomplete")])
def test_another_format(version, match, path):
    with h5py.File(path, "a") as file:
        attrs = file["pactree_mcmc"].attrs
        if version is None:
            del attrs["format"]
        else:
            attrs["format"] = version
    refused(path, match)


def test_others_may_add_groups(saved, path):
    with h5py.File(path, "a") as file:
        file["notes/mine"] = np.arange(3)
        del file["posterior"]
    assert_same(pt.load(path), saved[0])


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither such modes nor links for everybody")
@pytest.mark.parametrize("mode", [0o640, 0o400])
def test_a_replaced_file_keeps_its_mode_and_its_link(saved, path, tmp_path, mode):
    (tmp_path / "folder").mkdir()
    link, inner = tmp_path / "link.nc", tmp_path / "folder" / "inner.nc"
    path.chmod(mode)
    inner.symlink_to(path)
    link.symlink_to("folder/inner.nc")
    for target in (path, link):
        saved[0].save(target)
        assert path.stat().st_mode & 0o777 == mode
        assert link.is_symlink() and inner.is_symlink() and not path.is_symlink()
    assert_same(pt.load(link), saved[0])
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["folder", "inner.nc", "link.nc", "run.nc"]


def test_a_file_is_replaced_at_once(saved, path, tmp_path):
    """Never written over, as a process that is killed would leave half: another name of the file keeps the old."""
    other = tmp_path / "other.nc"
    before = path.read_bytes()
    os.link(path, other)
    saved[0].save(path)
    assert not path.samefile(other) and other.read_bytes() == before
    assert_same(pt.load(path), saved[0])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.nc", "run.nc"]


@pytest.mark.skipif(
    os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give away"
)
def test_a_replaced_file_keeps_its_owner(saved, path):
    os.chown(path, 12_345, 54_321)
    path.chmod(0o2640)
    saved[0].save(path)
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o7777) == (12_345, 54_321, 0o2640)
    assert_same(pt.load(path), saved[0])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_file_is_not_open_to_others_while_it_is_written(saved, path, monkeypatch):
    seen, replace = [], os.replace
    path.chmod(0o600)
    write = _store._write_dataset
    monkeypatch.setattr(_store, "_write_dataset", lambda part, *more: (write(part, *more), seen.append(part.stat())))
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(a.stat()), replace(a, b)))
    saved[0].save(path)
    assert {each.st_mode & 0o777 for each in seen} == {0o600}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_new_file_has_the_mode_of_new_files(saved, tmp_path):
    (tmp_path / "other").write_text("")
    saved[0].save(tmp_path / "new.nc")
    assert (tmp_path / "new.nc").stat().st_mode == (tmp_path / "other").stat().st_mode


def with_content(path, change):
    write_file(path, change(read_content(path)), {})


@pytest.mark.parametrize(("name", "value"), NOWHERE)
def test_trees_that_lead_nowhere(name, value, path):
    """Even if the checksum fits: compiled code must not leave its arrays."""

    def change(content):
        arrays = {key: array.copy() for key, array in content.arrays.items()}
        arrays[f"draws.trees.{name}"][0] = value
        return content._replace(arrays=arrays)

    with_content(path, change)
    refused(path, "its trees are not trees over 3 features")


@pytest.mark.parametrize("name", ["cut", "upper"])
def test_cuts_beyond_the_codes_of_their_feature(name, saved, path):

    def change(content):
        at = int(np.argmax(content.arrays["draws.trees.upper"] > 0))
        n_codes = saved[0].model.n_codes[content.arrays["draws.trees.feature"][at]]
        values = content.arrays[f"draws.trees.{name}"].copy()
        values[at] = -2 if name == "cut" else n_codes + 1
        return content._replace(arrays=content.arrays | {f"draws.trees.{name}": values})

    with_content(path, change)
    refused(path, "a cut is out of range")


def test_units_are_the_sums_of_their_rows():
    """Tables of scores are as long as the weights of the rows say; heavier units would lead out of them."""
    model = pt.TreeModel(np.arange(12.0)[:, None] // 2, np.arange(12) // 4)
    parts = model.parts
    rows = parts.units.rows + np.array([1, -1, 0, 0, 0, 0], dtype=np.int32)
    for change in ({"weight": parts.units.weight * 1e9}, {"label": parts.units.label[::-1].copy()}, {"rows": rows}):
        with pytest.raises(InvalidFile, match="the units are not those of the rows"):
            check_parts(parts._replace(units=parts.units._replace(**change)))
    check_parts(parts)
    numbers = pt.TreeModel(np.arange(12.0)[:, None] // 2, np.sqrt(np.arange(12.0))).parts
    with pytest.raises(InvalidFile, match="the units are not those of the rows"):
        check_parts(numbers._replace(units=numbers.units._replace(moments=numbers.units.moments * 2.0)))
    with pytest.raises(InvalidFile, match="y has another mean"):
        check_parts(numbers._replace(target=numbers.target._replace(variance=numbers.target.variance * 2.0)))
    with pytest.raises(InvalidFile, match="numbered otherwise"):
        check_parts(parts._replace(unit_of_row=parts.unit_of_row[::-1].copy()))
    check_parts(numbers)


@pytest.mark.parametrize("what", NO_SENSE)
def test_description_that_makes_no_sense(what, path):
    with_content(path, lambda content: content._replace(text=content.text.replace(*NO_SENSE[what], 1)))
    refused(path, "cannot be used")


def test_chains_of_another_release(saved, path):
    """The draws are there whatever chains have become; only going on is not possible."""
    layout = str(CHAIN_NODE.descr)
    with_content(path, lambda content: content._replace(text=content.text.replace(layout, layout[:-1] + "?")))
    with pytest.warns(UserWarning, match=r"run\.nc cannot be continued by this release"):
        decoded = pt.load(path)
    assert np.array_equal(decoded.draws.tree_of_draw, saved[0].draws.tree_of_draw) and decoded.course is None


def test_what_is_encoded_is_decoded():
    """Values at the edges of what JSON and files can hold."""
    value = {
        "numbers": [0, -(2**200), 1e-320, float("inf"), float("nan"), True, None, np.float32(0.1), np.int8(-3)],
        "arrays": (np.zeros((0, 3)), np.array(5.0), np.array([[True], [False]]), np.arange(3, dtype=">i4")),
        "labels": np.array(["", "a b", "日本"]),
    }
    decoded = CODEC.decode(encode_parts(value, "run.nc"))
    assert repr(decoded["numbers"]) == repr(value["numbers"])
    assert [type(x) for x in decoded["numbers"]] == [type(x) for x in value["numbers"]]
    for a, b in zip(decoded["arrays"], value["arrays"], strict=True):
        assert a.shape == b.shape and np.array_equal(a, b)
    assert decoded["labels"].tolist() == value["labels"].tolist()
    refuses(r"deep\.0 is a set", lambda: encode_parts({"deep": [{1, 2}]}, "run.nc"))


@pytest.mark.parametrize(
    ("name", "array"),
    [("a", np.zeros((3, 2))), ("b", np.zeros((2, 3))), ("a", np.zeros((2, 3), dtype=np.int64)), ("a", np.ones((2, 3)))],
)
def test_the_checksum_of_a_content_is_of_all_of_it(name, array):
    assert content_digest(Encoded("{}", {name: array})) != content_digest(Encoded("{}", {"a": np.zeros((2, 3))}))
    assert content_digest(Encoded("{} ", {"a": np.zeros((2, 3))})) != content_digest(
        Encoded("{}", {"a": np.zeros((2, 3))})
    )


@pytest.mark.parametrize("size", [3, 1 << 14])
def test_numbers_of_the_other_byte_order(size):
    """They are written as those of this machine, however large, for the checksum names their type."""
    value = np.arange(size, dtype=">f8")
    encoded = encode_parts({"x": value}, "run.nc")
    assert {array.dtype.str for array in encoded.arrays.values()} == {"<f8"}
    assert np.array_equal(CODEC.decode(encoded)["x"], value)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="names of open files are read from /proc")
def test_a_file_is_on_the_disk_before_it_takes_its_place(tmp_path, monkeypatch):
    """All of its bytes are flushed, then it is renamed, then the folder is flushed."""
    events, flush, replace = [], os.fsync, os.replace

    def noted_flush(handle):
        events.append(("flush", os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))))
        flush(handle)

    monkeypatch.setattr(os, "fsync", noted_flush)
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(("replace", b.name)), replace(a, b)))
    write_file(tmp_path / "run.nc", Encoded("{}", {}), {})
    assert events == [("flush", ".run.nc.part"), ("replace", "run.nc"), ("flush", tmp_path.name)]


@pytest.fixture(scope="module")
def post():
    return draw("shared variance", 5, kernel=KERNEL)


def with_replica(end, **changed):
    return end._replace(replicas=(end.replicas[0]._replace(**changed), *end.replicas[1:]))


def with_array(name, change):
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
    refuses(match, lambda: _check_graph(graph._replace(**{field: change(getattr(graph, field))}), lowered), InvalidFile)


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
