"""The syntax tree of a function, found in its file by its place; a function without source has none."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType, MappingProxyType
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LINES = 5_000
"""Longer files are not read for a warning."""


def code_of(call: Any) -> CodeType | None:
    """Return the code of a function or bound method; ``None`` for any other callable.

    >>> code_of(len), code_of(lambda n: n).co_name
    (None, '<lambda>')
    """
    return getattr(getattr(call, "__func__", call), "__code__", None)


def tree_of(code: CodeType | None) -> Definition | None:
    """Return the syntax tree of a function, with the lines of its file.

    >>> tree_of((lambda n: n + 1).__code__).body.op
    <ast.Add object at ...>
    >>> tree_of(None)
    """
    lines = [] if code is None else linecache.getlines(code.co_filename)
    if code is None or not 0 < len(lines) < _LINES:
        return None
    found = [each for each in _definitions("".join(lines)).get(code.co_firstlineno, ()) if _is_of(each, code)]
    if len(found) > 1:  # several lambdas on one line: that of this code, by its place in the line
        places = {(line, column) for line, _, column, _ in code.co_positions() if column is not None}
        found = [each for each in found if (each.body.lineno, each.body.col_offset) in places]  # type: ignore[union-attr]
    return found[0] if len(found) == 1 else None


def _is_of(each: Definition, code: CodeType) -> bool:
    if isinstance(each, ast.Lambda) or code.co_name == "<lambda>":
        return isinstance(each, ast.Lambda) and code.co_name == "<lambda>"
    return each.name == code.co_name


@lru_cache(8)
def _definitions(text: str) -> Mapping[int, Sequence[Definition]]:
    """Return the functions of a file by their first lines, which may be those of decorators."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError):
        return MappingProxyType({})
    found: dict[int, list[Definition]] = {}
    for each in nodes:
        if isinstance(each, Definition):
            decorators = [] if isinstance(each, ast.Lambda) else each.decorator_list
            found.setdefault(min([each.lineno, *(one.lineno for one in decorators)]), []).append(each)
    return found
