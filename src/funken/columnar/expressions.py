"""The result of a function, as a tree over the fields of its arguments.

Expressions are plain data: they travel in the plan and are compared in tests. The types of their values are in
``expr/types.py``.

``tracing.py`` makes expressions as a function has them. ``inference.py``, which knows the types of the arguments, replaces those
that depend on them (``MakeRecord``, ``Unpacked``, ``TypeTest``, most of ``GetItem`` and ``Invoke``): kernels see the others only.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import wraps
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar

from funken.dataclass import dataclass
from funken.errors import FunkenError
from funken.expr.types import FLOAT, HIGHEST, INT, LOWEST, NUMBER, OF_CLASSES, STR, Atomic, Tuple, Type


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
class Choose(Expression):
    """``then if condition else otherwise``; ``and`` and ``or`` become it, too.

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
    """An item: of a tuple by its number, as kernels see it; ``of``: its exact length (``None``: at least enough).

    As it is traced, ``record`` may be something else that has items, and ``index`` the text of a key, or an expression.
    """

    record: Expression
    index: Any
    of: int | None = None


@dataclass(frozen=True)
class Invoke(Expression):
    """An operation of the table in ``expr/python``, by its name, or a method by ``.name``, whose object is the first argument.

    Some have no row, but a type rule (``typed/calls.py``): ``not``, ``text`` (an f-string of its parts), ``attribute`` (whose
    name is the second argument), ``display`` (a list with other lists in it), ``rest``, ``%d``. Kernels also see ``at``, an
    item of lists.
    """

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Sequence(Expression):
    """``result``, after the evaluation of ``before`` for its exceptions."""

    before: tuple[Expression, ...]
    result: Expression


@dataclass(frozen=True)
class Raises(Expression):
    """An exception, of records for which the condition is true; it has no value."""

    raises = True

    condition: Expression = Constant(True)


@dataclass(frozen=True)
class Rowwise(Expression):
    """An operation that is called for each value, or computed by the kernel of its row; ``kind`` is the type of its results."""

    function: str
    arguments: tuple[Expression, ...]
    kind: Atomic


@dataclass(frozen=True)
class MakeRecord(Expression):
    """A record with named fields: ``form`` and ``cls`` as in its type; a ``Unpacked`` has no name (``None``)."""

    form: str
    names: tuple[str | None, ...]
    items: tuple[Expression, ...]
    cls: type | None = None


@dataclass(frozen=True)
class Unpacked(Expression):
    """``*record`` or ``**record`` in a display."""

    record: Expression


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


COMPARISONS = frozenset(("<", "<=", "==", "!=", ">", ">="))


def attribute_of_record(record: Expression, name: str) -> Expression:
    """Return ``record.name``."""
    return Invoke("attribute", (record, Constant(name)))


def bare(condition: Expression) -> tuple[Expression, bool]:
    """Return a condition without ``not`` and ``bool`` around it, and whether it is negated by them.

    >>> bare(Invoke("not", (Invoke("bool", (Argument(0),)),)))
    (Argument(argument=0, path=()), True)
    """
    negated = False
    while isinstance(condition, Invoke) and condition.name in ("not", "bool"):
        negated ^= condition.name == "not"
        condition = condition.arguments[0]
    return condition, negated


def number_as_float(made: Expression, schema: Type) -> tuple[Expression, Type]:
    """Return numbers of the type ``NUMBER`` as floats; anything else as it is."""
    return (Invoke("float", (made,)), FLOAT) if schema == NUMBER else (made, schema)


def schema_of_value(value: Any) -> Type | None:
    """Return the schema of a record of tuples, numbers, bools and texts; ``None`` of any other.

    >>> schema_of_value(("a", (1, 2.0))), schema_of_value([1]), schema_of_value(None)
    ((str, (int, float)), None, None)
    """
    kind = type(value)
    if kind is int:
        return INT if LOWEST <= value <= HIGHEST else None
    if kind is str:
        return STR if is_text(value) else None
    if kind is tuple:
        shapes = [schema_of_value(item) for item in value]
        return Tuple(schema for schema in shapes if schema is not None) if shapes and None not in shapes else None
    return OF_CLASSES.get(kind)


