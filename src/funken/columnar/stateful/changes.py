"""Changes of a state field and their conditions, and the changes that make a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from datetime import timedelta
from itertools import combinations
from types import FunctionType, MethodType, ModuleType
from typing import Any

from funken.columnar.bytecode import Operation, is_plain
from funken.columnar.calling import cell_of, fingerprint, same
from funken.columnar.declared import bits_of_leaves, kept_schema
from funken.columnar.expressions import (
    COMPARISONS,
    Argument,
    Choose,
    Constant,
    Expression,
    Invoke,
    Make,
    NotVectorizable,
    Rowwise,
    bare,
    children,
    reads,
    schema_of_value,
)
from funken.columnar.expressions import Sequence as After
from funken.columnar.recurrence import SET
from funken.columnar.tracing import operations_of
from funken.columnar.typed.inference import TracedFlatMap
from funken.columnar.typed.operations import Sharing
from funken.dataclass import dataclass
from funken.expr.types import ARRAYS, FLOAT, INT, Atomic, Tuple, Type, atomic_fields, types_in
from funken.state.descriptors import StateDescriptor, StateKind, StateTtlConfig, StateTtlConfigBuilder
from funken.state.handles import State
from funken.types.info import PickledBytesTypeInfo, TypeInformation


@dataclass(frozen=True)
class StateChange:
    """A change of a state field where the guards hold."""

    guards: tuple[Expression, ...]
    how: str
    """One of those of ``recurrence.py``."""
    of: Expression
    """The new value, the summand, or the operand of the comparison or of the union of bits; of ``KEEP``, nothing."""
    whole: bool = False
    """Of a list: whether it is set to a list."""


_Guards = list[tuple[int, bool]]


def _tests(guards: Sequence[Expression], sharing: Sharing) -> _Guards:
    """Return the test of each guard, alike for tests that are alike, and its wanted outcome."""
    found = []
    for guard in guards:
        test, negated = bare(guard)
        found.append((id(sharing.of(test)), not negated))
    return found


def are_exclusive(change: StateChange, before: Sequence[StateChange]) -> bool:
    """Return True if a change is never made where one of the changes before it is."""
    sharing = Sharing()
    guards = _tests(change.guards, sharing)
    return all(_any_opposite(guards, _tests(each.guards, sharing)) for each in before)


def merged(changes: Sequence[StateChange]) -> tuple[StateChange, ...]:
    """Return changes without conditions that make no difference: paths through a function that part may come to the same.

    >>> from funken.columnar.expressions import Argument, Constant
    >>> from funken.columnar.recurrence import SET
    >>> taken, test = Argument(0, (1,)), Argument(0, (2,))
    >>> changes = [StateChange((test, each), SET, Constant(1)) for each in (taken, Invoke("not", (taken,)))]
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
    """Return the place of the only opposite guards of two changes that do the same; ``None``: they cannot be one."""
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
_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"))


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
    """Return the value where a state has none, in the types of its schema.

    >>> with_floats((0, 0), Tuple((INT, FLOAT)))
    (0, 0.0)
    """
    if type(fill) is tuple and type(kind) is Tuple:
        return tuple(map(with_floats, fill, kind))
    return float(fill) if type(fill) is int and kind == FLOAT else fill


