"""Windows with PyFlink's names; what users subclass takes type parameters."""

from __future__ import annotations

from typing import Any, ClassVar

from funken.compat.pyflink.functions import ReduceFunction, Subscriptable, subscriptable
from funken.operators.window.triggered import OperatorAssignerContext, OperatorTriggerContext
from funken.windowing import assigners
from funken.windowing import windows as firing


class Trigger(Subscriptable, firing.Trigger):
    """Decides when a window fires; subclass it for a rule of your own."""

    TriggerContext: ClassVar[type] = subscriptable(OperatorTriggerContext)
    OnMergeContext: ClassVar[type] = subscriptable(OperatorTriggerContext)


class WindowAssigner(Subscriptable, assigners.WindowAssigner):
    """Assigns windows to records; subclass it for windows of your own."""

    WindowAssignerContext: ClassVar[type] = subscriptable(OperatorAssignerContext)


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


for _name in ("TimeWindow", "CountWindow", "GlobalWindow"):
    _members = {"__module__": __name__, "__doc__": f"Stands for the pickling of ``{_name}``."}
    globals()[f"{_name}Serializer"] = type(f"{_name}Serializer", (TypeSerializer,), _members)

PASSED_ON = {
    "funken.windowing.assigners": (
        "CountSlidingWindowAssigner CountTumblingWindowAssigner DynamicEventTimeSessionWindows "
        "DynamicProcessingTimeSessionWindows EventTimeSessionWindows GlobalWindows ProcessingTimeSessionWindows "
        "SessionWindowTimeGapExtractor SlidingEventTimeWindows SlidingProcessingTimeWindows TumblingEventTimeWindows "
        "TumblingProcessingTimeWindows"
    ),
    "funken.windowing.triggers": (
        "ContinuousEventTimeTrigger ContinuousProcessingTimeTrigger CountTrigger EventTimeTrigger NeverTrigger "
        "ProcessingTimeTrigger PurgingTrigger"
    ),
    "funken.windowing.windows": "CountWindow GlobalWindow TimeWindow TriggerResult Window",
}
