"""Functions over two connected streams: map, flat_map and process, with or without keys.

The two inputs share one function, its state and (on keyed streams) its timers. Nothing is said about the order of
records of different inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, cast

from funken.dataclass import dataclass
from funken.errors import StateError
from funken.ids import MAX_WATERMARK
from funken.operators.base import Operator, OperatorContext, Output, Timestamps, Values
from funken.operators.mistakes import source_mistakes
from funken.operators.process.keyed_operator import (
    KeyedContext,
    OnTimerContext,
    ProcessContext,
    TimerService,
    UnkeyedTimerService,
)
from funken.operators.process.one_input import ProcessOperator, TimerOperator
from funken.operators.user_functions import (
    KIND,
    OperatorTraits,
    UserFunction,
    without_return,
)
from funken.state.backend import Table
from funken.state.descriptors import MapStateDescriptor
from funken.state.handles import SHARED, MapState
from funken.types.callables import Generic, K, K_co, V, check_kind

_METHODS = ("process_element1", "process_element2", "map1", "map2", "flat_map1", "flat_map2")
"""The methods of functions of two inputs."""
ElementFunction = Callable[[Any, ProcessContext], Iterable[Any] | None]


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

    def _warnings(self) -> Iterator[tuple[str, str]]:
        yield from super()._warnings()
        target = self._function.target
        calls = [getattr(target, name) for name in _METHODS if hasattr(target, name)]
        for call in calls:
            yield from source_mistakes(target, call)
        silent = [without_return(call, "Yield the results.", "yields nothing, as the other one") for call in calls]
        on_timer = getattr(type(target), "on_timer", None)
        if silent and None not in silent and (on_timer is None or (on_timer.__module__ or "").startswith("funken.")):
            yield KIND, str(silent[0])

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the first input."""
        self._run(self._first, self._context, values, timestamps, self._key1)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the second input."""
        self._run(self._second, self._context, values, timestamps, self._key2)


class KeyedCoProcessLogic(CoMapLogic, TimerOperator):
    """Calls the function with the key of each record current, and for timers."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._context = KeyedContext(self, self._results)


@dataclass(frozen=True)
class _OfTwo:
    """A function for each input. Keys make keyed state available."""

    logic: ClassVar[type[CoMapLogic]] = CoMapLogic
    function: UserFunction
    key1: UserFunction | None = None
    key2: UserFunction | None = None

    @property
    def traits(self) -> OperatorTraits:
        """The keys, if there are any."""
        keys = () if self.key1 is None else (self.key1, self.key2)
        return OperatorTraits(keys=keys, side_functions=(self.function,))

    def build(self) -> Operator:
        """Make the logic."""
        return self.logic(self, *self.calls())

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return the functions for the records of each input."""
        raise NotImplementedError


class CoMap(_OfTwo):
    """``map1`` and ``map2`` of a ``CoMapFunction``; ``None`` is dropped."""

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return the functions for the records of each input."""
        target = self.function.target
        return _one_or_none(target.map1), _one_or_none(target.map2)


