"""Frames of functions that were not called: what a traceback shows of a function whose body a generated loop holds.

A frame is that of a function of the same name, file, line, globals and arguments, which does nothing but raise.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeAlias

Position: TypeAlias = "tuple[int | None, int | None, int | None, int | None]"
"""First and last line, first and last column, as ``dis`` has them."""
_MARK = "the exception"
"""Constant of the code in whose place the exception is put: a variable would be among the locals of the frame."""


class _Raised(Exception):
    """Raised in a frame for its traceback."""


def frame_of(function: FunctionType, arguments: Sequence[Any], position: Position) -> TracebackType:
    """Return the traceback of a frame of a function at a position, with these arguments; nothing of the function runs.

    >>> import traceback
    >>> def half(number):
    ...     return number / 2
    >>> frame = frame_of(half, ["a"], (half.__code__.co_firstlineno + 1, None, None, None))
    >>> frame.tb_frame.f_code.co_name, frame.tb_frame.f_locals, frame.tb_lineno - half.__code__.co_firstlineno
    ('half', {'number': 'a'}, 1)
    """
    code = _raising(function.__code__, position)
    try:
        FunctionType(code, function.__globals__, code.co_name)(*arguments)
    except _Raised as raised:
        trace = raised.__traceback__
    assert trace is not None
    assert trace.tb_next is not None
    return trace.tb_next


def _raising(code: CodeType, position: Position) -> CodeType:
    line, end_line, begin, end = position
    line = line or code.co_firstlineno
    place: dict[str, Any] = {
        "lineno": line,
        "end_lineno": end_line or line,
        "col_offset": begin or 0,
        "end_col_offset": end or begin or 0,
    }
    names = [ast.arg(name, **place) for name in code.co_varnames[: code.co_argcount]]
    given = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    body: list[ast.stmt] = [ast.Raise(ast.Constant(_MARK, **place), **place)]
    last = max(code.co_firstlineno, line, end_line or line)
    first: dict[str, Any] = {"lineno": code.co_firstlineno, "end_lineno": last, "col_offset": 0, "end_col_offset": 0}
    whole = ast.FunctionDef("function", given, body, [], **first)
    module = compile(ast.Module([whole], []), code.co_filename, "exec")
    (made,) = (constant for constant in module.co_consts if isinstance(constant, CodeType))
    constants: Any = tuple(_Raised if each == _MARK else each for each in made.co_consts)
    return made.replace(co_name=code.co_name, co_qualname=code.co_qualname, co_consts=constants)


__all__ = ["Position", "frame_of"]
