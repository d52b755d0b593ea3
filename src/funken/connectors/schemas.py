"""Formats apart from transport: messages (bytes) become records, and records messages, whatever carries them.

A schema is a frozen, picklable description; it is used in tasks, a block at a time. A connector takes one as an argument.
``formats`` has those of Funken that are more than text or bytes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, ClassVar, TypeAlias, TypeVar

from funken import extras
from funken.columnar.block import Block
from funken.columnar.expressions import NotVectorizable
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, ValueDoesNotFit
from funken.expr.types import Type
from funken.types.callables import Generic, IN_contra, OUT_co
from funken.types.row import Row

_TEXTS = "funken.connectors.formats.texts"  # is built upon this module

Document: TypeAlias = dict[str, Any]
"""A JSON document, or another record whose fields no type declares."""


class DeserializationSchema(Generic[OUT_co]):
    """A schema that makes records of messages; subclass it and define ``deserialize``.

    Messages are bytes. Those of ``KafkaRecordDeserializationSchema`` and ``RMQDeserializationSchema`` have keys, headers and
    properties, too.

    >>> class Words(DeserializationSchema):
    ...     def deserialize(self, message):
    ...         return message.decode().split()
    >>> Words().deserialize_block([b"to be", b"", b"or not"])
    [['to', 'be'], [], ['or', 'not']]

    ``None`` drops a message:

    >>> class Ints(DeserializationSchema):
    ...     def deserialize(self, message):
    ...         return int(message) if message.isdigit() else None
    >>> Ints().deserialize_block([b"1", b"x", b"3"])
    [1, 3]
    """

    charset: str | None = "UTF-8"
    """Of a format that is text, in which charset it is; ``None``: messages are bytes."""
    never_waits: ClassVar[bool] = False
    """True if a message is read without waiting, for a registry say; it is declared together with ``deserialize``."""

    def deserialize(self, message: bytes) -> OUT_co | None:
        """Return the record of a message; ``None`` drops the message."""
        raise NotImplementedError

    def deserialize_all(self, message: bytes) -> list[Any]:
        """Return the records of a message, for a format in which a message may hold several; override it then.

        >>> class Words(DeserializationSchema):
        ...     def deserialize_all(self, message):
        ...         return message.decode().split()
        >>> Words().deserialize_block([b"to be", b"", b"or not"])
        ['to', 'be', 'or', 'not']
        """
        record = self.deserialize(message)
        return [] if record is None else [record]

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the records of messages; override it where a block costs less than its messages one by one."""
        return [record for message in messages for record in self.deserialize_all(message)]

    @property
    def holds_several(self) -> bool:
        """True if a message may hold several records: ``deserialize_all`` is overridden."""
        return type(self).deserialize_all is not DeserializationSchema.deserialize_all

    @property
    def reads_blocks(self) -> bool:
        """True if a block costs less than its messages one by one: ``deserialize_block`` is overridden."""
        return type(self).deserialize_block is not DeserializationSchema.deserialize_block

    @property
    def needs_sample(self) -> bool:
        """True if only messages show which columns there are."""
        return False

    def record_schema(self) -> Type:
        """Return the schema of the records, if ``lines_to_columns`` makes columns of them; raise ``NotVectorizable`` if not.

        >>> from funken import Types
        >>> from funken.connectors import JsonSchema
        >>> JsonSchema(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])).record_schema()
        Row(word: str, n: int)
        """
        raise NotVectorizable(f"{type(self).__name__} produces no columns")

    def schema_of_sample(self, messages: Sequence[bytes]) -> Type:
        """Return the schema of the records, by the first messages of a file; asked for if ``needs_sample``.

        Messages may turn out to be of another shape: ``lines_to_columns`` leaves those to ``deserialize``.

        >>> from funken.connectors import JsonSchema
        >>> JsonSchema().schema_of_sample([b'{"word": "to", "n": 2}', b'{"word": "be", "n": null, "at": 7}'])
        {word: str, n: int?, ...}
        """
        return self.record_schema()

    def lines_to_columns(self, schema: Type, wanted: Sequence[int] | None) -> Callable[[bytes], Block | None]:
        r"""Return a function from whole lines, a message in each, to columns; ``None`` for lines to read singly.

        ``wanted`` are the numbers of the leaves of the schema (its fields, if it is flat) that are read (``None``: all); in the
        place of others there is ``NOT_READ``.
        It has to give the records that ``deserialize`` gives, and leaves malformed and empty lines to that.

        >>> from funken import Types
        >>> from funken.connectors.formats.csv_schema import CsvSchema
        >>> csv = CsvSchema(Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()]))
        >>> columns = csv.lines_to_columns(csv.record_schema(), wanted=None)
        >>> columns(b"to,1\nbe,2\n").to_list(), columns(b"to,1\nbe,two\n")
        ([Row(word='to', n=1), Row(word='be', n=2)], None)
        """
        raise NotImplementedError

    def messages_to_columns(
        self, schema: Type, wanted: Sequence[int] | None
    ) -> Callable[[Sequence[bytes]], Block | None] | None:
        """Return a function from messages to columns, as ``lines_to_columns`` for lines; ``None``: there is only that.

        >>> from funken import Types
        >>> from funken.connectors.formats.avro_schema import AvroSchema
        >>> sales = AvroSchema.of(Types.ROW_NAMED(["item", "n"], [Types.STRING(), Types.LONG()]))
        >>> columns = sales.messages_to_columns(sales.record_schema(), wanted=[0])
        >>> columns([sales.serialize({"item": "tea", "n": 3})]).to_list()
        [Row(item='tea', n=<not read>)]
        """
        return None

    @property
    def makes_blocks(self) -> bool:
        """Return True if readers make blocks of a form of its own, for any program, by ``lines_to_blocks``."""
        return False

    def lines_to_blocks(self) -> Callable[[bytes], Block | None]:
        """Return what makes blocks of whole lines; it returns ``None`` for lines that are to be read singly."""
        raise NotImplementedError