def is_text(value: str) -> bool:
    """Return True if a string has an encoding: lone surrogates have none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def nodes_of(*expressions: Expression) -> Iterator[Expression]:
    """Yield expressions and all that they consist of, each object once: they share their parts.

    >>> shared = Argument(0)
    >>> [type(each).__name__ for each in nodes_of(Invoke("*", (shared, shared)))]
    ['Invoke', 'Argument']
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


# ---- What is evaluated whenever an expression is: it need not be evaluated once more for what it may raise.


_Key = Callable[[Expression], int]


def add_evaluated(expression: Expression, surely: set[int], key: _Key = id) -> None:
    """Add the keys of all that is evaluated whenever an expression is; expressions share their parts."""
    todo = [expression]
    while todo:
        each = todo.pop()
        if key(each) not in surely:
            surely.add(key(each))
            match each:
                case Choose(condition):
                    todo.append(condition)
                case Loop(items):  # which may be empty
                    todo.append(items)
                case _:
                    todo += children(each)


@dataclass(frozen=True)
class _Known:
    """Facts where an expression is evaluated: expressions that are evaluated anyway, and conditions decided so far."""

    surely: frozenset[int] = frozenset()
    decided: Mapping[int, bool] = field(default_factory=dict)

    def evaluating(self, expressions: Iterable[Expression], key: _Key) -> _Known:
        """Return the facts where expressions are evaluated as well."""
        return _Known(self.surely.union(*(_evaluated(each, key) for each in expressions)), self.decided)

    def under(self, condition: int, side: bool) -> _Known:
        """Return the facts on one side of a condition."""
        return _Known(self.surely, {**self.decided, condition: side})


def pruned(expression: Expression, key: _Key, known: _Known | None = None) -> Expression:
    """Return an expression without dropped parts that are evaluated anyway, and without decided choices.

    >>> from funken.columnar.expressions import Argument
    >>> positive = Argument(0)
    >>> pruned(Choose(positive, Sequence((positive,), Argument(1)), Constant(0)), id).then
    Argument(argument=1, path=())
    """
    known = _Known() if known is None else known
    match expression:
        case Choose(condition, then, otherwise):
            number = key(condition)
            if number in known.decided:
                return pruned(then if known.decided[number] else otherwise, key, known)
            inner = known.evaluating([condition], key)
            one, other = (
                pruned(each, key, inner.under(number, side)) for each, side in ((then, True), (otherwise, False))
            )
            return expression if one is then and other is otherwise else replace(expression, then=one, otherwise=other)
        case Sequence(before, result):
            inner = known.evaluating([result], key)
            left = tuple(each for each in (_left(each, key, inner) for each in before) if each is not None)
            behind = pruned(result, key, known.evaluating(left, key))
            return Sequence(left, behind) if left else behind
    return expression


def _left(expression: Expression, key: _Key, known: _Known) -> Expression | None:
    """Return the part of a dropped expression that is left to evaluate; ``None``: nothing."""
    if key(expression) in known.surely:
        return None
    match expression:
        case Choose(condition, then, otherwise) if _is_dropped(then) and _is_dropped(otherwise):
            found = pruned(expression, key, known)
            if isinstance(found, Choose) and isinstance(found.then, Constant) and isinstance(found.otherwise, Constant):
                return _left(condition, key, known)
            return None if isinstance(found, Constant) else found
    return expression


def _is_dropped(expression: Expression) -> bool:
    found = expression.result if isinstance(expression, Sequence) else expression
    return isinstance(found, Constant) and found.value is None


def _evaluated(expression: Expression, key: _Key) -> frozenset[int]:
    found: set[int] = set()
    add_evaluated(expression, found, key)
    return frozenset(found)


# ---- Faults of Funken's own in what only makes a program faster: the function runs record by record, and the log
# says so once.
#
# Reading a function and computing on columns change no result, so an error in them must not fail a program.
# Whatever they raise besides a refusal (``NotVectorizable``, ``FallBackToRows``) is a fault: of reading, it becomes
# a refusal; of a kernel, it becomes a fall back to rows, and the function is not tried again. Under
# ``FUNKEN_RAISE_FAULTS``, which Funken's own tests set, faults are raised.


_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOG = logging.getLogger("funken.columns")
_RAISES = "FUNKEN_RAISE_FAULTS"
_said: set[str] = set()


