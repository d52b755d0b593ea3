"""Function classes with what PyFlink's have beyond Funken's: type parameters, and the names of their contexts.

``ProcessWindowFunction[str, int, str, TimeWindow]`` is the class itself, as is ``ProcessFunction.Context[T]``: type
parameters and contexts are there to be written into signatures.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

import funken as native
from funken.api.streams import async_io
from funken.compat.pyflink.adoption import refuse, removed
from funken.operators.async_io.retry import AsyncRetryPredicate, AsyncRetryStrategy
from funken.operators.base import RuntimeContext
from funken.operators.process.keyed_operator import (
    KeyedContext,
    OnTimerContext,
    ProcessContext,
    TimeDomain,
    TimerService,
)
from funken.operators.process.two_inputs import (
    BroadcastContext,
    KeyedReadOnlyContext,
    ReadOnlyContext,
    ReadOnlyOnTimerContext,
)
from funken.operators.window.contents import ProcessWindowContext, WindowState


class Subscriptable:
    """A class that may be written with type parameters, which say nothing.

    >>> class Length(KeyedProcessFunction[str, str, int]):
    ...     def process_element(self, value: str, ctx: KeyedProcessFunction.Context):
    ...         yield len(value)
    >>> from funken.testing import local
    >>> local(["to", "bee"]).key_by(lambda word: word).process(Length()).execute_and_collect(limit=2)
    [2, 3]
    """

    __slots__ = ()

    def __class_getitem__(cls, parameters: Any) -> type:
        return cls


def subscriptable(native_class: type, doc: str | None = None, **members: Any) -> Any:
    """Return a class of the same name that may be written with type parameters; a context is of the native class itself."""
    found = {"__slots__": (), "__module__": __name__, "__doc__": doc, **members}
    return type(native_class.__name__, (Subscriptable, native_class), found)


_Context, _KeyedContext, _OnTimer = map(subscriptable, (ProcessContext, KeyedContext, OnTimerContext))
_WindowContext = subscriptable(ProcessWindowContext)

Function = native.Function
KeyedStateStore = WindowState
MapFunction = subscriptable(native.MapFunction, "One record for each record.")
CoMapFunction = subscriptable(native.CoMapFunction, "Maps the records of two connected streams.")
FlatMapFunction = subscriptable(native.FlatMapFunction, "Any number of records for each record.")
CoFlatMapFunction = subscriptable(
    native.CoFlatMapFunction, "Any number of records for each record of two connected streams."
)
AggregateFunction = subscriptable(native.AggregateFunction, "Aggregates records in an accumulator.")
FilterFunction = subscriptable(native.FilterFunction, "Keeps some records.")
Partitioner = subscriptable(native.Partitioner, "Chooses the subtask of a key.")
AsyncFunction = subscriptable(async_io.AsyncFunction, "Asks for something, record by record.")
ProcessFunction = subscriptable(native.ProcessFunction, "Sees each record with its timestamp.", Context=_Context)
KeyedProcessFunction = subscriptable(
    native.KeyedProcessFunction, "Sees each record of a key, with state and timers.",
    Context=_KeyedContext, OnTimerContext=_OnTimer,
)  # fmt: skip
CoProcessFunction = subscriptable(
    native.CoProcessFunction, "Sees the records of two connected streams.", Context=_Context
)
KeyedCoProcessFunction = subscriptable(
    native.KeyedCoProcessFunction, "Sees the records of two connected keyed streams, with state and timers.",
    Context=_KeyedContext, OnTimerContext=_OnTimer,
)  # fmt: skip
ProcessWindowFunction = subscriptable(
    native.ProcessWindowFunction, "Sees all elements of a window of a key, with a context.", Context=_WindowContext
)
ProcessAllWindowFunction = subscriptable(
    native.ProcessAllWindowFunction, "Sees all elements of a window, with a context.", Context=_WindowContext
)


class ReduceFunction(Subscriptable, native.ReduceFunction):
    """Joins two records into one."""


class KeySelector(Subscriptable, native.KeySelector):
    """Extracts a record's key."""


class NullByteKeySelector(KeySelector):
    """A selector that returns the same key for all records.

    >>> from funken.testing import local
    >>> local([1, 2, 3]).key_by(NullByteKeySelector()).reduce(lambda a, b: a + b).execute_and_collect(limit=3)
    [1, 3, 6]
    """

    def get_key(self, value: Any) -> int:
        """Return 0."""
        return 0


class WindowFunction(Subscriptable, native.WindowFunction):
    """Sees all elements of a window of a key."""


class AllWindowFunction(Subscriptable, native.AllWindowFunction):
    """Sees all elements of a window."""


