"""Watermarks: how far event time has advanced, and how it is generated.

Invariants: an emitted watermark never decreases (equal or lower ones are dropped), an idle split is left out,
and a strategy is a value: its ``with_`` methods return a new one. No wall clock is read here; time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, NamedTuple, overload

from funken.config.configuration import warn
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import OF_TODAY, DurationLike, duration_ms, in_ms, in_words, is_bare
from funken.timing.instants import LIKE_SECONDS, BlockBounds, moment, watermark_ms
from funken.types.callables import D, Generic, S, T_contra, check_arguments, check_function


class WatermarkOutput:
    """The output of a generator of watermarks (ms); ``watermark`` is the highest of them.

    >>> output = WatermarkOutput()
    >>> output.emit_watermark(99)
    >>> output.emit_watermark(50)  # a watermark never goes back
    >>> output.watermark, output.idle
    (99, False)
    >>> output.mark_idle()
    >>> output.idle
    True
    """

    __slots__ = ("idle", "watermark")

    def __init__(self) -> None:
        self.watermark: int = MIN_TIMESTAMP
        self.idle = False

    def emit_watermark(self, watermark: int) -> None:
        """Promise that no timestamp at or below ``watermark`` (ms) follows."""
        self.idle = False
        if type(watermark) is not int or watermark > MAX_WATERMARK:
            watermark = watermark_ms(watermark)
        self.watermark = max(self.watermark, watermark)

    def mark_idle(self) -> None:
        """Mark the output idle, so that others need not wait for it."""
        self.idle = True


class WatermarkGenerator(Generic[T_contra]):
    """Base of generators: periodic ones emit in ``on_periodic_emit``, punctuated ones in ``on_event``.

    A subclass written by a user overrides the two methods of Flink's interface. This one trusts a marker in the stream:

    >>> class UntilMarker(WatermarkGenerator):
    ...     def on_event(self, event, event_timestamp, output):
    ...         if event == "complete":
    ...             output.emit_watermark(event_timestamp)
    ...     def on_periodic_emit(self, output):
    ...         pass  # only markers count
    >>> strategy, output = WatermarkStrategy.for_generator(UntilMarker), WatermarkOutput()
    >>> generator = strategy.generator()
    >>> generator.on_event("record", 7, output)
    >>> generator.on_periodic_emit(output)
    >>> generator.on_event("complete", 5, output)
    >>> output.watermark
    5
    """

    def on_event(self, event: T_contra, event_timestamp: int, output: WatermarkOutput) -> None:
        """See one record; may emit a watermark at once."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark; called every ``pipeline.auto-watermark-interval`` (200 ms unless set)."""


class BoundedOutOfOrderness(WatermarkGenerator):
    """``watermark = highest timestamp - delay - 1 ms`` (Flink's ``BoundedOutOfOrdernessWatermarks``).

    >>> output, generator = WatermarkOutput(), BoundedOutOfOrderness(10)
    >>> generator.on_event("x", 100, output); generator.on_periodic_emit(output); output.watermark
    89
    """

    def __init__(self, delay: int) -> None:
        if delay < 0:
            raise ValueError(f"out-of-orderness must not be negative, but is {delay} ms")
        self._delay = delay
        self._highest: int | None = None
        self._bounds = BlockBounds()

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Remember the highest timestamp."""
        if self._highest is None or event_timestamp > self._highest:
            self._highest = event_timestamp

    def on_block(self, timestamps: list[int]) -> None:
        """Remember the highest timestamp of a block; with this method a generator needs no call per record."""
        highest = self._bounds.highest(timestamps)
        if highest > MAX_WATERMARK:
            raise OverflowError("a timestamp is not in 64 bits")
        if self._highest is None or highest > self._highest:
            self._highest = highest

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the highest timestamp less the delay."""
        if self._highest is not None:
            output.emit_watermark(self._highest - self._delay - 1)


@dataclass(frozen=True)
class BoundedOutOfOrdernessSpec:
    """Builds ``BoundedOutOfOrderness``."""

    delay: int
    in_doubt: bool = field(default=False, compare=False)
    """True if it may be a number of seconds."""

    def __call__(self) -> WatermarkGenerator:
        """Make a generator for one split or subtask."""
        return BoundedOutOfOrderness(self.delay)


