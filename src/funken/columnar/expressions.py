"""What a function computes, as a tree over the fields of its arguments; and the schemas of records and results.

A *schema* is the exact Python type of a record: a *kind* for a single value, or the tuple of its fields' schemas for a tuple;
that of a record with named fields is in ``records.py``. Expressions are plain data: they travel in the plan and are compared in
tests.

``tracing.py`` makes expressions as a function has them. ``inference.py``, which knows the schemas of the arguments, replaces
those that depend on them (``Attribute``, ``Slice``, ``Record``, ``Unpacked``, ``IsNone``, ``TypeTest``, most of ``GetItem`` and
``Invoke``), so kernels see the others only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeAlias

from funken.dataclass import dataclass
from funken.errors import FunkenError

RecordSchema: TypeAlias = "str | tuple[RecordSchema, ...]"
"""A kind (``"int"``, ``"float"``, ``"bool"``, ``"str"``, or one of Python objects), or a tuple of schemas."""

INT, FLOAT, BOOL, STR, NONE = "int", "float", "bool", "str", "None"
ARRAYS = (INT, FLOAT, BOOL, STR)
"""Kinds whose values are in arrays; values of other kinds stay Python objects."""
KEY_KINDS = (INT, STR)
NUMBER = "int or float"
"""Kind of ints and floats, as in JSON: compared, and computed with where the result is a float whatever they are."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1

_KINDS: dict[type, str] = {int: INT, float: FLOAT, bool: BOOL, str: STR}


class ListOf(str):
    """The kind of lists whose items are of one schema; ``read``: the leaves of items that a source has to read (``None``: all).

    >>> ListOf("int"), ListOf(("str", "int")), ListOf("int", missing=True) == "list of int?"
    ('list of int', 'list of (str, int)', True)
    """

    element: RecordSchema
    read: frozenset[int] | None

    def __new__(cls, element: RecordSchema, *, missing: bool = False, read: frozenset[int] | None = None) -> ListOf:
        """Make the kind; ``missing``: of lists that may be ``None``."""
        shown = schema_repr(element)
        made = super().__new__(cls, f"list of {f'({shown})' if shown.endswith('?') else shown}{'?' * missing}")
        made.element, made.read = element, read
        return made

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True and (not isinstance(other, ListOf) or self.element == other.element)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ListOf, missing=self.endswith("?"), read=self.read), (self.element,)


class NotVectorizable(FunkenError):
    """A function or operator has to run record by record; the message has the reason."""


@dataclass(frozen=True)
class Expression:
    """Base of the nodes."""

    raises: ClassVar[bool] = False


@dataclass(frozen=True)
class Argument(Expression):
    """An argument (counted from 0), or a field of a field ... of it."""

    argument: int
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Constant(Expression):
    """A value that does not depend on the record."""

    value: Any


@dataclass(frozen=True)
class Binary(Expression):
    """``left op right``, arithmetic or bitwise."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Compare(Expression):
    """``left op right``, one of the six comparisons."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Unary(Expression):
    """``op operand``: ``-``, ``~``, ``not``, or ``bool`` for the truth of a value."""

    op: str
    operand: Expression


@dataclass(frozen=True)
class Choose(Expression):
    """``then if condition else otherwise``; also what ``and`` and ``or`` become.

    ``lazy``: a branch may raise, or costs much, so it is computed for the records only that take it. ``sure``: the condition does
    neither, so it may be computed for all records of a block, also of a branch.
    """

    condition: Expression
    then: Expression
    otherwise: Expression
    lazy: bool = False
    sure: bool = False


