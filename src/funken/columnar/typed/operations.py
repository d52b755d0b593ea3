"""Operations in expressions for arguments of known types, by the table of ``expr/python``."""

from __future__ import annotations

import re
import string
from collections import Counter, abc
from collections.abc import Callable, Container, Mapping
from collections.abc import Sequence as Several
from dataclasses import replace
from functools import lru_cache, reduce
from operator import getitem
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, cast

from funken.columnar.expressions import (
    COMPARISONS,
    Argument,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    Rowwise,
    Sequence,
    Unpacked,
    children,
)
from funken.expr.python.table import EMPTY, PATTERN, TABLE, element_of, literal_of
from funken.expr.types import (
    BOOL,
    DICT,
    INT,
    STR,
    Atomic,
    ListOf,
    Record,
    Tuple,
    Type,
    atomic_fields,
    leaves_looked_at,
    optional,
)

Typed = tuple[Expression, Type]
"""An expression as kernels compute it, and the type of its results."""


def as_int(operand: Typed) -> Typed:
    """Return bools as the ints that they are in arithmetic; anything else as it is."""
    made, schema = operand
    if schema != BOOL:
        return operand
    return (Constant(int(made.value)) if isinstance(made, Constant) else Invoke("int", (made,))), INT


def operated(name: str, found: abc.Sequence[Typed]) -> Typed | None:
    """Return an operation of values, with bools as ints where it takes none; ``None`` if the table has no such types.

    >>> from funken.expr.types import FLOAT
    >>> operated("abs", [(Constant(-1.5), FLOAT)])
    (Invoke(name='abs', arguments=(Constant(value=-1.5),)), float)
    """
    row = TABLE.find(name)
    if row is None:
        return None
    made, types = tuple(each for each, _ in found), tuple(schema for _, schema in found)
    if types[0] in row.keeps and len(types) == 1:
        return found[0]
    kind = row.native.get(types)
    if kind is not None and (row.native_with is None or isinstance(made[row.native_with], Constant)):
        return Invoke(name, made), kind
    kind = row.result(types)
    if isinstance(kind, Atomic):
        return Rowwise(name, made, kind), kind
    return operated(name, [as_int(each) for each in found]) if BOOL in types else None


# ---- Which expressions may raise an exception, or are costly: they are computed for the records only that come to
# them.


_RAISING = frozenset(row.name for row in TABLE if row.raises)


def may_raise(expression: Expression, known: dict[int, bool] | None = None) -> bool:
    """Return True if evaluating an expression may raise, or calls a function for each value.

    ``known`` are the results so far, by the numbers of expressions that are kept.

    >>> from funken.columnar.expressions import Argument
    >>> quotient = Invoke("//", (Argument(0), Argument(1)))
    >>> may_raise(quotient), may_raise(Invoke("//", (Argument(0), Constant(2))))
    (True, False)
    """
    return _may_raise(expression, {} if known is None else known)


def _may_raise(expression: Expression, known: dict[int, bool]) -> bool:
    found = known.get(id(expression))
    if found is None:
        match expression:
            case Rowwise() | Loop() | Expression(raises=True):
                found = True
            case Invoke("at"):
                found = True
            case Invoke(op, (_, right)) if op in _RAISING and not (isinstance(right, Constant) and right.value):
                found = True
            case _:
                found = any(_may_raise(each, known) for each in children(expression))
        known[id(expression)] = found
    return found


# ---- Expressions that are alike become one object: what computes them computes each object once.
#
# The same part of a function is typed again under every condition, and its expression made anew. A text would be
# searched for the condition, and again for what is below it.


_PLAIN = (int, float, bool, str, type(None))


