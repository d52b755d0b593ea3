"""map and filter over columns, and the sink that drops them."""

from __future__ import annotations

from typing import Any

from funken.columnar.kernels.columns import Columns, rows
from funken.columnar.kernels.evaluation import FallBackToRows, computed, mask_of
from funken.columnar.tracing import Traced
from funken.operators.base import Timestamps, Values
from funken.operators.columnar.specs import ColumnarFilter, ColumnarMap
from funken.operators.sink import WriterSinkLogic
from funken.operators.stateless import FilterLogic, MapLogic
from funken.operators.user_functions import UserFunction


class TracedFunction:
    """A traced function; disabled for good when something the function uses has changed."""

    def __init__(self, call: UserFunction, traced: Traced) -> None:
        self._call = call
        self._traced = traced
        self._given_up = False

    def ready(self) -> bool:
        """Whether the expression still is what the function computes."""
        if not self._given_up and not self._traced.holds(self._call.target, self._call.method):
            self._given_up = True
        return not self._given_up


class ColumnarMapLogic(MapLogic):
    """Computes the results of a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarMap) -> None:
        super().__init__(spec.function)
        self._result = spec.traced.result
        self._shape = spec.schema
        self._kernel = TracedFunction(spec.function, spec.traced)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Map a block."""
        block: Any = values
        if type(block) is not Columns or not self._kernel.ready():
            super().process(*rows(values, timestamps))
            return
        try:
            mapped: Any = computed(self._result, self._shape, block)
        except FallBackToRows:
            super().process(*rows(values, timestamps))
            return
        self.output.emit(mapped, timestamps)


class ColumnarFilterLogic(FilterLogic):
    """Computes a mask."""

    columnar = True

    def __init__(self, spec: ColumnarFilter) -> None:
        super().__init__(spec.function)
        self._result = spec.traced.result
        self._kernel = TracedFunction(spec.function, spec.traced)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Filter a block."""
        block: Any = values
        if type(block) is not Columns or not self._kernel.ready():
            super().process(*rows(values, timestamps))
            return
        try:
            mask = mask_of(self._result, block)
        except FallBackToRows:
            super().process(*rows(values, timestamps))
            return
        if type(mask) is bool:
            if mask:
                self.output.emit(values, timestamps)
            return
        kept: Any = block.keep(mask)
        if kept.length:
            stamps: Any = timestamps
            self.output.emit(kept, stamps if stamps is None else stamps[mask])


class ColumnarSinkLogic(WriterSinkLogic):
    """Hands blocks over as they are: the writer does not look at them."""

    columnar = True
