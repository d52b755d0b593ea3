"""Loops over blocks, generated and compiled when an operator is set up: their source, and which operator each line is of.

A line belongs to a step: an operator, the variable that holds its record, and the user's function. Where the function
could be read (``inlining.py``) its body is on the line, else a call of it. The loop runs in the module of the first
function that it holds: C code that imports, warns or makes a class looks at the globals of the frame that calls it. What the loop
itself uses are its free variables, so no name of the module can hide them.

Errors look as if the function had been called: ``step_at`` returns operator and record of a traceback's frame, and ``add_frames``
adds the frames of the user's functions where the loop has left them out. It makes these frames; it calls no function again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import CellType, CodeType, FunctionType, TracebackType
from typing import Any, cast

from funken.columnar.block import TupleBlock
from funken.columnar.bytecode import goes_on
from funken.dataclass import dataclass
from funken.operators.base import Operator
from funken.operators.codegen.frames import Position, frame_of
from funken.operators.codegen.inlining import FieldVariables, OuterVariables, expression_of, nodes_of


@dataclass(frozen=True)
class LoopStep:
    """What a line does: ``function(*arguments)``, for an operator; ``arguments`` are variables, the last one is the record."""

    operator: Operator
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    inlined: bool
    expression: str
    key: bool = False
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The variables that hold the fields of an argument, a tuple that is not made (``fields.py``)."""

    def values(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the arguments, out of the variables of the loop; raises ``KeyError`` if one is not there."""
        return [
            tuple(variables[part] for part in self.parts[name]) if name in self.parts else variables[name]
            for name in self.arguments
        ]


@dataclass(frozen=True)
class _Line:
    text: str
    step: LoopStep


class _Lines:
    """The lines of a loop that belong to steps: a constant of its code, so that a frame leads to them."""

    def __init__(self, lines: dict[int, _Line]) -> None:
        self.lines = lines


class LoopText:
    """The source of one function, line by line; without ``inlining`` it calls every function."""

    def __init__(self, name: str, parameters: str, inlining: bool = True) -> None:
        self._lines = [f"def {name}({parameters}):"]
        self._name = name
        self._namespace: dict[str, Any] = {}
        self._outside = OuterVariables()
        self._steps: dict[int, _Line] = {}
        self._depth = 1
        self._inlining = inlining

    def step(self, operator: Operator, function: Callable[..., Any], *arguments: str) -> LoopStep:
        """Return the step that gives ``function(*arguments)``."""
        expression = expression_of(function, arguments, self._outside) if self._inlining else None
        if expression is not None:
            return LoopStep(operator, function, arguments, True, f"({expression})")
        name = self.name(f"call{len(self._namespace)}", function)
        return LoopStep(operator, function, arguments, False, f"{name}({', '.join(arguments)})")

    def name(self, name: str, value: Any) -> str:
        """Make an object known by a name, which no built-in function may have."""
        self._namespace[name] = value
        return name

    def line(self, text: str, step: LoopStep | None = None) -> None:
        """Add a line; one that ends in a colon opens a block for those after it."""
        self._lines.append("    " * self._depth + text)
        if step is not None:
            self._steps[len(self._lines)] = _Line(self._lines[-1], step)
        self._depth += text.endswith(":")

    def dedent(self) -> None:
        """End the innermost block."""
        self._depth -= 1

    def close(self) -> None:
        """End all blocks but the function itself."""
        self._depth = 1

    def compile(self) -> Callable[..., Any]:
        """Return the function."""
        loop, cells = ast.parse("\n".join(self._lines)), self._cells()
        outside = ast.parse(f"def outside({', '.join(cells)}): pass")  # its parameters are the loop's free variables
        cast(ast.FunctionDef, outside.body[0]).body = loop.body
        code = compile(outside, f"<funken operators, {self._name}>", "exec")
        for _ in range(2):
            (code,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        code = code.replace(co_consts=(*code.co_consts, cast("Any", _Lines(self._steps))))
        space = globals() if self._outside.globals is None else self._outside.globals
        return FunctionType(code, space, self._name, None, tuple(cells[name] for name in code.co_freevars))

    def _cells(self) -> dict[str, CellType]:
        """Return the free variables: the cells of the user's functions, and what the loop uses itself."""
        own = {**self._namespace, **self._outside.modules}
        return {**{name: CellType(value) for name, value in own.items()}, **self._outside.cells}


def step_at(trace: TracebackType) -> LoopStep | None:
    """Return the step that a frame of a traceback was at; ``None`` if it is no generated loop's."""
    return step_of(trace.tb_frame.f_code, trace.tb_lineno)


def step_of(code: CodeType, line: int | None) -> LoopStep | None:
    """Return the step of a line of a function; ``None`` if it is no generated loop, or the line does nothing of the user's."""
    found = _line_of(code, line)
    return None if found is None else found.step


def _line_of(code: CodeType, line: int | None) -> _Line | None:
    lines = code.co_consts[-1] if code.co_consts else None
    return lines.lines.get(line) if isinstance(lines, _Lines) and line is not None else None


def add_frames(error: BaseException) -> None:
    """Add to a traceback the frames of the functions whose bodies the loops in it hold; nothing is called again."""
    trace = error.__traceback__
    while trace is not None:
        line = _line_of(trace.tb_frame.f_code, trace.tb_lineno)
        if line is not None and line.step.inlined:
            frame = _frame_in(line, trace)
            if frame is not None:
                frame.tb_next, trace.tb_next = trace.tb_next, frame
                trace = frame
        trace = trace.tb_next


def _frame_in(line: _Line, trace: TracebackType) -> TracebackType | None:
    """Return the frame of a function where a line holds its body; ``None`` if the line failed elsewhere."""
    step = line.step
    position = _position(line, trace)
    if position is None:
        return None
    try:
        arguments = step.values(trace.tb_frame.f_locals)
    except KeyError:
        return None
    return frame_of(cast(FunctionType, step.function), arguments, position)


def _position(line: _Line, trace: TracebackType) -> Position | None:
    """Return what part of the function failed, by the part of the line that did; ``None`` if that is no part of the function."""
    code = trace.tb_frame.f_code
    if goes_on(code, trace.tb_lasti):
        return None
    _, _, begin, end = list(code.co_positions())[trace.tb_lasti // 2]
    whole = nodes_of(cast(FunctionType, line.step.function), line.step.arguments, line.step.parts)
    of_line = [each for each in whole if each[0] in line.text]
    if not of_line or begin is None or end is None:  # python -X no_debug_ranges
        return of_line[0][1] if of_line else None
    failed = line.text.encode()[begin:end].decode()
    alike = [place for text, place in whole if text == failed]
    if alike:
        before = [text for at, text in _parts(line.text) if at < (begin, -end)]
        return alike[min(before.count(failed), len(alike) - 1)]
    return (
        of_line[0][1] if "f'" in line.text or 'f"' in line.text else None
    )  # positions in an f-string are those of the text


def _parts(text: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield where the expressions in a line begin and, with a minus, end, and the expressions."""
    found = text.strip()
    try:
        tree = ast.parse(f"{found} pass" if found.endswith(":") else found)
    except SyntaxError:  # "elif", "except", "return": none of them is repeated
        return
    margin = len(text) - len(text.lstrip())
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node.end_col_offset is not None:
            segment = found.encode()[node.col_offset : node.end_col_offset].decode()
            yield (node.col_offset + margin, -node.end_col_offset - margin), segment


# ---- Tuples that a generated loop need not make: their fields are variables of it (``runtime/chain/fused.py``,
# ``rolling.py``).


_LITERALS = {int, float, str, bytes, bool, type(None)}
_MOST = 8
"""A tuple of more fields is made: so many appends would cost more than it."""


def fields_made(step: LoopStep) -> list[str] | None:
    """Return the fields of the tuple that a step makes, as expressions in the order of their evaluation; ``None`` if it may not.

    >>> from funken.operators.codegen.loops import LoopText
    >>> text = LoopText("loop", "values")
    >>> fields_made(text.step(None, lambda i: (i % 10, 1), "value"))
    ['value % 10', '1']
    >>> fields_made(text.step(None, lambda i: i + 1, "value"))
    """
    if not step.inlined:
        return None
    made = ast.parse(step.expression, mode="eval").body
    if not isinstance(made, ast.Tuple) or not 0 < len(made.elts) <= _MOST:
        return None
    return [ast.unparse(field) for field in made.elts]


def constant_of(name: str, expression: str) -> dict[str, Any]:
    """Return what a variable holds by its name if the expression is a literal, of a type that cannot be changed; else nothing.

    >>> constant_of("value_1", "-1"), constant_of("value_1", "[]"), constant_of("value_1", "value % 10")
    ({'value_1': -1}, {}, {})
    """
    try:
        value = ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError):
        return {}
    return {name: value} if type(value) in _LITERALS else {}


def by_field(step: LoopStep, name: str, fields: Sequence[str]) -> LoopStep | None:
    """Return a step that uses variables for the fields of its argument ``name``, a tuple; ``None`` if it needs the tuple.

    >>> from funken.operators.codegen.loops import LoopText
    >>> text = LoopText("loop", "values")
    >>> by_field(text.step(None, lambda pair: pair[0], "value"), "value", ["value_0", "value_1"]).expression
    '(value_0)'
    >>> by_field(text.step(None, lambda pair: (pair[0], pair), "value"), "value", ["value_0", "value_1"])
    """
    if not step.inlined:
        return None
    reader = FieldVariables({name: tuple(fields)})
    found = reader.visit(ast.parse(step.expression, mode="eval").body)
    if reader.whole:
        return None
    return replace(step, expression=f"({ast.unparse(found)})", parts={**step.parts, name: tuple(fields)})


def names_of_fields(name: str, form: tuple[int, ...]) -> tuple[list[str], str, list[str]]:
    """Return the variables of a loop over a ``TupleBlock`` of a form: for all fields, the loop's target, and the constants.

    A form of no fields is that of whole records. ``rows_of_fields`` is what the loop runs over.

    >>> names_of_fields("value", (3, 1)), names_of_fields("value", (2, 1)), names_of_fields("value", ())
    ((['value_0', 'value_1', 'value_2'], '[value_0, value_2]', ['value_1']),
     (['value_0', 'value_1'], 'value_0', ['value_1']), ([], 'value', []))
    """
    if not form:
        return [], name, []
    width, *places = form
    names = [f"{name}_{number}" for number in range(width)]
    varying = [each for number, each in enumerate(names) if number not in places]
    each = varying[0] if len(varying) == 1 else f"[{', '.join(varying)}]"  # to take a row apart costs 14 ns
    return names, each, [names[place] for place in places]


def rows_of_fields(block: TupleBlock) -> Iterable[Any]:
    """Return what a loop over the fields of tuples runs over: what differs, row by row."""
    fields = block.fields
    return fields[0] if len(fields) == 1 else zip(*fields, strict=True)
