"""The call that made draws: its line makes them again, in files, on the page and for ArviZ too."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.files.store import write_parts
from pactree_mcmc.mcmc import sampling

X = np.arange(30.0)[:, None]
MODEL = pt.TreeModel(X, X[:, 0] > 14)
SHORT = {"tune": 10, "chains": 2, "kernel": "grow-prune", "progress": False}


def drawn(rng, **options):
    return pt.sample(MODEL, 20, rng=rng, **(SHORT | options))


def again(post):
    """What the lines of a posterior draw."""
    names = {"pt": pt, "np": np, "model": MODEL}
    for call in post.draws.calls:
        exec(call.line, names)
    return names["post"]


def same(one, other):
    equal = [
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("log_prior", "log_score", "n_leaves")
    ]
    return all(equal) and np.array_equal(one.draws.tree_of_draw, other.draws.tree_of_draw)


SOURCES = {
    "none": lambda: None,
    "int": lambda: np.int64(7),
    "sequence": lambda: np.random.SeedSequence(11).spawn(3)[2],
    "entropy of several": lambda: np.random.SeedSequence([1, 2], pool_size=5),
    "generator": lambda: np.random.default_rng(3),
    "generator that has spawned": lambda: np.random.default_rng(3).spawn(2)[1],
    "one each": lambda: [5, np.random.SeedSequence(9)],
    "none each": lambda: [None, None],
}


@pytest.mark.more(everyday=["none"])
@pytest.mark.parametrize("source", SOURCES)
def test_the_line_draws_the_same(source):
    rng = SOURCES[source]()
    if isinstance(rng, np.random.Generator):
        rng.spawn(1)
        rng.random(5)
    post = drawn(rng)
    assert post.draws.calls[0].repeatable
    assert same(again(post), post)


@pytest.mark.planted
def test_a_line_without_the_key_of_its_seed(monkeypatch):
    monkeypatch.setattr(sampling, "seed_of", lambda rng, sources: sources[0].entropy)
    with pytest.raises(AssertionError):
        test_the_line_draws_the_same("sequence")


def test_a_line_says_what_was_given_and_no_more():
    post = drawn(1, kernel={"cgm": 0.5, "grow-prune": 2}, start="stump", betas=[1.0, 0.5])
    line = "draws=20, tune=10, chains=2, rng=1, kernel={'cgm': 0.5, 'grow-prune': 2}, start='stump', betas=[1.0, 0.5]"
    assert post.draws.calls[0].line == f"post = pt.sample(model, {line})"
    assert post.draws.calls[0].seed == "1"
    assert {"pactree-mcmc", "numba", "python"} <= set(post.draws.calls[0].versions)


def test_what_a_line_cannot_say():
    for options in ({"start": pt.Tree([-1], [0], [0], [0])}, {"rng": [np.random.default_rng(1), 2]}):
        call = drawn(**({"rng": 1} | options)).draws.calls[0]
        assert not call.repeatable
        assert "<" in call.line
    other = np.random.Generator(np.random.MT19937(5))
    assert not drawn(other).draws.calls[0].repeatable


@pytest.mark.more
def test_files_keep_the_calls(tmp_path):
    post = pt.resume(drawn(3), 10, progress=False)
    assert post.draws.calls[1].line == "post = pt.resume(post, draws=10)"
    assert same(again(post), post)
    post.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    assert loaded.draws.calls == post.draws.calls
    assert pt.resume(tmp_path / "run.nc", 5, progress=False).draws.calls[:2] == post.draws.calls
    watched = drawn(3, checkpoint=tmp_path / "checked.nc")
    assert watched.draws.calls == pt.load(tmp_path / "checked.nc").draws.calls == drawn(3).draws.calls


def test_a_file_whose_calls_are_none_is_refused(tmp_path):
    post = drawn(3)
    draws = post.draws.record()._replace(calls=("pt.sample(model)",))
    write_parts({"model": MODEL.parts_in_file, "draws": draws, "course": None}, tmp_path / "bad.nc")
    with pytest.raises(ValueError, match=r"bad\.nc cannot be used: the calls"):
        pt.load(tmp_path / "bad.nc")


@pytest.mark.more
def test_the_page_and_arviz_have_seed_and_line(tmp_path):
    post = drawn(31415)
    page = post.report(tmp_path / "page.html").read_text()
    assert "<dt>seed</dt><dd>31415</dd>" in page
    assert "post = pt.sample(model, draws=20, tune=10, chains=2, rng=31415" in page
    attrs = post.to_arviz()["posterior"].attrs
    assert attrs["seed"] == "31415"
    assert attrs["calls"] == post.draws.calls[0].line
    assert "numba" in attrs["versions"]
    long = drawn([np.random.SeedSequence(list(range(100)))] * 100, chains=100)
    long.save(tmp_path / "long.nc")
    assert pt.load(tmp_path / "long.nc").draws.calls == long.draws.calls
