"""Delimited text (CSV), one record per message; ``files/csv_files.py`` reads and writes files of it.

Values have the types of the declared record: text is converted, and text that does not fit makes the message malformed.
A field that is the null literal is ``None``; without a null literal, so is an empty field of any type but text.
"""

from __future__ import annotations

import csv
import decimal
import enum
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from typing import Any

from funken.columnar.block import Block
from funken.connectors.formats.declared import schema_of_records, without_null
from funken.connectors.formats.record_types import RecordShape, field_types, shape_of
from funken.connectors.formats.text_columns import CsvColumns, Quoting, csv_record_schema, fields_of, texts_of
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, InvalidProgram
from funken.expr.types import Composite, Type
from funken.types.delimited import TextColumn, ValueTexts, parser_of

_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\0": "0"}
"""What stands behind an escape for a character."""
_INSTEAD = {"\n": "\udc0a", "\r": "\udc0d"}
_LONGEST_LOOKED_AT = 24
"""Longer text is quoted without a look at it, as by Flink."""


class HeaderNames(enum.Enum):
    """What the names in the header of a file are for."""

    FIND = "find"
    """Columns are found by them; those not in the schema are dropped."""
    MATCH = "match"
    """They have to be those of the schema, in its order."""
    IGNORE = "ignore"
    """Nothing: columns are in the order of the schema."""


@dataclass(frozen=True)
class CsvSchema(SerializationSchema, DeserializationSchema):
    r"""Delimited text, both ways; ``record_type`` is a dataclass, a named tuple class, ``Types.ROW_NAMED(...)`` or like those.

    ``quote=None`` and ``escape=None`` give these characters no meaning, lines that begin with ``comment`` are skipped.
    ``array_delimiter`` is between the elements of a list, or the fields of a row, in one field; ``array_delimiters`` are pairs of
    a field and another one. Bytes are in base64.

    Lines are those that Flink writes: numbers as in Java, decimals with the digits that their type has, and text is quoted if it
    has more than 24 characters, or any that is not after delimiter, quote and line feed, or the escape.
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

    record_type: Any
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
        """Refuse what cannot work, before the job runs."""
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
                ValueTexts(own.get(each.name, self.array_delimiter), self.null_literal),
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

    def deserialize(self, message: bytes) -> Any:
        """Parse a line; an empty one, or a comment, is no record."""
        text = message.decode(self.charset)
        if not text or (self.comment and text.lstrip(" ").startswith(self.comment)):
            return None
        rows = list(self.rows([text]))
        if len(rows) != 1:
            raise ValueError(f"it is {len(rows)} lines")
        return self.record(rows[0])

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
            raise ValueError(f"it has {len(row)} field(s) and not {len(parsers)}: {', '.join(self.names)}")
        try:
            return self._shape.make([parse(text) for parse, text in zip(parsers, row, strict=True)])
        except (ValueError, KeyError, decimal.InvalidOperation):
            for name, parse, text in zip(self.names, parsers, row, strict=True):
                try:
                    parse(text)
                except (ValueError, KeyError, decimal.InvalidOperation) as error:
                    raise ValueError(f"field {name!r}: {error or repr(text)}") from None
            raise

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
        """Return what makes columns of lines."""
        return self.columns(schema, wanted).of_lines

    def columns(self, schema: Type, wanted: Sequence[int] | None, names: Sequence[str] | None = None) -> CsvColumns:
        """Return what makes columns of text whose columns have these names, in their order (``None``: those declared)."""
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
        """Whether the lines are those of this class."""
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
        arrow = importlib.import_module("pyarrow")
        lines = importlib.import_module("pyarrow.compute").binary_join_element_wise(*texts, self.delimiter)
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
        if len(self._writers) == 1 and self.quote is not None:  # an empty line is no record
            return [(line or 2 * self.quote).encode(charset) for line in lines]
        return [line.encode(charset) for line in lines]

    def _quoting(self) -> Quoting:
        special = re.escape(self.delimiter + (self.escape or "")) + "\r\n"
        if self.quote is not None:
            special = f"\0-{re.escape(max(self.delimiter, self.quote, chr(10)))}{re.escape(self.escape or '')}"
        return Quoting(re.compile(f"[{special}]"), self.quote, self.escape, _LONGEST_LOOKED_AT)

    def _written_text(self) -> Callable[[str], str]:
        """Return what quotes text where Flink does."""
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
        """Return what writes text without quotes: with an escape where it is needed."""
        escape, special = self.escape, self._in_lines.doubtful

        def escaped(text: str) -> str:
            if special.search(text) is None:
                return text
            if escape is None:
                raise ValueError(
                    f"CsvSchema cannot write {text!r}, which has a delimiter or an end of a line in it; give it a quote or an "
                    "escape."
                )
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
    r"""Replace what the escape makes of letters: ``\n``, ``\r``, ``\t`` and ``\0``, as Flink reads them.

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


__all__ = ["CsvSchema", "HeaderNames"]
