"""Files that are no files, not ours, cut, altered or of another time: an error that says which."""

import os
import sys
from contextlib import suppress

import h5py
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.files import store as _store
from pactree_mcmc.files.encoding import CODEC, Encoded
from pactree_mcmc.files.store import content_digest, encode_parts, read_content, write_file
from pactree_mcmc.loading.validate import InvalidFile, check_parts
from pactree_mcmc.mcmc.state.records import CHAIN_NODE
from tests import ROOT
from tests.problems.runs import assert_same, draw

sys.path.insert(0, str(ROOT / "verification"))

from fuzzing.files import Files, cut


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    post = draw("classes", 6)
    post.save(path)
    return post, path.read_bytes()


@pytest.fixture
def path(saved, tmp_path):
    """Return the path of a copy of the file."""
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


NO_NETCDF = {"nothing": b"", "text": b"hello", "a signature": b"\x89HDF\r\n\x1a\n" + b"\0" * 600}


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
    assert {kind for kind, _ in kinds} == {"refused", "answered"}
    assert len({how for _, how in kinds}) > 7


OTHER_FORMATS = {5: "is of format 5.*reads format 4.*a later one", 3: r"is of format 3.*the release that wrote it\.$"}


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
    """The file with its content changed, and a checksum that fits."""
    write_file(path, change(read_content(path)), {})


NOWHERE = (("right", 10_000), ("right", -3), ("feature", 77))


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
    """By one, at the first split by a number."""

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
    for change in (
        {"weight": parts.units.weight * 1e9},
        {"label": parts.units.label[::-1].copy()},
        {"rows": rows},
    ):
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


NO_SENSE = {
    "no JSON": ("{", "["),
    "a number out of range": ('"alpha": 0.95', '"alpha": 7.0'),
    "another class": ('"class": "ChipmanPrior"', '"class": "open"'),
}


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
    assert np.array_equal(decoded.draws.tree_of_draw, saved[0].draws.tree_of_draw)
    assert decoded.course is None


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
    with pytest.raises(ValueError, match=r"deep\.0 is a set"):
        encode_parts({"deep": [{1, 2}]}, "run.nc")


@pytest.mark.parametrize(
    ("name", "array"),
    [("a", np.zeros((3, 2))), ("b", np.zeros((2, 3))), ("a", np.zeros((2, 3), dtype=np.int64)), ("a", np.ones((2, 3)))],
)
def test_the_checksum_of_a_content_is_of_all_of_it(name, array):
    """Names, shapes, types and bytes."""
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
