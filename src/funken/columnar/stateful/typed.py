"""Functions with state, for records of known schemas: of which kind their states are, and all they compute as kernels compute it.

What a state holds is found out from what is written to it. Several functions may share states, as those of two inputs do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations
from operator import eq
from typing import Any

from funken.columnar.calling import same
from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Make,
    NotVectorizable,
    Rowwise,
    bare,
    reads,
    schema_of_value,
)
from funken.columnar.expressions import Sequence as After
from funken.columnar.recurrence import (
    ADD,
    ADD_ROUNDED,
    KEEP,
    LEAST,
    MOST,
    SET,
    Comparison,
    comparison_of,
    recurrence_of,
)
from funken.columnar.stateful.changes import (
    FIRST_STATE,
    DeclaredState,
    Effect,
    StateChange,
    TracedState,
    are_exclusive,
    check_floats,
    held,
    merged,
    value_of,
    widened,
    with_declared_floats,
)
from funken.columnar.typed.inference import TracedFlatMap, looked_at, paths_of, typed, typed_under
from funken.columnar.typed.operations import Sharing, may_raise, rewriter
from funken.dataclass import dataclass
from funken.expr.python.table import AS_FLOAT_32, EMPTY
from funken.expr.types import (
    ARRAYS,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STR,
    Atomic,
    Composite,
    ListOf,
    Tuple,
    Type,
    atomic_fields,
    is_key,
    types_in,
)
from funken.state.descriptors import StateKind

_EMPTY = {INT: 0, BOOL: False, STR: ""}
_ROUNDS = 8


@dataclass(frozen=True)
class TypedState:
    """A function with keyed state, as kernels compute it over records of ``schema``."""

    schema: Composite
    given: TracedFlatMap
    writes: tuple[Effect, ...]
    timers: tuple[Effect, ...]
    map_keys: tuple[Expression | None, ...]
    map_kinds: tuple[Type | None, ...]
    results: Type | None
    """``None``: it never gives any."""
    read: frozenset[tuple[int, ...]]
    """The paths of the fields of records that it looks at."""
    accesses: tuple[Effect, ...] = ()


@reads
def typed_states(
    functions: Sequence[tuple[TracedState, Type, Type]], states: Sequence[DeclaredState]
) -> tuple[list[TypedState], list[Type]]:
    """Return functions for records and keys of their schemas, and the schemas of the states; raise ``NotVectorizable``."""
    known = _kinds(functions, states)
    kinds = _widened(functions, states, known)
    for state, kind in zip(states, kinds, strict=True):
        if state.declared is not None and kind != _declared(state):
            raise NotVectorizable(f"has a state {state.attribute!r} with a declared type, which converts values")
    made = [_typed(*function, states, kinds) for function in functions]
    for each in made:
        wider = _wider(known, kinds)
        if wider:
            check_floats(parts_of(each), wider, each.schema)
    for state, *of_state in zip(states, *(each.map_kinds for each in made), strict=True):
        if len({repr(kind) for kind in of_state} - {repr(None)}) > 1:
            raise NotVectorizable(f"uses self.{state.attribute} with keys of two kinds")
    return made, kinds


def _widened(
    functions: Sequence[tuple[TracedState, Type, Type]], states: Sequence[DeclaredState],
    kinds: list[Type],
) -> list[Type]:  # fmt: skip
    """Return the schemas of states that begin with ints and go on with floats as floats."""
    kinds = [
        kind if state.declared is None else widened(kind, state.declared)
        for kind, state in zip(kinds, states, strict=True)
    ]
    before = None
    filled = {
        number
        for number, (state, fill) in enumerate(zip(states, fills_of(functions, states), strict=True))
        if fill is not None and state.declared in (None, FLOAT)
    }
    while kinds != before:
        before = list(kinds)
        for traced, record, key in functions:
            for write in traced.writes:
                if write.state in filled and write.value is not None:
                    with suppress(NotVectorizable):
                        found = _kind(write, _schema_with(record, key, kinds), [*kinds])
                        kinds[write.state] = kinds[write.state] if found is None else widened(kinds[write.state], found)
    return kinds


def _wider(known: list[Type], kinds: list[Type]) -> list[tuple[int, ...]]:
    """Return the paths of the state fields that are floats now."""
    found = []
    for number, (before, after) in enumerate(zip(known, kinds, strict=True)):
        leaves = zip(atomic_fields(before), atomic_fields(after), strict=True)
        found += [(FIRST_STATE + number, 1, *path) for (path, one), (_, other) in leaves if one != other]
    return found


def parts_of(typed: TypedState) -> Iterator[Expression]:
    """Yield all that a function computes."""
    parts: tuple[Any, ...] = (*typed.given.emissions, *typed.writes, *typed.timers, *typed.accesses)
    for each in parts:
        yield from each.parts()


def _schema_with(record: Type, key: Type, kinds: Sequence[Type | None]) -> Composite:
    """Return the schema of a record with its key, its timestamp, the watermark, and states."""
    of_states = [Tuple((BOOL, NONE if kind is None else kind)) for kind in kinds]
    return Tuple((record, key, INT, INT, *of_states))


def _kinds(functions: Sequence[tuple[TracedState, Type, Type]], states: Sequence[DeclaredState]) -> list[Type]:
    kinds = [
        (None if fill is None else schema_of_value(fill)) or _declared(each)
        for each, fill in zip(states, fills_of(functions, states), strict=True)
    ]
    for _ in range(_ROUNDS):
        for traced, record, key in functions:
            for write in traced.writes:
                if kinds[write.state] is None and write.value is not None:
                    found = _kind(write, _schema_with(record, key, kinds), kinds)
                    is_item = states[write.state].kind is StateKind.LIST and not write.whole
                    kinds[write.state] = ListOf(found) if is_item and found is not None else found
    known = []
    for kind, state in zip(kinds, states, strict=True):
        if kind is None:
            raise NotVectorizable(f"writes nothing of a known type to self.{state.attribute}")
        others = types_in(kind.element if isinstance(kind, ListOf) else kind) - set(ARRAYS)
        if others:
            raise NotVectorizable(
                f"keeps in self.{state.attribute} a value that no array holds: {', '.join(sorted(map(str, others)))}"
            )
        known.append(kind)
    return known


@reads
def fills_of(functions: Sequence[tuple[TracedState, Type, Type]], states: Sequence[DeclaredState]) -> list[Any]:
    """Return the value that reads use where a state has none; raise ``NotVectorizable`` if functions differ."""
    found: list[Any] = []
    for number, state in enumerate(states):
        each = [traced.fills[number] for traced, _, _ in functions if traced.fills[number] is not None]
        if any(not same(each[0], other) for other in each):
            raise NotVectorizable(f"reads self.{state.attribute} with several defaults")
        found.append(each[0] if each else None)
    return found


def _declared(state: DeclaredState) -> Type | None:
    return ListOf(state.declared) if state.kind is StateKind.LIST and state.declared is not None else state.declared


def _kind(write: Effect, schema: Type, kinds: list[Type | None]) -> Type | None:
    """Return the schema of the written value; ``None`` if it depends on states whose schemas are not known yet."""
    assert write.value is not None
    value = write.value
    if write.whole:  # what it has now, may be nothing
        value = with_arguments({value_of(write.state): Listed(())})(value)
    unknown = {FIRST_STATE + number for number, kind in enumerate(kinds) if kind is None}

    def depends(expression: Expression) -> bool:
        return any(path and path[0] in unknown and path[1:2] == (1,) for path in paths_of([expression], 0))

    if depends(value):
        return None
    guards = [each for each in write.guards if not depends(each)]
    try:
        found = typed_under(guards, value, schema)
    except NotVectorizable:
        if write.whole:
            return None
        raise
    return None if found is None or found[1][1] == EMPTY else found[1][1]


def _typed(
    traced: TracedState, record: Type, key: Type, states: Sequence[DeclaredState],
    kinds: list[Type],
) -> TypedState:  # fmt: skip
    schema = _schema_with(record, key, kinds)
    simpler = _simplified(kinds)
    emissions = tuple(each.replaced(simpler) for each in traced.given.emissions)
    given, results = replace(traced.given, emissions=emissions).typed_or_nothing(schema, with_none=True)
    if traced.drops_none and isinstance(results, Atomic) and (results == NONE or results.is_optional):
        raise NotVectorizable("gives sometimes None, which is no result")
    writes, read = [], set(given.read)

    def under(part: Effect) -> tuple[tuple[Expression, ...], Expression, Type] | None:
        """Return the guards of a part, and its value, as kernels compute them; ``None``: it is never come to."""
        read.update(looked_at(part.parts(), None, schema))
        value = part.parts()[len(part.guards) :] or (Constant(0),)
        found = typed_under(part.guards, value[0], schema)
        return None if found is None else (tuple(found[0]), *found[1])

    for write in traced.writes:
        known = under(write.replaced(simpler))
        if known is None:
            continue
        guards, made, kind = known
        wanted = kinds[write.state]
        wanted = wanted.element if isinstance(wanted, ListOf) and not write.whole else wanted
        if write.whole and kind == EMPTY and isinstance(wanted, ListOf):
            made, kind = Listed((), wanted.element), wanted
        if write.value is not None and states[write.state].declared is not None:
            made, kind = with_declared_floats(made, kind, wanted)
        if write.value is not None and kind != wanted:
            facts = f"{wanted} and sometimes {kind}"
            raise NotVectorizable(f"keeps in self.{states[write.state].attribute} sometimes {facts}")
        writes.append(replace(write, guards=guards, value=None if write.value is None else made))
    others: list[list[Effect]] = [[], []]
    for made_of, effects in zip(others, (traced.timers, traced.accesses), strict=True):
        for effect in effects:
            known = under(effect.replaced(simpler))
            if known is not None and effect.value is not None and known[2] != INT:
                raise NotVectorizable(f"sets a timer at {known[2]}")
            if known is not None:
                made_of.append(replace(effect, guards=known[0], value=None if effect.value is None else known[1]))
    timers, accesses = tuple(others[0]), tuple(others[1])
    map_keys: list[tuple[Expression | None, Type | None]] = []
    for state, each in zip(states, traced.map_keys, strict=True):
        map_keys.append((None, None) if each is None else _map_key(each, schema, state))
        read |= frozenset() if each is None else looked_at([each], None, schema)
    of_record = frozenset(path[1:] for path in read if path[:1] == (0,))
    keys, key_kinds = tuple(key for key, _ in map_keys), tuple(kind for _, kind in map_keys)
    return TypedState(schema, given, tuple(writes), timers, keys, key_kinds, results, of_record, accesses)


def shared_parts(typed: TypedState) -> TypedState:
    """Return a function in which expressions that are alike are one object: kernels compute it once for a block."""
    shared = Sharing().of

    def all_of(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(each.replaced(shared) for each in parts)

    given = replace(typed.given, emissions=all_of(typed.given.emissions))
    writes, timers, accesses = map(all_of, (typed.writes, typed.timers, typed.accesses))
    return replace(typed, given=given, writes=writes, timers=timers, accesses=accesses)


def _map_key(
    expression: Expression, schema: Type, state: DeclaredState
) -> tuple[Expression, Type]:  # fmt: skip
    made, kind = typed(expression, schema)
    if not is_key(kind) or may_raise(made) or any(True for _ in states_in(made)):
        raise NotVectorizable(f"uses self.{state.attribute} with keys that no column holds")
    return made, kind


def with_arguments(others: Mapping[Expression, Expression]) -> Callable[[Expression], Expression]:
    """Return a function that replaces arguments in expressions."""
    return rewriter(lambda each: others.get(each, each) if isinstance(each, Argument) else None)


def _simplified(kinds: Sequence[Type]) -> Callable[[Expression], Expression]:
    """Return a function that makes ``state or 0`` the state: of ints, bools and texts, the only false one is equal to it."""
    empty = {
        value_of(number): _EMPTY[kind]
        for number, kind in enumerate(kinds)
        if isinstance(kind, Atomic) and kind in _EMPTY
    }

    def simpler(expression: Expression) -> Expression | None:
        match expression:
            case Choose(condition, Argument() as then, Constant(value)) if condition == then and then in empty:
                return then if type(value) is type(empty[then]) and value == empty[then] else None
        return expression if isinstance(expression, Argument) else None

    return rewriter(simpler)


def states_in(expression: Expression) -> Iterator[tuple[int, ...]]:
    """Yield the paths of the states, or of their fields, that an expression depends on."""
    for path in paths_of([expression], 0):
        if not path or path[0] >= FIRST_STATE:
            yield path


# ---- A record that is kept until a better one comes: ``if best is None or rank(value) < rank(best):
# best.update(value)``.
#
# What decides may be several values of the record, compared one after the other. The leaves of such a state depend
# on themselves and on each other, but which record is kept follows from the order of all of them: that is one scan.


Path = tuple[int, ...]


@dataclass(frozen=True)
class BestChanges:
    """The changes of a record that better ones replace, and the deciding comparison.

    A change is a ``SET`` in any case, or, as ``how`` says, if it is better; what it is set to is ``of``, a whole record.
    """

    changes: tuple[StateChange, ...]
    own: tuple[Expression, ...]
    """The deciding values, of the record that is kept."""
    new: tuple[tuple[Expression, ...], ...]
    """The same, of the record of each change."""
    how: str
    """``MOST``: a greater one is better; ``LEAST``: a lesser one is."""
    strict: bool
    """Whether, of those that are equal, the first stays."""


def best_changes(state: int, writes: Sequence[Effect], kind: Type, default: Any) -> BestChanges | None:
    """Return the changes of a state in that form; ``None``: it has another."""
    of_state = [each for each in writes if each.state == state]
    found: list[tuple[StateChange, Comparison | None]] = []
    for write in of_state:
        if write.value is None and default is None:
            continue  # what is there is asked for no more
        made = _change(state, write if write.value is not None else replace(write, value=_constant(default)))
        if made is None or (made[1] is not None and not are_exclusive(made[0], [each for each, _ in found])):
            return None
        found.append(made)
    comparisons = [each for _, each in found if each is not None]
    if not comparisons or any(_key(each) != _key(comparisons[0]) for each in comparisons):
        return None
    first = comparisons[0]
    try:
        new = tuple(tuple(_of_new(each, state, change.of, kind) for each in first.own) for change, _ in found)
    except NotVectorizable:
        return None
    for of_change, (_, compared) in zip(new, found, strict=True):
        if compared is not None and repr(of_change) != repr(compared.new):
            return None
    changes = tuple(replace(each, how=first.how if compared else SET) for each, compared in found)
    return BestChanges(changes, first.own, new, first.how, first.strict)


def _key(each: Comparison) -> Any:
    return repr(each.own), each.how, each.strict


def _constant(value: Any) -> Expression:
    return Make(tuple(map(_constant, value))) if type(value) is tuple else Constant(value)


def _change(state: int, write: Effect) -> tuple[StateChange, Comparison | None] | None:
    """Return the change of the record, without the comparing guard, and the comparison of that guard."""
    value, own = write.value, value_of(state)
    assert value is not None
    guards = list(write.guards)
    match value:
        case Choose(condition, then, otherwise) if own in (then, otherwise):
            guards.append(condition if otherwise == own else Invoke("not", (condition,)))
            value = then if otherwise == own else otherwise
    if value == own:
        return None
    on_own = [number for number, each in enumerate(guards) if _is_of(each, state)]
    if len(on_own) > 1 or _is_of(value, state):
        return None
    if not on_own:
        return StateChange(tuple(guards), SET, value), None
    compared = _comparison(guards.pop(on_own[0]), state)
    return None if compared is None else (StateChange(tuple(guards), SET, value), compared)


def _is_of(expression: Expression, state: int) -> bool:
    """Return True if an expression depends on the value of a state."""
    wanted = value_of(state).path
    return any(path[: len(wanted)] == wanted[: len(path)] for path in states_in(expression))


def _comparison(guard: Expression, state: int) -> Comparison | None:
    guard, negated = bare(guard)
    if isinstance(guard, After):
        if any(not isinstance(each, Argument | Make) for each in guard.before):
            return None
        guard = guard.result
    compared = comparison_of(guard, lambda each: _is_of(each, state), negated, _plain)
    return compared if compared is not None and all(_only_of(each, state) for each in compared.own) else None


def _only_of(expression: Expression, state: int) -> bool:
    """Return True if an expression is of fields of a state's value and never raises: a field, or an int negated."""
    match expression:
        case Argument(0, path):
            return path[:2] == (FIRST_STATE + state, 1)
        case Invoke("negative", (operand,)):
            return _only_of(operand, state)
    return False


