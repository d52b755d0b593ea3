"""What is noticed about event time where it begins: signs that records will be late, or that windows will not fire.

Looked at once per split, and whenever watermarks are due; never per record. Nothing is changed here: a check emits at most one
warning of a kind, with the remedy. Under ``BATCH`` no record is late, so time is not watched.
"""

from __future__ import annotations

from collections.abc import Callable

from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.durations import in_words
from funken.timing.instants import moment
from funken.timing.watermarks import SplitProgress, WatermarkStrategy

STALL_MILLIS = 10_000
"""A split without records for so long, which holds others back, is warned of."""
SKEW_MILLIS = 3_600_000
"""Splits whose watermarks are further apart than this are warned of."""
_SECONDS = range(1_000_000_000, 10_000_000_000)
"""Timestamps of this size are seconds since the epoch (2001 to 2286); as milliseconds they were in early 1970."""

_IN_ORDER = (
    "If the input ends, use execution.runtime-mode BATCH, where nothing is late, or "
    "WatermarkStrategy.with_wait_for_all_splits(), which holds the watermark back while there are splits that nobody reads; "
    "else allow for more disorder, or read splits in the order of their time."
)


class EventTimeChecks:
    """The checks of one source or timestamp assigner; ``warn(kind, text)`` takes what they find.

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
        if lowest in _SECONDS and highest in _SECONDS:
            self._warn(
                "seconds",
                f"the first timestamps look like seconds ({lowest}), but event time is in milliseconds: as it is, all records "
                f"are from {moment(lowest)}, and a window of an hour holds 41 days. Multiply by 1000 in the timestamp "
                "assigner, or return a datetime with a time zone.",
            )
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
            self._warn(
                "idle",
                f"split {slowest.split!r} has had no records for {in_words(quiet)} and holds the watermark back at "
                f"{moment(slowest.watermark)}, while split {fastest.split!r} is at {moment(fastest.watermark)}: windows and "
                "timers wait for it. If it may stay without records, set WatermarkStrategy.with_idleness().",
            )
        elif slowest.watermark > MIN_TIMESTAMP and ahead > SKEW_MILLIS and self._strategy.alignment is None:
            self._warn(
                "skew",
                f"split {fastest.split!r} is {in_words(ahead)} of event time ahead of split {slowest.split!r}: what it reads "
                "waits in windows and state. WatermarkStrategy.with_watermark_alignment() holds it back.",
            )

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._emit(kind, text)
