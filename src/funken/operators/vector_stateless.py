"""map and filter over columns, and the sink that drops them."""

from __future__ import annotations

from typing import Any

from funken.operators.base import Timestamps, Values
from funken.operators.calls import Call
from funken.operators.sink import WriterSinkLogic
from funken.operators.stateless import FilterLogic, MapLogic
from funken.operators.vectorized import VectorFilter, VectorMap
from funken.vector.columns import Columns, rows
from funken.vector.evaluation import Unfit, computed, mask_of
from funken.vector.tracing import Traced


class Kernel:
    """A traced function at work; gives up for good when something the function uses was changed."""

    def __init__(self, call: Call, traced: Traced) -> None:
        self._call = call
        self._traced = traced
        self._given_up = False

    def ready(self) -> bool:
        """Whether the expression still is what the function computes."""
        if not self._given_up and not self._traced.holds(self._call.target, self._call.method):
            self._given_up = True
        return not self._given_up


class VectorMapLogic(MapLogic):
    """Computes the results of a block at once."""

    columnar = True

    def __init__(self, spec: VectorMap) -> None:
        super().__init__(spec.function)
        self._result = spec.traced.result
        self._shape = spec.shape
        self._kernel = Kernel(spec.function, spec.traced)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Map a block."""
        block: Any = values
        if type(block) is not Columns or not self._kernel.ready():
            super().process(*rows(values, timestamps))
            return
        try:
            mapped: Any = computed(self._result, self._shape, block)
        except Unfit:
            super().process(*rows(values, timestamps))
            return
        self.output.emit(mapped, timestamps)


class VectorFilterLogic(FilterLogic):
    """Computes a mask."""

    columnar = True

    def __init__(self, spec: VectorFilter) -> None:
        super().__init__(spec.function)
        self._result = spec.traced.result
        self._kernel = Kernel(spec.function, spec.traced)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Filter a block."""
        block: Any = values
        if type(block) is not Columns or not self._kernel.ready():
            super().process(*rows(values, timestamps))
            return
        try:
            mask = mask_of(self._result, block)
        except Unfit:
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


class VectorSinkLogic(WriterSinkLogic):
    """Hands blocks over as they are: the writer does not look at them."""

    columnar = True
