"""What becomes of a unit of state, under which conditions; and which of these make a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from types import FunctionType, MethodType
from typing import Any

from funken.columnar.dependencies import attribute_of, fingerprint, same
from funken.columnar.expressions import (
    Argument,
    Binary,
    Choose,
    Compare,
    Constant,
    Expression,
    Invoke,
    Make,
    NotVectorizable,
    Rowwise,
    Unary,
    children,
)
from funken.columnar.expressions import Sequence as After
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.recurrence import SET
from funken.columnar.typed.operations import Sharing
from funken.dataclass import dataclass
from funken.expr.types import FLOAT, INT, Atomic, Tuple, Type, atomic_fields
from funken.state.descriptors import StateKind, StateTtlConfig, StateTtlConfigBuilder


@dataclass(frozen=True)
class StateChange:
    """What becomes of a unit where the guards hold."""

    guards: tuple[Expression, ...]
    how: str
    """One of those of ``recurrence.py``."""
    of: Expression
    """What it is set to, what is added, with what it is compared or its bits are united; of ``KEEP``, nothing."""
    whole: bool = False
    """Of a list: whether it is set to a list."""


_Guards = list[tuple[int, bool]]


def _tests(guards: Sequence[Expression], sharing: Sharing) -> _Guards:
    """Return of each guard what it tests, alike for tests that are alike, and whether that is to be true."""
    found = []
    for guard in guards:
        truth = True
        while isinstance(guard, Unary) and guard.op == "not":
            guard, truth = guard.operand, not truth  # noqa: PLW2901 - what is below
        found.append((id(sharing.of(guard)), truth))
    return found


def are_exclusive(change: StateChange, before: Sequence[StateChange]) -> bool:
    """Whether a change is never made where one of those before it is."""
    sharing = Sharing()
    guards = _tests(change.guards, sharing)
    return all(_any_opposite(guards, _tests(each.guards, sharing)) for each in before)


def merged(changes: Sequence[StateChange]) -> tuple[StateChange, ...]:
    """Return changes without conditions that make no difference: paths through a function that part may come to the same.

    >>> from funken.columnar.expressions import Argument, Constant
    >>> from funken.columnar.recurrence import SET
    >>> taken, test = Argument(0, (1,)), Argument(0, (2,))
    >>> changes = [StateChange((test, each), SET, Constant(1)) for each in (taken, Unary("not", taken))]
    >>> [change.guards for change in merged(changes)] == [(test,)]
    True
    """
    sharing = Sharing()
    left = [(each, _tests(each.guards, sharing), id(sharing.of(each.of))) for each in changes]
    found = True
    while found:
        found = False
        for one, other in combinations(range(len(left)), 2):
            place = _differ(left, one, other)
            if place is not None:
                first, guards, of = left[one]
                kept = replace(first, guards=(*first.guards[:place], *first.guards[place + 1 :]))
                left[one] = kept, guards[:place] + guards[place + 1 :], of
                del left[other]
                found = True
                break
    return tuple(change for change, _, _ in left)


def _differ(changes: list[tuple[StateChange, _Guards, int]], one: int, other: int) -> int | None:
    """Return where the guards of two changes that do the same are opposite, and nowhere else; ``None``: they cannot be one."""
    (first, guards, of), (second, others, same) = changes[one], changes[other]
    if (first.how, of) != (second.how, same) or len(guards) != len(others):
        return None
    found = [place for place, (left, right) in enumerate(zip(guards, others, strict=True)) if left != right]
    if len(found) != 1 or guards[found[0]][0] != others[found[0]][0]:
        return None
    # The later one moves to the place of the earlier: past those only that are made on other paths.
    between = changes[one + 1 : other]
    return found[0] if all(_any_opposite(those, others) for _, those, _ in between) else None


def _any_opposite(guards: _Guards, others: _Guards) -> bool:
    there = set(guards)
    return any((test, not truth) in there for test, truth in others)


# ---- States that begin with an int and go on with floats, as ``total = self.total.value() or 0`` does: the 0 is as
# good as 0.0.
#
# That is so if the state is only added to, compared, and the like, with floats: nobody sees then which of both it
# was.


Path = tuple[int, ...]


def widened(known: Type, written: Type) -> Type:
    """Return a schema with floats where ints are known and floats are written; the known one if they differ in another way.

    >>> from funken.expr.types import STR
    >>> widened(Tuple((INT, INT)), Tuple((INT, FLOAT))), widened(INT, STR)
    ((int, float), int)
    """
    if type(known) is Tuple and type(written) is Tuple and len(known) == len(written):
        return Tuple(map(widened, known, written))
    return FLOAT if (known, written) == (INT, FLOAT) else known


def with_floats(fill: Any, kind: Type) -> Any:
    """Return what stands where a state has no value, in the types of its schema.

    >>> with_floats((0, 0), Tuple((INT, FLOAT)))
    (0, 0.0)
    """
    if type(fill) is tuple and type(kind) is Tuple:
        return tuple(map(with_floats, fill, kind))
    return float(fill) if type(fill) is int and kind == FLOAT else fill


def with_declared_floats(made: Expression, kind: Type, wanted: Type) -> tuple[Expression, Type]:
    """Return what is written to a state whose type makes floats of ints, and its schema.

    >>> from funken.expr.types import STR
    >>> with_declared_floats(Make((Constant(1), Constant("a"))), Tuple((INT, STR)), Tuple((FLOAT, STR)))[1]
    (float, str)
    """
    if (kind, wanted) == (INT, FLOAT):
        return Invoke("float", (made,)), FLOAT
    if isinstance(made, Make) and type(kind) is Tuple and type(wanted) is Tuple and len(kind) == len(wanted):
        items = [with_declared_floats(*each) for each in zip(made.items, kind, wanted, strict=True)]
        return Make(tuple(each for each, _ in items)), Tuple(schema for _, schema in items)
    return made, kind


def check_floats(expressions: Iterable[Expression], paths: Sequence[Path], schema: Type) -> None:
    """Raise ``NotVectorizable`` if leaves are used in another way than to compute with floats."""
    kinds = dict(atomic_fields(schema))
    seen: set[int] = set()
    todo = [*expressions]
    for each in todo:
        _check(each, paths)  # as it is: who is given it sees what it is
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        parts = children(each)
        todo += parts
        for part in parts:
            if isinstance(each, Binary) and any(_is_float(other, kinds) for other in parts if other is not part):
                continue
            if not isinstance(each, Compare):
                _check(part, paths)


def _check(expression: Expression, paths: Sequence[Path]) -> None:
    if isinstance(expression, Argument) and any(
        expression.path == path[: len(expression.path)] for path in paths if len(expression.path) > 0
    ):
        raise NotVectorizable("shows a state that begins with an int and goes on with floats")


def _is_float(expression: Expression, kinds: dict[Path, Atomic]) -> bool:
    match expression:
        case Argument(0, path):
            return kinds.get(path) == FLOAT
        case Constant(value):
            return type(value) is float
        case Binary(op, left, right):
            return op == "/" or _is_float(left, kinds) or _is_float(right, kinds)
        case Unary("-", operand):
            return _is_float(operand, kinds)
        case After(_, result):
            return _is_float(result, kinds)
        case Choose(_, then, otherwise):
            return _is_float(then, kinds) and _is_float(otherwise, kinds)
        case Invoke(name, given):
            return name == "float" or (name in ("max", "min", "abs") and all(_is_float(each, kinds) for each in given))
        case Rowwise(_, _, kind):
            return kind == FLOAT
    return False


# ---- What was read of a function with state: what it gives, what it writes, and which timers it sets.


RECORD, KEY, STAMP, WATERMARK = (Argument(0, (number,)) for number in range(4))
"""The fields of the one argument; of ``on_timer``, the record is the time of the timer."""
FIRST_STATE = 4
"""The number of the field with the first state."""


def held(number: int) -> Argument:
    """Return whether a state has a value."""
    return Argument(0, (FIRST_STATE + number, 0))


def value_of(number: int) -> Argument:
    """Return the value of a state."""
    return Argument(0, (FIRST_STATE + number, 1))


@dataclass(frozen=True)
class Write:
    """A change of a state, where the ``guards`` hold, one after the other; ``value`` is ``None``: it has none from then on."""

    state: int
    guards: tuple[Expression, ...]
    value: Expression | None
    """Of a list: what is added to it."""
    whole: bool = False
    """Of a list: whether ``value`` is all that is in it from then on."""

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return self.guards if self.value is None else (*self.guards, self.value)

    def replaced(self, of: Callable[[Expression], Expression]) -> Write:
        """Return the write with what a function makes of each part."""
        return replace(self, guards=tuple(map(of, self.guards)), value=None if self.value is None else of(self.value))


@dataclass(frozen=True)
class Access:
    """A read of a state whose values live longer if they are read, where the ``guards`` hold, one after the other."""

    state: int
    guards: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return self.guards

    def replaced(self, of: Callable[[Expression], Expression]) -> Access:
        """Return the read with what a function makes of each part."""
        return replace(self, guards=tuple(map(of, self.guards)))


@dataclass(frozen=True)
class TimerChange:
    """An event-time timer of the key that is registered, or deleted, where the ``guards`` hold, one after the other."""

    guards: tuple[Expression, ...]
    at: Expression
    deletes: bool

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return *self.guards, self.at

    def replaced(self, of: Callable[[Expression], Expression]) -> TimerChange:
        """Return the change with what a function makes of each part."""
        return replace(self, guards=tuple(map(of, self.guards)), at=of(self.at))


@dataclass(frozen=True)
class TracedState:
    """A function with state: what it gives, and its ``writes`` in order: of two that are made, the later one counts."""

    given: TracedFlatMap
    writes: tuple[Write, ...]
    map_keys: tuple[Expression | None, ...]
    """Of states that are maps, the one key that the function uses of them."""
    stamped: bool
    """Whether it uses the timestamps of records."""
    attributes: tuple[tuple[str, Any], ...]
    """The attributes of its object that it uses as constants."""
    methods: tuple[tuple[str, Any], ...]
    """The methods of its object that it calls, and what they were."""
    used: frozenset[int]
    """The states that it uses."""
    drops_none: bool
    """Whether a result that is ``None`` is none."""
    fills: tuple[Any, ...]
    """Of each state, what is read where it has no value (``None``: it is asked whether it has one)."""
    timers: tuple[TimerChange, ...] = ()
    """What it does with timers, in order."""
    accesses: tuple[Access, ...] = ()

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether everything the function uses is still what it was when it was traced."""
        found = ((attribute_of(target, name), value) for name, value in self.attributes)
        if not all(each is not None and same(each[0], value) for each, value in found):
            return False
        own = ((getattr(type(target), name, None), known) for name, known in self.methods)
        if not all(type(each) is FunctionType and fingerprint(each.__code__) == known for each, known in own):
            return False
        return self.given.holds(target, method)


