"""The operator of all windows: one driver for every assigner, trigger and form of a block.

``Windows`` know which windows records are in, keep their contents as objects, and know which are over. Where the plan has read
the program's functions, ``WindowArrays`` (``operators/columnar``) do the same for blocks of columns, in front of them. The driver
gives each block to one of both, owns the clocks, the late records and the results, and is all that the task sees.

In ``BATCH`` no record is late and time stands still until the input has ended; then everything fires, processing-time windows
too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funken.columnar.block import Block, TupleBlock
from funken.errors import StateError, StateNotKeyed
from funken.ids import MAX_WATERMARK
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.user_functions import KIND
from funken.operators.window.functions import WindowEmitter
from funken.operators.window.spec import one_key
from funken.operators.wrappers import check_of_first
from funken.state.keyed import NO_KEY, KeyedStateStore
from funken.state.keys.normal import normal_keys
from funken.windowing.assigners import MergingWindowAssigner
from funken.windowing.triggers import NeverTrigger

if TYPE_CHECKING:
    from funken.operators.window.spec import WindowSpec


class Windows:
    """The open windows of one operator, of one kind: a subclass per kind of assigner, and one for any trigger."""

    def __init__(self, driver: WindowDriver) -> None:
        self.driver = driver
        self.contents = driver.contents

    def setup(self) -> None:
        """Register what is saved, before anything is restored."""

    def open(self) -> None:
        """Go on with what was restored."""

    def add(self, values: Values, timestamps: Timestamps) -> None:
        """Assign records to windows, add them to their contents, and fire what that makes due."""
        raise NotImplementedError

    def add_fields(self, block: TupleBlock) -> bool:
        """Add tuples that came field by field; ``False``: they have to be made first."""
        return False

    def close(self, watermark: int) -> None:
        """Fire the event-time windows that end at or before ``watermark``."""

    def close_at(self, time: int) -> None:
        """Fire the processing-time windows that end at or before ``time``."""

    def close_all(self) -> None:
        """Fire everything that waits for a time (``BATCH``)."""

    def next_time(self) -> int | None:
        """Return when the next processing-time window ends."""
        return None


class WindowDriver(Operator):
    """Gives blocks to windows, and their results to the output."""

    store: KeyedStateStore

    def __init__(self, spec: WindowSpec) -> None:
        self.spec = spec
        self.contents = spec.contents.build()
        self.key = spec.key.bind()
        merging = isinstance(spec.assigner, MergingWindowAssigner)
        self.emitter = WindowEmitter(self, self.contents, spec.contents.many, spec.function, merging)
        self.windows = spec.windows(self)
        self.use(spec.arrays(self))
        function = getattr(spec.contents, "function", None)
        self._check = None if function is None else check_of_first(function)

    def use(self, arrays: Any) -> None:
        """Take blocks of columns with ``arrays`` (``WindowArrays``), if there are some."""
        self.arrays = arrays
        self.columnar = arrays is not None
        self.takes_fields = type(self.windows).add_fields is not Windows.add_fields

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
        self.windows.setup()

    def restore(self, snapshot: Any) -> None:
        """Refuse it: all that windows save is keyed state."""
        raise StateError(
            f"operator {self.context.operator!r} is a window, but what was saved for it is not of a window of this "
            "version. Give it another uid, and allow state that is not restored."
        )

    def open(self) -> None:
        """Go on with the windows that were restored, and open the user's functions."""
        self.windows.open()
        self.spec.contents.open(self.context)
        self.emitter.open()
        if isinstance(self.spec.chosen_trigger(), NeverTrigger):
            self.context.warn(
                KIND,
                "its windows never fire, because GlobalWindows have no trigger of their own. Give one, as in "
                "trigger(PurgingTrigger.of(CountTrigger.of(100))).",
            )

    def finish(self) -> None:
        """Warn of windows whose time does not come any more."""
        if not self.context.batch and self.windows.next_time() is not None:
            self.context.warn(
                "open windows",
                "the input ended before its processing-time windows did, so their records are in no result. Use windows by event "
                "time for input that ends, or RuntimeExecutionMode.BATCH.",
            )

    def close(self) -> None:
        """Close the user's functions."""
        try:
            self.emitter.close()
        finally:
            self.spec.contents.close()

    # ---- records

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Add records one by one."""
        if self._check is not None and len(values):
            check, self._check = self._check, None
            check(values[0])
        if self.arrays is not None:
            self.arrays.give_back()
        self.windows.add(values, timestamps)

    def process_block(self, block: Block) -> None:
        """Add a block in the form in which it came, if it can be."""
        if self.arrays is None:
            self._in_rows(block)
        else:
            self.arrays.take(block, self._in_rows)

    def _in_rows(self, block: Block) -> None:
        if self.arrays is not None:
            self.arrays.give_back()
        by_record = self._check is not None or type(block) is not TupleBlock
        if by_record or not self.windows.add_fields(block):
            self.process(*block.rows())

    def keys(self, values: Values) -> list[Any]:
        """Return the keys of records."""
        if self.spec.key.target is one_key:
            return [0] * len(values)
        key_of = self.key
        rest = iter(values)  # a failure names the record at which it stands
        return normal_keys([key_of(value) for value in rest])

    def late(self, values: Values, timestamps: list[int]) -> None:
        """Take records that came too late for every window: to the side output, or out of the stream and counted."""
        if not values:
            return
        if self.spec.late_tag is None:
            self.count_late(len(values))
        else:
            self.output.emit_side(self.spec.late_tag, values, timestamps)

    def count_late(self, records: int) -> None:
        """Count late records that are dropped."""
        self._late.inc(records)

    def flush(self) -> None:
        """Emit the results so far."""
        self.store.current_key = NO_KEY
        self.emitter.flush()

    # ---- time

    def watermark(self, watermark: int) -> None:
        """Fire what is due, emit it, pass the watermark on."""
        if not self.context.batch:
            self.current_watermark = watermark
            self.windows.close(watermark)
            if self.arrays is not None:
                self.arrays.close(watermark)
            self.flush()
        elif watermark == MAX_WATERMARK:
            self.current_watermark = watermark
            self.windows.close_all()
            if self.arrays is not None:
                self.arrays.close(watermark)
            self.flush()
        self.output.watermark(watermark)

    def next_tick(self) -> int | None:
        """When the next processing-time window is over: a timer for ms *t* is due when *t* has passed, as in Flink."""
        due = self.windows.next_time()
        return None if due is None or self.context.batch else due + 1

    def tick(self, now: int) -> None:
        """Fire what is due, emit it."""
        self.windows.close_at(now - 1)
        self.flush()


__all__ = ["WindowDriver", "Windows"]
