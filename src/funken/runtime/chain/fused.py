"""Runs of operators as one generated loop: per record the functions one after the other, the key, and an append.

The plan has the runs of a vertex (``plan/rules/fusion.py``). Records go through one by one, as in Flink: the functions of a run
see a record before any of them sees the next. What the operators do otherwise (opening, closing, watermarks) stays theirs.
docs/decisions/0004 has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from funken.errors import FunkenError
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.codegen.fields import by_field, fields_made
from funken.operators.codegen.loops import LoopStep, LoopText, step_at
from funken.operators.stateless import FilterLogic, FlatMapLogic, MapLogic, UserFunctionOperator
from funken.runtime.exchange.writers import HashWriter


class FusedOperators:
    """A run at work: ``process`` takes the place of the first operator's, and emits for the last."""

    def __init__(self, operators: list[UserFunctionOperator], writer: HashWriter | None = None) -> None:
        self.last: Operator = operators[-1]
        self._operators = operators
        self._writer = writer
        self._keeps_stamps = all(isinstance(operator, MapLogic) for operator in operators)
        #: how many fields the tuples have that go to the writer field by field, 0: records go as they are
        self._fields = 0 if writer is None else self._fields_to(writer)
        self._spread: Callable[..., None] | None = None
        if writer is not None:
            self._spread = writer.spread_fields if self._fields else writer.spread
        self._plain = self._generate(stamped=False)
        self._stamped = self._generate(stamped=True)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Take a block through the run."""
        if self._writer is not None and self._spread is not None:
            try:
                self._spread(self._plain, self._stamped, values, timestamps)
            except TypeError as error:
                if self._at_key(error):
                    raise self._writer.unhashable(error) from error
                raise
        elif timestamps is None or self._keeps_stamps:
            results = self._plain(values)
            if results:
                self.last.output.emit(results, timestamps)
        else:
            results, stamps = self._stamped(values, timestamps)
            if results:
                self.last.output.emit(results, stamps)

    def _at_key(self, error: TypeError) -> bool:
        """Whether it was a key that cannot be hashed; the functions of the run may fail with the same text."""
        trace = error.__traceback__
        while trace is not None:
            step = step_at(trace)
            if step is not None:
                return step.key and not isinstance(error, FunkenError) and "unhashable" in str(error)
            trace = trace.tb_next
        return False

    def _fields_to(self, writer: HashWriter) -> int:
        """Make the writer ready for the fields of the tuples that the last function makes; 0: the key needs the tuples."""
        text, last = LoopText("fused", "values"), self._operators[-1]
        made = fields_made(text.step(last, last.call, "value")) if isinstance(last, MapLogic) else None
        if made is None or self._key_of(text, writer, "made", len(made)) is None or not writer.take_fields(len(made)):
            return 0
        return len(made)

    def _key_of(self, text: LoopText, writer: HashWriter, value: str, fields: int) -> LoopStep | None:
        return by_field(text.step(self.last, writer.key, value), value, _names(value, fields))

    def _generate(self, *, stamped: bool) -> Callable[..., Any]:
        text = LoopText(
            "fused", ("appends, " if self._writer else "") + ("values, timestamps" if stamped else "values")
        )
        if self._writer is None:
            text.line("results = []")
            text.line("append = results.append")
            if stamped:
                text.line("stamps = []")
                text.line("stamp = stamps.append")
        # Hot: from here to the append every line is once per record.
        text.line("for value0, at in zip(values, timestamps, strict=True):" if stamped else "for value0 in values:")
        count = 0
        for operator in self._operators:
            value, following = f"value{count}", f"value{count + 1}"
            step = text.step(operator, operator.call, value)
            match operator:
                case MapLogic():
                    made = fields_made(step) if self._fields and operator is self._operators[-1] else None
                    names = _names(following, self._fields)
                    # On one line, for it is one step of which errors may be.
                    parts = [f"{name} = {field}" for name, field in zip(names, made or (), strict=False)]
                    text.line("; ".join(parts) or f"{following} = {step.expression}", step)
                    count += 1
                case FilterLogic():
                    text.line(f"if not {step.expression}: continue", step)
                case FlatMapLogic():
                    text.line(f"made = {step.expression}", step)
                    text.line("if made is None: continue")
                    text.line(f"for {following} in made:", step)
                    count += 1
        self._end(text, f"value{count}", stamped=stamped)
        return text.compile()

    def _end(self, text: LoopText, value: str, *, stamped: bool) -> None:
        if self._writer is not None and self._fields:
            key = self._key_of(text, self._writer, value, self._fields)
            assert key is not None
            appends = _names("append", self._fields)
            text.line(
                f"[{', '.join([*appends, *(['stamp'] if stamped else [])])}] = appends[{key.expression}]",
                replace(key, key=True),
            )
            for append, name in zip(appends, _names(value, self._fields), strict=True):
                text.line(f"{append}({name})")
            if stamped:
                text.line("stamp(at)")
            return
        if self._writer is not None:
            step = replace(text.step(self.last, self._writer.key, value), key=True)
            if stamped:
                text.line(f"append, stamp = appends[{step.expression}]", step)
                text.line(f"append({value})")
                text.line("stamp(at)")
            else:
                text.line(f"appends[{step.expression}]({value})", step)
            return
        text.line(f"append({value})")
        if stamped:
            text.line("stamp(at)")
        text.close()
        text.line("return results, stamps" if stamped else "return results")


def _names(name: str, fields: int) -> list[str]:
    return [f"{name}_{number}" for number in range(fields)]
