"""Which states a function declares in ``open()``, by reading its bytecode: nothing of the program runs but descriptors.

What is read is a straight line of assignments to attributes: ``self.count = runtime_context.get_state(descriptor)``. Descriptors
may be made there, be globals, or attributes of the object; whatever else is assigned is of no interest. When ``open()`` has run
in the job, ``DeclaredState.is_in`` tells whether the attribute is what was read.
"""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta
from types import FunctionType, MethodType, ModuleType
from typing import Any

from funken.columnar.bytecode import Operation, is_plain
from funken.columnar.declared import bits_of_leaves, kept_schema
from funken.columnar.dependencies import cell_of, fingerprint, same
from funken.columnar.expressions import NotVectorizable, schema_of_value
from funken.columnar.faults import reads
from funken.columnar.lists.comprehensions import operations_of
from funken.columnar.stateful.changes import StateLifetime, known_lifetime, lifetime_in, makes_lifetimes, widened
from funken.dataclass import dataclass
from funken.expr.types import ARRAYS, Type, types_in
from funken.state.descriptors import StateDescriptor, StateKind, StateTtlConfig
from funken.state.handles import State
from funken.types.info import PickledBytesTypeInfo, TypeInformation

_GETS = {
    "get_state": StateKind.VALUE, "get_map_state": StateKind.MAP, "get_list_state": StateKind.LIST,
    "get_reducing_state": StateKind.REDUCING, "get_aggregating_state": StateKind.AGGREGATING,
}  # fmt: skip
_OF_OBJECTS = (StateDescriptor, StateTtlConfig, TypeInformation, int, float, str, timedelta)
"""Of which types the attributes of the object may be that are looked at; what they are, is compared in the job."""


@dataclass(frozen=True)
class DeclaredState:
    """A state: the attribute with its handle, its name and kind, and of a value its default (``None``: none)."""

    attribute: str
    name: str
    kind: StateKind
    default: Any = None
    declared: Type | None = None
    """The schema of what it keeps, if its descriptor has a type that says that."""
    type_info: TypeInformation | None = None
    """That type."""
    function: Any = field(default=None, compare=False)
    """What a reducing state reduces with, or the ``AggregateFunction``."""
    identity: Any = None
    """What is equal for a function that does the same."""
    lifetime: StateLifetime | None = None

    def is_in(self, target: Any) -> bool:
        """Whether an object whose ``open()`` has run has the handle of this state."""
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
    """A state that the runtime context gives, and the lifetime that its descriptor has then."""

    kind: StateKind
    descriptor: Any
    config: StateTtlConfig | None


_NULL, _UNKNOWN, _CONTEXT = object(), object(), object()
"""On the stack: what stands below a callable, a value of no interest, and the runtime context. Its methods are state kinds."""
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
        """Return what is declared."""
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
            raise NotVectorizable(f"has an open() that does what is not read: {name.lower().replace('_', ' ')}")

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
    """Whether something is a class without a constructor, of which nothing runs when an object is made."""
    plain: Any = object
    if type(found) is not type:
        return False
    return getattr(found, "__init__") is plain.__init__ and getattr(found, "__new__") is plain.__new__  # noqa: B009


def _is_ours(called: Any) -> bool:
    """Whether something makes a descriptor, or a type or a lifetime for one."""
    if makes_lifetimes(called):
        return True
    if isinstance(called, type):
        return issubclass(called, StateDescriptor) or called.__module__.startswith("funken.types.")
    return type(called) is FunctionType and (called.__module__ or "").startswith("funken.types.")


__all__ = ["DeclaredState", "declared_states"]