def _plain(expression: Expression) -> Expression:
    """Return an item of a tuple that is made as that item."""
    match expression:
        case GetItem(Make(items), int() as index):
            return _plain(items[index])
        case Invoke("negative", (operand,)):
            return Invoke("negative", (_plain(operand),))
    return expression


def _of_new(own: Expression, state: int, value: Expression, kind: Type) -> Expression:
    """Return the deciding expression, which is of the kept record, for a record that would replace it."""
    parts: dict[Expression, Expression] = {
        Argument(0, (FIRST_STATE + state, 1, *path)): leaf_of(value, path) for path, _ in atomic_fields(kind)
    }
    return with_arguments(parts)(own)


def whole_of(value: Any, kind: Type) -> Expression:
    """Return the expression of a record that is kept, or of a constant one, as a tuple of its fields, or as one that came."""
    record: Expression = value if isinstance(value, Expression) else _constant(value)
    if isinstance(kind, Atomic) or isinstance(record, Argument):
        return record
    return Make(tuple(whole_of(leaf_of(record, (index,)), inner) for index, inner in enumerate(kind)))


def leaf_of(expression: Expression, path: Path) -> Expression:
    """Return the expression of one field of a stored record; raise ``NotVectorizable`` if it has none."""
    match expression:
        case After(before, result):
            return After(before, leaf_of(result, path))
        case _ if not path:
            return expression
        case Choose(_, then, otherwise):
            return replace(expression, then=leaf_of(then, path), otherwise=leaf_of(otherwise, path))
        case Make(items):
            return leaf_of(items[path[0]], path[1:])
        case Argument(argument, where):
            return Argument(argument, (*where, *path))
        case GetItem(Make(items), int() as index):
            return leaf_of(items[index], path)
        case Invoke("at"):
            for index in path:
                expression = GetItem(expression, index)
            return expression
    raise NotVectorizable("keeps a record that is computed in a way that has no kernel")


