"""Points in time that users give, as milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from operator import index
from reprlib import Repr
from typing import Any

from funken.errors import InvalidProgram
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP, Millis
from funken.io.durations import duration_ms

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SINCE_1973 = 100_000_000_000
_short = Repr()
_short.maxstring = _short.maxother = 200

LIKE_SECONDS = range(1_000_000_000, 10_000_000_000)
"""Times of this size are seconds since the epoch (2001 to 2286); as milliseconds they were in early 1970."""


def timestamp_ms(at: Any, record: Any = None) -> Millis:
    """Return a point in time as ms since the epoch: an int or NumPy's, or a ``datetime`` (or pandas' ``Timestamp``) with a zone.

    Raises ``InvalidProgram`` for anything else, and names the ``record`` that it is of.

    >>> timestamp_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), timestamp_ms(5)
    (1000, 5)
    >>> timestamp_ms(datetime(2026, 1, 1))
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: datetime.datetime(2026, 1, 1, 0, 0) has no time zone, so which instant it is depends on ...
    >>> timestamp_ms(1.5, {"at": 1.5})
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: 1.5 (float) is no event timestamp, and was given to the record {'at': 1.5}: seconds since ...
    """
    return _ms(at, "event timestamp", f", and was given to the record {_short.repr(record)}")


def timer_ms(at: Any) -> Millis:
    """Return a timer's time as ms since the epoch, like ``timestamp_ms``; raises ``InvalidProgram`` for others.

    >>> timer_ms(None)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: None (NoneType) is no time of a timer: register none for a record without a time.
    """
    return _ms(at, "time of a timer", "", NoneType="register none for a record without a time.")


def checked_time(at: Any) -> int:
    """Return the time of a timer if it is an ``int`` of 64 bits, without any conversion, else ``timer_ms`` of it."""
    if type(at) is int and MIN_TIMESTAMP <= at <= MAX_WATERMARK:
        return at
    return timer_ms(at)


def watermark_ms(at: Any) -> Millis:
    """Return a watermark as ms since the epoch, like ``timestamp_ms``; raises ``InvalidProgram`` for other values.

    >>> watermark_ms(10**20)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: 100000000000000000000 (int) is no watermark: it is not in 64 bits; is it in ns or us? Give ms.
    """
    return _ms(at, "watermark", "", NoneType="emit none.")


def _of_text(at: Any) -> str:
    """Return the remedy for a text that is given as a time: of a duration such as ``"10 s"``, or of a date."""
    try:
        millis = duration_ms(at)
    except InvalidProgram:
        return "parse it (datetime.fromisoformat) before."
    return f"a duration is no time; add it to one, as in ctx.timer_service().current_processing_time() + {millis}."


def _ms(at: Any, role: str, place: str, **remedies: str) -> Millis:
    kind = type(at).__name__
    if isinstance(at, datetime):
        if at == at:  # noqa: PLR0124 - pandas' NaT is a datetime that equals nothing
            if at.utcoffset() is None:
                raise InvalidProgram(
                    f"{at!r} has no time zone, so which instant it is depends on the machine that asks. Give it one "
                    "(at.replace(tzinfo=UTC)), or return milliseconds since the epoch."
                )
            return Millis(int((at - _EPOCH) // _MILLISECOND))
    elif not isinstance(at, bool):
        try:
            found = index(at)
        except TypeError:
            pass
        else:
            if MIN_TIMESTAMP <= found <= MAX_WATERMARK:
                return Millis(found)
            remedies[kind] = "it is not in 64 bits; is it in ns or us? Give ms."
    known = {
        "float": "seconds since the epoch are int(at * 1000).",
        "str": "parse it (datetime.fromisoformat) in the timestamp assigner.",
        "NoneType": "return the time; filter records without one out before timestamps are assigned.",
        "NaTType": "filter records without a time out before timestamps are assigned.",
        "datetime64": "return int(at.astype('datetime64[ms]').astype(int)), if it is in UTC.",
        "date": "a day is no instant; say which time of which zone is meant.",
    }
    if role != "event timestamp":
        known |= {"str": _of_text(at), "NaTType": "it is missing."}
    default = "give milliseconds since the epoch as an int, or a datetime with a time zone."
    if role == "event timestamp":
        default = default.replace("give", "return", 1)
    raise InvalidProgram(f"{_short.repr(at)} ({kind}) is no {role}{place}: {(known | remedies).get(kind, default)}")


def timestamps_ms(assigned: list[Any], records: Iterable[Any]) -> list[int]:
    """Return the timestamps of an assigner for ``records`` as ms; see ``timestamp_ms``.

    >>> timestamps_ms([5, datetime(1970, 1, 1, tzinfo=UTC)], "ab")
    [5, 0]
    """
    if set(map(type, assigned)) <= {int}:  # per record only a look at the type, by C; see check_range
        return assigned
    return [timestamp_ms(at, record) for at, record in zip(assigned, records, strict=True)]


_BLOCKS = 64
"""After a block that is not in order, as many are not asked whether they are: it would take 70 ns a timestamp."""


class BlockBounds:
    """Knows the lowest and the highest timestamps of blocks; of one ``in_order`` they are the first and the last.

    >>> bounds = BlockBounds()
    >>> bounds.of([3, 5, 7]), bounds.in_order, bounds.of([5, 3, 7]), bounds.in_order
    ((3, 7), True, (3, 7), False)
    >>> BlockBounds().highest([3, 7]), BlockBounds().highest([7, 3])
    (7, 7)
    """

    __slots__ = ("_skipped", "in_order")

    def __init__(self) -> None:
        self._skipped = 0
        self.in_order = False

    def of(self, timestamps: list[int]) -> tuple[int, int]:
        """Return the lowest and the highest timestamp of a block that is not empty."""
        if self._look(timestamps):
            return timestamps[0], timestamps[-1]
        return min(timestamps), max(timestamps)

    def highest(self, timestamps: list[int]) -> int:
        """Return the highest timestamp of a block that is not empty."""
        return timestamps[-1] if self._look(timestamps) else max(timestamps)

    def _look(self, timestamps: list[int]) -> bool:
        # Hot: of timestamps in order 5 ns each, where ``min`` and ``max`` take 35 together.
        self.in_order = not self._skipped and timestamps == sorted(timestamps)
        if not self.in_order:
            self._skipped = self._skipped - 1 if self._skipped else _BLOCKS
        return self.in_order


def check_range(timestamps: Iterable[Any] | None, records: Iterable[Any]) -> None:
    """Raise ``InvalidProgram`` for a timestamp that is not in 64 bits, with its record: something overflowed."""
    for at, record in zip(timestamps or (), records, strict=False):
        timestamp_ms(at, record)


def moment(millis: int) -> str:
    """Return a time (ms) as text: a date (UTC) if it may be one, else the time since 0.

    >>> moment(75_000), moment(-1), moment(1_700_000_000_000), moment(MAX_WATERMARK), moment(MIN_TIMESTAMP)
    ('0:01:15', '0:00:00', '2023-11-14 22:13:20', 'end', '-')
    """
    if millis <= MIN_TIMESTAMP:
        return "-"
    if millis >= MAX_WATERMARK:
        return "end"
    if millis < _SINCE_1973:
        seconds = abs(millis) // 1000
        return "-" * (millis < 0 < seconds) + str(timedelta(seconds=seconds))
    try:
        return (_EPOCH + timedelta(seconds=millis // 1000)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return str(millis)
