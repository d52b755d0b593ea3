"""Delimited text as columns: Arrow parses whole lines at once, where it is certain that Python's parser gives the same.

Arrow is laxer in some places (a quote that ends within a field, ``0x10`` as a number, a carriage return as the end of a line,
``inf``) and stricter in others (``+5``). What it refuses is not taken, so only the first matters: a piece of text that has such
a thing in it, or gives a number that is infinite, is given back, and its lines are parsed one by one. Nothing else decides about
malformed lines. Fields that no function reads are checked all the same, since a line that does not fit is no record.

NumPy and Arrow are loaded where text is parsed.
"""

from __future__ import annotations

import csv
import decimal
import functools
import importlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ
from funken.connectors.formats.arrow_batches import places_of
from funken.connectors.formats.arrow_columns import columns_of_batch
from funken.dataclass import dataclass
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, Composite, ListOf, Object, Type

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns

_LINE_FEED, _ASCII = 10, 128
_MARK = b"\xef\xbb\xbf"
_ARROW: dict[Type, str] = {INT: "int64", FLOAT: "float64", BOOL: "bool_", STR: "string"}
_JAVA_LOW, _JAVA_HIGH = 1e-3, 1e7
"""Java writes floats between these without an exponent."""
_NAN_OF = re.compile(rb"nan\(", re.IGNORECASE)
_OTHER_NAN = re.compile(rb"(?!NaN)(?i:nan)|[+-]NaN")
"""What Arrow takes for NaN, and Java does not, or what may be that."""
_TRUE, _FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]


def is_text(data: bytes) -> bool:
    r"""Whether bytes are UTF-8.

    >>> is_text("né".encode()), is_text(b"\xff")
    (True, False)
    """
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def count_of(data: bytes, byte: bytes) -> int:
    r"""Return how often a byte occurs: 8 times faster than ``bytes.count`` where it is frequent.

    >>> count_of(b"to\nbe\n", b"\n")
    2
    """
    numpy = importlib.import_module("numpy")
    return int(numpy.count_nonzero(numpy.frombuffer(data, numpy.uint8) == byte[0]))


def fields_of(block: Block, record_type: Any, names: Sequence[str]) -> list[Column] | None:
    """Return the fields that lines have, in their order; ``None`` if records have to be made for that.

    >>> from funken.expr.types import Tuple
    >>> from funken import Types
    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = columns_of([("tea", 1), ("jam", 2)], Tuple((STR, INT)))
    >>> [field.to_list(2) for field in fields_of(block, Types.TUPLE([Types.STRING(), Types.INT()]), ["f0", "f1"])]
    [['tea', 'jam'], [1, 2]]
    """
    from funken.columnar.kernels.columns import Columns  # noqa: PLC0415 - loads NumPy

    if not isinstance(block, Columns) or not block.length:
        return None
    places = places_of(block.schema, record_type, names)
    if places is None or any(_is_unread(block.leaves[place]) for place in places):
        return None
    return [block.leaves[place] for place in places]


def _is_unread(column: Column) -> bool:
    return column.constant and column.data is NOT_READ  # that of others may have to be made


@dataclass(frozen=True)
class Quoting:
    r"""How lines have text in them: which letters it may not have without quotes, and how long it may be without them.

    >>> import pyarrow as pa
    >>> quoting = Quoting(re.compile('[\0-,"]'), '"', escape=None, longest=3)
    >>> quoting.quoted(pa.array(["tea", "jam", "bread"])).to_pylist(), quoting.quoted(pa.array(["a b", "tea"]))
    (['tea', 'jam', '"bread"'], None)
    """

    doubtful: re.Pattern[str]
    quote: str | None
    escape: str | None
    longest: int

    def quoted(self, texts: Any) -> Any:
        """Return texts as they are written; ``None`` if each has to be looked at."""
        compute = importlib.import_module("pyarrow.compute")
        offsets, content = importlib.import_module("funken.columnar.kernels.text").parts_of(texts)
        is_plain = not _has(self.doubtful, content[offsets[0] : offsets[-1]])
        if self.quote is None:
            return texts if is_plain else None
        longer = compute.greater(compute.utf8_length(texts), self.longest)
        alike = compute.all(longer).as_py()
        if not is_plain and (self.escape is not None or not alike):
            return None
        if not compute.any(longer).as_py():
            return texts
        doubled = (
            texts if is_plain else compute.replace_substring(texts, pattern=self.quote, replacement=2 * self.quote)
        )
        quoted = compute.binary_join_element_wise(self.quote, doubled, self.quote, "")
        return quoted if alike else compute.if_else(longer, quoted, texts)


