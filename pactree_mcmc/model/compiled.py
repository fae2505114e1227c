"""A model as compiled code takes it."""

from typing import Any, NamedTuple

from ..core.compile.jit import jit, struct
from .data import Units
from .leaf.codes import LeafRule
from .split_prior.base import SplitRule
from .tree_prior.base import PriorTables


class Lowered(NamedTuple):
    """The four parts, lowered to arrays and integer codes."""

    units: Units
    prior: PriorTables
    split_prior: SplitRule
    leaf: LeafRule
    guess: LeafRule
    """The leaf rule by which tables of scores are kept: `leaf`, but with a variance that stays."""

    @property
    def n_weights(self) -> int:
        """Numbers that a draw has of feature weights: p and two more; 0 where they are given."""
        return 0 if self.split_prior.is_fixed else self.split_prior.n_turns + 2


_units, _prior, _splits, _leaf = struct(Units), struct(PriorTables), struct(SplitRule), struct(LeafRule)
_lowered = struct(Lowered)


@jit
def pack_model(m: Lowered) -> Any:
    """The model as one pointer."""
    u, p, q, f, g = m.units, m.prior, m.split_prior, m.leaf, m.guess
    return _lowered(
        _units(u.codes, u.counts, u.label, u.weight, u.weight_all, u.moments, u.rows, u.rows_all),
        _prior(p.table, p.by_node, p.depth_limit, p.empty_bonus, p.log_constant),
        _splits(
            q.kind,
            q.min_leaf,
            q.feature,
            q.n_turns,
            q.design,
            q.weigh,
            q.joint,
            q.by_depth,
            q.params,
            q.ends,
            q.dirichlet,
        ),
        _leaf(f.kind, f.params, f.n_stats, f.lookup),
        _leaf(g.kind, g.params, g.n_stats, g.lookup),
    )