def with_declared_floats(made: Expression, kind: Type, wanted: Type) -> tuple[Expression, Type]:
    """Return the value written to a state whose type makes floats of ints, and its schema.

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
    """Raise ``NotVectorizable`` if fields are used in another way than to compute with floats."""
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
            name = each.name if isinstance(each, Invoke) else ""
            if name in _ARITHMETIC and any(_is_float(other, kinds) for other in parts if other is not part):
                continue
            if name not in COMPARISONS:
                _check(part, paths)


def _check(expression: Expression, paths: Sequence[Path]) -> None:
    if isinstance(expression, Argument) and any(
        expression.path == path[: len(expression.path)] for path in paths if len(expression.path) > 0
    ):
        raise NotVectorizable("shows a state that begins with an int and continues with floats")


def _is_float(expression: Expression, kinds: dict[Path, Atomic]) -> bool:
    match expression:
        case Argument(0, path):
            return kinds.get(path) == FLOAT
        case Constant(value):
            return type(value) is float
        case Invoke(op, (left, right)) if op in _ARITHMETIC:
            return op == "/" or _is_float(left, kinds) or _is_float(right, kinds)
        case Invoke("negative", (operand,)):
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


RECORD, KEY, STAMP, WATERMARK = Argument(0, (0,)), Argument(0, (1,)), Argument(0, (2,)), Argument(0, (3,))
"""The fields of the one argument; of ``on_timer``, the record is the time of the timer."""
FIRST_STATE = 4
"""The number of the field with the first state."""


def held(number: int) -> Argument:
    """Return True if a state has a value."""
    return Argument(0, (FIRST_STATE + number, 0))


def value_of(number: int) -> Argument:
    """Return the value of a state."""
    return Argument(0, (FIRST_STATE + number, 1))


@dataclass(frozen=True)
class Effect:
    """Something that a function does to a state, or to a timer, where the ``guards`` hold, one after the other."""

    guards: tuple[Expression, ...]
    value: Expression | None = None
    """The written value (``None``: there is none from then on), or the time of a timer; of a list, the added items."""
    state: int = -1
    """The number of the state; a timer has none."""
    whole: bool = False
    """Of a list: whether ``value`` is all that is in it from then on."""
    deletes: bool = False
    """Of a timer: whether it is deleted, and not registered."""

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return self.guards if self.value is None else (*self.guards, self.value)

    def replaced(self, of: Callable[[Expression], Expression]) -> Effect:
        """Return the effect with a function's result for each part."""
        return replace(self, guards=tuple(map(of, self.guards)), value=None if self.value is None else of(self.value))


@dataclass(frozen=True)
class TracedState:
    """A function with state: its results, and its ``writes`` in order: of two that are made, the later one counts."""

    given: TracedFlatMap
    writes: tuple[Effect, ...]
    map_keys: tuple[Expression | None, ...]
    """Of states that are maps, the one key that the function uses of them."""
    stamped: bool
    """True if it uses the timestamps of records."""
    used: frozenset[int]
    """The states that it uses."""
    drops_none: bool
    """True if a result that is ``None`` is none."""
    fills: tuple[Any, ...]
    """Of each state, the value that is read where it has none (``None``: it is asked whether it has one)."""
    timers: tuple[Effect, ...] = ()
    """Its changes of timers, in order."""
    accesses: tuple[Effect, ...] = ()
    """Its reads of states whose values live longer by that."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Return True if everything the function uses is as it was when it was traced."""
        return self.given.holds(target, method)


# ---- States whose values expire: how long they live, and which records of a block renew their lives.
#
# Lives are measured in processing time, of which a block has one. So some of what a block finds has expired, and
# nothing expires within it.


Guards = tuple[Expression, ...]
_MODULES = ("funken.state.descriptors", "funken.compat.pyflink.times")


@dataclass(frozen=True)
class StateLifetime:
    """The lifetime of the values of a state (ms), and the effect of reads on it."""

    millis: int
    read_renews: bool


def lifetime_in(handle: Any) -> StateLifetime | None:
    """Return the lifetime of the values of a handle; ``None`` if they do not expire."""
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
    """Return True if an object configures lifetimes, and may be called, or asked for attributes."""
    if isinstance(called, MethodType):
        return type(called.__self__) is StateTtlConfigBuilder
    if isinstance(called, type | FunctionType):
        return called is timedelta or called.__module__ in _MODULES
    return type(called) in (StateTtlConfig, StateTtlConfigBuilder)


