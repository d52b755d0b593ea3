"""From a Python function to an expression, by reading its bytecode: nothing of the function runs.

The function is followed instruction by instruction with expressions on the stack, both ways at a branch. Everything that
is not on a short list of instructions is refused with the reason that ``explain()`` prints, so what gets through has no
effect, always ends, and depends on its arguments and on constants alone. A global or a variable of an enclosing function
counts as a constant if it is a number, a bool or a str; ``Traced.holds`` checks later whether it still has that value.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any

from funken.columnar.bytecode import Operation, UnknownBytecode, is_plain, operations
from funken.columnar.expressions import (
    HIGHEST,
    LOWEST,
    Argument,
    Binary,
    Choose,
    Compare,
    Constant,
    Contains,
    Expression,
    GetItem,
    Invoke,
    Make,
    NotVectorizable,
    Sequence,
    Text,
    Unary,
    is_text,
)

_BINARY = {"+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>"}
_COMPARISONS = {"<", "<=", "==", "!=", ">", ">="}
_METHODS = {"startswith": 1, "endswith": 1}
_BUILTINS = {"abs": (1,), "len": (1,), "min": (2,), "max": (2,), "str": (1,), "float": (1,), "bool": (1,)}
_UNARY = {"UNARY_NEGATIVE": "-", "UNARY_NOT": "not", "UNARY_INVERT": "~", "TO_BOOL": "bool"}
_AS_TEXT = {(0, False), (1, False)}
"""Formats that are ``str``."""
_MOST_STEPS = 2000


@dataclass(frozen=True)
class Dependency:
    """What a function uses besides its arguments, and what that was when it was read.

    ``kind`` is ``global``, ``builtin``, ``closure`` or ``method``.
    """

    kind: str
    name: str
    value: Any


@dataclass(frozen=True)
class Traced:
    """A function, and what it computes."""

    result: Expression
    dependencies: tuple[Dependency, ...] = ()

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether everything the function uses is still what it was when it was traced."""
        if not self.dependencies:
            return True
        function = target if method is None else getattr(getattr(target, method, None), "__func__", None)
        return type(function) is FunctionType and all(_holds(function, each) for each in self.dependencies)


def _holds(function: FunctionType, known: Dependency) -> bool:
    match known.kind:
        case "global":
            value = function.__globals__.get(known.name, function)
        case "builtin":
            return known.name not in function.__globals__ and _is_builtin(function, known.name)
        case "method":
            return bool(_fingerprint(function.__code__) == known.value)
        case _:
            value = _cell(function, known.name)
    return type(value) is type(known.value) and bool(value == known.value)


def _is_builtin(function: FunctionType, name: str) -> bool:
    found = function.__globals__.get("__builtins__", builtins)
    space = found if isinstance(found, dict) else vars(found)
    return space.get(name) is _BUILTIN_OBJECTS[name]


_BUILTIN_OBJECTS = {name: getattr(builtins, name) for name in _BUILTINS}


def _fingerprint(code: CodeType) -> tuple[bytes, str]:
    return code.co_code, repr(code.co_consts)


def _cell(function: FunctionType, name: str) -> Any:
    try:
        return (function.__closure__ or ())[function.__code__.co_freevars.index(name)].cell_contents
    except (ValueError, IndexError):
        return None


def trace(target: Any, method: str | None, arguments: int) -> Traced:
    """Return what a function of ``arguments`` arguments computes; raise ``NotVectorizable`` with the reason.

    ``method`` names a method of the object ``target``, which must not use ``self``.

    >>> trace(lambda pair: (pair[0], 1), None, 1).result
    Make(items=(Argument(argument=0, path=(0,)), Constant(value=1)))
    >>> trace(lambda line: print(line), None, 1)
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: calls print()
    """
    if method is None:
        return Tracer(_plain(target), arguments, bound=False).run()
    traced = Tracer(_method(target, method), arguments, bound=True).run()
    code = getattr(type(target), method).__code__
    return replace(traced, dependencies=(*traced.dependencies, Dependency("method", method, _fingerprint(code))))


