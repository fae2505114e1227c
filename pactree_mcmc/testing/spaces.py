"""The exact transition matrix of a move, whose plain code runs on every outcome of every random choice.

Random choices go through ``rng.random()`` and ``rng.integers(0, n)`` of a generator that returns prescribed outcomes. A
step that is replayed with every possible sequence of outcomes, depth first, gives the distribution of its result.

The plain code is a copy of the package that is imported without compilation, with fast records.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

from ..mcmc.moves.base import Move
from ..mcmc.state.records import TREE_CHANGED
from ..model import TreeModel
from ..posterior.draws import Draws

PACKAGE = "pactree_mcmc"
EXCLUDED_PARTS = ("faces", "testing")  # parts of the package that the plain copy does not import


def _package_modules() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == PACKAGE]


@cache
def plain_package() -> SimpleNamespace:
    """Import the package once more without compilation, and return a namespace of it, not in sys.modules."""
    compiled = {name: sys.modules.pop(name) for name in _package_modules()}
    disabled, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
    try:
        package = importlib.import_module(PACKAGE)
        for module in pkgutil.walk_packages(package.__path__, PACKAGE + "."):
            if module.name.split(".")[1] not in EXCLUDED_PARTS:
                importlib.import_module(module.name)
        plain = {name: sys.modules.pop(name) for name in _package_modules()}
    finally:
        numba.config.DISABLE_JIT = disabled
        for name in _package_modules():
            del sys.modules[name]
        sys.modules.update(compiled)
    # both copies share the table of Python functions by the number that represents their address
    address = f"{PACKAGE}.core.compile.address"
    plain[address]._python_functions = compiled[address]._python_functions
    hash_integer = with_stored_results(plain[f"{PACKAGE}.core.bits"].hash_integer)
    for module in plain.values():
        if hasattr(module, "hash_integer"):
            module.hash_integer = hash_integer
    return SimpleNamespace(package=package, module=lambda name: plain[f"{PACKAGE}.{name}"])


def with_stored_results(hash_integer: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of Python integers that equals the hash function ``hash_integer``, and stores its results."""

    # plain code calls it instead of `hash_integer`, which would be slow with NumPy integers, and warn of overflows
    @cache
    def stored_result(x: int) -> Any:
        with np.errstate(over="ignore"):
            return hash_integer(np.int64(x))

    return lambda x: stored_result((int(x) + (1 << 63)) % (1 << 64) - (1 << 63))


def plain_function(function: Any) -> Any:
    """Return an uncompiled copy of a user's compiled function, which calls the plain copy of the library."""
    return _PlainForms().plain_form(function)


class _PlainForms:
    """Conversion of functions, and of all objects that they can reach, to their plain (uncompiled) forms, made once."""

    def __init__(self) -> None:
        self.plain_forms: dict[int, Any] = {}
        self.modules = plain_package()

    def plain_form(self, value: Any) -> Any:
        """Return the plain form of a function, class or module; any other value as it is."""
        plain = value.py_func if isinstance(value, Dispatcher) else value
        if isinstance(plain, ModuleType):
            return self._module(plain)
        name = getattr(plain, "__module__", None)
        if isinstance(name, str) and name.partition(".")[0] == PACKAGE and isinstance(plain, FunctionType | type):
            return getattr(self._module(sys.modules[name]), plain.__qualname__)
        if not isinstance(plain, FunctionType):
            return value
        if id(plain) not in self.plain_forms:
            self.plain_forms[id(plain)] = self._function(plain)
        return self.plain_forms[id(plain)]

    def _module(self, module: ModuleType) -> Any:
        """Return the plain copy of a module of the package, or another module itself."""
        if module.__name__ == PACKAGE:
            return self.modules.package
        is_of_package = module.__name__.partition(".")[0] == PACKAGE
        return self.modules.module(module.__name__.partition(".")[2]) if is_of_package else module

    def _function(self, function: FunctionType) -> FunctionType:
        """Return a copy of a function whose globals and closure variables are in plain form."""
        names, copied_globals = _readable_variables(function), dict(function.__globals__)
        code, cells = function.__code__, self._cells(function)
        copy = FunctionType(code, copied_globals, function.__name__, function.__defaults__, cells)
        # registered first, since the functions that it calls may call it
        self.plain_forms[id(function)] = copy
        values = {name: value for name, value in names.items() if name not in code.co_freevars}
        copied_globals.update({name: self.plain_form(value) for name, value in values.items()})
        return copy

    def _cells(self, function: FunctionType) -> tuple[CellType, ...]:
        return tuple(CellType(self.plain_form(cell.cell_contents)) for cell in function.__closure__ or ())


