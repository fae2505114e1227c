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
``draw_scanned`` draws a split with a probability proportional to ``exp(log_rule + split_gain)``, if ``can_scan(model,
state, node)`` is True.

Possible proposals:

- to grow: ``attach_children(model, state, leaf, split)``, then ``return growth(model, state, which, leaf, ratio)``;
- to prune: ``return pruning(model, state, which, node, ratio)``;
- to give an internal node another split and keep those below as far as possible: ``return replace_split(rng, model,
  state, node, feature, cut, categories, is_drawn)``; ``is_drawn`` is True if the split was drawn from the split prior,
  whose R then enters the ratio; otherwise it must be proposed with the same probability as the reverse change;
- to replace a subtree: ``top = begin(state, node)``, a leaf outside the tree on the same rows; build at ``top`` with
  `attach_children`; then ``return replacement(model, state, which, node, top, ratio)``, or
  ``withdrawn(which, node, top)``;
- ``refused(which)`` if the proposal cannot be made and nothing was built; ``nothing()`` if there is nothing to pick
  from.

``ratio`` is the log proposal ratio: the log probability of proposing the present tree from the new one minus that of
proposing the new one. The prior and score ratios are filled in. ``which`` is 0, or 1 for the second of two numbers that
the move counts; any other is an error. The loop accepts or rejects, carries out the change or undoes it, and counts.
"""

from .core.compile.jit import jit
from .mcmc.edits.grow import attach_children, growth, pruning, split_gain
from .mcmc.edits.proposal import Proposal, nothing, refused, taken, withdrawn
from .mcmc.edits.replace_subtree import begin, replacement
from .mcmc.moves.change import replace_split
from .mcmc.state.lists import growable, internal, is_leaf, n_growable, n_internal, n_prunable, prunable, sibling
from .mcmc.state.random import flip, flip_log, pick, pick_weighted
from .mcmc.state.records import NONE
from .mcmc.state.splits import Split, draw_split, draw_split_of
from .mcmc.sums.split_sums import draw_scanned
from .mcmc.sums.split_sums import is_candidate as can_scan

__all__ = [
    "NONE", "Proposal", "Split", "attach_children", "begin", "can_scan", "draw_scanned", "draw_split", "draw_split_of",
    "flip", "flip_log", "growable", "growth", "internal", "is_leaf", "jit", "n_growable", "n_internal", "n_prunable",
    "nothing", "pick", "pick_weighted", "prunable", "pruning", "refused", "replace_split", "replacement", "sibling",
    "split_gain", "taken", "withdrawn",
]  # fmt: skip
