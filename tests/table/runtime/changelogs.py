"""What the tests of table operators share: changelogs as short texts, and an operator fed with them.

A change is ``+I(a, 1)``: kind, then values; ``N`` is NULL. An operator is restored from a snapshot in the middle of each run.
"""

from __future__ import annotations

import re
from typing import Any

from funken.expr.sql.types import BigIntType, TimestampType, VarCharType
from funken.table.runtime.block import BlockSchema, TableBlock
from funken.table.runtime.operator import TableOperator, TableSpec
from funken.testing import OperatorHarness

KINDS = ("+I", "-U", "+U", "-D")
LETTERS = {"s": VarCharType(100), "i": BigIntType(), "t": TimestampType(3)}
SECOND = 1_000_000_000


def schema(text: str) -> BlockSchema:
    """``k:s v:i t:t``: a VARCHAR, a BIGINT, a TIMESTAMP."""
    parts = [part.partition(":") for part in text.split()]
    return BlockSchema([name for name, _, _ in parts], [LETTERS[letter] for _, _, letter in parts])


def _value(text: str) -> Any:
    text = text.strip()
    if text == "N":
        return None
    if text.startswith("@"):
        return int(text[1:]) * SECOND
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def parse(text: str) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the changes of a text."""
    found = re.findall(r"([+-][IUD])\(([^)]*)\)", text)
    return [(KINDS.index(kind), tuple(map(_value, values.split(",")))) for kind, values in found]


def told(changes: list[tuple[int, tuple[Any, ...]]], schema: BlockSchema | None = None) -> str:
    """Return changes as a text."""
    times = set() if schema is None else {i for i, each in enumerate(schema.types) if isinstance(each, TimestampType)}

    def value(place: int, each: Any) -> str:
        if each is None:
            return "N"
        if place in times:
            seconds = each / SECOND
            return f"@{seconds:g}"
        return str(each)

    return " ".join(f"{KINDS[kind]}({','.join(value(i, v) for i, v in enumerate(row))})" for kind, row in changes)


class Run:
    """An operator at work. ``again()`` goes on with another one, from a snapshot."""

    def __init__(
        self, logic: type[TableOperator], inputs: list[BlockSchema], output: BlockSchema, now: int = 0, **arguments: Any
    ) -> None:
        self.spec = TableSpec(logic, tuple(inputs), output, arguments)
        self.inputs, self.output = inputs, output
        self.changes: list[tuple[int, tuple[Any, ...]]] = []
        self._start(OperatorHarness(self.spec, keyed=True, now=now))

    def _start(self, harness: OperatorHarness) -> None:
        self.harness = harness
        harness.operator.output.emit_block = self._emitted
        self._reached: int | None = None

    def _emitted(self, block: Any) -> None:
        assert isinstance(block, TableBlock)
        assert block.schema.equals(self.output.arrow)
        self.changes += zip(block.kind_list(), self.output.tuples(block.batch), strict=True)

    def again(self) -> Run:
        """Restore the operator."""
        snapshot = self.harness.snapshot()
        reached = self._reached
        self._start(OperatorHarness.restored(self.spec, snapshot, keyed=True, now=self.harness.now))
        if reached is not None:
            self.watermark(reached)
        return self

    def feed(self, text: str, index: int = 0, one_by_one: bool = True) -> Run:
        """Give the operator changes."""
        changes = parse(text)
        for some in [[change] for change in changes] if one_by_one else [changes]:
            if some:
                block = self.inputs[index].block([row for _, row in some], [kind for kind, _ in some])
                operator = self.harness.operator
                (operator.process_second_block if index else operator.process_block)(block)
        return self

    def watermark(self, millis: int) -> Run:
        """Advance event time."""
        self._reached = millis
        self.harness.watermark(millis)
        return self

    def clock(self, millis: int) -> Run:
        """Advance processing time."""
        self.harness.processing_time(millis)
        return self

    def end(self) -> Run:
        """End the input."""
        self.harness.end_input()
        return self

    def text(self) -> str:
        """What was emitted since the last call."""
        found, self.changes = told(self.changes, self.output), []
        return found


def materialized(changes: list[tuple[int, tuple[Any, ...]]]) -> dict[tuple[Any, ...], int]:
    """What is left of a changelog: rows with how often they are there."""
    left: dict[tuple[Any, ...], int] = {}
    for kind, row in changes:
        left[row] = left.get(row, 0) + (1 if kind in (0, 2) else -1)
        if not left[row]:
            del left[row]
    return left
