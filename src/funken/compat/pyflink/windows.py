"""Windows with PyFlink's names; what users subclass takes type parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from funken.compat.pyflink.functions import ReduceFunction, Subscriptable, context
from funken.operators.window.triggered import OperatorAssignerContext, OperatorTriggerContext
from funken.windowing import assigners
from funken.windowing import windows as firing
from funken.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from funken.windowing.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from funken.windowing.windows import CountWindow, GlobalWindow, TimeWindow, TriggerResult, Window


class Trigger(Subscriptable, firing.Trigger):
    """Decides when a window fires; subclass it for a rule of your own."""

    TriggerContext: ClassVar[type] = context(OperatorTriggerContext)
    OnMergeContext: ClassVar[type] = context(OperatorTriggerContext)


class WindowAssigner(Subscriptable, assigners.WindowAssigner):
    """Assigns windows to records; subclass it for windows of your own."""

    WindowAssignerContext: ClassVar[type] = context(OperatorAssignerContext)


class MergeCallback(Subscriptable):
    """A receiver of the merges of a merging assigner."""


class MergingWindowAssigner(Subscriptable, assigners.MergingWindowAssigner):
    """An assigner whose windows may grow together."""

    WindowAssignerContext: ClassVar[type] = WindowAssigner.WindowAssignerContext
    MergeCallback: ClassVar[type] = MergeCallback


class Min(ReduceFunction):
    """The smaller of two values.

    >>> from funken.testing import local
    >>> local([3, 5, 1]).key_by(lambda n: "all").reduce(Min()).execute_and_collect(limit=3)
    [3, 3, 1]
    """

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return it."""
        return min(value1, value2)


class TypeSerializer(Subscriptable):
    """A serializer that PyFlink asks a custom assigner for; Funken pickles windows and never calls it."""


class TimeWindowSerializer(TypeSerializer):
    """Stands for the pickling of ``TimeWindow``."""


class CountWindowSerializer(TypeSerializer):
    """Stands for the pickling of ``CountWindow``."""


class GlobalWindowSerializer(TypeSerializer):
    """Stands for the pickling of ``GlobalWindow``."""


__all__ = [
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "Min",
    "NeverTrigger",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "TypeSerializer",
    "Window",
    "WindowAssigner",
]
