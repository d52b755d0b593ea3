"""Runs of operators as one generated loop: per record the functions one after the other, the key, and an append.

The plan has the runs of a vertex (``plan/rules/operators.py``). Records go through one by one, as in Flink: the functions of a
run see a record before any of them sees the next. What the operators do otherwise (opening, closing, watermarks) stays theirs.
A tuple that one function makes and the next takes apart is not made: its fields are variables (``operators/codegen.py``).
docs/decisions/0004 and 0050 have the measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from types import GeneratorType
from typing import Any

from funken.dataclass import dataclass
from funken.errors import KeyNotHashable
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.codegen import LoopStep, LoopText, by_field, constant_of, fields_made
from funken.operators.stateless import FilterLogic, FlatMapLogic, MapLogic, UserFunctionOperator
from funken.runtime.exchange.writers import HashWriter


class FusedOperators:
    """A run at work: ``process`` takes the place of the first operator's, and emits for the last.

    Without operators there is only the loop of a writer's key selector; ``last`` is the operator before the writer.
    """

    def __init__(
        self, operators: list[UserFunctionOperator], writer: HashWriter | None = None, inlining: bool = True,
        last: Operator | None = None,
    ) -> None:  # fmt: skip
        self.last: Operator = last or operators[-1]
        self._operators = operators
        self._writer = writer
        self._inlining = inlining
        self._keeps_stamps = all(isinstance(operator, MapLogic) for operator in operators)
        #: the filters at whose first results the loops look
        self._looked_at = [each for each in operators if isinstance(each, FilterLogic) and each.conditions.awaited]
        #: the variables that hold what is appended of tuples that go to the writer field by field; none: records go as they are
        self._fields = [] if writer is None else self._fields_to(writer)
        self._spread: Callable[..., None] | None = None
        if writer is not None:
            self._spread = writer.spread_fields if self._fields else writer.spread
        #: the loops, by whether records have timestamps, a writer is given the keys of a block, and has one object of equal texts
        self._loops: dict[tuple[bool, bool, bool], Callable[..., Any]] = {}

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Take a block through the run."""
        if self._writer is not None and self._spread is not None:
            try:
                self._spread(self.loop, values, timestamps)
            except KeyNotHashable as error:
                raise self._writer.refused(error) from None
        elif timestamps is None or self._keeps_stamps:
            results = self.loop(False)(values)
            if results:
                self._emit(results, timestamps)
        else:
            results, stamps = self.loop(True)(values, timestamps)
            if results:
                self._emit(results, stamps)

        if self._looked_at and not any(each.conditions.awaited for each in self._looked_at):
            self._looked_at = []
            self._loops.clear()

    def _emit(self, results: list[Any], timestamps: Timestamps) -> None:
        last = self.last
        if isinstance(last, MapLogic):
            last.look_at(results)
        last.output.emit(results, timestamps)

    def loop(self, stamped: bool, gathered: bool = False, one_text: bool = False) -> Callable[..., Any]:
        """Return the loop over records with timestamps or without; for a writer see ``Loops``."""
        form = stamped, gathered, one_text
        if form not in self._loops:
            self._loops[form] = self._generate(stamped=stamped, gathered=gathered, one_text=one_text)
        return self._loops[form]

    def _fields_to(self, writer: HashWriter) -> list[str]:
        """Make the writer ready for the fields of the tuples that reach it; none: the key needs the tuples, or they are none."""
        text = LoopText("fused", "values", self._inlining)
        value = self._run_through(text, _LoopValue("value0"))
        names = value.fields
        key = by_field(text.step(self.last, writer.key, value.name), value.name, names) if names else None
        if key is None:
            return []
        same = {place: value.constants[name] for place, name in enumerate(names) if name in value.constants}
        if len(same) == len(names):
            del same[0]
        appended = [name for place, name in enumerate(names) if place not in same]
        return appended if writer.take_fields(len(appended), same, _bare(key) in appended) else []

    def _generate(self, *, stamped: bool, gathered: bool = False, one_text: bool = False) -> Callable[..., Any]:
        parameters = "values, timestamps" if stamped else "values"
        if self._writer is not None:
            parameters = f"{'keep, appends' if gathered else 'known, find'}, {parameters}"
        text = LoopText("fused", parameters, self._inlining)
        if gathered:
            text.line(f"[{', '.join(self._appends(stamped))}] = appends")
        elif self._writer is None:
            text.line("results = []")
            text.line("append = results.append")
            if stamped:
                text.line("stamps = []")
                text.line("stamp = stamps.append")
        # Hot: from here to the append every line is once per record.
        records = (
            f"value0, at in {text.name('_zip', zip)}(values, timestamps, strict=True)"
            if stamped
            else "value0 in values"
        )
        text.line(f"for {records}:")
        value = self._run_through(text, _LoopValue("value0"))
        self._end(text, value, stamped=stamped, gathered=gathered, one_text=one_text)
        return text.compile()

    def _run_through(self, text: LoopText, value: _LoopValue) -> _LoopValue:
        """Add the lines of the operators; return the outcome for a record."""
        if not self._operators:
            return value
        functions = [operator.call for operator in self._operators]
        readers = [*functions[1:], None if self._writer is None else self._writer.key]
        for number, (operator, function, reader) in enumerate(zip(self._operators, functions, readers, strict=True)):
            step = self._step(text, value, operator, function)
            following = f"value{number + 1}"
            match operator:
                case MapLogic():
                    made = fields_made(step)
                    if made is not None and not (self._inlining and _reads_fields(reader, len(made))):
                        made = None
                    value = _LoopValue(following, constants=value.constants)
                    if made is None:
                        text.line(f"{following} = {step.expression}", step)
                        continue
                    value.fields = [
                        each if _is_value(each) else name
                        for name, each in zip(_names(following, len(made)), made, strict=True)
                    ]
                    for name, each in zip(value.fields, made, strict=True):
                        value.constants |= constant_of(name, each)
                    new = [f"{name} = {each}" for name, each in zip(value.fields, made, strict=True) if name != each]
                    if new:  # on one line, for it is one step of which errors may be
                        text.line("; ".join(new), step)
                case FilterLogic():
                    condition = step.expression
                    if operator in self._looked_at:
                        condition = f"{text.name(f'look_at{number}', operator.conditions.look_at)}({condition})"
                    text.line(f"if not {condition}: continue", step)
                case FlatMapLogic():
                    text.line(f"made = {step.expression}", step)
                    text.line("if made is None: continue")
                    names = text.name("_type", type), text.name("_list", list), text.name("_generator", GeneratorType)
                    kind = f"{names[0]}(made)"
                    check = text.name(f"check{number}", operator.check)
                    text.line(f"if {kind} is not {names[1]} and {kind} is not {names[2]}: {check}(made)", step)
                    text.line(f"for {following} in made:", step)
                    value = _LoopValue(following)
        return value

    def _step(self, text: LoopText, value: _LoopValue, operator: Operator, function: Callable[..., Any]) -> LoopStep:
        """Return the step that calls a function with a value; makes the tuple before if the function needs it."""
        step = text.step(operator, function, value.name)
        if not value.fields:
            return step
        taken = by_field(step, value.name, value.fields)
        if taken is not None:
            return taken
        self._make(text, value)
        return step

    def _make(self, text: LoopText, value: _LoopValue) -> None:
        if value.fields and not value.made:
            text.line(f"{value.name} = ({', '.join(value.fields)},)")
            value.made = True

    def _appends(self, stamped: bool) -> list[str]:
        """Return the names of the functions that append to the lists of a target."""
        return [*(_names("append", len(self._fields)) or ["append"]), *(["stamp"] if stamped else [])]

    def _end(self, text: LoopText, value: _LoopValue, *, stamped: bool, gathered: bool, one_text: bool) -> None:
        writer = self._writer
        if writer is not None:
            key = replace(self._step(text, value, self.last, writer.key), key=True)
            appends, given = self._appends(stamped), [*(self._fields or [value.name]), "at"]
            if not self._fields:
                self._make(text, value)
            if gathered:
                text.line(f"keep({key.expression})", key)
            else:
                found = ", ".join([*appends, "same", "kind"] if one_text else appends)
                text.line(f"of = {key.expression}", key)
                text.line("try:")
                text.line(f"{found} = known[of]", key)
                text.dedent()
                text.line(f"except ({text.name('_KeyError', KeyError)}, {text.name('_TypeError', TypeError)}):")
                text.line(f"{found} = find(of)", key)
                text.dedent()
                if one_text:
                    of = _bare(key)
                    of_type = text.name("_type", type)
                    given = [f"same if {of_type}({name}) is kind else {name}" if name == of else name for name in given]
            for append, name in zip(appends, given, strict=False):
                text.line(f"{append}({name})")
            return
        self._make(text, value)
        text.line(f"append({value.name})")
        if stamped:
            text.line("stamp(at)")
        text.close()
        text.line("return results, stamps" if stamped else "return results")


