"""The results of windows over columns, of all keys at once: what ``get_result`` and the window function make of their contents.

Bounds of windows that have none are any numbers: ``plan/rules/windows_on_columns.py`` refuses functions that look at them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from funken.columnar.expressions import INT, LOWEST, STR, RecordSchema, leaves_of
from funken.columnar.flat_maps.emissions import TracedFlatMap, paths_of
from funken.columnar.kernels.columns import Array, Column, Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.records import fits
from funken.operators.columnar.flat_map import given_of
from funken.operators.columnar.path import ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarWindow
from funken.operators.user_functions import UserFunction
from funken.operators.window.contents import Aggregated


class WindowResults:
    """Makes the results of windows whose spec has ``results``."""

    def __init__(self, spec: ColumnarWindow) -> None:
        assert spec.results is not None
        self._schema: RecordSchema = spec.results
        self._spec = spec
        self._functions: list[TracedFunction] = []
        if spec.aggregate is not None and spec.aggregate.result is not None:
            assert isinstance(spec.contents, Aggregated)
            called = UserFunction(spec.contents.function.target, "get_result")
            self._functions.append(TracedFunction(called, spec.aggregate.result))
        self._needs_key = False
        if spec.given is not None and spec.function is not None:
            self._functions.append(TracedFunction(spec.function.call, spec.given))
            self._needs_key = _uses_key(spec.given)

    def __call__(self, contents: Columns, keys: list[Any], start: Array | int, end: Array | int) -> Columns | None:
        """Return the results of windows by their contents, keys and bounds; ``None``: they have to be made one by one."""
        return ColumnPath(partial(self._made, keys, start, end), *self._functions)(contents)

    def _made(self, keys: list[Any], start: Array | int, end: Array | int, contents: Columns) -> Columns:
        spec, count = self._spec, contents.length
        stamps = np.full(count, end - 1, np.int64) if isinstance(end, int) else end - 1
        if spec.aggregate is not None:
            assert spec.aggregate.result is not None
            assert spec.aggregate.result_schema is not None
            contents = computed(spec.aggregate.result.result, spec.aggregate.result_schema, contents)
        if spec.given is None:
            return contents.stamped(stamps)
        if isinstance(start, int) and start < LOWEST:
            raise FallBackToRows("a window that begins before all time")
        bounds = [Column(INT, each, isinstance(each, int)) for each in (start, end)]
        schema = spec.key_schema, contents.schema, (INT, INT)
        block = Columns(schema, [*self._key_leaves(keys), *contents.leaves, *bounds], count, stamps)
        return given_of(spec.given.emissions, self._schema, block)

    def _key_leaves(self, keys: list[Any]) -> list[Column]:
        schema = self._spec.key_schema
        if not self._needs_key:
            return [Column(kind, None, True) for _, kind in leaves_of(schema)]
        if {*map(type, keys)} != {{INT: int, STR: str}.get(str(schema), tuple)}:  # of another program's state
            raise FallBackToRows("keys of another type")
        if not isinstance(schema, str) and not all(fits(key, schema) for key in keys):
            raise FallBackToRows("keys of another type")
        return columns_of(keys, schema).leaves


def _uses_key(given: TracedFlatMap) -> bool:
    expressions = [part for each in given.emissions for part in (*each.guards, *each.conditions, each.result)]
    expressions += [each.items for each in given.emissions if each.items is not None]
    return any(not path or path[0] == 0 for path in paths_of(expressions, 0))


__all__ = ["WindowResults"]
