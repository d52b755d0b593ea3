"""q10: bids as files, in a folder per minute of event time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from streams import Streams

from funken import BucketAssigner, DataStream, Encoder, FileSink, Sink
from queries.reports import MINUTE, day, minute


def q10(streams: Streams) -> DataStream:
    """Write bids down, by minute of event time.

    INSERT INTO log PARTITIONED BY (dt, hm)
    SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd'), DATE_FORMAT(dateTime, 'HH:mm') FROM bid
    """
    return streams.bids.map(lambda bid: (bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra))


class Minutes(BucketAssigner):
    """A folder per minute of event time."""

    def get_bucket_id(self, element: Any, context: Any) -> str:
        """Return the folder of a bid."""
        return _folder(element[3] // MINUTE)


@lru_cache(maxsize=1024)
def _folder(minutes: int) -> str:
    return f"dt={day(minutes * MINUTE)}/hm={minute(minutes * MINUTE)}"


class Csv(Encoder):
    """A line of comma-separated values per record."""

    def encode(self, values: list[Any]) -> bytes:
        """Return the lines."""
        text = io.StringIO()
        csv.writer(text).writerows(values)
        return text.getvalue().encode()


def log(folder: str) -> Sink:
    """Return the sink."""
    return FileSink.for_row_format(Path(folder) / "log", Csv()).with_bucket_assigner(Minutes()).build()


def logged(folder: str) -> list[Any]:
    """Read the files back: the folder's day and minute behind each bid."""
    return list(_rows(Path(folder) / "log"))


def _rows(base: Path) -> Iterator[Any]:
    for path in base.glob("dt=*/hm=*/part-*"):
        partition = [part.partition("=")[2] for part in path.relative_to(base).parts[:2]]
        with path.open(newline="") as file:
            for *numbers, extra in csv.reader(file):
                yield *map(int, numbers), extra, *partition