def give_loops(writer: HashWriter, operator: Operator, inlining: bool = True) -> None:
    """Give a writer the loops of its key selector, for the operator before it."""
    writer.loops = FusedOperators([], writer, inlining, operator).loop


@dataclass
class _LoopValue:
    """A record in the loop: the variable that holds it, or those that hold the fields of the tuple that it is."""

    name: str
    fields: list[str] = field(default_factory=list)
    made: bool = False
    """True if the tuple is in its variable, too."""
    constants: dict[str, Any] = field(default_factory=dict)
    """The variables that hold the same in all records, with their values."""


def _bare(step: LoopStep) -> str:
    return step.expression.strip("()")


def _is_value(expression: str) -> bool:
    """Return True if an expression is a variable that holds a record or a field, and needs no other one."""
    return expression.startswith("value") and expression.isidentifier()


def _reads_fields(reader: Callable[[Any], Any] | None, fields: int) -> bool:
    """Return True if a function needs the fields of a tuple only; its uses of a record are no line of a loop here."""
    if reader is None:
        return False
    step = LoopText("fused", "values").step(Operator(), reader, "value")
    return by_field(step, "value", _names("value", fields)) is not None


def _names(name: str, fields: int) -> list[str]:
    return [f"{name}_{number}" for number in range(fields)]