def _has(letters: re.Pattern[str], content: Any) -> bool:
    """Whether text in UTF-8 has one of some letters."""
    # Hot: a table takes half of the time of the regular expression.
    if not _table_of(letters)[content].any():
        return False
    return content.max() < _ASCII or letters.search(content.tobytes().decode()) is not None


@functools.lru_cache(maxsize=64)
def _table_of(letters: re.Pattern[str]) -> Any:
    """Return which bytes are, or may belong to, one of some letters."""
    numpy = importlib.import_module("numpy")
    return numpy.array([code >= _ASCII or letters.search(chr(code)) is not None for code in range(256)])


def texts_of(field: Column, length: int, kind: Any, write: Callable[[Any], str], quoting: Quoting) -> Any:
    """Return what is written of a field, as Arrow's text: at once for what is written as Python and Arrow write it.

    ``kind`` is the declared type, ``write`` writes one value.
    """
    arrow = importlib.import_module("pyarrow")
    if field.constant:
        return arrow.repeat(write(field.data), length)
    of, found = arrow.types, None
    if field.kind == INT and of.is_integer(kind):
        numbers = arrow.array(field.data)
        numbers.cast(kind)  # raises ``ArrowInvalid``, a ``ValueError``, for numbers beyond the type
        found = numbers.cast(arrow.string())
    elif field.kind == BOOL:
        found = arrow.array([write(False), write(True)]).take(arrow.array(field.data).cast(arrow.int8()))
    elif field.kind == FLOAT and of.is_float64(kind) and _is_plain(field.data):
        forms = importlib.import_module("funken.columnar.kernels.number_forms").FORMS
        written = forms["str"](field)
        found = None if written is None else written.data
    elif field.kind == STR and of.is_string(kind):
        found = quoting.quoted(field.data)
    return arrow.array(list(map(write, field.to_list(length))), arrow.string()) if found is None else found


def _is_plain(floats: Any) -> bool:
    """Whether all floats are written by Java as by Python."""
    size = abs(floats)
    return bool(((size >= _JAVA_LOW) & (size < _JAVA_HIGH)).all())


def whole_array(column: Any) -> Any:
    """Return a column of a table as one array."""
    arrow = importlib.import_module("pyarrow")
    return column.chunk(0) if column.num_chunks == 1 else arrow.concat_arrays(column.chunks)


@dataclass(frozen=True)
class Delimiters:
    r"""Which bytes separate fields and quote them, and where records end.

    >>> Delimiters(",", '"').ends(b'1,"a\n""b"\n2,"c"\n')
    array([ 9, 15])

    ``None``: there is a quote where Python's parser and Arrow's differ.

    >>> Delimiters(",", '"').ends(b'"a"b\n')
    """

    delimiter: str
    quote: str | None

    def ends(self, data: bytes, complete: bool = True) -> Any:
        """Return where records end (an array), if no quote before the last end is a doubtful one; else ``None``.

        ``complete``: no byte comes after these, so an open quote is doubtful, too.
        """
        numpy = importlib.import_module("numpy")
        text = numpy.frombuffer(data, numpy.uint8)
        lines = numpy.flatnonzero(text == _LINE_FEED)
        if self.quote is None or self.quote.encode() not in data:
            return lines
        quotes = numpy.flatnonzero(text == ord(self.quote))
        if complete and len(quotes) % 2:
            return None
        ends = lines[numpy.searchsorted(quotes, lines) % 2 == 0]
        if not complete:
            quotes = quotes[: numpy.searchsorted(quotes, ends[-1])] if len(ends) else quotes[:0]
        # Each second quote closes a field, or is the first of two that stand for one; the others open a field, or are the second.
        around = numpy.zeros(256, bool)
        around[[ord(self.delimiter), ord(self.quote), _LINE_FEED, ord("\r")]] = True
        padded = numpy.concatenate(([_LINE_FEED], text, [_LINE_FEED])).astype(numpy.uint8)
        opens, closes = quotes[0::2], quotes[1::2]
        return ends if around[padded[opens]].all() and around[padded[closes + 2]].all() else None


