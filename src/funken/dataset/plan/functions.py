"""User functions as a plan carries them, and the function classes that only the DataSet API has.

A plain callable is used as it is. An object with a life cycle (``open``, ``close``) is copied for each subtask, so that no
two subtasks share what it keeps.
"""

from __future__ import annotations

import inspect
import opcode
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import CodeType
from typing import Any

from funken import Function
from funken.config.configuration import warn
from funken.errors import InvalidProgram
from funken.io.shapes import dumps_by_value
from funken.operators.user_functions import without_return
from funken.types.callables import (
    Generic,
    IN1_contra,
    IN2_contra,
    IN_contra,
    OUT_co,
    check_arguments,
    check_function,
    check_methods,
)


@dataclass(frozen=True, eq=False)
class DataSetFunction:
    """A function of the program: ``target`` itself, or a method of it."""

    target: Any
    method: str | None = None
    rich: bool = False
    groups: bool = False
    """True if its arguments are iterables of records."""

    def bind(self) -> Callable[..., Any]:
        """Return the callable for each record, or each group of records."""
        call = self._call()
        return _watched(call) if self.groups else call

    def _call(self) -> Callable[..., Any]:
        call: Callable[..., Any] = self.target if self.method is None else getattr(self.target, self.method)
        return call

    def copy(self) -> DataSetFunction:
        """Return the function for one subtask: a copy of an object with a life cycle."""
        if not self.rich:
            return self
        return replace(self, target=pickle.loads(dumps_by_value(self.target, _not_copied, self)))

    def open(self, context: Any) -> None:
        """Open a function with a life cycle."""
        if self.rich:
            self.target.open(context)

    def close(self) -> None:
        """Close a function with a life cycle."""
        if self.rich:
            self.target.close()

    @property
    def yields(self) -> bool:
        """True if the function is a generator function."""
        return inspect.isgeneratorfunction(self._call())

    def __str__(self) -> str:
        target = self.target.func if isinstance(self.target, partial) else self.target
        name = getattr(target, "__qualname__", None) or type(target).__qualname__
        return "function" if "<lambda>" in name else str(name).rpartition("<locals>.")[2]


def _not_copied(error: Exception, function: DataSetFunction) -> InvalidProgram:
    return InvalidProgram(
        f"{function} has a life cycle and cannot be copied for a subtask: {type(error).__name__}: {error}. Create what cannot be "
        "pickled (a lock, an open file, a connection) in its open()."
    )


_SEVERAL = ("flat_map", "map_partition", "reduce_group", "co_group", "join", "cross", "with_", "using")


_GROUPS = ("map_partition", "reduce_group", "combine_group", "co_group")


_WATCHED = 32
"""Groups per task in which a second loop over the records is refused: watching takes longer than small groups do."""
_NONE = object()


class _Once:
    """The records of a group, as a function gets them: a second loop over them is refused, in which there would be none.

    The same call may ask again, such as ``list(islice(records, 100))`` in a loop.
    """

    __slots__ = ("_asked", "_ended", "_records")

    def __init__(self, first: Any, records: Iterator[Any]) -> None:
        self._ended: list[bool] = []
        self._records = chain((first,), records, _marked(self._ended))
        self._asked: tuple[CodeType, int] | None = None

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        asked = frame.f_code, frame.f_lasti
        loop = frame.f_code.co_code[frame.f_lasti] == _GET_ITER
        if self._ended and (loop or asked != self._asked):
            raise TypeError(
                "the records of a group can be read once. Make a list of them before: records = list(records)."
            )
        self._asked = asked
        return self._records

    def __next__(self) -> Any:
        return next(self._records)


def _marked(ended: list[bool]) -> Iterator[Any]:
    ended.append(True)
    yield from ()


_GET_ITER = opcode.opmap["GET_ITER"]


def _readable_once(records: Iterator[Any]) -> Any:
    first = next(records, _NONE)
    return records if first is _NONE else _Once(first, records)


