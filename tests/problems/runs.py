"""Runs to be stopped and resumed: their models, and equality to the last bit."""

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_run
from pactree_mcmc.mcmc.chain.rest import ARRAYS, Replica, Rest
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run.loop import go_on
from pactree_mcmc.mcmc.run.records import Request, Stretch, Tuned
from pactree_mcmc.mcmc.run.run import Stop
from pactree_mcmc.mcmc.run.run_chain import RunChain
from pactree_mcmc.mcmc.state.records import N_FREE, N_VISITED_ROWS, NONE
from pactree_mcmc.posterior.draws import Course
from tests.problems.lazy import MadeWhenUsed

LISTS = ("growable", "prunable", "internal", "free")
PRIOR = pt.ChipmanPrior(0.95, 1.0)
MOVES = ("grow-prune", "blanchard", "collapsed", "change", "shift", "swap", "rotate")
EVERY_MOVE = dict.fromkeys((*MOVES, "informed-change"), 1.0)


def numbers(seed=3, n=60):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 12, n), rng.integers(0, 5, n), rng.integers(0, 4, n)]).astype(float)
    y = X[:, 0] / 7.0 + 0.5 * (X[:, 2] == 1.0) + 0.3 * rng.standard_normal(n)
    return X, y, rng.random(n) + 0.5


X, Y, WEIGHT = numbers()
LABELS = np.where(Y > 1.0, "high", "low")


def regression(leaf=None, **rest):
    return pt.TreeModel(X, Y, leaf=leaf, nominal=[2], tree_prior=PRIOR, sample_weight=WEIGHT, **rest)


def classes(**rest):
    return pt.TreeModel(X, LABELS, nominal=[2], tree_prior=PRIOR, **rest)


def trivial():
    prior = pt.ChipmanPrior(0.9, 1.0, max_depth=4)
    return pt.TreeModel(X, Y, tree_prior=prior, split_prior=pt.LocalCuts(trivial=True))


def fixed():
    design = pt.FixedTree(pt.kd_tree(X[:, :2], 4).tree)
    return pt.TreeModel(X[:, :2], Y, split_prior=design, tree_prior=pt.BranchingProcess(0.6, max_depth=None))


MODELS = MadeWhenUsed(
    {
        "classes": classes,
        "fractions of classes": lambda: classes(sample_weight=WEIGHT),
        "numbers": regression,
        "shared variance": lambda: regression(pt.NormalSharedVariance()),
        "grid": lambda: regression(split_prior=pt.GridCuts(7)),
        "trivial": trivial,
        "dyadic": lambda: pt.TreeModel(X, Y, split_prior=pt.DyadicCuts(3)),
        "fixed": fixed,
        "penalty": lambda: pt.TreeModel(X, LABELS, tree_prior=pt.LeafPenalty(0.5), leaf=pt.PacBayesLoss(0.7)),
    }
)


def draw(name="numbers", draws=20, **rest):
    rest = {"tune": 6, "chains": 2, "rng": 4, "progress": False} | rest
    return pt.sample(MODELS[name], draws, **rest)


def clean(replica):
    """The replica without what depends on what was known of cells: free nodes and leaves, and rows visited."""
    state = {name: array.copy() for name, array in zip(ARRAYS, replica.state)}
    free = state["node"]["free"][: state["count"][N_FREE]]
    for name in state["node"].dtype.names:
        if name not in LISTS:
            state["node"][name][free] = 0
    state["stats"][free], state["box"][free], state["count"][N_VISITED_ROWS] = 0.0, 0, 0
    state["node"]["saved_at"] = 0  # of the tree that was saved last
    leaf = state["node"]["left"] == NONE
    for name in ("cut", "upper", "categories", "log_rule", "default_left"):
        state["node"][name][leaf] = 0
    return replica._replace(state=tuple(state.values()))


def assert_equal(one, other, at=""):
    """Arrays, numbers and what holds them are equal to the last bit."""
    if isinstance(one, Replica):
        one, other = clean(one), clean(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape, at
        nan = one.dtype.names is None and one.dtype.kind == "f"
        assert np.array_equal(one, other, equal_nan=nan), at
    elif isinstance(one, dict):
        assert list(one) == list(other), at
        for key in one:
            assert_equal(one[key], other[key], f"{at}.{key}")
    elif isinstance(one, tuple | list):
        assert len(one) == len(other), at
        names = getattr(one, "_fields", range(len(one)))
        for name, a, b in zip(names, one, other):
            assert_equal(a, b, f"{at}.{name}")
    else:
        assert one == other or (one != one and other != other), f"{at}: {one!r} is not {other!r}"


def drawn(post):
    """All that a posterior has drawn and where its chains stopped, wall time apart."""
    names = ("distinct_trees", "place_stats", "tree_of_draw", "proposed", "accepted", "moves")
    names += ("log_prior_of_tree", "log_score_of_tree")
    out = {name: getattr(post.draws, name) for name in (*names, "noise_variance", "tempering")}
    course = post.course
    if course is not None:
        kernel, tune, _, density, graphs = course.tuned
        out["course"] = kernel, tune, density, graphs, course.thin, course.rests, course.steps, course.evidences
    return out


def assert_same(one, other):
    assert_equal(drawn(one), drawn(other))


def course_of(path):
    return load_run(path)[2]


def made_in(path):
    return course_of(path).draws_by_chain


def course_of_teams(kernel, teams, steps, evidences=None):
    kernel = read_kernel(kernel)
    request = Request(None, 1, 0, 1, kernel, ("stump",) * len(teams))
    rests = tuple(Rest({}, team=team) for team in teams)
    return Course(request, Tuned(kernel, 0, steps), Stretch(0, False, 0, 1, 1), rests, steps, evidences)


def request_of(model, kernel, start="grown", betas=None, draws=1):
    return Request(model, draws, 5, 1, kernel, (start,), betas)


def chain_at(request, seed, rest=None, steps=0):
    chain = RunChain.new(0, seed, 0) if rest is None else RunChain(0, rest, steps)
    tuned = Tuned(request.kernel)
    chain.wake(request, tuned)
    return chain, tuned


def done(work):
    return go_on(None, work, Stop(), float("inf"))[2]
