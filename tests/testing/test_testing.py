"""pt.testing: what ships passes the checks, and errors planted in it are named."""

import math

import numba
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.model.model import COMPILED_LEAVES
from pactree_mcmc.testing import leaf as _leaf
from pactree_mcmc.testing.spaces import plain_function, plain_package
from tests.problems.leaves import own_poisson
from tests.problems.priors import WEIGHED, own_splits
from tests.problems.refusals import refuses

SHIPPED = {
    "dirichlet": pt.DirichletMultinomial(0.7),
    "dirichlet by class": pt.DirichletMultinomial([0.5, 1.0, 2.0]),
    "laplace": pt.FrozenLaplace(1.5),
    "loss": pt.PacBayesLoss(0.8, 0.3),
    "normal": pt.NormalInverseGamma(),
    "known": pt.NormalKnownVariance(0.4),
    "shared": pt.NormalSharedVariance(),
    "poisson": pt.PoissonGamma(),
}
RNG = np.random.default_rng(0)
TIMES = np.column_stack([RNG.exponential(size=40), RNG.random(40) < 0.7])
BY_ADDRESS = {
    "exponential": (pt.ExponentialGamma(), TIMES),
    "weibull": (pt.WeibullGamma(1.5), TIMES),
    "piecewise": (pt.PiecewiseExponential(), TIMES),
}
SPLITS = {
    "local": pt.LocalCuts(),
    "local weighted": pt.LocalCuts(feature_weights=[1.0, 0.0, 3.0]),
    "local trivial": pt.LocalCuts(trivial=True),
    "local min_leaf": pt.LocalCuts(min_leaf=3),
    "grid": pt.GridCuts([[0.5, 2.5], [0.5, 0.7, 1.5], []], feature_weights=[2.0, 1.0, 1.0]),
    "dyadic": pt.DyadicCuts(2),
    "cyclic": pt.DyadicCuts(2, cyclic=True),
    "own": own_splits(pt.LocalCuts(min_leaf=2), WEIGHED["late of all"]),
    "own on a grid": own_splits(pt.GridCuts(2), WEIGHED["deep"]),
}
LEAF_BUGS = {
    "empty": ("log_score", lambda right: lambda s, c, t: right(s, c, t) + (c.sum() == 0.0), "cell without rows is 1.0"),
    "infinite": (
        "log_score",
        lambda right: lambda s, c, t: np.inf if c.sum() > 20 else right(s, c, t),
        "score of a cell",
    ),
    "not a sum": ("log_tree_score", lambda right: lambda s, c, t: right(s, c, t) + 1.0, "log_tree_score is"),
    "shape": ("value", lambda right: lambda s, c, t: right(s, c, t)[:, :2], "not a distribution over 3 classes"),
    "one": ("value", lambda right: lambda s, c, t: 1.01 * right(s, c, t), "not a distribution over 3 classes"),
    "density": ("log_density", lambda right: lambda *a: right(*a) + 0.01, "by which log_score gains"),
    "draws": ("draw", lambda right: lambda *a: right(*a)[:3], "3 values for 50 leaves"),
    "rows": ("row_stats", lambda right: lambda s, t: 2.0 * right(s, t), "add up to"),
}
UNCHECKABLE = [
    (lambda: pt.testing.check_leaf("normal"), TypeError),
    (lambda: pt.testing.check_leaf(pt.PoissonGamma(), [1, 2]), ValueError),
    (lambda: pt.testing.check_leaf(pt.PoissonGamma(), n_cells=0), ValueError),
    (lambda: pt.testing.check_split_prior(pt.DirichletMultinomial()), TypeError),
    (lambda: pt.testing.check_split_prior(pt.LocalCuts(), n_walks=0), ValueError),
    (lambda: pt.testing.check_split_prior(pt.LocalCuts(), np.arange(9.0)[:, None], nominal=[0]), ValueError),
    (lambda: pt.testing.check_balance(3, pt.TreeModel([[0.0], [1.0]], [0, 1])), TypeError),
    (lambda: pt.testing.check_balance("swop", pt.TreeModel([[0.0], [1.0]], [0, 1])), ValueError),
    (lambda: pt.testing.check_balance("swap", None), TypeError),
    (
        lambda: pt.testing.check_balance(
            "swap", pt.TreeModel([[0.0], [1.0]], [0.5, 1.0], leaf=pt.NormalSharedVariance())
        ),
        ValueError,
    ),
]
WRONG_OWN_LEAVES = [
    ({"cdf": lambda s, y: np.exp(-y)}, "falls, or leaves"),
    ({"cdf": lambda s, y: 1.0 - np.exp(-y)}, "by the score it is"),
    ({"variance": lambda s: -s[:, 1]}, "a variance is at least 0"),
    ({"predict": lambda s: s[0]}, "returned shape"),
    ({"draw": lambda rng, s, leaf: s}, "returned shape"),
]


