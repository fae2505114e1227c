"""The fixed design: every node's question is that of a given tree (formula sheet, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from .._columns import Columns, Table, ordered_values
from ..trees import LEAF, Tree, check_tree
from ._cells import PlainCell, Question
from ._coding import AnyScale, given_scale, nominal_scale
from ._questions import DESIGN, FIXED, Questions
from ._tree_priors import FixedShape


@dataclass(frozen=True, eq=False)
class FixedTree(Questions):
    """The question of every node is that of a given tree; the prior is over its prunings (Blanchard 1999, section 4).

    Parameters
    ----------
    tree : Tree
        The deepest tree; a node that is a leaf of it is never split.

    Raises
    ------
    TypeError
        If ``tree`` is not a Tree.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> FixedTree(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    FixedTree(tree=Tree(n_leaves=2, depth=1))
    """

    tree: Tree
    kind = FIXED

    def __post_init__(self) -> None:
        if not isinstance(self.tree, Tree):
            raise TypeError(f"tree is a {type(self.tree).__name__}; give a Tree, or use FixedTree.from_sklearn.")

    @classmethod
    def from_sklearn(cls, fitted: Any) -> Self:
        """The design of a fitted scikit-learn tree.

        Raises
        ------
        ValueError
            If ``fitted`` holds no tree.
        """
        return cls(Tree.from_sklearn(fitted))

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        check_tree(self.tree, columns.n_features)
        out: list[AnyScale] = []
        for k, (raw, categories) in enumerate(zip(table, columns.categories, strict=True)):
            asked = self.tree.feature == k
            if np.any((self.tree.categories[asked] >= 0) != (categories is not None)):
                raise ValueError(f"the fixed tree and X disagree on whether column {columns.names[k]!r} is nominal.")
            if self.tree.columns is not None and asked.any() and categories is not None:
                known = self.tree.columns.categories[k].tolist()
                if known != categories.tolist():
                    raise ValueError(
                        f"the fixed tree knows the categories {known} of column {columns.names[k]!r}; "
                        f"X holds {categories.tolist()}: give a tree over the same categories."
                    )
            if categories is not None:
                out.append(nominal_scale(len(categories)))
            else:
                ordered_values(raw, columns.names[k])
                points = self.tree.threshold[asked]
                out.append(given_scale(np.unique(points[np.isfinite(points)])))
        return out

    def bind(self, scales: list[AnyScale]) -> Questions:
        tree, asked = self.tree, []
        for i in range(tree.n_nodes):
            k, categories = int(tree.feature[i]), int(tree.categories[i])
            cut = -1 if k == LEAF or categories >= 0 else scales[k].cut_of(float(tree.threshold[i]))
            asked.append(Question(k, cut, categories & ((1 << scales[k].n_codes) - 1) if categories >= 0 else -1))
        return _BoundFixedTree(tree, asked)

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return self.tree.depth

    def shape(self) -> FixedShape:
        tree = self.tree
        return FixedShape(tree.node_depth, tree.left, tree.right, tree.feature == LEAF)

    def ways(self, cell: PlainCell, feature: int) -> int:
        return int(self.tree.feature[cell.node] == feature)

    def admits(self, cell: PlainCell, question: Question) -> bool:
        raise NotImplementedError("the design knows its questions once it is bound to a model")

    def draw_way(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Question:
        raise NotImplementedError("the design knows its questions once it is bound to a model")


@dataclass(frozen=True, eq=False)
class _BoundFixedTree(FixedTree):
    """A fixed tree whose questions are known in codes, one for each node."""

    asked: list[Question] = field(default_factory=list)

    def admits(self, cell: PlainCell, question: Question) -> bool:
        return question == self.asked[cell.node]

    def draw_way(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Question:
        return self.asked[cell.node]

    def children(self, cell: PlainCell, question: Question) -> tuple[PlainCell, PlainCell]:
        return cell.split(question, (int(self.tree.left[cell.node]), int(self.tree.right[cell.node])))

    def design(self) -> np.recarray:
        out = np.zeros(self.tree.n_nodes, dtype=DESIGN).view(np.recarray)
        out.feature, out.cut, out.categories = np.array(self.asked, dtype=np.int64).T
        out.right = self.tree.right
        return out