class Sharing:
    """The expressions met so far."""

    def __init__(self) -> None:
        self._shared: dict[Any, Expression] = {}
        self._known: dict[int, tuple[Expression, Expression]] = {}

    def of(self, expression: Expression) -> Expression:
        """Return an expression, with the objects that were met before for all parts that are like them.

        >>> from funken.columnar.expressions import Argument
        >>> plus = Invoke("+", (Argument(0), Constant(1)))
        >>> shared = Sharing().of(Invoke("*", (plus, Invoke("+", (Argument(0), Constant(1))))))
        >>> shared.arguments[0] is shared.arguments[1], Sharing().of(Invoke("+", (Constant(1), Constant(True))))
        (True, Invoke(name='+', arguments=(Constant(value=1), Constant(value=True))))
        """
        known = self._known.get(id(expression))
        if known is None:
            # The expression is kept with its replacement: another one might get its number.
            known = self._known[id(expression)] = expression, self._made(expression)
        return known[1]

    def _made(self, expression: Expression) -> Expression:
        made, key = expression, list[Any]([type(expression)])
        if isinstance(expression, Constant):
            key += _alike(expression.value)
        else:
            made = with_parts(expression, self.of)
            for value in vars(made).values():
                if isinstance(value, Expression):
                    key.append(id(value))
                elif isinstance(value, tuple) and any(isinstance(each, Expression) for each in value):
                    key.append(tuple(map(id, value)))
                else:
                    key.append((type(value), value))
        try:
            return self._shared.setdefault(tuple(key), made)
        except TypeError:  # a part that has no hash
            return made


def _alike(value: Any) -> tuple[Any, ...]:
    """Return a key that is equal for constants that are alike: 1, True and 1.0 are equal, and so are 0.0 and -0.0."""
    known = type(value), repr(value)
    if type(value) in _PLAIN or type(value).__hash__ is None:  # the text of a table of such values says all
        return known
    return *known, value  # that of a long regular expression does not


def with_parts(expression: Expression, of: Callable[[Expression], Expression]) -> Expression:
    """Return an expression with a function's result for each of its parts; the same object if they stay as they are."""
    changed: dict[str, Any] = {}
    for name, value in vars(expression).items():
        if isinstance(value, Expression):
            made: Any = of(value)
            if made is not value:
                changed[name] = made
        elif isinstance(value, tuple) and any(isinstance(each, Expression) for each in value):
            made = tuple(of(each) if isinstance(each, Expression) else each for each in value)
            if any(one is not other for one, other in zip(made, value, strict=True)):
                changed[name] = made
    return replace(expression, **changed) if changed else expression


def rewriter(change: Callable[[Expression], Expression | None]) -> Callable[[Expression], Expression]:
    """Return a function that replaces what ``change`` has another expression for, at any depth; shared parts stay shared.

    >>> rewriter(lambda each: Constant(1) if each == Argument(0) else None)(Invoke("+", (Argument(0), Argument(1))))
    Invoke(name='+', arguments=(Constant(value=1), Argument(argument=1, path=())))
    """
    known: dict[int, tuple[Expression, Expression]] = {}

    def of(expression: Expression) -> Expression:
        if id(expression) not in known:
            made = change(expression)
            known[id(expression)] = expression, with_parts(expression, of) if made is None else made
        return known[id(expression)][1]

    return of


# ---- Matches of regular expressions in expressions, and their groups, which are lists of texts.
#
# A group is text, not ``None``, if the expression cannot match without it: ``(\d+)`` in ``(\d+)-(\d+)?``. Should
# that be wrong for some version of ``re``, the block goes to the function, for a column of texts takes no ``None``.


_Typed = tuple[Expression, Type]
_REPEATS = {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}


def matched(name: str, pattern: Constant, given: list[_Typed]) -> _Typed:
    """Return a call of a method of a regular expression; raise ``NotVectorizable``."""
    row = TABLE.find(name)
    kind = None if row is None else row.result((PATTERN, *(schema for _, schema in given)))
    if not isinstance(kind, Atomic):
        raise NotVectorizable(f"calls the method {name}() of a regular expression")
    literal = literal_of(pattern.value)
    if name == "sub" and literal and isinstance(given[0][0], Constant) and "\\" not in given[0][0].value:
        return Rowwise("str.replace", (given[1][0], Constant(literal), given[0][0]), STR), STR
    return Rowwise(name, (pattern, *(each for each, _ in given)), kind), kind