class SerializationSchema(Generic[IN_contra]):
    """A schema that makes messages of records; subclass it and define ``serialize``.

    >>> class Lengths(SerializationSchema):
    ...     def serialize(self, value):
    ...         return b"%d" % len(value)
    >>> Lengths().serialize_block(["to", "bee"])
    [b'2', b'3']
    """

    def serialize(self, value: IN_contra) -> bytes:
        """Return the message of a record."""
        raise NotImplementedError

    def serialize_block(self, values: Sequence[IN_contra]) -> list[bytes]:
        """Return the messages of records; override it where a block costs less than its records one by one."""
        return [self.serialize(value) for value in values]

    takes_columns: bool = False
    """True if ``messages_of`` makes messages of columns, without their records."""

    def messages_of(self, block: Block) -> list[bytes]:
        """Return the messages of a block, of records or of columns; called instead of ``serialize_block`` by sinks of columns.

        >>> from funken.expr.types import INT, STR, Tuple
        >>> from funken.columnar.kernels.columns import columns_of
        >>> from funken.connectors import JsonSchema
        >>> JsonSchema().messages_of(columns_of([("to", 2), ("be", 3)], Tuple((STR, INT))))
        [b'["to", 2]', b'["be", 3]']
        """
        return self.serialize_block(block.rows()[0])


S = TypeVar("S")


def check_schema(schema: Any, base: type[S], user: str) -> S:
    """Return a schema; raise ``InvalidConfiguration`` for an object that does not derive from the class of schemas.

    >>> check_schema("UTF-8", DeserializationSchema, "KafkaSource")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: KafkaSource: 'UTF-8' is no DeserializationSchema; pass an instance of a class derived
    from it.
    """
    if not isinstance(schema, base):
        raise InvalidConfiguration(
            f"{user}: {schema!r} is no {base.__name__}; pass an instance of a class derived from it."
        )
    return schema


# ---- messages that are text, or nothing but bytes


