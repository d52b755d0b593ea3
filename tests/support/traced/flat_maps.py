"""Random functions of ``flat_map``, generators and comprehensions among them: what kernels give is what Python gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.expr.types import Type
from tests.support.traced.functions import FunctionFuzzer, FunctionWriter
from tests.support.traced.records import random_records

_TEXTS = ("{}.split(',')", "{}.split()", "{}.split('a')", "{}.splitlines()", "{}.split('=', 1)", "{}.split(',')[1:]")
_KINDS = ("int", "float", "str", "bool")


class FlatMapFuzzer(FunctionFuzzer):
    """Makes cases of ``flat_map``, and tells those in which kernels and Python differ."""

    kind = "flat/"

    def _source(self, dice: random.Random, fields: Any) -> str:
        return _FlatMapWriter(dice, fields).source()

    def _compared(self, function: Callable[[Any], Any], schema: Type, dice: random.Random) -> str | None:
        try:
            traced, result = trace_flat_map(function, None).typed(schema)
        except NotVectorizable as refused:
            self.counts["per record"] += 1
            self.refusals[str(refused)] += 1
            return None
        if not traced.holds(function):
            return "what was traced does not hold"
        from funken.columnar.kernels.columns import columns_of
        from funken.columnar.kernels.evaluation import FallBackToRows
        from funken.operators.columnar.stateless import given_of

        for wild in (False, True):
            records = random_records(dice, schema, wild)
            stamps = [number * 10 for number in range(len(records))]
            try:
                expected: Any = [
                    (made, at) for record, at in zip(records, stamps, strict=True) for made in function(record) or ()
                ]
            except Exception:  # noqa: BLE001 - whatever it is, the kernels may not hide it
                expected = None
            try:
                given = given_of(traced.emissions, result, columns_of(records, schema, stamps))
            except FallBackToRows:
                self.counts["rows: it raises" if expected is None else "rows: it may differ"] += 1
                continue
            values, times = given.rows()
            if expected is None:
                return f"kernels give {values} for {records}, Python raises"
            if repr(list(zip(values, times or (), strict=True))) != repr(expected):
                return f"kernels give {values} at {times} for {records}, Python {expected}; the schema is {result}"
            self.counts["columns"] += 1
        return None


class _FlatMapWriter(FunctionWriter):
    """Writes one function, all of whose results are of one form."""

    def source(self) -> str:
        """Return the source."""
        dice = self._dice
        self._form = dice.choice(("bare", "tuple", "dict"))
        self._types = [dice.choice(_KINDS) for _ in range(dice.randrange(1, 3))]
        if dice.random() < 0.3:
            return f"f = lambda r: {self._value()}"
        lines = ["def f(r):"]
        for number in range(dice.randrange(3)):
            kind = dice.choice(_KINDS)
            lines.append(f"    v{number} = {self.expression(kind, 2)}")
            self.known[kind].append(f"v{number}")
        if dice.random() < self._lists:
            lines += self._written_out()
        if dice.random() < 0.3:
            return "\n".join([*lines, *self._returns()])
        for _ in range(dice.randrange(1, 4)):
            lines += self._statement("    ", loops=True)
        return "\n".join([*lines, "    if False:", "        yield"])

    def _returns(self) -> list[str]:
        lines = []
        for _ in range(self._dice.randrange(2)):
            value = self._dice.choice(("None", "[]", "return_value"))
            value = self._value() if value == "return_value" else value
            lines += [f"    if {self.expression('bool', 2)}:", f"        return {value}"]
        return [*lines, f"    return {self._value()}"]

    def _one(self) -> str:
        return self.result(self._form, self._types)

    def _texts(self) -> str:
        if self._dice.random() < self._lists:
            return self.expression("strs", 2)
        return self._dice.choice(_TEXTS).format(self.expression("str", 1))

    def _value(self) -> str:
        match self._dice.choice(("list", "tuple", "comprehension", "comprehension", "generator", "maybe", "texts")):
            case "list":
                return f"[{', '.join(self._one() for _ in range(self._dice.randrange(1, 4)))}]"
            case "tuple":
                return f"({self._one()}, {self._one()})"
            case "maybe":
                return f"[{self._one()}] if {self.expression('bool', 2)} else {self._dice.choice(('None', '[]', '()'))}"
            case "comprehension":
                return f"[{self._inner()}]"
            case "generator":
                return f"({self._inner()})"
        return self._texts() if self._form == "bare" and self._types == ["str"] else f"[{self._one()}]"

    def _inner(self) -> str:
        texts = self._texts()
        known, kind = {kind: list(each) for kind, each in self.known.items()}, "str"
        if self._dice.random() < self._lists:
            kind = self._dice.choice(("int", "float"))
            texts = self.expression(kind + "s", 2)
        self.known[kind] += ["w", "w"]
        conditions = "".join(f" if {self.expression('bool', 1)}" for _ in range(self._dice.randrange(3)))
        made = f"{self._one()} for w in {texts}{conditions}"
        self.known = known
        return made

    def _statement(self, indent: str, loops: bool) -> list[str]:
        dice = self._dice
        match dice.choice(("yield", "if", "else", "loop", "loop", "items", "from", "return")):
            case "if":
                return [f"{indent}if {self.expression('bool', 2)}:", f"{indent}    yield {self._one()}"]
            case "else":
                return [
                    f"{indent}if {self.expression('bool', 2)}:", *self._statement(indent + "    ", loops),
                    f"{indent}else:", *self._statement(indent + "    ", loops),
                ]  # fmt: skip
            case "loop" if loops:
                return self._loop(indent)
            case "items" if loops:
                known = list(self.known["int"])
                head = f"{indent}for n in ({self.expression('int', 1)}, {self.expression('int', 1)}):"
                self.known["int"].append("n")
                body = self._statement(indent + "    ", loops=False)
                self.known["int"] = known
                return [head, *body]
            case "from" if loops:
                return [f"{indent}yield from {self._texts()}" if self._types == ["str"] and self._form == "bare"
                        else f"{indent}yield from [{self._inner()}]"]  # fmt: skip
            case "return":
                return [f"{indent}if {self.expression('bool', 1)}:", f"{indent}    return"]
        return [f"{indent}yield {self._one()}"]

    def _loop(self, indent: str) -> list[str]:
        dice = self._dice
        head = f"{indent}for w in {self._texts()}:"
        known = {kind: list(each) for kind, each in self.known.items()}
        self.known["str"] += ["w", "w"]
        body = []
        if dice.random() < 0.4:
            kind = dice.choice(_KINDS)
            body.append(f"{indent}    x = {self.expression(kind, 1)}")
            self.known[kind] += ["x", "x"]
        if dice.random() < 0.4:
            body += [f"{indent}    if {self.expression('bool', 1)}:", f"{indent}        continue"]
        for _ in range(dice.randrange(1, 3)):
            body += self._statement(indent + "    ", loops=False)
        self.known = known
        return [head, *body]


__all__ = ["FlatMapFuzzer"]
