"""``Instant``: a point in time finer than event time's milliseconds, for records declared with ``Types.INSTANT()``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, order=True, slots=True, repr=False)
class Instant:
    """Seconds since the epoch and nanoseconds on top of them.

    >>> Instant.of_epoch_milli(-1), Instant.of_epoch_milli(-1).to_epoch_milli()
    (Instant<-1, 999000000>, -1)
    """

    seconds: int
    nanos: int = 0

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant so many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Return the milliseconds since the epoch; what is finer is cut off."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    def to_datetime(self) -> datetime:
        """Return the same as a ``datetime`` in UTC, in microseconds.

        >>> Instant(1, 500_000_000).to_datetime().isoformat()
        '1970-01-01T00:00:01.500000+00:00'
        """
        return datetime.fromtimestamp(self.seconds, UTC).replace(microsecond=self.nanos // 1000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"