@dataclass(frozen=True)
class SimpleStringSchema(SerializationSchema[object], DeserializationSchema[str]):
    r"""Text in a charset, both ways (PyFlink's ``SimpleStringSchema``); bytes that are no text become U+FFFD.

    >>> schema = SimpleStringSchema("ISO-8859-1")
    >>> schema.serialize("caf\u00e9"), schema.deserialize(b"caf\xe9") == "caf\u00e9"
    (b'caf\xe9', True)
    """

    charset: str = "UTF-8"

    def __post_init__(self) -> None:
        """Reject a charset that Python does not know, before the job runs."""
        try:
            "".encode(self.charset)
        except LookupError as error:
            raise InvalidConfiguration(f"{error}; give a text charset of Python, e.g. 'UTF-8', 'ISO-8859-1'.") from None

    never_waits = True

    def deserialize(self, message: bytes) -> str:
        """Decode a message."""
        return message.decode(self.charset, "replace")

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Decode messages."""
        charset = self.charset
        return [message.decode(charset, "replace") for message in messages]

    def record_schema(self) -> Type:
        """Return the type of texts; raise ``NotVectorizable`` for other charsets than UTF-8."""
        if type(self) is not SimpleStringSchema:
            return super().record_schema()
        return importlib.import_module(_TEXTS).text_schema(self.charset)  # type: ignore[no-any-return]

    def messages_to_columns(
        self, schema: Type, wanted: Sequence[int] | None
    ) -> Callable[[Sequence[bytes]], Block | None]:
        """Return a function that makes a column of texts of messages that are UTF-8."""
        found: Callable[[Sequence[bytes]], Block | None] = importlib.import_module(_TEXTS).messages_of_text
        return found

    def serialize(self, value: object) -> bytes:
        """Encode a record, as ``str`` shows it."""
        return str(value).encode(self.charset)


def bytes_of(value: Any) -> bytes:
    r"""Return bytes of any type as ``bytes``; raise ``TypeError`` for another value.

    >>> bytes_of(memoryview(b"to"))
    b'to'
    """
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"{value!r:.60} is no bytes; encode it in a map() before")
    return bytes(value)


@dataclass(frozen=True)
class ByteArraySchema(SerializationSchema[bytes], DeserializationSchema[bytes]):
    """Bytes as they are, both ways (PyFlink's ``ByteArraySchema``).

    >>> ByteArraySchema().serialize(bytearray(b"to")), ByteArraySchema().deserialize_block([b"be"])
    (b'to', [b'be'])
    """

    charset = None
    never_waits = True

    def deserialize(self, message: bytes) -> bytes:
        """Return the message."""
        return message

    def deserialize_block(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the messages."""
        return list(messages)

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a record; raise ``TypeError`` if it is something else: Python makes five zeros of the number 5."""
        return bytes_of(value)


def is_text(data: bytes) -> bool:
    r"""Return True if bytes are UTF-8.

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
    r"""Return the number of occurrences of a byte: 8 times faster than ``bytes.count`` where it is frequent.

    >>> count_of(b"to\nbe\n", b"\n")
    2
    """
    numpy = extras.load("numpy")
    return int(numpy.count_nonzero(numpy.frombuffer(data, numpy.uint8) == byte[0]))


def of_funken(part: object) -> bool:
    """Return True if an encoder and the schemas that it holds are Funken's own: code of users may change records."""
    held = getattr(part, "__dict__", {}).values()
    return type(part).__module__.startswith("funken.") and all(
        of_funken(each) for each in held if isinstance(each, SerializationSchema)
    )


# ---- From records to rows: what a table's columns are called decides which fields are taken, and in which order.
#
# A record is a mapping, a ``Row`` with names, a named tuple, a dataclass or another object with attributes: then by
# name. Or it is a plain tuple, list or ``Row`` without names: then by position.


class RowMaker:
    """Makes rows of records, block by block.

    >>> rows = RowMaker(["item", "price"], "operator 'orders'")
    >>> rows.rows([("tea", 3), {"price": 5, "item": "jam", "at": 7}, Row(item="oat", price=2)])
    [('tea', 3), ('jam', 5), ('oat', 2)]
    >>> rows.rows([{"item": "tea"}])
    Traceback (most recent call last):
    ...
    funken.errors.ValueDoesNotFit: operator 'orders': a record of type dict has no field 'price' (columns: item, price); map
    records to the table's columns, or name other ones.
    """

    def __init__(self, columns: Sequence[str], who: str) -> None:
        self._columns, self._who = tuple(columns), who
        self._known: dict[type, Callable[[Any], tuple[Any, ...]]] = {}

    def rows(self, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return a row for each record; raises ``ValueDoesNotFit``."""
        known = self._known
        made = []
        for value in values:
            make = known.get(type(value)) or self._learn(value)
            try:
                made.append(make(value))
            except (KeyError, AttributeError) as error:
                field = error.args[0] if isinstance(error, KeyError) else error.name
                raise self._wrong(value, f"has no field {field!r}") from None
        return made

    def _learn(self, value: Any) -> Callable[[Any], tuple[Any, ...]]:
        make: Callable[[Any], tuple[Any, ...]]
        columns = self._columns
        if isinstance(value, Mapping):
            make = self._by(itemgetter(*columns))
        elif isinstance(value, Row):
            make = self._of_row
        elif isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            make = self._in_order
        elif hasattr(value, "_fields") or hasattr(value, "__dict__") or hasattr(value, "__slots__"):
            make = self._by(attrgetter(*columns))
        elif len(columns) == 1:
            make = _alone
        else:
            raise self._wrong(value, "has no fields")
        self._known[type(value)] = make
        return make

    def _by(self, getter: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
        if len(self._columns) == 1:
            return lambda value: (getter(value),)
        return getter

    def _of_row(self, row: Row) -> tuple[Any, ...]:
        if row._fields is None:
            return self._in_order(row)
        return tuple([row[column] for column in self._columns])

    def _in_order(self, value: Any) -> tuple[Any, ...]:
        if len(value) != len(self._columns):
            raise self._wrong(value, f"has {len(value)} fields")
        return tuple(value)

    def _wrong(self, value: Any, what: str) -> ValueDoesNotFit:
        return ValueDoesNotFit(
            f"{self._who}: a record of type {type(value).__name__} {what} (columns: {', '.join(self._columns)}); "
            "map records to the table's columns, or name other ones."
        )


def size_of_rows(rows: Sequence[Sequence[Any]]) -> int:
    """Return the approximate bytes of rows: text and binary data by their length, other values as eight, nulls as none.

    >>> size_of_rows([("tea", 3), ("käse", None)])
    16
    """
    return sum(map(_bytes_of_column, zip(*rows, strict=True)))


def _bytes_of_column(cells: Sequence[Any]) -> int:
    kinds = set(map(type, cells)) - {type(None)}
    if not kinds & {str, bytes, bytearray, memoryview}:
        return 8 * (len(cells) - cells.count(None))
    if kinds == {str}:
        texts = [text for text in cells if text is not None] if None in cells else cells
        return len("".join(texts).encode("utf-8", "surrogatepass"))
    return sum(map(_bytes_of_value, cells))


def _bytes_of_value(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    return len(value) if isinstance(value, bytes | bytearray) else value.nbytes if isinstance(value, memoryview) else 8


def _alone(value: Any) -> tuple[Any, ...]:
    return (value,)