def _readable_variables(function: FunctionType) -> dict[str, Any]:
    """Return the global and closure variables, by name, that a function, or a function defined in it, can read."""
    names, codes = set(), [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    values = {name: function.__globals__[name] for name in sorted(names) if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[name] = cell.cell_contents
    return values


class Record:
    """Record whose fields are attributes, since NumPy's records would take nine tenths of the time of plain code."""

    def __init__(self, fields: Any) -> None:
        self.__dict__.update(fields)


class Records(Sequence):
    """Sequence of the records of a copy of an array. An attribute is the field of all records, as a new array."""

    # a record is made when it is used for the first time, since most records of large arrays are never used
    def __init__(self, array: np.ndarray) -> None:
        self._array, self._made = array.copy(), {}

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, i: Any) -> Any:
        """Return record ``i``, not negative, or a list of records if ``i`` is a slice."""
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        records = self._made
        if i not in records:
            if not 0 <= i < len(self._array):
                raise IndexError(f"there is no record {i} of {len(self._array)}")
            records[int(i)] = Record(self._fields_of(i))
        return records[i]

    def __getattr__(self, name: str) -> np.ndarray:
        """Return the field ``name`` of all records as a new array."""
        if name.startswith("_"):
            raise AttributeError(name)
        values = self._array[name].copy()
        for i, record in self._made.items():
            values[i] = getattr(record, name)
        return values

    def copies(self) -> dict[int, dict[str, Any]]:
        """Return a copy of the fields of each record that was used, for `put_back`."""
        return {i: record.__dict__.copy() for i, record in self._made.items()}

    def put_back(self, copies: dict[int, dict[str, Any]]) -> None:
        """Restore the fields of all records from the result of `copies`."""
        for i in {*self._made, *copies}:
            self[i].__dict__ = copies[i].copy() if i in copies else self._fields_of(i)

    def _fields_of(self, i: int) -> dict[str, Any]:
        """Return the fields of a record as the array contains them."""
        return dict(zip(self._array.dtype.names, self._array[i].item(), strict=True))


def with_records(group: Any) -> Any:
    """Return a NamedTuple of arrays with each record array replaced by `Records`, which plain code reads fast."""

    def replaced(value: Any) -> Any:
        """Return a record array as `Records`, a NamedTuple by `with_records`, or any other value itself."""
        if hasattr(value, "_fields"):
            return with_records(value)
        return Records(value) if isinstance(value, np.ndarray) and value.dtype.names else value

    return group._replace(**{name: replaced(getattr(group, name)) for name in group._fields})


# advice at the end of an error about an invalid use of the generator
CHANCE_ADVICE = "draw all chance by moves.pick, moves.flip, moves.flip_log or moves.pick_weighted"
MAX_TREES = 500  # default number of trees above which a model is refused
# memory for stored values of about a thousand cells, so few that the test also replaces stored values
CELL_BYTES = 1 << 17


class StepError(ValueError):
    """Error for a step that returns an invalid value, or uses the generator in a way that cannot be followed."""


class PrescribedGenerator:
    """Random generator whose first choices have the outcomes ``prescribed`` (indices), and all later ones the first."""

    def __init__(self, prescribed: Sequence[int]) -> None:
        self.prescribed = prescribed
        self.choices: list[tuple[int, int]] = []
        self.probability = 1.0

    def choose(self, probabilities: Sequence[float]) -> int:
        """Return the index of the outcome of a choice with these ``probabilities``, prescribed or 0, and record it."""
        position = len(self.choices)
        outcome = self.prescribed[position] if position < len(self.prescribed) else 0
        self.choices.append((outcome, len(probabilities)))
        self.probability *= probabilities[outcome]
        return outcome

    def __getattr__(self, name: str) -> Any:
        """Raise a StepError, since a step has asked for a method of random generators that is not followed."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise StepError(f"uses rng.{name}, whose outcomes cannot be followed; {CHANCE_ADVICE}")

    def integers(self, low: int, high: int | None = None, *more: Any, **named: Any) -> int:
        """Return the outcome of a choice among low, ..., high - 1 with equal probabilities. Refuse other arguments."""
        if high is None or more or named:
            raise StepError("calls rng.integers other than as rng.integers(low, high); use moves.pick(rng, n)")
        assert high > low, f"[{low}, {high}) has no integer"
        return int(low) + self.choose([1.0 / (high - low)] * int(high - low))

    def random(self, *size: Any) -> Uniform:
        """Return a number that represents a uniform variable. Each comparison with it is a random choice."""
        if size:
            raise StepError(f"calls rng.random with a size; {CHANCE_ADVICE}")
        return Uniform(self, [0.0, 1.0], 1.0, 0.0)

    def next_prescription(self) -> list[int] | None:
        """Return the outcomes to prescribe in the next run of the step, in depth-first order; None after the last."""
        choices = list(self.choices)
        while choices and choices[-1][0] + 1 == choices[-1][1]:
            choices.pop()
        return [outcome for outcome, _ in choices[:-1]] + [choices[-1][0] + 1] if choices else None


class Uniform:
    """Number ``scale * U + shift``, with U uniform in ``interval`` given all comparisons so far."""

    # all numbers computed from the same U share the interval
    def __init__(self, outcomes: PrescribedGenerator, interval: list[float], scale: float, shift: float) -> None:
        self.outcomes, self.interval, self.scale, self.shift = outcomes, interval, scale, shift

    def __lt__(self, other: Any) -> bool:
        """Return True if the number is below ``other``, by a choice of the generator if both outcomes are possible."""
        low, high = self.interval
        # scale U + shift < other if and only if U < threshold. Given that U is uniform in (low, high), this has the
        # probability (threshold - low) / (high - low), and afterwards U is uniform on one side of the threshold
        threshold = (float(other) - self.shift) / self.scale
        if threshold <= low or threshold >= high:
            return threshold >= high
        below = (threshold - low) / (high - low)
        if self.outcomes.choose([below, 1.0 - below]) == 0:
            self.interval[1] = threshold
            return True
        self.interval[0] = threshold
        return False

    def __float__(self) -> float:
        """Raise a StepError, since the outcomes of computing with the number cannot be followed."""
        raise StepError(f"computes with rng.random(), which may only be compared; {CHANCE_ADVICE}")

    __int__ = __float__

    def __mul__(self, factor: Any) -> Uniform:
        """Return this number times ``factor``, of the same U."""
        return Uniform(self.outcomes, self.interval, self.scale * float(factor), self.shift * float(factor))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Uniform:
        return Uniform(self.outcomes, self.interval, self.scale, self.shift + float(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Uniform:
        return Uniform(self.outcomes, self.interval, self.scale, self.shift - float(other))


def all_outcomes(run: Callable[[PrescribedGenerator], Any]) -> Iterator[tuple[float, Any]]:
    """Yield (probability, result of ``run(generator)``) for each possible sequence of outcomes of the generator."""
    prescribed: list[int] | None = []
    while prescribed is not None:
        outcomes = PrescribedGenerator(prescribed)
        result = run(outcomes)
        yield outcomes.probability, result
        prescribed = outcomes.next_prescription()


class TooManyTrees(ValueError):
    """Error for a model with more trees than are to be enumerated."""


@contextmanager
def set_attributes(module: Any, **values: Any) -> Iterator[None]:
    """Set attributes of a module to ``values`` while the ``with`` block runs, and restore them."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def new_chain(model: Any, beta: float = 1.0, n_nodes: int = 64, move: Move | str | None = None) -> Any:
    """Return a chain in plain Python at the stump, the tree of one leaf, with arrays for ``n_nodes`` nodes."""
    plain = plain_package()
    kernels, stored = plain.module("mcmc.kernel"), plain.module("mcmc.state.records")
    names = [*kernels.LIBRARY_MOVES] if move is None else ["grow-prune"] + [move] * isinstance(move, str)
    kernel = kernels.read_kernel(dict.fromkeys(names, 1.0))
    if isinstance(move, Move):
        kernel = kernel._replace(names=(*kernel.names, move.name), weights=(0.5, 0.5), own=(move.record,))
    with set_attributes(stored, MAX_STORED_BYTES=CELL_BYTES), np.errstate(over="ignore"):
        chain = plain.module("mcmc.chain.chain").Chain(model.lowered, kernel, np.random.default_rng(0))
    while len(chain.state.node) < n_nodes:
        chain.enlarge()
    chain.state, chain.model = with_records(chain.state), with_records(chain.model)
    chain.packed_state = chain.state
    chain.state.beta[0] = beta
    if kernel.is_guided:
        parameters = chain.state.density[:-1]
        parameters += np.random.default_rng(1).normal(0.0, 0.3, parameters.shape)
    return chain


def tree_key(state: Any) -> tuple:
    """Return the current tree of a chain with ``state`` as a tuple, node by node in preorder."""
    # a leaf is -1, an inner node (feature, cut or -1, bits of the categories going left or -1)
    key, todo = [], [0]
    while todo:
        record = state.node[todo.pop()]
        if record.left < 0:
            key.append(-1)
        else:
            key.append((record.feature, record.cut if record.categories < 0 else -1, record.categories))
            todo += [record.right, record.left]
    return tuple(key)


def saved_trees(model: Any, chain: Any) -> list:
    """Return the trees of the chain's draws, of the class `Tree` in the copy of the library that made the model."""
    plain = plain_package()
    saved = plain.module("mcmc.chain.draw_store").trim_draws(chain.saved)
    kind: Any = Draws if isinstance(model, TreeModel) else plain.module("posterior.draws").Draws
    draws = kind.join(model, [saved])
    return [draws.distinct_tree(number) for number in draws.tree_of_draw[0].tolist()]


class StateSnapshot:
    """Copies of the arrays that make up the state of a chain."""

    # scratch is left out, and so are stored values of cells, which are valid for every tree
    ARRAYS = ("order", "node", "stats", "box", "count", "beta", "moves")

    def __init__(self, state: Any) -> None:
        current = {name: getattr(state, name) for name in self.ARRAYS}
        self.records = {name: value.copies() for name, value in current.items() if isinstance(value, Records)}
        self.arrays = {name: value.copy() for name, value in current.items() if not isinstance(value, Records)}

    def restore(self, state: Any) -> None:
        """Copy the arrays back to the state of a chain."""
        for name, copies in self.records.items():
            getattr(state, name).put_back(copies)
        for name, array in self.arrays.items():
            getattr(state, name)[...] = array


class Stepper:
    """Steps of one move, a `Move` of a user or the name of one of the library, on plain chains."""

    def __init__(self, move: Move | str) -> None:
        plain = plain_package()
        self.decide = plain.module("mcmc.moves.base").decide_proposal
        self.proposal_class = plain.module("mcmc.edits.proposal").Proposal
        is_own = isinstance(move, Move)
        self.name = move.name if isinstance(move, Move) else move
        self.propose = plain_function(move.step) if is_own else self.library_step(plain, self.name)

    @staticmethod
    def library_step(plain: Any, name: str) -> Callable[..., Any]:
        return plain.module("mcmc.kernel").LIBRARY_MOVES[name].step

    def first_count_column(self, chain: Any) -> int:
        """Return the first of the one or two columns of the move in the chain's counts of proposals and acceptances."""
        return chain.kernel.first_counts[chain.kernel.names.index(self.name)]

    def checked_proposal(self, rng: Any, chain: Any) -> Any:
        """Return the proposal of the step. Raise a StepError if it is not a proposal of this move."""
        proposal = self.propose(rng, chain.model, chain.packed_state)
        if not isinstance(proposal, self.proposal_class):
            returned = "nothing" if proposal is None else f"a {type(proposal).__name__}"
            raise StepError(f"returned {returned}; return a Proposal, moves.nothing() if the step proposes nothing")
        n_counts = len(chain.kernel.move_objects[chain.kernel.names.index(self.name)].counts)
        if not 0 <= proposal.which < n_counts:
            counts = "one number, which=0" if n_counts == 1 else "two numbers, which=0 and which=1"
            raise StepError(
                f"returned a proposal with which={proposal.which}, and the move counts {counts}; "
                "give pt.Move(..., counts=(first, second)) if it counts two"
            )
        return proposal

    def make(self, rng: Any, chain: Any) -> None:
        """Make one step of a chain: propose, then accept or reject."""
        proposal = self.checked_proposal(rng, chain)
        self.decide(rng, chain.model, chain.packed_state, self.first_count_column(chain), proposal)

    def transition_row(self, chain: Any, snapshot: StateSnapshot, visit: Callable[..., Any]) -> dict:
        """Return the distribution of the next tree from the state ``snapshot``, {key."""
        # probability}, keys of `tree_key`
        count_column = self.first_count_column(chain)

        def run(rng: Any) -> tuple:
            """Make one step from the snapshot with the outcomes of ``rng``, and return the key of the next tree."""
            snapshot.restore(chain.state)
            self.proposal = self.checked_proposal(rng, chain)
            self.decide(rng, chain.model, chain.packed_state, count_column, self.proposal)
            key = tree_key(chain.state)
            visit(key)
            return key

        row: dict = {}
        with np.errstate(over="ignore"):
            for probability, key in all_outcomes(run):
                row[key] = row.get(key, 0.0) + probability
        return row


class ReachedTrees:
    """All trees that a move reaches from the stump, numbered, with snapshots and rows of its transition matrix."""

    # `after_pruning` has, by number, the state of the chain when it came to the tree from a larger one
    def __init__(self, model: Any, stepper: Stepper, chain: Any, max_trees: int = MAX_TREES) -> None:
        self.chain, self.keys, self.number, self.snapshots = chain, [], {}, []
        self.after_pruning: dict[int, StateSnapshot] = {}
        self.rows: list[dict] = []
        self.max_trees = max_trees
        chain.reserve(max_trees)
        self._add_tree(tree_key(chain.state))
        while len(self.rows) < len(self.snapshots):
            self.rows.append(stepper.transition_row(chain, self.snapshots[len(self.rows)], self._add_tree))
        self.trees = saved_trees(model, chain)

    def _add_tree(self, key: tuple) -> None:
        """Number and save the current tree, with this ``key``, if it is new."""
        if key not in self.number:
            if len(self.keys) == self.max_trees:
                raise TooManyTrees(f"there are more than {self.max_trees} trees")
            self.number[key] = len(self.number)
            self.keys.append(key)
            self.snapshots.append(StateSnapshot(self.chain.state))
            self.chain.state.count[TREE_CHANGED] = 1
            self.chain.save()
        elif len(key) < len(self.keys[len(self.rows)]):
            self.after_pruning[self.number[key]] = StateSnapshot(self.chain.state)


def row_as_array(row: dict, number: dict) -> np.ndarray:
    """Return the distribution ``row``, {key: probability}, as an array (n_trees,), given the ``number`` of each key."""
    out = np.zeros(len(number))
    for key, probability in row.items():
        out[number[key]] = probability
    return out


def posterior_of(model: Any, trees: list, beta: float = 1.0) -> np.ndarray:
    """Return the probabilities (m,) of ``trees``, proportional to exp(log_prior + beta log_score), in plain Python."""
    # proportional to exp(log_prior + beta log_score), with all factors of the prior
    log_joint = np.array([model.log_prior(tree) + beta * model.log_score(tree) for tree in trees])
    weight = np.exp(log_joint - log_joint.max())
    return weight / weight.sum()


def imbalance(transition: np.ndarray, distribution: np.ndarray, min_flow: float = 0.0) -> float:
    """Return the largest difference of the two flows between two trees, relative to the larger flow; 0 for balance."""
    # the flow from tree i to j is distribution[i] * transition[i, j]; pairs with flows of at most `min_flow` are left
    # out
    flow = distribution[:, None] * transition
    difference, larger = np.abs(flow - flow.T), np.maximum(flow, flow.T)
    return float((difference[larger > min_flow] / larger[larger > min_flow]).max())