class TimestampAssigner(Generic[T_contra]):
    """Extracts a record's event time; subclass it, or pass a function ``(value, record_timestamp) -> ms``.

    >>> class Created(TimestampAssigner):
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value["created"]
    >>> from funken import TumblingEventTimeWindows
    >>> from funken.testing import local
    >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Created())
    >>> orders = local([{"created": 400}, {"created": 1200}]).assign_timestamps_and_watermarks(strategy)
    >>> seconds = orders.window_all(TumblingEventTimeWindows.of(1000))
    >>> seconds.reduce(lambda a, b: b).execute_and_collect(limit=9)
    [{'created': 400}, {'created': 1200}]
    """

    def extract_timestamp(self, value: T_contra, record_timestamp: int) -> int | datetime:
        """Return the record's event time: ms, or a ``datetime`` with a time zone.

        ``record_timestamp`` is ``MIN_TIMESTAMP`` if it had none.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class WatermarkStrategy(Generic[T_contra]):
    """A rule for timestamps of records, and for watermarks of event time.

    >>> from datetime import timedelta
    >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
    >>> strategy = strategy.with_timestamp_assigner(lambda event, previous: event["at"]).with_idleness("1 min")
    >>> strategy.idleness
    60000
    """

    generator: Callable[[], WatermarkGenerator[T_contra]] | None = None
    assigner: Callable[[T_contra, int], int | datetime] | None = None
    idleness: int | None = None
    alignment: tuple[str, int, int] | None = None
    waits_for_all_splits: bool = False

    @classmethod
    def for_monotonous_timestamps(cls) -> WatermarkStrategy[T_contra]:
        """Timestamps never go down within a split: the watermark is the highest one less 1 ms.

        >>> output, generator = WatermarkOutput(), WatermarkStrategy.for_monotonous_timestamps().generator()
        >>> generator.on_event("record", 100, output)
        >>> generator.on_periodic_emit(output)
        >>> output.watermark
        99
        """
        return WatermarkStrategy(BoundedOutOfOrdernessSpec(0))

    @classmethod
    def for_bounded_out_of_orderness(cls, max_out_of_orderness: DurationLike) -> WatermarkStrategy[T_contra]:
        """Records come at most this late (``timedelta``, ``Duration``, ``"5 s"``, or ms); raises ``ValueError`` if negative.

        >>> generator = WatermarkStrategy.for_bounded_out_of_orderness("5 s").generator()
        >>> output = WatermarkOutput()
        >>> generator.on_event("record", 20_000, output)
        >>> generator.on_periodic_emit(output)
        >>> output.watermark
        14999
        """
        delay = duration_ms(max_out_of_orderness)
        if delay < 0:
            raise InvalidProgram(f"for_bounded_out_of_orderness() needs a delay from 0 ms on, but got {delay} ms.")
        return WatermarkStrategy(BoundedOutOfOrdernessSpec(delay, is_bare(max_out_of_orderness)))

    @classmethod
    def for_generator(cls, generator: Callable[[], WatermarkGenerator[S]]) -> WatermarkStrategy[S]:
        """Use a generator of your own; ``generator()`` makes one per split or subtask.

        >>> class EveryRecord(WatermarkGenerator):
        ...     def on_event(self, event, event_timestamp, output):
        ...         output.emit_watermark(event_timestamp)
        >>> strategy = WatermarkStrategy.for_generator(EveryRecord)
        >>> from funken import ProcessFunction
        >>> from funken.testing import local
        >>> class Watch(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield ctx.timer_service().current_watermark()
        >>> stamped = strategy.with_timestamp_assigner(lambda value, _: value)
        >>> watermarks = local([10, 30, 20]).assign_timestamps_and_watermarks(stamped).process(Watch())
        >>> watermarks.execute_and_collect(limit=3) == [MIN_TIMESTAMP, 10, 30]  # a record comes before its watermark
        True
        """
        return WatermarkStrategy(generator)

    @classmethod
    def no_watermarks(cls) -> WatermarkStrategy[T_contra]:
        """No event time, until the end of a bounded input.

        >>> from funken import NumberSequenceSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers")
        >>> numbers.execute_and_collect(limit=3)
        [1, 2, 3]
        """
        return WatermarkStrategy()

    @overload
    def with_timestamp_assigner(
        self: WatermarkStrategy[object], timestamp_assigner: Callable[[D, int], int | datetime] | TimestampAssigner[D]
    ) -> WatermarkStrategy[D]: ...
    @overload
    def with_timestamp_assigner(
        self, timestamp_assigner: Callable[[T_contra, int], int | datetime] | TimestampAssigner[T_contra]
    ) -> WatermarkStrategy[T_contra]: ...
    def with_timestamp_assigner(self, timestamp_assigner: object) -> WatermarkStrategy[Any]:
        """Take timestamps from ``timestamp_assigner(value, record_timestamp)`` or a ``TimestampAssigner``.

        They are milliseconds, or all ``datetime`` with a time zone; one without fails the job, because its instant depends
        on the machine. Raises ``TypeError`` for an object that is no function.

        >>> from datetime import datetime
        >>> from funken.testing import local
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        ...     lambda text, _: datetime.fromisoformat(text)
        ... )
        >>> stamped = local(["1970-01-01T00:00:05+00:00"]).assign_timestamps_and_watermarks(strategy)
        >>> stamped.process(lambda text, ctx: [ctx.timestamp()]).execute_and_collect(limit=1)
        [5000]
        """
        extract = getattr(timestamp_assigner, "extract_timestamp", timestamp_assigner)
        if not callable(extract):
            raise TypeError(f"{timestamp_assigner!r} is neither a TimestampAssigner nor a function")
        check_function(timestamp_assigner, "extract_timestamp", "with_timestamp_assigner()")
        check_arguments(timestamp_assigner, "extract_timestamp", "with_timestamp_assigner()")
        return replace(self, assigner=extract)

    def with_idleness(self, idle_timeout: DurationLike) -> WatermarkStrategy[T_contra]:
        """Leave a split out of the watermark after this long (any duration, or ms) without a record.

        Raises ``ValueError`` unless it is more than 0.
        """
        timeout = duration_ms(idle_timeout)
        if timeout <= 0:
            raise ValueError(f"idle timeout must be more than 0, but is {timeout} ms")
        if is_bare(idle_timeout):
            warn(in_ms("with_idleness(): a split counts as idle after", timeout))
        return replace(self, idleness=timeout)

    def with_watermark_alignment(
        self, watermark_group: str, max_allowed_watermark_drift: DurationLike, update_interval: DurationLike = 1000
    ) -> WatermarkStrategy[T_contra]:
        """Hold back sources whose watermark is further ahead of the slowest of the group than this.

        So are the partitions that one subtask reads of Kafka, each by its own watermark. One that has had no record yet holds
        all others back, unless there is ``with_idleness()``.

        Drift and interval are durations, or ms. All sources with the same group, of whatever operator, wait for each other:

        >>> strategy = WatermarkStrategy.for_monotonous_timestamps()
        >>> orders = strategy.with_watermark_alignment("shop", "20 s")
        >>> returns = strategy.with_watermark_alignment("shop", "20 s", update_interval="500 ms")
        >>> orders.alignment, returns.alignment
        (('shop', 20000, 1000), ('shop', 20000, 500))
        """
        drift, update = duration_ms(max_allowed_watermark_drift), duration_ms(update_interval)
        if is_bare(max_allowed_watermark_drift):
            warn(in_ms("with_watermark_alignment(): a source may be ahead of the others by", drift))
        return replace(self, alignment=(watermark_group, drift, update))

    def with_wait_for_all_splits(self) -> WatermarkStrategy[T_contra]:
        """Let a source read only when each of its splits is assigned, so that one that waits its turn holds the watermark back.

        For bounded input whose splits (files) are not read in the order of their time: else the first ones move the watermark,
        and the records of the others are late. Windows wait in state until the last split is under way. Sources only: in
        ``assign_timestamps_and_watermarks`` there are no splits, and it has no effect.

        >>> from funken import NumberSequenceSource, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
        >>> strategy = WatermarkStrategy.for_monotonous_timestamps().with_wait_for_all_splits()
        >>> env.from_source(NumberSequenceSource(1, 3), strategy, "numbers").execute_and_collect(limit=3)
        [1, 2, 3]
        """
        return replace(self, waits_for_all_splits=True)


class SplitProgress(NamedTuple):
    """The progress of a split: its watermark, and the time (ms) of its last record."""

    split: str
    watermark: int
    active_at: int


class WatermarkProgress:
    """The generators of one source or operator, one per split, and the watermark they add up to."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy
        self._outputs: dict[str, WatermarkOutput] = {}
        self._generators: dict[str, WatermarkGenerator] = {}
        self._active_at: dict[str, int] = {}
        self.watermark: int = MIN_TIMESTAMP
        self.reached: int = MIN_TIMESTAMP
        """The possible watermark, had one been due when splits ended that were read alone."""
        self.idle = False

    def add(self, split: str, now: int) -> None:
        """Add a split; it holds the watermark back until it emits one."""
        if self._strategy.generator is not None and split not in self._generators:
            self._generators[split] = self._strategy.generator()
            self._outputs[split] = WatermarkOutput()
            self._active_at[split] = now

    def remove(self, split: str) -> None:
        """A split ended: it counts no more."""
        generator, output = self._generators.pop(split, None), self._outputs.pop(split, None)
        self._active_at.pop(split, None)
        if output is not None and not self._outputs:
            if isinstance(generator, BoundedOutOfOrderness):  # another one may do more than to emit
                generator.on_periodic_emit(output)
            self.reached = max(self.reached, output.watermark)

    def punctuated(self, split: str) -> bool:
        """Return True if the split's generator has to see every record."""
        generator = self._generators.get(split)
        return generator is not None and not hasattr(generator, "on_block")

    def on_block(self, split: str, timestamps: list[int], now: int) -> None:
        """A block of the split went by (generators that need no call per record)."""
        generator = self._generators.get(split)
        if generator is not None and timestamps:
            generator.on_block(timestamps)  # type: ignore[attr-defined]
            self._active_at[split] = now
            self._outputs[split].idle = False

    def reads_values(self, split: str) -> bool:
        """Return True if the split's generator sees the values of a block at once, by ``on_values``."""
        return hasattr(self._generators.get(split), "on_values")

    def on_values(self, split: str, values: Sequence[Any], now: int) -> Iterator[int]:
        """Values of the split went by; yield the number of them behind which the combined watermark rises."""
        output = self._outputs[split]
        self._active_at[split] = now
        output.idle = False
        for count, watermark in self._generators[split].on_values(values):  # type: ignore[attr-defined]
            output.emit_watermark(watermark)
            if self.combine():
                yield count

    def on_event(self, split: str, value: Any, timestamp: int, now: int) -> bool:
        """One record went by; true if the split's generator emitted a higher watermark."""
        output = self._outputs[split]
        before = output.watermark
        self._active_at[split] = now
        output.idle = False
        self._generators[split].on_event(value, timestamp, output)
        return output.watermark > before and self.combine()

    def periodic(self, now: int) -> bool:
        """Call every generator; true if the combined watermark rose."""
        for split, generator in self._generators.items():
            output = self._outputs[split]
            generator.on_periodic_emit(output)
            timeout = self._strategy.idleness
            if timeout is not None and now - self._active_at[split] >= timeout:
                output.idle = True
        return self.combine()

    def live(self) -> list[SplitProgress]:
        """Return the splits that are not idle."""
        outputs = self._outputs.items()
        return [SplitProgress(split, out.watermark, self._active_at[split]) for split, out in outputs if not out.idle]

    def ahead_of(self, watermark: int) -> set[str]:
        """Return the splits, idle ones too, whose watermark is greater."""
        return {split for split, output in self._outputs.items() if output.watermark > watermark}

    def combine(self) -> bool:
        """Recompute minimum and idleness over the splits; true if the watermark rose."""
        live = [output.watermark for output in self._outputs.values() if not output.idle]
        self.idle = bool(self._outputs) and not live
        if live and min(live) > self.watermark:
            self.watermark = min(live)
            return True
        return False