# ---- States whose values expire: how long they live, and which records of a block renew their lives.
#
# Lives are measured in processing time, of which a block has one. So some of what a block finds has expired, and
# nothing expires within it.


Guards = tuple[Expression, ...]
_MODULES = ("funken.state.descriptors", "funken.compat.pyflink.times")


@dataclass(frozen=True)
class StateLifetime:
    """How long (ms) the values of a state live, and whether reads renew that."""

    millis: int
    read_renews: bool


def lifetime_in(handle: Any) -> StateLifetime | None:
    """Return the lifetime that a handle gives to values; ``None`` if they do not expire."""
    rules = getattr(handle, "life", None)
    return None if rules is None else StateLifetime(rules.ttl, rules.renews)


def known_lifetime(attribute: str, kind: StateKind, config: StateTtlConfig | None) -> StateLifetime | None:
    """Return the lifetime of a state, if arrays can keep its values; raise ``NotVectorizable``.

    >>> known_lifetime("count", StateKind.VALUE, StateTtlConfig.new_builder(1000).build())
    StateLifetime(millis=1000, read_renews=False)
    """
    if config is None or not config.is_enabled():
        return None
    if kind is StateKind.LIST:
        raise NotVectorizable(f"has a list {attribute!r} whose items expire one by one")
    if config.get_state_visibility() is not StateTtlConfig.StateVisibility.NeverReturnExpired:
        raise NotVectorizable(f"has a state {attribute!r} that shows what has expired")
    return StateLifetime(config.ttl_millis, config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite)


