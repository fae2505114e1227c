"""A mode that one team has lost is found again, or a warning tells of it: it never passes in silence."""

import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc import course as _course
from pactree_mcmc.mcmc.chain.draw_store import select_draws
from pactree_mcmc.mcmc.state.records import N_PIECES, new_graph
from pactree_mcmc.mcmc.whole import rounds as _rounds
from pactree_mcmc.mcmc.whole.density.graph import merge_graphs

LOST = 0
"""Feature of the roots of the mode that a team loses. It has about a quarter of the posterior."""


def two_modes():
    """Two features that say nearly the same, and a third one that says nothing."""
    rng, n = np.random.default_rng(3), 80
    first = rng.integers(0, 6, n)
    second = np.where(rng.random(n) < 0.85, first, rng.integers(0, 6, n))
    X = np.column_stack([first, second, rng.integers(0, 4, n)]).astype(float)
    y = (first + second > 5) ^ (rng.random(n) < 0.1)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3))


@pytest.fixture(scope="module")
def fraction():
    """The posterior probability of the mode, by the exact engine."""
    distribution = exact.solve(two_modes())._root_split_pmf()
    return sum(p for key, p in distribution.items() if key is not None and key[0] == LOST)


def run(**rest):
    """A default run, and its warnings of convergence."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = pt.sample(two_modes(), 250, rng=2, progress=False, **rest)
    return post, [str(one.message) for one in caught if one.category is pt.ConvergenceWarning]


def by_team(post):
    """The fraction of draws in the mode, of each team."""
    return np.array([(post.root_feature[team] == LOST).mean() for team in post.course.teams])


def test_nothing_is_lost_otherwise(fraction):
    """So that what follows is due to what is planted."""
    assert 0.2 < fraction < 0.35
    post, said = run()
    assert said == [] and abs(by_team(post) - fraction).max() < 0.1


# draws without the mode


def without_the_mode(saved):
    """The draws of a chain, those in the mode replaced by other draws."""
    roots = saved.node.feature[np.asarray(saved.tree.start)[saved.tree_of_draw]]
    others = np.flatnonzero(roots != LOST)
    nearest = others[np.minimum(np.searchsorted(others, np.arange(len(roots))), len(others) - 1)]
    return select_draws(saved._replace(tree_of_draw=saved.tree_of_draw[nearest]), np.arange(len(roots)))


@pytest.fixture
def lossy(monkeypatch):
    """The draws of one team before the first verdict lack the mode."""
    real = _course.make_draws

    def make_draws(run):
        done = real(run)
        if run.stretch.before == 0:
            both = zip(run.chains, run.draws, strict=True)
            run.draws = [without_the_mode(saved) if chain.team == 1 else saved for chain, saved in both]
        return done

    monkeypatch.setattr(_course, "make_draws", make_draws)


def test_draws_without_a_mode_are_dropped(lossy, fraction):
    """The run goes on, and both teams end with the mode."""
    post, said = run()
    assert post.course.steps > 250 and said == []
    assert abs(by_team(post) - fraction).max() < 0.1


def test_draws_without_a_mode_are_reported_if_no_work_is_left(lossy, fraction):
    post, (said,) = run(steps=250)
    assert by_team(post)[1] < 0.05 < by_team(post)[0]
    assert "root feature" in said


# a graph without the mode


def pruned(graph):
    """The graph without the splits of the root on the feature."""
    piece = graph.piece[: graph.used[N_PIECES]]
    root, links = piece[piece.depth == 0][0], graph.link.copy()
    e, kept = int(root.first), []
    while e >= 0:
        if links[e].feature != LOST:
            kept.append(e)
        e = int(links[e].next)
    pieces = graph.piece.copy()
    pieces.first[int(np.flatnonzero(piece.depth == 0)[0])] = kept[0]
    for e, following in zip(kept, [*kept[1:], -1], strict=True):
        links.next[e] = following
    return merge_graphs([new_graph(len(pieces), len(links)), graph._replace(piece=pieces, link=links)])


@pytest.fixture
def collapsed(monkeypatch):
    """At the end of tuning the graph of one team lacks the mode."""
    real = _rounds.tune_in_teams

    def tune_in_teams(run):
        real(run)
        one, other = run.tuned.graphs
        run.tuned = run.tuned._replace(graphs=(one, pruned(other)))

    monkeypatch.setattr(_course, "tune_in_teams", tune_in_teams)


@pytest.mark.parametrize("rest", [{}, {"steps": 250}])
def test_a_graph_without_a_mode_is_repaired_or_reported(collapsed, fraction, rest):
    post, said = run(**rest)
    assert abs(by_team(post) - fraction).max() < 0.1 or said