def _watched(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of groups that is watched in the first ones."""
    left = _WATCHED

    def watched(*groups: Iterator[Any]) -> Any:
        nonlocal left
        if not left:
            return call(*groups)
        left -= 1
        return call(*map(_readable_once, groups))

    return watched


_ARGUMENTS = {
    **dict.fromkeys(("map", "filter", "flat_map"), "the record"),
    **dict.fromkeys(("map_partition", "reduce_group"), "the records"),
    "cross": "the record, the other one",
    "reduce": "the result so far, the record",
}
"""The arguments of functions, by operator."""
_LOST = {
    "map": ("Return the result.",),
    "filter": ("Return the condition.", "returns nothing, so no record is kept"),
}
"""The remedy, and the fact, for functions that return nothing, by operator."""


def user_function(function: Any, method: str, operator: str) -> DataSetFunction:
    """Turn an operator's argument into a function; raise ``InvalidProgram`` if it is none.

    >>> user_function(5, "map", "map")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: map() needs a function, or an object with a method map(), but got 5.
    """
    if isinstance(function, DataSetFunction):
        return function
    if isinstance(function, type) and issubclass(function, Function):
        raise InvalidProgram(f"{operator}() got the class {function.__name__}; give an object: {function.__name__}().")
    rich = callable(getattr(function, "open", None)) and callable(getattr(function, "close", None))
    if isinstance(function, Function) or (hasattr(function, method) and not callable(function)):
        if hasattr(function, method):
            check_methods(function, Function, f"{operator}()")
            check_function(function, method, f"{operator}()", operator in _SEVERAL or None)
            return DataSetFunction(function, method, rich, operator in _GROUPS)
    elif callable(function):
        check_function(function, method, f"{operator}()", operator in _SEVERAL or None)
        if operator in _ARGUMENTS:
            check_arguments(function, method, f"{operator}()", _ARGUMENTS[operator])
        given = _LOST.get(operator)
        silent = without_return(function, *given) if given is not None else None
        if silent is not None:
            warn(f"{operator}(): {silent}")
        return DataSetFunction(function, groups=operator in _GROUPS)
    raise InvalidProgram(f"{operator}() needs a function, or an object with a method {method}(), but got {function!r}.")


class MapPartitionFunction(Function, Generic[IN_contra, OUT_co]):
    """Sees all records of a partition, once; also those of an empty one.

    >>> from funken.dataset import ExecutionEnvironment
    >>> class Count(MapPartitionFunction):
    ...     def map_partition(self, values):
    ...         yield sum(1 for _ in values)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> env.from_elements(5, 6, 7).map_partition(Count()).collect()
    [1, 2]
    """

    def map_partition(self, values: Iterable[IN_contra]) -> Iterable[OUT_co] | None:
        """Return or yield records."""
        raise NotImplementedError


class GroupReduceFunction(Function, Generic[IN_contra, OUT_co]):
    """Sees all records of a group; one that has ``combine`` too may shrink them before they travel.

    >>> from funken.dataset import ExecutionEnvironment
    >>> class Total(GroupReduceFunction):
    ...     def reduce(self, values):
    ...         values = list(values)
    ...         yield values[0][0], sum(value[1] for value in values)
    ...     def combine(self, values):
    ...         return self.reduce(values)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> sorted(env.from_elements(("a", 1), ("b", 5), ("a", 2)).group_by(0).reduce_group(Total()).collect())
    [('a', 3), ('b', 5)]
    """

    def reduce(self, values: Iterable[IN_contra]) -> Iterable[OUT_co] | None:
        """Return or yield records for a group."""
        raise NotImplementedError


class GroupCombineFunction(Function, Generic[IN_contra, OUT_co]):
    """Sees some records of a group, all in one partition, and returns records of any type.

    >>> from funken.dataset import ExecutionEnvironment
    >>> class Part(GroupCombineFunction):
    ...     def combine(self, values):
    ...         values = list(values)
    ...         yield values[0], len(values)
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> sorted(env.from_elements("a", "b", "a").group_by("*").combine_group(Part()).collect())
    [('a', 2), ('b', 1)]
    """

    def combine(self, values: Iterable[IN_contra]) -> Iterable[OUT_co] | None:
        """Return or yield records for some records of a group."""
        raise NotImplementedError


class CrossFunction(Function, Generic[IN1_contra, IN2_contra, OUT_co]):
    """One record for each pair.

    >>> from funken.dataset import ExecutionEnvironment
    >>> class Times(CrossFunction):
    ...     def cross(self, first, second):
    ...         return first * second
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> sorted(env.from_elements(2, 3).cross(env.from_elements(5, 7)).using(Times()).collect())
    [10, 14, 15, 21]
    """

    def cross(self, first: IN1_contra, second: IN2_contra) -> OUT_co:
        """Return one record for two."""
        raise NotImplementedError