@pytest.mark.more(everyday=["False-dirichlet", "True-dirichlet by class"])
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_leaves_of_the_library(name, weighted):
    leaf = SHIPPED[name]
    weight = np.tile([0.5, 2.0, 1.0, 0.0], 10) if weighted else None
    report = pt.testing.check_leaf(leaf, sample_weight=weight)
    assert type(report.leaf) is type(leaf) and report.max_difference < 1e-9 and "value" in report.offered
    assert ("draw" in report.offered) == leaf.has_likelihood


@pytest.mark.more(everyday=["exponential"])
@pytest.mark.parametrize("name", BY_ADDRESS)
def test_the_leaves_by_address(name):
    report = pt.testing.check_leaf(*BY_ADDRESS[name])
    assert report.max_difference < 1e-9 and {"value", "log_density", "draw"} <= set(report.offered)


def test_every_leaf_is_checked():
    checked = [*SHIPPED.values(), *(leaf for leaf, _ in BY_ADDRESS.values())]
    # what depends on columns of X too is refused, and has tests of its own
    assert {type(leaf) for leaf in checked} == set(COMPILED_LEAVES) - {pt.CustomLeaf, pt.NormalLinear}
    refuses("predicts by columns of X", lambda: pt.testing.check_leaf(pt.NormalLinear([0])))


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("name", SPLITS)
def test_the_split_priors_of_the_library(name):
    report = pt.testing.check_split_prior(SPLITS[name])
    assert report.n_cells > 6 and report.n_splits > 6 and report.max_difference < 1e-12


@pytest.mark.planted
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("name", ["dirichlet", "normal", "poisson"])
def test_a_score_that_is_off_is_named(name, monkeypatch):
    right = _leaf.leaf_score
    monkeypatch.setattr(
        _leaf, "leaf_score", lambda rule, stats, row: right(rule, stats, row) + 1e-6 * (stats.sum() > 0)
    )
    refuses("1e-06 more, of a cell with statistics", lambda: pt.testing.check_leaf(SHIPPED[name]), pt.testing.LeafError)


@pytest.mark.more(everyday=["empty"])
@pytest.mark.planted
@pytest.mark.parametrize("bug", LEAF_BUGS)
def test_a_wrong_leaf_is_named(bug, monkeypatch):
    name, wrong, words = LEAF_BUGS[bug]
    monkeypatch.setattr(pt.DirichletMultinomial, name, wrong(getattr(pt.DirichletMultinomial, name)))
    refuses(words, lambda: pt.testing.check_leaf(pt.DirichletMultinomial(0.7)), pt.testing.LeafError)


def one_more(right):
    return lambda *args: right(*args) + 1