def reads(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a reader of a function of a program: its faults are refusals.

    >>> import os
    >>> @reads
    ... def read(function):
    ...     return function[1]
    >>> before = os.environ.pop("FUNKEN_RAISE_FAULTS", None)
    >>> read(len)
    Traceback (most recent call last):
        ...
    funken.columnar.expressions.NotVectorizable: could not be read (internal: TypeError: 'builtin_function_or_method' ...)
    >>> os.environ.update({} if before is None else {"FUNKEN_RAISE_FAULTS": before})
    """

    @wraps(function)
    def guarded(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*arguments, **named)
        except NotVectorizable:
            raise
        except RecursionError:
            raise NotVectorizable("is nested too deep") from None
        except Exception as error:  # noqa: BLE001 - all but refusals are faults
            raise NotVectorizable(f"could not be read (internal: {described(error)})") from noted(
                error, _name(arguments)
            )

    return guarded


def noted(error: Exception, what: str) -> Exception:
    """Log a fault, once for each function and place, and return it; in Funken's own tests, raise it."""
    if os.environ.get(_RAISES):
        raise error
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f"{each.filename.rpartition('funken/')[2]}:{each.lineno}" for each in last)
    text = f"{what}{described(error)} ({place})"
    if text not in _said:
        _said.add(text)
        _LOG.warning(
            "%s. This is a defect of Funken: the results are right, but the function runs record by record. Please report it.",
            text,
        )
    return error


def described(error: Exception) -> str:
    """Return an error as one line."""
    try:
        said = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an error whose text raises one
        said = ""
    return f"{type(error).__name__}{': ' * bool(said)}{said[:200]}"


def _name(arguments: Any) -> str:
    for each in arguments:
        name = getattr(each, "__qualname__", None) or getattr(each, "name", None)
        if isinstance(name, str):
            return f"{name!r} could not be read: "
    return "A function could not be read: "


# ---- Conditions of the paths through a function, and the values that variables have where paths meet.
#
# A path takes one side at each test on its way. Its *condition* is the conjunction of these sides. Where paths meet, their
# conditions are joined by a disjunction, and each variable becomes a choice between its values. Conditions are reduced ordered
# binary decision diagrams (Bryant, "Graph-Based Algorithms for Boolean Function Manipulation", 1986) over the tests in the order
# in which the function comes to them. Equal conditions are one object, so two arms of an ``if`` join into the condition before
# it, and the function that follows is read once.


T = TypeVar("T")
_LAST = 1 << 60


class PathCondition:
    """A node of a diagram: a test, and the conditions behind it if it holds and if it does not."""

    __slots__ = ("fails", "holds", "test")

    def __init__(self, test: int, holds: PathCondition | None = None, fails: PathCondition | None = None) -> None:
        self.test = test
        self.holds = holds
        self.fails = fails


ALWAYS, NEVER = PathCondition(_LAST), PathCondition(_LAST)


