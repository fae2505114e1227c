"""Functions with which you write the step of your own move, for `pactree_mcmc.Move`.

A step is ``step(rng, model, state) -> Proposal``, compiled. ``state`` describes the present tree:

- ``state.node[i]``, a record: ``parent``, ``left``, ``right`` (-1: none), ``feature`` (-1 in a leaf), ``cut`` (the
  largest code going left), ``categories`` (bits going left, -1 for an ordered feature), ``log_rule`` (log R of its
  split, 0 in a leaf), ``score`` (log score as a leaf, of internal nodes too), ``rows``, ``depth``, ``start``
  and ``stop`` (its merged rows are ``state.order[start:stop]``), ``splittable``, ``upper`` (under local cuts the next
  code on the right of the cut). Node 0 is the root.
- ``state.stats[i]``, the additive statistics of node i; ``state.beta[0]``, the power of the score, 1 unless tempered.
- three lists to pick from: the leaves that can be split, of which there are ``n_growable(state)`` and
  ``growable(state, i)`` is the i-th; likewise `n_prunable` and `prunable` for the nodes whose children are both leaves,
  and `n_internal` and `internal`. Their order depends on the history of the chain and has no meaning.
- ``model.units.codes`` (q, U), the code of each merged row by coordinate.

Random choices: ``pick(rng, n)``, ``flip(rng, p)``, ``flip_log(rng, log_p)``, ``pick_weighted(rng, weights, total)``. To
draw a split of a cell: ``draw_split(rng, model, state, node)`` from the split prior, or ``draw_split_of(rng, model,
state, node, feature)`` from the split prior given one admissible feature. A `Split` has the fields feature, cut, upper,
categories and log_rule, as a node has. ``split_gain(state, node)`` is the log score that a node gains by its split;
``draw_scanned`` draws a split with a probability proportional to ``exp(log_rule + split_gain)``.

Possible proposals:

- to grow: ``attach_children(model, state, leaf, split)``, then ``return growth(model, state, which, leaf, ratio)``;
- to prune: ``return pruning(model, state, which, node, ratio)``;
- to give an internal node another split and keep those below as far as possible: ``return replace_split(rng, model,
  state, node, feature, cut, categories, is_drawn)``; ``is_drawn`` is True if the split was drawn from the split prior,
  whose R then enters the ratio; otherwise it must be proposed with the same probability as the reverse change;
- to replace a subtree: ``top = begin(state, node)``, a leaf outside the tree on the same rows; build at ``top`` with
  `attach_children`, or from a *plan*; then ``return replacement(model, state, which, node, top, ratio)``, or
  ``withdrawn(which, node, top)``;
- ``refused(which)`` if the proposal cannot be made and nothing was built; ``nothing()`` if there is nothing to pick
  from.

A plan is a subtree in ``state.plan[0]``, ``state.plan[1]``, ...: records with ``feature`` (-1: a leaf), ``cut``,
``categories``, and ``left`` and ``right``, the places of the children in the plan (-1: none); place 0 is the top, and
children come after their parents. ``plan_copy(state, node, 0)`` writes the subtree of a node and returns how many
places it takes; ``plan_node(state, i, feature, cut, categories)`` writes one place and clears its children;
``build(model, state, top, n_planned, False)`` grows ``top`` as planned and is False if a split cannot be made. A
split that may come to other rows is made *raw* first, by ``make_plan_raw(rng, model, state, node, but)``: see "Your own
leaves, split priors and moves".

``ratio`` is the log proposal ratio: the log probability of proposing the present tree from the new one minus that of
proposing the new one. The prior and score ratios are filled in. ``which`` is 0, or 1 for the second of two numbers that
the move counts; any other is an error. The loop accepts or rejects, carries out the change or undoes it, and counts.
"""

from .core.compile.jit import jit
from .mcmc.edits.grow import attach_children, growth, pruning, split_gain
from .mcmc.edits.proposal import Proposal, made, nothing, refused, taken, withdrawn
from .mcmc.edits.replace_subtree import begin, build, make_plan_raw, plan_copy, plan_node, replacement
from .mcmc.moves.change import log_raw_forms_below, replace_split
from .mcmc.state.lists import (
    growable,
    internal,
    is_leaf,
    n_growable,
    n_internal,
    n_prunable,
    prunable,
    sibling,
)
from .mcmc.state.random import flip, flip_log, pick, pick_weighted
from .mcmc.state.records import NONE
from .mcmc.state.splits import Split, draw_split, draw_split_of
from .mcmc.state.terms import next_node, subtree_log_prior, subtree_log_score
from .mcmc.sums.split_sums import draw_scanned, scan
from .mcmc.sums.split_sums import is_candidate as can_scan

__all__ = [
    "NONE",
    "Proposal",
    "Split",
    "attach_children",
    "begin",
    "build",
    "can_scan",
    "draw_scanned",
    "draw_split",
    "draw_split_of",
    "flip",
    "flip_log",
    "growable",
    "growth",
    "internal",
    "is_leaf",
    "jit",
    "log_raw_forms_below",
    "made",
    "make_plan_raw",
    "n_growable",
    "n_internal",
    "n_prunable",
    "next_node",
    "nothing",
    "pick",
    "pick_weighted",
    "plan_copy",
    "plan_node",
    "prunable",
    "pruning",
    "refused",
    "replace_split",
    "replacement",
    "scan",
    "sibling",
    "split_gain",
    "subtree_log_prior",
    "subtree_log_score",
    "taken",
    "withdrawn",
]
