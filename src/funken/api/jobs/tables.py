"""Collected records as a table: of the declared types, else of those that pyarrow finds in the values."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from funken import extras
from funken.connectors.formats.record_types import arrow_type, as_document, shape_of
from funken.errors import InvalidProgram, ValueDoesNotFit
from funken.expr.python.table import BYTES, DATE, TIMEDELTA
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, ListOf, Type
from funken.types.info import RowTypeInfo, TupleTypeInfo, TypeInformation, columns_of
from funken.types.row import Instant

if TYPE_CHECKING:
    import pyarrow as pa


_WHO = "a table of records"


def table_of(
    records: Sequence[object],
    declared: TypeInformation | None = None,
    traced: Callable[[], Type | None] = lambda: None,
) -> pa.Table:
    """Return records as a table; a column that a record with names lacks is null there.

    Without records and a declared type, the columns are those of the shape that ``traced()`` has found in the functions.

    Raises ``InvalidProgram`` where the records have no columns in common, or the values of a column no type.
    """
    arrow = extras.load("pyarrow")
    schema = _declared_columns(declared)
    rows = _rows(records)
    if not schema and not rows:
        schema = _traced_columns(traced())
    if schema and rows:
        by_columns = importlib.import_module("funken.connectors.dataframes.sink").by_columns
        rows = [*map(by_columns([*schema], _WHO), rows)]
    names = [*schema] or list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        values, wanted = [_plain(row.get(name)) for row in rows], schema.get(name)
        try:
            columns[name] = arrow.array(values, wanted)
        except (arrow.ArrowException, TypeError, OverflowError) as error:
            fault = f"column {name!r} of the records cannot be a column of a table: {error}. "
            if wanted is not None:
                raise ValueDoesNotFit(f"{fault}Its declared type is {wanted}: declare another one.") from error
            raise InvalidProgram(
                f"{fault}Give it values of one type, which Arrow has (numbers, text, bytes, times, lists and dicts of these), in "
                "a map() before."
            ) from error
    return arrow.table(columns)


def _declared_columns(declared: TypeInformation | None) -> dict[str, pa.DataType | None]:
    """Return columns by name, with their types where Arrow has them; nothing where no type is declared."""
    match declared:
        case RowTypeInfo() | TupleTypeInfo():
            return {
                name: _arrow_type(each)
                for name, each in zip(shape_of(declared, _WHO).names, declared.field_types, strict=True)
            }
        case TypeInformation() if (found := _arrow_type(declared)) is not None:
            return {"value": found}
    return {}


def _traced_columns(shape: Type | None) -> dict[str, pa.DataType | None]:
    """Return the columns of a shape, with the types that pyarrow would find in its values; null where only they say it."""
    arrow = extras.load("pyarrow")
    known = {INT: arrow.int64(), FLOAT: arrow.float64(), BOOL: arrow.bool_(), STR: arrow.string(), DATE: arrow.date32()}
    known |= {BYTES: arrow.binary(), TIMEDELTA: arrow.duration("us")}

    def type_of(schema: Type) -> pa.DataType:
        if isinstance(schema.required, ListOf):
            return arrow.list_(type_of(schema.required.element))
        return known.get(schema.required, arrow.null()) if isinstance(schema, Atomic) else arrow.null()

    match shape:
        case None:
            return {}
        case tuple():
            names = getattr(shape, "names", None) or [f"f{place}" for place in range(len(shape))]
            return {name: type_of(kind) for name, kind in zip(names, shape, strict=True)}
        case _:
            return {"value": type_of(shape)}


def _arrow_type(declared: TypeInformation) -> pa.DataType | None:
    try:
        found: pa.DataType = arrow_type(declared, _WHO)
    except InvalidProgram:  # such as pickled objects: it is tried what the values are
        return None
    return found


def _rows(records: Sequence[object]) -> list[dict[str, object]]:
    """Return the columns of each record; those without names of their own must all have the same."""
    rows = [columns_of(record) for record in records]
    for record, row in zip(records, rows, strict=True):
        if row.keys() != rows[0].keys() and not (_names_columns(record) and _names_columns(records[0])):
            raise InvalidProgram(
                f"the records {_short(records[0])} and {_short(record)} do not fit one table: the columns of the one are "
                f"{', '.join(rows[0])}, those of the other {', '.join(row)}. Bring them into one form in a map() before, or "
                "collect the streams apart."
            )
    return rows


def _names_columns(record: object) -> bool:
    return (
        isinstance(record, Mapping) or bool(getattr(record, "_fields", None)) or hasattr(record, "__dataclass_fields__")
    )


def _short(record: object) -> str:
    text = repr(record)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _plain(value: object) -> object:
    return value.to_datetime() if isinstance(value, Instant) else as_document(value)


# ---- The first records of a stream as a table of text, or of HTML in a notebook: what ``stream.show()`` shows.


_WIDEST = 40


class ShownRecords:
    """Records with their columns; ``str()`` is a table of text, and a notebook shows one of HTML.

    >>> print(ShownRecords([{"word": "to", "n": 2}, {"word": "be"}]))
    word  n
    ----  -
    to    2
    be
    """

    def __init__(self, records: Sequence[object]) -> None:
        rows = [columns_of(record) for record in records]
        self._names = list(dict.fromkeys(name for row in rows for name in row))
        self._rows = [[_text(row[name]) if name in row else "" for name in self._names] for row in rows]
        self._numbers = [all(_is_number(row[name]) for row in rows if name in row) for name in self._names]

    def __str__(self) -> str:
        if not self._names:
            return "no records"
        widths = [max(map(len, column)) for column in zip(self._names, *self._rows, strict=True)]
        lines = [self._names, ["-" * width for width in widths], *self._rows]
        return "\n".join(self._line(line, widths) for line in lines)

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        placed = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(cells, widths, self._numbers, strict=True)
        )
        return "  ".join(placed).rstrip()

    def _repr_html_(self) -> str:
        if not self._names:
            return "no records"
        head = "".join(f"<th>{escape(name)}</th>" for name in self._names)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
