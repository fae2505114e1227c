"""Functions that build a sampled posterior from the saved draws of chains, or from single trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.checks import check_type, read_array, repr_of
from ..model import TreeModel
from ..tree.coded import CODED_NODE, CodedTrees, Course, Saved, bytes_view, from_records, number_trees
from ..tree.tree import Tree
from .draws import code_trees
from .evidence import Tempering
from .sampled import SampledPosterior


def join_chains(
    model: TreeModel,
    chains: Sequence[Saved],
    moves: tuple[str, ...],
    seconds: float,
    tempering: Tempering | None = None,
    course: Course | None = None,
    *,
    kind: type[SampledPosterior] = SampledPosterior,
    by_stats: bool = False,
) -> Any:
    """Return the saved draws of several ``chains`` as one posterior of the class ``kind``.

    Each distinct tree is stored once. With ``by_stats``, trees with equal splits and different node statistics are
    stored separately. ``moves`` are the names of the moves, ``seconds`` is the time of the run, ``tempering`` has the
    diagnostics of a tempered run, and ``course`` the state from which `resume` continues.
    """
    # a chain that was cut short may have saved trees after its last draw
    n_trees = [int(saved.tree_of_draw.max()) + 1 for saved in chains]
    ends = [np.asarray(saved.tree)["start"][: n + 1] for saved, n in zip(chains, n_trees, strict=True)]
    nodes = np.concatenate([bytes_view(saved.node[: end[-1]]) for saved, end in zip(chains, ends, strict=True)])
    stats = np.concatenate([saved.stats[: end[-1]] for saved, end in zip(chains, ends, strict=True)])
    offset = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(end) for end in ends]))])
    trees = from_records(nodes.view(CODED_NODE), offset)
    number, first_tree = number_trees(trees, stats if by_stats else None)
    tree = np.concatenate([np.asarray(saved.tree)[:n] for saved, n in zip(chains, n_trees, strict=True)])[first_tree]
    number_of_chain = np.split(number, np.cumsum(n_trees)[:-1])
    move_counts = np.array([saved.moves for saved in chains])
    return kind(
        model,
        trees.take(first_tree),
        stats[trees.nodes_of(first_tree)],
        np.array([n[saved.tree_of_draw] for n, saved in zip(number_of_chain, chains, strict=True)]),
        tree["log_prior"],
        tree["log_score"],
        move_counts[:, :, 0],
        move_counts[:, :, 1],
        moves,
        seconds,
        np.array([saved.noise for saved in chains]),
        tempering,
        course,
    )


def join_independent(
    model: TreeModel, trees: CodedTrees, stats: np.ndarray, log_prior: np.ndarray, log_score: np.ndarray
) -> SampledPosterior:
    """Return independent draws as a posterior with one chain: draw t is tree t. Equal trees are stored once.

    ``stats`` (n_nodes, s) are the statistics of the nodes, ``log_prior`` and ``log_score`` (n_trees,) those of trees.
    """
    number, first_tree = number_trees(trees)
    nodes = trees.nodes_of(first_tree)
    return SampledPosterior(
        model, trees.take(first_tree), stats[nodes], number[None], log_prior[first_tree], log_score[first_tree]
    )


def without_undrawn_trees(
    trees: CodedTrees, stats: np.ndarray, tree_of_draw: np.ndarray, log_prior: np.ndarray, log_score: np.ndarray
) -> dict[str, Any]:
    """Return these fields of `Draws` by name, without trees that no draw has, and with equal trees stored once."""
    # trees that send unknown categories to other sides are not equal
    number, first_tree = number_trees(trees, trees.default_left[:, None])
    numbers_drawn, renumbered = np.unique(number[tree_of_draw], return_inverse=True)
    trees_drawn = first_tree[numbers_drawn]
    return {
        "trees": trees.take(trees_drawn),
        "stats": stats[trees.nodes_of(trees_drawn)],
        "tree_of_draw": renumbered.reshape(tree_of_draw.shape),
        "log_prior": log_prior[trees_drawn],
        "log_score": log_score[trees_drawn],
    }


def posterior_from_trees(model: TreeModel, trees: Sequence[Tree], tree_of_draw: Any = None) -> SampledPosterior:
    """Return a posterior of trees drawn elsewhere, such as by another program, with all methods of draws.

    Parameters
    ----------
    model : TreeModel
        The model whose rows give the trees their statistics, priors and scores.
    trees : sequence of Tree
        Distinct or equal trees, with thresholds and categories at which the model can split.
    tree_of_draw : array-like of shape (chains, draws), optional
        Index in ``trees`` of the tree of each draw, at least one. By default each tree is one draw of a single chain.
        Trees that no draw has are left out, and equal trees are stored once.

    Returns
    -------
    SampledPosterior

    Raises
    ------
    TypeError
        If an entry of ``trees`` is not a Tree.
    ValueError
        If there are no trees or draws, a tree splits at a value without a cut in the coding or has prior mass 0, or an
        entry of ``tree_of_draw`` is out of range.

    Notes
    -----
    Plain Python: the nodes of the trees times the rows in them. Under a drawn variance the scores are those at the
    variance in the model.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(20.0)
    >>> model = pt.TreeModel(x[:, None], x > 9)
    >>> stump = pt.Tree([0, -1, -1], [9.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> pt.posterior_from_trees(model, [stump]).n_leaves.tolist()
    [[2]]
    """
    check_type("model", model, TreeModel, "a TreeModel")
    if not isinstance(trees, Sequence) or not trees:
        raise ValueError(f"trees is {repr_of(trees)}; give a list of at least one Tree.")
    for tree in trees:
        check_type("an entry of trees", tree, Tree, "a pt.Tree")
    draws = np.arange(len(trees))[None] if tree_of_draw is None else read_array("tree_of_draw", tree_of_draw)
    if draws.ndim != 2 or draws.dtype.kind not in "iu":
        raise ValueError(f"tree_of_draw is {repr_of(tree_of_draw)}; give numbers of trees, shape (chains, draws).")
    if draws.size == 0:
        raise ValueError(f"tree_of_draw has shape {draws.shape}, without draws; give at least one a chain.")
    if draws.min() < 0 or draws.max() >= len(trees):
        invalid, n = draws[(draws < 0) | (draws >= len(trees))][0], len(trees)
        raise ValueError(f"tree_of_draw has {invalid}, but there are {n} trees; give indices from 0 to {n - 1}.")
    coded, stats = code_trees(model, trees)
    logs = np.array([(model.log_prior(tree), model.log_score(tree)) for tree in trees])
    if not np.isfinite(logs).all():
        t = int(np.argmin(np.isfinite(logs).all(axis=1)))
        raise ValueError(
            f"tree {t} has log prior {logs[t, 0]} and log score {logs[t, 1]}; give trees that the prior can draw."
        )
    drawn_parts = without_undrawn_trees(coded, stats, draws.astype(np.int64), logs[:, 0], logs[:, 1])
    return SampledPosterior(model, **drawn_parts)