def of_match(name: str, made: Expression, given: tuple[Any, ...]) -> _Typed:
    """Return the result of ``group``, ``groups`` or ``groupdict`` of a match; raise ``NotVectorizable``.

    ``given`` are the arguments, which have to be constants.
    """
    if any(not isinstance(each, Constant) or type(each.value) not in (int, str) for each in given):
        raise NotVectorizable(f"calls the method {name}() of a match with an argument that is no constant")
    if name == "group":
        found = [group_of(made, each.value) for each in given or (Constant(0),)]
        if len(found) == 1:
            return found[0]
        return Make(tuple(each for each, _ in found)), Tuple(kind for _, kind in found)
    pattern = _pattern_of(made)
    if pattern is None or given or name not in ("groups", "groupdict"):
        raise NotVectorizable(f"calls the method {name}() of a match")
    names = tuple(pattern.groupindex) if name == "groupdict" else None
    found = [group_of(made, each) for each in (names if names is not None else range(1, pattern.groups + 1))]
    if not found:
        raise NotVectorizable("asks a match for groups, of which it has none")
    kinds = Tuple(kind for _, kind in found)
    result = Make(tuple(each for each, _ in found))
    return result, kinds if names is None else Record(kinds, DICT, names)


def group_of(made: Expression, group: int | str) -> _Typed:
    """Return a group of a match by its number or name; raise ``NotVectorizable`` if it has no such group.

    >>> from funken.columnar.expressions import Argument
    >>> found = Rowwise("match", (Constant(re.compile("(?P<key>a)(b)?")), Argument(0)), "match?")
    >>> [group_of(found, each)[1] for each in ("key", 1, 2, 0)]
    [str, str, str?, str]
    """
    pattern = _pattern_of(made)
    if pattern is None:
        if type(group) is str:
            raise NotVectorizable(f"takes the group {group!r} of a match of one of several regular expressions")
        kind = STR if group == 0 else optional(STR)
    else:
        number = pattern.groupindex.get(group) if isinstance(group, str) else group
        if number is None or not 0 <= number <= pattern.groups:
            raise NotVectorizable(f"takes the group {group!r}, which {pattern.pattern!r} has not")
        group = number
        kind = STR if group == 0 or group in _always_there(pattern) else optional(STR)
    return Rowwise("item", (made, Constant(group)), kind), kind


def item_of_match(made: Expression, index: _Typed) -> _Typed:
    """Return ``match[index]``; raise ``NotVectorizable``."""
    if isinstance(index[0], Constant) and type(index[0].value) in (int, str):
        return group_of(made, index[0].value)
    if index[1] != INT:
        raise NotVectorizable("takes a group of a match in a way that is not known")
    return Rowwise("item", (made, index[0]), optional(STR)), optional(STR)


def _pattern_of(made: Expression) -> re.Pattern[str] | None:
    """Return the regular expression that a match is of; ``None``: it may be one of several."""
    match made:
        case Rowwise("not none", (inner,)):
            return _pattern_of(inner)
        case Rowwise("search" | "match" | "fullmatch", (Constant(pattern), _)):
            found: re.Pattern[str] = pattern
            return found
    return None


@lru_cache(maxsize=256)
def _always_there(pattern: re.Pattern[str]) -> frozenset[int]:
    """Return the numbers of the groups without which a regular expression does not match."""
    try:
        return frozenset(_needed(parser.parse(pattern.pattern, pattern.flags)))
    except (re.error, RecursionError):
        return frozenset()


def _needed(parsed: Any) -> list[int]:
    found: list[int] = []
    for code, argument in parsed:
        if code is codes.SUBPATTERN:
            number, _, _, inner = argument
            found += _needed(inner) if number is None else [number, *_needed(inner)]
        elif code in _REPEATS and argument[0] > 0:
            found += _needed(argument[2])
        elif code is codes.ATOMIC_GROUP:
            found += _needed(argument)
        elif code is codes.BRANCH:
            found += frozenset.intersection(*(frozenset(_needed(each)) for each in argument[1]))
    return found


# ---- What is asked of lists in expressions, once the schema of their items is known: items, loops over them, what
# they come to.


_EACH = -1
"""The number of the item in loops that are made here; those of functions have others, from ``FIRST_ITEM`` on."""
FIRST_ITEM = 100
DISTINCT = {"len": "count distinct", "sorted": "sorted distinct"}
"""The operations on a set, and those on the list that it is made of."""


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
    """Return the result of ``sum`` and the like for an empty display."""
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
    return Invoke("at", (made, index[0])), element


