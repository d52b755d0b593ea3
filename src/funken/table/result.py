"""``TableResult``: the result of a statement, as an iterator of rows, or printed as Flink prints it."""

from __future__ import annotations

import enum
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from funken.config.configuration import warn
from funken.errors import FunkenError
from funken.io.standard import write_out
from funken.plan import unexecuted
from funken.table.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    LocalZonedTimestampType,
    LogicalType,
    TimeOfDayType,
    TimestampType,
)
from funken.table.values import sql_text
from funken.types.row import Row

if TYPE_CHECKING:
    from funken.api.jobs.client import JobClient
    from funken.table.schema import ResolvedSchema

_MAX_WIDTH = 30
_OP = "op"


class ResultKind(enum.IntEnum):
    """The type of a statement's result: only success, or rows to show."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


class RowIterator(Iterator[Row]):
    """The rows of a result, as they come; closing it cancels the job that makes them.

    >>> with RowIterator(iter([Row(1), Row(2)])) as rows:
    ...     next(rows), rows.next()
    (<Row(1)>, <Row(2)>)
    """

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> Row:
        row: Row = next(self._rows)
        return row

    def next(self) -> Row:
        """Return the next row, waiting for it; raises ``StopIteration`` after the last."""
        return self.__next__()

    def close(self) -> None:
        """Cancel the job, if it runs."""
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> RowIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TableResult:
    """The result of a statement: its columns, its rows, and the job that makes them, if there is one.

    >>> from funken.table.types import DataTypes
    >>> TableResult(["table name"], [DataTypes.STRING()], [Row("orders")]).print()
    +------------+
    | table name |
    +------------+
    |     orders |
    +------------+
    1 row in set
    """

    def __init__(
        self,
        names: Sequence[str] = ("result",),
        types: Sequence[LogicalType] = (),
        rows: Iterable[Row] = (),
        *,
        job: Any = None,
        kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
        schema: Any = None,
        streaming: bool = False,
        widths_of_types: bool = False,
        max_width: int = _MAX_WIDTH,
        zone: str = "UTC",
        null: str = "<NULL>",
        raw: bool = False,
    ) -> None:
        self._names = list(names)
        self._types = list(types)
        self._rows = rows
        self._job = job
        self._kind = kind
        self._schema = schema
        self._streaming = streaming
        self._by_type = widths_of_types
        self._fits = False
        self._max_width = max_width
        self._zone = zone
        self._null = null
        self._raw = raw
        self._was_read = False
        self.unused = kind is ResultKind.SUCCESS_WITH_CONTENT and job is not None and not raw  # an INSERT has no rows
        if self.unused:
            unexecuted.begun.add(self)

    def _complaint(self) -> str:
        """Return that nobody read the rows, for the end of the script."""
        return "ran a query and never read its rows. print() of the result prints them, collect() returns them."

    def __del__(self) -> None:
        if getattr(self, "unused", False):
            unexecuted.lost.append(self._complaint())

    @staticmethod
    def ok() -> TableResult:
        """Return the result of a statement that has nothing to show.

        >>> TableResult.ok().print()
        OK
        """
        from funken.table.schema import ResolvedSchema  # noqa: PLC0415 - loads Arrow
        from funken.table.types import STRING  # noqa: PLC0415 - the name would hide DataTypes'

        schema = ResolvedSchema.physical(["result"], [STRING])
        return TableResult(["result"], [STRING], [Row("OK")], kind=ResultKind.SUCCESS, schema=schema)

    def get_job_client(self) -> JobClient | None:
        """Return the job that makes the rows or writes them; ``None`` for a statement without one."""
        self.unused = False
        job: JobClient | None = self._job
        return job

    def get_result_kind(self) -> ResultKind:
        """Return True if there is more than success."""
        return self._kind

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns of the result."""
        schema: ResolvedSchema = self._schema
        return schema

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the job has ended, or its first row is there; raises ``TimeoutError``, or the job's failure."""
        if self._job is None:
            return
        seconds = None if timeout_ms is None else timeout_ms / 1000
        try:
            self._job.get_job_execution_result().result(timeout=seconds)
        except TimeoutError:
            raise TimeoutError(f"the job has not ended within {timeout_ms} ms; it continues.") from None

    def collect(self) -> RowIterator:
        """Return the rows as they come, with their row kinds; they can be read once."""
        self.unused = False
        if self._job is not None and self._was_read:
            warn(
                "the rows of this result were read before, and come once. Keep them in a list, or execute the query again."
            )
        self._was_read = True
        return self._rows if isinstance(self._rows, RowIterator) else RowIterator(iter(self._rows))

    def print(self) -> None:
        """Print the rows as a table, while they come; the changes of a stream have a column ``op``."""
        if self._kind is ResultKind.SUCCESS and self._job is None:
            write_out("OK\n")
            return
        with self.collect() as rows:
            for line in self.lines(rows):
                write_out(line + "\n")

    def lines(self, rows: Iterable[Row]) -> Iterator[str]:
        """Return the lines that ``print`` prints of some rows."""
        if self._raw:
            yield from (cell for row in rows for cell in self.cells(row))
            return
        if self._by_type:
            cells: Iterable[list[str]] = map(self.cells, rows)
            widths = [self._type_width(name, type_) for name, type_ in zip(self._names, self._types, strict=True)]
            widths = [2, *widths] if self._streaming else widths
        else:
            cells = found = [self.cells(row) for row in rows]
            widths = [max(map(_width, column)) for column in zip(self.header(), *found, strict=True)]
            widths = [min(width, self._max_width) for width in widths] if self._fits else widths
        yield from _boxed(self.header(), cells, widths, cut=self._by_type or self._fits)

    def final(self, rows: Iterable[Row]) -> TableResult:
        """Return rows that stay, without their kinds, in columns as wide as their values."""
        made = TableResult(
            self._names, self._types, rows, max_width=self._max_width, zone=self._zone, schema=self._schema
        )
        made._fits = True
        return made

    def header(self) -> list[str]:
        """Return the names above the columns that are shown."""
        return [_OP, *self._names] if self._streaming else self._names

    def cells(self, row: Row) -> list[str]:
        """Return the texts of a row as they are shown, instants in the session's time zone."""
        texts = [sql_text(value, type_, self._null, self._zone) for value, type_ in zip(row, self._types, strict=True)]
        return [str(row.get_row_kind()), *texts] if self._streaming else texts

    def _type_width(self, name: str, type_: LogicalType) -> int:
        return max(_width(name), _width(self._null), _least_width(type_, self._max_width))


