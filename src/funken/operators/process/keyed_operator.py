"""The operator SDK for keyed streams: a base class with a method per record and per timer, and the spec that gives it its keys.

``KeyedOperator`` is what a library derives from: one or two inputs, keyed state, timers. One that handles whole blocks
overrides ``process`` and ``watermark`` as well, and sets ``current_key`` itself; without keys, it derives from ``Operator``.
``stream.transform(name, spec)`` runs either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from funken.dataclass import dataclass
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, Output, OutputTag, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.results import Results
from funken.operators.traits import OperatorTraits, SpecWrapper
from funken.operators.user_functions import UserFunction
from funken.state.backend import FileSnapshotBackend
from funken.state.descriptors import StateDescriptor
from funken.state.keyed import NO_KEY
from funken.state.keys.normal import PLAIN, normal_key
from funken.timing.instants import checked_time

_FLUSH = 4096
"""How many results of timers are held back at most."""


class KeyedOperator(Operator):
    """Base of an operator on one keyed stream, or on two.

    Override ``process_element``, with two inputs ``process_element2``, and ``on_event_time`` or ``on_processing_time``. State
    that ``state`` returned is that of the current key.

    >>> from dataclasses import dataclass
    >>> from funken import ValueStateDescriptor
    >>> from funken.testing import local
    >>> class CountLogic(KeyedOperator):
    ...     def open(self):
    ...         self.count = self.state(ValueStateDescriptor("count", default=0))
    ...     def process_element(self, value, timestamp):
    ...         self.count.update(self.count.value() + 1)
    ...         self.register_event_time_timer(100)
    ...     def on_event_time(self, timestamp):
    ...         self.emit((self.current_key, self.count.value()), timestamp)
    >>> @dataclass(frozen=True)
    ... class Count:
    ...     def build(self):
    ...         return CountLogic()
    >>> local(["a", "b", "a"]).key_by(str).transform("count", Count()).execute_and_collect(limit=2)
    [('a', 2), ('b', 1)]
    """

    keeps_output = True
    keys: tuple[Callable[[Any], Any], ...] = ()
    """The key selectors of the inputs; set before ``setup``."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        assert context.keyed is not None and context.timers is not None
        self.__store, self.__timers = context.keyed, context.timers
        self.__results = Results()
        self.__results.configure(context)
        self.__at = MIN_TIMESTAMP
        #: when event-time timers are due, the earliest first; always the same object
        self.event_times: Sequence[int] = context.timers.event_times

    # ---- to be overridden

    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Handle a record of the first input."""
        raise NotImplementedError

    def process_element2(self, value: Any, timestamp: int | None) -> None:
        """Handle a record of the second input."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int) -> None:
        """An event-time timer of the current key is due."""

    def on_processing_time(self, timestamp: int) -> None:
        """A processing-time timer of the current key is due."""

    # ---- to be called

    @property
    def current_key(self) -> Any:
        """The key of the record, or of the timer; an operator that handles whole blocks sets it before it uses state."""
        return self.__store.current_key

    @current_key.setter
    def current_key(self, key: Any) -> None:
        self.__store.current_key = key

    @property
    def state_in_files(self) -> bool:
        """Whether the state backend has its state in files, so that state may be larger than memory."""
        return isinstance(self.__store.backend, FileSnapshotBackend)

    def state(self, descriptor: StateDescriptor) -> Any:
        """Return the handle of a keyed state; call it in ``open``."""
        return self.__store.state(descriptor)

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self.__timers.current_processing_time()

    def emit(self, value: Any, timestamp: int | None = None) -> None:
        """Emit a record, by default with the timestamp of the record or event-time timer that is handled."""
        self.__results.values.append(value)
        self.__results.stamps.append(self.__at if timestamp is None else timestamp)

    def emit_side(self, tag: OutputTag, value: Any, timestamp: int | None = None) -> None:
        """Emit a record to a side output."""
        self.__results.side((tag, value), self.__at if timestamp is None else timestamp)

    def emit_results(self, made: Iterable[Any] | None, timestamp: int | None = None) -> None:
        """Emit what a function of the program returned: records, and pairs of ``OutputTag`` and record to side outputs.

        A record that the function could change later is copied.
        """
        self.__results.take(made, self.__at if timestamp is None else timestamp)

    def emit_result(self, made: Any, timestamp: int | None = None) -> None:
        """Emit one record that a function of the program returned, as ``emit_results`` does."""
        self.__results.add(made, self.__at if timestamp is None else timestamp)

    def own(self, records: list[Any]) -> list[Any]:
        """Return records that a function of the program may change: copies of those that can be changed."""
        return self.__results.own_block(records)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Let ``on_event_time`` be called when the watermark reaches ``timestamp``."""
        self.__timers.register_event_time_timer(self.current_key, None, checked_time(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer of the current key."""
        self.__timers.delete_event_time_timer(self.current_key, None, checked_time(timestamp))

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Let ``on_processing_time`` be called when processing time reaches ``timestamp``."""
        self.__timers.register_processing_time_timer(self.current_key, None, checked_time(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer of the current key."""
        self.__timers.delete_processing_time_timer(self.current_key, None, checked_time(timestamp))

    # ---- the engine's side

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the first input."""
        self.__each(self.process_element, self.keys[0], values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of the second input."""
        self.__each(self.process_element2, self.keys[1], values, timestamps)

    def __each(
        self, handle: Callable[[Any, int | None], None], key_of: Callable[[Any], Any], values: Values, timestamps: Timestamps
    ) -> None:  # fmt: skip
        store = self.__store
        self.context.next_time()
        stamps = repeat(MIN_TIMESTAMP, len(values)) if timestamps is None else timestamps
        for value, at in zip(values, stamps, strict=True):
            key = key_of(value)
            store.current_key = key if type(key) in PLAIN else normal_key(key)
            self.__at = at
            handle(value, None if at == MIN_TIMESTAMP else at)
        self.flush()

    def watermark(self, watermark: int) -> None:
        """Fire the event-time timers that are due, then pass the watermark on."""
        self.current_watermark = watermark
        if not self.context.batch:
            self.fire_event_time_timers(watermark)
        elif watermark == MAX_WATERMARK:
            self.__timers.drain(self.__fire_event_time, self.__fire_processing_time)
        self.flush()
        self.output.watermark(watermark)

    def fire_event_time_timers(self, timestamp: int) -> None:
        """Fire the event-time timers up to ``timestamp``; for an operator with a ``watermark`` of its own."""
        self.__timers.advance_watermark(timestamp, self.__fire_event_time)

    def fire_processing_time_timers(self, timestamp: int) -> None:
        """Fire the processing-time timers up to ``timestamp``; for an operator with a ``watermark`` of its own."""
        self.__timers.advance_processing_time(timestamp, self.__fire_processing_time)

    def next_tick(self) -> int | None:
        """Return when the next processing-time timer is due."""
        return None if self.context.batch else self.__timers.next_processing_time()

    def tick(self, now: int) -> None:
        """Fire the processing-time timers that are due."""
        self.fire_processing_time_timers(now)
        self.flush()

    def __fire_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.context.next_time()
        self.__store.current_key, self.__at = key, timestamp
        self.on_event_time(timestamp)
        if len(self.__results.values) >= _FLUSH:
            self.__send()

    def __fire_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        self.context.next_time()
        self.__store.current_key, self.__at = key, MIN_TIMESTAMP
        self.on_processing_time(timestamp)
        if len(self.__results.values) >= _FLUSH:
            self.__send()

    def flush(self, at_least: int = 0) -> None:
        """Send on what was emitted, and leave the current key; with ``at_least``: only if there are as many records."""
        if len(self.__results.values) >= at_least:
            self.__store.current_key, self.__at = NO_KEY, MIN_TIMESTAMP
            self.__send()

    def __send(self) -> None:
        self.__results.emit(self.output, stamped=self.__results.stamped)


@dataclass(frozen=True)
class KeyedTransform(SpecWrapper):
    """The spec of an operator on a keyed stream, and the key selectors of its inputs."""

    key1: UserFunction
    key2: UserFunction | None = None

    @property
    def traits(self) -> OperatorTraits:
        """The traits of the operator, and its keys."""
        keys = (self.key1,) if self.key2 is None else (self.key1, self.key2)
        return replace(super().traits, keys=keys)

    def build(self) -> Operator:
        """Make the logic of one subtask; a ``KeyedOperator`` is given its keys."""
        operator = self.spec.build()
        if isinstance(operator, KeyedOperator):
            operator.keys = tuple(key.bind() for key in (self.key1, self.key2) if key is not None)
        return operator


__all__ = ["KeyedOperator", "KeyedTransform"]
