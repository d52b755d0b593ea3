"""Delimited text (CSV): records to lines and back, one by one and as columns; ``files/csv_files.py`` has files of it.

Values have the types of the declared record: text is converted, and text that does not fit makes the message malformed.
A field that is the null literal is ``None``; without a null literal, so is an empty field of any type but text.

As columns: Arrow parses whole lines at once, where it is certain that Python's parser gives the same. Arrow is laxer in some
places (a quote that ends within a field, ``0x10`` as a number, a carriage return as the end of a line, ``inf``) and stricter in
others (``+5``). It may refuse lines, so only the first matters: a piece of text that has such a thing in it, or gives a number
that is infinite, is given back, and its lines are parsed one by one. Nothing else decides about malformed lines. Fields that no
function reads are checked all the same, since a line that does not fit is no record.

NumPy and Arrow are loaded where text becomes columns.
"""

from __future__ import annotations

import csv
import decimal
import enum
import functools
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.columnar.records import NOT_READ
from funken.connectors.formats.arrow import places_of
from funken.connectors.formats.arrow_columns import columns_of_batch, whole_array
from funken.connectors.formats.record_types import RecordShape, field_types, schema_of_records, shape_of, without_null
from funken.connectors.schemas import DeserializationSchema, SerializationSchema, count_of, is_text
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic, Composite, ListOf, Object, Type
from funken.types.callables import Generic, T_co
from funken.types.info import TypeOf
from funken.types.text import TextColumn, ValueTexts, parser_of

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns

_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\0": "0"}
"""The letter behind an escape for a character."""
_INSTEAD = {"\n": "\udc0a", "\r": "\udc0d"}
_LONGEST_LOOKED_AT = 24
"""Longer text is quoted without a look at it, as by Flink."""
_LINE_FEED, _ASCII = 10, 128
_MARK = b"\xef\xbb\xbf"
_ARROW: dict[Type, str] = {INT: "int64", FLOAT: "float64", BOOL: "bool_", STR: "string"}
_JAVA_LOW, _JAVA_HIGH = 1e-3, 1e7
"""Java writes floats between these without an exponent."""
_NAN_OF = re.compile(rb"nan\(", re.IGNORECASE)
_OTHER_NAN = re.compile(rb"(?!NaN)(?i:nan)|[+-]NaN")
"""Texts that Arrow takes for NaN, and Java does not, or that may be such."""
_TRUE, _FALSE = ["true", "True", "TRUE", "1"], ["false", "False", "FALSE", "0"]


class HeaderNames(enum.Enum):
    """The use of the names in the header of a file."""

    FIND = "find"
    """Columns are found by them; those not in the schema are dropped."""
    MATCH = "match"
    """They have to be those of the schema, in its order."""
    IGNORE = "ignore"
    """Nothing: columns are in the order of the schema."""


