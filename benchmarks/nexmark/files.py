"""The events in Parquet files: a folder each for people, auctions and bids, in the order of event time."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from events import Auction, Bid, Event, Nexmark, Person

GROUP = 100_000
"""How many events the rows of one group are of: subtasks share the groups of a file."""


def write_events(nexmark: Nexmark, count: int, folder: Path) -> None:
    """Write the first ``count`` events below a folder."""
    writers: dict[type[Event], pq.ParquetWriter] = {}
    try:
        numbers = iter(range(count))
        while part := [nexmark.event(number) for number in islice(numbers, GROUP)]:
            for kind in (Person, Auction, Bid):
                rows = [event for event in part if type(event) is kind]
                columns = dict(zip(kind._fields, map(list, zip(*rows, strict=True)), strict=True))
                table = pa.table(columns)
                if kind not in writers:
                    place = folder_of(folder, kind)
                    place.mkdir(parents=True)
                    writers[kind] = pq.ParquetWriter(place / "events.parquet", table.schema)
                writers[kind].write_table(table)
    finally:
        for writer in writers.values():
            writer.close()


def folder_of(folder: Path, kind: type[Event]) -> Path:
    """Return where the events of a kind are."""
    return folder / kind.__name__.lower()
