"""q10: bids as files, in a folder per minute of event time."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streams import Streams

from funken import BucketAssigner, DataStream, FileSink, Sink, Types
from funken.connectors import CsvSchema
from funken.connectors.files.csv_files import CsvReaderFormat
from queries.reports import day, minute


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
        return f"dt={day(element[3])}/hm={minute(element[3])}"


def log(folder: str) -> Sink:
    """Return the sink: a line of comma-separated values per bid."""
    bid = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING()])
    lines = CsvReaderFormat.for_schema(CsvSchema(bid)).encoder()
    return FileSink.for_row_format(Path(folder) / "log", lines).with_bucket_assigner(Minutes()).build()


def logged(folder: str) -> list[Any]:
    """Read the files back: the folder's day and minute behind each bid."""
    return list(_rows(Path(folder) / "log"))


def _rows(base: Path) -> Iterator[Any]:
    for path in base.glob("dt=*/hm=*/part-*"):
        partition = [part.partition("=")[2] for part in path.relative_to(base).parts[:2]]
        with path.open(newline="") as file:
            for *numbers, extra in csv.reader(file):
                yield *map(int, numbers), extra, *partition