def over_list(name: str, found: list[Typed], truth: Callable[[Expression, Type], Expression]) -> Typed:
    """Return the result of ``sum``, ``sorted`` and the like for lists; raise ``NotVectorizable``."""
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


# ---- Parts of texts in expressions: what is read of ``text.split(separator)`` and ``text.partition(separator)``.


_PARTITION = {"str.partition.0", "str.partition.1", "str.partition.2"}


def unsplit(expression: Expression) -> Expression:
    """Return the raising part of an expression whose result is not read: of the parts of a text, the text.

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
    """Return True if the expression is an item of ``text.partition(separator)``, of which none can raise."""
    return (
        unsplit(expression) is not expression and isinstance(expression, Rowwise) and expression.function in _PARTITION
    )


def takes_part(expression: Rowwise) -> bool:
    """Return True if an expression takes a part of the parts of a text.

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
    """Notes the reads of arguments while an expression is typed.

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
        """Note that an argument is the item of lists, for which these were ``used``."""
        made = _bare(items[0])
        if self.count(items, -used) and isinstance(made, Argument):
            self._over[number] = made.path

    def item(self, made: Argument) -> None:
        """Note that a field of an item, or all of it, is looked at."""
        if made.argument in self._over:
            self._of_items.add((*self._over[made.argument], ITEMS, *made.path))

    def all_of(self, made: Argument, schemas: Mapping[int, Type]) -> None:
        """Note that an argument, or a field of it, may be read at any depth; ``schemas`` are those of arguments."""
        if made.argument in schemas and (made.argument == 0 or made.argument in self._over):
            leaves = [leaf for leaf, _ in atomic_fields(schemas[made.argument]) if leaf[: len(made.path)] == made.path]
            if made.argument == 0:
                self.fields.update(leaves)
            else:
                self._of_items.update((*self._over[made.argument], ITEMS, *leaf) for leaf in leaves)

    def paths(self, schema: Type) -> frozenset[_Path]:
        """Return the fields that were read; of lists of which only items were, the paths of these."""
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


# ---- Texts that are formatted: f-strings, ``"%s: %d" % (name, n)`` and ``"{}: {}".format(name, n)``, as they are
# traced.
#
# Each becomes a ``text`` of its parts, in which a value is a call of ``format`` where it has a format of its own.


_CONVERSIONS = {1: "str", 2: "repr"}
_NAMED, _OTHER = {"s": 1, "r": 2}, 3
_PLACE = re.compile(r"%(?P<flags>[-+0]*)(?P<width>\d*)(?P<digits>\.\d+)?(?P<kind>[srdifFeEgGxXo%])")
INTEGER = "%d"
"""The function that makes ``%d`` of a number: it is no float from then on."""


def converted(value: Expression, conversion: int) -> Expression:
    """Return a value behind ``!s`` or ``!r``; raise ``NotVectorizable`` for ``!a``."""
    if conversion not in _CONVERSIONS:
        raise NotVectorizable("formats a value with !a")
    return Invoke(_CONVERSIONS[conversion], (value,))


def formatted(value: Expression, conversion: int, spec: Expression | None) -> Expression:
    """Return a value in an f-string."""
    if conversion:
        value = converted(value, conversion)
    if spec is not None and not isinstance(spec, Constant):
        raise NotVectorizable("formats a value in a way that is computed")
    return Invoke("text", (value,)) if spec is None or not spec.value else Invoke("format", (value, spec))


def by_percent(pattern: str, given: Expression) -> Expression:
    """Return ``pattern % given``; raise ``NotVectorizable`` for unknown formats in it.

    >>> from funken.columnar.expressions import Argument
    >>> by_percent("%s: %05.1f", Make((Argument(0), Argument(1)))).arguments[2]
    Invoke(name='format', arguments=(Argument(argument=1, path=()), Constant(value='05.1f')))
    """
    values = list(given.items) if isinstance(given, Make) else [given]
    if any(isinstance(each, Unpacked) for each in values):
        raise NotVectorizable("formats a text with *")
    parts: list[Expression] = []
    end = 0
    for place in _PLACE.finditer(pattern):
        parts += _literal(pattern[end : place.start()])
        end = place.end()
        if place["kind"] == "%":
            parts.append(Constant("%"))
        elif not values:
            raise NotVectorizable("formats a text with too few values")
        else:
            parts.append(_in_place(place, values.pop(0)))
    parts += _literal(pattern[end:])
    if values:
        raise NotVectorizable("formats a text with too many values")
    return Invoke("text", tuple(parts))


def _literal(text: str) -> list[Expression]:
    if "%" in text:
        raise NotVectorizable(f"formats a text with {text[text.index('%') :][:6]!r}")
    return [Constant(text)] if text else []


def _in_place(place: re.Match[str], value: Expression) -> Expression:
    flags, width, digits, kind = place["flags"], place["width"], place["digits"] or "", place["kind"]
    if kind in "sr":
        if "0" in flags or "+" in flags:
            raise NotVectorizable(f"formats a text with {place[0]!r}")
        align = "<" if "-" in flags else ">"
        spec = f"{align}{width}" if width else ""
        if kind == "r" or spec or digits:
            value = Invoke("repr" if kind == "r" else "str", (value,))
        return Invoke("format", (value, Constant(spec + digits))) if spec or digits else Invoke("text", (value,))
    if kind in "di":
        value, kind = Invoke(INTEGER, (value,)), "d"
        if digits:
            raise NotVectorizable(f"formats a text with {place[0]!r}")
        if not width and not flags.strip("-0"):
            return Invoke("text", (value,))
    elif kind in "xXo" and digits:
        raise NotVectorizable(f"formats a text with {place[0]!r}")
    elif kind in "fFeEgG":
        digits = digits or ".6"
    left = "<" if "-" in flags and width else ""
    zero = "0" if "0" in flags and "-" not in flags and width else ""
    return Invoke("format", (value, Constant(f"{left}{'+' * ('+' in flags)}{zero}{width}{digits}{kind}")))


def by_format(pattern: str, given: Several[Expression], names: Several[str]) -> Expression:
    """Return ``pattern.format(...)``; ``names`` are those of the last values. Raise ``NotVectorizable`` if unknown."""
    unnamed = len(given) - len(names)
    values = dict(zip([*map(str, range(unnamed)), *names], given, strict=True))
    parts: list[Expression] = []
    number, used = 0, set[str]()
    try:
        places = list(string.Formatter().parse(pattern))
    except ValueError as error:
        raise NotVectorizable(f"formats a text that is malformed: {error}") from None
    for text, name, spec, conversion in places:
        if text:
            parts.append(Constant(text))
        if name is None:
            continue
        if not name:
            name, number = str(number), number + 1  # noqa: PLW2901 - numbered as they come
        elif number and name.isdigit():
            raise NotVectorizable("formats a text that numbers some of its fields")
        if name not in values or "{" in (spec or ""):
            raise NotVectorizable(f"formats a text with the field {name!r}")
        used.add(name)
        how = _NAMED.get(conversion, _OTHER) if conversion else 0
        parts.append(formatted(values[name], how, Constant(spec or "")))
    unused = tuple(value for name, value in values.items() if name not in used)  # they are evaluated as well
    return Sequence(unused, Invoke("text", tuple(parts))) if unused else Invoke("text", tuple(parts))


# ---- The names of dicts, where they are known as a function is read: loops over a dict are loops over a display
# then.


CHANGED, UPDATED, SET, WITHOUT = "changed", "updated", "attribute set", "without"
"""Forms of ``MakeRecord``: its last part, an ``Unpacked``, with an item set, items updated, an attribute set, or less an item."""
VIEWS = ("items", "keys", "values")
_TESTS = (".startswith", ".endswith", "str.startswith", "str.endswith")


def names_of(found: Any, schema: Type | None) -> tuple[str, ...] | None:
    """Return the names of a dict, in order; ``None`` if they are not known. ``schema`` is that of the first argument.

    >>> from funken.expr.types import INT, STR
    >>> names_of(Argument(0), Record((INT, STR), DICT, ("n", "user")))
    ('n', 'user')
    """
    match found:
        case MakeRecord(form, names) if form in (DICT, CHANGED, UPDATED):
            first = 0 if form == DICT else -1  # of a changed one, what was there before stands last
            known: list[str] = []
            for name, each in (*zip(names[first:], found.items[first:]), *zip(names[:first], found.items[:first])):  # noqa: B905
                inner = names_of(each.record, schema) if isinstance(each, Unpacked) else (str(name),)
                if inner is None:
                    return None
                known += [new for new in inner if new not in known]
            return tuple(known)
        case MakeRecord(form, (name, *_), (Unpacked(record), *_)) if form == WITHOUT:
            before = names_of(record, schema)
            return None if before is None else tuple(each for each in before if each != name)
        case Invoke(".copy", (record,)):
            return names_of(record, schema)
    at = _schema_at(found, schema)
    return at.names if isinstance(at, Record) and at.form == DICT else None


def _schema_at(found: Any, schema: Type | None) -> Any:
    match found:
        case Argument(0, ()):
            return schema
        case GetItem(record, str() as name, None):
            outer = _schema_at(record, schema)
            position = outer.position(name) if isinstance(outer, Record) else None
            return None if position is None else outer[position]
    return None


def view_of(record: Expression, names: Several[str], what: str) -> Make:
    """Return the items, keys or values of a dict as a display."""
    if what == "keys":
        return Make(tuple(map(Constant, names)))
    values = [GetItem(record, name) for name in names]
    if what == "values":
        return Make(tuple(values))
    return Make(tuple(Make((Constant(name), value)) for name, value in zip(names, values, strict=True)))


def text_of(key: Any) -> str | None:
    """Return the text that is put together of constants; ``None`` if something else is in it."""
    match key:
        case Constant(str() as text):
            return text
        case Invoke("+", (left, right)):
            parts = [text_of(left), text_of(right)]
        case Invoke("text", items):
            parts = [text_of(each) for each in items]
        case _:
            return None
    return None if None in parts else "".join(map(str, parts))


def dict_of(pairs: Several[Any]) -> MakeRecord:
    """Return the dict that a comprehension makes of pairs; raise ``NotVectorizable`` if a key is not constant."""
    names, values = [], []
    for each in pairs:
        pair = each.result if isinstance(each, Sequence) else each
        name = text_of(pair.items[0]) if isinstance(pair, Make) else None
        if name is None or not isinstance(pair, Make):
            raise NotVectorizable("makes a dict of items")
        names.append(name)
        values.append(Sequence(each.before, pair.items[1]) if isinstance(each, Sequence) else pair.items[1])
    return MakeRecord(DICT, tuple(names), tuple(values))


def known_truth(condition: Expression, present: Container[Expression] = ()) -> bool | None:
    """Return whether a condition of constants is true; ``None`` if it depends on the record.

    ``present`` are arguments that are not ``None``.

    >>> known_truth(Invoke("!=", (Constant("url"), Constant("user")))), known_truth(Invoke("<", (Argument(0), Constant(1))))
    (True, None)
    """
    match condition:
        case Invoke("not", (operand,)):
            known = known_truth(operand, present)
            return None if known is None else not known
        case Invoke("bool", (operand,)):
            return known_truth(operand, present)
        case Constant(value):
            return bool(value)
        case Invoke("is None", (Constant(value),)):
            return value is None
        case Invoke("is None", (Argument() as operand,)) if operand in present:
            return False
        case Invoke(op, (Constant(str() as left), Constant(str() as right))) if op in COMPARISONS:
            return bool(TABLE[op].function(left, right))
        case Invoke("in", (Constant(str() as part), Constant(list() | set() | frozenset() | str() as whole))):
            return part in whole
        case Invoke("in", (Constant(str() as part), Make(items))) if all(isinstance(each, Constant) for each in items):
            return any(isinstance(each, Constant) and each.value == part for each in items)
        case Invoke(name, (Constant(str() as text), Constant(str() as part))) if name in _TESTS:
            return text.startswith(part) if name.endswith("startswith") else text.endswith(part)
    return None
