"""Windows with PyFlink's names; what users subclass takes type parameters."""

from __future__ import annotations

from typing import Any

from funken.compat.pyflink.functions import ReduceFunction, Subscriptable, subscriptable
from funken.operators.window.triggered import OperatorAssignerContext, OperatorTriggerContext
from funken.types.callables import Generic, T_contra, W_co, W_contra
from funken.windowing import assigners
from funken.windowing import windows as firing


class Trigger(Subscriptable, firing.Trigger[T_contra, W_contra], Generic[T_contra, W_contra]):
    """Decides when a window fires; subclass it for a rule of your own."""

    TriggerContext = subscriptable(OperatorTriggerContext)
    OnMergeContext = subscriptable(OperatorTriggerContext)


class WindowAssigner(Subscriptable, assigners.WindowAssigner[T_contra, W_co], Generic[T_contra, W_co]):
    """Assigns windows to records; subclass it for windows of your own."""

    WindowAssignerContext = subscriptable(OperatorAssignerContext)


class MergeCallback(Subscriptable, assigners.MergeCallback):
    """A receiver of the merges of a merging assigner."""


class MergingWindowAssigner(Subscriptable, assigners.MergingWindowAssigner[T_contra, W_co], Generic[T_contra, W_co]):
    """An assigner whose windows may grow together."""

    WindowAssignerContext = WindowAssigner.WindowAssignerContext
    MergeCallback = MergeCallback


class Min(ReduceFunction):
    """The smaller of two values.

    >>> from funken.testing import local
    >>> local([3, 5, 1]).key_by(lambda n: "all").reduce(Min()).execute_and_collect(limit=3)
    [3, 3, 1]
    """

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return it."""
        return min(value1, value2)


def long_to_int_with_bit_mixing(x: int) -> int:
    """Return a number whose low bits depend on all bits of another: the hash of a count window.

    >>> long_to_int_with_bit_mixing(0), long_to_int_with_bit_mixing(1) & 0xFF
    (0, 229)
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x = (x ^ (x >> shift)) * factor
    return x


def mod_inverse(x: int) -> int:
    """Return the inverse of an odd number modulo 2**64: hashes of time windows use it.

    >>> mod_inverse(3) * 3 % 2**64
    1
    """
    return pow(x, -1, 1 << 64)


class TypeSerializer(Subscriptable):
    """A serializer that PyFlink asks a custom assigner for; Funken pickles windows and never calls it."""


class VoidNamespaceSerializer(TypeSerializer):
    """The serializer of state without a window."""

    def serialize(self, element: bytes, stream: Any) -> None:
        """Write nothing."""

    def deserialize(self, stream: Any) -> bytes:
        """Return ``void``."""
        return void


void = b""
"""The namespace of state without a window."""

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

__all__ = ["long_to_int_with_bit_mixing", "mod_inverse", "void"]
