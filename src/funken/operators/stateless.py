"""Operators that remember nothing: map, filter, flat_map, project. One comprehension per block each."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import partial
from types import GeneratorType
from typing import Any, ClassVar

from funken.dataclass import dataclass
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.mistakes import changed_result
from funken.operators.user_functions import (
    KIND,
    Conditions,
    LoopCall,
    MissingResults,
    OperatorTraits,
    Several,
    UserFunction,
    late_operator,
    without_return,
)


class UserFunctionOperator(Operator):
    """Base of operators around one user function."""

    def __init__(self, function: UserFunction) -> None:
        self._function = function
        self.call = function.bind()

    def open(self) -> None:
        """Open the user's function."""
        self._function.open(self.context)

    def close(self) -> None:
        """Close the user's function."""
        self._function.close()

    def warn(self, kind: str, text: str) -> None:
        """Warn, once there is a context."""
        self.context.warn(kind, text)


class ResultKind(enum.Enum):
    """The meaning of the function's result."""

    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"


@dataclass(frozen=True)
class KeyedMap:
    """A function per record, with keyed state, or, without a key, under an error policy.

    A function with neither is faster in the operators below.
    """

    function: UserFunction
    key: UserFunction | None
    kind: ResultKind

    @property
    def traits(self) -> OperatorTraits:
        """The key; a filter changes no record."""
        keys = () if self.key is None else (self.key,)
        return OperatorTraits(keys=keys, keeps_type=self.kind is ResultKind.FILTER, catching=lambda: self)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.process.one_input:KeyedMapLogic", self)


@dataclass(frozen=True)
class _PerRecord:
    """A spec whose loop may be one with those of its neighbours."""

    function: UserFunction
    kind: ClassVar[ResultKind]

    @property
    def traits(self) -> OperatorTraits:
        """A filter changes no record."""
        calls = (LoopCall(self.function),)
        return OperatorTraits(
            loop=calls,
            calls=calls,
            fusable=True,
            keeps_type=self.kind is ResultKind.FILTER,
            catching=partial(KeyedMap, self.function, None, self.kind),
            side_functions=(),
        )

    def build(self) -> Operator:
        """Make the logic."""
        return _LOGICS[self.kind](self.function)


class Map(_PerRecord):
    """One record for each record."""

    kind = ResultKind.MAP


class Filter(_PerRecord):
    """The records for which the function is true."""

    kind = ResultKind.FILTER


class FlatMap(_PerRecord):
    """Any number of records for each record; the function returns an iterable, or ``None`` for no record."""

    kind = ResultKind.FLAT_MAP


class MapLogic(UserFunctionOperator):
    """Keeps timestamps."""

    _watched: MissingResults | None = None

    def open(self) -> None:
        """Open the user's function, and begin to look whether it returns results."""
        super().open()
        warning = without_return(self.call) or changed_result(self.call)
        if warning is None:
            self._watched = MissingResults(self.context.warn)
        else:
            self.context.warn(KIND, warning)

    def look_at(self, results: Sequence[Any]) -> None:
        """Notice results that are all ``None``, in the first blocks."""
        if self._watched is not None and not self._watched.goes_on(results):
            self._watched = None

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Map a block."""
        call, rest = self.call, iter(values)
        results = [call(value) for value in rest]
        if self._watched is not None:
            self.look_at(results)
        self.output.emit(results, timestamps)


class FilterLogic(UserFunctionOperator):
    """Keeps timestamps."""

    def __init__(self, function: UserFunction) -> None:
        super().__init__(function)
        self.conditions = Conditions(self.call, self.warn)

    def open(self) -> None:
        """Open the user's function, and look whether it can keep a record."""
        super().open()
        warning = without_return(self.call, "Return the condition.", "returns nothing, so no record is kept")
        if warning is not None:
            self.context.warn(KIND, warning)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Filter a block."""
        keep, rest = self.call, iter(values)
        if self.conditions.awaited:
            keep = self._looked_at
        if timestamps is None:
            kept, stamps = [value for value in rest if keep(value)], None
        else:
            pairs = [(value, at) for value, at in zip(rest, timestamps, strict=True) if keep(value)]
            kept, stamps = [value for value, _ in pairs], [at for _, at in pairs]
        if kept:
            self.output.emit(kept, stamps)

    def _looked_at(self, value: Any) -> Any:
        return self.conditions.look_at(self.call(value))


class FlatMapLogic(UserFunctionOperator):
    """An operator that expands records; results carry the timestamp of their record."""

    def __init__(self, function: UserFunction) -> None:
        super().__init__(function)
        self.check = Several(self.warn)

    def open(self) -> None:
        """Open the user's function, and look whether it can return a record."""
        super().open()
        warning = without_return(self.call, "Yield or return the results.", "returns nothing, so no record comes of it")
        if warning is not None:
            self.context.warn(KIND, warning)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Expand a block."""
        call = self.call
        results: list[Any] = []
        extend = results.extend
        if timestamps is None:
            for value in values:
                made = call(value)
                if made is not None:
                    if type(made) is not list and type(made) is not GeneratorType:
                        self.check(made)
                    extend(made)
            if results:
                self.output.emit(results, None)
            return
        stamps: list[int] = []
        for value, at in zip(values, timestamps, strict=True):
            made = call(value)
            if made is not None:
                if type(made) is not list and type(made) is not GeneratorType:
                    self.check(made)
                before = len(results)
                extend(made)
                stamps.extend([at] * (len(results) - before))
        if results:
            self.output.emit(results, stamps)


_LOGICS: dict[ResultKind, type[UserFunctionOperator]] = {
    ResultKind.MAP: MapLogic,
    ResultKind.FILTER: FilterLogic,
    ResultKind.FLAT_MAP: FlatMapLogic,
}


class MapBlockLogic(UserFunctionOperator):
    """Calls the function with the whole block: a list of records in, a list of records out.

    Timestamps are kept if the lists have the same length, and dropped otherwise.
    """

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Hand the block over (a copy: the function may change it)."""
        made = list(self.call(list(values)))
        if made:
            self.output.emit(made, timestamps if len(made) == len(values) else None)