def _least_width(type_: LogicalType, longest: int) -> int:
    """Return the width of values of a type, as Flink reserves it for them."""
    if isinstance(type_, IntegralType):
        return type_.digits + 1
    if isinstance(type_, DecimalType):
        return type_.precision + 2
    if isinstance(type_, BooleanType):
        return 5
    if isinstance(type_, DateType):
        return 10
    if isinstance(type_, TimeOfDayType):
        return 8 if type_.precision == 0 else type_.precision + 9
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        return 19 if type_.precision == 0 else 20 + 3 * -(-type_.precision // 3)
    return longest


def _boxed(header: list[str], rows: Iterable[list[str]], widths: list[int], *, cut: bool) -> Iterator[str]:
    border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    count = 0
    for cells in rows:
        if not count:
            yield border
            yield _line(header, widths, cut)
            yield border
        count += 1
        yield _line(cells, widths, cut)
    if count:
        yield border
        yield f"{count} row{'s' if count > 1 else ''} in set"
    else:
        yield "Empty set"


def _line(cells: Sequence[str], widths: Sequence[int], cut: bool) -> str:
    return "|" + "|".join(f" {_fit(cell, width, cut)} " for cell, width in zip(cells, widths, strict=True)) + "|"


def _fit(cell: str, width: int, cut: bool) -> str:
    """Align a cell to the right; one that is too wide ends in ``...``."""
    space = width - _width(cell)
    if space >= 0:
        return " " * space + cell
    if not cut:
        return cell
    kept, used = "", 0
    for character in cell:
        used += _width(character)
        if used > width - 3:
            break
        kept += character
    return " " * (width - 3 - _width(kept)) + kept + "..."


def _width(text: str) -> int:
    """Return the width of a text by Flink: its units of UTF-16, and one more for each wide character.

    >>> _width("abc"), _width("日本"), _width("\U0001f600")
    (3, 4, 3)
    """
    if text.isascii():
        return len(text)
    return sum(1 + (character > "\uffff") + (unicodedata.east_asian_width(character) in "WF") for character in text)


class TableError(FunkenError):
    """A table or statement cannot be used as the program wants it."""