# ---- In which order the states before each record of a block can be computed: the plan of ``operators/stateful``.
#
# A *unit* is a leaf of a state, or whether there is one. What becomes of it with a record may depend on the record
# and on other units; by a *scan* over the records of a key, all values are computed at once if that is one of a few
# forms: it is set, added to, united with bits, or replaced by what is greater or less, under conditions that do not
# depend on it. So units are put in order: first those that depend on none, then those that depend on these. What is
# left depends on itself in another way or in a circle, and goes round by round: the first record of each key, then
# the second ...


@dataclass(frozen=True)
class Unit:
    """A field of a state, or its presence, with its changes, of which a later one counts."""

    state: int
    path: Path
    kind: Type
    """That of a leaf; or of a record that is only replaced, as a whole."""
    changes: tuple[StateChange, ...]
    used: bool = True
    """True if something depends on what it is before a record."""
    bits: int = 64
    """Number of bits of an int; one with more goes to the function."""
    or_zero: bool = False
    """True if it may be read as ``state or 0``, which makes 0 of -0.0: such a float's block goes to the function."""

    @property
    def leaf(self) -> Atomic:
        """The type of an atomic state field."""
        assert isinstance(self.kind, Atomic)
        return self.kind


@dataclass(frozen=True)
class Scan:
    """A state field whose changes depend on earlier results."""

    unit: Unit