class PassThroughWindowFunction(WindowFunction):
    """Emits the elements of a window as they are.

    >>> from funken.testing import local
    >>> pairs = local([1, 2, 3, 4, 5]).key_by(lambda n: "all").count_window(2)
    >>> pairs.apply(PassThroughWindowFunction()).execute_and_collect(limit=9)
    [1, 2, 3, 4]
    """

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        """Return the elements."""
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction):
    """Emits the elements of a window as they are.

    >>> from funken.testing import local
    >>> pairs = local([1, 2, 3]).count_window_all(2)
    >>> pairs.apply(PassThroughAllWindowFunction()).execute_and_collect(limit=9)
    [1, 2]
    """

    def apply(self, window: Any, inputs: Any) -> Any:
        """Return the elements."""
        return inputs


class BaseBroadcastProcessFunction(Subscriptable, native.Function):
    """The base of both broadcast functions: the names of their contexts."""

    BaseContext = subscriptable(BroadcastContext)
    Context = subscriptable(BroadcastContext)
    ReadOnlyContext = subscriptable(ReadOnlyContext)


class BroadcastProcessFunction(BaseBroadcastProcessFunction, native.BroadcastProcessFunction):
    """Sees a stream, and a broadcast stream that fills broadcast state."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, native.KeyedBroadcastProcessFunction):
    """The same with a keyed first stream."""

    ReadOnlyContext = subscriptable(KeyedReadOnlyContext)
    OnTimerContext = subscriptable(ReadOnlyOnTimerContext)


class JavaFunctionWrapper:
    """Base of PyFlink's wrappers of Java functions: none can be made, each raises ``NotInFunken``.

    >>> SinkFunction("org.example.MySink")
    Traceback (most recent call last):
    ...
    funken.compat.pyflink.adoption.NotInFunken: SinkFunction('org.example.MySink') cannot work: There is no JVM of Flink's
    behind a Funken program. Use FileSink, a subclass of funken.Sink, or for_each(function).
    """

    def __init__(self, j_function: Any) -> None:
        refuse(f"{type(self).__name__}({j_function!r})", self._instead)

    _instead = "Write a Python function."

    def get_java_function(self) -> NoReturn:
        """Raise."""
        refuse("get_java_function()", self._instead)


class SourceFunction(JavaFunctionWrapper):
    """A Java source: refused."""

    _instead = "Use from_collection(), FileSource, or a subclass of funken.Source."

    def __init__(self, source_func: Any) -> None:
        super().__init__(source_func)


class SinkFunction(JavaFunctionWrapper):
    """A Java sink: refused."""

    _instead = "Use FileSink, a subclass of funken.Sink, or for_each(function)."

    def __init__(self, sink_func: Any) -> None:
        super().__init__(sink_func)


class OlderCollector:
    """Takes the results of a process function of PyFlink 1.12; later ones yield them."""

    def __init__(self) -> None:
        self.collected: list[Any] = []

    def collect(self, value: Any) -> None:
        """Emit a result."""
        self.collected.append(value)

    def close(self) -> None:
        """Do nothing: a collector holds no resources."""


def yielding(function: Any) -> Any:
    """Return a process function without collectors for one of PyFlink 1.12, and any other as it is.

    >>> class Twice(ProcessFunction):
    ...     def process_element(self, value, ctx, out):
    ...         out.collect(value)
    ...         out.collect(value)
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     yielding(Twice()).process_element("a", None)
    ['a', 'a']
    """
    cls = type(function)
    own: dict[str, Any] = {name: getattr(cls, name, None) for name in ("process_element", "on_timer")}
    methods = {name: _without_collector(each) for name, each in own.items() if _takes_collector(each)}
    if not methods:
        return function
    removed("a collector as the last parameter", "yield the results instead.")
    made = copy.copy(function)
    made.__class__ = type(cls.__name__, (cls,), {"__module__": cls.__module__, **methods})
    return made


def _takes_collector(method: Any) -> bool:
    if not isinstance(method, FunctionType):
        return False
    parameters = inspect.signature(method).parameters.values()
    wanted = [each for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    return len(wanted) == _WITH_COLLECTOR


_WITH_COLLECTOR = 4  # self, value, context, collector


def _without_collector(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def collected(self: Any, value: Any, ctx: Any) -> list[Any]:
        out = OlderCollector()
        yielded = list(method(self, value, ctx, out) or ())
        return [*yielded, *out.collected]

    del collected.__wrapped__  # its signature has one parameter more
    return collected


__all__ = [
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "Function",
    "KeyedStateStore",
    "RuntimeContext",
    "TimeDomain",
    "TimerService",
]
