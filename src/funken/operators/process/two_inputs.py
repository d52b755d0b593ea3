"""Functions over two connected streams: map, flat_map and process, with or without keys.

The two inputs share one function, its state and (on keyed streams) its timers. Nothing is said about the order of
records of different inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken.dataclass import dataclass
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.process.contexts import KeyedContext, ProcessContext
from funken.operators.process.one_input import ProcessOperator, TimerOperator
from funken.operators.traits import OperatorTraits
from funken.operators.user_functions import UserFunction


def _two_keys(key1: UserFunction | None, key2: UserFunction | None) -> OperatorTraits:
    return OperatorTraits(keys=() if key1 is None else (key1, key2))


@dataclass(frozen=True)
class _OfTwo:
    """A function for each input, without timers. Keys make keyed state available."""

    function: UserFunction
    key1: UserFunction | None = None
    key2: UserFunction | None = None

    @property
    def traits(self) -> OperatorTraits:
        """The keys, if there are any."""
        return _two_keys(self.key1, self.key2)

    def build(self) -> Operator:
        """Make the logic."""
        return CoMapLogic(self, *self.calls())

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return what is called with the records of each input."""
        raise NotImplementedError


class CoMap(_OfTwo):
    """``map1`` and ``map2`` of a ``CoMapFunction``; ``None`` is dropped."""

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return what is called with the records of each input."""
        target = self.function.target
        return _one_or_none(target.map1), _one_or_none(target.map2)


class CoFlatMap(_OfTwo):
    """``flat_map1`` and ``flat_map2`` of a ``CoFlatMapFunction``."""

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return what is called with the records of each input."""
        target = self.function.target
        return _without_context(target.flat_map1), _without_context(target.flat_map2)


class CoProcess(_OfTwo):
    """``process_element1`` and ``process_element2`` of a ``CoProcessFunction``; timers are refused."""

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return what is called with the records of each input."""
        return self.function.target.process_element1, self.function.target.process_element2


ElementFunction = Callable[[Any, ProcessContext], Iterable[Any] | None]


def _one_or_none(call: Callable[[Any], Any]) -> ElementFunction:
    def process(value: Any, context: ProcessContext) -> Iterable[Any] | None:
        made = call(value)
        return None if made is None else (made,)

    return process


def _without_context(call: Callable[[Any], Iterable[Any] | None]) -> ElementFunction:
    return lambda value, context: call(value)


class CoMapLogic(ProcessOperator):
    """Calls one of two functions, without timers."""

    def __init__(self, spec: _OfTwo, first: ElementFunction, second: ElementFunction) -> None:
        super().__init__(spec.function)
        self._first, self._second = first, second
        self._key1 = spec.key1.bind() if spec.key1 else None
        self._key2 = spec.key2.bind() if spec.key2 else None

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._context = ProcessContext(self, self._results)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the first input."""
        self._run(self._first, self._context, values, timestamps, self._key1)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the second input."""
        self._run(self._second, self._context, values, timestamps, self._key2)


@dataclass(frozen=True)
class KeyedCoProcess:
    """``process_element1``, ``process_element2`` and ``on_timer`` of a ``KeyedCoProcessFunction``."""

    function: UserFunction
    key1: UserFunction
    key2: UserFunction

    @property
    def traits(self) -> OperatorTraits:
        """The keys."""
        return _two_keys(self.key1, self.key2)

    def build(self) -> Operator:
        """Make the logic."""
        return KeyedCoProcessLogic(self.function, self.key1, self.key2)


class KeyedCoProcessLogic(TimerOperator):
    """Calls the function with the key of each record current."""

    def __init__(self, function: UserFunction, key1: UserFunction, key2: UserFunction) -> None:
        super().__init__(function)
        self._key1, self._key2 = key1.bind(), key2.bind()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._context = KeyedContext(self, self._results)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the first input."""
        self._run(self._function.target.process_element1, self._context, values, timestamps, self._key1)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the second input."""
        self._run(self._function.target.process_element2, self._context, values, timestamps, self._key2)
