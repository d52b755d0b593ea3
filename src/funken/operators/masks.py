"""Predicates of a record, evaluated for a block at once: a bit mask per record, from one generated loop.

A predicate takes part if it has no effect and depends on the record alone: the tracer of columns (``columnar/tracing.py``) can
read it, which follows attributes and keys here, too; or it is one straight line of comparisons and arithmetic without a call
(``codegen.py``). What an attribute is must not depend on how often it is asked for. The body of the predicate is then part of
the loop, so that its result is exactly the function's; several comparisons of one field with constants are one look into a
table. Where a body raises, or the value of a variable that it uses has changed, there are no masks for the block, and the
caller calls the functions where it needs them.

Records come as Python objects, and are not made columns for this: with three comparisons of an int the loop takes 25 ns per
record, a column of NumPy and its masks 60 ns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from types import FunctionType, NoneType
from typing import Any

from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Make,
    NotVectorizable,
    Sequence,
)
from funken.columnar.tracing import Traced, trace
from funken.expr.python.table import TABLE
from funken.operators.codegen import expression_of, watched

_MOST = 60
"""Maximal number of bits of a mask."""


class BlockPredicates:
    """Predicates that are evaluated for a block of records at once.

    ``bits`` has the bit of each predicate in a mask, 0 for one that cannot be evaluated ahead; ``known`` is all of them.

    >>> predicates = BlockPredicates([lambda pair: pair[0] == "a", print, lambda pair: pair[1] > 5 or pair[0] == "b"])
    >>> predicates.bits, predicates.known
    ((1, 0, 2), 3)
    >>> predicates.masks([("a", 1), ("a", 6), ("b", 0), ("c", 0)])
    [1, 3, 2, 0]
    >>> predicates.masks([("a", 1), ("a", None)]) is None
    True
    """

    def __init__(self, predicates: Iterable[Callable[[Any], Any]]) -> None:
        bits, self._traced = [], list[tuple[Callable[[Any], Any], Traced]]()
        loop = _Loop()
        for predicate in predicates:
            found = None if loop.next_bit.bit_length() > _MOST else self._read(predicate, loop)
            bits.append(loop.add(found) if found is not None else 0)
        self.bits = tuple(bits)
        self.known = sum(bits)
        self._masks = loop.compile() if self.known else None

    def masks(self, records: list[Any]) -> list[int] | None:
        """Return the mask of each record; ``None`` if the results of the predicates are not known."""
        if self._masks is None or not all(traced.holds(predicate) for predicate, traced in self._traced):
            return None
        try:
            return self._masks(records)
        except Exception:  # noqa: BLE001 - whatever a predicate raises, it raises again where it is called
            return None

    def _read(self, predicate: Callable[[Any], Any], loop: _Loop) -> _Test | None:
        if watched():
            return None
        if type(predicate) is not FunctionType or predicate.__defaults__:
            return None
        try:
            traced = trace(predicate, None, 1)
            found = loop.test(traced.result)
        except NotVectorizable:
            source = expression_of(predicate, [_RECORD])
            if source is None or any(isinstance(node, _EFFECTS) for node in ast.walk(ast.parse(source, mode="eval"))):
                return None
            return _Test(source)
        if traced.dependencies:
            self._traced.append((predicate, traced))
        return found


_RECORD = "record"
_EFFECTS = (ast.Call, ast.JoinedStr)
_LONGEST = 500
_CALLS = {"abs", "len", "min", "max", "str", "float", "bool"}


def _is_field(expression: Expression) -> bool:
    match expression:
        case Argument():
            return True
        case Invoke("attribute", (record, Constant(_))) | GetItem(record, int() | str(), None):
            return _is_field(record)
    return False


class _Test:
    """A condition as source, and if it is one, the field that is compared with constants, and these."""

    def __init__(self, source: str, field: str | None = None, constants: Iterable[Any] = ()) -> None:
        self.source = source
        self.field = field
        self.constants = constants


class _Loop:
    """The source of the loop."""

    def __init__(self) -> None:
        self.next_bit = 1
        self._tests: list[tuple[int, _Test]] = []
        self._printed = 0

    def add(self, test: _Test) -> int:
        """Add a condition, and return its bit."""
        bit, self.next_bit = self.next_bit, self.next_bit << 1
        self._tests.append((bit, test))
        return bit

    def test(self, expression: Expression) -> _Test:
        """Return an expression as a condition."""
        self._printed = 0
        match expression:
            case Invoke("==", (field, Constant(value))) | Invoke("==", (Constant(value), field)) if _is_field(field):
                return _Test(self._source(expression), self._source(field), (value,))
            case Invoke("in", (field, Make(items))) if _is_field(field):
                if all(isinstance(each, Constant) for each in items):
                    constants = [each.value for each in items if isinstance(each, Constant)]
                    return _Test(self._source(expression), self._source(field), constants)
        return _Test(self._source(expression))

    def compile(self) -> Callable[[list[Any]], list[int]]:
        """Return the loop: from records to their masks."""
        tables: dict[str, list[tuple[int, _Test]]] = {}
        for bit, test in self._tests:
            if test.field is not None:
                tables.setdefault(test.field, []).append((bit, test))
        parts, namespace = [], dict[str, Any]()
        for field, tests in tables.items():
            if len(tests) > 1:
                table: dict[Any, int] = {}
                for bit, test in tests:
                    for value in test.constants:
                        table[value] = table.get(value, 0) | bit
                name = f"table{len(namespace)}"
                namespace[name] = table.get
                parts.append(f"{name}({field}, 0)")
                self._tests = [each for each in self._tests if each not in tests]
        parts += [f"({bit} if {test.source} else 0)" for bit, test in self._tests]
        source = f"lambda records: [{' | '.join(parts)} for {_RECORD} in records]"
        compiled: Callable[[list[Any]], list[int]] = eval(compile(source, "<funken predicates>", "eval"), namespace)
        return compiled

    def _source(self, expression: Expression) -> str:
        self._printed += 1
        if self._printed > _LONGEST:  # parts that are shared are printed each time
            raise NotVectorizable("is too long")
        match expression:
            case Argument(0, path):
                return _RECORD + "".join(f"[{index}]" for index in path)
            case Invoke("attribute", (record, Constant(name))):
                return f"{self._source(record)}.{name}"
            case Constant(value) if type(value) in (int, float, bool, str, NoneType):
                if repr(value) in {"inf", "-inf", "nan"}:
                    raise NotVectorizable(f"compares with {value!r}")
                return f"({value!r})"
            case Invoke("bool", (operand,)):
                return f"(not not {self._source(operand)})"
            case Invoke("not", (operand,)):
                return f"(not {self._source(operand)})"
            case Choose(condition, then, otherwise):
                return f"({self._source(then)} if {self._source(condition)} else {self._source(otherwise)})"
            case Make(items):
                return "(" + "".join(f"{self._source(item)}, " for item in items) + ")"
            case Sequence(before, result):
                return f"({', '.join(map(self._source, (*before, result)))})[-1]"
            case GetItem(record, int() | str() as index, None):
                return f"{self._source(record)}[{index!r}]"
            case Invoke(".startswith" | ".endswith" as name, (text, *rest)):
                return f"{self._source(text)}{name}({', '.join(map(self._source, rest))})"
            case Invoke(name, arguments) if name in _CALLS:
                return f"{name}({', '.join(map(self._source, arguments))})"
            case Invoke(name, given) if (row := TABLE.find(name)) and (row.group == "operators" or name == "in"):
                return row.written.format(*map(self._source, given))
        raise NotVectorizable(f"has no source: {type(expression).__name__}")
