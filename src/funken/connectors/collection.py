"""A collection as a source: the elements travel inside the plan.

They are pickled once, when the source is declared, with cloudpickle: classes of ``__main__`` travel too, and what the
program does to the collection afterwards is not seen. One subtask reads them, in order.

Many elements that are all alike travel as columns, and are read as such where the program can use them.
"""

from __future__ import annotations

import pickle
import reprlib
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import InitVar, dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from funken.columnar.expressions import NotVectorizable
from funken.config.configuration import warn
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    ConnectorContext,
    NeedSplits,
    QueuedReader,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.errors import RecordNotPicklable
from funken.expr.types import Type
from funken.io.shapes import dumps_by_value, first_unpicklable
from funken.timing.clock import SystemClock
from funken.types.callables import S, T_co
from funken.types.copying import distinct

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

COLUMNS_FROM = 200_000
"""So many elements are looked at: to load NumPy and Arrow takes 0.3 s, as much as 60,000 to 1,000,000 cost more in rows."""

_LOOKED_AT = 1000
"""In so many elements the texts are looked at, if the program parses them."""


_SAID_SECONDS = 10.0
"""A generator that goes on for so long is warned of."""


def _said(values: Iterable[S]) -> Iterator[S]:
    """Yield the elements of a generator, and warn if it does not end for a while."""
    clock = SystemClock().monotonic
    due = clock() + _SAID_SECONDS
    for count, value in enumerate(values, 1):
        yield value
        if clock() > due:
            due = inf
            warn(
                f"the collection {values!r:.60} has given {count:,} elements in {_SAID_SECONDS:.0f} s and goes on: the program "
                "begins when it ends, and all elements are in memory. For input without end use DataGeneratorSource, or a "
                "source of your own."
            )


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
    schema: Type | None = field(init=False, repr=False, compare=False)
    """The schema of the elements, if they travel as columns; otherwise ``per_record`` says why they do not."""
    per_record: str = field(init=False, repr=False, compare=False)
    max_parallelism = 1
    never_waits = True

    def __post_init__(self, values: Iterable[T_co]) -> None:
        """Pickle the elements."""
        elements = list(values if isinstance(values, Sized) else _said(values))
        columns = _columns(elements)
        if isinstance(columns, str):
            payload = dumps_by_value(distinct(elements), _not_picklable, elements)
        else:
            from funken.columnar.keyed.codec import encode_block  # noqa: PLC0415 - loads NumPy

            payload = encode_block(columns, dumps_by_value)
        object.__setattr__(self, "payload", payload)
        object.__setattr__(self, "size", len(elements))
        object.__setattr__(self, "schema", None if isinstance(columns, str) else columns.schema)
        object.__setattr__(self, "per_record", columns if isinstance(columns, str) else "")

    def record_schema(self) -> Type:
        """Return the schema of the elements, if they travel as columns.

        >>> CollectionSource(range(200_000)).record_schema()
        int
        """
        if self.schema is None:
            raise NotVectorizable(self.per_record)
        from funken.connectors.formats.texts import with_samples  # noqa: PLC0415 - few programs need it

        return with_samples(self.schema, self._texts)

    def _texts(self, leaf: int) -> list[str]:
        """Return the values of a field in some of the elements."""
        from funken.columnar.keyed.codec import decode_block  # noqa: PLC0415 - loads NumPy

        some = decode_block(self.payload)[:_LOOKED_AT]
        return some.leaves[leaf].to_list(len(some))

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Make the enumerator of the one split."""
        return StaticSplits((CollectionSplit(),), parallelism)

    def reader(self, context: ConnectorContext) -> CollectionReader:
        """Make a reader."""
        return CollectionReader(self.payload, of_columns=self.schema is not None)


class CollectionReader(QueuedReader):
    """Reads slices of the unpickled list, or of the columns."""

    def __init__(self, payload: bytes, of_columns: bool = False) -> None:
        super().__init__()
        self._payload = payload
        self._of_columns = of_columns
        self._values: Any = []
        self._makes_records = True

    def open(self) -> None:
        """Unpickle the elements."""
        if self._of_columns:
            from funken.columnar.keyed.codec import decode_block  # noqa: PLC0415 - loads NumPy

            self._values = decode_block(self._payload)
        else:
            self._values = pickle.loads(self._payload)

    def read_record_columns(self, schema: Type, wanted: Sequence[int] | None) -> None:
        """Return columns; all of them, for they are there."""
        self._makes_records = False

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next slice."""
        while self.queue:
            split: CollectionSplit = self.queue[0]
            values = self._values[split.offset : split.offset + limit]
            if values:
                self.queue[0] = CollectionSplit(split.offset + len(values))
                records = values.rows()[0] if self._of_columns and self._makes_records else values
                return Batch(records, split=split.id)
            self.end_split()
        return NEED_SPLITS


def _columns(elements: list[Any]) -> Columns | str:
    """Return the elements as columns; or why they are records."""
    if len(elements) < COLUMNS_FROM:
        return f"has fewer than {COLUMNS_FROM:,} elements"
    from funken.columnar.vectorized.results import columns_of_alike  # noqa: PLC0415 - loads NumPy

    try:
        return columns_of_alike(elements)
    except NotVectorizable as reason:
        return str(reason)


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