# ---- What is noticed about event time where it begins: signs that records will be late, or that windows will not
# fire.
#
# Looked at once per split, and whenever watermarks are due; never per record. Nothing is changed here: a check
# emits at most one warning of a kind, with the remedy. Under ``BATCH`` no record is late, so time is not watched.


STALL_MILLIS = 10_000
"""A split without records for so long, which holds others back, is warned of."""
SKEW_MILLIS = 3_600_000
"""Splits whose watermarks are further apart than this are warned of."""

_FARTHEST = 100_000_000_000_000
"""Timestamps beyond this one (in the year 5138) are no milliseconds."""

_IN_ORDER = (
    "If the input ends, use execution.runtime-mode BATCH, where nothing is late, or "
    "WatermarkStrategy.with_wait_for_all_splits(), which holds the watermark back while there are splits that nobody reads; "
    "else allow for more disorder, or read splits in the order of their time."
)


class EventTimeChecks:
    """The checks of one source or timestamp assigner; ``warn(kind, text)`` takes their findings.

    >>> found = []
    >>> checks = EventTimeChecks(WatermarkStrategy.for_monotonous_timestamps(), lambda kind, text: found.append(kind))
    >>> checks.begin_split("a.csv", 1_700_000_000, 1_700_000_007, MIN_TIMESTAMP)
    >>> checks.begin_split("b.csv", 1_600_000_000, 1_600_000_007, 1_700_000_006)
    >>> found
    ['seconds', 'late split']
    """

    def __init__(self, strategy: WatermarkStrategy, warn: Callable[[str, str], None], batch: bool = False) -> None:
        self._strategy = strategy
        self._emit = warn
        self._batch = batch
        self._warned: set[str] = set()
        self.seen: set[str] = set()
        """The splits whose first records were seen."""

    def begin_split(self, split: str, lowest: int, highest: int, watermark: int, reached: int = MIN_TIMESTAMP) -> None:
        """The first block of a split has timestamps from ``lowest`` to ``highest``; ``watermark`` was emitted before it.

        The splits before it could have brought it to ``reached``: short ones end before a watermark is due.
        """
        self.seen.add(split)
        if lowest in LIKE_SECONDS and highest in LIKE_SECONDS:
            self._warn(
                "seconds",
                f"the first timestamps look like seconds ({lowest}), but event time is in milliseconds: as it is, all records "
                f"are from {moment(lowest)}, and a window of an hour holds 41 days. Multiply by 1000 in the timestamp "
                "assigner, or return a datetime with a time zone.",
            )
        elif lowest > _FARTHEST and highest < MAX_WATERMARK:
            self._warn(
                "fine timestamps",
                f"the first timestamps look like micro- or nanoseconds ({lowest}), but event time is in milliseconds: as it is, "
                "a window of an hour holds seconds or less. Divide by 1000 or 1,000,000 in the timestamp assigner, with //.",
            )
        generator = self._strategy.generator
        if isinstance(generator, BoundedOutOfOrdernessSpec) and generator.in_doubt and lowest > OF_TODAY:
            self._warn("units", in_ms("for_bounded_out_of_orderness() allows for a disorder of", generator.delay))
        if split and highest <= watermark and not self._batch:
            self._warn(
                "late split",
                f"split {split!r} begins at {moment(lowest)}, but the splits read before it have brought the watermark to "
                f"{moment(watermark)}: its records are late. {_IN_ORDER}",
            )
        elif split and highest <= reached and not self._batch:
            self._warn(
                "late split",
                f"split {split!r} begins at {moment(lowest)}, but the splits read before it end with a watermark of "
                f"{moment(reached)}: its records are late, or not, as the clock has it, because watermarks are emitted now and "
                f"then. None has been emitted between them this time. {_IN_ORDER}",
            )

    def periodic(self, splits: list[SplitProgress], now: int) -> None:
        """Watermarks are due; ``splits`` are those that are not idle."""
        if len(splits) < 2 or self._batch:
            return
        slowest = min(splits, key=lambda split: split.watermark)
        fastest = max(splits, key=lambda split: split.watermark)
        ahead = fastest.watermark - slowest.watermark
        if ahead <= 0 or fastest.watermark >= MAX_WATERMARK:
            return
        quiet = now - slowest.active_at
        if quiet >= STALL_MILLIS and self._strategy.idleness is None:
            before = slowest.watermark == MIN_TIMESTAMP
            at = "before its first watermark" if before else f"at {moment(slowest.watermark)}"
            self._warn(
                "idle",
                f"split {slowest.split!r} has had no records for {in_words(quiet)} and holds the watermark back: it "
                f"is {at}, while split {fastest.split!r} is at {moment(fastest.watermark)}: windows and "
                "timers wait for it. If it may stay without records, set WatermarkStrategy.with_idleness().",
            )
        elif slowest.watermark > MIN_TIMESTAMP and ahead > SKEW_MILLIS and self._strategy.alignment is None:
            self._warn(
                "skew",
                f"split {fastest.split!r} is {in_words(ahead)} of event time ahead of split "
                f"{slowest.split!r}: its records wait in windows and state. "
                "WatermarkStrategy.with_watermark_alignment() holds it back.",
            )

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._emit(kind, text)
