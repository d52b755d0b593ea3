"""Results while they come: rows, batches, the first rows; closing an iterator cancels its job."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from funken.table.table import Table
from funken.timing.clock import SystemClock
from funken.types.row import Row

if TYPE_CHECKING:
    from funken.table.logical import RelationType
    from funken.table.result import TableResult

T = TypeVar("T")


class ResultIterator(Iterator[T], Generic[T]):
    """An iterator over the results of a job; it closes itself at the end or on an error, and closing cancels the job.

    >>> closed = []
    >>> with ResultIterator(iter([1, 2]), lambda: closed.append(True)) as numbers:
    ...     next(numbers)
    1
    >>> list(numbers), closed
    ([], [True])
    """

    def __init__(self, iterator: Iterator[T], close: Callable[[], None]) -> None:
        self._iterator = iterator
        self._close: Callable[[], None] | None = close

    def __iter__(self) -> ResultIterator[T]:
        return self

    def __next__(self) -> T:
        if self._close is None:
            raise StopIteration
        try:
            return next(self._iterator)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel the job if it runs; a second call does nothing."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> ResultIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_dict(row: Row, names: Sequence[str], kind_field: str | None) -> dict[str, Any]:
    found = dict(zip(names, row, strict=True))
    if kind_field is not None:
        found[kind_field] = str(row.get_row_kind())
    return found


def rows_of(table: Table, kind_field: str | None) -> ResultIterator[dict[str, Any]]:
    """Execute a query, and return its rows as dicts."""
    rows = table.execute().collect()
    return ResultIterator((_as_dict(row, table.names, kind_field) for row in rows), rows.close)


def batches_of(table: Table, size: int, batch_format: str, kind_field: str | None) -> ResultIterator[Any]:
    """Execute a query, and return its rows in batches."""
    row_type = table.plan.row_type
    rows = table.execute().collect()

    def batches() -> Iterator[Any]:
        while chunk := list(itertools.islice(rows, size)):
            yield batch_of(chunk, row_type, batch_format, kind_field)

    return ResultIterator(batches(), rows.close)


def batch_of(rows: Sequence[Row], row_type: RelationType, batch_format: str, kind_field: str | None) -> Any:
    """Return rows as a table of Arrow, or a DataFrame of pandas."""
    import pyarrow as pa  # noqa: PLC0415 - only for batches

    from funken.table.types import arrow_type  # noqa: PLC0415
    from funken.table.values import from_python  # noqa: PLC0415

    arrays = [from_python([row[place] for row in rows], column.type) for place, column in enumerate(row_type)]
    fields = [pa.field(column.name, arrow_type(column.type)) for column in row_type]
    if kind_field is not None:
        arrays.append(pa.array([str(row.get_row_kind()) for row in rows], pa.string()))
        fields.append(pa.field(kind_field, pa.string(), nullable=False))
    batch = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    return batch.to_pandas() if batch_format == "pandas" else batch


def taken(table: Table, n: int, timeout: float | None, kind_field: str | None) -> list[dict[str, Any]]:
    """Return the first rows of a query as dicts."""
    return [_as_dict(row, table.names, kind_field) for row in taken_rows(table, n, timeout)]


def taken_rows(table: Table, n: int, timeout: float | None) -> list[Row]:
    """Return the first rows of a query, or those that came in time; then its job is cancelled."""
    if n == 0:
        return []
    rows = table.execute().collect()
    if timeout is None:
        with rows:
            return list(itertools.islice(rows, n))
    return _in_time(rows, n, timeout)


def _in_time(rows: Any, n: int, timeout: float) -> list[Row]:
    """Return the rows that come in time: a thread waits for them, since waiting for a row cannot be interrupted."""
    clock = SystemClock()
    deadline = clock.monotonic() + timeout
    found: queue.Queue[tuple[str, Any]] = queue.Queue()
    closed = threading.Event()

    def fetch() -> None:
        try:
            for row in itertools.islice(rows, n):
                found.put(("row", row))
            found.put(("end", None))
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            if not closed.is_set():
                found.put(("error", error))

    threading.Thread(target=fetch, name="take", daemon=True).start()
    got: list[Row] = []
    try:
        while len(got) < n:
            try:
                what, value = found.get(timeout=max(deadline - clock.monotonic(), 0))
            except queue.Empty:
                break
            if what == "error":
                raise value
            if what == "end":
                break
            got.append(value)
    finally:
        closed.set()
        rows.close()
    return got


def first_rows(table: Table, n: int) -> tuple[TableResult, list[Row]]:
    """Return the result of a query, and the first rows that are left of it."""
    from funken.table.collecting import remaining  # noqa: PLC0415 - loads Arrow

    result = table.fetch(n).execute()
    result._streaming = False  # the rows that are left, not the changes
    result._by_type = False
    with result.collect() as rows:
        return result, remaining(rows)


def shown(table: Table, n: int) -> str:
    """Return the first rows of a query in a box."""
    result, rows = first_rows(table, n)
    lines = list(result.lines(rows))
    return "\n".join(lines[:-1])  # behind the rows is their number