class PathConditions(Generic[T]):
    """The conditions over the tests of one function. A test is an object, and equal tests have to be the same one.

    >>> conditions, test = PathConditions[str](), "n > 100"
    >>> rich, poor = conditions.after(ALWAYS, test, True), conditions.after(ALWAYS, test, False)
    >>> conditions.either(rich, poor) is ALWAYS, conditions.after(rich, test, False) is NEVER
    (True, True)
    """

    def __init__(self) -> None:
        self.tests: list[T] = []
        """The tests, in the order in which they were met."""
        self._numbers: dict[int, int] = {}
        self._nodes: dict[tuple[int, int, int], PathCondition] = {}
        self._joined: dict[tuple[int, int], PathCondition] = {}

    def after(self, condition: PathCondition, test: T, holds: bool) -> PathCondition:
        """Return the condition of a path that goes on where a test holds, or where it does not."""
        number = self._numbers.get(id(test))
        if number is None or self._comes_too_late(condition, number):
            number = self._numbers[id(test)] = len(self.tests)
            self.tests.append(test)
        literal = self._node(number, ALWAYS, NEVER) if holds else self._node(number, NEVER, ALWAYS)
        return self._both(condition, literal, {})

    @staticmethod
    def _comes_too_late(condition: PathCondition, number: int) -> bool:
        """Return True if a path meets a test behind a later one, on which it may depend: it counts as another test."""
        met, todo = {condition.test}, [condition]
        for each in todo:
            for part in (each.holds, each.fails):
                if part is not None and part.test != _LAST:
                    met.add(part.test)
                    todo.append(part)
        return number not in met and any(number < each < _LAST for each in met)

    def either(self, one: PathCondition, other: PathCondition) -> PathCondition:
        """Return the disjunction of two conditions."""
        if one is ALWAYS or other is ALWAYS:
            return ALWAYS
        if one is NEVER or one is other:
            return other
        if other is NEVER:
            return one
        key = (id(one), id(other))
        found = self._joined.get(key)
        if found is None:
            test, (one_holds, one_fails), (other_holds, other_fails) = _split(one, other)
            found = self._node(test, self.either(one_holds, other_holds), self.either(one_fails, other_fails))
            self._joined[key] = found
        return found

    def _both(
        self, one: PathCondition, other: PathCondition, known: dict[tuple[int, int], PathCondition]
    ) -> PathCondition:
        if one is NEVER or other is NEVER:
            return NEVER
        if one is ALWAYS or one is other:
            return other
        if other is ALWAYS:
            return one
        key = (id(one), id(other))
        found = known.get(key)
        if found is None:
            test, (one_holds, one_fails), (other_holds, other_fails) = _split(one, other)
            holds, fails = self._both(one_holds, other_holds, known), self._both(one_fails, other_fails, known)
            found = known[key] = self._node(test, holds, fails)
        return found

    def _node(self, test: int, holds: PathCondition, fails: PathCondition) -> PathCondition:
        if holds is fails:
            return holds
        key = (test, id(holds), id(fails))  # nodes are never given up, so an id is one node
        return self._nodes.setdefault(key, PathCondition(test, holds, fails))

    def choose(self, paths: list[tuple[PathCondition, Any]], choice: Callable[[T, Any, Any], Any]) -> Any:
        """Return the value of the path that is taken, for paths of which one at most is.

        ``choice(test, one, other)`` makes the value that is ``one`` where a test holds, else ``other``. No choice is made
        where one path only can be taken.

        >>> conditions, test = PathConditions[str](), "n > 100"
        >>> paths = [(conditions.after(ALWAYS, test, True), "rich"), (conditions.after(ALWAYS, test, False), "poor")]
        >>> conditions.choose(paths, lambda test, one, other: f"{one} if {test} else {other}")
        'rich if n > 100 else poor'
        """
        return self._choose([path for path in paths if path[0] is not NEVER], choice, {})

    def _choose(
        self,
        paths: list[tuple[PathCondition, Any]],
        choice: Callable[[T, Any, Any], Any],
        known: dict[tuple[int, ...], Any],
    ) -> Any:
        value = paths[0][1]
        if all(each is value for _, each in paths):
            return value
        for condition, each in paths:
            if condition is ALWAYS:
                return each
        key = tuple(id(part) for path in paths for part in path)
        if key not in known:
            test = min(condition.test for condition, _ in paths)
            holds, fails = (_side(paths, test, side) for side in (True, False))
            if holds and fails:
                known[key] = choice(
                    self.tests[test], self._choose(holds, choice, known), self._choose(fails, choice, known)
                )
            else:
                known[key] = self._choose(holds or fails, choice, known)
        return known[key]


def _sides(condition: PathCondition, test: int) -> tuple[PathCondition, PathCondition]:
    """Return a condition where a test holds, and where it does not."""
    if condition.test != test:
        return condition, condition
    assert condition.holds is not None
    assert condition.fails is not None
    return condition.holds, condition.fails


def _split(
    one: PathCondition, other: PathCondition
) -> tuple[int, tuple[PathCondition, PathCondition], tuple[PathCondition, PathCondition]]:  # fmt: skip
    test = min(one.test, other.test)
    return test, _sides(one, test), _sides(other, test)


def _side(paths: list[tuple[PathCondition, Any]], test: int, holds: bool) -> list[tuple[PathCondition, Any]]:
    found = [(_sides(condition, test)[not holds], value) for condition, value in paths]
    return [path for path in found if path[0] is not NEVER]
