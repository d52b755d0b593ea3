r"""Lines and messages that are text, as columns of texts; and the documents of JSON that may be in them.

A line is a record as it is. Bytes that are not UTF-8 are left to what reads records one by one, which fails or replaces them.

NumPy, Arrow and msgspec are loaded where text is read.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from funken import extras
from funken.columnar.expressions import NotVectorizable
from funken.columnar.typed.calls import SampledText
from funken.connectors.formats.json_columns import JsonColumns, sampled_schema
from funken.connectors.schemas import is_text
from funken.dataclass import dataclass
from funken.expr.types import STR, Atomic, Type

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns

_LINE_FEED = 10
_MOST_BYTES = (1 << 31) - 1
_WELL_FORMED = 0.9
_UTF_8 = ("utf-8", "utf8")


def lines_of_text(data: bytes) -> Columns | None:
    r"""Return whole lines as a column of texts; ``None``: they are not UTF-8.

    >>> lines_of_text(b"to be\r\n\nor not").to_list(), lines_of_text(b"\xff\n")
    (['to be', '', 'or not'], None)
    """
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    if not is_text(data) or len(data) > _MOST_BYTES:
        return None
    numpy, arrow = extras.load("numpy"), extras.load("pyarrow")
    ends = numpy.flatnonzero(numpy.frombuffer(data, numpy.uint8) == _LINE_FEED)
    rows = len(ends) + (not data.endswith(b"\n"))
    offsets = numpy.zeros(rows + 1, numpy.int32)
    offsets[1 : len(ends) + 1] = ends - numpy.arange(len(ends))
    content = data.replace(b"\n", b"")
    offsets[-1] = len(content)
    return _column(arrow.StringArray.from_buffers(rows, arrow.py_buffer(offsets), arrow.py_buffer(content)))


def messages_of_text(messages: Sequence[bytes]) -> Columns | None:
    r"""Return messages as a column of texts; ``None``: they are not UTF-8.

    >>> messages_of_text([b"to be", b""]).to_list(), messages_of_text([b"\xff"])
    (['to be', ''], None)
    """
    arrow = extras.load("pyarrow")
    try:
        return _column(arrow.array(messages, arrow.binary()).cast(arrow.string()))
    except arrow.ArrowInvalid:
        return None


def _column(array: Any) -> Columns:
    from funken.columnar.kernels.columns import Column, Columns  # noqa: PLC0415 - loads NumPy

    return Columns(STR, [Column(STR, array)], len(array))


def text_schema(charset: str, sample: Callable[[], Sequence[str]] | None = None) -> Type:
    """Return the schema of texts; raise ``NotVectorizable`` if they are in another charset than UTF-8.

    ``sample`` returns some of them, and is called if somebody needs their content; it may raise ``NotVectorizable``.
    """
    if charset.lower().replace("_", "-") not in _UTF_8:
        raise NotVectorizable(f"reads text that is {charset}, and not UTF-8")

    if sample is None:
        return STR

    @functools.cache
    def documents() -> JsonTexts:
        return JsonTexts.like(sample())

    return SampledText(documents)


def with_samples(schema: Type, sample: Callable[[int], Sequence[str]]) -> Type:
    """Return a schema whose texts can be looked at: ``sample`` returns some of a field, by its number."""
    numbers = itertools.count()

    def of(inner: Type) -> Type:
        if isinstance(inner, Atomic):
            number = next(numbers)
            return text_schema("utf-8", functools.partial(sample, number)) if inner == STR else inner
        return inner.with_fields(map(of, inner))

    return of(schema)


@dataclass(frozen=True)
class JsonTexts:
    r"""Parses texts as ``json.loads`` does, if they are objects with fields of the types that some of them have.

    >>> parser = JsonTexts.like(['{"item": "tea", "n": 1}', '{"n": 2, "item": "jam", "at": 7}'])
    >>> parser.schema, parser.parse(['{"n": 3, "item": "rye"}'], wanted=(1,)).to_list()
    ({item: str, n: int, ...}, [{'item': <not read>, 'n': 3}])
    >>> parser.parse(['{"n": 3.5, "item": "rye"}'], wanted=(1,)), parser.parse(["[]"], wanted=None)
    (None, None)
    """

    schema: Type

    @staticmethod
    def like(texts: Sequence[str]) -> JsonTexts:
        """Look at some texts; raise ``NotVectorizable`` if they are no objects that are alike.

        A few may be malformed: a function that parses them may catch that.
        """
        documents = []
        for text in texts:
            with contextlib.suppress(ValueError, RecursionError):
                documents.append(json.loads(text))
        if len(documents) < _WELL_FORMED * len(texts):
            raise NotVectorizable("parses JSON, but its texts do not begin with it")
        return JsonTexts(sampled_schema(documents))

    def parse(self, texts: Sequence[str], wanted: tuple[int, ...] | None) -> Columns | None:
        """Return the documents as columns; ``None``: one of them is of another form."""
        found = _columns_of(self.schema, wanted).of_lines(("\n".join(texts) + "\n").encode())
        return found if found is not None and found.length == len(texts) else None


@functools.lru_cache(maxsize=64)
def _columns_of(schema: Type, wanted: tuple[int, ...] | None) -> JsonColumns:
    return JsonColumns(schema, wanted)