class CoFlatMap(_OfTwo):
    """``flat_map1`` and ``flat_map2`` of a ``CoFlatMapFunction``."""

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return the functions for the records of each input."""
        target = self.function.target
        return _without_context(target.flat_map1), _without_context(target.flat_map2)


class CoProcess(_OfTwo):
    """``process_element1`` and ``process_element2`` of a ``CoProcessFunction``; timers are refused."""

    def calls(self) -> tuple[ElementFunction, ElementFunction]:
        """Return the functions for the records of each input."""
        return self.function.target.process_element1, self.function.target.process_element2


def _one_or_none(call: Callable[[Any], Any]) -> ElementFunction:
    def process(value: Any, context: ProcessContext) -> Iterable[Any] | None:
        made = call(value)
        return None if made is None else (made,)

    return process


def _without_context(call: Callable[[Any], Iterable[Any] | None]) -> ElementFunction:
    return lambda value, context: call(value)


class KeyedCoProcess(CoProcess):
    """``process_element1``, ``process_element2`` and ``on_timer`` of a ``KeyedCoProcessFunction``."""

    logic = KeyedCoProcessLogic


# ---- Broadcast process functions: a main input beside one that every subtask gets in full, and state made of the
# latter.
#
# The first input is the main one, the second the broadcast one. Broadcast state is a map that only the broadcast
# side may write; it lives in ``context.operator_state.broadcast`` as one dict per descriptor, by its name. In
# ``BATCH`` the main input is held back until the broadcast input has ended; otherwise nothing is said about their
# order.


class ReadOnlyBroadcastState(Generic[K, V]):
    """The reading half of a ``MapState``: the main side's view of broadcast state.

    >>> from funken import BroadcastProcessFunction
    >>> from funken.testing import OperatorHarness
    >>> PRICES = MapStateDescriptor("prices")
    >>> class Priced(BroadcastProcessFunction):
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(PRICES).put(*value)
    ...     def process_element(self, value, ctx):
    ...         prices = ctx.get_broadcast_state(PRICES)
    ...         if prices.is_empty() or not prices.contains(value):
    ...             yield f"no price for {value} among {list(prices.items())}"
    ...         else:
    ...             yield value, prices.get(value), list(prices.keys()), sum(prices.values())
    >>> harness = OperatorHarness(BroadcastProcess(UserFunction(Priced(), rich=True), (PRICES,)))
    >>> harness.feed_second(("tea", 3))
    >>> harness.feed("tea")
    >>> harness.feed("milk")
    >>> harness.output
    [('tea', 3, ['tea'], 3), "no price for milk among [('tea', 3)]"]
    """

    __slots__ = ("_state",)

    def __init__(self, state: MapState[K, V]) -> None:
        self._state = state

    def get(self, key: K) -> V | None:
        """Return the value of a key of the map, or ``None``."""
        return self._state.get(key)

    def contains(self, key: object) -> bool:
        """Return True if the map has a key."""
        return self._state.contains(key)

    def is_empty(self) -> bool:
        """Return True if the map has no entries."""
        return self._state.is_empty()

    def keys(self) -> Iterator[K]:
        """Iterate over the keys."""
        yield from self._state.keys()

    def values(self) -> Iterator[V]:
        """Iterate over the values."""
        yield from self._state.values()

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over pairs of key and value."""
        yield from self._state.items()

    def __getitem__(self, key: K) -> V | None:
        return self._state.get(key)

    def __contains__(self, key: object) -> bool:
        return self._state.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()