def _plain(target: Any) -> FunctionType:
    if type(target) is not FunctionType:
        raise NotVectorizable(f"{getattr(target, '__qualname__', type(target).__qualname__)} is no Python function")
    return target


def _method(target: Any, method: str) -> FunctionType:
    kind = type(target)
    found = getattr(kind, method, None)
    plain: Any = object.__getattribute__
    if type(found) is not FunctionType or kind.__getattribute__ is not plain:
        raise NotVectorizable(f"{kind.__qualname__}.{method} is no plain method")
    if method in getattr(target, "__dict__", {}):
        raise NotVectorizable(f"{kind.__qualname__}.{method} is replaced on the object")
    return found


class _Marker:
    """What is on the stack of a call besides expressions."""

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind = kind
        self.name = name


_NULL = _Marker("null")
_NONE = _Marker("none", "None")


class Tracer:
    """Follows one function; a path through it is (instruction, stack, locals, what was evaluated and dropped)."""

    def __init__(self, function: FunctionType, arguments: int, bound: bool) -> None:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        if not is_plain(code):
            raise NotVectorizable("is a generator, has variable arguments, or handles exceptions")
        if len(names) != arguments + bound:
            raise NotVectorizable(f"takes {len(names) - bound} arguments, not {arguments}")
        self._function = function
        self._dependencies: dict[tuple[str, str], Dependency] = {}
        try:
            self._operations = operations(code)
        except UnknownBytecode as unknown:
            raise NotVectorizable(str(unknown)) from None
        self._start: dict[str, Any] = {name: Argument(number - bound) for number, name in enumerate(names)}
        if bound:
            self._start[names[0]] = _Marker("self", names[0])
        self._steps = 0

    def run(self) -> Traced:
        """Follow the function from its beginning."""
        result = self._follow(0, [], self._start, ())
        return Traced(result, tuple(self._dependencies.values()))

    def _follow(
        self, number: int, stack: list[Any], variables: dict[str, Any], dropped: tuple[Expression, ...]
    ) -> Expression:
        stack, variables = list(stack), dict(variables)
        while True:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise NotVectorizable("branches too often")
            operation = self._operations[number]
            name, argument = operation.name, operation.argument
            number += 1
            if name == "RETURN_VALUE":
                value = _expression(stack.pop())
                return Sequence(dropped, value) if dropped else value
            if name == "JUMP":
                number = argument
            elif name.startswith(("POP_JUMP", "JUMP_IF")):
                return self._branch(name, number, argument, stack, variables, dropped)
            elif name == "POP_TOP":
                dropped = _dropping(dropped, stack.pop())
            elif name == "STORE_FAST":
                value = stack.pop()
                dropped = _dropping(dropped, value)
                variables[argument] = value
            elif name == "LOAD_FAST":
                stack.append(self._load(variables, argument))
            else:
                self._step(operation, stack)

    def _loaded(self, value: Any) -> Any:
        return _NONE if value is None else self._constant(value)

    def _load(self, variables: dict[str, Any], name: str) -> Any:
        if name not in variables:
            raise NotVectorizable(f"uses the variable {name!r} before it has a value")
        return variables[name]

    def _branch(
        self, name: str, here: int, there: int, stack: list[Any], variables: dict[str, Any],
        dropped: tuple[Expression, ...],
    ) -> Expression:  # fmt: skip
        if there < here or "NONE" in name or "BACKWARD" in name:
            raise NotVectorizable("has a loop" if there < here else "compares with None")
        value = stack.pop()
        condition = _expression(value)
        if isinstance(condition, Unary) and condition.op == "bool":
            condition = condition.operand  # 3.13 asks for the truth in an instruction of its own
        jumping = [*stack, value] if name.endswith("OR_POP") else stack
        jumped = self._follow(there, jumping, variables, dropped)
        stayed = self._follow(here, stack, variables, dropped)
        return Choose(condition, jumped, stayed) if "TRUE" in name else Choose(condition, stayed, jumped)

    def _step(self, operation: Operation, stack: list[Any]) -> None:
        name, argument = operation.name, operation.argument
        if name in _STACK:
            _STACK[name](stack, argument)
        elif name in _UNARY:
            stack.append(Unary(_UNARY[name], _expression(stack.pop())))
        elif name in ("BINARY_OP", "COMPARE_OP"):
            right, left = _expression(stack.pop()), _expression(stack.pop())
            op = argument.removesuffix("=") if name == "BINARY_OP" else argument
            if op not in (_BINARY if name == "BINARY_OP" else _COMPARISONS):
                raise NotVectorizable(f"uses the operator {op}")
            stack.append(Binary(op, left, right) if name == "BINARY_OP" else Compare(op, left, right))
        elif name == "LOAD_CONST":
            stack.append(self._loaded(argument))
        elif name in ("LOAD_METHOD", "LOAD_ATTR"):
            self._attribute(argument, name == "LOAD_METHOD", stack)
        elif name == "CALL":
            self._call(argument, stack)
        elif name == "LOAD_GLOBAL":
            stack.append(self._global(argument, operation.calls))
        elif name == "LOAD_DEREF":
            stack.append(self._depend("closure", argument, _cell(self._function, argument)))
        elif (name == "FORMAT" and argument in _AS_TEXT) or (name == "CONVERT_VALUE" and argument == 1):
            stack.append(Text((_expression(stack.pop()),)))
        elif name in ("FORMAT", "CONVERT_VALUE"):
            raise NotVectorizable("formats a value")
        else:
            raise NotVectorizable(_reason(name, argument))

    def _attribute(self, attribute: str, called: bool, stack: list[Any]) -> None:
        owner = stack.pop()
        if isinstance(owner, _Marker):
            raise NotVectorizable(f"uses {owner.name}.{attribute}")
        if attribute not in _METHODS or not called:
            raise NotVectorizable(f"uses the attribute {attribute!r}")
        stack += [_Marker("method", attribute), owner]

    def _call(self, count: int, stack: list[Any]) -> None:
        arguments = [_expression(stack.pop()) for _ in range(count)][::-1]
        second, first = stack.pop(), stack.pop()
        if isinstance(first, _Marker) and first.kind == "method":
            if count != _METHODS[first.name]:
                raise NotVectorizable(f"calls {first.name}() with {count} arguments")
            stack.append(Invoke(first.name, (_expression(second), *arguments)))
            return
        called = next((each for each in (first, second) if isinstance(each, _Marker) and each.kind == "builtin"), None)
        if called is None:
            raise NotVectorizable("calls a function")
        if count not in _BUILTINS[called.name]:
            raise NotVectorizable(f"calls {called.name}() with {count} arguments")
        stack.append(Invoke(called.name, tuple(arguments)))

    def _global(self, name: str, calls: bool) -> Any:
        space = self._function.__globals__
        if name in space:
            return self._depend("global", name, space[name])
        if name not in _BUILTINS or not _is_builtin(self._function, name):
            raise NotVectorizable(f"calls {name}()" if calls else f"uses the global {name!r}")
        self._dependencies["builtin", name] = Dependency("builtin", name, None)
        return _Marker("builtin", name)

    def _depend(self, kind: str, name: str, value: Any) -> Expression:
        if type(value) not in (int, float, bool, str):
            what = f"the {kind} {name!r}" if kind == "global" else f"the variable {name!r} of an enclosing function"
            raise NotVectorizable(f"calls {name}()" if callable(value) else f"uses {what}, {_article(value)}")
        self._dependencies[kind, name] = Dependency(kind, name, value)
        return self._constant(value)

    def _constant(self, value: Any) -> Expression:
        if isinstance(value, tuple | frozenset):
            return Make(tuple(self._constant(item) for item in value))
        if type(value) not in (int, float, bool, str):
            raise NotVectorizable(f"uses {_article(value)}")
        if (type(value) is int and not LOWEST <= value <= HIGHEST) or (type(value) is str and not is_text(value)):
            raise NotVectorizable(f"uses {value!r}, which no column can hold")
        return Constant(value)


