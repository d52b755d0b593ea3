"""The events in Parquet files: a folder each for people, auctions and bids, in the order of event time.

Several files of a kind take turns, fifty events each: each is in order, and all of them begin and end together.
"""

from __future__ import annotations

from itertools import islice, product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from events import EVERY, Auction, Bid, Event, Nexmark, Person

GROUP = 100_000
"""How many events the rows of one group are of: subtasks share the groups of a file."""


def write_events(nexmark: Nexmark, count: int, folder: Path, files: int = 1) -> None:
    """Write the first ``count`` events below a folder, in so many files of a kind."""
    writers: dict[tuple[type[Event], int], pq.ParquetWriter] = {}
    try:
        numbers = iter(range(count))
        while part := list(islice(numbers, GROUP * files)):
            events = [(number // EVERY % files, nexmark.event(number)) for number in part]
            for place, kind in product(range(files), (Person, Auction, Bid)):
                rows = [event for of, event in events if of == place and type(event) is kind]
                if not rows:
                    continue
                table = pa.table(dict(zip(kind._fields, map(list, zip(*rows, strict=True)), strict=True)))
                if (kind, place) not in writers:
                    to = folder_of(folder, kind)
                    to.mkdir(parents=True, exist_ok=True)
                    writers[kind, place] = pq.ParquetWriter(to / _name(place), table.schema)
                writers[kind, place].write_table(table)
    finally:
        for writer in writers.values():
            writer.close()


def _name(place: int) -> str:
    return f"events-{place}.parquet" if place else "events.parquet"


def folder_of(folder: Path, kind: type[Event]) -> Path:
    """Return where the events of a kind are."""
    return folder / kind.__name__.lower()