class BroadcastStates:
    """The broadcast states of one operator subtask, by name."""

    __slots__ = ("_operator", "_states")

    def __init__(self, operator: Operator, descriptors: Iterable[MapStateDescriptor]) -> None:
        self._operator = operator.context.operator
        table = cast(Table, operator.context.operator_state.broadcast)
        self._states = {d.name: MapState(d, table, _always(d.name)) for d in descriptors}
        for state in self._states.values():  # read for every record of the main side, which only reads
            state.plain = SHARED

    def writable(self, descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return a state for the broadcast side."""
        check_kind(descriptor, MapStateDescriptor, "get_broadcast_state()", "Give the descriptor that broadcast() has.")
        state = self._states.get(descriptor.name)
        if state is None:
            raise StateError(
                f"operator {self._operator!r} requested the broadcast state {descriptor.name!r}, which was not "
                f"declared; declared: {', '.join(sorted(self._states)) or 'none'}. Pass the descriptor to "
                "broadcast(...)."
            )
        return state

    def readable(self, descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
        """Return a state for the main side."""
        return ReadOnlyBroadcastState(self.writable(descriptor))


class _BroadcastView:
    """The base of the contexts of both sides."""

    __slots__ = ()

    _states: BroadcastStates
    _timer_service: TimerService | UnkeyedTimerService

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._timer_service.current_processing_time()

    def current_watermark(self) -> int:
        """Return the present event time; ``-2**63`` before the first watermark."""
        return self._timer_service.current_watermark()


class _ReadOnlyView(_BroadcastView):
    """The base of the contexts of the main side and of timers."""

    __slots__ = ()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
        """Return a broadcast state, to read only."""
        return self._states.readable(state_descriptor)


def _always(slot: str) -> Callable[[], str]:
    return lambda: slot


class BroadcastContext(_BroadcastView, ProcessContext):
    """The context of ``process_broadcast_element``."""

    __slots__ = ("_states",)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return a broadcast state, to read and write."""
        return self._states.writable(state_descriptor)


class ReadOnlyContext(_ReadOnlyView, ProcessContext):
    """The context of ``process_element`` of a ``BroadcastProcessFunction``."""

    __slots__ = ("_states",)


class KeyedReadOnlyContext(_ReadOnlyView, KeyedContext[K_co]):
    """The context of ``process_element`` of a ``KeyedBroadcastProcessFunction``."""

    __slots__ = ("_states",)


class ReadOnlyOnTimerContext(_ReadOnlyView, OnTimerContext[K_co]):
    """The context of ``on_timer`` of a ``KeyedBroadcastProcessFunction``."""

    __slots__ = ("_states",)


@dataclass(frozen=True)
class BroadcastProcess:
    """The methods of a ``BroadcastProcessFunction``; with the key of the main input, of a ``KeyedBroadcastProcessFunction``."""

    function: UserFunction
    states: tuple[MapStateDescriptor, ...]
    key: UserFunction | None = None

    @property
    def traits(self) -> OperatorTraits:
        """The function, and the key of the main input."""
        return OperatorTraits(keys=() if self.key is None else (self.key, None), side_functions=(self.function,))

    def build(self) -> Operator:
        """Make the logic."""
        if self.key is None:
            return BroadcastProcessLogic(self.function, self.states)
        return KeyedBroadcastProcessLogic(self.function, self.key, self.states)


class BroadcastProcessLogic(ProcessOperator):
    """Calls the function for both sides, without a key; holds the main side back in ``BATCH``."""

    def __init__(self, function: UserFunction, states: tuple[MapStateDescriptor, ...]) -> None:
        super().__init__(function)
        self._descriptors = states
        self._holding = False
        self._held: list[tuple[Values, Timestamps]] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._holding = context.batch

    def open(self) -> None:
        """Make the contexts, now that operator state is restored, and open the user's function."""
        self._make_contexts(BroadcastStates(self, self._descriptors))
        super().open()

    def _make_contexts(self, states: BroadcastStates) -> None:
        self._broadcast_context = BroadcastContext(self, self._results)
        self._broadcast_context._states = states
        self._main_context = ReadOnlyContext(self, self._results)
        self._main_context._states = states

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the main input, or hold it back."""
        if self._holding:
            self._held.append((values, timestamps))
        else:
            self._process_main(values, timestamps)

    def _process_main(self, values: Values, timestamps: Timestamps) -> None:
        self._run(self._function.target.process_element, self._main_context, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Process a block of the broadcast input."""
        self._run(self._function.target.process_broadcast_element, self._broadcast_context, values, timestamps)

    def end_input(self, index: int) -> None:
        """Once the broadcast input has ended, process the held records."""
        if index == 1:
            self._release()

    def watermark(self, watermark: int) -> None:
        """Pass the watermark on; at the last one, nothing is held back any more."""
        if watermark == MAX_WATERMARK:
            self._release()
        super().watermark(watermark)

    def _release(self) -> None:
        self._holding = False
        held, self._held = self._held, []
        for values, timestamps in held:
            self._process_main(values, timestamps)


class KeyedBroadcastProcessLogic(BroadcastProcessLogic, TimerOperator):
    """Calls the function with the key of each main record current; for broadcast records there is none."""

    def __init__(self, function: UserFunction, key: UserFunction, states: tuple[MapStateDescriptor, ...]) -> None:
        super().__init__(function, states)
        self._key = key.bind()

    def _make_contexts(self, states: BroadcastStates) -> None:
        super()._make_contexts(states)
        self._keyed_context = KeyedReadOnlyContext(self, self._results)
        self._keyed_context._states = states
        self._timer_context = on_timer = ReadOnlyOnTimerContext(self, self._results)
        on_timer._states = states

    def _process_main(self, values: Values, timestamps: Timestamps) -> None:
        self._run(self._function.target.process_element, self._keyed_context, values, timestamps, self._key)
