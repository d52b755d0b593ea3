"""User functions as the plan carries them: one class for lambdas, callables and function objects.

The API turns whatever the user gave into a ``UserFunction`` once; operators only ``bind`` it. A bound call is the plain
function or bound method, so that calling it costs nothing extra.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, CoroutineType, GeneratorType, MethodType
from typing import Any, TypeVar

from funken.columnar.bytecode import changes_of_globals, returns_only_none
from funken.dataclass import dataclass
from funken.operators.context import OperatorContext, RuntimeContext
from funken.operators.operator_state import prepare


@dataclass(frozen=True)
class UserFunction:
    """A user function: ``target`` itself if ``method`` is ``None``, else that method of it.

    ``rich`` functions are opened and closed with the operator.
    """

    target: Any
    method: str | None = None
    rich: bool = False

    def bind(self) -> Callable[..., Any]:
        """Return the callable to use per record."""
        call: Callable[..., Any] = self.target if self.method is None else getattr(self.target, self.method)
        return call

    def open(self, context: OperatorContext) -> None:
        """Open a rich function, with its operator state; do nothing for another."""
        prepare(self.target, context)
        if self.rich:
            self.target.open(RuntimeContext(context))

    def close(self) -> None:
        """Close a rich function; do nothing for another."""
        if self.rich:
            self.target.close()

    def __repr__(self) -> str:
        target = self.target
        return getattr(target, "__qualname__", None) or type(target).__qualname__


def call_of(function: Any, method: str) -> UserFunction:
    """Return a function, a bound method or an object with a method as a call whose method, if any, is named.

    >>> call_of(len, "map").method, call_of("text".upper, "map").method
    (None, None)
    """
    if isinstance(function, MethodType):
        return UserFunction(function.__self__, function.__name__)
    return UserFunction(function) if callable(function) else UserFunction(function, method)


# ---- Operators by name: a spec says which logic runs it without importing it.
#
# Specs travel in plans and are read on the driver; logics are imported where they run, and some of them load NumPy.


T = TypeVar("T")


def late_operator(kind: type[T], name: str, *arguments: Any) -> T:
    """Import ``module:class``, which is a ``kind``, and make one.

    >>> late_operator(int, "builtins:bool", 1)
    True
    """
    module, _, made = name.partition(":")
    operator = getattr(import_module(module), made)(*arguments)
    assert isinstance(operator, kind)
    return operator


# ---- Notice a ``map`` without results: a function that forgot its ``return`` gives ``None`` for every record.
#
# A function whose code can only return ``None`` is known when it is opened. Any other one is watched until it has
# given something else, or 1,000 times ``None``. The job's diagnosis says it once per operator.


RECORDS = 1000
"""So many results that are all ``None`` are warned of."""
KIND = "no results"
GLOBALS = "global variables"
_REMEDY = "Return the result, or use for_each() for a function that is called for its effect."
_UNFINISHED = (GeneratorType, CoroutineType)
_SEVERAL = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def without_return(
    call: Callable[..., Any], remedy: str = _REMEDY, fact: str = "returns nothing, so each result is None"
) -> str | None:
    """Return the warning for a function whose code returns nothing but ``None``; ``None`` for any other one.

    >>> def parse(line):
    ...     line.split(",")
    >>> without_return(parse)[:59]
    "its function 'parse' (<doctest funken.operators.user_functi"
    >>> without_return(str.split), without_return(lambda line: None)
    (None, None)
    """
    code: CodeType | None = getattr(getattr(call, "__func__", call), "__code__", None)
    if code is None or code.co_flags & _SEVERAL or code.co_name == "<lambda>" or not returns_only_none(code):
        return None
    place = f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}"
    return f"its function {code.co_name!r} ({place}) {fact}. {remedy}"


def changes_globals(call: Callable[..., Any]) -> str | None:
    """Return the warning for a function that assigns a global variable, or appends to a global list; else ``None``.

    >>> seen = []
    >>> def remember(value):
    ...     seen.append(value)
    ...     return value
    >>> "appends to 'seen', of which each worker has a copy" in changes_globals(remember)
    True
    >>> changes_globals(str.split)
    """
    function = getattr(call, "__func__", call)
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:
        return None
    known = getattr(function, "__globals__", {})
    for does, name, line in changes_of_globals(code):
        if does == "assigns" or isinstance(known.get(name), list):
            place = f"{os.path.basename(code.co_filename)}, line {line}"
            how = f"{does} {name!r}" if does == "assigns" else f"{does} to {name!r}"
            return (
                f"its function {code.co_name!r} ({place}) {how}, of which each worker has a copy: the program's own stays as "
                "it is. Emit what is wanted, take it with execute_and_collect(), or count with a metric."
            )
    return None


class MissingResults:
    """Watches the first results of a map, block by block."""

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self._warn = warn
        self._count = 0

    def goes_on(self, results: Sequence[Any]) -> bool:
        """Look at the results of a block; return False if there is nothing more to watch."""
        if results and type(results[0]) in _UNFINISHED:
            kind = type(results[0]).__name__
            raise TypeError(
                f"the function of a map returned a {kind}, which is no record. "
                + (
                    "Return list(...) of it, or use flat_map()."
                    if kind == "generator"
                    else "Await it in an AsyncFunction."
                )
            )
        if any(result is not None for result in results):
            return False
        self._count += len(results)
        if self._count < RECORDS:
            return True
        self._warn(KIND, f"its function has returned None for each of its first {self._count:,} records. {_REMEDY}")
        return False
