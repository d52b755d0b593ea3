"""BATCH: process functions on keyed streams see one key after the other, as Flink's sorted inputs do.

Records are kept until the input has ended, then given key by key, within a key by timestamp (first the first input, then
the second). Event time stands at ``MIN_TIMESTAMP`` while a key's records go by and jumps to ``MAX_WATERMARK`` at its end:
all its event-time timers fire, then its processing-time ones, and what they register is ignored. Watermarks before the
end mean nothing. (Flink's ``SortingDataInput`` and ``BatchExecutionInternalTimeService``.)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorSpec, Output, Timestamps, Values
from funken.operators.calls import Call
from funken.operators.context import OperatorContext
from funken.operators.coprocess import KeyedCoProcess
from funken.operators.process import KeyedProcess


def key_by_key(spec: OperatorSpec, operator: Operator) -> Operator:
    """Return what runs ``operator`` in BATCH: itself, unless it is a process function on a keyed stream."""
    if isinstance(spec, KeyedProcess):
        return KeyByKey(operator, (spec.key,))
    if isinstance(spec, KeyedCoProcess):
        return KeyByKey(operator, (spec.key1, spec.key2))
    return operator


class KeyByKey(Operator):
    """Keeps the records of every key until the end, then runs ``inner`` over them."""

    def __init__(self, inner: Operator, keys: tuple[Call, ...]) -> None:
        self._inner = inner
        self._keys = [key.bind() for key in keys]
        self._kept: dict[Any, list[list[tuple[int, Any]]]] = {}
        self._stamped = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Give the inner operator an output that passes no watermark: there is one, at the end."""
        super().setup(context, output)
        quiet = Output()
        quiet.emit, quiet.emit_side = output.emit, output.emit_side
        quiet.watermark = lambda watermark: None
        quiet.idle = lambda idle: None
        self._inner.setup(context, quiet)

    def open(self) -> None:
        """Open the inner operator."""
        self._inner.open()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Keep records of the first input."""
        self._keep(0, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Keep records of the second input."""
        self._keep(1, values, timestamps)

    def _keep(self, index: int, values: Values, timestamps: Timestamps) -> None:
        key_of, kept = self._keys[index], self._kept
        self._stamped = self._stamped or timestamps is not None
        stamps = [MIN_TIMESTAMP] * len(values) if timestamps is None else timestamps
        for pair in zip(stamps, values, strict=True):
            key = key_of(pair[1])
            sides = kept.get(key)
            if sides is None:
                sides = kept[key] = [[] for _ in self._keys]
            sides[index].append(pair)

    def watermark(self, watermark: int) -> None:
        """At the end of the input: run key after key."""
        if watermark != MAX_WATERMARK:
            return
        handlers: list[Callable[[Values, Timestamps], None]] = [self._inner.process, self._inner.process_second]
        while self._kept:
            sides = self._kept.pop(next(iter(self._kept)))
            for records, handle in zip(sides, handlers, strict=False):
                if records:
                    records.sort(key=itemgetter(0))
                    handle([value for _, value in records], [at for at, _ in records] if self._stamped else None)
            self._inner.watermark(MAX_WATERMARK)
            self._inner.current_watermark = MIN_TIMESTAMP
            if self.context.timers is not None:
                self.context.timers.current_watermark = MIN_TIMESTAMP
        super().watermark(watermark)

    def finish(self) -> None:
        """Finish the inner operator."""
        self._inner.finish()

    def close(self) -> None:
        """Close the inner operator."""
        self._inner.close()
