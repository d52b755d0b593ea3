"""In which order the states before each record of a block can be computed: the plan of ``operators/stateful``.

A *unit* is a leaf of a state, or whether there is one. What becomes of it with a record may depend on the record and on other
units; by a *scan* over the records of a key, all values are computed at once if that is one of a few forms: it is set, added to,
united with bits, or replaced by what is greater or less, under conditions that do not depend on it. So units are put in order:
first those that depend on none, then those that depend on these. What is left depends on itself in another way or in a circle,
and goes round by round: the first record of each key, then the second ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from operator import eq

from funken.columnar.expressions import (
    Argument,
    Binary,
    Choose,
    Constant,
    Expression,
    Listed,
    NotVectorizable,
    Rowwise,
    Unary,
)
from funken.columnar.recurrence import ADD, ADD_ROUNDED, KEEP, LEAST, MOST, SET, recurrence_of
from funken.columnar.stateful.changes import FIRST_STATE, StateChange, Write, are_exclusive, held, merged, value_of
from funken.columnar.stateful.typed import BestChanges, TypedState, best_changes, leaf_of, parts_of, states_in, whole_of
from funken.dataclass import dataclass
from funken.expr.python.numbers import AS_FLOAT_32
from funken.expr.types import BOOL, FLOAT, INT, Atomic, ListOf, Type, atomic_fields

Path = tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """A leaf of a state, or whether there is one, with its changes, of which a later one counts."""

    state: int
    path: Path
    kind: Type
    """That of a leaf; or of a record that is only replaced, as a whole."""
    changes: tuple[StateChange, ...]
    used: bool = True
    """Whether something depends on what it is before a record."""
    bits: int = 64
    """How many bits an int has; one with more goes to the function."""
    or_zero: bool = False
    """Whether it may be read as ``state or 0``, which makes 0 of -0.0: with such a float, a block goes to the function."""

    @property
    def leaf(self) -> Atomic:
        """The kind, of what is a leaf."""
        assert isinstance(self.kind, Atomic)
        return self.kind


@dataclass(frozen=True)
class Scan:
    """A unit whose changes depend on what was computed before."""

    unit: Unit


@dataclass(frozen=True)
class Presence:
    """Whether there is a state: what becomes of it where there is one, and where there is none."""

    unit: Unit
    where_held: tuple[StateChange, ...]
    where_not: tuple[StateChange, ...]


@dataclass(frozen=True)
class Rounds:
    """Units that are computed round by round; all their changes are ``SET``."""

    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Appends:
    """A list: where it is added to (``ADD``), and where it is emptied (``SET``)."""

    unit: Unit


@dataclass(frozen=True)
class Best:
    """The leaves of a record that better ones replace; ``best.changes`` are those of each of them."""

    units: tuple[Unit, ...]
    best: BestChanges


Step = Scan | Presence | Rounds | Appends | Best


def all_steps(
    functions: Sequence[TypedState],
    kinds: Sequence[Type],
    fills: Sequence[object],
    bits: Sequence[Mapping[Path, int]],
) -> tuple[tuple[bool, ...], list[tuple[Step, ...]]]:
    """Return which states are whole: records that are only replaced; and the steps of each function.

    Of each state: its schema, what stands where it has no value, and of ints with fewer than 64 ``bits`` how many they have.
    """
    whole = [
        not isinstance(kind, Atomic) and not any(leaf == INT and path in few for path, leaf in atomic_fields(kind))
        for kind, few in zip(kinds, bits, strict=True)
    ]
    while True:
        found = [steps_of(each, kinds, fills, bits, whole) for each in functions]
        rounds = [unit for steps in found for step in steps if isinstance(step, Rounds) for unit in step.units]
        others = {unit.state for unit in rounds if not isinstance(unit.kind, Atomic)}
        if not others:
            return tuple(whole), found
        whole = [is_whole and number not in others for number, is_whole in enumerate(whole)]


def steps_of(
    typed: TypedState, kinds: Sequence[Type], fills: Sequence[object], bits: Sequence[Mapping[Path, int]],
    whole: Sequence[bool],
) -> tuple[Step, ...]:  # fmt: skip
    """Return the steps that compute the states before each record, and after the last one of each key."""
    used = frozenset(path for each in parts_of(typed) for path in states_in(each))
    left = [
        unit
        for number, known in enumerate(zip(kinds, fills, whole, strict=True))
        for unit in _units(number, typed.writes, *known)
    ]
    left = [replace(unit, used=any(_overlap(unit.path, path) for path in used)) for unit in left]
    left = [
        replace(
            unit,
            bits=bits[unit.state].get(unit.path[2:], 64) if unit.kind == INT else 64,
            or_zero=unit.kind == FLOAT and type(fills[unit.state]) is float and not fills[unit.state],
        )
        for unit in left
        if unit.used or unit.changes
    ]
    unknown = {unit.path for unit in left}
    found: list[Step] = []

    def of_best(state: int) -> Best | None:
        units = [unit for unit in left if unit.state == state]
        return _best(units, best_changes(state, typed.writes, kinds[state], fills[state]), unknown) if units else None

    while left:
        for unit in left:
            step = _step(unit, unknown)
            if step is not None:
                found.append(step)
                left.remove(unit)
                unknown.remove(unit.path)
                break
        else:
            best = next((step for number in range(len(kinds)) if (step := of_best(number)) is not None), None)
            if best is None:
                return *found, Rounds(tuple(map(_by_rounds, left)))
            found.append(best)
            left = [unit for unit in left if unit.state != best.units[0].state]
            unknown = {unit.path for unit in left}
    return tuple(found)


def _by_rounds(unit: Unit) -> Unit:
    """Return a unit, all changes of which set it; of a list, to a list."""
    if not isinstance(unit.kind, ListOf):
        return unit
    own, element = Argument(0, unit.path), unit.kind.element
    changes = []
    for each in unit.changes:
        of = each.of
        if each.how == ADD:
            of = Rowwise("joined", (own, Listed((each.of,), element)), unit.kind)
        elif not each.whole:
            of = Listed((), element)
        changes.append(StateChange(each.guards, SET, of, whole=True))
    for one, other in combinations(unit.changes, 2):
        if other.how == ADD and not are_exclusive(other, [one]):
            raise NotVectorizable("changes a list, and then adds to it")
    return replace(unit, changes=tuple(changes))


def _step(unit: Unit, unknown: set[Path]) -> Step | None:
    if isinstance(unit.kind, ListOf) and any(each.whole for each in unit.changes):
        return None
    if isinstance(unit.kind, ListOf):
        for one, other in combinations(unit.changes, 2):
            if (one.how, other.how) not in ((SET, ADD), (SET, SET)) and not are_exclusive(other, [one]):
                return None
        parts = (part for each in unit.changes for part in (*each.guards, each.of))
        return None if any(_open(part, unknown) for part in parts) else Appends(unit)
    return _presence(unit, unknown) if unit.path == held(unit.state).path else _scan(unit, unknown)


def _units(state: int, writes: Sequence[Write], kind: Type, default: object, whole: bool) -> list[Unit]:
    of_state = [each for each in writes if each.state == state]
    if isinstance(kind, ListOf):
        changes = [
            StateChange(each.guards, SET, Constant(None))
            if each.value is None
            else StateChange(each.guards, SET if each.whole else ADD, each.value, each.whole)
            for each in of_state
        ]
        return [Unit(state, (FIRST_STATE + state, 1), kind, merged(changes))]
    present = [StateChange(each.guards, SET, Constant(each.value is not None)) for each in of_state]
    units = [Unit(state, held(state).path, BOOL, merged(present))]
    if whole:
        kept = [(each.guards, default if each.value is None else each.value) for each in of_state]
        changes = [StateChange(guards, SET, whole_of(value, kind)) for guards, value in kept if value is not None]
        return [*units, Unit(state, value_of(state).path, kind, merged(changes))]
    for path, leaf in atomic_fields(kind):
        changes = []
        for each in of_state:
            if each.value is not None:
                changes.append(StateChange(each.guards, SET, leaf_of(each.value, path)))
            elif default is not None:
                changes.append(StateChange(each.guards, SET, Constant(_at(default, path))))
        units.append(Unit(state, (FIRST_STATE + state, 1, *path), leaf, merged(changes)))
    return units


def _at(default: object, path: Path) -> object:
    for index in path:
        default = default[index]  # type: ignore[index]
    return default


# ---- what a change depends on


def _best(units: Sequence[Unit], best: BestChanges | None, unknown: set[Path]) -> Best | None:
    """Return the step of a state whose whole record is replaced; ``None``: it depends on what is not known yet."""
    if best is None or any(unit.path == held(unit.state).path for unit in units):
        return None
    own = {unit.path for unit in units}
    others = unknown - own
    if not all(any(_overlap(path, each) for each in own) for part in best.own for path in states_in(part)):
        return None
    parts = [part for each in best.changes for part in (*each.guards, each.of)]
    if any(_open(part, others) for part in (*parts, *(each for new in best.new for each in new))):
        return None
    of_value = len(value_of(units[0].state).path)
    made = []
    for unit in units:
        path = unit.path[of_value:]
        changes = [
            replace(each, of=leaf_of(each.of, path) if isinstance(unit.kind, Atomic) else whole_of(each.of, unit.kind))
            for each in best.changes
        ]
        made.append(replace(unit, changes=tuple(changes)))
    return Best(tuple(made), best)


def _open(expression: Expression, unknown: set[Path]) -> bool:
    """Whether an expression depends on units that are not computed yet."""
    return any(_overlap(path, each) for path in states_in(expression) for each in unknown)


def _overlap(one: Path, other: Path) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _presence(unit: Unit, unknown: set[Path]) -> Step | None:
    own = Argument(0, unit.path)
    parts: list[tuple[StateChange, ...]] = []
    for there in (True, False):
        changes: list[StateChange] = []
        for each in unit.changes:
            if (Unary("not", own) if there else own) in each.guards:
                continue  # not under this assumption
            guards = tuple(guard for guard in each.guards if guard not in (own, Unary("not", own)))
            change = replace(each, guards=guards)
            if each.of == Constant(there) and are_exclusive(change, changes):
                continue  # it stays as it is
            changes.append(change)
        parts.append(tuple(changes))
    where_held, where_not = parts
    if any(_open(guard, unknown) for each in (*where_held, *where_not) for guard in each.guards):
        return None
    return Presence(unit, where_held, where_not)


def _scan(unit: Unit, unknown: set[Path]) -> Step | None:
    changes: list[StateChange] = []
    for each in unit.changes:
        change = _change(each, Argument(0, unit.path), unit.kind)
        if len(change.guards) < len(each.guards) and not are_exclusive(change, changes):
            return None
        if any(_open(guard, unknown) for guard in change.guards) or _open(change.of, unknown):
            return None
        changes.append(change)
    if len({each.how for each in changes} - {SET, KEEP}) > 1:
        return None
    return Scan(replace(unit, changes=tuple(changes)))


def _change(each: StateChange, own: Argument, kind: Type) -> StateChange:
    """Return a change in one of the forms that are scanned, if it has one."""
    match each.of:
        case Rowwise(function, (Binary("+" | "-") as sum_of,)) if function == AS_FLOAT_32:
            change = _change(replace(each, of=sum_of), own, kind)
            return replace(change, how=ADD_ROUNDED) if change.how == ADD else each
    is_own = partial(eq, own)
    found = recurrence_of(each.of, is_own)
    if found.how == KEEP or kind == INT or (kind == FLOAT and found.how == ADD):
        if found.how != SET:
            return replace(each, how=found.how, of=found.of)
        for guard in each.guards:
            found = recurrence_of(Choose(guard, each.of, own), is_own)
            if found.how in (MOST, LEAST):
                guards = tuple(other for other in each.guards if other is not guard)
                return StateChange(guards, found.how, each.of)
    return each


__all__ = ["Appends", "Best", "Presence", "Rounds", "Scan", "Step", "Unit", "all_steps"]
