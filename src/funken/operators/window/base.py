"""What all window operators share: their life, their clocks and what becomes of late records.

A subclass stores records in ``process`` and defines in ``advance_event_time`` / ``advance_processing_time`` which
windows fire. In ``BATCH`` no record is late and time stands still until the input has ended; then everything fires,
processing-time windows too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funken.errors import StateError, StateNotKeyed
from funken.ids import MAX_WATERMARK
from funken.operators.base import Operator, Output, Values
from funken.operators.context import OperatorContext
from funken.operators.window.functions import WindowEmitter
from funken.operators.window.spec import one_key
from funken.state.keyed import NO_KEY, KeyedStateStore
from funken.state.keys.normal import normal_keys
from funken.windowing.assigners import MergingWindowAssigner

if TYPE_CHECKING:
    from funken.operators.window.spec import WindowSpec


class WindowOperator(Operator):
    """Base of the window logics."""

    store: KeyedStateStore

    def __init__(self, spec: WindowSpec) -> None:
        self.spec = spec
        self.contents = spec.contents.build()
        self._key = spec.key.bind()
        merging = isinstance(spec.assigner, MergingWindowAssigner)
        self.emitter = WindowEmitter(self, self.contents, spec.contents.many, spec.function, merging)

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        if context.keyed is None:
            raise StateNotKeyed(
                f"operator {context.operator!r} is a window without keyed state: its node must be keyed, "
                "with ONE_KEY for windows over all records."
            )
        self.store = context.keyed
        self.emitter.results.configure(context)
        self._late = context.metrics.counter("numLateRecordsDropped")

    def restore(self, snapshot: Any) -> None:
        """Refuse it: all that windows save is keyed state."""
        raise StateError(
            f"operator {self.context.operator!r} is a window, but what was saved for it is not of a window of this "
            "version. Give it another uid, and allow state that is not restored."
        )

    def open(self) -> None:
        """Open the user's functions."""
        self.spec.contents.open(self.context)
        self.emitter.open()

    def close(self) -> None:
        """Close the user's functions."""
        try:
            self.emitter.close()
        finally:
            self.spec.contents.close()

    def watermark(self, watermark: int) -> None:
        """Fire what is due, emit it, pass the watermark on."""
        if not self.context.batch:
            self.current_watermark = watermark
            self.advance_event_time(watermark)
            self._flush_results()
        elif watermark == MAX_WATERMARK:
            self.current_watermark = watermark
            self.fire_all()
            self._flush_results()
        self.output.watermark(watermark)

    def next_tick(self) -> int | None:
        """When the next processing-time window is over: a timer for ms *t* is due when *t* has passed, as in Flink."""
        due = self.next_processing_time()
        return None if due is None or self.context.batch else due + 1

    def tick(self, now: int) -> None:
        """Fire what is due, emit it."""
        self.advance_processing_time(now - 1)
        self._flush_results()

    def advance_event_time(self, watermark: int) -> None:
        """Fire the event-time windows that end at or before ``watermark``."""

    def advance_processing_time(self, time: int) -> None:
        """Fire the processing-time windows that end at or before ``time``."""

    def next_processing_time(self) -> int | None:
        """Return when the next processing-time window ends."""
        return None

    def fire_all(self) -> None:
        """Fire everything that waits for a time (``BATCH``)."""
        raise NotImplementedError

    def late(self, values: Values, timestamps: list[int]) -> None:
        """Take records that came too late for every window: to the side output, or out of the stream and counted."""
        if not values:
            return
        if self.spec.late_tag is None:
            self._late.inc(len(values))
        else:
            self.output.emit_side(self.spec.late_tag, values, timestamps)

    def keys(self, values: Values) -> list[Any]:
        """Return the keys of records."""
        if self.spec.key.target is one_key:
            return [0] * len(values)
        key_of = self._key
        rest = iter(values)
        return normal_keys([key_of(value) for value in rest])

    def _flush_results(self) -> None:
        self.store.current_key = NO_KEY
        self.emitter.flush()