class CsvColumns:
    """Makes columns of pieces of delimited text; ``order`` says which column of the text each field is."""

    def __init__(
        self, csv_schema: Any, parsers: Sequence[Callable[[str], Any]], types: Sequence[Any], schema: Composite,
        wanted: Sequence[int] | None, order: Sequence[int] | None = None, width: int | None = None,
    ) -> None:  # fmt: skip
        self.delimiters = Delimiters(csv_schema.delimiter, csv_schema.quote)
        self._schema = schema
        self._escape = csv_schema.escape.encode() if csv_schema.escape else None
        comment = csv_schema.comment
        self._is_comment = re.compile(b"(?:^|\n) *" + re.escape(comment.encode())).search if comment else None
        order = list(range(len(schema))) if order is None else list(order)
        wanted = range(len(schema)) if wanted is None else wanted
        kinds = [kind.required for kind in schema]
        #: of the fields that Arrow converts: field and column of the text; text that nobody reads is none of them
        self._read = [
            (number, f"{order[number]}") for number in range(len(schema)) if number in wanted or kinds[number] != STR
        ]
        #: fields that Python parses, since Arrow knows other forms of dates than Python
        self._parsed = {number: parsers[number] for number, _ in self._read if kinds[number] not in _ARROW}
        self._wanted = frozenset(wanted)
        self._hex = any(kinds[number] == INT for number, _ in self._read)
        #: the types that numbers are read as: whole ones are refused beyond theirs
        self._types = dict(enumerate(types))
        self._nan = any(kinds[number] == FLOAT for number, _ in self._read)
        arrow, of_csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
        self._names = [f"{number}" for number in range(len(schema) if width is None else width)]
        null = csv_schema.null_literal
        self._options = {
            "parse_options": of_csv.ParseOptions(
                delimiter=csv_schema.delimiter, quote_char=csv_schema.quote or False, escape_char=False,
                newlines_in_values=True,
            ),
            "convert_options": of_csv.ConvertOptions(
                column_types={
                    name: types[number] if kinds[number] == INT else getattr(arrow, _ARROW.get(kinds[number], "string"))()
                    for number, name in self._read
                },
                include_columns=[name for _, name in self._read] or [self._names[0]],
                null_values=["" if null is None else null], strings_can_be_null=null is not None,
                true_values=_TRUE, false_values=_FALSE,
            ),
        }  # fmt: skip
        if not self._read:
            self._options["convert_options"].column_types = {self._names[0]: arrow.string()}

    def of_lines(self, data: bytes) -> Columns | None:
        """Return the records of whole lines; ``None``: they have to be parsed one by one."""
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        ends = None if b"\r" in data else self.delimiters.ends(data)
        if ends is None or len(ends) != count_of(data, b"\n"):
            return None
        return self.of_records(data, ends)

    def of_records(self, data: bytes, ends: Any) -> Columns | None:
        """Return the records that end at these places; ``None``: they have to be parsed one by one."""
        if not self._alike(data, ends):
            return None
        arrow, of_csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")
        rows = len(ends) + (not data.endswith(b"\n"))
        reading = of_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names)
        try:
            table = of_csv.read_csv(arrow.py_buffer(data), read_options=reading, **self._options)
        except arrow.ArrowInvalid:
            return None
        return self._columns(table, data) if table.num_rows == rows else None

    def _alike(self, data: bytes, ends: Any) -> bool:
        """Whether Arrow refuses what Python refuses."""
        numpy = importlib.import_module("numpy")
        sizes = numpy.diff(ends, prepend=-1, append=len(data))
        # Hot: a search for two bytes stops at each line feed.
        quote = self.delimiters.quote
        may_be_empty = bool((sizes[:-1] <= len(b"\r\n")).any()) or (quote is not None and quote.encode() in data)
        return not (
            data.startswith((b"\n", b"\r\n", _MARK))
            or (may_be_empty and (b"\n\n" in data or b"\n\r\n" in data))
            or int(sizes.max()) > csv.field_size_limit()
            or (self._escape is not None and self._escape in data)
            or (self._is_comment is not None and self._is_comment(data) is not None)
            or (self._hex and (b"0x" in data or b"0X" in data))
            or (self._nan and b"(" in data and _NAN_OF.search(data) is not None)
            or not is_text(data)
        )

    def _columns(self, table: Any, data: bytes) -> Columns | None:
        arrays: list[Any] = [None] * len(self._schema)
        values: dict[int, list[Any]] = {}
        for number, name in self._read:
            array = whole_array(table.column(name))
            if importlib.import_module("pyarrow").types.is_floating(array.type):
                array = _reals(array, self._types[number], data)
                if array is None:
                    return None
            if number in self._parsed:
                try:
                    values[number] = self._python(number, array)
                except (ValueError, KeyError, decimal.InvalidOperation):
                    return None
            elif number in self._wanted:
                arrays[number] = array
        made = columns_of_batch(self._schema, arrays, table.num_rows)
        return None if made is None else self._with(made, values)

    def _python(self, number: int, array: Any) -> list[Any]:
        parse = self._parsed[number]
        return [None if text is None else parse(text) for text in array.to_pylist()]

    def _with(self, made: Columns, values: dict[int, list[Any]]) -> Columns | None:
        """Put the values that Python has parsed into their places."""
        from funken.columnar.kernels.columns import column_of  # noqa: PLC0415 - loads NumPy

        for number, parsed in values.items():
            kind = self._schema[number]
            if number not in self._wanted:
                continue
            if None in parsed and not kind.is_optional:
                return None
            assert isinstance(kind, Atomic)
            made.leaves[number] = column_of(parsed, kind)
        return made


