"""A connector of one file: a shop, whose till has lines of JSON to be read, and whose books take entries, exactly once.

``tests/connectors/test_a_new_connector.py`` shows that it needs no change of Funken: what is not said here, the bases do.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from funken.connectors import Boundedness, CommitRequest, Committer, ConnectorContext, Sink, Source
from funken.connectors.reading import PolledReader, SplitRecords
from funken.connectors.sink import StagedWriter

_PAGE = 5


@dataclass(frozen=True)
class Till:
    id: str
    line: int = 0


@dataclass(frozen=True)
class ShopSource(Source):
    """Reads the tills of a shop, each a file of lines, to their ends."""

    folder: str
    boundedness = Boundedness.BOUNDED

    def list_splits(self) -> Sequence[Till]:
        return [Till(path.name) for path in sorted(Path(self.folder).glob("*.till"))]

    def reader(self, context):
        return TillReader(self.folder, context)


class TillReader(PolledReader):
    def __init__(self, folder: str, context: ConnectorContext) -> None:
        super().__init__(context)
        self._folder = Path(folder)

    def fetch(self, splits: Sequence[Till]) -> Sequence[SplitRecords]:
        return [self._page(split) for split in splits]

    def _page(self, split: Till) -> SplitRecords:
        lines = (self._folder / split.id).read_text().splitlines()
        page = lines[split.line : split.line + _PAGE]
        following = replace(split, line=split.line + len(page))
        size = sum(map(len, page))
        return SplitRecords(split.id, [json.loads(line) for line in page], following if page else None, size)

    def advance(self, split: Till, records: Sequence[Any]) -> Till:
        return replace(split, line=split.line + len(records))


@dataclass(frozen=True)
class ShopSink(Sink):
    """Writes entries into the books of a shop."""

    folder: str

    def writer(self, context):
        return StagedWriter(context)

    def committer(self, context):
        return Bookkeeper(self.folder, context)


class Bookkeeper(Committer):
    def __init__(self, folder: str, context: Any) -> None:
        super().__init__(context)
        self._books = Path(folder, "books")

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        with self._books.open("a+") as books:
            fcntl.flock(books, fcntl.LOCK_EX)
            books.seek(0)
            known = {json.loads(line)["entry"] for line in books}
            for request in requests:
                entry = f"{request.job_id}/{request.operator_uid}/{request.subtask}/{request.checkpoint_id}"
                if entry in known:
                    request.already_committed()
                else:
                    books.write(json.dumps({"entry": entry, "values": request.committable}) + "\n")


def entries_of(folder: str) -> list[Any]:
    """What is in the books."""
    books = Path(folder, "books")
    lines = books.read_text().splitlines() if books.exists() else []
    return [value for line in lines for value in json.loads(line)["values"]]