@dataclass(frozen=True)
class Presence:
    """The changes of a state field: those where the state is there, and those where it is not."""

    unit: Unit
    where_held: tuple[StateChange, ...]
    where_not: tuple[StateChange, ...]


@dataclass(frozen=True)
class Rounds:
    """State fields that are computed round by round; all their changes are ``SET``."""

    units: tuple[Unit, ...]


@dataclass(frozen=True)
class Appends:
    """A list: where it is added to (``ADD``), and where it is emptied (``SET``)."""

    unit: Unit


@dataclass(frozen=True)
class Best:
    """The fields of a record that better ones replace; ``best.changes`` are those of each of them."""

    units: tuple[Unit, ...]
    best: BestChanges


Step = Scan | Presence | Rounds | Appends | Best


def all_steps(
    functions: Sequence[TypedState],
    kinds: Sequence[Type],
    fills: Sequence[object],
    bits: Sequence[Mapping[Path, int]],
) -> tuple[tuple[bool, ...], list[tuple[Step, ...]]]:
    """Return the whole states: records that are only replaced; and the steps of each function.

    Of each state: its schema, its default value, and of ints with fewer than 64 ``bits`` their number.
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
    """Return a state field, all changes of which set it; of a list, to a list."""
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


def _units(state: int, writes: Sequence[Effect], kind: Type, default: object, whole: bool) -> list[Unit]:
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
    """Return the step of a state whose whole record is replaced; ``None``: it depends on unknown values."""
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
    """Return True if an expression depends on state fields that are not computed yet."""
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
            if (Invoke("not", (own,)) if there else own) in each.guards:
                continue  # not under this assumption
            guards = tuple(guard for guard in each.guards if guard not in (own, Invoke("not", (own,))))
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
        change = _step_of(each, Argument(0, unit.path), unit.kind)
        if len(change.guards) < len(each.guards) and not are_exclusive(change, changes):
            return None
        if any(_open(guard, unknown) for guard in change.guards) or _open(change.of, unknown):
            return None
        changes.append(change)
    if len({each.how for each in changes} - {SET, KEEP}) > 1:
        return None
    return Scan(replace(unit, changes=tuple(changes)))


def _step_of(each: StateChange, own: Argument, kind: Type) -> StateChange:
    """Return a change in one of the forms that are scanned, if it has one."""
    match each.of:
        case Rowwise(function, (Invoke("+" | "-") as sum_of,)) if function == AS_FLOAT_32:
            change = _step_of(replace(each, of=sum_of), own, kind)
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
