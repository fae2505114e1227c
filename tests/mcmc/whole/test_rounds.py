"""Tuning in rounds: the same draws however chains are run, densities that are kept, and teams that exchange nothing."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.kernel import Kernel
from pactree_mcmc.mcmc.run import loop as _loop
from pactree_mcmc.mcmc.state.records import N_PIECES, initial_density
from tests.mcmc.run.test_executors import SPAWN, AtOnce
from tests.mcmc.run.test_interruption import HangingExecutor
from tests.problems.runs import MODELS, assert_equal, assert_same, course_of, draw, made_in


def learned(name="classes", draws=20, **rest):
    return draw(name, draws, **({"kernel": "whole", "tune": 35} | rest))


def densities(post):
    """The frozen density of every chain."""
    return [post.course.tuned.density[rest.team] for rest in post.course.rests]


@pytest.mark.more
def test_threads_and_processes_draw_the_same():
    whole = learned()
    with ThreadPoolExecutor(2) as pool:
        assert_same(learned(executor=pool), whole)
    with ProcessPoolExecutor(1, mp_context=SPAWN) as pool:
        assert_same(learned(executor=pool), whole)
    assert whole.draws.n_distinct_trees > 10


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("tune", [0, 10, 35])
def test_the_chains_of_a_team_share_one_density_and_graph(tune):
    """Without tuning it is the first one."""
    post = learned(tune=tune, chains=4)
    found = densities(post)
    assert post.course.teams == [[0, 2], [1, 3]]
    assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])
    assert np.array_equal(found[0], found[1]) == (tune == 0)
    assert np.array_equal(found[0], initial_density()) == (tune == 0)
    assert np.isfinite(found).all()
    assert len(post.course.tuned.graphs) == 2


@pytest.mark.more
def test_noting_decisions_in_other_blocks_changes_nothing(monkeypatch):
    whole = learned(tune=700)
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    assert_same(learned(tune=700), whole)


MIXED = {"informed-change": 0.2, "learned": 0.3, "collapsed": 0.4, "rotate": 0.1}


@pytest.mark.more(everyday=["whole-classes", "mixed-fractions of classes"])
@pytest.mark.parametrize(("kernel", "name"), list(product(["whole", "mixed"], MODELS)))
def test_resumed_is_uninterrupted(name, kernel):
    kernel = MIXED if kernel == "mixed" else kernel
    half, whole = learned(name, 7, kernel=kernel), learned(name, kernel=kernel)
    assert_same(pt.resume(half, 13, progress=False), whole)


@pytest.mark.more
@pytest.mark.parametrize("name", ["classes", "shared variance"])
def test_every_checkpoint_leads_to_the_same_draws(name, copies, tmp_path):
    """From before tuning, when no chain has anything, and from among the draws."""
    whole = learned(name, 4, checkpoint=tmp_path / "run.nc", every=1e-6)
    assert_same(whole, learned(name, 4))
    assert course_of(copies[0]).tuned.tune == -1 and course_of(copies[1]).tuned.tune == 35
    assert made_in(copies[0]) == made_in(copies[1]) == (0, 0)
    for written in (copies[0], copies[1], copies[-2]):
        assert_same(pt.resume(written, progress=False), whole)


@pytest.mark.more
def test_a_file_keeps_the_density(tmp_path):
    whole, half = learned(), learned(draws=7)
    half.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert all(np.array_equal(a, b) for a, b in zip(densities(again), densities(half), strict=True))
    assert_same(pt.resume(again, 13, progress=False), whole)


def lost_with(chain, tmp_path, chains=4):
    """A run that loses one chain in the third round, its other chains, and the run resumed from the checkpoint."""
    path = tmp_path / "run.nc"
    # tasks of a round are submitted by team
    number = 2 * chains + [*range(0, chains, 2), *range(1, chains, 2)].index(chain)
    with pytest.warns(UserWarning, match=rf"1 of {chains} chains were lost \(chain {chain}: RuntimeError: worker lost"):
        post = learned(draws=6, chains=chains, executor=AtOnce(number), checkpoint=path, every=60.0)
    assert post.n_chains == chains - 1
    # it is where the second round has left it
    assert [rest.tuned for rest in course_of(path).rests] == [7 if c == chain else 35 for c in range(chains)]
    assert made_in(path) == tuple(0 if c == chain else 6 for c in range(chains))
    return post, [c for c in range(chains) if c != chain], pt.resume(path, progress=False)


def test_a_chain_lost_in_tuning_is_left_out(tmp_path):
    """The others go on. Resumed from the checkpoint, the chain begins with the density and graph of its team."""
    post, others, again = lost_with(2, tmp_path)
    assert post.course.teams == [[0], [1, 2]] and again.course.teams == [[0, 2], [1, 3]]
    found = densities(again)
    assert np.array_equal(found[2], found[0]) and not np.array_equal(found[2], found[1])
    for mine, c in enumerate(others):
        assert np.array_equal(post.log_score[mine], again.log_score[c])


def test_a_team_lost_in_tuning_goes_on_with_the_other(tmp_path):
    """Its chain begins with the density of the other team and belongs to it, as it is no independent witness."""
    post, _, again = lost_with(1, tmp_path, chains=3)
    assert post.course.teams == [[0, 1]] and again.course.teams == [[0, 1, 2]]
    found = densities(again)
    assert np.array_equal(found[1], found[0])
    assert len(post.course.evidences) == len(again.course.evidences) == 1


def test_interrupted_while_learning(monkeypatch):
    """Threads at work stop after their block, not at the end of a round of minutes; what they tuned is lost."""
    real, interruptions = _loop.wait, [KeyboardInterrupt]

    def wait(*args, **rest):
        if interruptions:
            raise interruptions.pop()
        return real(*args, **rest)

    monkeypatch.setattr(_loop, "wait", wait)
    with pytest.raises(KeyboardInterrupt, match="before every chain had a draw; nothing to return"):
        learned(tune=10**7)
    assert learned(draws=5).n_draws == 5


@pytest.mark.more
@pytest.mark.parametrize("n_done", [0, 3])
def test_interrupted_while_an_executor_learns(n_done, tmp_path):
    executor, path = HangingExecutor(n_done), tmp_path / "run.nc"
    with pytest.raises(KeyboardInterrupt, match=r"before a chain had finished; pt\.resume\(.*run\.nc"):
        learned(draws=5, executor=executor, checkpoint=path)
    assert all(future.cancelled() for future in executor.futures[n_done + 1 :])
    assert_same(pt.resume(path, progress=False), learned(draws=5))


# teams


@pytest.mark.more(everyday=["1-teams0"])
@pytest.mark.parametrize(
    ("chains", "teams"),
    [(1, [[0]]), (2, [[0], [1]]), (3, [[0, 2], [1]]), (4, [[0, 2], [1, 3]]), (5, [[0, 2, 4], [1, 3]])],
)
def test_chains_tune_in_two_teams(chains, teams):
    post = learned(draws=5, chains=chains)
    assert post.course.teams == teams
    assert post.course.evidences.shape == (len(teams), 2)
    assert [rest.team for rest in post.course.rests] == [c % 2 for c in range(chains)]


def chain_draws(post, c):
    """All that one chain has drawn and where it stopped; the trees themselves, as their numbers depend on others."""
    trees = [post.draws.distinct_tree(tree) for tree in post.draws.tree_of_draw[c].tolist()]
    return trees, [post.draws.proposed[c], post.draws.accepted[c]], post.course.rests[c]


def assert_team_unchanged(run):
    """The draws of a team do not depend on a seed of the other team, but on that of its own team."""
    one, other = run([1, 2, 3, 4]), run([1, 2, 3, 5])
    for c in (0, 2):
        assert_equal(chain_draws(one, c), chain_draws(other, c))
        assert one.course.evidences[0].tolist() == other.course.evidences[0].tolist()
    for c in (1, 3):
        assert chain_draws(one, c)[0] != chain_draws(other, c)[0]
    assert one.course.evidences[1].tolist() != other.course.evidences[1].tolist()


@pytest.mark.more
def test_a_team_depends_on_no_chain_of_the_other():
    assert_team_unchanged(lambda seeds: learned(chains=4, rng=seeds))


def test_a_team_of_a_default_run_depends_on_costs_of_the_other_alone(monkeypatch):
    """Up to the first verdict. The costs of proposals set the weights of the moves of all chains."""
    monkeypatch.setattr(Kernel, "with_weights_by_cost", lambda kernel, cost, rows: kernel)
    assert_team_unchanged(
        lambda seeds: pt.sample(MODELS["classes"], 20, rng=seeds, kernel="whole", work=3e8, steps=20, progress=False)
    )


def test_the_probabilities_of_splits_add_up():
    """On a table so small that the graph contains every tree, and of whose terms some are the same for all splits."""
    X = np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, 2.0], [0.0, 1.0]])
    model = pt.TreeModel(X, [0, 1, 0, 1, 1, 0])
    truth = exact.solve(model).log_evidence
    for seed in range(2):
        post = pt.sample(model, 250, rng=seed, kernel="whole", steps=250, progress=False)
        for graph in post.course.tuned.graphs:
            for piece in graph.piece[: graph.used[N_PIECES]]:
                total, e = np.exp(piece.g_stop), piece.first
                while e >= 0:
                    total, e = total + np.exp(graph.link.g[e]), graph.link.next[e]
                assert total == pytest.approx(1.0, abs=1e-9)
        assert post.log_evidence == pytest.approx(truth, abs=0.003)
        assert 0.0 < post.log_evidence_se < 0.003
