"""Draws that satisfy the criterion, but not at the first look, are replaced by those of one more stretch."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.run import length as _length
from pactree_mcmc.posterior import convergence

RNG = np.random.default_rng(3)
X = RNG.integers(0, 6, size=(80, 2)).astype(float)
Y = (X[:, 0] > 2) ^ (RNG.random(80) < 0.1)
MODELS = {
    "learns": lambda: pt.TreeModel(X, Y),
    "learns nothing": lambda: pt.TreeModel(X[:, :1], Y),
}


def good_from(monkeypatch, look):
    """The criterion holds from this look on; returns the looks there were."""
    looks = []
    monkeypatch.setattr(_length, "holds", lambda plan, results: looks.append(plan) or len(looks) >= look)
    return looks


@pytest.mark.parametrize(("name", "ended_at", "confirmed_at"), [("learns", 500, 750), ("learns nothing", 500, 1000)])
def test_the_stretch_after_a_good_look_is_returned(monkeypatch, name, ended_at, confirmed_at):
    """It goes on where the chains are, with what they knew: as further draws of a run that ended there."""
    model = MODELS[name]()
    looks = good_from(monkeypatch, 2)
    post = pt.sample(model, 250, rng=1, progress=False)
    assert len(looks) == 3 and looks[-1].length.confirms
    assert post.course.steps == confirmed_at
    good_from(monkeypatch, 2)
    ended = pt.sample(model, 250, rng=1, steps=confirmed_at - 1, progress=False)
    assert ended.course.steps == ended_at
    further = pt.resume(ended, 250, progress=False)
    assert np.array_equal(further.log_score[:, 250:], post.log_score)


def test_a_good_first_look_needs_no_confirmation(monkeypatch):
    """Nothing selected its draws."""
    looks = good_from(monkeypatch, 1)
    post = pt.sample(MODELS["learns"](), 250, rng=1, progress=False)
    assert len(looks) == 1 and post.course.steps == 250


def test_a_run_interrupted_while_it_confirms_goes_on(monkeypatch, tmp_path):
    """Resumed, it makes the draws that it would have made."""
    model, path = MODELS["learns"](), tmp_path / "run.nc"
    good_from(monkeypatch, 2)
    whole = pt.sample(model, 250, rng=1, progress=False)
    good_from(monkeypatch, 2)
    restarted, fails = _length.restarted, []

    def once(work, results):
        """The chains begin the stretch, and are interrupted at its end."""
        fails.append(1)
        return restarted(work, results)

    done = _length.do

    def do(work):
        found = done(work)
        if fails:
            fails.clear()
            raise RuntimeError("the power went")
        return found

    monkeypatch.setattr(_length, "restarted", once)
    monkeypatch.setattr(_length, "do", do)
    with pytest.raises(RuntimeError, match="the power went"):
        pt.sample(model, 250, rng=1, progress=False, checkpoint=path, every=1e-6)
    good_from(monkeypatch, 1)
    resumed = pt.resume(path, progress=False)
    assert resumed.course.steps == whole.course.steps
    assert np.array_equal(resumed.log_score, whole.log_score)


@pytest.mark.parametrize("within", [0.0, 1.0])
def test_draws_that_nothing_confirmed_are_said_to_be_selected(monkeypatch, tmp_path, within):
    """In the verdict, in files and of further draws, as long as they are among these."""
    monkeypatch.setattr(_length, "CONFIRMED_WITHIN", within)
    good_from(monkeypatch, 2)
    post = pt.sample(MODELS["learns"](), 250, rng=1, progress=False)
    selected = within == 0.0
    assert post.course.selected == selected and post.course.steps == (500 if selected else 750)
    post.save(tmp_path / "run.nc")
    monkeypatch.setattr(convergence, "check_convergence", lambda *given, **how: [])
    for one in (pt.load(tmp_path / "run.nc"), pt.resume(post, 250, progress=False)):
        assert one.course.selected == selected
        assert ("ended with these draws because they agree" in one.summary().attrs["verdict"]) == selected
