"""The report in a real browser: the script runs under the page's own policy, keys and fields do what they should."""

import json
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from tests.faces.report.pages import HOSTILE, posterior

BROWSER = next(
    (actual for name in ("chromium", "chromium-browser", "google-chrome") if (actual := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium is installed")

PROBE = """
const seen = {}, find = id => document.getElementById(id), boxes = [...document.querySelectorAll("#icicle .box")];
const key = (box, name) => box.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
seen.tabbable = boxes.filter(box => box.getAttribute("tabindex") === "0").length;
seen.labelled = boxes.every(box => box.getAttribute("aria-label").length > 0);
seen.first = find("which").textContent;
boxes[0].focus();
key(boxes[0], "ArrowRight");
seen.focused = Number(document.activeElement.dataset.path);
key(document.activeElement, "ArrowDown");
seen.below = Number(document.activeElement.dataset.path);
key(document.activeElement, "Enter");
seen.pressed = boxes.filter(box => box.getAttribute("aria-pressed") === "true").map(box => Number(box.dataset.path));
seen.filtered = find("said").textContent;
seen.leafed = find("which").textContent;
find("clear").click();
seen.all = find("said").textContent;
find("next").click();
seen.second = find("which").textContent;
const fields = [...document.querySelectorAll("#row input, #row select")];
seen.fields = fields.map(field => field.parentElement.textContent);
fields.forEach((field, i) => { field.value = ROW[i]; field.dispatchEvent(new Event("input", {bubbles: true})); });
const rows = [...document.querySelector("#answer table").rows];
seen.answer = rows.map(row => [...row.cells].map(cell => cell.textContent));
seen.taken = document.querySelectorAll(".box.taken").length;
seen.scripts = document.scripts.length;
seen.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.dataset.seen = JSON.stringify(seen);
"""


def in_browser(path, width=1200):
    """The elements of a page after its script has run."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--window-size={width},900"]
    process = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr[-500:]
    return process.stdout


def probed(post, tmp_path, row, width=1200):
    """Return what the probe reads from a page without its policy."""
    path = post.report(tmp_path / "page.html")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text(encoding="utf-8"))
    probe = PROBE.replace("ROW", json.dumps(row))
    path.write_text(text.replace("</body>", f"<script>{{{probe}}}</script></body>"), encoding="utf-8")
    actual = re.search(r'data-seen="([^"]*)"', in_browser(path, width))
    assert actual, "the script of the page, or the probe, has failed"
    return json.loads(actual[1].replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


@pytest.mark.more
def test_the_script_runs_under_the_policy_of_the_page(tmp_path):
    dom = in_browser(posterior(n_trees=4).report(tmp_path / "page.html"))
    assert re.search(r'<html[^>]*class="js"', dom)
    assert "Tree 1 of 4" in dom
    assert "<table" in dom.partition('id="answer"')[2]


@pytest.mark.more
def test_filter_leaf_and_predict(tmp_path):
    post = posterior(n_trees=20, depth=3)
    row = [0.3, -0.4, 1.1]
    state = probed(post, tmp_path, row)
    assert state["tabbable"] == 1
    assert state["labelled"]
    assert state["first"].startswith("Tree 1 of 20")
    assert (state["focused"], state["below"], state["pressed"]) == (1, 2, [2])
    assert state["filtered"].startswith("Trees with the path ")
    assert 0 < int(re.search(r"of (\d+):", state["leafed"])[1]) < 20
    assert state["all"] == "All trees: 20 in this page."
    assert state["second"].startswith("Tree 2 of 20")
    expected = dict(zip(["False", "True"], post.predict_proba([row])[0], strict=True))
    assert {cells[0]: float(cells[2]) for cells in state["answer"]} == pytest.approx(expected, abs=0.006)
    assert state["taken"] > 0


@pytest.mark.more
def test_hostile_names_in_a_narrow_window(tmp_path):
    rng = np.random.default_rng(0)
    names = [HOSTILE[0], HOSTILE[1], "w" * 200]
    X = pd.DataFrame(rng.normal(size=(60, 3)).round(1), columns=names)
    X[HOSTILE[1]] = rng.choice(np.array(["<img src=x onerror=alert(1)>", "b", "c"]), 60)
    model = pt.TreeModel(X, np.array(HOSTILE[:2])[(X[names[0]] > 0).astype(int)])
    cut = [float(v) for v in np.unique(X[names[0]])[[20, 21]]]
    trees = [
        pt.Tree([0, -1, -1], [sum(cut) / 2, 0, 0], [1, 0, 0], [2, 0, 0]),
        pt.Tree([1, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [1, -1, -1]),
        pt.Tree([2, -1, -1], [float(np.sort(X[names[2]])[[29, 30]].mean()), 0, 0], [1, 0, 0], [2, 0, 0]),
    ]
    post = pt.posterior_from_trees(model, trees, rng.integers(0, 3, (2, 50)))
    state = probed(post, tmp_path, [0.5, "0", 0.1], width=500)
    assert state["scripts"] == 3
    assert state["wide"] <= 0
    assert {cells[0] for cells in state["answer"]} == set(HOSTILE[:2])
    assert state["fields"][0].startswith(HOSTILE[0])
