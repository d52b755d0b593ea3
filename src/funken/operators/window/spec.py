"""Windows on a stream, as the plan carries them, and the choice of the logic that runs them.

The general logic runs every window. The others are faster, and are chosen only where the results are the same:

=========  =====================================================================================
aligned    tumbling and sliding windows with their default trigger, no evictor, no lateness
sessions   event-time sessions with their default trigger, no evictor, no lateness
counts     ``count_window(size)`` and ``count_window(size, slide)``
=========  =====================================================================================

A default trigger may be written out, and may be wrapped in ``PurgingTrigger``: without lateness there is nothing left
to purge. ``count_window(size)`` is ``GlobalWindows`` with ``PurgingTrigger(CountTrigger(size))``, and
``count_window(size, slide)`` is ``GlobalWindows`` with ``CountTrigger(slide)`` and ``CountEvictor(size)``.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.operators.base import Operator
from funken.operators.user_functions import LoopCall, OperatorTraits, UserFunction, late_operator
from funken.operators.window.contents import Aggregated, CallStyle, Contents, Elements, Reduced, WindowCall
from funken.windowing.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from funken.windowing.evictors import CountEvictor, Evictor
from funken.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)


def one_key(value: Any) -> int:
    """Return the key that all records share in ``window_all``."""
    return 0


ONE_KEY = UserFunction(one_key)
"""The key of ``window_all``; knowing it saves a call per record."""


_ALIGNED = (
    TumblingEventTimeWindows, TumblingProcessingTimeWindows, SlidingEventTimeWindows, SlidingProcessingTimeWindows
)  # fmt: skip
_SESSIONS = (EventTimeSessionWindows, DynamicEventTimeSessionWindows)


class Strategy(enum.Enum):
    """The logic that runs a window; ``explain()`` prints it."""

    GENERAL = "general"
    ALIGNED = "aligned"
    SESSIONS = "sessions"
    COUNTS = "counts"

    @property
    def state_name(self) -> str:
        """The keyed state that a fast logic has its windows in; those of the general one begin with ``WINDOW_STATE``."""
        return f"_windows.{_CONTENTS[self]}"


_WINDOWS = {
    Strategy.GENERAL: "triggered:TriggeredWindows",
    Strategy.ALIGNED: "driver:AlignedWindows",
    Strategy.SESSIONS: "driver:SessionWindows",
    Strategy.COUNTS: "driver:CountWindows",
}
_CONTENTS = {Strategy.ALIGNED: "panes", Strategy.SESSIONS: "sessions", Strategy.COUNTS: "counts"}


def length_of(assigner: object) -> int | None:
    """Return the length of windows, or the gap of sessions, in milliseconds; ``None`` if there is none.

    >>> from funken import EventTimeSessionWindows, GlobalWindows
    >>> length_of(EventTimeSessionWindows.with_gap("5 s")), length_of(GlobalWindows.create())
    (5000, None)
    """
    if not isinstance(assigner, WindowAssigner) or isinstance(
        assigner, CountTumblingWindowAssigner | CountSlidingWindowAssigner
    ):
        return None
    length: int | None = getattr(assigner, "size", getattr(assigner, "gap", None))
    return length


@dataclass(frozen=True)
class WindowSpec:
    """A window operator.

    ``contents`` is ``Elements()`` for process and apply, which need a ``function``, or ``Reduced`` or ``Aggregated``,
    with or without one. ``trigger`` ``None`` is the assigner's default. ``late_tag`` is the id of the side output for
    late records; ``None`` counts and drops them. ``general`` insists on the general logic.

    >>> from operator import add
    >>> window = WindowSpec(UserFunction(len), TumblingEventTimeWindows.of(1000), Reduced(UserFunction(add)))
    >>> window.strategy, WindowSpec(UserFunction(len), GlobalWindows.create(), Reduced(UserFunction(add))).strategy
    (<Strategy.ALIGNED: 'aligned'>, <Strategy.GENERAL: 'general'>)
    """

    key: UserFunction
    assigner: WindowAssigner
    contents: Contents
    function: WindowCall | None = None
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_ms: int = 0
    late_tag: str | None = None
    general: bool = False

    def __post_init__(self) -> None:
        if self.allowed_lateness_ms < 0:
            raise InvalidProgram(f"allowed lateness cannot be negative, but is {self.allowed_lateness_ms} ms.")
        if self.contents.many and self.function is None:
            raise InvalidProgram(
                "a window without reduce or aggregate needs a function: call process(...) or apply(...)."
            )
        if isinstance(self.assigner, MergingWindowAssigner):
            trigger = self.chosen_trigger()
            merges = type(trigger).on_merge is not Trigger.on_merge  # of a default trigger Flink asks no more
            if not (trigger.can_merge() or (self.trigger is None and merges)):
                raise InvalidProgram(
                    f"A merging window assigner cannot be used with a trigger that does not support merging: "
                    f"{self.assigner!r} with {trigger!r}. Implement can_merge() and on_merge() in the trigger."
                )
            if not self.contents.mergeable:
                raise InvalidProgram(
                    f"{self.assigner!r} merges windows, but the aggregate function has no merge(a, b): add it."
                )

    def chosen_trigger(self) -> Trigger:
        """Return the trigger: the one given, or the assigner's default."""
        return self.trigger if self.trigger is not None else self.assigner.get_default_trigger(None)

    @property
    def strategy(self) -> Strategy:
        """The logic that runs this window."""
        return Strategy.GENERAL if self.general else self.layout

    @property
    def layout(self) -> Strategy:
        """The fast logic with the results of this window, which may run in the general one; ``GENERAL``: there is none."""
        if self._tumbling_count() or self._sliding_count():
            return Strategy.COUNTS
        if self.evictor is None and self._at_the_end():
            if type(self.assigner) in _ALIGNED:
                return Strategy.ALIGNED
            if type(self.assigner) in _SESSIONS:
                return Strategy.SESSIONS
        return Strategy.GENERAL

    @property
    def traits(self) -> OperatorTraits:
        """The key, the logic, and how to keep everything in keyed state."""
        key = LoopCall(self.key, label="key")
        loop: tuple[LoopCall, ...] = ()
        calls: tuple[LoopCall, ...] | None = None
        if self.strategy is Strategy.ALIGNED:
            loop = () if self.key.target is one_key else (key, *self.contents.adding_calls())
            if self.function is None and isinstance(self.contents, Reduced | Aggregated):
                calls = (key, *self.contents.calls())
        return OperatorTraits(
            keys=(self.key,),
            loop=loop,
            calls=calls,
            logic=f"{self.strategy.value} windows",
            in_keyed_state=self.in_keyed_state,
            keeps_type=self.function is None and isinstance(self.contents, Reduced),
            side_functions=() if self.function is None else (self.function.call,),
            event_time_windows=self.assigner.is_event_time(),
            lengths=self._lengths(),
            late_tag=self.late_tag,
        )

    def _lengths(self) -> tuple[tuple[str, int], ...]:
        of_windows = length_of(self.assigner) if self.assigner.is_event_time() else None
        return ("its windows last", of_windows or 0), ("its allowed lateness is", self.allowed_lateness_ms)

    def in_keyed_state(self) -> WindowSpec:
        """Return the same windows in the general logic, which keeps all that grows with its keys in keyed state.

        >>> from operator import add
        >>> tumbling = TumblingEventTimeWindows.of(1000)
        >>> WindowSpec(UserFunction(len), tumbling, Reduced(UserFunction(add))).in_keyed_state().strategy
        <Strategy.GENERAL: 'general'>
        """
        return replace(self, general=True)

    def build(self) -> Any:
        """Make the logic (``WindowDriver``)."""
        return late_operator(Operator, "funken.operators.window.driver:WindowDriver", self)

    def windows(self, driver: Any, strategy: Strategy | None = None) -> Any:
        """Make the windows whose contents are objects (``Windows``), of the logic of this spec or of another."""
        strategy = strategy or self.strategy
        sizes: tuple[Any, ...] = ()
        if strategy is Strategy.COUNTS:
            sizes = self._sliding_count() or (self._tumbling_count(),)
        return late_operator(object, f"funken.operators.window.{_WINDOWS[strategy]}", driver, *sizes)

    def arrays(self, driver: Any) -> Any:
        """Make the windows whose contents are arrays (``WindowArrays``); ``None``: there are none."""
        return None

    def _at_the_end(self) -> bool:
        """Return True if every window fires once, at its end, and takes no record after that."""
        trigger = self.chosen_trigger()
        if type(trigger) is PurgingTrigger:
            trigger = trigger.nested_trigger
        if self.assigner.is_event_time():
            return type(trigger) is EventTimeTrigger and self.allowed_lateness_ms == 0
        return type(trigger) is ProcessingTimeTrigger

    def _tumbling_count(self) -> int | None:
        """Return the size of tumbling count windows; ``None`` if this is something else."""
        trigger = self.chosen_trigger()
        nested = trigger.nested_trigger if type(trigger) is PurgingTrigger else None
        if type(nested) is not CountTrigger or self.evictor is not None:
            return None
        fits = type(self.assigner) is GlobalWindows or self.assigner == CountTumblingWindowAssigner(nested.window_size)
        return nested.window_size if fits else None

    def _sliding_count(self) -> tuple[int, int] | None:
        """Return size and slide of sliding count windows; ``None`` if this is something else."""
        trigger, evictor = self.trigger, self.evictor
        if type(self.assigner) is not GlobalWindows or type(trigger) is not CountTrigger:
            return None
        if type(evictor) is not CountEvictor or evictor.do_evict_after or evictor.max_count == 0:
            return None
        return evictor.max_count, trigger.window_size


__all__ = [
    "ONE_KEY",
    "Aggregated",
    "CallStyle",
    "Elements",
    "Reduced",
    "Strategy",
    "WindowCall",
    "WindowSpec",
]
