"""JSON documents of a declared type as columns: Arrow parses whole lines at once, where it gives what ``json`` gives.

``JsonSchema`` keeps the values of a document as they are, whatever the declared type is. So a piece of text becomes columns only
if each value has the type of its field: ``1`` is no float, and ``1.0`` no int. All else is given back, and parsed document by
document: documents with nulls, missing fields or malformed lines among others, numbers beyond 64 bits, and the little that
Arrow takes and ``json`` does not.

NumPy and Arrow are loaded where text is parsed.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from funken.columnar.expressions import ARRAYS, BOOL, FLOAT, INT, STR, NotVectorizable, RecordSchema, without_none
from funken.columnar.records import NamedFields
from funken.connectors.formats.arrow_columns import columns_of_batch, schema_of_records
from funken.connectors.formats.record_types import RecordShape
from funken.connectors.formats.text_columns import is_text, whole_array

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_ARROW = {INT: "int64", FLOAT: "float64", BOOL: "bool_", STR: "string"}
_LINE_FEED, _BRACE, _END = 10, ord("{"), ord("}")
_PLAIN_NAME = re.compile(r'[^"\\/\x00-\x1f]+')
_NO_NUMBER = re.compile(rb"-NaN|[:,\[\s-]Inf(?!inity)")
"""Forms of NaN and infinity that Arrow's parser knows beside those of ``json``."""


def json_record_schema(record_type: Any, shape: RecordShape) -> RecordSchema:
    """Return the schema of documents of a declared type; raise ``NotVectorizable`` if they cannot become columns.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "at"], [Types.STRING(), Types.SQL_TIMESTAMP()])
    >>> json_record_schema(sale, shape_of(sale, "an example"))
    Row(item: str, at: timestamp[us])
    """
    schema = schema_of_records(record_type, shape)
    for name in shape.names:
        if not _PLAIN_NAME.fullmatch(name):
            raise NotVectorizable(f"its field {name!r} may be written in several ways")
    # Of a document, dates are text and lists may hold anything: of such a field nothing is known.
    kinds = [
        kind if without_none(str(kind)) in ARRAYS else str(each.type)
        for kind, each in zip(schema, shape.types(), strict=True)
    ]
    if isinstance(schema, NamedFields):
        return NamedFields(kinds, schema.form, schema.names, schema.cls)
    return tuple(kinds)


class JsonColumns:
    r"""Makes columns of pieces of lines, each with a document.

    >>> from funken import Types
    >>> from funken.connectors.formats.record_types import shape_of
    >>> sale = Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.LONG()])
    >>> shape = shape_of(sale, "an example")
    >>> columns = JsonColumns(shape, json_record_schema(sale, shape), wanted=[1])
    >>> columns.of_lines(b'{"n": 1, "item": "tea"}\n{"item": "jam", "n": 2}\n').to_list()
    [Row(item=<not read>, n=1), Row(item=<not read>, n=2)]

    The second document is none; it is found when they are parsed one by one:

    >>> columns.of_lines(b'{"n": 1, "item": "tea"}\n{"item": "jam"\n')
    """

    def __init__(self, shape: RecordShape, schema: RecordSchema, wanted: Sequence[int] | None) -> None:
        arrow = importlib.import_module("pyarrow")
        self._schema, self._shape = schema, shape
        self._wanted = frozenset(range(len(schema)) if wanted is None else wanted)
        #: with those that nobody reads and that have to be there
        self._read = [n for n, name in enumerate(shape.names) if n in self._wanted or name in shape.required]
        declared = [
            (
                shape.names[n],
                getattr(arrow, _ARROW[kind])() if (kind := without_none(str(schema[n]))) in _ARROW else each.type,
            )
            for n, each in enumerate(shape.types())
            if n in self._read
        ]
        of_json = importlib.import_module("pyarrow.json")
        self._options = of_json.ParseOptions(
            explicit_schema=arrow.schema(declared), newlines_in_values=False, unexpected_field_behavior="ignore"
        )
        #: what shows that a field of floats has a whole number among its values
        self._whole = {
            n: re.compile(rb'"' + re.escape(shape.names[n].encode()) + rb'"\s*:\s*-?\d+\s*[,}]')
            for n in self._wanted
            if without_none(str(schema[n])) == FLOAT
        }

    def of_lines(self, data: bytes) -> Columns | None:
        """Return the records of whole lines; ``None``: they have to be parsed one by one."""
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        ends = self._documents(data)
        if ends is None:
            return None
        rows = len(ends) + 1
        arrow, of_json = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.json")
        reading = of_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            table = of_json.read_json(arrow.py_buffer(data), read_options=reading, parse_options=self._options)
        except arrow.ArrowInvalid:
            return None
        if table.num_rows != rows:
            return None
        arrays: list[Any] = [None] * len(self._schema)
        for number in self._read:
            array = whole_array(table.column(self._shape.names[number]))
            if array.null_count and not self._null_is_none(number):
                return None
            if number in self._wanted:
                arrays[number] = array
        if any(self._may_be_int(data, ends, arrays[number], pattern) for number, pattern in self._whole.items()):
            return None
        return columns_of_batch(self._schema, arrays, rows)

    def _documents(self, data: bytes) -> Any:
        """Return where lines end but the last (an array), if each begins and ends as an object does and is text; else ``None``.

        Within a document no object begins where one has just ended, so documents end where such lines end.
        """
        numpy = importlib.import_module("numpy")
        text = numpy.frombuffer(data.removesuffix(b"\n"), numpy.uint8)
        if len(text) < 2 or text[0] != _BRACE or text[-1] != _END:
            return None
        lines = numpy.flatnonzero(text == _LINE_FEED)
        if not ((text[lines - 1] == _END).all() and (text[lines + 1] == _BRACE).all()):
            return None
        if not is_text(data) or self._has_odd_number(data, text):
            return None
        return lines

    @staticmethod
    def _has_odd_number(data: bytes, text: Any) -> bool:
        """Whether there is a number that only Arrow's parser takes; looking for two bytes is faster than for a word."""
        numpy = importlib.import_module("numpy")
        for first, second in (b"In", b"-N"):  # Inf, -NaN
            if first in data:
                at = numpy.flatnonzero(text[:-1] == first)
                if (text[at + 1] == second).any():
                    return _NO_NUMBER.search(data) is not None
        return False

    def _null_is_none(self, number: int) -> bool:
        """Whether a field is ``None`` if it is null, and also if it is missing."""
        name = self._shape.names[number]
        return name not in self._shape.required and self._shape.defaults(name) is None

    def _may_be_int(self, data: bytes, ends: Any, array: Any, pattern: re.Pattern[bytes]) -> bool:
        """Whether a number may be written as a whole one: then it is an int, and the others are floats."""
        compute, numpy = importlib.import_module("pyarrow.compute"), importlib.import_module("numpy")
        whole = compute.equal(array, compute.floor(array)).fill_null(False)
        at = numpy.flatnonzero(whole.to_numpy(zero_copy_only=False))
        if not len(at):
            return False
        if b"\\" in data and b"\\u" in data:  # the name of the field may be escaped
            return True
        if 2 * len(at) < len(array):  # to look through a line takes longer than to cut it out
            begins = numpy.concatenate(([0], ends + 1))[at].tolist()
            stops = numpy.append(ends, len(data))[at].tolist()
            data = b"\n".join([data[begin:stop] for begin, stop in zip(begins, stops, strict=True)])
        return pattern.search(data) is not None


__all__ = ["JsonColumns", "json_record_schema"]
