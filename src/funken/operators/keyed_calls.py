"""map, flat_map and filter on a keyed stream with a function that has state: one key is current at each call.

Functions without ``open`` cannot reach state, and are run by ``stateless.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.calls import Call
from funken.operators.context import OperatorContext
from funken.operators.process import ProcessOperator
from funken.operators.process_context import ProcessContext


class Shape(enum.Enum):
    """What the function's result means."""

    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"


@dataclass(frozen=True)
class KeyedCalls:
    """A function per record, with keyed state."""

    function: Call
    key: Call
    shape: Shape

    def build(self) -> Operator:
        """Make the logic."""
        return KeyedCallsLogic(self)


class KeyedCallsLogic(ProcessOperator):
    """Calls the function with the key of each record current."""

    def __init__(self, spec: KeyedCalls) -> None:
        super().__init__(spec.function)
        self._key = spec.key.bind()
        self._process = _ADAPTERS[spec.shape](spec.function.bind())

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._context = ProcessContext(self, self._results)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block."""
        self._run(self._process, self._context, values, timestamps, self._key)


Process = Callable[[Any, ProcessContext], Iterable[Any] | None]


def _map(call: Callable[[Any], Any]) -> Process:
    return lambda value, context: (call(value),)


def _flat_map(call: Callable[[Any], Any]) -> Process:
    return lambda value, context: call(value)


def _filter(call: Callable[[Any], Any]) -> Process:
    return lambda value, context: (value,) if call(value) else None


_ADAPTERS = {Shape.MAP: _map, Shape.FLAT_MAP: _flat_map, Shape.FILTER: _filter}