@dataclass(frozen=True)
class Make(Expression):
    """A tuple."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class GetItem(Expression):
    """An item: of a tuple by its number, as kernels see it; ``of`` is how many there have to be (``None``: at least enough).

    As it is traced, ``record`` may be something else that has items, and ``index`` the text of a key, or an expression.
    """

    record: Expression
    index: Any
    of: int | None = None


@dataclass(frozen=True)
class Contains(Expression):
    """``needle in container``: a text in a text, or a value in a tuple or set of constants."""

    needle: Expression
    container: Expression


@dataclass(frozen=True)
class Invoke(Expression):
    """A call of a function by its name, or of a method by ``.name``, whose object is the first argument."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Text(Expression):
    """An f-string without formats: its parts, one after the other."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Sequence(Expression):
    """``result``, after ``before`` were evaluated for what they may raise."""

    before: tuple[Expression, ...]
    result: Expression


@dataclass(frozen=True)
class Raises(Expression):
    """An exception, of records for which the condition is true; it has no value."""

    raises = True

    condition: Expression = Constant(True)


@dataclass(frozen=True)
class Rowwise(Expression):
    """A function of ``library.py``, called for each value; ``kind`` is that of its results."""

    function: str
    arguments: tuple[Expression, ...]
    kind: str


@dataclass(frozen=True)
class Attribute(Expression):
    """``record.name``."""

    record: Expression
    name: str


@dataclass(frozen=True)
class Slice(Expression):
    """``record[start:stop:step]``."""

    record: Expression
    start: Expression
    stop: Expression
    step: Expression


@dataclass(frozen=True)
class Record(Expression):
    """A record with named fields: ``form`` and ``cls`` as in ``records.py``; a ``Unpacked`` has no name (``None``)."""

    form: str
    names: tuple[str | None, ...]
    items: tuple[Expression, ...]
    cls: type | None = None


@dataclass(frozen=True)
class Unpacked(Expression):
    """``*record`` or ``**record`` in a display."""

    record: Expression


@dataclass(frozen=True)
class IsNone(Expression):
    """``operand is None``."""

    operand: Expression


@dataclass(frozen=True)
class TypeTest(Expression):
    """``isinstance(operand, classes)``; ``exact``: ``type(operand)`` is one of them."""

    operand: Expression
    classes: tuple[type, ...]
    exact: bool = False


@dataclass(frozen=True)
class Loop(Expression):
    """``[result for item in items if conditions]``; the item is the argument ``number``; ``schema`` is that of the result."""

    items: Expression
    number: int
    conditions: tuple[Expression, ...]
    result: Expression
    schema: Any = None


@dataclass(frozen=True)
class Listed(Expression):
    """``[item, ...]``; ``schema`` is that of its items."""

    items: tuple[Expression, ...]
    schema: Any = None


@dataclass(frozen=True)
class At(Expression):
    """An item of a list."""

    items: Expression
    index: Expression


def optional(kind: str) -> str:
    """Return the kind of values that may be ``None``.

    >>> optional("int"), optional("int?"), optional("None"), optional(ListOf("int"))
    ('int?', 'int?', 'None', 'list of int?')
    """
    if isinstance(kind, ListOf):
        return ListOf(kind.element, missing=True, read=kind.read)
    return kind if kind == NONE or kind.endswith("?") else kind + "?"


def without_none(kind: str) -> str:
    """Return the kind of values that are not ``None``."""
    if isinstance(kind, ListOf):
        return ListOf(kind.element, read=kind.read)
    return kind.removesuffix("?")


def number_as_float(made: Expression, schema: RecordSchema) -> tuple[Expression, RecordSchema]:
    """Return numbers of kind ``NUMBER`` as floats; anything else as it is."""
    return (Invoke("float", (made,)), FLOAT) if schema == NUMBER else (made, schema)


def schema_of_value(value: Any) -> RecordSchema | None:
    """Return the schema of a record of tuples, numbers, bools and texts; ``None`` of any other.

    >>> schema_of_value(("a", (1, 2.0))), schema_of_value([1]), schema_of_value(None)
    (('str', ('int', 'float')), None, None)
    """
    kind = type(value)
    if kind is int:
        return INT if LOWEST <= value <= HIGHEST else None
    if kind is str:
        return STR if is_text(value) else None
    if kind is tuple:
        shapes = [schema_of_value(item) for item in value]
        return tuple(schema for schema in shapes if schema is not None) if shapes and None not in shapes else None
    return _KINDS.get(kind)


def is_text(value: str) -> bool:
    """Whether a string has an encoding: lone surrogates have none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def leaves_of(schema: RecordSchema, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], str]]:
    """Return the path and kind of every leaf, from left to right.

    >>> leaves_of(("str", ("int", "float")))
    [((0,), 'str'), ((1, 0), 'int'), ((1, 1), 'float')]
    """
    if isinstance(schema, str):
        return [(path, schema)]
    return [leaf for index, inner in enumerate(schema) for leaf in leaves_of(inner, (*path, index))]


def fields_of_leaves(schema: RecordSchema, leaves: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of the fields of a record that some of its leaves are in.

    >>> fields_of_leaves(("str", ("int", "float"), "str"), [1, 2]), fields_of_leaves("int", [0])
    ((1,), ())
    """
    paths = [path for path, _ in leaves_of(schema)]
    return tuple(sorted({path[0] for path in map(paths.__getitem__, leaves) if path}))


def schema_repr(schema: RecordSchema) -> str:
    """Return a schema as a message shows it.

    >>> schema_repr(("str", ("int", "float")))
    '(str, (int, float))'
    """
    if isinstance(schema, str):
        return schema
    if type(schema) is not tuple:
        return repr(schema)
    return "(" + ", ".join(map(schema_repr, schema)) + ("," * (len(schema) == 1)) + ")"


def kinds_of(schema: RecordSchema) -> set[str]:
    """Return the kinds of the leaves."""
    return {kind for _, kind in leaves_of(schema)}


def is_key(schema: RecordSchema) -> bool:
    """Whether values of a shape can be keys of columns: an int, a text, or a plain tuple of these.

    >>> is_key("int"), is_key(("int", "str")), is_key("float"), is_key(("int", ("str",))), is_key(())
    (True, True, False, False, False)
    """
    if isinstance(schema, str):
        return schema in KEY_KINDS
    return type(schema) is tuple and bool(schema) and all(item in KEY_KINDS for item in schema)


def is_plain(schema: RecordSchema) -> bool:
    """Whether records are tuples of ints, floats, bools and texts, or one of these."""
    return schema in ARRAYS if isinstance(schema, str) else type(schema) is tuple and all(map(is_plain, schema))


def nodes_of(*expressions: Expression) -> Iterator[Expression]:
    """Yield expressions and all that they consist of, each object once: they share their parts.

    >>> shared = Argument(0)
    >>> [type(each).__name__ for each in nodes_of(Binary("*", shared, shared))]
    ['Binary', 'Argument']
    """
    todo, seen = list(expressions), set[int]()
    while todo:
        each = todo.pop()
        if id(each) not in seen:
            seen.add(id(each))
            todo += children(each)
            yield each


def children(expression: Expression) -> list[Expression]:
    """Return the expressions that an expression consists of."""
    values = ((value if isinstance(value, tuple) else (value,)) for value in vars(expression).values())
    return [each for part in values for each in part if isinstance(each, Expression)]