def makes_lifetimes(called: Any) -> bool:
    """Whether something has to do with the configuration of lifetimes, and may be called, or asked for attributes."""
    if isinstance(called, MethodType):
        return type(called.__self__) is StateTtlConfigBuilder
    if isinstance(called, type | FunctionType):
        return called is timedelta or called.__module__ in _MODULES
    return type(called) in (StateTtlConfig, StateTtlConfigBuilder)


def renewals_of(
    writes: Sequence[Write], accesses: Sequence[Access], lifetimes: Sequence[StateLifetime | None]
) -> tuple[tuple[int, tuple[Guards, ...]], ...]:
    """Return of each state that expires where its life begins anew: it is set, or read as the first thing of a record.

    That is so for one that has a value after the record; of others it does not matter.
    """
    found = []
    for number, lifetime in enumerate(lifetimes):
        guards = [each.guards for each in writes if each.state == number and each.value is not None]
        guards += [each.guards for each in accesses if each.state == number]
        if lifetime is not None and guards:
            changes = merged([StateChange(each, SET, Constant(True)) for each in guards])
            found.append((number, tuple(each.guards for each in changes)))
    return tuple(found)


__all__ = [
    "FIRST_STATE",
    "KEY",
    "RECORD",
    "STAMP",
    "WATERMARK",
    "Access",
    "StateChange",
    "StateLifetime",
    "TimerChange",
    "TracedState",
    "Write",
    "are_exclusive",
    "check_floats",
    "held",
    "known_lifetime",
    "lifetime_in",
    "makes_lifetimes",
    "merged",
    "renewals_of",
    "value_of",
    "widened",
    "with_floats",
]
