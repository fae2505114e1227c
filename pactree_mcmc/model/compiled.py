"""A model as compiled code takes it."""

from typing import NamedTuple

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

    @property
    def is_fixed(self) -> bool:
        """Whether what trees weigh stays: no variance of leaves and no feature weights are drawn."""
        return self.leaf.is_fixed and self.split_prior.is_fixed
