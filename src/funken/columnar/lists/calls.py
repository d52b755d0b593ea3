"""What is asked of lists in expressions, once the schema of their items is known: items, loops over them, what they come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any, cast

from funken.columnar.expressions import (
    Argument,
    At,
    Binary,
    Choose,
    Compare,
    Constant,
    Expression,
    GetItem,
    Listed,
    Loop,
    NotVectorizable,
    Rowwise,
    Sequence,
    Unary,
)
from funken.columnar.records import leaves_looked_at
from funken.columnar.typed.operations import Typed, operated
from funken.dataclass import dataclass
from funken.expr.python.items import EMPTY, element_of
from funken.expr.types import BOOL, INT, STR, Atomic, ListOf, Type, atomic_fields

_EACH = -1
"""The number of the item in loops that are made here; those of functions have others, from ``FIRST_ITEM`` on."""
FIRST_ITEM = 100
DISTINCT = {"len": "count distinct", "sorted": "sorted distinct"}
"""What may be asked of a set, and what that is of the list that it is made of."""


def listed(items: list[Typed]) -> Typed:
    """Return a display; raise ``NotVectorizable`` if its items are not of one schema."""
    schemas = [schema for _, schema in items]
    if not items:
        return Listed((), EMPTY.element), EMPTY
    if any(schema != schemas[0] for schema in schemas):
        raise NotVectorizable(f"makes a list of {' and '.join(dict.fromkeys(map(str, schemas)))}")
    return Listed(tuple(made for made, _ in items), schemas[0]), ListOf(schemas[0])


def both_lists(one: Typed, other: Typed) -> tuple[Typed, Typed]:
    """Return two results of which one is an empty list as lists of the same schema; anything else as it is."""
    if one[1] == EMPTY and isinstance(one[0], Listed) and (element := element_of(other[1])) is not None:
        return (Listed((), element), other[1]), other
    if other[1] == EMPTY and one[1] != EMPTY:
        return both_lists(other, one)[::-1]
    return one, other


def joined_lists(one: Typed, other: Typed) -> Typed:
    """Return two lists in one; raise ``NotVectorizable`` if their items are not of one schema."""
    one, other = both_lists(one, other)
    if one[1] == other[1] == EMPTY:
        return one
    joined = operated("joined", [one, other])
    if joined is None:
        raise NotVectorizable(f"joins {one[1]} and {other[1]}")
    return joined


def of_nothing(name: str) -> Typed:
    """Return what ``sum`` and the like make of an empty display."""
    if name not in ("sum", "any", "all", "list", "sorted"):
        raise NotVectorizable(f"calls {name}() with nothing")
    if name in ("list", "sorted"):
        return listed([])
    return Constant({"sum": 0, "any": False, "all": True}[name]), INT if name == "sum" else BOOL


def item_of_list(made: Expression, schema: ListOf, index: Typed, of: int | None) -> Typed:
    """Return an item of lists, or of lists that have to have ``of`` items."""
    element = element_of(schema)
    if element is None:
        raise NotVectorizable(f"takes an item of {schema}")
    if of is not None:
        if not isinstance(element, Atomic) or not isinstance(index[0], Constant):
            raise NotVectorizable(f"unpacks {of} values from {schema}")
        return Rowwise("unpack", (made, Constant(of), index[0]), element), element
    if index[1] != INT:
        raise NotVectorizable(f"takes an item of {schema}")
    if element == STR:
        return Rowwise("item", (made, index[0]), STR), STR  # of the parts of a text there are kernels for some
    return At(made, index[0]), element


def over_list(name: str, found: list[Typed], truth: Callable[[Expression, Type], Expression]) -> Typed:
    """Return what ``sum``, ``sorted`` and the like make of lists; raise ``NotVectorizable``."""
    (made, schema), *others = found
    element = element_of(schema)
    if name in ("any", "all") and not others and element is not None:
        found = [(Loop(made, _EACH, (), truth(Argument(_EACH), element), BOOL), ListOf(BOOL))]
    if name == "list" and not others:
        return made, schema
    return called_with(name, found)


def called_with(name: str, found: list[Typed]) -> Typed:
    """Return a call of a function; raise ``NotVectorizable`` if the table has none for such arguments."""
    made = operated(name, found)
    if made is None:
        types = ", ".join(str(each) for _, each in found)
        raise NotVectorizable(f"calls {name.partition(' ')[0]}() with {types or 'nothing'}")
    return made


# ---- Accumulators that are lists of records: all of them, or those for which something is greatest or least.
#
# What ``add`` returns is followed for each case there is: the list is empty, or the new record is greater than
# those in it, like them, or less. In each of them it has to keep the list, add the record to it, or begin a new
# one; all records of a list are alike in what is compared.


ALL, GREATEST, LEAST = "all", "greatest", "least"
ADD, KEEP, BEGIN = "add", "keep", "begin"
"""What becomes of a list with a record."""
_ACCUMULATOR = Argument(1)
_CASES = {"greater": {">", ">=", "!="}, "alike": {">=", "<=", "=="}, "less": {"<", "<=", "!="}}
"""By how a new record compares with those of the list, the comparisons that are true."""
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class ListFold:
    """Which records a list keeps: ``how`` they compare by ``by`` (of argument 0), and what comes of one that is ``alike``."""

    how: str
    by: Expression | None = None
    alike: str = ADD


def list_fold(added: Expression) -> ListFold:
    """Return the form of ``add(record, list)``, typed for both; raise ``NotVectorizable`` if it has none.

    >>> from funken.expr.types import INT, ListOf
    >>> from funken.columnar.tracing import trace
    >>> def add(value, largest):
    ...     if not largest or value > largest[0]:
    ...         return [value]
    ...     return [*largest, value] if value == largest[0] else largest
    >>> list_fold(trace(add, None, 2).typed(INT, ListOf(INT))[0].result)
    ListFold(how='greatest', by=Argument(argument=0, path=()), alike='add')
    """
    compared: list[Expression] = []
    if _outcome(added, None, compared) == KEEP:
        raise NotVectorizable("adds no record to an empty list")
    greater, alike, less = (_outcome(added, case, compared) for case in _CASES)
    if any(repr(each) != repr(compared[0]) for each in compared):
        raise NotVectorizable("compares the records of a list in several ways")
    if not compared and {greater, alike, less} == {ADD}:
        return ListFold(ALL)
    if compared and (greater, less) == (BEGIN, KEEP):
        return ListFold(GREATEST, compared[0], alike)
    if compared and (greater, less) == (KEEP, BEGIN):
        return ListFold(LEAST, compared[0], alike)
    raise NotVectorizable("keeps a list of records in a way that has no kernel")


def _outcome(tree: Expression, case: str | None, compared: list[Expression]) -> str:
    """Return what becomes of the list in a case (``None``: it is empty), and note what is compared."""
    match tree:
        case Sequence(before, result) if all(_is_harmless(each, compared) for each in before):
            return _outcome(result, case, compared)
        case Choose(condition, then, otherwise):
            return _outcome(then if _truth(condition, case, compared) else otherwise, case, compared)
        case Argument() if tree == _ACCUMULATOR:
            return KEEP
        case Listed((Argument(0, ()),)):
            return BEGIN
        case Rowwise("joined", (Argument(1, ()), Listed((Argument(0, ()),)))):
            return BEGIN if case is None else ADD
    raise NotVectorizable("keeps a list of records in a way that has no kernel")


def _truth(condition: Expression, case: str | None, compared: list[Expression]) -> bool:
    match condition:
        case Constant(bool() as value):
            return value
        case Unary("not", operand):
            return not _truth(operand, case, compared)
        case Unary("bool", operand):
            return _truth(operand, case, compared)
        case Rowwise("truth", (Argument(1, ()),)):
            return case is not None
        case Choose(inner, then, otherwise):
            return _truth(then if _truth(inner, case, compared) else otherwise, case, compared)
        case Compare("==" | "!=" | ">" as op, Rowwise("len", (Argument(1, ()),)), Constant(0)):
            return (op == "==") == (case is None)
        case Compare(op, left, right) if case is not None and op in _MIRRORED:
            for new, kept, how in ((left, right, op), (right, left, _MIRRORED[op])):
                of_kept = _of_first(kept)
                if of_kept is not None and repr(of_kept) == repr(new):
                    compared.append(new)
                    return how in _CASES[case]
    raise NotVectorizable("decides about a list of records in a way that has no kernel")


def _of_first(expression: Expression) -> Expression | None:
    """Return something of the first item of the list as what it is of a record; ``None``: it is of anything else."""
    match expression:
        case At(Argument(1, ()), Constant(0 | -1)):
            return Argument(0)
        case GetItem(record, int() as index):
            found: Any = _of_first(record)
            return Argument(0, (*found.path, index)) if isinstance(found, Argument) else None
        case Sequence(before, result):
            made = _of_first(result)
            return made if made is not None and all(_is_harmless(each, [made]) for each in before) else None
        case Constant():
            return expression
        case Unary(_, operand) if (inner := _of_first(operand)) is not None:
            return replace(expression, operand=inner)
        case Binary(_, left, right):
            one, other = _of_first(left), _of_first(right)
            return None if one is None or other is None else replace(expression, left=one, right=other)
    return None


def _is_harmless(expression: Expression, compared: list[Expression]) -> bool:
    """Whether something raises nothing that what is compared would not."""
    match expression:
        case Sequence(before, result):
            return all(_is_harmless(each, compared) for each in before) and _is_harmless(result, compared)
        case GetItem(record):
            return _is_harmless(record, compared)
        case Argument() | At(Argument(1, ()), Constant(0 | -1)):
            return True
    return any(repr(each) in (repr(expression), repr(_of_first(expression))) for each in compared)


# ---- Parts of texts in expressions: what is read of ``text.split(separator)`` and ``text.partition(separator)``.


_PARTITION = {"str.partition.0", "str.partition.1", "str.partition.2"}


def unsplit(expression: Expression) -> Expression:
    """Return what can raise of an expression whose result is not read: of the parts of a text, the text.

    >>> from funken.columnar.expressions import Argument
    >>> unsplit(Rowwise("str.split", (Argument(0), Constant(",")), "list of str"))
    Argument(argument=0, path=())
    """
    match expression:
        case Rowwise("str.split" | "str.rsplit", (text, Constant(str(separator)))) if separator:
            return unsplit(text)
        case Rowwise(function, (text, Constant(str(separator)))) if function in _PARTITION and separator:
            return unsplit(text)
    return expression


def is_partition(expression: Expression) -> bool:
    """Whether it is an item of ``text.partition(separator)``, of which none can raise."""
    return (
        unsplit(expression) is not expression and isinstance(expression, Rowwise) and expression.function in _PARTITION
    )


def takes_part(expression: Rowwise) -> bool:
    """Whether something is taken of the parts of a text.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.expressions import Argument
    >>> takes_part(Rowwise("str.partition.0", (Argument(0), Constant(",")), STR))
    True
    """
    match expression:
        case Rowwise(function) if function in _PARTITION:
            return True
        case Rowwise(_, (Rowwise("str.split" | "str.rsplit"), *_)):
            return True
    return False


# ---- What an expression looks at: fields of its first argument, and fields of the items of its lists.


ITEMS = -1
"""In a path, it stands between that of a list and that of a field of its items; twice, for how many there are."""
_Path = tuple[int, ...]


def _bare(made: Expression) -> Expression:
    """Return an expression without the test that it is not ``None``."""
    match made:
        case Rowwise("not none", (operand,)):
            return operand
    return made


class Reads:
    """Notes what is looked at while an expression is typed.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> reads = Reads()
    >>> items = Argument(0, (1,)), ListOf(Tuple((STR, INT)))
    >>> reads.fields.add((1,))
    >>> reads.loop(items, 101, used=0)
    >>> reads.item(Argument(101, (0,)))
    >>> sorted(reads.paths(Tuple((INT, items[1]))))
    [(1, -1, -1), (1, -1, 0)]
    """

    def __init__(self) -> None:
        #: the paths of the fields that were looked at, of records too
        self.fields: set[_Path] = set()
        #: by the number of an argument that is the item of a list: the path of the list
        self._over: dict[int, _Path] = {}
        #: how often lists are used, but for their items
        self._lists: Counter[_Path] = Counter()
        self._of_items: set[_Path] = set()

    def count(self, found: tuple[Expression, Type], uses: int) -> bool:
        """Count uses of a list of the first argument, or take them back; return whether it is one."""
        made, schema = _bare(found[0]), found[1]
        if isinstance(made, Argument) and made.argument == 0 and isinstance(schema.required, ListOf):
            self._lists[made.path] += uses
            return True
        return False

    def loop(self, items: tuple[Expression, Type], number: int, used: int = 1) -> None:
        """Note that an argument is the item of lists, which is what they were ``used`` for."""
        made = _bare(items[0])
        if self.count(items, -used) and isinstance(made, Argument):
            self._over[number] = made.path

    def item(self, made: Argument) -> None:
        """Note that a field of an item, or all of it, is looked at."""
        if made.argument in self._over:
            self._of_items.add((*self._over[made.argument], ITEMS, *made.path))

    def all_of(self, made: Argument, schemas: Mapping[int, Type]) -> None:
        """Note that an argument, or a field of it, may be looked at whatever is in it; ``schemas`` are those of arguments."""
        if made.argument in schemas and (made.argument == 0 or made.argument in self._over):
            leaves = [leaf for leaf, _ in atomic_fields(schemas[made.argument]) if leaf[: len(made.path)] == made.path]
            if made.argument == 0:
                self.fields.update(leaves)
            else:
                self._of_items.update((*self._over[made.argument], ITEMS, *leaf) for leaf in leaves)

    def paths(self, schema: Type) -> frozenset[_Path]:
        """Return the leaves that were looked at; of lists of which only items were, the paths of these."""
        found = set(leaves_looked_at(schema, self.fields))
        for path, uses in self._lists.items():
            if not uses and path in found:
                within = (*path, ITEMS)
                found.discard(path)
                lists: Any = reduce(getitem, path, cast("Any", schema))
                inner = [each[len(within) :] for each in self._of_items if each[: len(within)] == within]
                found |= {
                    (*within, ITEMS),
                    *((*within, *leaf) for leaf in leaves_looked_at(lists.required.element, inner)),
                }
        return frozenset(found)


__all__ = [
    "ADD",
    "ALL",
    "BEGIN",
    "DISTINCT",
    "FIRST_ITEM",
    "GREATEST",
    "ITEMS",
    "KEEP",
    "LEAST",
    "ListFold",
    "Reads",
    "both_lists",
    "called_with",
    "is_partition",
    "item_of_list",
    "joined_lists",
    "list_fold",
    "listed",
    "of_nothing",
    "over_list",
    "takes_part",
    "unsplit",
]