def _expression(found: Any) -> Expression:
    if isinstance(found, Expression):
        return found
    if isinstance(found, _Marker) and found.name:
        raise NotVectorizable(f"uses {found.name}")
    raise NotVectorizable("calls a function")


def _contains(stack: list[Any], inverted: int) -> None:
    container, needle = _expression(stack.pop()), _expression(stack.pop())
    found = Contains(needle, container)
    stack.append(Unary("not", found) if inverted else found)


def _subscript(stack: list[Any], _: int) -> None:
    index, record = stack.pop(), _expression(stack.pop())
    if not isinstance(index, Constant) or type(index.value) is not int:
        raise NotVectorizable("takes an item by something else than a constant number")
    stack.append(_item(record, index.value))


def _unpack(stack: list[Any], count: int) -> None:
    record = _expression(stack.pop())
    stack += [GetItem(record, index, count) for index in reversed(range(count))]


def _taken(stack: list[Any], count: int) -> tuple[Expression, ...]:
    parts = tuple(_expression(part) for part in stack[len(stack) - count :])
    del stack[len(stack) - count :]
    return parts


def _swap(stack: list[Any], depth: int) -> None:
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


_STACK: dict[str, Callable[[list[Any], int], None]] = {
    "CONTAINS_OP": _contains,
    "BINARY_SUBSCR": _subscript,
    "UNPACK_SEQUENCE": _unpack,
    "BUILD_TUPLE": lambda stack, count: stack.append(Make(_taken(stack, count))),
    "BUILD_STRING": lambda stack, count: stack.append(Text(_taken(stack, count))),
    "COPY": lambda stack, depth: stack.append(stack[-depth]),
    "SWAP": _swap,
    "PUSH_NULL": lambda stack, _: stack.append(_NULL),
}


