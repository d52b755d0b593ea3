"""A collection as a source: the elements travel inside the plan.

They are pickled once, when the source is declared, with cloudpickle: classes of ``__main__`` travel too, and what the
program does to the collection afterwards is not seen. One subtask reads them, in order.
"""

from __future__ import annotations

import pickle
import reprlib
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from typing import Any, ClassVar

from funken.connectors.base import NEED_SPLITS, Batch, NeedSplits, Source, SplitEnumerator, StaticSplits, Wait
from funken.connectors.context import ConnectorContext
from funken.connectors.reading.queued_reader import QueuedReader
from funken.errors import RecordNotPicklable
from funken.io.pickling import dumps_by_value, first_unpicklable
from funken.types.copying import distinct
from funken.types.generics import T_co


@dataclass(frozen=True, slots=True)
class CollectionSplit:
    """The elements from ``offset`` on."""

    offset: int = 0
    id: ClassVar[str] = "collection"


@dataclass(frozen=True)
class CollectionSource(Source[T_co]):
    """The elements of an iterable; always read by one subtask.

    >>> source = CollectionSource(["a", "b", "c"])
    >>> reader = source.reader(ConnectorContext("letters", 0, 1))
    >>> reader.open()
    >>> reader.add_splits(source.enumerator(1).next_splits(0))
    >>> reader.poll(2, now=0).values, reader.snapshot_state(1)
    (['a', 'b'], [CollectionSplit(offset=2)])
    """

    values: InitVar[Iterable[T_co]]
    payload: bytes = field(init=False, repr=False)
    size: int = field(init=False)
    max_parallelism = 1
    never_waits = True

    def __post_init__(self, values: Iterable[T_co]) -> None:
        """Pickle the elements."""
        elements = list(values)
        payload = dumps_by_value(distinct(elements), _not_picklable, elements)
        object.__setattr__(self, "payload", payload)
        object.__setattr__(self, "size", len(elements))

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the one split."""
        return StaticSplits((CollectionSplit(),), parallelism)

    def reader(self, context: ConnectorContext) -> CollectionReader:
        """Make a reader."""
        return CollectionReader(self.payload)


class CollectionReader(QueuedReader):
    """Reads slices of the unpickled list."""

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self._payload = payload
        self._values: list[Any] = []

    def open(self) -> None:
        """Unpickle the elements."""
        self._values = pickle.loads(self._payload)

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next slice."""
        while self.queue:
            split: CollectionSplit = self.queue[0]
            values = self._values[split.offset : split.offset + limit]
            if values:
                self.queue[0] = CollectionSplit(split.offset + len(values))
                return Batch(values, split=split.id)
            self.end_split()
        return NEED_SPLITS


def _not_picklable(cause: Exception, elements: list[Any]) -> RecordNotPicklable:
    """Return the error for the first element that cannot be pickled."""
    where, found = "a collection", first_unpicklable(elements)
    if found is not None:
        index, element, cause = found
        where = f"element {index} of a collection, {_short(element)},"
    return RecordNotPicklable(
        f"{where} cannot be pickled ({type(cause).__name__}: {cause}), so it cannot travel to a task. "
        f"Pass plain data, and create connections, locks and files in the open() of the function that uses them."
    )


def _short(element: Any) -> str:
    try:
        return reprlib.repr(element)
    except Exception:  # noqa: BLE001 - a repr that fails must not hide the element's number
        return f"a {type(element).__name__}"