def renewals_of(
    writes: Sequence[Effect], accesses: Sequence[Effect], lifetimes: Sequence[StateLifetime | None]
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


# ---- Which states a function declares in ``open()``, by reading its bytecode: nothing of the program runs but
# descriptors.
#
# What is read is a straight line of assignments to attributes: ``self.count =
# runtime_context.get_state(descriptor)``. Descriptors may be made there, be globals, or attributes of the object;
# whatever else is assigned is of no interest. When ``open()`` has run in the job, ``DeclaredState.is_in`` tells
# whether the attribute is what was read.


_GETS = {
    "get_state": StateKind.VALUE, "get_map_state": StateKind.MAP, "get_list_state": StateKind.LIST,
    "get_reducing_state": StateKind.REDUCING, "get_aggregating_state": StateKind.AGGREGATING,
}  # fmt: skip
_OF_OBJECTS = (StateDescriptor, StateTtlConfig, TypeInformation, int, float, str, timedelta)
"""The types of attributes of the object that may be read; their values are compared in the job."""


@dataclass(frozen=True)
class DeclaredState:
    """A state: the attribute with its handle, its name and type, and of a value its default (``None``: none)."""

    attribute: str
    name: str
    kind: StateKind
    default: Any = None
    declared: Type | None = None
    """The schema of its values, if its descriptor has a type that defines it."""
    type_info: TypeInformation | None = None
    """That type."""
    function: Any = field(default=None, compare=False)
    """The function of a reducing state, or the ``AggregateFunction``."""
    identity: Any = None
    """A value that is equal for a function that does the same."""
    lifetime: StateLifetime | None = None

    def is_in(self, target: Any) -> bool:
        """Return True if an object whose ``open()`` has run has the handle of this state."""
        handle = getattr(target, self.attribute, None)
        if not isinstance(handle, State) or handle.kind is not self.kind or handle.descriptor.name != self.name:
            return False
        descriptor = handle.descriptor
        if _type_of(descriptor) != self.type_info:
            return False
        function = _function_of(descriptor)
        if (None if function is None else _identity(function)) != self.identity:
            return False
        return lifetime_in(handle) == self.lifetime and same(getattr(descriptor, "default", None), self.default)


@reads
def declared_states(target: Any) -> tuple[DeclaredState, ...]:
    """Return the states that an object declares in ``open()``; raise ``NotVectorizable`` if that cannot be read.

    >>> from funken import KeyedProcessFunction, ValueStateDescriptor
    >>> class Count(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
    >>> [(each.attribute, each.name, each.default) for each in declared_states(Count())]
    [('count', 'count', 0)]
    """
    function = getattr(type(target), "open", None)
    if type(function) is not FunctionType or "open" in getattr(target, "__dict__", {}):
        raise NotVectorizable("has an open() that is no plain method")
    if not is_plain(function.__code__) or function.__code__.co_argcount != 2:
        raise NotVectorizable("has an open() that is not read")
    return tuple(_Opening(target, function).run())


@dataclass(frozen=True)
class _Given:
    """A state of the runtime context, with its descriptor's lifetime at that time."""

    kind: StateKind
    descriptor: Any
    config: StateTtlConfig | None


_NULL, _UNKNOWN, _CONTEXT = object(), object(), object()
"""On the stack: the placeholder below a callable, a value of no interest, and the runtime context."""
_BUILTINS = {"max": max, "min": min}
_BUILDS: dict[str, Any] = {"BUILD_TUPLE": tuple, "BUILD_LIST": list}


class _Opening:
    """Follows ``open()`` with Python objects on the stack."""

    def __init__(self, target: Any, function: FunctionType) -> None:
        self._target, self._function = target, function
        own, context = function.__code__.co_varnames[:2]
        self._variables: dict[str, Any] = {own: target, context: _CONTEXT}
        self._stack: list[Any] = []
        self._names: tuple[str, ...] = ()
        #: lifetimes that ``open()`` gives to descriptors, which are not changed here: they may be the program's
        self._lifetimes: list[tuple[StateDescriptor, StateTtlConfig]] = []

    def run(self) -> list[DeclaredState]:
        """Return the declarations."""
        found: dict[str, DeclaredState | None] = {}
        for operation in operations_of(self._function.__code__):
            name, argument = operation.name, operation.argument
            if name == "RETURN_VALUE":
                states = [each for each in found.values() if each is not None]
                if len({each.name for each in states}) < len(states):
                    raise NotVectorizable("has one state under two attributes")
                return states
            if name == "STORE_ATTR":
                owner, value = self._stack.pop(), self._stack.pop()
                if owner is self._target:
                    found[argument] = self._declared(argument, value) if isinstance(value, _Given) else None
            else:
                self._step(operation)
        raise NotVectorizable("has an open() that is not read")

    def _step(self, operation: Operation) -> None:
        name, argument, stack = operation.name, operation.argument, self._stack
        if name == "LOAD_FAST":
            stack.append(self._variables.get(argument, _UNKNOWN))
        elif name == "LOAD_CONST":
            stack.append(argument)
        elif name == "LOAD_GLOBAL":
            known = _BUILTINS if argument not in self._function.__globals__ else self._function.__globals__
            stack.append(known.get(argument, _UNKNOWN))
        elif name == "LOAD_DEREF":
            cell = cell_of(self._function, argument)
            stack.append(_UNKNOWN if cell is None else cell[0])
        elif name == "MAKE_FUNCTION" and not argument:
            stack.append(FunctionType(stack.pop(), self._function.__globals__))
        elif name == "PUSH_NULL":
            stack.append(_NULL)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            found = self._attribute(stack.pop(), argument)
            stack.extend([found] if name == "LOAD_ATTR" else [_NULL, found])
        elif name == "STORE_FAST":
            self._variables[argument] = stack.pop()
        elif name == "POP_TOP":
            stack.pop()
        elif name == "KW_NAMES":
            self._names = argument
        elif name == "CALL_KW":
            self._names = stack.pop()
            self._call(argument)
        elif name == "CALL":
            self._call(argument)
        elif name in _BUILDS:
            items = [stack.pop() for _ in range(argument)][::-1]
            stack.append(_BUILDS[name](items) if _are_known(items) else _UNKNOWN)
        elif name == "BUILD_SET":
            del stack[len(stack) - argument :]
            stack.append(_UNKNOWN)
        elif name == "LIST_EXTEND" and argument == 1:
            more, items = stack.pop(), stack.pop()
            stack.append([*items, *more] if type(items) is list and type(more) is tuple else _UNKNOWN)
        elif name == "BINARY_OP":
            del stack[-2:]
            stack.append(_UNKNOWN)
        elif "JUMP" in name or name in ("GET_ITER", "FOR_ITER", "TO_BOOL"):
            raise NotVectorizable("has an open() that branches")
        else:
            raise NotVectorizable(f"has an open() that is not read: {name.lower().replace('_', ' ')}")

    def _attribute(self, owner: Any, name: str) -> Any:
        if owner is _CONTEXT:
            return _GETS.get(name, _UNKNOWN)
        if isinstance(owner, StateDescriptor) and name == "enable_time_to_live":
            return owner.enable_time_to_live
        if owner is self._target:
            found = getattr(owner, "__dict__", {}).get(name, getattr(type(owner), name, _UNKNOWN))
            return found if isinstance(found, _OF_OBJECTS) else _UNKNOWN
        if isinstance(owner, ModuleType):
            return vars(owner).get(name, _UNKNOWN)
        return getattr(owner, name, _UNKNOWN) if _is_ours(owner) else _UNKNOWN

    def _call(self, count: int) -> None:
        stack, names = self._stack, self._names
        self._names = ()
        given = [stack.pop() for _ in range(count)][::-1]
        second, first = stack.pop(), stack.pop()
        called = second if first is _NULL else first
        keywords = dict(zip(names, given[len(given) - len(names) :], strict=True))
        given = given[: len(given) - len(names)]
        values = [*given, *keywords.values()]
        if isinstance(called, StateKind) and len(values) == 1:
            stack.append(self._given(called, values[0]))
        elif isinstance(called, MethodType) and isinstance(called.__self__, StateDescriptor):
            self._lifetimes.append((called.__self__, self._lifetime(called.__self__, values)))
            stack.append(None)
        elif _are_known(values) and (_is_ours(called) or _is_plain(called)):
            stack.append(self._made(called, given, keywords))
        else:
            stack.append(_UNKNOWN)

    def _given(self, kind: StateKind, descriptor: Any) -> _Given:
        configs = (config for given, config in reversed(self._lifetimes) if given is descriptor)
        return _Given(kind, descriptor, next(configs, getattr(descriptor, "ttl", None)))

    @staticmethod
    def _lifetime(descriptor: StateDescriptor, given: list[Any]) -> StateTtlConfig:
        if len(given) != 1 or type(given[0]) is not StateTtlConfig:
            raise NotVectorizable(f"has a state {descriptor.name!r} whose lifetime is not known")
        return given[0]

    @staticmethod
    def _made(called: Any, given: list[Any], keywords: dict[str, Any]) -> Any:
        try:
            return called(*given, **keywords)
        except Exception as error:  # noqa: BLE001 - the job will raise it, with its operator and traceback
            raise NotVectorizable(f"has an open() that raises {type(error).__name__}") from None

    @staticmethod
    def _declared(attribute: str, found: _Given) -> DeclaredState | None:
        kind, descriptor = found.kind, found.descriptor
        if not isinstance(descriptor, StateDescriptor) or descriptor.kind is not kind:
            raise NotVectorizable(f"has a state {attribute!r} whose descriptor is not known")
        lifetime = known_lifetime(attribute, kind, found.config)
        default = getattr(descriptor, "default", None)
        shape = None if default is None else schema_of_value(default)
        if default is not None and shape is None:
            raise NotVectorizable(f"has a state {attribute!r} whose default no column can hold")
        type_info = _type_of(descriptor)
        declared = None if type_info is None else kept_schema(type_info)
        is_known = type_info is None or (declared is not None and types_in(declared) <= set(ARRAYS))
        fits = shape is None or declared is None or widened(shape, declared) == declared
        if not is_known or not fits or (kind is StateKind.LIST and bits_of_leaves(type_info)):
            raise NotVectorizable(f"has a state {attribute!r} with a declared type, which converts values")
        function = _function_of(descriptor)
        identity = None if function is None else _identity(function)
        return DeclaredState(
            attribute, descriptor.name, kind, default, declared, type_info, function, identity, lifetime
        )


def _function_of(descriptor: Any) -> Any:
    return getattr(descriptor, "reduce", getattr(descriptor, "function", None))


def _identity(function: Any) -> Any:
    if isinstance(function, FunctionType):
        return fingerprint(function.__code__)
    owner = getattr(function, "__self__", function)
    methods = (getattr(type(owner), name, None) for name in ("reduce", "create_accumulator", "add", "get_result"))
    codes = tuple(fingerprint(each.__code__) for each in methods if isinstance(each, FunctionType))
    return codes or getattr(function, "__qualname__", None)


def _type_of(descriptor: StateDescriptor) -> TypeInformation | None:
    """Return the type that values are converted to; ``None``: they are not."""
    type_info = descriptor.type_info
    return None if isinstance(type_info, PickledBytesTypeInfo) else type_info


def _are_known(values: list[Any]) -> bool:
    return not any(each is _UNKNOWN or isinstance(each, _Given) for each in values)


def _is_plain(found: Any) -> bool:
    """Return True if an object is a class without a constructor, of which nothing runs when an object is made."""
    plain: Any = object
    if type(found) is not type:
        return False
    return getattr(found, "__init__") is plain.__init__ and getattr(found, "__new__") is plain.__new__  # noqa: B009


def _is_ours(called: Any) -> bool:
    """Return True if an object makes a descriptor, or a type or a lifetime for one."""
    if makes_lifetimes(called):
        return True
    if isinstance(called, type):
        return issubclass(called, StateDescriptor) or called.__module__.startswith("funken.types.")
    return type(called) is FunctionType and (called.__module__ or "").startswith("funken.types.")