def _reals(array: Any, kind: Any, data: bytes) -> Any:
    """Return numbers rounded to those of their type; ``None`` if one is infinite, or was written as only Arrow reads it."""
    arrow, compute = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")
    if arrow.types.is_float32(kind):
        array = array.cast(arrow.float32()).cast(arrow.float64())
    if compute.all(compute.is_finite(array)).as_py() is not False:
        return array
    if compute.any(compute.is_inf(array)).as_py() or _OTHER_NAN.search(data) is not None:
        return None
    return array


def csv_record_schema(csv_schema: Any, schema: Composite) -> Composite:
    """Return the schema, if text of this form can become columns; raise ``NotVectorizable`` if not."""
    if csv_schema.charset.lower().replace("_", "-") not in ("utf-8", "utf8"):
        raise NotVectorizable(f"reads text that is {csv_schema.charset}, and not UTF-8")
    for name in ("delimiter", "quote", "escape", "comment"):
        character = getattr(csv_schema, name)
        if character is not None and not character.isascii():
            raise NotVectorizable(f"has a {name} that is not ASCII: {character!r}")
    plain = [isinstance(kind, Atomic) and not isinstance(kind.required, ListOf) for kind in schema]
    kinds = [kind if is_plain else Object("value of CSV") for kind, is_plain in zip(schema, plain, strict=True)]
    return schema.with_fields(kinds)


__all__ = [
    "CsvColumns",
    "Delimiters",
    "Quoting",
    "csv_record_schema",
    "fields_of",
    "is_text",
    "texts_of",
    "whole_array",
]
