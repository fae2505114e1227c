"""Implementation of `check_balance`, which computes the full transition matrix of a move on a small model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from ..core.checks import check_count, check_number, repr_of
from ..core.texts import warn
from ..mcmc.kernel import LIBRARY_MOVES
from ..mcmc.moves.base import Move
from ..model import TreeModel
from ..tree.tree import Tree, to_text
from .spaces import (
    MAX_TREES,
    ReachedTrees,
    StateSnapshot,
    StepError,
    Stepper,
    TooManyTrees,
    new_chain,
    plain_package,
    posterior_of,
    row_as_array,
)

LARGEST_MAX_TREES = 20_000  # largest value allowed for ``most_trees``
MAX_ROUNDING_FLOW = 1e-15  # largest flow that is attributed to rounding: to ends of intervals that should be equal


class BalanceError(AssertionError):
    """Error for a move that does not leave the posterior invariant, or corrupts the arrays of the chain."""


class BalanceReport(NamedTuple):
    """The result of `check_balance` for a move on a model."""

    move: str
    n_trees: int
    """Number of all trees of the model with positive prior."""
    moving: float
    """Probability under the posterior that a step leads to another tree. If it is 0, nothing was checked."""
    reaches_all: bool
    """True if the move by itself is irreducible. Otherwise it must be mixed with other moves."""
    imbalance: float
    """Largest difference of the two flows between two trees, relative to the larger of the two."""
    trees: list[Tree]
    posterior: np.ndarray
    """(n_trees,) posterior probability of each tree."""
    transition: np.ndarray
    """(n_trees, n_trees) probability of being at tree j after a step from tree i."""


def check_balance(
    move: Move | str, model: TreeModel, *, beta: float = 1.0, most_trees: int = MAX_TREES, tolerance: float = 1e-10
) -> BalanceReport:
    """Prove on a small model that a move is reversible with respect to the posterior.

    All trees of the model are enumerated, by growing and pruning from the stump. From each of them the step runs, as
    plain Python, once for every outcome of every random choice it makes. This gives the probability of every next tree
    up to rounding, so that the check involves no chance. Then every pair of trees must exchange equal flows, ``pi(T)
    P(T, T') = pi(T') P(T', T)``, with the posterior ``pi`` by the model's plain formula.

    Parameters
    ----------
    move : Move or str
        A move of your own, or the name of one of the library's.
    model : TreeModel
        A small one: about five rows of two features, with a ``max_depth`` of 2 or 3. Try several: ordered and nominal
        features, merged rows, ``min_leaf`` above 1, each split prior and tree prior with which the move will be used.
    beta : float, default 1.0
        Power of the score, from 0 to 1, as for a replica of a tempered chain.
    most_trees : int, default 500
        Largest number of trees to enumerate, 1 to 20,000.
    tolerance : float, default 1e-10
        Relative difference of flows that is attributed to rounding, > 0.

    Returns
    -------
    BalanceReport

    Raises
    ------
    BalanceError
        An AssertionError, if two trees exchange unequal flows, a prior or score ratio is wrong, a tree is reached that
        the model does not have, the arrays of the chain do not match the tree after a step, or the step returns no
        Proposal of this move or draws by ``rng`` what cannot be followed. It says which, and where.
    ValueError
        If the move is unknown, an argument is out of range, or the model has more trees than ``most_trees``.
    TypeError
        If the move is neither a Move nor a name, or the model is not a TreeModel.

    Warns
    -----
    UserWarning
        If a step leads to another tree from no tree of the model: nothing was checked.

    Notes
    -----
    Cost: the number of trees times the outcomes of a step, each some fraction of a millisecond; seconds to a minute.
    A step whose choices depend on the chain's past cannot be checked in this way.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> model = pt.TreeModel([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]], [0, 1, 0])
    >>> report = pt.testing.check_balance("change", model)
    >>> report.n_trees, report.reaches_all, report.imbalance < 1e-10
    (5, False, True)
    """
    if not isinstance(move, Move | str):
        raise TypeError(f"move is {repr_of(move)}; give a pt.Move, or the name of one of the library's.")
    if isinstance(move, str) and move not in LIBRARY_MOVES:
        raise ValueError(f"the move {repr_of(move)} is unknown; the library's are {', '.join(LIBRARY_MOVES)}.")
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is {repr_of(model)}; give a TreeModel.")
    if not model.lowered.leaf.is_fixed:
        raise ValueError(f"{model.leaf!r} has a parameter that all leaves share; check the move with another leaf.")
    check_count("most_trees", most_trees, 1, LARGEST_MAX_TREES)
    check_number("beta", beta, "a power of the score, from 0 to 1", 0.0, 1.0)
    check_number("tolerance", tolerance, "a relative difference, > 0", 5e-324)
    report = _BalanceCheck(move, model, float(beta), int(most_trees), float(tolerance)).report()
    if not (report.transition - np.diag(np.diag(report.transition))).any():
        warn(f"{report.move!r} leads from no tree of the model to another: nothing was checked; give another model.")
    return report


class _BalanceCheck:
    """Check of a move on one model: all trees of the model, and the steps of the move from each."""

    def __init__(self, move: Move | str, model: TreeModel, beta: float, max_trees: int, tolerance: float) -> None:
        self.model, self.tolerance, self.beta = model, tolerance, beta
        self.stepper = Stepper(move)
        self.chain = new_chain(model, beta, move=move)
        try:
            self.reached = ReachedTrees(model, Stepper("grow-prune"), self.chain, max_trees)
        except TooManyTrees:
            raise ValueError(f"the model has more than most_trees={max_trees} trees; give fewer rows") from None
        trees = self.reached.trees
        self.log_prior = np.array([model.log_prior(tree) for tree in trees])
        self.log_score = np.array([model.log_score(tree) for tree in trees])
        self.distribution = posterior_of(model, trees, beta)
        self.counts = [tuple(snapshot.arrays["count"][:5]) for snapshot in self.reached.snapshots]
        self.proposals: dict[tuple[int, int], Any] = {}
        self.needs = LIBRARY_MOVES[move] if isinstance(move, str) else move
        edits = plain_package().module("mcmc.edits.proposal")
        self.without_replacing = (edits.NOTHING, edits.REFUSED, edits.GROW, edits.PRUNE)

    def report(self) -> BalanceReport:
        """Return the report, or raise a BalanceError."""
        rows = [self._row(i, snapshot) for i, snapshot in enumerate(self.reached.snapshots)]
        transition = np.array([row_as_array(row, self.reached.number) for row in rows])
        for terms in self.proposals.items():
            self._check_terms(*terms)
        flow = self.distribution[:, None] * transition
        larger = np.maximum(flow, flow.T)
        difference = np.abs(flow - flow.T) / np.maximum(larger, MAX_ROUNDING_FLOW)
        relative = np.where(larger > MAX_ROUNDING_FLOW, difference, 0.0)
        if relative.max(initial=0.0) > self.tolerance:
            self._refuse(flow, relative)
        moving = float(self.distribution @ (1.0 - np.diag(transition)))
        return BalanceReport(
            self.stepper.name,
            len(self.distribution),
            moving,
            connected_components(transition > 0.0, connection="strong", return_labels=False) == 1,
            float(relative.max(initial=0.0)),
            self.reached.trees,
            self.distribution,
            transition,
        )

    def _row(self, i: int, snapshot: StateSnapshot) -> dict:
        """Return the distribution of the next tree from tree ``i``, {key: probability}, keys as of `tree_key`."""

        def check(key: tuple) -> None:
            """Check the proposal, and the arrays of the chain, when a step has led to the tree with this ``key``."""
            j = self.reached.number.get(key)
            if j is None:
                raise BalanceError(
                    f"{self.stepper.name!r} leads from\n{self._text(i)}\nto a tree that the model does not have: {key}"
                )
            proposal = self.stepper.proposal
            if "replace" not in self.needs.scratch and proposal.edit not in self.without_replacing:
                raise BalanceError(f"{self.stepper.name!r} replaces a subtree; give replaces=True, not replaces=False.")
            if j != i:
                self.proposals.setdefault((i, j), proposal)
            self._check_arrays(i, j)

        try:
            return self.stepper.transition_row(self.chain, snapshot, check)
        except StepError as error:
            raise BalanceError(f"the step of {self.stepper.name!r} {error}. It was given\n{self._text(i)}") from error
        except IndexError as error:
            array_of_flag = {"replaces": "replace", "scans": "scan"}
            flags = ", ".join(f"{flag}=False" for flag, name in array_of_flag.items() if name not in self.needs.scratch)
            if not flags:
                raise
            raise BalanceError(
                f"{self.stepper.name!r} uses arrays that it does not have because of {flags}; leave this out. The step "
                f"was called in\n{self._text(i)}"
            ) from error

    def _check_arrays(self, i: int, j: int) -> None:
        """Raise a BalanceError if, after a step from tree ``i``, the arrays of the chain do not match tree ``j``."""
        # log prior, log score and counts of nodes; if `j` is `i`, a proposal was refused
        terms, state, lowered = plain_package().module("mcmc.state.terms"), self.chain.packed_state, self.chain.model
        count = tuple(state.count[:5])
        log_prior = plain_package().module("mcmc.chain.draw_store").log_prior_of(lowered, state)
        of_chain = log_prior, terms.subtree_log_score(state, 0)
        of_model = self.log_prior[j], self.log_score[j]
        is_close = np.allclose(of_chain, of_model, rtol=1e-9, atol=1e-9)
        if is_close and count == self.counts[j]:
            return
        when = "after a proposal that was refused" if i == j else "after a step"
        texts = [f"{value:.9g}" for value in (*of_chain, *of_model)]
        difference = f"log prior {texts[0]} and log score {texts[1]}, and the model {texts[2]} and {texts[3]}"
        if is_close:
            names = "growable leaves, prunable, internal, free nodes, nodes"
            difference = f"{[int(n) for n in count]} {names}, and there are {[int(n) for n in self.counts[j]]}"
        raise BalanceError(
            f"{self.stepper.name!r} breaks the arrays of the chain, {when} from\n{self._text(i)}\nto\n{self._text(j)}\n"
            f"they give {difference}."
        )

    def _check_terms(self, pair: tuple[int, int], proposal: Any) -> None:
        """Raise a BalanceError if the prior or score ratio of a proposal is not the model's, see `_wrong_terms`."""
        wrong = self._wrong_terms(pair, proposal)
        if wrong:
            i, j = pair
            raise BalanceError(
                f"{self.stepper.name!r} proposes to go from\n{self._text(i)}\nto\n{self._text(j)}\nwith {wrong}."
            )

    def _wrong_terms(self, pair: tuple[int, int], proposal: Any) -> str:
        """Return a text on the log ratios of a proposal that differ from the model's, "" if none do."""
        # those of the prior and of the score to the power beta
        i, j = pair
        edits = plain_package().module("mcmc.edits.proposal")
        if proposal.edit == edits.TAKE:
            return ""
        of_model = self.log_prior[j] - self.log_prior[i], self.beta * (self.log_score[j] - self.log_score[i])
        of_proposal = proposal.log_prior_ratio, proposal.log_score_ratio
        wrong = [
            f"a log {name} ratio of {proposed:.9g}, which is {expected:.9g} by the model"
            for name, proposed, expected in zip(("prior", "score"), of_proposal, of_model, strict=True)
            if not np.isclose(proposed, expected, rtol=1e-9, atol=1e-9)
        ]
        return " and ".join(wrong)

    def _refuse(self, flow: np.ndarray, relative: np.ndarray) -> None:
        """Raise a BalanceError that describes the pair of trees with the largest relative difference of flows."""
        i, j = (int(k) for k in np.unravel_index(np.argmax(relative), relative.shape))
        i, j = (i, j) if flow[i, j] > flow[j, i] else (j, i)
        log_ratio = np.inf if flow[j, i] == 0.0 else float(np.log(flow[i, j] / flow[j, i]))
        comparison = "the way back is never made" if np.isinf(log_ratio) else f"their logs differ by {log_ratio:.6g}"
        n_pairs = int((np.triu(relative) > self.tolerance).sum())
        raise BalanceError(
            f"{self.stepper.name!r} is not in balance. From\n{self._text(i)}\nto\n{self._text(j)}\n"
            f"flows {flow[i, j]:.9g}, and back {flow[j, i]:.9g}: {comparison}. The prior and score ratios are right, "
            "so the log proposal ratio is not, or the choice of what is proposed. "
            f"{n_pairs} pairs of trees are out of balance."
        )

    def _text(self, i: int) -> str:
        """Return tree ``i`` with its posterior probability as text, for messages."""
        return f"tree {i}, of posterior probability {self.distribution[i]:.6g}:\n{to_text(self.reached.trees[i])}"
