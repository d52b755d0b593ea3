"""Expressions over columns: the kernels.

The result is what the Python function would give for every record, or ``FallBackToRows``: a block for which that is not certain
(an overflow, a division by zero, an int that a float cannot hold). The caller then runs the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    Raises,
    Rowwise,
    Sequence,
    described,
    noted,
)
from funken.columnar.kernels.columns import (
    ARROW_COMPARE,
    BITS,
    COMPARE,
    FLOATS,
    NUMPY,
    PYTHON,
    RANGES,
    Array,
    Column,
    Columns,
    FallBackToRows,
    KernelFault,
    any_zero,
    arrow_operand,
    as_float,
    constant,
    folded,
    lists_of,
    mask_of_bits,
    pa,
    pc,
)
from funken.columnar.kernels.rowwise import (
    Value,
    displayed,
    flattened,
    item_at,
    looped,
    merged,
    rowwise,
    taken,
    value_of,
)
from funken.columnar.kernels.text import TEXT_TESTS, Splits, concatenated, find_text, length_of
from funken.columnar.typed.calls import Parsed
from funken.columnar.typed.operations import takes_part
from funken.expr.types import ARRAYS, BOOL, FLOAT, HIGHEST, INT, LOWEST, NONE, STR, Type, atomic_fields


def evaluate(expression: Expression, length: int, *arguments: Columns) -> Value:
    """Compute an expression over blocks of ``length`` records (at least one); raises ``FallBackToRows``."""
    if type(expression) is Argument:
        # Keys and most fields are nothing but a leaf: a block of few records should not pay for more.
        block = arguments[expression.argument]
        number = _leaf(block.schema, expression.path)
        if number is not None:
            return block.leaves[number]
    with np.errstate(all="ignore"):
        return ExpressionEvaluation(length, dict(enumerate(map(value_of, arguments)))).of(expression)


@lru_cache(maxsize=1024)
def _leaf(schema: Type, path: tuple[int, ...]) -> int | None:
    """Return the number of the atomic field at a path; ``None`` if it is a tuple, or counted from the end."""
    paths = [each for each, _ in atomic_fields(schema)]
    return paths.index(path) if path in paths else None


def computed(expression: Expression, schema: Type, block: Columns) -> Columns:
    """Compute an expression over a block; ``schema`` is that of the result."""
    return computed_of(expression, schema, block)


def computed_of(expression: Expression, schema: Type, *blocks: Columns) -> Columns:
    """Compute an expression over blocks of one length, which are its arguments; ``schema`` is that of the result."""
    leaves = flattened(evaluate(expression, blocks[0].length, *blocks))
    return Columns(schema, leaves, blocks[0].length, blocks[0].timestamps)


def mask_of(expression: Expression, block: Columns) -> Array | bool:
    """Compute where an expression is true: a mask, or one bool for all records."""
    with np.errstate(all="ignore"):
        evaluation = ExpressionEvaluation(block.length, {0: value_of(block)})
        truth = evaluation.truth(evaluation.of(expression))
        return bool(truth.data) if truth.constant else truth.data


_Known = dict[int, Value]


class ExpressionEvaluation:
    """One expression over one block; a part that occurs twice in the tree is computed once."""

    def __init__(self, length: int, arguments: dict[int, Value]) -> None:
        self.length = length
        self._arguments = arguments
        self._known: _Known = {}
        #: by the condition of a branch: the records that take each side, and what is known of them
        self._parts: dict[int, list[tuple[Array, _Known, Any]]] = {}
        #: whether a branch is computed for the records only that take it, also if nothing in it seems to raise
        self._careful: list[bool] = []
        #: the texts of which parts are taken
        self._splits: Splits | None = None

    def of(self, expression: Expression) -> Value:
        """Compute an expression."""
        known = self._known.get(id(expression))
        if known is None:
            try:
                known = self._known[id(expression)] = self._compute(expression)
            except FallBackToRows:
                raise
            except Exception as error:  # noqa: BLE001 - all but refusals are faults
                raise KernelFault(described(error)) from noted(
                    error, f"{type(expression).__name__} could not be computed: "
                )
        return known

    def knows(self, expression: Expression) -> bool:
        """Return True if an expression is computed already, or costs nothing."""
        return id(expression) in self._known or isinstance(expression, Argument)

    def _column(self, expression: Expression) -> Column:
        return _column(self.of(expression))

    def _compute(self, expression: Expression) -> Value:
        match expression:
            case Argument(argument, path):
                return reduce(_item, path, self._arguments[argument])
            case Constant(value):
                return constant(value)
            case Make(items):
                return tuple(self.of(item) for item in items)
            case GetItem(record, index):
                return _item(self.of(record), index)
            case Sequence(before, result):
                for each in before:
                    self.of(each)
                return self.of(result)
            case Choose():
                return self._branch(expression)
            case Invoke("in", (needle, Make(items))):
                return self._among(needle, items)
            case Invoke(name, given):
                return _NATIVE[name](self, name, *map(self._column, given))
            case Rowwise(function, given, kind):
                part = self._part_of(expression)
                if part is not None:
                    return part
                return rowwise(function, [self._given(each) for each in given], kind, self.length)
            case Loop():
                return looped(expression, self)
            case Listed():
                return displayed(expression, self)
            case Raises(condition):
                if self.length and bool(np.any(self._column(condition).array(self.length))):
                    raise FallBackToRows("a record for which an exception is raised")
                return constant(None)
            case Parsed(text, parser, wanted):
                documents = parser.parse(self._column(text).to_list(self.length), wanted)
                if not isinstance(documents, Columns):
                    raise FallBackToRows("documents of another form")
                return value_of(documents)
        raise FallBackToRows(f"no kernel for {type(expression).__name__}")

    def _part_of(self, expression: Rowwise) -> Column | None:
        """Compute a part of a text that is split; ``None`` if the expression is no such part."""
        if not takes_part(expression):
            return None
        if self._splits is None:
            self._splits = Splits()
        return self._splits.of(expression, self._column)

    # ---- numbers

    def _binary(self, op: str, left: Column, right: Column) -> Column:
        if left.kind == STR:
            return concatenated([left, right], self.length)
        if left.kind == BOOL:
            return folded(BOOL, BITS[op], left, right)
        if left.kind == right.kind == INT and op != "/":
            return self._integers(op, left, right)
        if op == "/" and any_zero(right):
            raise FallBackToRows("division by zero")
        return folded(FLOAT, FLOATS[op], as_float(left), as_float(right))

    def _integers(self, op: str, left: Column, right: Column) -> Column:
        if op in ("//", "%"):
            least, most = right.bounds()
            if least <= 0 <= most and any_zero(right):
                raise FallBackToRows("division by zero")
        low, high = RANGES[op](*left.bounds(), *right.bounds())
        if low < LOWEST or high > HIGHEST:  # with bounds that were carried
            low, high = RANGES[op](*left.measured(), *right.measured())
        if low < LOWEST or high > HIGHEST:
            raise FallBackToRows("an overflow")
        if left.constant and right.constant:
            return constant(PYTHON[op](left.data, right.data))
        if op == "%" and right.constant:
            # Division by a constant is a multiplication in NumPy, the remainder is not: a third of the time.
            data = left.data - np.floor_divide(left.data, right.data) * right.data
        else:
            data = NUMPY[op](left.data, right.data)
        return Column(INT, data, False, low, high)

    def _compare(self, op: str, left: Column, right: Column) -> Column:
        if left.kind == STR:
            if left.constant and right.constant:
                return constant(bool(COMPARE[op](left.data, right.data)))
            if op in ("==", "!=") and (left.constant or right.constant):
                text, part = (right, left) if left.constant else (left, right)
                equal = find_text("is", text, part.data)
                return equal if op == "==" else self._not(equal)
            compare = getattr(pc, ARROW_COMPARE[op])
            return Column(BOOL, mask_of_bits(compare(arrow_operand(left), arrow_operand(right))))
        if left.kind != right.kind:  # an int and a float: Python compares exactly
            left, right = as_float(left), as_float(right)
        return folded(BOOL, COMPARE[op], left, right)

    def truth(self, value: Value) -> Column:
        """Compute whether values are true."""
        assert isinstance(value, Column)
        if value.kind == BOOL:
            return value
        if value.constant:
            return constant(bool(value.data))
        if value.kind == STR:
            return self._not(find_text("is", value, ""))
        return Column(BOOL, value.data != 0)

    def _unary(self, name: str, value: Column) -> Column:
        if value.kind == FLOAT:
            return constant(-value.data) if value.constant else Column(FLOAT, -value.data)
        return self._integers("-", constant(-1 if name == "inverted" else 0), value)

    def _truth(self, name: str, value: Column) -> Column:
        truth = self.truth(value)
        return truth if name == "bool" else self._not(truth)

    @staticmethod
    def _not(truth: Column) -> Column:
        return constant(not truth.data) if truth.constant else Column(BOOL, ~truth.data)

    def _given(self, expression: Expression) -> Column:
        """Compute an argument of a function that is called for each value: its constants may be any object."""
        return Column(NONE, expression.value, True) if isinstance(expression, Constant) else self._column(expression)

    # ---- branches

    def _condition(self, choice: Choose) -> Column:
        """Compute where a choice takes its first value."""
        return self.truth(self.of(choice.condition))

    def _branch(self, choice: Choose) -> Value:
        condition = self._condition(choice)
        if condition.constant:
            return self.of(choice.then if condition.data else choice.otherwise)
        if not choice.lazy and not self._careful:
            with suppress(FallBackToRows):  # perhaps only in the branch that a record does not take
                return self._choose(condition, self.of(choice.then), self.of(choice.otherwise))
            self._careful.append(True)  # tried at each depth, both ways would cost twice as much with each
        values: list[Value] = []
        places: list[Array] = []
        self._add_branches(choice, None, values, places)
        return values[0] if len(values) == 1 else merged(values, places)

    def _add_branches(self, choice: Choose, within: Array | None, values: list[Value], places: list[Array]) -> None:
        """Add the results of records that take each branch, and their places; ``within``: the places of these records.

        Branches of a branch are added with the others, so that all are put together once.
        """
        for positions, part, branch in self._sides(choice):
            at, side = positions if within is None else within.take(positions), branch
            while isinstance(side, Sequence):
                for each in side.before:
                    part.of(each)
                side = side.result
            if isinstance(side, Choose) and side.lazy and not part.knows(side):
                part._add_branches(side, at, values, places)
            else:
                values.append(part.of(side))
                places.append(at)

    def _sides(self, choice: Choose) -> list[tuple[Array, ExpressionEvaluation, Expression]]:
        """Return the branches that records take: their records, the evaluation of these, and the expression."""
        parts = self._parts.get(id(choice.condition))
        if parts is None:  # other variables are chosen by the same condition
            condition = self._condition(choice)
            mask = condition.array(self.length)
            parts = [(positions, {}, {}) for positions in (np.flatnonzero(mask), np.flatnonzero(~mask))]
            self._parts[id(choice.condition)] = parts
        found: list[tuple[Array, ExpressionEvaluation, Expression]] = []
        for (positions, known, inner), side in zip(parts, (choice.then, choice.otherwise), strict=True):
            if len(positions):
                part = self.at(positions)  # which knows the whole: to keep it here would be a cycle
                part._known, part._parts = known, inner
                found.append((positions, part, side))
        return found

    def at(self, positions: Array, items: dict[int, Value] | None = None) -> _Part:
        """Go over to some of the records, or to the items of their lists: ``items`` are these, by the number of the argument."""
        return _Part(self, positions, items or {})

    def _choose(self, condition: Column, then: Value, otherwise: Value) -> Value:
        if condition.constant:
            return then if condition.data else otherwise
        if not isinstance(then, Column) or not isinstance(otherwise, Column):
            assert isinstance(then, tuple)
            assert isinstance(otherwise, tuple)
            pairs = zip(then, otherwise, strict=True)
            return tuple(self._choose(condition, one, other) for one, other in pairs)
        if then is otherwise:
            return then
        if then.kind != otherwise.kind or then.kind not in ARRAYS:
            raise FallBackToRows("results of two types")
        if then.kind == STR:
            one, other = (arrow_operand(column) for column in (then, otherwise))
            return Column(STR, pc.if_else(pa.array(condition.data), one, other))
        low = high = None
        if then.kind == INT:
            bounds = (then.bounds(), otherwise.bounds())
            low, high = min(bounds[0][0], bounds[1][0]), max(bounds[0][1], bounds[1][1])
        return Column(then.kind, np.where(condition.data, then.data, otherwise.data), False, low, high)

    # ---- text

    def _among(self, needle: Expression, items: tuple[Expression, ...]) -> Column:
        """Compute whether values are among constants."""
        found = self._column(needle)
        tests = [self._compare("==", found, constant(each.value)) for each in items if isinstance(each, Constant)]
        return reduce(lambda one, other: folded(BOOL, BITS["|"], one, other), tests)

    def _search(self, name: str, text: Column, part: Column) -> Column:
        how = _SEARCHES[name]
        if name == "in":
            text, part = part, text
        if text.constant and part.constant:
            return constant(TEXT_TESTS[how](text.data, part.data))
        if not part.constant or text.constant:
            raise FallBackToRows("a search for different texts")
        return find_text(how, text, part.data)

    def _as_text(self, _: str, *columns: Column) -> Column:
        first = columns[0] if len(columns) == 1 else None
        return first if first is not None and first.kind == STR else concatenated(list(columns), self.length)

    def _absolute(self, _: str, column: Column) -> Column:
        if column.kind == FLOAT:
            return constant(abs(column.data)) if column.constant else Column(FLOAT, np.abs(column.data))
        negative = self._compare("<", column, constant(0))
        return _column(self._choose(negative, self._unary("negative", column), column))

    def _extreme(self, name: str, one: Column, other: Column) -> Column:
        better = self._compare("<" if name == "min" else ">", other, one)
        return _column(self._choose(better, other, one))

    def _at(self, _: str, lists: Column, index: Column) -> Value:
        return value_of(item_at(lists_of(lists, self.length), index))


def _as_int(_: ExpressionEvaluation, __: str, column: Column) -> Column:
    return constant(int(column.data)) if column.constant else Column(INT, column.data.astype(np.int64), False, 0, 1)


_SEARCHES = {"in": "in", "str.startswith": "starts", "str.endswith": "ends"}
_NATIVE: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(PYTHON, ExpressionEvaluation._binary),
    **dict.fromkeys(COMPARE, ExpressionEvaluation._compare),
    **dict.fromkeys(("negative", "inverted"), ExpressionEvaluation._unary),
    **dict.fromkeys(("not", "bool"), ExpressionEvaluation._truth),
    **dict.fromkeys(_SEARCHES, ExpressionEvaluation._search),
    **dict.fromkeys(("str", "text"), ExpressionEvaluation._as_text),
    **dict.fromkeys(("min", "max"), ExpressionEvaluation._extreme),
    "abs": ExpressionEvaluation._absolute,
    "at": ExpressionEvaluation._at,
    "float": lambda _, __, column: as_float(column),
    "int": _as_int,
    "len": lambda _, __, column: constant(len(column.data)) if column.constant else length_of(column),
}
"""The operations that are computed on arrays without a call."""


class _Part(ExpressionEvaluation):
    """An expression over some records of a block: those that take a branch, or the items of their lists."""

    def __init__(self, whole: ExpressionEvaluation, positions: Array, items: dict[int, Value]) -> None:
        super().__init__(len(positions), items)
        self._careful = whole._careful
        self._whole = whole
        self._positions = positions
        self._places: Array | None = None

    def knows(self, expression: Expression) -> bool:
        """Return True if an expression is computed already, or costs nothing."""
        return super().knows(expression) or self._whole.knows(expression)

    def _compute(self, expression: Expression) -> Value:
        if isinstance(expression, Argument) and expression.argument in self._arguments:
            return super()._compute(expression)
        if not self._whole.knows(expression):
            return super()._compute(expression)
        widest, places = self._widest()
        if widest.knows(expression):  # not by way of each branch around this one
            return taken(widest.of(expression), places)
        return taken(self._whole.of(expression), self._positions)

    def _widest(self) -> tuple[ExpressionEvaluation, Array]:
        """Return the evaluation of all records, or of all items of a list, and which of them are here."""
        whole = self._whole
        if not isinstance(whole, _Part) or self._arguments or whole._arguments:
            return whole, self._positions
        widest, places = whole._widest()
        if self._places is None:
            self._places = places.take(self._positions)
        return widest, self._places

    def _condition(self, choice: Choose) -> Column:
        # To take the fields of some records costs more than to compare all: 12 returns in a row 0.67 us a record, and 0.42 so.
        if choice.sure and not self._arguments and not super().knows(choice.condition):
            widest, places = self._widest()
            with suppress(FallBackToRows):  # perhaps for a record of another branch
                return widest.truth(widest.of(choice.condition)).take(places)
        return super()._condition(choice)


def _column(value: Value) -> Column:
    assert isinstance(value, Column)
    return value


def _item(value: Value, index: int) -> Value:
    assert isinstance(value, tuple)
    return value[index]


__all__ = ["ExpressionEvaluation", "FallBackToRows", "Value", "computed", "computed_of", "evaluate", "mask_of"]
