"""map, flat_map and filter on a keyed stream with a function that has state: one key is current at each call.

Functions without ``open`` cannot reach state, and are run by ``operators/stateless.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken.dataclass import dataclass
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.missing_results import KIND, without_return
from funken.operators.process.contexts import ProcessContext
from funken.operators.process.dead_letters import guarded
from funken.operators.process.one_input import ProcessOperator
from funken.operators.stateless import CatchingMap, ResultKind
from funken.operators.traits import OperatorTraits
from funken.operators.user_functions import UserFunction


@dataclass(frozen=True)
class KeyedMap:
    """A function per record, with keyed state."""

    function: UserFunction
    key: UserFunction
    kind: ResultKind

    @property
    def traits(self) -> OperatorTraits:
        """The key."""
        return OperatorTraits(keys=(self.key,), keeps_type=self.kind is ResultKind.FILTER, catching=lambda: self)

    def build(self) -> Operator:
        """Make the logic."""
        return KeyedMapLogic(self)


class KeyedMapLogic(ProcessOperator):
    """Calls the function with each record, whose key is current if there is one."""

    def __init__(self, spec: KeyedMap | CatchingMap) -> None:
        super().__init__(spec.function)
        self._kind = spec.kind
        self._key = spec.key.bind() if isinstance(spec, KeyedMap) else None
        self._process = _ADAPTERS[spec.kind](spec.function.bind())

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._process = guarded(self._process, context)
        self._context = ProcessContext(self, self._results)

    def open(self) -> None:
        """Open the user's function; warn of one that forgot its ``return``."""
        super().open()
        warn_of(self._function, self._kind, self.context)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block."""
        self._run(self._process, self._context, values, timestamps, self._key)


def warn_of(function: UserFunction, kind: ResultKind, context: OperatorContext) -> None:
    """Warn of a function of ``map`` whose code returns nothing."""
    warning = without_return(function.bind()) if kind is ResultKind.MAP else None
    if warning is not None:
        context.warn(KIND, warning)


ElementFunction = Callable[[Any, ProcessContext], Iterable[Any] | None]


def _map(call: Callable[[Any], Any]) -> ElementFunction:
    return lambda value, context: (call(value),)


def _flat_map(call: Callable[[Any], Any]) -> ElementFunction:
    return lambda value, context: call(value)


def _filter(call: Callable[[Any], Any]) -> ElementFunction:
    return lambda value, context: (value,) if call(value) else None


_ADAPTERS = {ResultKind.MAP: _map, ResultKind.FLAT_MAP: _flat_map, ResultKind.FILTER: _filter}