def _item(record: Expression, index: int) -> Expression:
    return replace(record, path=(*record.path, index)) if isinstance(record, Argument) else GetItem(record, index)


def _dropping(dropped: tuple[Expression, ...], value: Any) -> tuple[Expression, ...]:
    if isinstance(value, _Marker):
        raise NotVectorizable(f"uses {value.name}")
    pure = isinstance(value, Constant) or value in dropped
    return dropped if pure else (*dropped, value)


def _article(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


_REASONS = {
    "STORE_GLOBAL": "changes the global {0!r}",
    "STORE_DEREF": "changes the variable {0!r} of an enclosing function",
    "STORE_ATTR": "changes the attribute {0!r}",
    "STORE_SUBSCR": "changes an item",
    "BUILD_LIST": "makes a list",
    "BUILD_MAP": "makes a dict",
    "BUILD_CONST_KEY_MAP": "makes a dict",
    "BUILD_SET": "makes a set",
    "IS_OP": "compares identities",
    "KW_NAMES": "calls a function with keywords",
    "CALL_KW": "calls a function with keywords",
    "CALL_FUNCTION_EX": "calls a function with *",
    "RAISE_VARARGS": "raises an exception",
    "LOAD_ASSERTION_ERROR": "asserts",
    "GET_ITER": "has a loop",
    "BUILD_SLICE": "takes a slice",
    "BINARY_SLICE": "takes a slice",
    "MAKE_CELL": "has an inner function",
    "IMPORT_NAME": "imports {0}",
}


def _reason(name: str, value: Any) -> str:
    return _REASONS.get(name, "does what has no kernel: {1}").format(value, name.lower().replace("_", " "))


__all__ = ["Dependency", "Traced", "trace"]