@dataclass(frozen=True)
class CsvSchema(SerializationSchema[object], DeserializationSchema[T_co], Generic[T_co]):
    r"""Delimited text, both ways; ``record_type`` is a dataclass, a named tuple class, ``Types.ROW_NAMED(...)`` or like those.

    ``quote=None`` and ``escape=None`` give these characters no meaning, lines that begin with ``comment`` are skipped.
    ``array_delimiter`` is between the elements of a list, or the fields of a row, in one field; ``array_delimiters`` are pairs of
    a field and another one. Bytes are in base64.

    Lines are those that Flink writes: numbers as in Java, decimals with the digits that their type has, and text is quoted if it
    has more than 24 characters, or any that is not after delimiter, quote and line feed, or the escape, by default a backslash.
    Raises ``InvalidConfiguration`` for a character that is none, ``InvalidProgram`` for a type that no text has.

    >>> from funken import Types
    >>> schema = CsvSchema(Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.INT()]), delimiter="|", null_literal="-")
    >>> schema.deserialize(b'"tea|black"|3'), schema.deserialize(b"tea|-")
    (Row(item='tea|black', n=3), Row(item='tea', n=None))
    >>> schema.serialize(("tea|black", None))
    b'"tea|black"|-'
    >>> schema.deserialize(b"tea|many")
    Traceback (most recent call last):
    ...
    ValueError: field 'n': 'many' is no whole number
    >>> schema.deserialize(b"tea")
    Traceback (most recent call last):
    ...
    ValueError: it has 1 field(s) and not 2: item, n
    """

    header_remedy: ClassVar[str] = "leave it out, as with CsvReaderFormat(schema, skip_first_row=True)"
    delimiter_remedy: ClassVar[str] = "give the schema delimiter={!r}"
    malformed_remedy: ClassVar[str] = ""

    record_type: TypeOf[T_co]
    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    comment: str | None = None
    array_delimiter: str = ";"
    charset: str = "UTF-8"
    array_delimiters: tuple[tuple[str, str], ...] = ()
    _shape: RecordShape = field(init=False, repr=False, compare=False)
    _in_lines: Quoting = field(init=False, repr=False, compare=False)
    _parsers: tuple[Callable[[str], Any], ...] = field(init=False, repr=False, compare=False)
    _writers: tuple[Callable[[Any], str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse settings that cannot work, before the job runs."""
        for name in ("delimiter", "quote", "escape", "comment", "array_delimiter"):
            character = getattr(self, name)
            self._check_character(name, character)
        for name, character in self.array_delimiters:
            self._check_character(f"array_delimiters[{name!r}]", character)
        if self.delimiter == self.quote:
            raise InvalidConfiguration(f"CsvSchema: delimiter and quote are both {self.quote!r}; choose another.")
        try:
            "".encode(self.charset)
        except LookupError as error:
            raise InvalidConfiguration(f"{error}; give a text charset of Python, e.g. 'UTF-8', 'ISO-8859-1'.") from None
        shape = shape_of(self.record_type, "CsvSchema")
        object.__setattr__(self, "_shape", shape)
        own = dict(self.array_delimiters)
        unknown = sorted(own.keys() - set(shape.names))
        if unknown:
            raise InvalidConfiguration(
                f"CsvSchema: array_delimiters has {unknown[0]!r}, which is none of {', '.join(shape.names)}."
            )
        columns = [
            (
                ValueTexts(own.get(each.name, self.array_delimiter), self.null_literal, self.reads_empty_lists),
                TextColumn(each.type, without_null(of)),
            )
            for each, of in zip(shape.types(), field_types(self.record_type) or (None,) * len(shape.names), strict=True)
        ]
        parsers = tuple(self._parser(column, text.delimiter) for text, column in columns)
        object.__setattr__(self, "_parsers", parsers)
        object.__setattr__(self, "_in_lines", self._quoting())
        quoted = self._written_text()
        object.__setattr__(self, "_writers", tuple(text.writer(column, quoted) for text, column in columns))

    @staticmethod
    def _check_character(name: str, character: str | None) -> None:
        if character is not None and (len(character) != 1 or character in "\r\n"):
            raise InvalidConfiguration(f"CsvSchema: {name} is {character!r}; it has to be one character of a line.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.record_type, self.delimiter, self.quote, self.escape, self.null_literal, self.comment,
            self.array_delimiter, self.charset, self.array_delimiters,
        )  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._shape.names

    def rows(self, lines: Iterable[str]) -> Any:
        """Return an iterator over the fields of lines, as text; a quoted field may go on in the next line."""
        dialect = self._dialect()
        if self.escape:
            lines = _with_escapes(lines, self.escape)
        rows = _Uncommented(lines, self.comment, dialect) if self.comment else csv.reader(lines, **dialect)
        return map(_with_ends_of_lines, rows) if self.escape else rows

    def _dialect(self) -> dict[str, Any]:
        quoting = csv.QUOTE_NONE if self.quote is None else csv.QUOTE_MINIMAL
        return {
            "delimiter": self.delimiter, "quotechar": self.quote, "escapechar": self.escape, "quoting": quoting,
            "strict": True,
        }  # fmt: skip

    never_waits = True
    blank_is_record = False
    """True if a blank line is a record whose only field is empty."""
    reads_empty_lists = False
    """True if an empty field is an empty list, and ``None`` has no text of its own."""

    def deserialize(self, message: bytes) -> T_co | None:
        """Parse a line; an empty one, or a comment, is no record."""
        text = message.decode(self.charset)
        if not text or (self.comment and text.lstrip(" ").startswith(self.comment)):
            return None
        rows = list(self.rows([text]))
        if len(rows) != 1:
            raise ValueError(f"it is {len(rows)} lines")
        record: T_co = self.record(rows[0])
        return record

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Parse lines; as many rows as messages means that no quote of one reaches into the next."""
        charset = self.charset
        rows = list(self.rows([message.decode(charset) for message in messages]))
        if len(rows) != len(messages):
            return super().deserialize_block(messages)
        return [self.record(row) for row in rows if row]

    def record(self, row: Sequence[str]) -> Any:
        """Make a record of the fields of a line; raises ``ValueError`` if they do not fit."""
        parsers = self._parsers
        if len(row) != len(parsers):
            row = self.fitted(row)
        try:
            return self._shape.make([parse(text) for parse, text in zip(parsers, row, strict=True)])
        except (ValueError, KeyError, decimal.InvalidOperation):
            for name, parse, text in zip(self.names, parsers, row, strict=True):
                try:
                    parse(text)
                except (ValueError, KeyError, decimal.InvalidOperation) as error:
                    raise ValueError(f"field {name!r}: {error or repr(text)}{self.header_hint(row)}") from None
            raise

    def fitted(self, row: Sequence[str]) -> Sequence[str]:
        """Return the fields of a line that has not as many as there are columns; here it is refused."""
        width, other = len(self.names), ""
        found = [each for each in ";\t|," if len(row) == 1 and row[0].count(each) == width - 1 and width > 1]
        if found:
            other = f"; its delimiter seems to be {found[0]!r}: {self.delimiter_remedy.format(found[0])}"
        raise ValueError(f"it has {len(row)} field(s) and not {width}: {', '.join(self.names)}{other}")

    def header_hint(self, row: Sequence[str | None]) -> str:
        """Return the remedy for a line that names the columns; ``""`` for any other one."""
        same = [(text or "").strip().lower() for text in row] == [name.lower() for name in self.names]
        return f"; the line names the columns: {self.header_remedy}" if same else ""

    def of_columns(self, names: Sequence[str]) -> Callable[[Sequence[str]], Any]:
        """Return ``record`` for lines whose columns have these names, in their order; others than declared are dropped."""
        missing = [name for name in self.names if name not in names]
        if missing:
            raise ValueError(f"its header has no column {missing[0]!r}, but {', '.join(map(repr, names))}")
        if tuple(names) == self.names:
            return self.record
        order, width = [names.index(name) for name in self.names], len(names)

        def record(row: Sequence[str]) -> Any:
            if len(row) != width:
                raise ValueError(f"it has {len(row)} field(s) and not {width}, as the header")
            return self.record([row[index] for index in order])

        return record

    def record_schema(self) -> Type:
        """Return the schema of the records."""
        if type(self) is not CsvSchema:
            return super().record_schema()
        return csv_record_schema(self, schema_of_records(self.record_type, self._shape))

    def lines_to_columns(self, schema: Type, wanted: Sequence[int] | None) -> Callable[[bytes], Block | None]:
        """Return a function that makes columns of lines."""
        return self.columns(schema, wanted).of_lines

    def columns(self, schema: Type, wanted: Sequence[int] | None, names: Sequence[str] | None = None) -> CsvColumns:
        """Return a function from text with columns of these names, in order (``None``: as declared), to columns."""
        assert isinstance(schema, Composite)
        if names is None:
            return CsvColumns(self, self._parsers, self._types(), schema, wanted)
        return CsvColumns(
            self, self._parsers, self._types(), schema, wanted, [names.index(name) for name in self.names], len(names)
        )

    def _types(self) -> list[Any]:
        return [each.type for each in self._shape.types()]

    def serialize(self, value: Any) -> bytes:
        """Write a line, without a line feed."""
        return self.serialize_block((value,))[0]

    def serialize_block(self, values: Sequence[Any]) -> list[bytes]:
        """Write lines, without line feeds."""
        if not len(values):
            return []
        names = self.names
        rows = list(map(self._shape.values, values))
        for row in rows:
            if len(row) != len(names):
                raise ValueError(f"a record has {len(row)} field(s) and not {len(names)}: {', '.join(names)}")
        return self._lines(zip(*rows, strict=True))

    @property
    def takes_columns(self) -> bool:  # type: ignore[override]
        """True if the lines are those of this class."""
        return type(self) is CsvSchema

    def messages_of(self, block: Block) -> list[bytes]:
        """Write lines: of columns in a seventh of the time that their records take (benchmarks/text_columns.py)."""
        fields = fields_of(block, self.record_type, self.names) if self.takes_columns else None
        if fields is None:
            return super().messages_of(block)
        if self.charset.lower() not in ("utf-8", "utf8") or len(fields) == 1:
            return self._lines(field.to_list(len(block)) for field in fields)
        kinds = self._types()
        texts = []
        for name, column, kind, write in zip(self.names, fields, kinds, self._writers, strict=True):
            try:
                texts.append(texts_of(column, len(block), kind, write, self._in_lines))
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from error
        return self._joined(texts)

    def lines_of(self, columns: Sequence[Any]) -> list[bytes]:
        r"""Write lines of columns: Arrow's arrays of whole numbers or texts, or lists of values.

        >>> import pyarrow as pa
        >>> from funken import Types
        >>> schema = CsvSchema(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.DOUBLE()]))
        >>> schema.lines_of([pa.array(["to", None, "b,"]), [1.0, None, 2.5]])
        [b'to,1.0', b',', b'"b,",2.5']
        """
        if len(columns) == 1:
            return self._lines(column if isinstance(column, list) else column.to_pylist() for column in columns)
        texts = []
        for name, column, write in zip(self.names, columns, self._writers, strict=True):
            try:
                texts.append(texts_of_array(column, write, self._in_lines))
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from error
        return self._joined(texts)

    def _joined(self, texts: Sequence[Any]) -> list[bytes]:
        arrow = extras.load("pyarrow")
        lines = extras.load("pyarrow.compute").binary_join_element_wise(*texts, self.delimiter)
        found: list[bytes] = lines.cast(arrow.binary()).to_pylist()
        return found

    def _lines(self, columns: Iterable[Iterable[Any]]) -> list[bytes]:
        charset, texts = self.charset, []
        for name, write, column in zip(self.names, self._writers, columns, strict=True):
            try:
                texts.append(list(map(write, column)))
            except ValueError as error:
                raise ValueError(f"field {name!r}: {error}") from error
        lines = map(self.delimiter.join, zip(*texts, strict=True))
        if len(self._writers) == 1 and self.quote is not None and not self.blank_is_record:
            return [(line or 2 * self.quote).encode(charset) for line in lines]
        return [line.encode(charset) for line in lines]

    def _quoting(self) -> Quoting:
        special = re.escape(self.delimiter + (self.escape or "")) + "\r\n"
        if self.quote is not None:
            special = f"\0-{re.escape(max(self.delimiter, self.quote, chr(10)))}{re.escape(self.escape or chr(92))}"
        return Quoting(re.compile(f"[{special}]"), self.quote, self.escape, _LONGEST_LOOKED_AT)

    def _written_text(self) -> Callable[[str], str]:
        """Return a function that quotes text where Flink does."""
        quote, escape, is_doubtful = self.quote, self.escape, self._in_lines.doubtful.search
        if quote is None:
            return self._escaping()

        def quoted(text: str) -> str:
            if len(text) <= _LONGEST_LOOKED_AT and is_doubtful(text) is None:
                return text
            if escape is not None and escape in text:
                text = text.replace(escape, 2 * escape)
            return f"{quote}{text.replace(quote, 2 * quote)}{quote}"

        return quoted

    def _escaping(self) -> Callable[[str], str]:
        """Return a function that writes text without quotes: with the escape where it is needed, or as it is without one."""
        escape, special = self.escape, self._in_lines.doubtful

        def escaped(text: str) -> str:
            if escape is None or special.search(text) is None:
                return text
            return special.sub(lambda found: escape + _LETTERS.get(found[0], found[0]), text)

        return escaped

    def _parser(self, column: TextColumn, delimiter: str, is_within: bool = False) -> Callable[[str], Any]:
        if not column.parts:
            return self._or_null(parser_of(column))
        if is_within:
            raise InvalidProgram(
                f"CsvSchema: {column.kind} is within a list or a row, and a field of text has one delimiter; flatten it."
            )
        parts = {name: self._parser(part, delimiter, is_within=True) for name, part in column.parts.items()}
        if column.is_list:
            (element,) = parts.values()
            return self._or_null(lambda text: [element(each) for each in text.split(delimiter)] if text else [])
        return self._or_null(lambda text: _row_of(parts, text.split(delimiter)))

    def _or_null(self, parse: Callable[[str], Any]) -> Callable[[str], Any]:
        null = self.null_literal
        if null is not None:
            return lambda text: None if text == null else parse(text)
        return parse if parse is str else lambda text: parse(text) if text else None


def _row_of(parts: dict[str, Callable[[str], Any]], texts: list[str]) -> dict[str, Any]:
    if len(texts) != len(parts):
        raise ValueError(f"it has {len(texts)} part(s) and not {len(parts)}: {', '.join(parts)}")
    return {name: parse(text) for (name, parse), text in zip(parts.items(), texts, strict=True)}


def _with_escapes(lines: Iterable[str], escape: str) -> Iterator[str]:
    r"""Replace the escape and a letter by its character: ``\n``, ``\r``, ``\t`` and ``\0``, as Flink reads them.

    Instead of ends of lines there are characters that no text has: Python's parser would go on with the next line.
    """
    pair = re.compile(re.escape(escape) + "(.)", re.DOTALL)
    meant = {letter: _INSTEAD.get(character, character) for character, letter in _LETTERS.items()}
    for line in lines:
        yield pair.sub(lambda found: escape + meant.get(found[1], found[1]), line) if escape in line else line


def _with_ends_of_lines(row: list[str]) -> list[str]:
    for character, instead in _INSTEAD.items():
        if any(instead in text for text in row):
            row = [text.replace(instead, character) for text in row]
    return row


class _Uncommented:
    """The rows of lines; a line that begins with the comment is an empty row, unless a quoted field goes on in it."""

    def __init__(self, lines: Iterable[str], comment: str, dialect: dict[str, Any]) -> None:
        self._fresh = True
        self._rows = csv.reader(self._feed(lines, comment), **dialect)

    def _feed(self, lines: Iterable[str], comment: str) -> Iterator[str]:
        for line in lines:
            skipped = self._fresh and line.lstrip(" ").startswith(comment)
            self._fresh = False
            yield "" if skipped else line

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self._fresh = True
        return next(self._rows)


# ---- lines as columns, and columns as lines


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
    r"""Rules for text in lines: the letters that need quotes, and the length from which it needs them.

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
        compute = extras.load("pyarrow.compute")
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
    """Return True if text in UTF-8 has one of some letters."""
    # Hot: a table takes half of the time of the regular expression.
    if not _table_of(letters)[content].any():
        return False
    return content.max() < _ASCII or letters.search(content.tobytes().decode()) is not None


@functools.lru_cache(maxsize=64)
def _table_of(letters: re.Pattern[str]) -> Any:
    """Return a mask of the bytes that are, or may belong to, one of some letters."""
    numpy = extras.load("numpy")
    return numpy.array([code >= _ASCII or letters.search(chr(code)) is not None for code in range(256)])


def texts_of(field: Column, length: int, kind: Any, write: Callable[[Any], str], quoting: Quoting) -> Any:
    """Return the texts of a field, as Arrow's text: at once for values that Python and Arrow write alike.

    ``kind`` is the declared type, ``write`` writes one value.
    """
    arrow = extras.load("pyarrow")
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
        written = importlib.import_module("funken.columnar.kernels.numbers").written(field)
        found = None if written is None else written.data
    elif field.kind == STR and of.is_string(kind):
        found = quoting.quoted(field.data)
    return arrow.array(list(map(write, field.to_list(length))), arrow.string()) if found is None else found


def texts_of_array(column: Any, write: Callable[[Any], str], quoting: Quoting) -> Any:
    """Return what is written of an array of Arrow, or of a list of values, as Arrow's text."""
    arrow, compute = extras.load("pyarrow"), extras.load("pyarrow.compute")
    found = None
    if not isinstance(column, list) and len(column):
        if arrow.types.is_integer(column.type):
            found = column.cast(arrow.string())
        elif arrow.types.is_string(column.type):
            found = quoting.quoted(compute.fill_null(column, ""))
    if found is None:
        values = column if isinstance(column, list) else column.to_pylist()
        return arrow.array(list(map(write, values)), arrow.string())
    return compute.if_else(column.is_valid(), found, write(None)) if column.null_count else found


def _is_plain(floats: Any) -> bool:
    """Return True if all floats are written by Java as by Python."""
    size = abs(floats)
    return bool(((size >= _JAVA_LOW) & (size < _JAVA_HIGH)).all())


@dataclass(frozen=True)
class Delimiters:
    r"""The bytes that separate fields and quote them; they decide where records end.

    >>> Delimiters(",", '"').ends(b'1,"a\n""b"\n2,"c"\n')
    array([ 9, 15])

    ``None``: there is a quote where Python's parser and Arrow's differ.

    >>> Delimiters(",", '"').ends(b'"a"b\n')
    """

    delimiter: str
    quote: str | None

    def ends(self, data: bytes, complete: bool = True) -> Any:
        """Return the ends of records (an array), if no quote before the last end is a doubtful one; else ``None``.

        ``complete``: no byte comes after these, so an open quote is doubtful, too.
        """
        numpy = extras.load("numpy")
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
        arrow, of_csv = extras.load("pyarrow"), extras.load("pyarrow.csv")
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
        arrow, of_csv = extras.load("pyarrow"), extras.load("pyarrow.csv")
        rows = len(ends) + (not data.endswith(b"\n"))
        reading = of_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._names)
        try:
            table = of_csv.read_csv(arrow.py_buffer(data), read_options=reading, **self._options)
        except arrow.ArrowInvalid:
            return None
        return self._columns(table, data) if table.num_rows == rows else None

    def _alike(self, data: bytes, ends: Any) -> bool:
        """Return True if Arrow refuses the same data as Python."""
        numpy = extras.load("numpy")
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
            if extras.load("pyarrow").types.is_floating(array.type):
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
    arrow, compute = extras.load("pyarrow"), extras.load("pyarrow.compute")
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