@pytest.mark.more(everyday=["collapsed"])
@pytest.mark.parametrize("step", ["collapsed", "change"])
def test_moves_are_checked_on_models_of_ones_own_parts(step):
    """Functions called by address are found by the plain copy of the library, compiled or not."""
    model = pt.TreeModel(
        [[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [3.0, 2.0]],
        [0.0, 1.0, 4.0, 2.0],
        tree_prior=pt.ChipmanPrior(max_depth=2),
        leaf=own_poisson(),
        split_prior=own_splits(pt.LocalCuts(), WEIGHED["near"]),
    )
    assert pt.testing.check_balance(step, model).imbalance < 1e-10


@pytest.mark.more(everyday=["_draw_split_of-<lambda>-log_rule -1.0"])
@pytest.mark.planted
@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("split_mass_of_codes", one_more, "mass .* of coordinate"),
        ("_draw_split_of", lambda right: lambda *a: right(*a)._replace(log_rule=-1.0), "log_rule -1.0"),
        ("pick", lambda right: lambda rng, n: 0 * right(rng, n), "drawn with probability"),
        ("is_splittable", lambda right: lambda *a: False, "splittable False compiled"),
        ("_set_child_boxes", lambda right: lambda *a: None, "other children compiled"),
    ],
)
def test_compiled_code_that_disagrees_is_named(name, wrong, words, monkeypatch):
    module = plain_package().module("mcmc.edits.grow" if name == "_set_child_boxes" else "mcmc.state.splits")
    monkeypatch.setattr(module, name, wrong(getattr(module, name)))
    if name == "is_splittable":
        chain = plain_package().module("mcmc.chain.chain")
        monkeypatch.setattr(chain, name, wrong(getattr(chain, name)))
    with pytest.raises(pt.testing.SplitPriorError, match=words):
        pt.testing.check_split_prior(pt.GridCuts([[0.5, 2.5], [0.5, 0.7, 1.5], []]))


@pytest.mark.parametrize(("call", "error"), UNCHECKABLE)
def test_what_cannot_be_checked_is_refused(call, error):
    with pytest.raises(error):
        call()


def test_a_check_that_tested_nothing_says_so():
    splits = pt.CustomSplits(lambda cut: 1.0, of=pt.LocalCuts(min_leaf=10))
    refuses("nothing was checked; pass X= with more rows", lambda: pt.testing.check_split_prior(splits))
    with pytest.raises(ValueError, match="statistics of all cells are 0: nothing was checked"):
        pt.testing.check_leaf(pt.DirichletMultinomial(), [0, 1] * 6, sample_weight=[1.0] + [0.0] * 11, n_cells=1)
    with pytest.warns(UserWarning, match="'change' leads from no tree .* nothing was checked"):
        pt.testing.check_balance("change", pt.TreeModel([[0.0], [1.0]], [0, 1]))


def log_times(s, n):
    return math.lgamma(1.0 + s[0]) - (1.0 + s[0]) * math.log(1.0 + s[1])


def own_times(stats=lambda y: np.column_stack([np.ones_like(y), y]), **more):
    return pt.CustomLeaf(log_times, stats=stats, **more)


@pytest.mark.planted
@pytest.mark.parametrize(("more", "words"), WRONG_OWN_LEAVES)
def test_what_a_leaf_of_ones_own_gives_is_compared(more, words):
    refuses(words, lambda: pt.testing.check_leaf(own_times(**more), TIMES[:, 0]), pt.testing.LeafError)


def test_plain_forms():
    """Functions of others keep what is theirs; modules and functions of the library are the plain copy's."""
    from pactree_mcmc import moves

    factor = 3

    @moves.jit
    def helper(x):
        return factor * x

    def step(rng, x):
        return helper(x) + moves.pick(rng, 1)

    plain = plain_function(step)
    assert plain(np.random.default_rng(0), 2) == 6
    helpers = dict(zip(plain.__code__.co_freevars, (cell.cell_contents for cell in plain.__closure__)))
    assert not hasattr(helpers["helper"], "py_func") or numba.config.DISABLE_JIT
    assert helpers["moves"] is plain_package().module("moves")
