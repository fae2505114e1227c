"""pt.sample: reproducible whatever runs the chains, startable anywhere, its calls kept, clear refusals."""

import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import Tree
from pactree_mcmc.files.store import write_parts
from pactree_mcmc.mcmc import sampling
from pactree_mcmc.mcmc.chain.tempering import Ladder, read_ladder
from pactree_mcmc.mcmc.kernel import KERNEL_WEIGHTS, read_kernel
from tests.problems.models import build_model
from tests.problems.refusals import refuses
from tests.problems.spaces import case_problem
from tests.problems.trees import library_tree, nested_tree
from tests.reference.enumeration import LEAF

STUMP = Tree([-1], [0.0], [0], [0])
NEVER = Tree([1, -1, -1], [5.0, 0, 0], [1, 0, 0], [2, 0, 0])
SWAPPED = Tree([0, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [0b1100, -1, -1])
X = np.arange(30.0)[:, None]
NUMBERED = pt.TreeModel(X, X[:, 0] > 14)
SHORT = {"tune": 10, "chains": 2, "kernel": "grow-prune", "progress": False}
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
REFUSED_MIXTURES = [
    ({"grow-prune": -1.0}, "weight of 'grow-prune' is -1.0"),
    ({"grow-prune": np.nan}, "finite number"),
    ({"grow-prune": 0.0, "change": 0.0}, "at least one positive"),
    ({}, "at least one positive"),
    ({"leap": 1.0}, "'leap' is unknown"),
    ({"regrow-2": 1.0}, "was removed, since kernels mix as well without it; the moves are grow-prune"),
]
REFUSALS = [
    ({"draws": 0}, ["draws=0", ">= 1"]),
    ({"draws": 2.0}, ["draws=2.0", "integer"]),
    ({"draws": True}, ["draws=True", "integer"]),
    ({"tune": -1}, ["tune=-1", ">= 0"]),
    ({"chains": 0}, ["chains=0", ">= 1"]),
    ({"thin": 0}, ["thin=0", ">= 1"]),
    ({"proposals": 0}, ["proposals=0", ">= 1"]),
    ({"proposals": 2.5}, ["proposals=2.5", ">= 1"]),
    ({"kernel": "gibbs"}, ["kernel='gibbs'", "unknown", "blanchard", "grow-prune"]),
    ({"kernel": None}, ["kernel=None", "unknown"]),
    ({"rng": -1}, ["rng=-1", ">= 0"]),
    ({"rng": 1.5}, ["rng=1.5", "integer"]),
    ({"rng": "one"}, ["rng='one'", "integer"]),
    ({"rng": [1, 2, 3], "chains": 4}, ["3 entries", "4 chains"]),
    ({"start": "leaf"}, ["start='leaf'", "unknown", "stump", "prior"]),
    ({"start": [STUMP], "chains": 4}, ["1 entries", "4 chains"]),
    ({"start": ["stump"] * 4, "chains": 4}, ["4 entries", "give one Tree"]),
    ({"start": NEVER}, ["chain 0", "cannot occur", "prior is 0"]),
    ({"start": [STUMP, NEVER], "chains": 2}, ["chain 1", "cannot occur"]),
    ({"start": SWAPPED}, ["node 0", "smallest category right", "swap"]),
    ({"start": Tree([7, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])}, ["feature 7", "3 features"]),
]


def mixed_model(seed=5, n=80):
    rng = np.random.default_rng(seed)
    X = np.empty((n, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = rng.choice(list("abcd"), n), rng.integers(0, 9, n), rng.random(n)
    y = (X[:, 1].astype(float) > 4) ^ (rng.random(n) < 0.2)
    return pt.TreeModel(X, y, nominal=[0])


MODEL = mixed_model()


def draw(model=MODEL, draws=15, tune=3, rng=1, **rest):
    return pt.sample(model, draws, tune=tune, rng=rng, progress=False, **rest)


def chain_trees(post, chain):
    return [post.draws.distinct_tree(int(t)) for t in post.draws.tree_of_draw[chain]]


def assert_same_draws(one, other):
    """Everything drawn is equal to the last bit."""
    assert np.array_equal(one.draws.tree_of_draw, other.draws.tree_of_draw)
    for a, b in zip(one.draws.distinct_trees, other.draws.distinct_trees, strict=True):
        assert np.array_equal(a, b)
    for name in ("place_stats", "log_prior_of_tree", "log_score_of_tree", "proposed", "accepted"):
        assert np.array_equal(getattr(one.draws, name), getattr(other.draws, name)), name


class PicklingExecutor(Executor):
    """Runs a task at once, task and result having gone through bytes, as on another machine."""

    def submit(self, fn, /, *args, **kwargs):
        fn, args, kwargs = pickle.loads(pickle.dumps((fn, args, kwargs)))
        future = Future()
        future.set_result(pickle.loads(pickle.dumps(fn(*args, **kwargs))))
        return future


@pytest.mark.parametrize("kernel", ["default", "blanchard"])
def test_same_draws_whatever_runs_the_chains(kernel):
    first = draw(kernel=kernel)
    assert first.draws.n_distinct_trees > 15
    assert_same_draws(first, draw(kernel=kernel))
    for workers in (1, 2, 4):
        with ThreadPoolExecutor(workers) as pool:
            assert_same_draws(first, draw(kernel=kernel, executor=pool))
    assert_same_draws(first, draw(kernel=kernel, executor=PicklingExecutor()))


def test_default_is_its_mixture():
    mixture = {name: 4.0 * weight for name, weight in KERNEL_WEIGHTS["local"].items()} | {"swap": 0.0}
    assert_same_draws(draw(), draw(kernel=mixture))
    assert draw(kernel="cgm").draws.moves == ("grow", "prune", "change", "swap")


def test_a_kernel_of_weight_zero_does_not_set_weights_by_cost():
    model, run = pt.TreeModel(np.arange(20.0)[:, None] % [[5, 4]], np.arange(20) % 5 > 2), {"draws": 50, "rng": 1}
    with_zero = pt.sample(model, kernel={"whole": 0.0, "learned": 0.1, "local": 0.9}, **run)
    assert sorted(with_zero.draws.moves) == sorted(
        pt.sample(model, kernel={"learned": 0.1, "local": 0.9}, **run).draws.moves
    )
    assert (with_zero.draws.proposed.sum(axis=(0, 1)) > 0).all()


@pytest.mark.parametrize(("kernel", "words"), REFUSED_MIXTURES)
def test_refused_mixtures(kernel, words):
    refuses(words, lambda: draw(kernel=kernel))


@pytest.mark.parametrize("ladder", [1, 0, [1.0], [0.9, 0.0], [1.0, 0.5, 0.5], [1.0, -0.1], [1.0, np.nan], [[1.0, 0.0]]])
def test_refused_ladders(ladder):
    refuses("betas", lambda: draw(betas=ladder))


def test_levels_exchange_by_the_ratio_of_their_scores():
    """With probability min(1, exp((beta_i - beta_j) (score_j - score_i))), even and odd pairs in turn."""
    kernel, betas = read_kernel("grow-prune"), read_ladder([1.0, 0.4, 0.0])
    ladder = Ladder(MODEL.lowered, kernel, np.random.default_rng(0), betas)
    ladder._log_scores = lambda: np.array([-3.0, -5.0, -4.0])
    ladder._exchange()
    ladder._exchange()
    assert ladder.acceptance == pytest.approx([np.exp(0.6 * -2.0), 1.0], rel=1e-12)


@pytest.mark.more
def test_evidence_by_tempering():
    model = mixed_model(n=40)
    post = draw(model, draws=400, tune=300, betas=6, proposals=20)
    truth = exact.solve(model).log_evidence
    assert abs(post.log_evidence - truth) < 4.5 * post.log_evidence_se < 1.0
    assert post.draws.tempering.swap_rates.min() > 0.1 and draw(betas=[1.0, 0.3]).log_evidence is None
    assert draw().log_evidence is None


def test_shared_variance():
    """The score of a tree has the variance integrated out; its trace is in the ArviZ output."""
    X = np.arange(30.0)[:, None]
    model = pt.TreeModel(X, (X[:, 0] > 14) + 0.1 * np.sin(X[:, 0]), leaf=pt.NormalSharedVariance())
    post = draw(model, draws=50)
    assert post.to_arviz()["posterior"]["noise_variance"].shape == (4, 50)
    for t in range(min(post.draws.n_distinct_trees, 5)):
        assert model.log_score(post.draws.distinct_tree(t)) == pytest.approx(post.draws.log_score_of_tree[t], abs=1e-8)
    refuses("NormalKnownVariance", lambda: exact.solve(model))


@pytest.mark.parametrize("start", ["stump", "prior"])
def test_one_chain_alone_is_that_chain_of_four(start):
    together = draw(chains=4, start=start)
    for c in range(4):
        alone = draw(chains=1, rng=[np.random.SeedSequence(1).spawn(4)[c]], start=start)
        assert chain_trees(alone, 0) == chain_trees(together, c)
        assert np.array_equal(alone.draws.proposed[0], together.draws.proposed[c])
        assert np.array_equal(alone.draws.accepted[0], together.draws.accepted[c])


@pytest.mark.more
def test_forms_of_rng():
    """An integer, its SeedSequence (used twice) and one a chain agree; a Generator gives new draws each time."""
    first, source = draw(), np.random.SeedSequence(1)
    assert_same_draws(first, draw(rng=source))
    assert_same_draws(first, draw(rng=source))
    assert_same_draws(first, draw(rng=np.random.SeedSequence(1).spawn(4)))
    assert_same_draws(first, draw(rng=[np.random.default_rng(s) for s in np.random.SeedSequence(1).spawn(4)]))
    assert_same_draws(first, draw(rng=np.random.PCG64(1)))
    generator = np.random.default_rng(1)
    one, two = draw(rng=generator), draw(rng=generator)
    assert_same_draws(first, one)
    assert not np.array_equal(one.draws.log_score_of_tree, two.draws.log_score_of_tree)
    assert not np.array_equal(draw(rng=None).draws.log_score_of_tree, draw(rng=None).draws.log_score_of_tree)


def test_a_draw_has_the_proposals_asked_for():
    """Ten tens of proposals are a hundred, and every step has its fraction of blocks that differ in size."""
    whole, tenths = draw(kernel="grow-prune"), draw(kernel="grow-prune", proposals=10, thin=10, tune=30)
    assert_same_draws(whole, tenths)
    kernel = {"grow-prune": 0.5, "change": 0.4, "swap": 0.1}
    for proposals in (1, 7, 250):
        made = draw(kernel=kernel, proposals=proposals, draws=100, tune=0, chains=1).draws.proposed.sum(axis=(0, 1))
        # the other two propose nothing in small trees
        assert abs(made[:2].sum() - 50 * proposals) <= 1
    # every step of grow-prune proposes, and the walk of Blanchard's often does not
    assert (whole.draws.proposed.sum(axis=2) == 100).all()
    assert (draw(kernel="grow-prune", thin=2).draws.proposed.sum(axis=2) == 200).all()
    lazy = draw(kernel="blanchard").draws.proposed.sum(axis=2)
    assert 0 < lazy.sum() < 0.7 * 100 * lazy.size


@pytest.mark.parametrize("kernel", ["grow-prune", "blanchard"])
def test_thinning_is_slicing(kernel):
    every = draw(draws=24, tune=0, kernel=kernel)
    for thin in (2, 3):
        kept = draw(draws=24 // thin, tune=0, thin=thin, kernel=kernel)
        for c in range(4):
            assert chain_trees(kept, c) == chain_trees(every, c)[thin - 1 :: thin]
        blocks = every.draws.proposed.reshape(4, 24 // thin, thin, 2).sum(axis=2)
        assert np.array_equal(kept.draws.proposed, blocks)


@pytest.mark.parametrize("kernel", ["grow-prune", "blanchard"])
def test_tuning_is_dropping(kernel):
    every = draw(draws=20, tune=0, kernel=kernel)
    kept = draw(draws=12, tune=8, kernel=kernel)
    for c in range(4):
        assert chain_trees(kept, c) == chain_trees(every, c)[8:]
    assert np.array_equal(kept.draws.proposed, every.draws.proposed[:, 8:])


def test_start_at_given_trees():
    """Where one tree fits far better than its neighbours, chains that start there stay."""
    naive = case_problem("four_categories", "stopped", "dirichlet")
    naive.y, naive.weights = [0, 1, 0, 2, 1, 0], [1e6] * 6
    best = ("split", 0, frozenset("ac"), LEAF, ("split", 0, frozenset("b"), LEAF, LEAF))
    model, tree = build_model(pt, naive), library_tree(pt, naive, best)
    assert model.log_prior(tree) > -np.inf
    post = draw(model, chains=2, start=tree, tune=0, kernel="grow-prune")
    assert {nested_tree(naive, drawn) for chain in range(2) for drawn in chain_trees(post, chain)} == {best}
    several = draw(model, chains=2, start=[STUMP, tree], tune=0, kernel="grow-prune")
    assert {nested_tree(naive, drawn) for drawn in chain_trees(several, 1)} == {best}


def test_start_at_a_drawn_tree():
    post = draw()
    starts = [tree for chain in range(4) for tree in chain_trees(post, chain) if (tree.categories >= 0).any()][-4:]
    assert len(starts) == 4
    again = draw(start=starts, draws=2, tune=0)
    assert again.n_draws == 2


def test_start_at_an_equivalent_threshold():
    """A threshold that parts the rows alike is the same split; draws carry the midpoint."""
    X = np.repeat([[0.0], [1.0], [4.0]], 40, axis=0)
    model = pt.TreeModel(X, np.repeat([0, 1, 1], 40))
    post = draw(model, chains=1, start=Tree([0, -1, -1], [0.9, 0, 0], [1, 0, 0], [2, 0, 0]), draws=3, tune=0)
    assert post._root_split_pmf()[0, 0.5] == pytest.approx(1.0)


@pytest.mark.more(everyday=["trivial"])
@pytest.mark.parametrize("case", ["trivial", "grid", "dyadic", "min_leaf_3_nominal"])
def test_start_from_the_prior(case):
    """Chains start at trees of positive prior, not all at the same one."""
    naive = case_problem(case, "stopped", "dirichlet")
    naive.weights = [1e-300] * len(naive.X)
    model = build_model(pt, naive)
    post = draw(model, chains=30, start="prior", draws=1, tune=0)
    assert post.draws.n_distinct_trees > 3 and np.isfinite(post.draws.log_prior_of_tree).all()


@pytest.mark.parametrize(("arguments", "words"), REFUSALS)
def test_refusals(arguments, words):
    model = pt.TreeModel(np.column_stack([np.arange(8) % 4, np.arange(8) > 3, np.arange(8.0)]), [0, 1] * 4, nominal=[0])
    with pytest.raises(ValueError) as caught:
        draw(**{"model": model, "draws": 2, "tune": 0, **arguments})
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("arguments", "words"), [({"model": np.zeros((3, 2))}, ["ndarray", "TreeModel"]), ({"start": 3}, ["start", "Tree"])]
)
def test_arguments_of_the_wrong_type(arguments, words):
    with pytest.raises(TypeError) as caught:
        draw(**arguments)
    assert all(word in str(caught.value) for word in words)


def drawn(rng, **options):
    return pt.sample(NUMBERED, 20, rng=rng, **(SHORT | options))


def again(post):
    """What the lines of a posterior draw."""
    names = {"pt": pt, "np": np, "model": NUMBERED}
    for call in post.draws.calls:
        exec(call.line, names)
    return names["post"]


def same(one, other):
    equal = [np.array_equal(getattr(one, k), getattr(other, k)) for k in ("log_prior", "log_score", "n_leaves")]
    return all(equal) and np.array_equal(one.draws.tree_of_draw, other.draws.tree_of_draw)


@pytest.mark.more(everyday=["none"])
@pytest.mark.parametrize("source", SOURCES)
def test_the_line_draws_the_same(source):
    rng = SOURCES[source]()
    if isinstance(rng, np.random.Generator):
        rng.spawn(1)
        rng.random(5)
    post = drawn(rng)
    assert post.draws.calls[0].repeatable and same(again(post), post)


@pytest.mark.planted
def test_a_line_without_the_key_of_its_seed(monkeypatch):
    monkeypatch.setattr(sampling, "seed_of", lambda rng, sources: sources[0].entropy)
    with pytest.raises(AssertionError):
        test_the_line_draws_the_same("sequence")


def test_a_line_says_what_was_given_and_no_more():
    post = drawn(1, kernel={"cgm": 0.5, "grow-prune": 2}, start="stump", betas=[1.0, 0.5])
    line = "draws=20, tune=10, chains=2, rng=1, kernel={'cgm': 0.5, 'grow-prune': 2}, start='stump', betas=[1.0, 0.5]"
    assert post.draws.calls[0].line == f"post = pt.sample(model, {line})" and post.draws.calls[0].seed == "1"
    assert {"pactree-mcmc", "numba", "python"} <= set(post.draws.calls[0].versions)


def test_what_a_line_cannot_say():
    for options in ({"start": pt.Tree([-1], [0], [0], [0])}, {"rng": [np.random.default_rng(1), 2]}):
        call = drawn(**({"rng": 1} | options)).draws.calls[0]
        assert not call.repeatable and "<" in call.line
    other = np.random.Generator(np.random.MT19937(5))
    assert not drawn(other).draws.calls[0].repeatable


@pytest.mark.more
def test_files_keep_the_calls(tmp_path):
    post = pt.resume(drawn(3), 10, progress=False)
    assert post.draws.calls[1].line == "post = pt.resume(post, draws=10)" and same(again(post), post)
    post.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    assert loaded.draws.calls == post.draws.calls
    assert pt.resume(tmp_path / "run.nc", 5, progress=False).draws.calls[:2] == post.draws.calls
    watched = drawn(3, checkpoint=tmp_path / "checked.nc")
    assert watched.draws.calls == pt.load(tmp_path / "checked.nc").draws.calls == drawn(3).draws.calls


def test_a_file_whose_calls_are_none_is_refused(tmp_path):
    post = drawn(3)
    draws = post.draws.record()._replace(calls=("pt.sample(model)",))
    write_parts({"model": NUMBERED.parts_in_file, "draws": draws, "course": None}, tmp_path / "bad.nc")
    refuses(r"bad\.nc cannot be used: the calls", lambda: pt.load(tmp_path / "bad.nc"))


@pytest.mark.more
def test_the_page_and_arviz_have_seed_and_line(tmp_path):
    post = drawn(31415)
    page = post.report(tmp_path / "page.html").read_text()
    assert "<dt>seed</dt><dd>31415</dd>" in page
    assert "post = pt.sample(model, draws=20, tune=10, chains=2, rng=31415" in page
    attrs = post.to_arviz()["posterior"].attrs
    assert attrs["seed"] == "31415" and attrs["calls"] == post.draws.calls[0].line and "numba" in attrs["versions"]
    long = drawn([np.random.SeedSequence(list(range(100)))] * 100, chains=100)
    long.save(tmp_path / "long.nc")
    assert pt.load(tmp_path / "long.nc").draws.calls == long.draws.calls
