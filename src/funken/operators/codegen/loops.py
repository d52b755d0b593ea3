"""Loops over blocks, generated and compiled when an operator is set up: their source, and which operator each line is of.

A line belongs to a step: an operator, the variable that holds its record, and the user's function. Where the function
could be read (``inlining.py``) its body is on the line, else a call of it. Errors look as if it had been called:
``step_at`` returns operator and record of a traceback's frame, and ``add_frames`` adds the frames of the user's function
where the loop has left them out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import field
from types import CodeType, FunctionType, TracebackType
from typing import Any, cast

from funken.dataclass import dataclass
from funken.operators.base import Operator
from funken.operators.codegen.inlining import OuterVariables, expression_of

_STEPS = "__steps__"


@dataclass(frozen=True)
class LoopStep:
    """What a line does: ``function(*arguments)``, for an operator; ``arguments`` are variables."""

    operator: Operator
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    inlined: bool
    expression: str
    key: bool = False
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The variables that hold the fields of an argument, a tuple that is not made (``fields.py``)."""
    record: int = -1
    """Which of the arguments is the record."""

    def values(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the arguments, out of the variables of the loop; raises ``KeyError`` if one is not there."""
        return [
            tuple(variables[part] for part in self.parts[name]) if name in self.parts else variables[name]
            for name in self.arguments
        ]


class LoopText:
    """The source of one function, line by line."""

    def __init__(self, name: str, parameters: str) -> None:
        self._lines = [f"def {name}({parameters}):"]
        self._name = name
        self._namespace: dict[str, Any] = {}
        self._outside = OuterVariables()
        self._steps: dict[int, LoopStep] = {}
        self._depth = 1

    def step(self, operator: Operator, function: Callable[..., Any], *arguments: str) -> LoopStep:
        """Return the step that gives ``function(*arguments)``."""
        expression = expression_of(function, arguments, self._outside)
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
            self._steps[len(self._lines)] = step
        self._depth += text.endswith(":")

    def dedent(self) -> None:
        """End the innermost block."""
        self._depth -= 1

    def close(self) -> None:
        """End all blocks but the function itself."""
        self._depth = 1

    def compile(self) -> Callable[..., Any]:
        """Return the function."""
        namespace: dict[str, Any] = {**self._namespace, **self._outside.modules, _STEPS: self._steps}
        loop, cells = ast.parse("\n".join(self._lines)), self._outside.cells
        if cells:
            outside = ast.parse(
                f"def outside({', '.join(cells)}): pass"
            )  # what makes its parameters the loop's free variables
            cast(ast.FunctionDef, outside.body[0]).body = loop.body
            loop = outside
        code = compile(loop, f"<funken operators, {self._name}>", "exec")
        for _ in range(2 if cells else 1):
            (code,) = (constant for constant in code.co_consts if isinstance(constant, CodeType))
        # The cells are those of the user's functions: a variable that changes is changed here, too.
        return FunctionType(code, namespace, self._name, None, tuple(cells[name] for name in code.co_freevars))


def step_at(trace: TracebackType) -> LoopStep | None:
    """Return the step that a frame of a traceback was at; ``None`` if it is no generated loop's."""
    return step_of(trace.tb_frame.f_globals, trace.tb_lineno)


def step_of(names: Mapping[str, Any], line: int) -> LoopStep | None:
    """Return the step of a line of the module that has these globals; ``None`` if it is no generated loop's."""
    steps = names.get(_STEPS)
    return steps.get(line) if isinstance(steps, dict) else None


def add_frames(error: BaseException) -> None:
    """If a loop raised where it holds a function's body, call the function again, and add the frames it raises from.

    Nothing is added unless it raises the same type again.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    step = None if last is None else step_at(last)
    if last is None or step is None or not step.inlined:
        return
    try:
        arguments = step.values(last.tb_frame.f_locals)
    except KeyError:
        return
    try:
        step.function(*arguments)
    except (Exception, SystemExit) as again:  # noqa: BLE001 - whatever it was, it is being raised already
        if type(again) is type(error) and again.__traceback__ is not None:
            last.tb_next = again.__traceback__.tb_next
