"""Published numbers: the example of Chipman, George and McCulloch (1998), MAPTree's test cases, one dimension."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from tests import ROOT

DATA = ROOT.parent / "shared" / "data"


def chipman_model():
    """The data of the example, drawn as its description says."""
    rng = np.random.default_rng(34647)
    n = 800
    x1 = rng.choice(np.arange(1, 11) - 0.5, n)
    x2 = rng.choice(["a", "b", "c", "d"], n)
    noise = 2 * rng.standard_normal(n)
    ab = np.isin(x2, ["a", "b"])
    mean = np.select([ab & (x1 <= 5), ab, x1 <= 3, x1 <= 7], [8.0, 2.0, 1.0, 5.0], 8.0)
    leaf = pt.NormalInverseGamma(m0=4.85, k0=1 / 3, a0=5.0, b0=20.0)
    table = pd.DataFrame({"x1": x1, "x2": pd.Categorical(x2)})
    return pt.TreeModel(table, mean + noise, tree_prior=pt.ChipmanPrior(0.95, 1), leaf=leaf)


def test_chipman_1998():
    truth = exact.solve(chipman_model())
    assert truth.log_evidence == pytest.approx(-1712.127332, abs=1e-6)
    assert truth.map_log_joint == pytest.approx(-1713.055514, abs=1e-6)
    assert np.exp(truth.map_log_joint - truth.log_evidence) == pytest.approx(0.3953, abs=5e-5)
    assert truth.n_leaves_pmf()[5:10] == pytest.approx([0.7905, 0.1772, 0.0282, 0.0036, 0.0004], abs=5e-5)
    root = truth._root_split_pmf()
    assert root[1, frozenset("ab")] == pytest.approx(0.9891, abs=5e-5)
    assert [root[0, cut] for cut in (3.0, 7.0, 5.0)] == pytest.approx([0.0077, 0.0016, 0.0015], abs=5e-5)


def read_case(name):
    """X and y of one of MAPTree's cases; skips where the table is not at hand."""
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{name} is in the shared tables, which are not beside this checkout")
    table = pd.read_csv(path)
    return table.drop(columns="target"), table["target"].to_numpy()


@pytest.mark.more(everyday=["maptree_small-1.0--13.516869--12.138724-0.252046"])
@pytest.mark.parametrize(
    ("name", "alpha", "best", "evidence", "probability"),
    [
        ("maptree_small", 1.0, -13.516869, -12.138724, 0.252046),
        pytest.param("maptree_medium", 2.5, -66.006945, -58.803694, 0.000744, marks=pytest.mark.more),
    ],
)
def test_maptree(name, alpha, best, evidence, probability):
    X, y = read_case(name)
    prior, leaf = pt.ChipmanPrior(0.95, 0.5), pt.DirichletMultinomial(alpha)
    truth = exact.solve(pt.TreeModel(X, y, tree_prior=prior, leaf=leaf))
    assert truth.map_log_joint == pytest.approx(best, abs=1e-5)
    assert truth.log_evidence == pytest.approx(evidence, abs=1e-5)
    assert np.exp(truth.map_log_joint - truth.log_evidence) == pytest.approx(probability, abs=1e-6)
    if name == "maptree_medium":
        root = truth._root_split_pmf()
        features = {k: sum(p for key, p in root.items() if key and key[0] == k) for k in (11, 2, 10, 0, 5, 22)}
        expected = {11: 0.6765, 2: 0.1674, 10: 0.0421, 0: 0.0241, 5: 0.0116, 22: 0.0081}
        assert features == pytest.approx(expected, abs=6e-5)


@pytest.mark.more
def test_one_dimension():
    rng = np.random.default_rng(0)
    x = rng.random(120)
    y = rng.random(120) < np.select([x < 0.3, x < 0.55, x < 0.8], [0.9, 0.2, 0.75], 0.35)
    prior = pt.ChipmanPrior(0.95, 1, max_depth=10)
    truth = exact.solve(pt.TreeModel(x[:, None], y, tree_prior=prior, split_prior=pt.LocalCuts()))
    assert truth.graph.n_cells == 120 * 121 // 2
    assert truth.n_leaves_pmf().sum() == pytest.approx(1.0, abs=1e-9)
